/*
 * Content negotiation, reduced. Weights decide what is refused and, among languages, what comes
 * first; among codings they don't: an origin that has several chooses by its own taste, and an
 * order per client would make a variant per client. An element that is broken is as if it weren't
 * there.
 */
#include "edge/http/accept.h"
#include "edge/http/chars.h"
#include "edge/http/field.h"

#include <errno.h>

/* --- weights (§12.4.2) */

struct weighted {
	struct view name;
	int weight; /* in thousandths */
};

/* "0" or "1", and up to three digits behind a point; not over 1. */
static bool weight_parse(struct view v, int *out)
{
	int weight = 0, scale = 1000;

	if (v.n < 1 || v.n > 5 || (v.n > 1 && v.p[1] != '.'))
		return false;
	for (size_t i = 0; i < v.n; i++) {
		if (i == 1)
			continue;
		if (!char_is(v.p[i], CHAR_DIGIT))
			return false;
		weight += (v.p[i] - '0') * scale;
		scale /= 10;
	}
	*out = weight;
	return weight <= 1000;
}

/* name [ OWS ";" OWS "q=" weight ]. */
static bool weighted_parse(struct view element, struct weighted *out)
{
	const char *semicolon = memchr(element.p, ';', element.n);
	size_t n = semicolon != NULL ? (size_t)(semicolon - element.p) : element.n;

	*out = (struct weighted){ http_trim(view_of(element.p, n)), 1000 };
	if (!http_token(out->name))
		return false;
	if (semicolon == NULL)
		return true;
	struct view parameter = http_trim(view_skip(element, n + 1));
	if (parameter.n < 2 || char_lower(parameter.p[0]) != 'q' || parameter.p[1] != '=')
		return false;
	return weight_parse(view_skip(parameter, 2), &out->weight);
}

static bool weighted_next(struct view *rest, struct weighted *out)
{
	struct view element;

	while (http_list_next(rest, &element)) {
		if (weighted_parse(element, out))
			return true;
	}
	return false;
}

/* --- codings */

static const struct {
	struct view name;
	unsigned coding;
} codings_known[] = {
	{ VIEW("br"), CODING_BR },
	{ VIEW("gzip"), CODING_GZIP },
	{ VIEW("x-gzip"), CODING_GZIP },
	{ VIEW("zstd"), CODING_ZSTD },
	{ VIEW("identity"), CODING_NOT_IDENTITY },
};
static const unsigned codings_all = CODING_BR | CODING_GZIP | CODING_ZSTD;

struct codings {
	unsigned taken, refused; /* by name; that of identity is CODING_NOT_IDENTITY */
	bool any_taken, any_refused;
};

static void coding_note(struct codings *c, const struct weighted *w)
{
	bool taken = w->weight > 0;

	if (view_eq(w->name, VIEW("*"))) {
		c->any_taken |= taken;
		c->any_refused |= !taken;
	}
	for (size_t i = 0; i < ARRAY_LEN(codings_known); i++) {
		if (view_eq_nocase(w->name, codings_known[i].name))
			*(taken ? &c->taken : &c->refused) |= codings_known[i].coding;
	}
}

int http_accept_encoding(const struct http_fields *request, unsigned *out_codings)
{
	const struct http_field *line = http_fields_first(request, FIELD_ACCEPT_ENCODING);
	struct codings c = { .taken = 0 };
	struct weighted w;

	if (line == NULL)
		return -ENOENT;
	for (; line != NULL; line = http_fields_next(request, line)) {
		struct view rest = line->value;
		while (weighted_next(&rest, &w))
			coding_note(&c, &w);
	}
	/* What is said both ways is refused: that is never wrong for a coding. For identity it is
	 * the other way. */
	unsigned named = c.taken | c.refused;
	unsigned taken = c.taken & ~c.refused & codings_all;
	if (c.any_taken && !c.any_refused)
		taken |= codings_all & ~named;
	if (!(c.taken & CODING_NOT_IDENTITY) &&
	    ((c.refused & CODING_NOT_IDENTITY) || (c.any_refused && !c.any_taken)))
		taken |= CODING_NOT_IDENTITY;
	*out_codings = taken;
	return 0;
}

