/*
 * A request and the origin: ask, pass the body up, and see what the answer means.
 *
 *   fetch   the request for the origin is built and sent
 *   await   the client's body goes up while the answer's head is awaited; then: validated (304), stored
 *           (a transfer takes over), stale instead of an error, or relayed (request_relay.c)
 */
#include <errno.h>

#include "edge/answer.h"
#include "edge/base/log.h"
#include "edge/forward.h"
#include "edge/http/field.h"
#include "edge/request_store.h"
#include "edge/scopes.h"
#include "edge/shape.h"
#include "edge/transfer.h"
#include "edge/tunnel.h"

enum {
	PASS_MS = 120 * 1000, /* how long «uncacheable» is remembered */
	PASS_ERROR_MS = 1000, /* the same of an error */
	TLS_FAULT_QUIET_MS = 10000,
};

/* --- step: fetch -------------------------------------------------------------------------------- */

static struct view origin_host(const struct request *r)
{
	return r->origin->host_client ? r->target.authority : r->origin->host;
}

/* The fetch has copies: of what many requests wait for, each byte counts. */
static int ask(struct request *r, struct fetch_request *q)
{
	struct arena_mark before;
	unsigned flags = r->claim != NULL && !r->asks_part ? FORWARD_WHOLE : 0;
	int e;

	request_make_id(r); /* which stays */
	before = arena_mark(&r->arena);
	e = forward_build(r, flags, &q->start, &q->fields);

	if (e == 0)
		e = fetch_new(r->w->origins, q, &r->m.ready, &r->fetch);
	arena_rewind(&r->arena, before);
	return e;
}

enum step_result request_step_fetch(struct machine *m)
{
	struct request *r = request_of(m);
	struct fetch_request q = {
		.conf = r->conf,
		.origin = r->origin,
		.method = r->rq->method,
		.host = origin_host(r),
		.body = r->rq->framing,
		.body_bytes = r->rq->length,
		.wants_interim = r->rq->minor > 0 && !r->background,
		.upgrade = r->upgrade,
	};

	r->collapsed = false; /* it waited in vain */
	r->validating = r->object != NULL && r->claim != NULL && !r->asks_part &&
			(r->object->meta.flags & META_HAS_VALIDATOR);
	r->upload_ended = r->rq->framing == FRAMING_NONE;
	if (ask(r, &q) != 0)
		return request_error(r, 503, "proxy_internal_error", "short of memory");
	stats_add(&stats_site(r->w->stats, r->target.site->slot)->origin_requests, 1);
	return request_goto(r, REQUEST_AWAIT);
}

/* --- the client's body ------------------------------------------------------------------------------ */

/* 0: go on; else a status to answer with, or -1: the client is gone. */
static int upload_piece(struct request *r, bool *out_wait)
{
	struct view v;
	int64_t n;
	int e = r->x->ops->read_body(r->x, &v);

	if (e == 0) {
		if (r->m.timed_out)
			return 408;
		if (r->m.timer.deadline.ms == 0)
			machine_deadline(&r->m, r->conf->limits.body_timeout_ms);
		*out_wait = true;
		return 0;
	}
	machine_no_deadline(&r->m); /* the client has done its part: if we wait now, then for the origin */
	if (e == -ENODATA) {
		e = fetch_send_end(r->fetch);
		*out_wait = e == -EAGAIN;
		r->upload_ended = e != -EAGAIN;
		return 0;
	}
	if (e < 0)
		return e == -EPROTO ? 400 : -1;
	if (r->uploaded + v.n > r->target.site->max_request_body)
		return 413;
	n = fetch_send(r->fetch, v.p, v.n);
	if (n < 0)
		r->upload_ended = true; /* the fetch has its answer, or failed: it says so itself */
	else if (n == 0)
		*out_wait = true;
	else {
		r->x->ops->took_body(r->x, (size_t)n);
		r->uploaded += (uint64_t)n;
		stats_add(&stats_site(r->w->stats, r->target.site->slot)->request_body_bytes,
			  (uint64_t)n);
	}
	return 0;
}

static int upload(struct request *r)
{
	bool wait = false;
	int e = 0;

	while (!r->upload_ended && !wait && e == 0)
		e = upload_piece(r, &wait);
	return e;
}

