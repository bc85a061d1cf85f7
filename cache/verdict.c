/*
 * Freshness: what RFC 9111 lets a shared cache do, and what the site's rules make of it.
 *
 * Three questions, asked in this order over an object's life: may this request be answered from the
 * cache (verdict_request), may this answer be stored (verdict_store), may the stored one be used now
 * (verdict_use.c). Each is a pure function; its tests are tables, a row a rule. Which field of an answer
 * counts, and what of it is kept back, is in verdict_control.c; what the guard against cache deception
 * looks at, in verdict_guard.c.
 *
 * A lifetime comes from the origin (s-maxage, max-age, Expires), from a rule's «ttl», or it is Brim's
 * own decision (statuses, heuristic, default_ttl). The last kind is careful: whatever might be personal
 * or provoked by an attacker's odd request is not stored. docs/decisions/lifetimes.md has the choices
 * that neither the RFC nor the interface makes for us.
 *
 * What a hit needs is decided when storing and kept in flags, so that verdict_use parses nothing
 * unless the request carries directives of its own.
 */
#include "cache/verdict.h"

#include "cache/cache.h"
#include "cache/verdict_control.h"
#include "cache/verdict_guard.h"
#include "cache/verdict_use.h"

#include <errno.h>

#define DAY_MS (24 * 3600 * INT64_C(1000))

/* --- the request -------------------------------------------------------------------------- */

enum request_verdict verdict_request(const struct http_request *r, const struct conf_cache *conf)
{
	if (r->method != METHOD_GET && r->method != METHOD_HEAD)
		return REQUEST_METHOD;
	if (conf->bypass || view_starts(r->path, VIEW("/.well-known/acme-challenge/")))
		return REQUEST_BYPASS;
	if (r->framing == FRAMING_CHUNKED || (r->framing == FRAMING_LENGTH && r->length > 0))
		return REQUEST_BODY;
	/* RFC 9110 §14.2: Range means something on GET alone. */
	if (r->method == METHOD_GET && http_fields_has(&r->fields, FIELD_RANGE))
		return REQUEST_RANGE;
	return REQUEST_LOOKUP;
}

/* --- storing ------------------------------------------------------------------------------ */

/* A response as the site lets us see it: what it ignores is absent. */
struct answer {
	const struct http_response *rs;
	struct verdict_control control;
	struct wall date, received;
	int64_t age_ms;	     /* what Age says */
	bool age_unreadable; /* and whether it can be told */
	bool expires;	     /* there is an Expires that counts */
};

enum lifetime_source {
	BY_RULE,
	BY_S_MAXAGE,
	BY_MAX_AGE,
	BY_EXPIRES,
	BY_STATUSES, /* from here on Brim decides */
	BY_HEURISTIC,
	BY_DEFAULT,
};

struct lifetime {
	int64_t ms;
	enum lifetime_source source;
	bool by_age; /* 0, since Age can't be read */
	const char *clamp;
};

static enum store_reason never_stored(const struct http_request *rq, uint16_t status,
				      const struct conf_cache *conf);
static void read_answer(const struct http_response *rs, const struct exchange_times *t,
			const struct conf_cache *conf, struct answer *out);
static enum store_reason forbidden(const struct http_request *rq, const struct answer *a,
				   const struct conf_cache *conf);
static struct lifetime lifetime_of(const struct answer *a, const struct conf_cache *conf);
static enum store_reason refused_by_caution(const struct http_request *rq, const struct answer *a,
					    const struct conf_cache *conf, enum lifetime_source source);
static void fill_meta(const struct answer *a, const struct exchange_times *t,
		      const struct lifetime *life, struct cache_meta *out);
static enum store_reason useless(const struct cache_meta *m, const struct conf_cache *conf);

enum store_reason verdict_store(const struct http_request *rq, const struct http_response *rs,
				const struct exchange_times *t, const struct conf_cache *conf,
				struct cache_meta *out)
{
	enum store_reason reason = never_stored(rq, rs->status, conf);
	if (reason != STORE_YES)
		return reason;
	struct answer a;
	read_answer(rs, t, conf, &a);
	reason = forbidden(rq, &a, conf);
	if (reason != STORE_YES)
		return reason;
	struct lifetime life = lifetime_of(&a, conf);
	reason = refused_by_caution(rq, &a, conf, life.source);
	if (reason != STORE_YES)
		return reason;
	struct cache_meta meta;
	fill_meta(&a, t, &life, &meta);
	reason = useless(&meta, conf);
	if (reason == STORE_YES)
		*out = meta;
	return reason;
}

