/*
 * Cache-Control (RFC 9111 §5.2) and the targeted fields (RFC 9213), which say the same in another
 * grammar: one table of directives, two readers. Where a value is broken, the reading is the
 * cautious one: it makes a response less fresh or less shared, never more.
 *
 * The grammars differ in what a second instance means: in Cache-Control a contradiction is taken
 * as stale, in a Dictionary the last one counts. And a Dictionary that is broken in any place is
 * void.
 */
#include "edge/http/chars.h"
#include "edge/http/field.h"
#include "edge/http/sf.h"

#include <errno.h>

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
	{ VIEW("no-cache"), FORBIDS_FIELDS, CC_NO_CACHE, CC_NO_CACHE_FIELDS, 0 },
	{ VIEW("private"), FORBIDS_FIELDS, CC_PRIVATE, CC_PRIVATE_FIELDS, 0 },
	{ VIEW("no-store"), FORBIDS, CC_NO_STORE, 0, 0 },
	{ VIEW("must-revalidate"), FORBIDS, CC_MUST_REVALIDATE, 0, 0 },
	{ VIEW("proxy-revalidate"), FORBIDS, CC_PROXY_REVALIDATE, 0, 0 },
	{ VIEW("no-transform"), FORBIDS, CC_NO_TRANSFORM, 0, 0 },
	{ VIEW("public"), ALLOWS, CC_PUBLIC, 0, 0 },
	{ VIEW("must-understand"), ALLOWS, CC_MUST_UNDERSTAND, 0, 0 },
	{ VIEW("immutable"), ALLOWS, CC_IMMUTABLE, 0, 0 },
	/* Of requests only: a targeted field has no business with them. */
	{ VIEW("max-stale"), SECONDS, CC_MAX_STALE_ANY, 0,
	  offsetof(struct http_cache_control, max_stale_ms) },
	{ VIEW("min-fresh"), SECONDS, 0, 0, offsetof(struct http_cache_control, min_fresh_ms) },
	{ VIEW("only-if-cached"), FORBIDS, CC_ONLY_IF_CACHED, 0, 0 },
};
enum { RESPONSE_DIRECTIVES = ARRAY_LEN(directives) - 3 };

static const struct http_cache_control says_nothing = {
	.max_age_ms = -1,
	.s_maxage_ms = -1,
	.stale_while_revalidate_ms = -1,
	.stale_if_error_ms = -1,
	.max_stale_ms = -1,
	.min_fresh_ms = -1,
};

static int64_t *seconds_of(struct http_cache_control *cc, size_t which)
{
	return (int64_t *)((char *)cc + directives[which].offset);
}

/* Else the directive is meant for the whole response, which is more. */
static bool lists_fields(struct view argument)
{
	struct view name;
	bool any = false;

	while (http_list_next(&argument, &name)) {
		if (!http_token(name))
			return false;
		any = true;
	}
	return any;
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
	if (d.argument.n > 0 && http_quoted_length(d.argument) == d.argument.n)
		d.argument = view_of(d.argument.p + 1, d.argument.n - 2);
	return d;
}

/* RFC 9111 §4.2.1: what is invalid, or said twice and differently, is best taken as stale. */
static void seconds_apply(const struct directive *d, int64_t *ms)
{
	int64_t seconds;

	if (d->spaced || http_delta_seconds(d->argument, &seconds) != 0)
		seconds = 0;
	*ms = *ms < 0 || *ms == seconds * 1000 ? seconds * 1000 : 0;
}

static bool directive_lists_fields(const struct directive *d)
{
	return !d->spaced && lists_fields(d->argument);
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
		out->flags |= directive_lists_fields(d) ? directives[which].flag_fields
							: directives[which].flag;
		break;
	case SECONDS:
		if (!d->has_argument && directives[which].flag != 0)
			out->flags |= directives[which].flag;
		else
			seconds_apply(d, seconds_of(out, which));
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

	*out = says_nothing;
	for (; line != NULL; line = http_fields_next(f, line))
		cache_control_line(line->value, out);
}

/* --- targeted fields */

/* The flag that a member which forbids sets. RFC 9213 §2.1 has true, and Strings that list fields
 * where the directive can do that; what else there may be is taken for the whole response. */