static enum step_result upload_failed(struct request *r, int status)
{
	fetch_free(&r->fetch);
	if (status < 0)
		return request_broken(r);
	return request_error(r, (uint16_t)status, status == 400 ? "http_request_error" : NULL,
			     status == 400   ? "the request's body is malformed"
			     : status == 408 ? "the request's body did not come in time"
					     : "the request's body is larger than this site takes");
}

/* --- what the answer means ----------------------------------------------------------------------------- */

static void note_origin(struct request *r)
{
	const struct conf_server *server = fetch_server(r->fetch);

	r->origin_us = fetch_duration_us(r->fetch);
	if (server != NULL)
		r->origin_url = server->url;
}

static bool stale_will_do(struct request *r)
{
	/* Much may have happened while the origin was asked. */
	if (r->object == NULL ||
	    cache_object_purged(r->object, r->target.site->key_forms) == CACHE_HARD_PURGED)
		return false;
	verdict_age(&r->object->meta, clock_wall(), &r->times);
	if (!verdict_stale_if_error(r->rq, &r->object->meta, &r->times, &r->cache))
		return false;
	fetch_free(&r->fetch);
	return true;
}

/* What is wrong with an origin's TLS is the operator's business: told now and then. */
static void tell_tls_fault(struct request *r)
{
	const char *fault = fetch_tls_fault(r->fetch);
	struct mono now = clock_mono(), *told = &r->w->tls_fault_told;

	if (fault[0] == '\0' || (told->ms != 0 && now.ms - told->ms < TLS_FAULT_QUIET_MS))
		return;
	*told = now;
	log_warn("origin_tls_failed", "origin=%.*s server=%.*s error=%s fault=\"%s\"",
		 VIEW_ARG(r->origin->name), VIEW_ARG(r->origin_url),
		 fetch_error_type(fetch_error(r->fetch)), fault);
}

static enum step_result fetch_failed(struct request *r)
{
	enum fetch_error e = fetch_error(r->fetch);

	tell_tls_fault(r);
	stats_origin_error(stats_site(r->w->stats, r->target.site->slot), e);
	if (stale_will_do(r))
		return request_serve_object(r, STATS_STALE, 0);
	if (r->claim != NULL) {
		struct cache_key key = request_failure_key(r);

		cache_pass_remember(r->w->cache, &key, REQUEST_FAILURE_MS);
		cache_claim_drop(&r->claim);
	}
	fetch_free(&r->fetch);
	if (r->background)
		return request_goto(r, REQUEST_END);
	return request_error(r, fetch_error_status(e), fetch_error_type(e),
			     "the origin did not answer as it should");
}

static int64_t answer_length(const struct http_response *rs)
{
	if (rs->framing == FRAMING_LENGTH ||
	    (rs->framing == FRAMING_NONE && rs->has_length && rs->status != 304))
		return (int64_t)rs->length;
	return -1;
}

static struct exchange_times times_of(const struct fetch *f)
{
	return (struct exchange_times){ .request_sent = fetch_sent_at(f),
					.response_received = fetch_received_at(f) };
}

/* --- relayed ------------------------------------------------------------------------------------------- */

static int64_t upstream_age(const struct http_response *rs)
{
	int64_t seconds;
	const struct http_field *f = http_fields_first(&rs->fields, FIELD_AGE);

	return f != NULL && http_delta_seconds(f->value, &seconds) == 0 ? seconds * 1000 : -1;
}

static struct view via_version(const struct http_response *rs)
{
	return rs->minor == 0 ? VIEW("1.0") : VIEW("1.1");
}

enum step_result request_relay_answer(struct request *r)
{
	const struct http_response *rs = fetch_response(r->fetch);
	unsigned keep = ANSWER_KEEP_SET_COOKIE | ANSWER_KEEP_AGE |
			(r->from_downstream ? ANSWER_KEEP_TAGS : 0);
	struct view fields;
	bool age;