void verdict_lifetime(const struct http_response *rs, const struct exchange_times *t,
		      const struct conf_cache *conf, struct verdict_lifetime *out)
{
	static const char *const names[] = {
		[BY_RULE] = "rule",	      [BY_S_MAXAGE] = "s-maxage",
		[BY_MAX_AGE] = "max-age",     [BY_EXPIRES] = "Expires",
		[BY_STATUSES] = "statuses",   [BY_HEURISTIC] = "heuristic",
		[BY_DEFAULT] = "default_ttl",
	};
	struct answer a;

	read_answer(rs, t, conf, &a);
	struct lifetime life = lifetime_of(&a, conf);
	*out = (struct verdict_lifetime){
		.ms = life.ms,
		.source = life.by_age ? "Age" : names[life.source],
		.field = a.control.field,
		.clamp = life.clamp,
	};
}

const char *store_reason_text(enum store_reason r)
{
	static const char *const texts[] = {
		[STORE_YES] = "stored",
		[STORE_NO_STORE] = "no-store",
		[STORE_PRIVATE] = "private",
		[STORE_AUTHORIZATION] = "authorization",
		[STORE_STATUS] = "status",
		[STORE_NO_LIFETIME] = "no-lifetime",
		[STORE_SET_COOKIE] = "set-cookie",
		[STORE_COOKIE_REQUEST] = "cookie",
		[STORE_VARY_STAR] = "vary-star",
		[STORE_PARTIAL] = "partial",
		[STORE_METHOD] = "method",
		[STORE_BYPASS] = "bypass",
		[STORE_NO_CACHE] = "no-cache",
		[STORE_VARY_TOO_LONG] = "vary-too-long",
		[STORE_TAGS] = "too-many-tags",
		[STORE_DECEPTION] = "content-type",
	};
	CHECK((size_t)r < ARRAY_LEN(texts));
	return texts[r];
}

static enum store_reason never_stored(const struct http_request *rq, uint16_t status,
				      const struct conf_cache *conf)
{
	if (rq->method != METHOD_GET)
		return STORE_METHOD;
	if (conf->bypass)
		return STORE_BYPASS;
	/* 416 is about a range, as 206 is, and the key knows nothing of ranges. */
	if (status == 206 || status == 416)
		return STORE_PARTIAL;
	/* Not final (RFC 9111 §3), or about the request rather than the resource: its precondition, or that it came as early data,
	 * which who asks next didn't send (RFC 8470 §5.2). */
	if (status < 200 || status == 304 || status == 412 || status == 425)
		return STORE_STATUS;
	return STORE_YES;
}

/* The first valid date among the lines of a field. */
static bool first_date(const struct http_fields *f, enum http_field_id id, struct wall *out)
{
	if (!http_fields_has(f, id))
		return false;
	for (const struct http_field *at = http_fields_first(f, id); at != NULL;
	     at = http_fields_next(f, at))
		if (http_date_parse(at->value, out) == 0)
			return true;
	return false;
}

/*
 * RFC 9111 §5.1 has one number here, wants the first member of a list, and what is no number ignored. Ignored, it
 * would make an answer of unknown age fresh; we take it for stale (§4.2.1 encourages that for freshness information
 * that is invalid), and so a number that is said twice, on two lines or in one. False: it can't be told.
 */
static bool read_age(const struct http_fields *f, int64_t *out_ms)
{
	const struct http_field *line = http_fields_first(f, FIELD_AGE);
	struct view rest, first, member;
	int64_t seconds;

	*out_ms = 0;
	if (line == NULL)
		return true;
	rest = line->value;
	if (http_fields_next(f, line) != NULL || !http_list_next(&rest, &first) ||
	    http_delta_seconds(first, &seconds) != 0)
		return false;
	while (http_list_next(&rest, &member))
		if (view_eq(member, first))
			return false;
	*out_ms = seconds * 1000;
	return true;
}

static void read_answer(const struct http_response *rs, const struct exchange_times *t,
			const struct conf_cache *conf, struct answer *out)
{
	out->rs = rs;
	out->received = out->date = t->response_received;
	first_date(&rs->fields, FIELD_DATE, &out->date);
	verdict_control_read(rs, conf, &out->control);
	out->expires = !conf->ignore_expires && !out->control.targeted &&
		       http_fields_has(&rs->fields, FIELD_EXPIRES);
	out->age_unreadable = !read_age(&rs->fields, &out->age_ms);
}

