/*
 * Which field controls an answer, and what of the answer it keeps back.
 *
 * The first valid field of the site's «targeted» list replaces Cache-Control and Expires wholly (RFC 9213
 * §2.2): what it doesn't say isn't said, be it «no-store». Where there is none, Cache-Control counts, unless
 * the site ignores it. Ignoring Cache-Control ignores no targeted field: those are chosen one by one.
 *
 * no-cache="a" and private="a" keep back fields rather than the answer. Such fields are stored nowhere:
 * keeping one for use after the next validation would be a second kind of stored head to get wrong. But
 * an answer without its Content-Encoding, its Vary or its ETag is another answer, so that a list which
 * names one of those is read as if it listed nothing, which both sections allow.
 */
#include "cache/verdict_control.h"

#include "cache/verdict.h"

/* Without its fields of content a body means something else, without the others a cache does. */
static bool essential(struct view name)
{
	static const enum http_field_id ids[] = {
		FIELD_AGE,  FIELD_CACHE_CONTROL,     FIELD_CACHE_GROUPS,      FIELD_DATE,
		FIELD_ETAG, FIELD_EXPIRES,	     FIELD_LAST_MODIFIED,     FIELD_LOCATION,
		FIELD_VARY, FIELD_CDN_CACHE_CONTROL, FIELD_SURROGATE_CONTROL,
	};
	enum http_field_id id = http_field_id(name);

	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		if (ids[i] == id)
			return true;
	return name.n >= 8 && view_eq_nocase(view_of(name.p, 8), VIEW("content-"));
}

static void names_of(const struct http_response *rs, struct view targeted, uint32_t flag,
		     struct http_names *out)
{
	if (targeted.n > 0)
		http_targeted_names(&rs->fields, targeted, flag, out);
	else
		http_cache_control_names(&rs->fields, FIELD_CACHE_CONTROL, flag, out);
}

/* A directive that lists fields: what comes of it, the lists or the whole. */
static void settle(const struct http_response *rs, uint32_t listed, uint32_t whole,
		   struct verdict_control *out)
{
	struct http_names names;
	struct view name;

	if (!(out->cc.flags & listed))
		return;
	names_of(rs, out->targeted ? out->field : VIEW(""), listed, &names);
	while (!(out->cc.flags & whole) && http_names_next(&names, &name))
		out->cc.flags |= essential(name) ? whole : 0;
	if (out->cc.flags & whole)
		out->cc.flags &= ~listed;
}

void verdict_control_read(const struct http_response *rs, const struct conf_cache *conf,
			  struct verdict_control *out)
{
	static const struct http_fields none;
	const struct conf_list *targeted = &conf->targeted;
	bool ignored = conf->ignore_cache_control || !http_fields_has(&rs->fields, FIELD_CACHE_CONTROL);

	*out = (struct verdict_control){ .targeted = false };
	for (size_t i = 0; i < targeted->count && !out->targeted; i++) {
		if (http_targeted_cache_control(&rs->fields, targeted->at[i], &out->cc) != 0)
			continue;
		out->targeted = true;
		out->field = targeted->at[i];
	}
	if (!out->targeted) {
		http_cache_control(ignored ? &none : &rs->fields, FIELD_CACHE_CONTROL, &out->cc);
		out->field = ignored ? VIEW("") : VIEW("Cache-Control");
	}
	settle(rs, CC_NO_CACHE_FIELDS, CC_NO_CACHE, out);
	settle(rs, CC_PRIVATE_FIELDS, CC_PRIVATE, out);
}

/* --- fields that are kept back -------------------------------------------------------------- */

void verdict_withheld_fields(const struct http_response *rs, const struct conf_cache *conf,
			     struct verdict_withheld *out)
{
	struct verdict_control control;

	verdict_control_read(rs, conf, &control);
	*out = (struct verdict_withheld){
		.rs = rs,
		.targeted = control.targeted ? control.field : VIEW(""),
		.flags = control.cc.flags & (CC_NO_CACHE_FIELDS | CC_PRIVATE_FIELDS),
	};
}

static bool lists(const struct verdict_withheld *w, uint32_t flag, struct view name)
{
	struct http_names names;
	struct view listed;

	if (!(w->flags & flag))
		return false;
	names_of(w->rs, w->targeted, flag, &names);
	while (http_names_next(&names, &listed))
		if (view_eq_nocase(listed, name))
			return true;
	return false;
}

bool verdict_field_withheld(const struct verdict_withheld *w, struct view name)
{
	return lists(w, CC_NO_CACHE_FIELDS, name) || lists(w, CC_PRIVATE_FIELDS, name);
}
