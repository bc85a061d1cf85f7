/*
 * Field values: tokens, lists, numbers, entity tags. (Dates: date.c; Cache-Control: cache_control.c.)
 * Everything reads views and allocates nothing.
 */
#include "edge/http/field.h"
#include "edge/http/chars.h"
#include "edge/http/parts.h"

#include <errno.h>

/* --- pieces */

bool http_token(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		if (!char_is(v.p[i], CHAR_TOKEN))
			return false;
	}
	return v.n > 0;
}

struct view http_trim(struct view v)
{
	while (v.n > 0 && char_blank(v.p[0]))
		v = view_skip(v, 1);
	while (v.n > 0 && char_blank(v.p[v.n - 1]))
		v.n--;
	return v;
}

size_t http_quoted_length(struct view v)
{
	if (v.n == 0 || v.p[0] != '"')
		return 0;
	for (size_t i = 1; i < v.n; i++) {
		if (v.p[i] == '"')
			return i + 1;
		if (v.p[i] == '\\')
			i++;
	}
	return 0;
}

/*
 * Up to the next comma outside quotes. Linear over a whole list, however often it is called: a quote
 * that is not closed has no other behind it but escaped ones, and those are stepped over here as
 * http_quoted_length did, so nobody searches again.
 */
static size_t element_length(struct view v)
{
	size_t i = 0;

	while (i < v.n && v.p[i] != ',') {
		size_t quoted = http_quoted_length(view_skip(v, i));
		bool pair = v.p[i] == '\\' && i + 1 < v.n && (v.p[i + 1] == '"' || v.p[i + 1] == '\\');
		i += quoted > 0 ? quoted : pair ? 2 : 1;
	}
	return i;
}

bool http_list_next(struct view *rest, struct view *out_element)
{
	while (rest->n > 0) {
		size_t n = element_length(*rest);
		struct view element = http_trim(view_of(rest->p, n));
		*rest = view_skip(*rest, n < rest->n ? n + 1 : n);
		if (element.n == 0)
			continue;
		*out_element = element;
		return true;
	}
	return false;
}

bool http_list_has(const struct http_fields *f, enum http_field_id id, struct view token)
{
	for (uint16_t i = 0; i < f->count; i++) {
		if (f->at[i].id != id)
			continue;
		struct view rest = f->at[i].value, element;
		while (http_list_next(&rest, &element)) {
			if (view_eq_nocase(element, token))
				return true;
		}
	}
	return false;
}

/* --- numbers */

int http_decimal(struct view v, uint64_t *out)
{
	uint64_t value = 0;

	if (v.n == 0)
		return -EINVAL;
	for (size_t i = 0; i < v.n; i++) {
		if (!char_is(v.p[i], CHAR_DIGIT) || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(v.p[i] - '0'), &value))
			return -EINVAL;
	}
	*out = value;
	return 0;
}

int http_delta_seconds(struct view v, int64_t *out)
{
	const int64_t most = INT64_C(1) << 31; /* RFC 9111 §1.2.2 */
	int64_t value = 0;

	if (v.n == 0)
		return -EINVAL;
	for (size_t i = 0; i < v.n; i++) {
		if (!char_is(v.p[i], CHAR_DIGIT))
			return -EINVAL;
		value = value * 10 + (v.p[i] - '0');
		if (value > most)
			value = most;
	}
	*out = value;
	return 0;
}

/* --- entity tags */

/* An entity tag at the beginning of v. Returns its length, or 0. (A backslash in it is a plain
 * character, so lists of tags are not lists of quoted strings.) */
static size_t etag_at(struct view v, struct http_etag *out)
{
	size_t open = v.n >= 2 && v.p[0] == 'W' && v.p[1] == '/' ? 2 : 0;

	if (open >= v.n || v.p[open] != '"')
		return 0;
	for (size_t i = open + 1; i < v.n; i++) {
		if (v.p[i] == '"') {
			*out = (struct http_etag){ view_of(v.p + open, i + 1 - open), open > 0 };
			return i + 1;
		}
		if ((uint8_t)v.p[i] <= 0x20 || v.p[i] == 0x7f)
			return 0;
	}
	return 0;
}

int http_etag_parse(struct view v, struct http_etag *out)
{
	struct http_etag tag;

	if (v.n == 0 || etag_at(v, &tag) != v.n)
		return -EINVAL;
	*out = tag;
	return 0;
}

/* The next tag of a list. False: none left, or what comes is no tag; then nothing behind it counts,
 * so that no tag is found inside of something else. */
static bool etag_next(struct view *rest, struct http_etag *out)
{
	struct view v = *rest;

	while (v.n > 0 && (char_blank(v.p[0]) || v.p[0] == ','))
		v = view_skip(v, 1);
	size_t n = etag_at(v, out);
	*rest = http_trim(view_skip(v, n));
	return n > 0 && (rest->n == 0 || rest->p[0] == ',');
}

bool http_etag_listed(const struct http_fields *f, enum http_field_id id,
		      const struct http_etag *tag, bool weak)
{
	const struct http_field *line = http_fields_first(f, id);

	for (; line != NULL; line = http_fields_next(f, line)) {
		struct view rest = line->value;
		struct http_etag listed;
		if (view_eq(rest, VIEW("*")))
			return true;
		while (etag_next(&rest, &listed)) {
			if ((weak || (!listed.weak && !tag->weak)) && view_eq(listed.opaque, tag->opaque))
				return true;
		}
	}
	return false;
}