static uint32_t forbidding_flag(const struct sf_item *v, size_t which)
{
	if (v->type == SF_BOOLEAN && v->number == 0)
		return 0;
	if (directives[which].reading == FORBIDS_FIELDS && v->type == SF_STRING && lists_fields(v->text))
		return directives[which].flag_fields;
	return directives[which].flag;
}

/* The last instance of a directive replaces those before. False: its type is wrong. */
static bool member_apply(const struct sf_item *v, size_t which, struct http_cache_control *out)
{
	const int64_t most = INT64_C(1) << 31; /* RFC 9111 §1.2.2 */
	bool seconds = v->type == SF_INTEGER && v->number >= 0;

	out->flags &= ~(directives[which].flag | directives[which].flag_fields);
	switch (directives[which].reading) {
	case FORBIDS:
	case FORBIDS_FIELDS:
		out->flags |= forbidding_flag(v, which);
		return true;
	case ALLOWS:
		out->flags |= v->type == SF_BOOLEAN && v->number == 1 ? directives[which].flag : 0;
		return true;
	case SECONDS:
		*seconds_of(out, which) = !seconds ? 0 : (v->number < most ? v->number : most) * 1000;
		return seconds;
	}
	return false;
}

/* Keys of a Dictionary are lower case. */
static size_t response_directive(struct view key)
{
	size_t i = 0;

	while (i < RESPONSE_DIRECTIVES && !view_eq(directives[i].name, key))
		i++;
	return i;
}

int http_targeted_cache_control(const struct http_fields *f, struct view name,
				struct http_cache_control *out)
{
	const uint32_t forbidding = CC_NO_STORE | CC_NO_CACHE | CC_PRIVATE;
	struct http_cache_control cc = says_nothing;
	struct sf_cursor c;
	struct sf_member m;
	uint32_t broken = 0; /* a bit for each directive whose last instance is */
	bool empty = true;
	int rc = sf_dictionary(f, name, &c);

	if (rc < 0)
		return rc;
	for (; sf_next(&c, &m); empty = false) {
		size_t which = response_directive(m.key);
		if (which == RESPONSE_DIRECTIVES)
			continue;
		broken &= ~(UINT32_C(1) << which);
		if (!member_apply(&m.value, which, &cc))
			broken |= UINT32_C(1) << which;
	}
	if (empty || (broken != 0 && !(cc.flags & forbidding)))
		return -EINVAL;
	*out = cc;
	return 0;
}

/* --- listed field names */

void http_cache_control_names(const struct http_fields *f, enum http_field_id id, uint32_t flag,
			      struct http_names *out)
{
	*out = (struct http_names){ .fields = f, .line = http_fields_first(f, id), .flag = flag };
	if (out->line != NULL)
		out->elements = out->line->value;
}

void http_targeted_names(const struct http_fields *f, struct view name, uint32_t flag,
			 struct http_names *out)
{
	struct sf_cursor c;
	struct sf_member m;

	*out = (struct http_names){ .fields = f, .flag = flag };
	if (sf_dictionary(f, name, &c) < 0)
		return;
	while (sf_next(&c, &m)) {
		size_t which = response_directive(m.key);
		if (which == RESPONSE_DIRECTIVES || directives[which].flag_fields != flag)
			continue;
		out->names = forbidding_flag(&m.value, which) == flag ? m.value.text : VIEW("");
	}
}

/* The next element of Cache-Control. False: there is none. */
static bool element_next(struct http_names *n, struct view *out)
{
	while (n->line != NULL) {
		if (http_list_next(&n->elements, out))
			return true;
		n->line = http_fields_next(n->fields, n->line);
		n->elements = n->line != NULL ? n->line->value : VIEW("");
	}
	return false;
}

bool http_names_next(struct http_names *n, struct view *out_name)
{
	struct view element;

	while (!http_list_next(&n->names, out_name)) {
		if (!element_next(n, &element))
			return false;
		struct directive d = directive_split(element);
		for (size_t i = 0; i < ARRAY_LEN(directives); i++) {
			if (directives[i].flag_fields == n->flag &&
			    view_eq_nocase(directives[i].name, d.name) && directive_lists_fields(&d))
				n->names = d.argument;
		}
	}
	return true;
}