size_t http_accept_encoding_format(unsigned codings, char out[HTTP_ACCEPT_ENCODING_MAX])
{
	static const struct {
		struct view text;
		unsigned coding;
	} texts[] = {
		{ VIEW("br"), CODING_BR },
		{ VIEW("gzip"), CODING_GZIP },
		{ VIEW("zstd"), CODING_ZSTD },
		{ VIEW("identity;q=0"), CODING_NOT_IDENTITY },
	};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (!(codings & texts[i].coding))
			continue;
		if (n > 0) {
			memcpy(out + n, ", ", 2);
			n += 2;
		}
		memcpy(out + n, texts[i].text.p, texts[i].text.n);
		n += texts[i].text.n;
	}
	if (n > 0)
		return n;
	memcpy(out, "identity", 8);
	return 8;
}

/* --- languages */

enum { LANGUAGE_RANGES_MAX = 32 };

struct language_ranges {
	struct weighted at[LANGUAGE_RANGES_MAX];
	unsigned count;
};

static bool any_language(struct view range)
{
	return view_eq(range, VIEW("*"));
}

/* RFC 4647 §3.3.1. */
static bool within(struct view language, struct view range)
{
	if (language.n < range.n || !view_eq_nocase(view_of(language.p, range.n), range))
		return false;
	return language.n == range.n || language.p[range.n] == '-';
}

/* What the longest range that it lies in says: «en;q=0, *» takes all but English. */
static bool refused(const struct language_ranges *r, struct view language)
{
	const struct weighted *closest = NULL;
	size_t closest_bytes = 0;

	for (unsigned i = 0; i < r->count; i++) {
		size_t n = any_language(r->at[i].name) ? 0 : r->at[i].name.n;
		if ((n > 0 && !within(language, r->at[i].name)) ||
		    (closest != NULL && n < closest_bytes))
			continue;
		closest = &r->at[i];
		closest_bytes = n;
	}
	return closest != NULL && closest->weight == 0;
}

/* RFC 4647 §3.4: without its last subtag, and without a single letter that would then be last.
 * Empty: no more. */
static struct view shortened(struct view range)
{
	do {
		while (range.n > 0 && range.p[range.n - 1] != '-')
			range.n--;
		range.n -= range.n > 0;
	} while (range.n > 2 && range.p[range.n - 2] == '-');
	return range;
}

static int lookup(const struct language_ranges *r, struct view range, const struct view *languages,
		  int count)
{
	for (struct view v = range; v.n > 0; v = shortened(v)) {
		for (int i = 0; i < count; i++) {
			if (view_eq_nocase(languages[i], v) && !refused(r, languages[i]))
				return i;
		}
	}
	for (int i = 0; i < count; i++) {
		if ((any_language(range) || within(languages[i], range)) && !refused(r, languages[i]))
			return i;
	}
	return -1;
}

static void language_ranges(const struct http_fields *request, struct language_ranges *out)
{
	const struct http_field *line;
	struct weighted w;

	out->count = 0;
	for (uint16_t at = 0;
	     (line = http_fields_find(request, VIEW("Accept-Language"), &at)) != NULL;) {
		struct view rest = line->value;
		while (out->count < LANGUAGE_RANGES_MAX && weighted_next(&rest, &w))
			out->at[out->count++] = w;
	}
}

int http_accept_language(const struct http_fields *request, const struct view *languages, int count)
{
	struct language_ranges r;
	int best = -1, best_weight = 0;

	language_ranges(request, &r);
	for (unsigned i = 0; i < r.count; i++) {
		if (r.at[i].weight <= best_weight)
			continue;
		int found = lookup(&r, r.at[i].name, languages, count);
		if (found < 0)
			continue;
		best = found;
		best_weight = r.at[i].weight;
	}
	return best;
}
