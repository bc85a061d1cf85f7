/*
 * Ranges. What is asked for is kept apart from what is sent, since the length is known only when
 * the object is; and a set that costs more than it saves is not served as a set: more than two
 * ranges that overlap give the whole (RFC 9110 §14.2 allows it), and ranges that overlap, touch
 * or lie closer than a part's own text is long become one (§15.3.7.2).
 */
#include "edge/http/range.h"
#include "edge/http/chars.h"
#include "edge/http/field.h"

#include <errno.h>

enum {
	GAP_BYTES = 80, /* what a part costs, as §15.3.7.2 reckons */
	OVERLAPPING_MAX = 2,
};

static bool take_char(struct view *v, char c)
{
	if (v->n == 0 || v->p[0] != c)
		return false;
	*v = view_skip(*v, 1);
	return true;
}

/* --- what is asked for */

/* 1*DIGIT. What doesn't fit is as good as the largest that does. */
static bool take_position(struct view *v, uint64_t *out)
{
	uint64_t value = 0;
	bool over = false;
	size_t n = 0;

	for (; n < v->n && char_is(v->p[n], CHAR_DIGIT); n++) {
		over |= __builtin_mul_overflow(value, 10, &value);
		over |= __builtin_add_overflow(value, (uint64_t)(v->p[n] - '0'), &value);
	}
	*v = view_skip(*v, n);
	*out = over ? UINT64_MAX : value;
	return n > 0;
}

/* §14.1.1: «first-», «first-last» or «-length». */
static bool spec_parse(struct view v, struct http_ranges *out)
{
	uint64_t first = 0, last = UINT64_MAX;
	bool suffix = !take_position(&v, &first);

	if (!take_char(&v, '-'))
		return false;
	bool has_last = take_position(&v, &last);
	if (v.n > 0 || (suffix && !has_last) || (has_last && !suffix && last < first))
		return false;
	out->at[out->count].first = first;
	out->at[out->count].last = has_last ? last : UINT64_MAX;
	out->at[out->count].suffix = suffix;
	out->count++;
	return true;
}

/* Units are compared without case (§14.1). */
static bool take_unit(struct view *v, struct view unit)
{
	if (v->n < unit.n || !view_eq_nocase(view_of(v->p, unit.n), unit))
		return false;
	*v = view_skip(*v, unit.n);
	return true;
}

int http_ranges_parse(const struct http_fields *request, struct http_ranges *out)
{
	const struct http_field *line = http_fields_first(request, FIELD_RANGE);
	struct http_ranges ranges = { .count = 0 };

	if (line == NULL)
		return -ENOENT;
	struct view rest = line->value, spec;
	if (http_fields_next(request, line) != NULL || !take_unit(&rest, VIEW("bytes=")))
		return -EINVAL;
	if (rest.n > 0 && char_blank(rest.p[0]))
		return -EINVAL; /* a list begins with an element or a comma */
	while (http_list_next(&rest, &spec)) {
		if (ranges.count == HTTP_RANGES_MAX)
			return -E2BIG;
		if (!spec_parse(spec, &ranges))
			return -EINVAL;
	}
	if (ranges.count == 0)
		return -EINVAL;
	*out = ranges;
	return 0;
}

/* --- what is sent */

/* §14.1.2: satisfiable are ranges that begin within the representation, and suffixes that aren't
 * empty. */
static bool spec_resolve(const struct http_ranges *asked, uint16_t i, uint64_t length,
			 struct http_range *out)
{
	uint64_t first = asked->at[i].first, last = asked->at[i].last;

	if (asked->at[i].suffix) {
		*out = (struct http_range){ last < length ? length - last : 0, length - 1 };
		return last > 0;
	}
	*out = (struct http_range){ first, last < length ? last : length - 1 };
	return first < length;
}

static bool overlap(struct http_range a, struct http_range b)
{
	return a.first <= b.last && b.first <= a.last;
}

static unsigned overlapping(const struct http_parts *p)
{
	unsigned n = 0;

	for (uint16_t i = 0; i < p->count; i++) {
		bool any = false;
		for (uint16_t j = 0; j < p->count; j++)
			any |= j != i && overlap(p->at[i], p->at[j]);
		n += any;
	}
	return n;
}

static bool near(struct http_range a, struct http_range b)
{
	if (overlap(a, b))
		return true;
	return a.first > b.last ? a.first - b.last <= GAP_BYTES : b.first - a.last <= GAP_BYTES;
}

static void part_remove(struct http_parts *p, uint16_t i)
{
	p->count--;
	memmove(&p->at[i], &p->at[i + 1], (size_t)(p->count - i) * sizeof(p->at[0]));
}

/* Each takes in what is near it, and, having grown, looks at all behind it again. It can't come
 * near one before it by that: that one would have been near one of the two. */
