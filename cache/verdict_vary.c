/*
 * Vary (RFC 9111 §4.1) as keys need it: a response's rule, and what a request has for each name in it.
 *
 * Two requests share a variant only where what the origin saw means the same whatever it makes of it:
 * lines are joined, and blanks beside a list's commas don't count, but for fields that are known to be no
 * lists. Beyond that a field's syntax has to be known, and a wrong guess serves one client another's
 * variant: the case of languages, codings and charsets, and blanks beside their weights.
 */
#include "cache/verdict.h"

#include "cache/cache.h"
#include "edge/base/hash.h"
#include "edge/http/accept.h"
#include "edge/http/chars.h"

#include <errno.h>

/* Distinct names, sorted, and what they take with their commas. */
struct vary_names {
	struct view at[CACHE_VARY_MAX / 2];
	size_t count, bytes;
};

/* A value being written. */
struct vary_value {
	char *out;
	size_t capacity, n;
	bool too_long;
};

/* What may be spelled in several ways without a change of meaning. */
enum {
	SPELLING_LIST = 1 << 0,	   /* blanks beside commas */
	SPELLING_WEIGHTS = 1 << 1, /* blanks beside semicolons */
	SPELLING_CASE = 1 << 2,
};

static int vary_add(struct vary_names *names, struct view name, size_t capacity);
static void vary_write(const struct vary_names *names, char *out);
static unsigned spelling_of(struct view name);
static const struct http_field *sent_line(const struct http_fields *f, struct view name, uint16_t *at);
static void value_put(struct vary_value *v, struct view line, unsigned spelling);
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
	struct vary_value v = { .out = out, .capacity = capacity };
	unsigned spelling = spelling_of(name);
	const struct http_field *line;
	bool any = false;

	CHECK(capacity >= VERDICT_VARY_VALUE_MIN);
	for (uint16_t at = 0; (line = sent_line(&rq->fields, name, &at)) != NULL; any = true) {
		if (any)
			value_put(&v, VIEW(","), 0);
		value_put(&v, line->value, spelling);
	}
	if (v.too_long)
		return vary_hashed(&rq->fields, name, out);
	/* RFC 9111 §4.1: an absent field matches an absent one only. */
	if (any && v.n == 0)
		out[v.n++] = ' ';
	return v.n;
}

static enum verdict_reduction reduce_encoding(const struct http_request *rq, char *out, size_t *out_bytes)
{
	unsigned codings;

	if (http_accept_encoding(&rq->fields, &codings) != 0)
		return REDUCED_NOT;
	*out_bytes = http_accept_encoding_format(codings, out);
	return REDUCED;
}

/* Who takes none of the site's languages gets what those get who don't say. */
static enum verdict_reduction reduce_language(const struct http_request *rq,
					      const struct conf_list *languages, char *out,
					      size_t capacity, size_t *out_bytes)
{
	int best = http_accept_language(&rq->fields, languages->at, (int)languages->count);

	if (best < 0)
		return REDUCED_AWAY;
	if (languages->at[best].n > capacity)
		return REDUCED_NOT;
	memcpy(out, languages->at[best].p, languages->at[best].n);
	*out_bytes = languages->at[best].n;
	return REDUCED;
}

enum verdict_reduction verdict_reduce(const struct http_request *rq, struct view name,
				      const struct conf_cache *conf, char *out, size_t capacity,
				      size_t *out_bytes)
{
	_Static_assert((int)HTTP_ACCEPT_ENCODING_MAX <= (int)VERDICT_VARY_VALUE_MIN, "it fits");
	CHECK(capacity >= VERDICT_VARY_VALUE_MIN);
	if (conf->normalise_accept_encoding && view_eq_nocase(name, VIEW("accept-encoding")))
		return reduce_encoding(rq, out, out_bytes);
	if (conf->accept_languages.count > 0 && view_eq_nocase(name, VIEW("accept-language")))
		return reduce_language(rq, &conf->accept_languages, out, capacity, out_bytes);
	return REDUCED_NOT;
}

size_t verdict_reduced_value(const struct http_request *rq, struct view name,
			     const struct conf_cache *conf, char *out, size_t capacity)
{
	size_t n;

	switch (verdict_reduce(rq, name, conf, out, capacity, &n)) {
	case REDUCED:
		return n;
	case REDUCED_AWAY:
		return 0;
	default:
		return verdict_vary_value(rq, name, out, capacity);
	}
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
		for (size_t k = 0; k < names->at[i].n; k++)
			*out++ = char_lower(names->at[i].p[k]);
	}
}

/* Of fields that nobody knows, blanks beside commas are taken for a list's (RFC 9110 §5.6.1). */
static unsigned spelling_of(struct view name)
{
	static const struct {
		struct view name;
		unsigned spelling;
	} known[] = {
		{ VIEW("accept"), SPELLING_LIST | SPELLING_WEIGHTS },
		{ VIEW("accept-charset"), SPELLING_LIST | SPELLING_WEIGHTS | SPELLING_CASE },
		{ VIEW("accept-encoding"), SPELLING_LIST | SPELLING_WEIGHTS | SPELLING_CASE },
		{ VIEW("accept-language"), SPELLING_LIST | SPELLING_WEIGHTS | SPELLING_CASE },
		{ VIEW("authorization"), 0 },
		{ VIEW("cookie"), 0 },
		{ VIEW("from"), 0 },
		{ VIEW("host"), 0 },
		{ VIEW("if-modified-since"), 0 },
		{ VIEW("if-range"), 0 },
		{ VIEW("if-unmodified-since"), 0 },
		{ VIEW("origin"), 0 },
		{ VIEW("referer"), 0 },
		{ VIEW("user-agent"), 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (view_eq_nocase(known[i].name, name))
			return known[i].spelling;
	return SPELLING_LIST;
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

static bool separates(char c, unsigned spelling)
{
	return (c == ',' && (spelling & SPELLING_LIST)) || (c == ';' && (spelling & SPELLING_WEIGHTS));
}

static void value_append(struct vary_value *v, const char *p, size_t n)
{
	if (n > v->capacity - v->n) {
		v->too_long = true;
		return;
	}
	memcpy(v->out + v->n, p, n);
	v->n += n;
}

static void value_separate(struct vary_value *v, char separator)
{
	while (v->n > 0 && char_blank(v->out[v->n - 1]))
		v->n--;
	value_append(v, &separator, 1);
}

/* One line. In a quoted string nothing is touched; a quote that is never closed is an ordinary character, as are all
 * behind it (looking for the end of each would take the square of the line's length). */
static void value_put(struct vary_value *v, struct view line, unsigned spelling)
{
	bool quotes = true;

	while (line.n > 0 && !v->too_long) {
		char c = line.p[0];
		size_t n = quotes && c == '"' ? http_quoted_length(line) : 0;
		if (n > 0) {
			value_append(v, line.p, n);
			line = view_skip(line, n);
			continue;
		}
		quotes &= c != '"';
		line = view_skip(line, 1);
		if (separates(c, spelling)) {
			value_separate(v, c);
			line = http_trim(line);
			continue;
		}
		c = spelling & SPELLING_CASE ? char_lower(c) : c;
		value_append(v, &c, 1);
	}
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
