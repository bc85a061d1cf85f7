/*
 * Freshness verdicts on arbitrary fields, times and sites. Input: a fixed part, then the request's
 * fields, a NUL, and the response's. What must hold is checked from the fields anew, in plain terms.
 */
#include "cache/cache.h"
#include "cache/verdict.h"

struct fixed {
	uint16_t site, status;
	uint32_t delay_ms, age_ms, ttl_s;
};

struct side {
	struct http_field at[64];
	struct http_fields fields;
	struct http_cache_control cc;
};

static bool parse(struct side *s, const char *p, size_t n)
{
	s->fields = (struct http_fields){ .at = s->at, .capacity = ARRAY_LEN(s->at) };
	if (http_fields_parse(&s->fields, p, n) < 0)
		return false;
	http_cache_control(&s->fields, FIELD_CACHE_CONTROL, &s->cc);
	return true;
}

static struct conf_cache site_of(const struct fixed *f)
{
	static struct conf_status_ttl statuses[] = { { 400, 499, 5000 }, { 404, 404, 7000 } };

	return (struct conf_cache){
		.default_ttl_ms = f->site & 1 ? f->ttl_s * INT64_C(1000) : 0,
		.min_ttl_ms = f->site & 2 ? 3000 : 0,
		.max_ttl_ms = INT64_C(365) * 86400 * 1000,
		.rule_ttl_ms = f->site & 4 ? f->ttl_s * INT64_C(1000) : -1,
		.heuristic = f->site & 8,
		.statuses = statuses,
		.status_count = f->site & 16 ? 2 : 0,
		.stale_while_revalidate_ms = f->site & 32 ? 20000 : 0,
		.stale_if_error_ms = f->site & 64 ? 20000 : 0,
		.set_cookie = (f->site >> 7) % 3,
		.honour_request_directives = f->site & 512,
		.ignore_cache_control = f->site & 1024,
		.ignore_expires = f->site & 2048,
		.ignore_set_cookie = f->site & 4096,
		.bypass = (f->site & 0xe000) == 0xe000,
	};
}

static void check_stored(const struct side *rq, const struct side *rs,
			 const struct conf_cache *site, const struct cache_meta *m)
{
	bool heard = !site->ignore_cache_control;

	CHECK(!site->bypass);
	CHECK(m->lifetime_ms >= site->min_ttl_ms && m->lifetime_ms <= site->max_ttl_ms);
	CHECK(m->initial_age_ms >= 0);
	CHECK(m->status >= 200 && m->status != 206 && m->status != 304);
	if (heard) {
		CHECK(!(rs->cc.flags & (CC_PRIVATE | CC_PRIVATE_FIELDS)));
		CHECK(!(rs->cc.flags & CC_NO_STORE) || (rs->cc.flags & CC_MUST_UNDERSTAND));
		CHECK(!(rs->cc.flags & CC_NO_CACHE) || (m->flags & META_NO_CACHE));
		CHECK(!(rs->cc.flags & CC_MUST_REVALIDATE) || (m->flags & META_MUST_REVALIDATE));
	}
	if (http_fields_has(&rq->fields, FIELD_AUTHORIZATION))
		CHECK(heard &&
		      ((rs->cc.flags & (CC_PUBLIC | CC_MUST_REVALIDATE)) || rs->cc.s_maxage_ms >= 0));
	if (http_fields_has(&rs->fields, FIELD_SET_COOKIE))
		CHECK(site->set_cookie != CONF_SET_COOKIE_PASS || site->ignore_set_cookie);
	CHECK(!(m->flags & META_ETAG_STRONG) || m->etag.n >= 2);
	CHECK(!(m->flags & META_HAS_VALIDATOR) == (m->etag.n == 0 && m->last_modified.n == 0));
}

static void check_used(const struct http_request *rq, const struct cache_meta *m, bool soft,
		       const struct conf_cache *site, int64_t age_ms)
{
	struct use_times t;

	verdict_age(m, (struct wall){ m->received.ms + age_ms }, &t);
	CHECK(t.age_ms >= m->initial_age_ms && t.age_ms + t.ttl_ms == m->lifetime_ms);
	enum use_verdict use = verdict_use(rq, m, &t, soft, site);
	bool on_error = verdict_stale_if_error(rq, m, &t, site);
	if (m->flags & META_NO_CACHE)
		CHECK(use >= USE_REVALIDATE && !on_error);
	if (m->flags & META_MUST_REVALIDATE)
		CHECK(use != USE_STALE_WHILE_REVALIDATE && !on_error);
	if (use == USE_FRESH)
		CHECK(t.ttl_ms > 0 && !soft);
	if (use == USE_REVALIDATE)
		CHECK(m->flags & META_HAS_VALIDATOR);
	(void)verdict_not_modified(rq, m->status, m->etag, m->last_modified);
}

/* A rule read again is itself, and each name in it has a value. */
static void check_vary(const struct http_request *rq, const struct http_response *rs)
{
	char rule[CACHE_VARY_MAX], again[CACHE_VARY_MAX], value[VERDICT_VARY_VALUE_MIN];
	size_t n, again_bytes;

	if (verdict_vary_rule(rs, rule, sizeof(rule), &n) < 0)
		return;
	struct http_field line = { VIEW("vary"), view_of(rule, n), FIELD_VARY, false };
	struct http_response same = { .fields = { &line, 1, 1, UINT64_C(1) << FIELD_VARY } };
	CHECK(verdict_vary_rule(&same, again, sizeof(again), &again_bytes) == 0);
	CHECK(view_eq(view_of(rule, n), view_of(again, again_bytes)));
	struct view rest = view_of(rule, n), name;
	while (http_list_next(&rest, &name))
		CHECK(verdict_vary_value(rq, name, value, sizeof(value)) <= sizeof(value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fixed f;
	struct side rq_side, rs_side;

	if (size < sizeof(f))
		return -1;
	memcpy(&f, data, sizeof(f));
	struct view request = view_of((const char *)data + sizeof(f), size - sizeof(f));
	const char *nul = request.n > 0 ? memchr(request.p, '\0', request.n) : NULL;
	if (nul == NULL)
		return -1;
	struct view response = view_skip(request, (size_t)(nul + 1 - request.p));
	request.n = (size_t)(nul - request.p);
	if (!parse(&rq_side, request.p, request.n) || !parse(&rs_side, response.p, response.n))
		return -1;

	struct http_request rq = { .method = METHOD_GET, .minor = 1, .fields = rq_side.fields };
	struct http_response rs = { .status = 100 + f.status % 500, .minor = 1, .fields = rs_side.fields };
	struct exchange_times t = { { INT64_C(1704067200000) - f.delay_ms },
				    { INT64_C(1704067200000) } };
	struct conf_cache site = site_of(&f);
	struct cache_meta meta;
	(void)verdict_request(&rq, &site);
	(void)verdict_lifetime_source(&rq, &rs, &t, &site);
	check_vary(&rq, &rs);
	enum store_reason reason = verdict_store(&rq, &rs, &t, &site, &meta);
	CHECK(store_reason_text(reason) != NULL);
	if (reason != STORE_YES)
		return 0;
	check_stored(&rq_side, &rs_side, &site, &meta);
	check_used(&rq, &meta, false, &site, f.age_ms);
	check_used(&rq, &meta, true, &site, f.age_ms);
	return 0;
}
