/*
 * Field values: tokens, lists, numbers, entity tags, Cache-Control. (Dates: date.c.) Everything
 * reads views and allocates nothing. Where a value is broken, the reading is the cautious one: it
 * makes a response less fresh or less shared, never more.
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

/* The length of the quoted string that v begins with, quotes included; 0 if it isn't closed. */
static size_t quoted_length(struct view v)
{
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
 * quoted_length did, so nobody searches again.
 */
static size_t element_length(struct view v)
{
	size_t i = 0;

	while (i < v.n && v.p[i] != ',') {
		size_t quoted = v.p[i] == '"' ? quoted_length(view_skip(v, i)) : 0;
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

/* --- Cache-Control */

struct directive {
	struct view name, argument;
	bool has_argument;
	bool spaced; /* blanks around "=": the grammar knows none */
};

/* «name», «name=token» or «name="text"»: the argument comes without its quotes. */
static struct directive directive_split(struct view element)
{
	const char *equals = memchr(element.p, '=', element.n);

	if (equals == NULL)
		return (struct directive){ .name = element };
	size_t n = (size_t)(equals - element.p);
	struct view name = view_of(element.p, n), argument = view_skip(element, n + 1);
	struct directive d = { .name = http_trim(name),
			       .argument = http_trim(argument),
			       .has_argument = true };
	d.spaced = d.name.n != name.n || d.argument.n != argument.n;
	if (d.argument.n >= 2 && quoted_length(d.argument) == d.argument.n)
		d.argument = view_of(d.argument.p + 1, d.argument.n - 2);
	return d;
}

/* How a directive is read. Those that forbid do so whatever their argument; those that allow
 * must be written as the RFC has them. */
enum reading { FORBIDS, ALLOWS, FORBIDS_FIELDS, SECONDS };

static const struct {
	struct view name;
	enum reading reading;
	uint32_t flag;	      /* SECONDS: set where there is no argument (0: that is invalid) */
	uint32_t flag_fields; /* FORBIDS_FIELDS: set instead of «flag» where fields are listed */
	size_t offset;	      /* SECONDS: in struct http_cache_control */
} directives[] = {
	{ VIEW("max-age"), SECONDS, 0, 0, offsetof(struct http_cache_control, max_age_ms) },
	{ VIEW("s-maxage"), SECONDS, 0, 0, offsetof(struct http_cache_control, s_maxage_ms) },
	{ VIEW("stale-while-revalidate"), SECONDS, 0, 0,
	  offsetof(struct http_cache_control, stale_while_revalidate_ms) },
	{ VIEW("stale-if-error"), SECONDS, 0, 0, offsetof(struct http_cache_control, stale_if_error_ms) },
	{ VIEW("max-stale"), SECONDS, CC_MAX_STALE_ANY, 0,
	  offsetof(struct http_cache_control, max_stale_ms) },
	{ VIEW("min-fresh"), SECONDS, 0, 0, offsetof(struct http_cache_control, min_fresh_ms) },
	{ VIEW("no-cache"), FORBIDS_FIELDS, CC_NO_CACHE, CC_NO_CACHE_FIELDS, 0 },
	{ VIEW("private"), FORBIDS_FIELDS, CC_PRIVATE, CC_PRIVATE_FIELDS, 0 },
	{ VIEW("no-store"), FORBIDS, CC_NO_STORE, 0, 0 },
	{ VIEW("must-revalidate"), FORBIDS, CC_MUST_REVALIDATE, 0, 0 },
	{ VIEW("proxy-revalidate"), FORBIDS, CC_PROXY_REVALIDATE, 0, 0 },
	{ VIEW("no-transform"), FORBIDS, CC_NO_TRANSFORM, 0, 0 },
	{ VIEW("only-if-cached"), FORBIDS, CC_ONLY_IF_CACHED, 0, 0 },
	{ VIEW("public"), ALLOWS, CC_PUBLIC, 0, 0 },
	{ VIEW("must-understand"), ALLOWS, CC_MUST_UNDERSTAND, 0, 0 },
	{ VIEW("immutable"), ALLOWS, CC_IMMUTABLE, 0, 0 },
};

/* RFC 9111 §4.2.1: what is invalid, or said twice and differently, is best taken as stale. */
static void seconds_apply(const struct directive *d, int64_t *ms)
{
	int64_t seconds;

	if (d->spaced || http_delta_seconds(d->argument, &seconds) != 0)
		seconds = 0;
	*ms = *ms < 0 || *ms == seconds * 1000 ? seconds * 1000 : 0;
}

/* Else the directive is meant for the whole response, which is more. */
static bool lists_fields(const struct directive *d)
{
	struct view rest = d->argument, name;
	bool any = false;

	while (http_list_next(&rest, &name)) {
		if (!http_token(name))
			return false;
		any = true;
	}
	return any && !d->spaced;
}

static void directive_apply(const struct directive *d, size_t which, struct http_cache_control *out)
{
	switch (directives[which].reading) {
	case FORBIDS:
		out->flags |= directives[which].flag;
		break;
	case ALLOWS:
		out->flags |= d->has_argument ? 0 : directives[which].flag;
		break;
	case FORBIDS_FIELDS:
		out->flags |= lists_fields(d) ? directives[which].flag_fields : directives[which].flag;
		break;
	case SECONDS:
		if (!d->has_argument && directives[which].flag != 0)
			out->flags |= directives[which].flag;
		else
			seconds_apply(d, (int64_t *)((char *)out + directives[which].offset));
		break;
	}
}

static void cache_control_line(struct view value, struct http_cache_control *out)
{
	struct view element;

	while (http_list_next(&value, &element)) {
		struct directive d = directive_split(element);
		for (size_t i = 0; i < ARRAY_LEN(directives); i++) {
			if (!view_eq_nocase(directives[i].name, d.name))
				continue;
			directive_apply(&d, i, out);
			break;
		}
	}
}

void http_cache_control(const struct http_fields *f, enum http_field_id id,
			struct http_cache_control *out)
{
	const struct http_field *line = http_fields_first(f, id);

	*out = (struct http_cache_control){
		.max_age_ms = -1,
		.s_maxage_ms = -1,
		.stale_while_revalidate_ms = -1,
		.stale_if_error_ms = -1,
		.max_stale_ms = -1,
		.min_fresh_ms = -1,
	};
	for (; line != NULL; line = http_fields_next(f, line))
		cache_control_line(line->value, out);
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