	if (r->claim != NULL)
		cache_claim_drop(&r->claim);
	if (r->background)
		return request_goto(r, REQUEST_END);
	if (r->result == STATS_RESULTS)
		r->result = STATS_PASS;
	request_forget_object(r);
	fields = answer_fields(rs, &r->cache, NULL, fetch_received_at(r->fetch), keep, &r->arena);
	r->answer = (struct answer){
		.status = rs->status,
		.fields = shape_fields(r, rs->status, fields, false, &age),
		.own = answer_own(r, -1, false, false, 0, via_version(rs)),
		.length = answer_length(rs),
		.no_body = rs->framing == FRAMING_NONE,
	};
	if (r->answer.fields.p == NULL || request_send_head(r) != 0)
		return request_broken(r);
	return request_goto(r, REQUEST_RELAY);
}

/* An error that may be this one request's: a client must not be able to switch caching off for others. */
static bool may_be_provoked(uint16_t status)
{
	return status >= 400 && status != 401 && status != 403 && status != 404 && status != 410;
}

static bool client_says_no_store(const struct request *r)
{
	struct http_cache_control cc;

	http_cache_control(&r->rq->fields, FIELD_CACHE_CONTROL, &cc);
	return r->cache.honour_request_directives && (cc.flags & CC_NO_STORE);
}

/* Remember only what the URL is to blame for, not what this one request was. */
static void remember_pass(struct request *r, const struct http_response *rs, enum store_reason why)
{
	struct cache_key key = request_pass_key(r);

	if (why == STORE_METHOD || why == STORE_PARTIAL || why == STORE_BYPASS ||
	    client_says_no_store(r))
		return;
	cache_pass_remember(r->w->cache, &key, may_be_provoked(rs->status) ? PASS_ERROR_MS : PASS_MS);
}

/* --- stored --------------------------------------------------------------------------------------------- */

uint64_t request_largest(const struct request *r)
{
	uint64_t bytes = r->cache.max_object_bytes, size = 0;

	if (bytes != 0)
		return bytes;
	for (size_t i = 0; i < r->conf->store_count; i++)
		if (size == 0 || r->conf->stores[i].size_bytes < size)
			size = r->conf->stores[i].size_bytes;
	return size / 100 * r->cache.max_object_percent;
}

enum store_reason request_may_store(struct request *r, const struct http_request *rq,
				    const struct http_response *rs,
				    const struct cache_object *validated, struct to_store *s)
{
	struct exchange_times t = times_of(r->fetch);
	enum store_reason why = verdict_store(rq, rs, &t, &r->cache, &s->meta);
	int e;

	if (why != STORE_YES)
		return why;
	e = verdict_vary_rule(rs, s->vary, sizeof(s->vary), &s->vary_bytes);
	if (e != 0)
		return e == -ENOENT ? STORE_VARY_STAR : STORE_VARY_TOO_LONG;
	s->key = r->key;
	s->key.secondary = r->key.base;
	if (s->vary_bytes > 0 && !request_vary_key(r, view_of(s->vary, s->vary_bytes), &s->key.secondary))
		return STORE_VARY_STAR;
	s->meta.birth = cache_claim_birth(r->claim);
	s->meta.site_hash = cache_scope_site(r->target.site->name_hash).hash;
	s->meta.host_hash = scopes_host_hash(&r->target, &r->cache);
	s->meta.flags |= r->cache.key_host ? 0 : META_ANY_HOST;
	if (answer_hides(&rs->fields, &r->cache, answer_keep_stored(r->conf, &r->cache)))
		s->meta.flags |= META_FOR_CACHES;
	s->meta.url = target_url(&r->target, &r->arena);
	s->meta.max_variants = r->cache.max_variants;
	return request_tags(r, rs, validated, &s->meta);
}

void request_answer_from_fill(struct request *r, const struct http_response *rs,
			      const struct to_store *s, int64_t length)
{
	bool age;
	struct view fields = shape_fields(r, rs->status, s->shown, s->meta.flags & META_FOR_CACHES,
					  &age);

	age = age && http_fields_has(&rs->fields, FIELD_AGE);
	r->result = STATS_MISS;
	r->answer = (struct answer){
		.status = rs->status,
		.fields = fields,
		.own = answer_own(r, age ? upstream_age(rs) : -1, false, true, 0, via_version(rs)),
		.length = length,
		.no_body = rs->framing == FRAMING_NONE,
	};
	if (answer_matches_conditions(r->rq, &s->meta, s->head)) {
		r->answer.status = 304;
		r->answer.fields = answer_not_modified(fields, &r->arena);
		r->answer.length = -1;
		r->answer.no_body = true;
	}
}

