/*
 * Fields of answers. What is stored is what would be sent a minute later to somebody else: framing belongs
 * to a connection, hop-by-hop fields to a hop, Age to a moment, tags to caches. Kept as text, since it leaves as text.
 */
#include "edge/answer.h"

#include <errno.h>

#include "edge/http/condition.h"
#include "edge/http/field.h"
#include "edge/text.h"

enum { OWN_BYTES = 320 }; /* of our lines, but for names and keys */

static uint64_t bit(enum http_field_id id)
{
	return UINT64_C(1) << id;
}

static bool names_tag(const struct conf_cache *cache, struct view name)
{
	for (size_t i = 0; i < cache->tag_headers.count; i++)
		if (view_eq_nocase(cache->tag_headers.at[i], name))
			return true;
	return false;
}

static bool kept(const struct http_field *f, const struct conf_cache *cache, unsigned flags)
{
	if (f->dropped)
		return false;
	switch (f->id) {
	case FIELD_CONTENT_LENGTH:
		return false;
	case FIELD_AGE:
		return flags & ANSWER_KEEP_AGE;
	case FIELD_SET_COOKIE:
		return flags & ANSWER_KEEP_SET_COOKIE;
	case FIELD_OTHER:
	case FIELD_SURROGATE_KEY:
	case FIELD_CACHE_TAG:
	case FIELD_XKEY:
		return (flags & ANSWER_KEEP_TAGS) || !names_tag(cache, f->name);
	case FIELD_SURROGATE_CONTROL:
		return flags & (ANSWER_KEEP_TAGS | ANSWER_KEEP_CONTROL);
	default:
		return true;
	}
}

unsigned answer_keep_stored(const struct conf *conf, const struct conf_cache *cache)
{
	unsigned flags = cache->set_cookie == CONF_SET_COOKIE_STORE ? ANSWER_KEEP_SET_COOKIE : 0;

	if (conf->downstream.count > 0)
		flags |= ANSWER_KEEP_TAGS;
	for (size_t i = 0; i < cache->targeted.count; i++)
		if (view_eq_nocase(cache->targeted.at[i], VIEW("Surrogate-Control")))
			flags |= ANSWER_KEEP_CONTROL;
	return flags;
}

bool answer_for_caches(const struct http_field *f, const struct conf_cache *cache)
{
	return f->id == FIELD_SURROGATE_CONTROL || names_tag(cache, f->name);
}

bool answer_hides(const struct http_fields *f, const struct conf_cache *cache, unsigned flags)
{
	if (!(flags & (ANSWER_KEEP_TAGS | ANSWER_KEEP_CONTROL)))
		return false;
	for (uint16_t i = 0; i < f->count; i++)
		if (kept(&f->at[i], cache, flags) && answer_for_caches(&f->at[i], cache))
			return true;
	return false;
}

static size_t bytes_of(const struct http_fields *f)
{
	size_t n = 0;

	for (uint16_t i = 0; i < f->count; i++)
		n += f->at[i].name.n + f->at[i].value.n + 4;
	return n;
}

static void put_date(struct text *t, struct wall when)
{
	char date[HTTP_DATE_BYTES];

	http_date_format(when, date);
	text_line(t, VIEW("Date"), view_of(date, sizeof(date)));
}

struct view answer_fields(const struct http_response *rs, const struct conf_cache *cache,
			  const struct verdict_withheld *withheld, struct wall received,
			  unsigned flags, struct arena *a)
{
	struct text t = text_new(a, bytes_of(&rs->fields) + 64);

	for (uint16_t i = 0; i < rs->fields.count; i++) {
		const struct http_field *f = &rs->fields.at[i];

		if (kept(f, cache, flags) &&
		    (withheld == NULL || !verdict_field_withheld(withheld, f->name)))
			text_line(&t, f->name, f->value);
	}
	if (!http_fields_has(&rs->fields, FIELD_DATE))
		put_date(&t, received);
	return text_view(&t);
}

/* --- a 304's fields into stored ones ----------------------------------------------------------- */

/* RFC 9111 §3.2: what describes the stored bytes is never updated; nor the entity tag, which was compared to come here. */
static bool updates(const struct http_field *f, const struct conf_cache *cache,
		    const struct verdict_withheld *withheld, unsigned flags)
{
	const uint64_t never = bit(FIELD_CONTENT_ENCODING) | bit(FIELD_CONTENT_RANGE) | bit(FIELD_ETAG);

	return kept(f, cache, flags) && !(never & bit(f->id)) &&
	       !view_eq_nocase(f->name, VIEW("Content-MD5")) &&
	       !verdict_field_withheld(withheld, f->name);
}

static bool replaced(const struct http_field *old, const struct http_fields *fresh,
		     const struct conf_cache *cache, const struct verdict_withheld *withheld,
		     unsigned flags)
{
	uint16_t at = 0;
	const struct http_field *f;

	if (old->id != FIELD_OTHER && !http_fields_has(fresh, old->id))
		return false;
	while ((f = http_fields_find(fresh, old->name, &at)) != NULL)
		if (updates(f, cache, withheld, flags))
			return true;
	return false;
}

struct view answer_merge(struct view stored, const struct http_response *validated,
			 const struct conf_cache *cache, struct wall received, unsigned flags,
			 struct arena *a)
{
	struct http_field at[ANSWER_FIELDS_MAX];
	struct http_fields old = { .at = at, .capacity = ARRAY_LEN(at) };
	const struct http_fields *fresh = &validated->fields;
	struct text t = text_new(a, stored.n + bytes_of(fresh) + 64);
	struct verdict_withheld withheld;

