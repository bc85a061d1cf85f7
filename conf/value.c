/*
 * The written forms of values. Everything is digits and a unit, without spaces, signs or
 * fractions: one way to write a thing, and a typing slip is a fault instead of a surprise.
 */
#include "conf/value.h"

#include <errno.h>

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit duration_units[] = {
	{ "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 },
};

static const struct unit size_units[] = {
	{ "B", 1 },
	{ "KB", 1000 },
	{ "kB", 1000 },
	{ "MB", 1000000 },
	{ "GB", 1000000000 },
	{ "TB", 1000000000000 },
	{ "KiB", 1ULL << 10 },
	{ "MiB", 1ULL << 20 },
	{ "GiB", 1ULL << 30 },
	{ "TiB", 1ULL << 40 },
};

/* Leading digits; *v is moved behind them. */
static int take_number(struct view *v, uint64_t *out)
{
	uint64_t number = 0;
	size_t i = 0;

	for (; i < v->n && v->p[i] >= '0' && v->p[i] <= '9'; i++) {
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(v->p[i] - '0'), &number))
			return -ERANGE;
	}
	if (i == 0)
		return -EINVAL;
	*v = view_skip(*v, i);
	*out = number;
	return 0;
}

static int number_with_unit(struct view v, const struct unit *units, size_t count, uint64_t *out)
{
	uint64_t number;
	int err = take_number(&v, &number);

	if (err < 0)
		return err;
	for (size_t i = 0; i < count; i++) {
		if (!view_eq(v, view_str(units[i].name)))
			continue;
		if (__builtin_mul_overflow(number, units[i].factor, &number) || number > INT64_MAX)
			return -ERANGE;
		*out = number;
		return 0;
	}
	return -EINVAL;
}

int conf_value_duration(struct view v, int64_t *out_ms)
{
	uint64_t ms;
	int err = number_with_unit(v, duration_units, ARRAY_LEN(duration_units), &ms);

	if (err < 0)
		return err;
	*out_ms = (int64_t)ms;
	return 0;
}

int conf_value_size(struct view v, uint64_t *out_bytes)
{
	return number_with_unit(v, size_units, ARRAY_LEN(size_units), out_bytes);
}

int conf_value_percent(struct view v, uint8_t *out_percent)
{
	uint64_t number;
	int err = take_number(&v, &number);

	if (err < 0)
		return err;
	if (!view_eq(v, VIEW("%")))
		return -EINVAL;
	if (number < 1 || number > 100)
		return -ERANGE;
	*out_percent = (uint8_t)number;
	return 0;
}

int conf_value_status(struct view v, uint16_t *out_from, uint16_t *out_to)
{
	if (v.n != 3 || v.p[0] < '2' || v.p[0] > '5')
		return -EINVAL;
	uint16_t hundred = (uint16_t)((v.p[0] - '0') * 100);

	if (v.p[1] == 'x' && v.p[2] == 'x') {
		*out_from = hundred;
		*out_to = hundred + 99;
		return 0;
	}
	if (v.p[1] < '0' || v.p[1] > '9' || v.p[2] < '0' || v.p[2] > '9')
		return -EINVAL;
	*out_from = *out_to = (uint16_t)(hundred + (v.p[1] - '0') * 10 + (v.p[2] - '0'));
	return 0;
}

int conf_value_status_range(struct view v, uint16_t *out_from, uint16_t *out_to)
{
	uint16_t from, to, same;

	if (v.n != 7 || v.p[3] != '-')
		return conf_value_status(v, out_from, out_to);
	if (conf_value_status(view_of(v.p, 3), &from, &same) < 0 || same != from ||
	    conf_value_status(view_skip(v, 4), &to, &same) < 0 || same != to || from > to)
		return -EINVAL;
	*out_from = from;
	*out_to = to;
	return 0;
}

int conf_value_mode(struct view v, uint32_t *out_mode)
{
	uint32_t mode = 0;

	if (v.n < 3 || v.n > 4)
		return -EINVAL;
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] < '0' || v.p[i] > '7')
			return -EINVAL;
		mode = mode * 8 + (uint32_t)(v.p[i] - '0');
	}
	if (mode > 0777)
		return -ERANGE;
	*out_mode = mode;
	return 0;
}

static bool domain_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool conf_value_domain(struct view v)
{
	size_t label = 0;

	if (v.n == 0 || v.n > 253)
		return false;
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] == '.' && label == 0)
			return false;
		if (v.p[i] != '.' && (!domain_char(v.p[i]) || ++label > 63))
			return false;
		if (v.p[i] == '.')
			label = 0;
	}
	return label > 0;
}