enum step_result request_follow(struct request *r, uint64_t from, uint64_t until)
{
	if (r->background)
		return request_goto(r, REQUEST_END);
	if (request_send_head(r) != 0)
		return request_broken(r);
	r->offset = from;
	r->until = until;
	if (r->answer.no_body) {
		transfer_leave(r);
		return request_goto(r, REQUEST_FINISH);
	}
	return request_goto(r, REQUEST_FOLLOW);
}

bool request_heads(struct request *r, const struct http_response *rs, struct to_store *s)
{
	unsigned keep = answer_keep_stored(r->conf, &r->cache);
	struct verdict_withheld withheld;

	verdict_withheld_fields(rs, &r->cache, &withheld);
	s->head = answer_fields(rs, &r->cache, &withheld, s->meta.received, keep, &r->arena);
	s->shown = withheld.flags == 0
			   ? s->head
			   : answer_fields(rs, &r->cache, NULL, s->meta.received, keep, &r->arena);
	return s->head.p != NULL && s->shown.p != NULL && s->meta.url.p != NULL;
}

static enum step_result store(struct request *r, const struct http_response *rs, struct to_store *s)
{
	int64_t length = rs->framing == FRAMING_NONE ? 0 : answer_length(rs);
	uint64_t most = request_largest(r);
	struct cache_fill *fill;

	if (!request_heads(r, rs, s) || (length >= 0 && (uint64_t)length > most))
		return request_relay_answer(r);
	if (cache_fill_begin(&r->claim, &s->key, &s->meta, view_of(s->vary, s->vary_bytes), s->head,
			     length, &fill) != 0)
		return request_relay_answer(r);
	request_forget_object(r);
	request_search_learn(r, rs);
	request_answer_from_fill(r, rs, s, length);
	if (transfer_begin(r, fill, length, most) != 0) {
		cache_fill_free(fill);
		return request_relay_answer(r);
	}
	return request_follow(r, 0, UINT64_MAX);
}

/* --- validated ------------------------------------------------------------------------------------------- */

/* Purged while the origin was asked: neither the object nor the claim, which is as old, is of use. */
static enum step_result begin_anew(struct request *r)
{
	fetch_free(&r->fetch);
	if (r->claim != NULL)
		cache_claim_drop(&r->claim);
	return request_goto(r, REQUEST_LOOK_UP);
}

/* An answer without body came for r->object. False: it is of no use, and *out is the way on. */
static bool may_validate(struct request *r, enum step_result *out)
{
	struct view none;
	bool proved = fetch_body_next(r->fetch, &none) ==
		      FETCH_BODY_END; /* the look also keeps the connection */

	if (proved && cache_object_purged(r->object, r->target.site->key_forms) != CACHE_HARD_PURGED)
		return true;
	*out = proved ? begin_anew(r) : fetch_failed(r);
	return false;
}

/* The age is the 304's; it is in no stored head. */
static void take_age(struct http_fields *f, const struct http_fields *validating)
{
	const struct http_field *age = http_fields_first(validating, FIELD_AGE);

	for (; age != NULL && f->count < f->capacity; age = http_fields_next(validating, age)) {
		f->at[f->count++] = *age;
		f->seen |= UINT64_C(1) << FIELD_AGE;
	}
}

bool request_as_response(struct request *r, struct view head, struct http_field *at,
			 struct http_response *out)
{
	*out = (struct http_response){
		.status = 200,
		.minor = 1,
		.framing = FRAMING_LENGTH,
		.fields = { .at = at, .capacity = ANSWER_FIELDS_MAX },
	};
	if (head.p == NULL || http_fields_parse(&out->fields, head.p, head.n) != 0)
		return false;
	take_age(&out->fields, &fetch_response(r->fetch)->fields);
	return true;
}