	if (http_fields_parse(&old, stored.p, stored.n) != 0)
		return (struct view){ 0 };
	verdict_withheld_fields(validated, cache, &withheld);
	for (uint16_t i = 0; i < old.count; i++)
		if (!replaced(&old.at[i], fresh, cache, &withheld, flags))
			text_line(&t, old.at[i].name, old.at[i].value);
	for (uint16_t i = 0; i < fresh->count; i++)
		if (updates(&fresh->at[i], cache, &withheld, flags))
			text_line(&t, fresh->at[i].name, fresh->at[i].value);
	if (!http_fields_has(&old, FIELD_DATE) && !http_fields_has(fresh, FIELD_DATE))
		put_date(&t, received);
	return text_view(&t);
}

static bool not_modified(const struct http_request *rq, const struct cache_meta *m, struct view stored)
{
	struct http_field at[ANSWER_FIELDS_MAX];
	struct http_fields f = { .at = at, .capacity = ARRAY_LEN(at) };
	struct http_selected selected = { .status = m->status,
					  .etag = m->etag,
					  .last_modified = m->last_modified,
					  .received = m->received };
	const struct http_field *date;

	if (http_fields_parse(&f, stored.p, stored.n) != 0)
		return false;
	date = http_fields_first(&f, FIELD_DATE);
	if (date != NULL)
		selected.date = date->value;
	return http_preconditions(rq->method, &rq->fields, &selected, false) == CONDITION_NOT_MODIFIED;
}

bool answer_matches_conditions(const struct http_request *rq, const struct cache_meta *m,
			       struct view stored)
{
	if (!http_fields_has(&rq->fields, FIELD_IF_NONE_MATCH) &&
	    !http_fields_has(&rq->fields, FIELD_IF_MODIFIED_SINCE))
		return false;
	return not_modified(rq, m, stored);
}

struct view answer_not_modified(struct view stored, struct arena *a)
{
	struct http_field at[ANSWER_FIELDS_MAX];
	struct http_fields old = { .at = at, .capacity = ARRAY_LEN(at) };
	struct text t = text_new(a, stored.n);
	const uint64_t left_out = bit(FIELD_CONTENT_TYPE) | bit(FIELD_CONTENT_ENCODING) |
				  bit(FIELD_CONTENT_RANGE) | bit(FIELD_ACCEPT_RANGES);

	if (http_fields_parse(&old, stored.p, stored.n) != 0)
		return stored;
	for (uint16_t i = 0; i < old.count; i++)
		if (!((left_out >> old.at[i].id) & 1))
			text_line(&t, old.at[i].name, old.at[i].value);
	return text_view(&t);
}

/* --- ours ------------------------------------------------------------------------------------------ */

static struct view reason_text(enum forward_reason why)
{
	switch (why) {
	case FORWARD_BYPASS:
		return VIEW("bypass");
	case FORWARD_METHOD:
		return VIEW("method");
	case FORWARD_VARY_MISS:
		return VIEW("vary-miss");
	case FORWARD_STALE:
		return VIEW("stale");
	case FORWARD_PARTIAL:
		return VIEW("partial");
	default:
		return VIEW("uri-miss");
	}
}

/* The key's URL as a String of structured fields: it is ASCII, and has two characters to escape. */
static void put_key(struct text *t, const struct request *r)
{
	const struct target *at = &r->target;

	text_put(t, VIEW("; key=\""));
	if (r->cache.key_scheme) {
		text_put(t, at->scheme);
		text_put(t, VIEW("://"));
	}
	if (r->cache.key_host)
		text_put(t, at->authority);
	for (size_t i = 0; i < at->path.n; i++) {
		if (at->path.p[i] == '"' || at->path.p[i] == '\\')
			text_put(t, VIEW("\\"));
		text_put(t, view_of(at->path.p + i, 1));
	}
	text_put(t, VIEW("\""));
}

static void put_cache_status(struct text *t, const struct request *r, bool hit, bool stored,
			     uint16_t forward_status)
{
	text_put(t, VIEW("Cache-Status: "));
	text_put(t, r->conf->name);
	if (hit) {
		int64_t ttl = r->soft_purged && r->times.ttl_ms > 0 ? -1 : r->times.ttl_ms;

		text_put(t, VIEW("; hit; ttl="));
		/* whole seconds, rounded so that what is stale never says 0 */
		text_decimal(t, ttl >= 0 ? ttl / 1000 : -((-ttl + 999) / 1000));
	} else {
		text_put(t, VIEW("; fwd="));
		text_put(t, reason_text(r->why));
		if (forward_status != 0) {
			text_put(t, VIEW("; fwd-status="));
			text_decimal(t, forward_status);
		}
		if (stored)
			text_put(t, VIEW("; stored"));
		if (r->collapsed)
			text_put(t, VIEW("; collapsed"));
		else if (!stored && r->lookup && r->store_reason != STORE_YES) {
			text_put(t, VIEW("; detail="));
			text_put(t, view_str(store_reason_text(r->store_reason)));
		}
	}
	if (r->cache.key_show)
		put_key(t, r);
}

struct view answer_own(struct request *r, int64_t age_ms, bool hit, bool stored,
		       uint16_t forward_status, struct view via_version)
{
	size_t key = r->cache.key_show ? 16 + r->target.authority.n + 2 * r->target.path.n : 0;
	struct text t = text_new(&r->arena, OWN_BYTES + 2 * r->conf->name.n + key);

	if (age_ms >= 0) {
		text_put(&t, VIEW("Age: "));
		text_decimal(&t, age_ms / 1000);
		text_put(&t, VIEW("\r\n"));
	}
	put_cache_status(&t, r, hit, stored, forward_status);
	text_put(&t, VIEW("\r\nVia: "));
	text_put(&t, via_version);
	text_put(&t, VIEW(" "));
	text_put(&t, r->conf->name);
	text_put(&t, VIEW("\r\n"));
	return text_view(&t);
}
