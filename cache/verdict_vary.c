/*
 * Vary (RFC 9111 §4.1) as keys need it: a response's rule, and what a request has for each name in it.
 *
 * Two requests share a variant only where the origin would have seen the same bytes, but for how
 * they were spread over lines. Nothing cleverer is tried (sorting lists, dropping weights): that would
 * need to know each field's syntax, and a wrong guess serves one client another's variant.
 */
#include "cache/verdict.h"

#include "cache/cache.h"
#include "edge/base/hash.h"

#include <errno.h>

/* Distinct names, sorted, and what they take with their commas. */
struct vary_names {
	struct view at[CACHE_VARY_MAX / 2];
	size_t count, bytes;
};

static int vary_add(struct vary_names *names, struct view name, size_t capacity);
static void vary_write(const struct vary_names *names, char *out);
static const struct http_field *sent_line(const struct http_fields *f, struct view name, uint16_t *at);
static size_t vary_hashed(const struct http_fields *f, struct view name, char *out);

int verdict_vary_rule(const struct http_response *rs, char *out, size_t capacity, size_t *out_bytes)
{
	const struct http_fields *f = &rs->fields;
	struct vary_names names;

	names.count = names.bytes = 0;
	for (const struct http_field *at = http_fields_first(f, FIELD_VARY); at != NULL;
	     at = http_fields_next(f, at)) {
		struct view rest = at->value, name;
		while (http_list_next(&rest, &name)) {
			int rc = vary_add(&names, name, capacity);
			if (rc < 0)
				return rc;
		}
	}
	vary_write(&names, out);
	*out_bytes = names.bytes;
	return 0;
}

size_t verdict_vary_value(const struct http_request *rq, struct view name, char *out, size_t capacity)
{
	const struct http_field *line;
	size_t n = 0;
	bool any = false;

	CHECK(capacity >= VERDICT_VARY_VALUE_MIN);
	for (uint16_t at = 0; (line = sent_line(&rq->fields, name, &at)) != NULL; any = true) {
		size_t separator_bytes = any ? 2 : 0;
		if (line->value.n > capacity - n || separator_bytes > capacity - n - line->value.n)
			return vary_hashed(&rq->fields, name, out);
		if (any)
			memcpy(out + n, ", ", 2);
		if (line->value.n > 0)
			memcpy(out + n + separator_bytes, line->value.p, line->value.n);
		n += separator_bytes + line->value.n;
	}
	/* RFC 9111 §4.1: an absent field matches an absent one only. */
	if (any && n == 0)
		out[n++] = ' ';
	return n;
}

static int order_nocase(struct view a, struct view b)
{
	int order = strncasecmp(a.p, b.p, a.n < b.n ? a.n : b.n);

	if (order == 0 && a.n != b.n)
		order = a.n < b.n ? -1 : 1;
	return order;
}

/* Where name is, or would be. */
static size_t vary_place(const struct vary_names *names, struct view name)
{
	size_t from = 0, to = names->count;

	while (from < to) {
		size_t middle = (from + to) / 2;
		if (order_nocase(names->at[middle], name) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static int vary_add(struct vary_names *names, struct view name, size_t capacity)
{
	/* What is no field name can't be matched, just as "*". */
	if (view_eq(name, VIEW("*")) || !http_token(name))
		return -ENOENT;
	size_t i = vary_place(names, name);
	if (i < names->count && order_nocase(names->at[i], name) == 0)
		return 0;
	size_t bytes = names->bytes + (names->count > 0) + name.n;
	if (bytes > capacity || names->count == ARRAY_LEN(names->at))
		return -E2BIG;
	memmove(&names->at[i + 1], &names->at[i], (names->count - i) * sizeof(names->at[0]));
	names->at[i] = name;
	names->count++;
	names->bytes = bytes;
	return 0;
}

static void vary_write(const struct vary_names *names, char *out)
{
	for (size_t i = 0; i < names->count; i++) {
		if (i > 0)
			*out++ = ',';
		for (size_t k = 0; k < names->at[i].n; k++) {
			char c = names->at[i].p[k];
			*out++ = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
		}
	}
}

/* The next line of a field that the origin will see. */
static const struct http_field *sent_line(const struct http_fields *f, struct view name, uint16_t *at)
{
	const struct http_field *line;

	while ((line = http_fields_find(f, name, at)) != NULL)
		if (!line->dropped)
			return line;
	return NULL;
}

/* All lines, one after the other, so that a value of any length needs no memory. A value never begins
 * with a space, hence the mark. */
static size_t vary_hashed(const struct http_fields *f, struct view name, char *out)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t hash[16] = { 0 };
	const struct http_field *line;
	size_t n = 0;

	for (uint16_t at = 0; (line = sent_line(f, name, &at)) != NULL;) {
		struct view parts[] = { view_of((const char *)hash, sizeof(hash)), line->value };
		hash_sha256_128(parts, ARRAY_LEN(parts), hash);
	}
	out[n++] = ' ';
	out[n++] = '#';
	for (size_t i = 0; i < sizeof(hash); i++) {
		out[n++] = digits[hash[i] >> 4];
		out[n++] = digits[hash[i] & 15];
	}
	return n;
}
