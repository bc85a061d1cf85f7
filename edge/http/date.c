/*
 * Dates as HTTP writes them (RFC 9110 §5.6.7). Neither strptime nor timegm: both listen to the
 * locale or the time zone, and accept what is no date. A date is read by a template: one letter
 * for each kind of piece, anything else stands for itself.
 */
#include "edge/http/chars.h"
#include "edge/http/field.h"

#include <errno.h>

struct calendar {
	int year, month, day; /* month 1..12 */
	int hour, minute, second;
	bool two_digits; /* of the year */
};

static const char *const day_names[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
					 "Thursday", "Friday", "Saturday" };
static const char *const month_names[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };

/* w short weekday, W long one; d day, a day padded with a space; b month, y year of two digits,
 * Y of four; h, m, s. */
static const char *const templates[] = {
	"w, d b Y h:m:s GMT",
	"W, d-b-y h:m:s GMT",
	"w b a h:m:s Y",
};

/* --- days since 1970 (proleptic Gregorian; years begin in March, so that leap days come last) */

static int64_t days_from(int year, int month, int day)
{
	int64_t y = year - (month <= 2);
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t of_era = y - era * 400;
	int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void days_to(int64_t days, struct calendar *out)
{
	days += 719468;
	int64_t era = (days >= 0 ? days : days - 146096) / 146097;
	int64_t of_era = days - era * 146097;
	int64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * years + years / 4 - years / 100);
	int64_t month = (5 * of_year + 2) / 153;

	out->day = (int)(of_year - (153 * month + 2) / 5 + 1);
	out->month = (int)(month < 10 ? month + 3 : month - 9);
	out->year = (int)(years + era * 400 + (out->month <= 2));
}

/* --- reading */

static bool take_number(struct view *v, size_t digits, int *out)
{
	int value = 0;

	if (v->n < digits)
		return false;
	for (size_t i = 0; i < digits; i++) {
		if (!char_is(v->p[i], CHAR_DIGIT))
			return false;
		value = value * 10 + (v->p[i] - '0');
	}
	*v = view_skip(*v, digits);
	*out = value;
	return true;
}

static bool take_word(struct view *v, struct view word)
{
	if (v->n < word.n || !view_eq_nocase(view_of(v->p, word.n), word))
		return false;
	*v = view_skip(*v, word.n);
	return true;
}

static bool take_weekday(struct view *v, bool whole)
{
	for (size_t i = 0; i < ARRAY_LEN(day_names); i++) {
		struct view name = view_str(day_names[i]);
		if (take_word(v, whole ? name : view_of(name.p, 3)))
			return true;
	}
	return false;
}

static bool take_month(struct view *v, int *out)
{
	for (size_t i = 0; i < ARRAY_LEN(month_names); i++) {
		if (take_word(v, view_of(month_names[i], 3))) {
			*out = (int)i + 1;
			return true;
		}
	}
	return false;
}

static bool take_padded_day(struct view *v, int *out)
{
	if (!take_word(v, VIEW(" ")))
		return take_number(v, 2, out);
	return take_number(v, 1, out);
}

static bool take(struct view *v, const char *piece, struct calendar *c)
{
	switch (*piece) {
	case 'w':
	case 'W':
		return take_weekday(v, *piece == 'W');
	case 'd':
		return take_number(v, 2, &c->day);
	case 'a':
		return take_padded_day(v, &c->day);
	case 'b':
		return take_month(v, &c->month);
	case 'y':
		c->two_digits = true;
		return take_number(v, 2, &c->year);
	case 'Y':
		return take_number(v, 4, &c->year);
	case 'h':
		return take_number(v, 2, &c->hour);
	case 'm':
		return take_number(v, 2, &c->minute);
	case 's':
		return take_number(v, 2, &c->second);
	default:
		return take_word(v, view_of(piece, 1));
	}
}

static bool matches(struct view v, const char *template, struct calendar *c)
{
	for (; *template != '\0'; template ++) {
		if (!take(&v, template, c))
			return false;
	}
	return v.n == 0;
}

static int64_t calendar_ms(const struct calendar *c)
{
	int64_t days = days_from(c->year, c->month, c->day);

	return (((days * 24 + c->hour) * 60 + c->minute) * 60 + c->second) * 1000;
}

/* A second of 60 is a leap second. */
static bool valid(const struct calendar *c)
{
	int64_t first = days_from(c->year, c->month, 1);
	int64_t next = c->month == 12 ? days_from(c->year + 1, 1, 1)
				      : days_from(c->year, c->month + 1, 1);

	return c->day >= 1 && c->day <= next - first && c->hour <= 23 && c->minute <= 59 &&
	       c->second <= 60;
}

/* RFC 9110 §5.6.7: a date that seems more than 50 years ahead is the last one in the past. */
static void choose_century(struct calendar *c)
{
	struct calendar now;
	struct wall today = clock_wall();

	days_to(today.ms / 86400000, &now);
	c->year += now.year / 100 * 100;
	if (c->year < now.year - 49)
		c->year += 100;
	struct calendar limit = *c;
	limit.year -= 50;
	if (calendar_ms(&limit) > today.ms)
		c->year -= 100;
}

int http_date_parse(struct view v, struct wall *out)
{
	for (size_t i = 0; i < ARRAY_LEN(templates); i++) {
		struct calendar c = { .two_digits = false };
		if (!matches(v, templates[i], &c))
			continue;
		if (c.two_digits)
			choose_century(&c);
		if (!valid(&c))
			return -EINVAL;
		out->ms = calendar_ms(&c);
		return 0;
	}
	return -EINVAL;
}

/* --- writing */

static char *put_number(char *p, int value, int digits)
{
	for (int i = digits - 1; i >= 0; i--) {
		p[i] = (char)('0' + value % 10);
		value /= 10;
	}
	return p + digits;
}

static char *put(char *p, const char *text, size_t n)
{
	memcpy(p, text, n);
	return p + n;
}

/* What has no four-digit year is written as the nearest date that has one. */
static int64_t writable_seconds(struct wall t)
{
	const int64_t least = days_from(0, 1, 1) * 86400;
	const int64_t most = days_from(10000, 1, 1) * 86400 - 1;
	int64_t seconds = t.ms / 1000 - (t.ms % 1000 < 0);

	return seconds < least ? least : seconds > most ? most : seconds;
}

void http_date_format(struct wall t, char out[HTTP_DATE_BYTES])
{
	int64_t seconds = writable_seconds(t);
	int64_t days = seconds / 86400 - (seconds % 86400 < 0);
	int of_day = (int)(seconds - days * 86400);
	struct calendar c;
	char *p = out;

	days_to(days, &c);
	p = put(p, day_names[((days + 4) % 7 + 7) % 7], 3);
	p = put(p, ", ", 2);
	p = put_number(p, c.day, 2);
	*p++ = ' ';
	p = put(p, month_names[c.month - 1], 3);
	*p++ = ' ';
	p = put_number(p, c.year, 4);
	*p++ = ' ';
	p = put_number(p, of_day / 3600, 2);
	*p++ = ':';
	p = put_number(p, of_day / 60 % 60, 2);
	*p++ = ':';
	p = put_number(p, of_day % 60, 2);
	put(p, " GMT", 4);
}