/* RFC 9110 §15: those whose caching rules we know, for must-understand (RFC 9111 §5.2.2.3). */
static bool status_understood(uint16_t s)
{
	return (s >= 200 && s <= 205) || (s >= 300 && s <= 305) || s == 307 || s == 308 ||
	       (s >= 400 && s <= 417) || s == 421 || s == 422 || s == 426 || (s >= 500 && s <= 505);
}

static enum store_reason forbidden_by_directive(const struct http_request *rq,
						const struct answer *a, const struct conf_cache *conf)
{
	const struct http_cache_control *cc = &a->control.cc;

	if (cc->flags & CC_MUST_UNDERSTAND) {
		if (!status_understood(a->rs->status))
			return STORE_STATUS;
	} else if (cc->flags & CC_NO_STORE) {
		return STORE_NO_STORE;
	}
	if (conf->honour_request_directives && http_fields_has(&rq->fields, FIELD_CACHE_CONTROL)) {
		struct http_cache_control asked;
		http_cache_control(&rq->fields, FIELD_CACHE_CONTROL, &asked);
		if (asked.flags & CC_NO_STORE)
			return STORE_NO_STORE;
	}
	return cc->flags & CC_PRIVATE ? STORE_PRIVATE : STORE_YES;
}

static enum store_reason forbidden_by_vary(const struct http_response *rs)
{
	char rule[CACHE_VARY_MAX];
	size_t rule_bytes;

	switch (verdict_vary_rule(rs, rule, sizeof(rule), &rule_bytes)) {
	case 0:
		return STORE_YES;
	case -ENOENT:
		return STORE_VARY_STAR;
	default:
		return STORE_VARY_TOO_LONG;
	}
}

static bool sets_cookie(const struct http_response *rs, const struct conf_cache *conf)
{
	return !conf->ignore_set_cookie && http_fields_has(&rs->fields, FIELD_SET_COOKIE);
}

static enum store_reason forbidden(const struct http_request *rq, const struct answer *a,
				   const struct conf_cache *conf)
{
	enum store_reason reason = forbidden_by_directive(rq, a, conf);
	if (reason != STORE_YES)
		return reason;
	/* RFC 9111 §3.5 */
	if (http_fields_has(&rq->fields, FIELD_AUTHORIZATION) && a->control.cc.s_maxage_ms < 0 &&
	    !(a->control.cc.flags & (CC_PUBLIC | CC_MUST_REVALIDATE)))
		return STORE_AUTHORIZATION;
	if (sets_cookie(a->rs, conf) && conf->set_cookie == CONF_SET_COOKIE_PASS)
		return STORE_SET_COOKIE;
	return forbidden_by_vary(a->rs);
}

/* RFC 9111 §4.2.1, §5.3: what can't be read, or is said twice differently, is stale. */
static int64_t expires_ms(const struct answer *a)
{
	const struct http_fields *f = &a->rs->fields;
	const struct http_field *first = http_fields_first(f, FIELD_EXPIRES);
	struct wall expires;

	for (const struct http_field *at = first; at != NULL; at = http_fields_next(f, at))
		if (!view_eq(at->value, first->value))
			return 0;
	if (first == NULL || http_date_parse(first->value, &expires) < 0 || expires.ms < a->date.ms)
		return 0;
	return expires.ms - a->date.ms;
}

/* The narrowest entry that names the status: "404" before "4xx". */
static const struct conf_status_ttl *status_entry(const struct conf_cache *conf, uint16_t status)
{
	const struct conf_status_ttl *best = NULL;

	for (size_t i = 0; i < conf->status_count; i++) {
		const struct conf_status_ttl *s = &conf->statuses[i];
		if (status < s->from || status > s->to)
			continue;
		if (best == NULL || s->to - s->from < best->to - best->from)
			best = s;
	}
	return best;
}

/* RFC 9111 §4.2.2: a tenth of the time since it was last modified, at most a day. */
static int64_t heuristic_ms(const struct answer *a)
{
	struct wall modified;

	if (!first_date(&a->rs->fields, FIELD_LAST_MODIFIED, &modified) || modified.ms >= a->date.ms)
		return 0;
	int64_t tenth = (a->date.ms - modified.ms) / 10;
	return tenth < DAY_MS ? tenth : DAY_MS;
}