/* The stored answer with the 304's fields, as if it had come now. */
static enum store_reason as_updated(struct request *r, struct view head, struct http_field *at,
				    struct to_store *s)
{
	struct http_response updated;
	struct http_request get = *r->rq; /* a HEAD updates what a GET stored */

	if (!request_as_response(r, head, at, &updated))
		return STORE_NO_LIFETIME;
	updated.status = r->object->meta.status;
	get.method = METHOD_GET;
	return request_may_store(r, &get, &updated, r->object, s);
}

/* By a 304, or by a HEAD's 200 that describes the same representation. */
static enum step_result validated(struct request *r)
{
	const struct http_response *rs = fetch_response(r->fetch);
	uint16_t status = rs->status;
	struct http_field at[ANSWER_FIELDS_MAX];
	struct to_store s;
	const struct cache_object *fresh;
	struct view head = answer_merge(r->object->head, rs, &r->cache, fetch_received_at(r->fetch),
					answer_keep_stored(r->conf, &r->cache), &r->arena);
	bool stored = as_updated(r, head, at, &s) == STORE_YES && s.meta.url.p != NULL &&
		      cache_refresh(&r->claim, r->object, &s.meta, head, &fresh) == 0;

	fetch_free(&r->fetch);
	if (stored) {
		request_forget_object(r);
		r->object = fresh;
	}
	return request_serve_object(r, STATS_REVALIDATED, status);
}

/* A HEAD's 200 updates the stored GET where it describes the same (RFC 9111 §4.3.5). The object may have gone since the claim was taken. */
static bool head_updates(const struct request *r, const struct http_response *rs)
{
	return r->rq->method == METHOD_HEAD && r->claim != NULL && r->object != NULL &&
	       verdict_head(&r->object->meta, r->object->record.body_bytes, rs) == HEAD_UPDATES;
}

/* --- step: await ----------------------------------------------------------------------------------------------- */

static enum step_result head_came(struct request *r)
{
	const struct http_response *rs = fetch_response(r->fetch);
	struct to_store s;
	enum step_result out;

	note_origin(r);
	stats_observe(&stats_site(r->w->stats, r->target.site->slot)->origin_ttfb, r->origin_us);
	shape_rules_of(r, rs);
	if (rs->status == 304 && r->validating)
		return may_validate(r, &out) ? validated(r) : out;
	if (rs->status >= 500 && stale_will_do(r))
		return request_serve_object(r, STATS_STALE, 0);
	if (request_invalidates(r, rs->status))
		return request_goto(r, REQUEST_INVALIDATE);
	if (head_updates(r, rs))
		return may_validate(r, &out) ? validated(r) : out;
	if (r->claim == NULL || r->rq->method == METHOD_HEAD)
		return request_relay_answer(r);
	if (r->asks_part && rs->status != 200)
		return request_part_came(r);
	r->store_reason = request_may_store(r, r->rq, rs, NULL, &s);
	if (r->store_reason == STORE_YES)
		return store(r, rs, &s);
	remember_pass(r, rs, r->store_reason);
	return request_relay_answer(r);
}

enum step_result request_step_await(struct machine *m)
{
	struct request *r = request_of(m);
	int e;

	if (r->x->gone)
		return request_broken(r);
	e = upload(r);
	if (e != 0)
		return upload_failed(r, e);
	switch (fetch_state(r->fetch)) {
	case FETCH_STARTING:
		return STEP_PARK;
	case FETCH_INTERIM: {
		const struct http_response *rs = fetch_response(r->fetch);

		r->x->ops->send_interim(r->x, rs->status,
					answer_fields(rs, &r->cache, NULL, fetch_received_at(r->fetch),
						      ANSWER_KEEP_SET_COOKIE, &r->arena));
		fetch_interim_done(r->fetch);
		return STEP_NEXT;
	}
	case FETCH_HEAD:
	case FETCH_ENDED:
		machine_no_deadline(m);
		return head_came(r);
	case FETCH_SWITCHED:
		machine_no_deadline(m);
		note_origin(r);
		shape_rules_of(r, fetch_response(r->fetch));
		return tunnel_begin(r);
	case FETCH_FAILED:
		break;
	}
	note_origin(r);
	return fetch_failed(r);
}
