/*
 * Freshness verdicts on arbitrary fields, times and sites. Input: a fixed part, then the request's
 * fields, a NUL, and the response's. What must hold is checked from the fields anew, in plain terms.
 */
#include "cache/cache.h"
#include "cache/verdict.h"

struct fixed {
	uint16_t site;
	uint16_t status; /* times 500: more of the site */
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
	static struct view targeted[] = { VIEW("CDN-Cache-Control"), VIEW("Surrogate-Control") };
	static struct view languages[] = { VIEW("de"), VIEW("en-GB") };
	unsigned more = f->status / 500;

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
		.targeted = { targeted, more & 1 ? ARRAY_LEN(targeted) : 0 },
		.deception_guard = more & 2,
		.client_ttl_ms = more & 4 ? f->ttl_s * INT64_C(1000) : -1,
		.accept_languages = { languages, more & 8 ? ARRAY_LEN(languages) : 0 },
		.normalise_accept_encoding = more & 16,
		.heuristic_all = more & 32,
	};
}

/* Does a targeted field count, so that Cache-Control and Expires don't? */
static bool targeted(const struct side *rs, const struct conf_cache *site)
{
	struct http_cache_control cc;

	for (size_t i = 0; i < site->targeted.count; i++)
		if (http_targeted_cache_control(&rs->fields, site->targeted.at[i], &cc) == 0)
			return true;
	return false;
}

/* What Cache-Control lists in vain for others is kept back, or the whole answer is. */
static void check_lists(const struct side *rs, const struct conf_cache *site, const struct cache_meta *m)
{
	const struct http_response response = { .status = m->status, .fields = rs->fields };
	struct verdict_withheld withheld;
	struct http_names names;
	struct view name;

	verdict_withheld_fields(&response, site, &withheld);
	http_cache_control_names(&rs->fields, FIELD_CACHE_CONTROL, CC_PRIVATE_FIELDS, &names);
	while (http_names_next(&names, &name))
		CHECK(verdict_field_withheld(&withheld, name));
	http_cache_control_names(&rs->fields, FIELD_CACHE_CONTROL, CC_NO_CACHE_FIELDS, &names);
	while (http_names_next(&names, &name))
		CHECK(verdict_field_withheld(&withheld, name) || (m->flags & META_NO_CACHE));
}

static void check_stored(const struct side *rq, const struct side *rs,
			 const struct conf_cache *site, const struct cache_meta *m)
{
	bool elsewhere = targeted(rs, site);
	bool heard = !site->ignore_cache_control && !elsewhere;

	CHECK(!site->bypass);
	CHECK(m->lifetime_ms >= site->min_ttl_ms && m->lifetime_ms <= site->max_ttl_ms);
	CHECK(m->initial_age_ms >= 0);
	CHECK(m->status >= 200 && m->status != 206 && m->status != 304);
	if (heard) {
		CHECK(!(rs->cc.flags & CC_PRIVATE));
		CHECK(!(rs->cc.flags & CC_NO_STORE) || (rs->cc.flags & CC_MUST_UNDERSTAND));
		CHECK(!(rs->cc.flags & CC_NO_CACHE) || (m->flags & META_NO_CACHE));
		CHECK(!(rs->cc.flags & CC_MUST_REVALIDATE) || (m->flags & META_MUST_REVALIDATE));
		check_lists(rs, site, m);
	}
	if (http_fields_has(&rq->fields, FIELD_AUTHORIZATION) && !elsewhere)
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
	CHECK(verdict_use_reason(rq, m, &t, soft, site) != NULL);
	bool on_error = verdict_stale_if_error(rq, m, &t, site);
	if (m->flags & META_NO_CACHE)
		CHECK(use >= USE_REVALIDATE && !on_error);
	if (m->flags & META_MUST_REVALIDATE)
		CHECK(use != USE_STALE_WHILE_REVALIDATE && !on_error);
	if (use == USE_FRESH)
		CHECK(t.ttl_ms > 0 && !soft);
	if (use == USE_REVALIDATE)
		CHECK(m->flags & META_HAS_VALIDATOR);
}

/* What the origin is told of a reduced field is keyed as what it was reduced from. */
static void check_value(const struct http_request *rq, struct view name, const struct conf_cache *site)
{
	char value[VERDICT_VARY_VALUE_MIN], again[VERDICT_VARY_VALUE_MIN];
	size_t n = verdict_reduced_value(rq, name, site, value, sizeof(value));

	size_t reduced;

	CHECK(n <= sizeof(value));
	if (verdict_reduce(rq, name, site, again, sizeof(again), &reduced) != REDUCED)
		return;
	struct http_field line = { name, view_of(value, n), (uint8_t)http_field_id(name), false };
	struct http_request told = { .fields = { &line, 1, 1, UINT64_C(1) << line.id } };
	size_t m = verdict_reduced_value(&told, name, site, again, sizeof(again));
	CHECK(view_eq(view_of(value, n), view_of(again, m)));
}

/* A rule read again is itself, and each name in it has a value. */
static void check_vary(const struct http_request *rq, const struct http_response *rs,
		       const struct conf_cache *site)
{
	char rule[CACHE_VARY_MAX], again[CACHE_VARY_MAX], client[VERDICT_CLIENT_CONTROL_MAX];
	size_t n, again_bytes;

	CHECK(verdict_client_control(rs, site, client) < sizeof(client));

	if (verdict_vary_rule(rs, rule, sizeof(rule), &n) < 0)
		return;
	struct http_field line = { VIEW("vary"), view_of(rule, n), FIELD_VARY, false };
	struct http_response same = { .fields = { &line, 1, 1, UINT64_C(1) << FIELD_VARY } };
	CHECK(verdict_vary_rule(&same, again, sizeof(again), &again_bytes) == 0);
	CHECK(view_eq(view_of(rule, n), view_of(again, again_bytes)));
	struct view rest = view_of(rule, n), name;
	while (http_list_next(&rest, &name))
		check_value(rq, name, site);
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
	if (rq.fields.count > 0)
		rq.path = rq.fields.at[0].value;
	struct http_response rs = { .status = 100 + f.status % 500, .minor = 1, .fields = rs_side.fields };
	struct exchange_times t = { { INT64_C(1704067200000) - f.delay_ms },
				    { INT64_C(1704067200000) } };
	struct conf_cache site = site_of(&f);
	struct cache_meta meta;
	(void)verdict_request(&rq, &site);
	struct verdict_lifetime life;
	verdict_lifetime(&rs, &t, &site, &life);
	CHECK(life.source != NULL);
	check_vary(&rq, &rs, &site);
	enum store_reason reason = verdict_store(&rq, &rs, &t, &site, &meta);
	CHECK(store_reason_text(reason) != NULL);
	if (reason != STORE_YES)
		return 0;
	check_stored(&rq_side, &rs_side, &site, &meta);
	check_used(&rq, &meta, false, &site, f.age_ms);
	check_used(&rq, &meta, true, &site, f.age_ms);
	return 0;
}