static struct lifetime lifetime_unclamped(const struct answer *a, const struct conf_cache *conf)
{
	const struct http_cache_control *cc = &a->control.cc;

	if (conf->rule_ttl_ms >= 0)
		return (struct lifetime){ .ms = conf->rule_ttl_ms, .source = BY_RULE };
	if (cc->s_maxage_ms >= 0)
		return (struct lifetime){ .ms = cc->s_maxage_ms, .source = BY_S_MAXAGE };
	if (cc->max_age_ms >= 0)
		return (struct lifetime){ .ms = cc->max_age_ms, .source = BY_MAX_AGE };
	if (a->expires)
		return (struct lifetime){ .ms = expires_ms(a), .source = BY_EXPIRES };
	const struct conf_status_ttl *entry = status_entry(conf, a->rs->status);
	if (entry != NULL)
		return (struct lifetime){ .ms = entry->ttl_ms, .source = BY_STATUSES };
	int64_t heuristic = conf->heuristic ? heuristic_ms(a) : 0;
	if (heuristic > 0)
		return (struct lifetime){ .ms = heuristic, .source = BY_HEURISTIC };
	return (struct lifetime){ .ms = conf->default_ttl_ms, .source = BY_DEFAULT };
}

/* A lifetime that is counted from when the answer was made; the operator's are not. */
static bool needs_age(enum lifetime_source source)
{
	return source == BY_S_MAXAGE || source == BY_MAX_AGE || source == BY_EXPIRES ||
	       source == BY_HEURISTIC;
}

static struct lifetime lifetime_of(const struct answer *a, const struct conf_cache *conf)
{
	struct lifetime life = lifetime_unclamped(a, conf);

	if (a->age_unreadable && needs_age(life.source)) {
		life.ms = 0;
		life.by_age = true;
	}
	if (life.ms < conf->min_ttl_ms) {
		life.ms = conf->min_ttl_ms;
		life.clamp = "min_ttl";
	}
	if (life.ms > conf->max_ttl_ms) {
		life.ms = conf->max_ttl_ms;
		life.clamp = "max_ttl";
	}
	return life;
}

/* Errors that a client can provoke for others by an odd request (a method override, a long field). */
static bool status_provoked(uint16_t s)
{
	return s == 400 || s == 405 || s == 413 || s == 414 || s == 431 || s == 501;
}

/* RFC 9110 §15.1, but for 206; those that can be provoked (405, 414 and 501 of them) only where the site asks for them. */
static bool status_heuristic(uint16_t s, const struct conf_cache *conf)
{
	if (s == 405 || s == 414 || s == 501)
		return conf->heuristic_all;
	return s == 200 || s == 203 || s == 204 || s == 300 || s == 301 || s == 308 || s == 404 ||
	       s == 410;
}

/* The origin gave a lifetime, be it 0. */
static bool lifetime_given(const struct answer *a)
{
	return a->control.cc.s_maxage_ms >= 0 || a->control.cc.max_age_ms >= 0 || a->expires;
}

/* RFC 9111 §3: without an explicit lifetime only some statuses may be stored. */
static bool status_storable(const struct answer *a, enum lifetime_source source,
			    const struct conf_cache *conf)
{
	uint16_t s = a->rs->status;

	if (lifetime_given(a) || (source == BY_HEURISTIC && status_heuristic(s, conf)))
		return true;
	if (status_provoked(s))
		return false;
	return source == BY_STATUSES || (a->control.cc.flags & CC_PUBLIC) || status_heuristic(s, conf);
}

/* The origin means it to be kept, whatever a rule makes of its lifetime. */
static bool origin_says_cacheable(const struct answer *a)
{
	const struct http_cache_control *cc = &a->control.cc;

	if (cc->flags & CC_PUBLIC)
		return true;
	if (cc->s_maxage_ms >= 0)
		return cc->s_maxage_ms > 0;
	if (cc->max_age_ms >= 0)
		return cc->max_age_ms > 0;
	return a->expires && expires_ms(a) > 0;
}

/* Errors and redirections have bodies of their own kind, whatever was asked for. */
static bool deceptive(const struct http_request *rq, const struct answer *a,
		      const struct conf_cache *conf)
{
	return conf->deception_guard && a->rs->status >= 200 && a->rs->status <= 299 &&
	       !origin_says_cacheable(a) && verdict_guard_contradicts(rq->path, &a->rs->fields);
}

