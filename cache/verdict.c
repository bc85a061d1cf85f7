/*
 * Freshness: what RFC 9111 lets a shared cache do, and what the site's rules make of it.
 *
 * Three questions, asked in this order over an object's life: may this request be answered from the
 * cache (verdict_request), may this answer be stored (verdict_store), may the stored one be used now
 * (verdict_use, verdict_stale_if_error). Each is a pure function; its tests are tables, a row a rule.
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

#include <errno.h>

#define DAY_MS (24 * 3600 * INT64_C(1000))

/* --- the request -------------------------------------------------------------------------- */

enum request_verdict verdict_request(const struct http_request *r, const struct conf_cache *conf)
{
	if (r->method != METHOD_GET && r->method != METHOD_HEAD)
		return REQUEST_METHOD;
	if (conf->bypass)
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
	struct http_cache_control cc;
	struct wall date, received;
	bool expires; /* there is an Expires that counts */
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

const char *verdict_lifetime_source(const struct http_request *rq, const struct http_response *rs,
				    const struct exchange_times *t, const struct conf_cache *conf)
{
	static const char *const names[] = {
		[BY_RULE] = "rule",	      [BY_S_MAXAGE] = "s-maxage",
		[BY_MAX_AGE] = "max-age",     [BY_EXPIRES] = "Expires",
		[BY_STATUSES] = "statuses",   [BY_HEURISTIC] = "heuristic",
		[BY_DEFAULT] = "default_ttl",
	};
	struct answer a;

	(void)rq;
	read_answer(rs, t, conf, &a);
	return names[lifetime_of(&a, conf).source];
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
	/* Not final (RFC 9111 §3), or about the request's precondition rather than the resource. */
	if (status < 200 || status == 304 || status == 412)
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

static void read_answer(const struct http_response *rs, const struct exchange_times *t,
			const struct conf_cache *conf, struct answer *out)
{
	static const struct http_fields none;

	out->rs = rs;
	out->received = out->date = t->response_received;
	first_date(&rs->fields, FIELD_DATE, &out->date);
	http_cache_control(conf->ignore_cache_control ? &none : &rs->fields, FIELD_CACHE_CONTROL,
			   &out->cc);
	out->expires = !conf->ignore_expires && http_fields_has(&rs->fields, FIELD_EXPIRES);
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
	const struct http_cache_control *cc = &a->cc;

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
	/* private="x" allows the rest to be shared; RFC 9111 §5.2.2.7 lets us be stricter. */
	return cc->flags & (CC_PRIVATE | CC_PRIVATE_FIELDS) ? STORE_PRIVATE : STORE_YES;
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
	if (http_fields_has(&rq->fields, FIELD_AUTHORIZATION) && a->cc.s_maxage_ms < 0 &&
	    !(a->cc.flags & (CC_PUBLIC | CC_MUST_REVALIDATE)))
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
	if (conf->rule_ttl_ms >= 0)
		return (struct lifetime){ conf->rule_ttl_ms, BY_RULE };
	if (a->cc.s_maxage_ms >= 0)
		return (struct lifetime){ a->cc.s_maxage_ms, BY_S_MAXAGE };
	if (a->cc.max_age_ms >= 0)
		return (struct lifetime){ a->cc.max_age_ms, BY_MAX_AGE };
	if (a->expires)
		return (struct lifetime){ expires_ms(a), BY_EXPIRES };
	const struct conf_status_ttl *entry = status_entry(conf, a->rs->status);
	if (entry != NULL)
		return (struct lifetime){ entry->ttl_ms, BY_STATUSES };
	int64_t heuristic = conf->heuristic ? heuristic_ms(a) : 0;
	if (heuristic > 0)
		return (struct lifetime){ heuristic, BY_HEURISTIC };
	return (struct lifetime){ conf->default_ttl_ms, BY_DEFAULT };
}

static struct lifetime lifetime_of(const struct answer *a, const struct conf_cache *conf)
{
	struct lifetime life = lifetime_unclamped(a, conf);

	if (life.ms < conf->min_ttl_ms)
		life.ms = conf->min_ttl_ms;
	if (life.ms > conf->max_ttl_ms)
		life.ms = conf->max_ttl_ms;
	return life;
}

/* Errors that a client can provoke for others by an odd request (a method override, a long field). */
static bool status_provoked(uint16_t s)
{
	return s == 400 || s == 405 || s == 413 || s == 414 || s == 431 || s == 501;
}

/* RFC 9110 §15.1, without those that can be provoked and without 206. */
static bool status_heuristic(uint16_t s)
{
	return s == 200 || s == 203 || s == 204 || s == 300 || s == 301 || s == 308 || s == 404 ||
	       s == 410;
}

/* RFC 9111 §3: without an explicit lifetime only some statuses may be stored. */
static bool status_storable(const struct answer *a, enum lifetime_source source)
{
	if (a->cc.s_maxage_ms >= 0 || a->cc.max_age_ms >= 0 || a->expires)
		return true;
	if (status_provoked(a->rs->status))
		return false;
	return source == BY_STATUSES || (a->cc.flags & CC_PUBLIC) || status_heuristic(a->rs->status);
}

static enum store_reason refused_by_caution(const struct http_request *rq, const struct answer *a,
					    const struct conf_cache *conf, enum lifetime_source source)
{
	if (!status_storable(a, source))
		return STORE_STATUS;
	if (source < BY_STATUSES)
		return STORE_YES;
	if (http_fields_has(&rq->fields, FIELD_AUTHORIZATION))
		return STORE_AUTHORIZATION;
	if (http_fields_has(&rq->fields, FIELD_COOKIE))
		return STORE_COOKIE_REQUEST;
	return sets_cookie(a->rs, conf) ? STORE_SET_COOKIE : STORE_YES;
}

/* RFC 9111 §5.1: of a list the first member; what is no number is ignored. */
static int64_t age_value_ms(const struct http_fields *f)
{
	int64_t seconds;

	if (!http_fields_has(f, FIELD_AGE))
		return 0;
	for (const struct http_field *at = http_fields_first(f, FIELD_AGE); at != NULL;
	     at = http_fields_next(f, at)) {
		struct view rest = at->value, member;
		while (http_list_next(&rest, &member))
			if (http_delta_seconds(member, &seconds) == 0)
				return seconds * 1000;
	}
	return 0;
}

static int64_t at_least_0(int64_t ms)
{
	return ms > 0 ? ms : 0;
}

/* RFC 9111 §4.2.3. */
static int64_t corrected_initial_age_ms(const struct answer *a, const struct exchange_times *t)
{
	int64_t delay = at_least_0(t->response_received.ms - t->request_sent.ms);
	int64_t corrected = age_value_ms(&a->rs->fields) + delay;
	int64_t apparent = at_least_0(t->response_received.ms - a->date.ms);

	return corrected > apparent ? corrected : apparent;
}

static uint32_t directive_flags(const struct http_cache_control *cc, enum lifetime_source source)
{
	uint32_t flags = 0;

	/* no-cache="x" covers a field only; RFC 9111 §5.2.2.4 lets us be stricter. */
	if (cc->flags & (CC_NO_CACHE | CC_NO_CACHE_FIELDS))
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
		.flags = directive_flags(&a->cc, life->source),
		.received = t->response_received,
		.initial_age_ms = corrected_initial_age_ms(a, t),
		.lifetime_ms = life->ms,
		.stale_while_revalidate_s = whole_seconds(a->cc.stale_while_revalidate_ms),
		.stale_if_error_s = whole_seconds(a->cc.stale_if_error_ms),
	};
	fill_validators(&a->rs->fields, out);
}

/* Windows in which a stale response may be served: the origin's, else the site's. */
static int64_t swr_ms(const struct cache_meta *m, const struct conf_cache *conf)
{
	return m->flags & META_SWR_GIVEN ? m->stale_while_revalidate_s * INT64_C(1000)
					 : conf->stale_while_revalidate_ms;
}

static int64_t sie_ms(const struct cache_meta *m, const struct conf_cache *conf)
{
	return m->flags & META_SIE_GIVEN ? m->stale_if_error_s * INT64_C(1000) : conf->stale_if_error_ms;
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
	if (!(m->flags & META_MUST_REVALIDATE) && (swr_ms(m, conf) > 0 || sie_ms(m, conf) > 0))
		return STORE_YES;
	return STORE_NO_LIFETIME;
}

/* --- using -------------------------------------------------------------------------------- */

static bool client_wants_validation(const struct http_request *rq, const struct cache_meta *m,
				    const struct use_times *t, int64_t ttl_ms);
static bool client_takes_stale(const struct http_request *rq, int64_t stale_ms);

void verdict_age(const struct cache_meta *m, struct wall now, struct use_times *out)
{
	/* A wall clock that was set back doesn't make it younger than it came. */
	out->age_ms = m->initial_age_ms + at_least_0(now.ms - m->received.ms);
	out->ttl_ms = m->lifetime_ms - out->age_ms;
}

enum use_verdict verdict_use(const struct http_request *rq, const struct cache_meta *m,
			     const struct use_times *t, bool soft_purged, const struct conf_cache *conf)
{
	enum use_verdict validate = m->flags & META_HAS_VALIDATOR ? USE_REVALIDATE : USE_MISS;
	int64_t ttl_ms = soft_purged && t->ttl_ms > 0 ? 0 : t->ttl_ms;

	if (m->flags & META_NO_CACHE)
		return validate;
	if (conf->honour_request_directives && client_wants_validation(rq, m, t, ttl_ms))
		return validate;
	if (ttl_ms > 0)
		return USE_FRESH;
	if (m->flags & META_MUST_REVALIDATE)
		return validate;
	int64_t swr = swr_ms(m, conf);
	if ((swr > 0 && -ttl_ms <= swr) || client_takes_stale(rq, -ttl_ms))
		return USE_STALE_WHILE_REVALIDATE;
	return validate;
}

bool verdict_stale_if_error(const struct http_request *rq, const struct cache_meta *m,
			    const struct use_times *t, const struct conf_cache *conf)
{
	int64_t stale_ms = at_least_0(-t->ttl_ms);
	int64_t window_ms = sie_ms(m, conf);

	if (m->flags & (META_NO_CACHE | META_MUST_REVALIDATE))
		return false;
	if (window_ms > 0 && stale_ms <= window_ms)
		return true;
	return client_takes_stale(rq, stale_ms);
}

static bool client_directives(const struct http_request *rq, struct http_cache_control *out)
{
	if (!http_fields_has(&rq->fields, FIELD_CACHE_CONTROL))
		return false;
	http_cache_control(&rq->fields, FIELD_CACHE_CONTROL, out);
	return true;
}

static bool takes_stale(const struct http_cache_control *cc, int64_t stale_ms)
{
	return (cc->flags & CC_MAX_STALE_ANY) ||
	       (cc->max_stale_ms >= 0 && stale_ms <= cc->max_stale_ms);
}

/* RFC 9111 §5.2.1: no-cache, min-fresh, max-age; §5.4: Pragma where there is no Cache-Control. */
static bool client_wants_validation(const struct http_request *rq, const struct cache_meta *m,
				    const struct use_times *t, int64_t ttl_ms)
{
	struct http_cache_control cc;

	if (!client_directives(rq, &cc))
		return http_fields_has(&rq->fields, FIELD_PRAGMA) &&
		       http_list_has(&rq->fields, FIELD_PRAGMA, VIEW("no-cache"));
	if (cc.flags & CC_NO_CACHE)
		return true;
	if (cc.min_fresh_ms >= 0 && ttl_ms < cc.min_fresh_ms)
		return true;
	if (cc.max_age_ms < 0)
		return false;
	if (ttl_ms <= 0 && !takes_stale(&cc, -ttl_ms))
		return true;
	/* RFC 8246 §2: a reload's max-age=0 is no wish to validate what never changes. */
	return t->age_ms > cc.max_age_ms && !((m->flags & META_IMMUTABLE) && ttl_ms > 0);
}

static bool client_takes_stale(const struct http_request *rq, int64_t stale_ms)
{
	struct http_cache_control cc;

	return client_directives(rq, &cc) && takes_stale(&cc, stale_ms);
}

/* --- conditional requests ----------------------------------------------------------------- */

static bool modified_since(const struct http_fields *f, struct view last_modified)
{
	const struct http_field *since = http_fields_first(f, FIELD_IF_MODIFIED_SINCE);
	struct wall have, asked;

	/* RFC 9110 §13.1.3: no date, or more than one: as if it weren't there. */
	if (since == NULL || http_fields_next(f, since) != NULL ||
	    http_date_parse(since->value, &asked) < 0)
		return true;
	return http_date_parse(last_modified, &have) < 0 || have.ms > asked.ms;
}

bool verdict_not_modified(const struct http_request *rq, uint16_t status, struct view etag,
			  struct view last_modified)
{
	const struct http_fields *f = &rq->fields;

	/* RFC 9110 §13.2.1: only where the answer would be a success; §13.1.3: GET and HEAD. */
	if (status < 200 || status > 299 || (rq->method != METHOD_GET && rq->method != METHOD_HEAD))
		return false;
	if (http_fields_has(f, FIELD_IF_NONE_MATCH)) {
		struct http_etag tag;
		if (http_etag_parse(etag, &tag) < 0)
			tag = (struct http_etag){ VIEW(""), false }; /* "*" names it all the same */
		return http_etag_listed(f, FIELD_IF_NONE_MATCH, &tag, true);
	}
	return http_fields_has(f, FIELD_IF_MODIFIED_SINCE) && !modified_since(f, last_modified);
}
