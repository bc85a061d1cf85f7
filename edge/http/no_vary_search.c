/*
 * No-Vary-Search. Names and values are compared as bytes while they are decoded, through one
 * iterator that knows both spellings (in the URL, and in the field, where the String has
 * backslashes, too), so that nothing is copied before the normal form is written.
 *
 * Not done: to decode invalid UTF-8 to U+FFFD, as browsers do. It would make different bytes
 * equal.
 */
#include "edge/http/no_vary_search.h"
#include "edge/http/chars.h"
#include "edge/http/sf.h"
#include "edge/http/utf8.h"

#include <errno.h>
#include <stdlib.h>

/* --- decoding */

/* The next byte of a percent-encoded text, where "+" is a space. In a query a backslash is
 * itself. */
static bool byte_next(struct view *v, bool string, uint8_t *out)
{
	if (v->n == 0)
		return false;
	if (string && v->p[0] == '\\' && v->n > 1)
		*v = view_skip(*v, 1);
	size_t n = 1;
	*out = v->p[0] == '+' ? ' ' : (uint8_t)v->p[0];
	if (v->p[0] == '%' && v->n >= 3 && char_is(v->p[1], CHAR_HEX) && char_is(v->p[2], CHAR_HEX)) {
		*out = (uint8_t)(char_hex(v->p[1]) * 16 + char_hex(v->p[2]));
		n = 3;
	}
	*v = view_skip(*v, n);
	return true;
}

static bool decodes_to_utf8(struct view v, bool string)
{
	struct utf8 text = { .left = 0 };
	uint8_t byte;

	while (byte_next(&v, string, &byte)) {
		if (!utf8_byte(&text, byte))
			return false;
	}
	return text.left == 0;
}

/* By decoded bytes. */
static int compare(struct view a, struct view b, bool b_string)
{
	uint8_t byte_a, byte_b;

	for (;;) {
		bool more_a = byte_next(&a, false, &byte_a), more_b = byte_next(&b, b_string, &byte_b);
		if (!more_a || !more_b)
			return (int)more_a - (int)more_b;
		if (byte_a != byte_b)
			return byte_a < byte_b ? -1 : 1;
	}
}

/* --- the field (§4.1) */

static int names_read(const struct sf_item *list, struct http_no_vary_search *out)
{
	struct view rest = list->text;
	struct sf_item name;

	out->count = 0;
	while (sf_inner_next(&rest, &name)) {
		if (name.type != SF_STRING || !decodes_to_utf8(name.text, true) ||
		    out->count == NO_VARY_NAMES_MAX)
			return -EINVAL;
		out->names[out->count++] = name.text;
	}
	return 0;
}

struct members {
	struct sf_item key_order, params, except;
	bool has_except;
};

/* As the field's fallbacks have it, and the last instance of each where it is there. */
static int members_read(const struct http_fields *f, struct members *out)
{
	const struct sf_item no = { .type = SF_BOOLEAN, .number = 0 };
	struct sf_cursor c;
	struct sf_member m;
	int rc = sf_dictionary(f, VIEW("No-Vary-Search"), &c);

	*out = (struct members){ .key_order = no, .params = no };
	while (rc == 0 && sf_next(&c, &m)) {
		if (view_eq(m.key, VIEW("key-order")))
			out->key_order = m.value;
		if (view_eq(m.key, VIEW("params")))
			out->params = m.value;
		if (!view_eq(m.key, VIEW("except")))
			continue;
		out->except = m.value;
		out->has_except = true;
	}
	return rc;
}

static int members_apply(const struct members *m, struct http_no_vary_search *s)
{
	if (m->key_order.type != SF_BOOLEAN)
		return -EINVAL;
	s->any_order = m->key_order.number == 1;
	s->all_but = m->params.type == SF_BOOLEAN && m->params.number == 1;
	s->count = 0;
	if (m->has_except) {
		if (!s->all_but || m->except.type != SF_INNER_LIST)
			return -EINVAL;
		return names_read(&m->except, s);
	}
	if (m->params.type == SF_BOOLEAN)
		return 0;
	return m->params.type == SF_INNER_LIST ? names_read(&m->params, s) : -EINVAL;
}

int http_no_vary_search(const struct http_fields *response, struct http_no_vary_search *out)
{
	struct http_no_vary_search s;
	struct members m;

	if (members_read(response, &m) < 0 || members_apply(&m, &s) < 0)
		return -ENOENT;
	if (!s.any_order && !s.all_but && s.count == 0)
		return -ENOENT;
	*out = s;
	return 0;
}

/* --- the query (§5) */

struct pair {
	struct view name, value;
};

/* The next piece between "&" that isn't empty. */
static bool pair_next(struct view *rest, struct pair *out)
{
	while (rest->n > 0) {
		const char *end = memchr(rest->p, '&', rest->n);
		struct view piece = view_of(rest->p, end != NULL ? (size_t)(end - rest->p) : rest->n);
		*rest = view_skip(*rest, end != NULL ? piece.n + 1 : piece.n);
		if (piece.n == 0)
			continue;
		const char *equals = memchr(piece.p, '=', piece.n);
		size_t n = equals != NULL ? (size_t)(equals - piece.p) : piece.n;
		out->name = view_of(piece.p, n);
		out->value = view_skip(piece, equals != NULL ? n + 1 : n);
		return true;
	}
	return false;
}

static bool matters(const struct http_no_vary_search *s, struct view name)
{
	for (uint16_t i = 0; i < s->count; i++) {
		if (compare(name, s->names[i], true) == 0)
			return s->all_but;
	}
	return !s->all_but;
}

/* The place in the query decides between equal names. */
static int order(const void *a, const void *b)
{
	const struct pair *first = a, *second = b;
	int by_name = compare(first->name, second->name, false);

	if (by_name != 0)
		return by_name;
	return first->name.p < second->name.p ? -1 : first->name.p > second->name.p;
}

static size_t encode(struct view v, char *out)
{
	static const char digits[] = "0123456789ABCDEF";
	uint8_t byte;
	size_t n = 0;

	while (byte_next(&v, false, &byte)) {
		if (char_is((char)byte, CHAR_UNRESERVED)) {
			out[n++] = (char)byte;
			continue;
		}
		out[n++] = '%';
		out[n++] = digits[byte >> 4];
		out[n++] = digits[byte & 15];
	}
	return n;
}

static size_t pair_write(const struct pair *p, char *out)
{
	size_t n = encode(p->name, out);

	out[n++] = '=';
	return n + encode(p->value, out + n);
}

static size_t itself(struct view query, char *out)
{
	if (query.n > 0)
		memcpy(out, query.p, query.n);
	return query.n;
}

size_t http_no_vary_normalise(const struct http_no_vary_search *s, struct view query, char *out)
{
	struct pair pairs[NO_VARY_PAIRS_MAX], pair;
	struct view rest = query;
	size_t read = 0, kept = 0, n = 0;

	while (pair_next(&rest, &pair)) {
		if (read++ == NO_VARY_PAIRS_MAX || !decodes_to_utf8(pair.name, false) ||
		    !decodes_to_utf8(pair.value, false))
			return itself(query, out);
		if (matters(s, pair.name))
			pairs[kept++] = pair;
	}
	if (s->any_order)
		qsort(pairs, kept, sizeof(pairs[0]), order);
	for (size_t i = 0; i < kept; i++) {
		if (i > 0)
			out[n++] = '&';
		n += pair_write(&pairs[i], out + n);
	}
	return n;
}