static enum store_reason refused_by_caution(const struct http_request *rq, const struct answer *a,
					    const struct conf_cache *conf, enum lifetime_source source)
{
	if (!status_storable(a, source, conf))
		return STORE_STATUS;
	if (deceptive(rq, a, conf))
		return STORE_DECEPTION;
	if (source < BY_STATUSES)
		return STORE_YES;
	if (http_fields_has(&rq->fields, FIELD_AUTHORIZATION))
		return STORE_AUTHORIZATION;
	if (http_fields_has(&rq->fields, FIELD_COOKIE))
		return STORE_COOKIE_REQUEST;
	return sets_cookie(a->rs, conf) ? STORE_SET_COOKIE : STORE_YES;
}

static int64_t at_least_0(int64_t ms)
{
	return ms > 0 ? ms : 0;
}

/* RFC 9111 §4.2.3. */
static int64_t corrected_initial_age_ms(const struct answer *a, const struct exchange_times *t)
{
	int64_t delay = at_least_0(t->response_received.ms - t->request_sent.ms);
	int64_t corrected = a->age_ms + delay;
	int64_t apparent = at_least_0(t->response_received.ms - a->date.ms);

	return corrected > apparent ? corrected : apparent;
}

static uint32_t directive_flags(const struct http_cache_control *cc, enum lifetime_source source)
{
	uint32_t flags = 0;

	if (cc->flags & CC_NO_CACHE)
		flags |= META_NO_CACHE;
	/* RFC 9111 §5.2.2.10: s-maxage, where it is what counts, implies proxy-revalidate. */
	if ((cc->flags & (CC_MUST_REVALIDATE | CC_PROXY_REVALIDATE)) || source == BY_S_MAXAGE)
		flags |= META_MUST_REVALIDATE;
	if (cc->flags & CC_IMMUTABLE)
		flags |= META_IMMUTABLE;
	if (cc->stale_while_revalidate_ms >= 0)
		flags |= META_SWR_GIVEN;
	if (cc->stale_if_error_ms >= 0)
		flags |= META_SIE_GIVEN;
	if (source == BY_RULE || source >= BY_STATUSES)
		flags |= META_BY_RULE;
	return flags;
}

static void fill_validators(const struct http_fields *f, struct cache_meta *out)
{
	const struct http_field *etag = http_fields_first(f, FIELD_ETAG);
	const struct http_field *modified = http_fields_first(f, FIELD_LAST_MODIFIED);
	struct http_etag tag;
	struct wall date;

	if (etag != NULL && http_etag_parse(etag->value, &tag) == 0) {
		out->etag = etag->value;
		out->flags |= META_HAS_VALIDATOR | (tag.weak ? 0 : META_ETAG_STRONG);
	}
	if (modified != NULL && http_date_parse(modified->value, &date) == 0) {
		out->last_modified = modified->value;
		out->flags |= META_HAS_VALIDATOR;
	}
}

static uint32_t whole_seconds(int64_t ms)
{
	int64_t s = at_least_0(ms) / 1000;
	return s < UINT32_MAX ? (uint32_t)s : UINT32_MAX;
}

static void fill_meta(const struct answer *a, const struct exchange_times *t,
		      const struct lifetime *life, struct cache_meta *out)
{
	*out = (struct cache_meta){
		.status = a->rs->status,
		.flags = directive_flags(&a->control.cc, life->source),
		.received = t->response_received,
		.initial_age_ms = corrected_initial_age_ms(a, t),
		.lifetime_ms = life->ms,
		.stale_while_revalidate_s = whole_seconds(a->control.cc.stale_while_revalidate_ms),
		.stale_if_error_s = whole_seconds(a->control.cc.stale_if_error_ms),
	};
	fill_validators(&a->rs->fields, out);
}

/* Could it ever serve a request: as it is, validated, or stale? */
static enum store_reason useless(const struct cache_meta *m, const struct conf_cache *conf)
{
	if (m->flags & META_HAS_VALIDATOR)
		return STORE_YES;
	if (m->flags & META_NO_CACHE)
		return STORE_NO_CACHE;
	if (m->lifetime_ms > m->initial_age_ms)
		return STORE_YES;
	if (!(m->flags & META_MUST_REVALIDATE) &&
	    (verdict_swr_ms(m, conf) > 0 || verdict_sie_ms(m, conf) > 0))
		return STORE_YES;
	return STORE_NO_LIFETIME;
}