static void coalesce(struct http_parts *p)
{
	for (uint16_t i = 0; i < p->count; i++) {
		uint16_t j = i + 1;
		while (j < p->count) {
			struct http_range *a = &p->at[i], b = p->at[j];
			if (!near(*a, b)) {
				j++;
				continue;
			}
			a->first = a->first < b.first ? a->first : b.first;
			a->last = a->last > b.last ? a->last : b.last;
			part_remove(p, j);
			j = i + 1;
		}
	}
}

enum http_range_answer http_ranges_resolve(const struct http_ranges *asked, uint64_t length,
					   struct http_parts *out)
{
	struct http_parts parts = { .length = length };

	for (uint16_t i = 0; i < asked->count; i++) {
		if (spec_resolve(asked, i, length, &parts.at[parts.count]))
			parts.count++;
	}
	if (parts.count == 0)
		return RANGE_UNSATISFIABLE;
	/* A suffix of nothing is satisfiable, but no Content-Range can say it. */
	if (length == 0 || overlapping(&parts) > OVERLAPPING_MAX)
		return RANGE_WHOLE;
	coalesce(&parts);
	*out = parts;
	return RANGE_PARTIAL;
}

/* --- Content-Range */

static int range_parse(struct view v, struct http_range *out)
{
	const char *dash = memchr(v.p, '-', v.n);
	struct http_range r;

	if (dash == NULL)
		return -EINVAL;
	size_t n = (size_t)(dash - v.p);
	if (http_decimal(view_of(v.p, n), &r.first) < 0 ||
	    http_decimal(view_skip(v, n + 1), &r.last) < 0 || r.last < r.first)
		return -EINVAL;
	*out = r;
	return 0;
}

int http_content_range_parse(struct view v, struct http_content_range *out)
{
	struct http_content_range c = { .unsatisfied = false };

	if (!take_unit(&v, VIEW("bytes ")))
		return -EINVAL;
	const char *slash = memchr(v.p, '/', v.n);
	if (slash == NULL)
		return -EINVAL;
	struct view range = view_of(v.p, (size_t)(slash - v.p));
	if (http_decimal(view_skip(v, range.n + 1), &c.length) < 0)
		return -EINVAL;
	c.unsatisfied = view_eq(range, VIEW("*"));
	if (!c.unsatisfied && (range_parse(range, &c.range) < 0 || c.range.last >= c.length))
		return -EINVAL;
	*out = c;
	return 0;
}

/* --- writing: what doesn't fit is counted all the same */

struct text {
	char *p;
	size_t room, n;
};

static void put(struct text *t, struct view v)
{
	if (v.n > 0 && t->n <= t->room && v.n <= t->room - t->n)
		memcpy(t->p + t->n, v.p, v.n);
	t->n += v.n;
}

static void put_number(struct text *t, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	put(t, view_of(digits + at, sizeof(digits) - at));
}

static void put_content_range(struct text *t, const struct http_content_range *c)
{
	put(t, VIEW("bytes "));
	if (c->unsatisfied) {
		put(t, VIEW("*"));
	} else {
		put_number(t, c->range.first);
		put(t, VIEW("-"));
		put_number(t, c->range.last);
	}
	put(t, VIEW("/"));
	put_number(t, c->length);
}

size_t http_content_range_format(const struct http_content_range *c, char out[HTTP_CONTENT_RANGE_MAX])
{
	struct text t = { .p = out, .room = HTTP_CONTENT_RANGE_MAX };

	put_content_range(&t, c);
	CHECK(t.n <= t.room);
	return t.n;
}

/* RFC 2046 §5.1.1: the line break before a boundary belongs to the boundary. */
size_t http_part_head(const struct http_multipart *m, uint16_t i, char *out, size_t room)
{
	struct text t = { .p = out, .room = room };

	put(&t, i > 0 ? VIEW("\r\n--") : VIEW("--"));
	put(&t, m->boundary);
	if (i == m->parts->count) {
		put(&t, VIEW("--\r\n"));
		return t.n;
	}
	if (m->content_type.n > 0) {
		put(&t, VIEW("\r\nContent-Type: "));
		put(&t, m->content_type);
	}
	put(&t, VIEW("\r\nContent-Range: "));
	put_content_range(&t, &(struct http_content_range){ .range = m->parts->at[i],
							    .length = m->parts->length });
	put(&t, VIEW("\r\n\r\n"));
	return t.n;
}

uint64_t http_multipart_bytes(const struct http_multipart *m)
{
	uint64_t n = http_part_head(m, m->parts->count, NULL, 0);

	for (uint16_t i = 0; i < m->parts->count; i++)
		n += http_part_head(m, i, NULL, 0) + (m->parts->at[i].last - m->parts->at[i].first + 1);
	return n;
}
