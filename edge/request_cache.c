/*
 * A request and the cache: look up, open, decide, wait for whoever fetches already, deliver.
 *
 *   look_up   the index, by the primary key and what rules keep; through a Vary rule to the variant
 *   open      the entry is read and checked; purge clock, then freshness, decide
 *   claim     nobody may fetch what another fetches: own the claim (and look again), wait, or pass
 *   deliver   a body that did not come with the entry: sendfile, span by span
 */
#include <errno.h>

#include "edge/answer.h"
#include "edge/forward.h"
#include "edge/http/field.h"
#include "edge/request.h"
#include "edge/scopes.h"
#include "edge/shape.h"

enum {
	DELIVER_BYTES = 1 << 20, /* a turn's share of one request */
	COMMIT_WAIT_MS = 1000,
	WAITS_MAX = 2, /* whose wait came to nothing twice goes its own way */
	BACKGROUND_WAIT_MS = 5000,
	BACKGROUND_WAITS_MAX = 16, /* of a worker at a time: each stale hit may make one */
	KEPT_PARTS_MAX = 64,
	VARY_VALUE_BYTES = 512,
};

/* --- keys ------------------------------------------------------------------------------------ */

/* "a=1; b=2": the value of the cookie, or empty. */
static struct view cookie_value(const struct http_fields *f, struct view name)
{
	const struct http_field *field = http_fields_first(f, FIELD_COOKIE);

	for (; field != NULL; field = http_fields_next(f, field)) {
		struct view rest = field->value;

		while (rest.n > 0) {
			const char *end = memchr(rest.p, ';', rest.n);
			size_t n = end != NULL ? (size_t)(end - rest.p) : rest.n;
			struct view pair = http_trim(view_of(rest.p, n));

			if (pair.n > name.n && pair.p[name.n] == '=' && view_starts(pair, name))
				return view_skip(pair, name.n + 1);
			rest = view_skip(rest, end != NULL ? n + 1 : n);
		}
	}
	return (struct view){ 0 };
}

static uint64_t base_secondary(struct request *r)
{
	const struct conf_cache *c = &r->cache;
	char values[KEPT_PARTS_MAX][VARY_VALUE_BYTES];
	struct view parts[KEPT_PARTS_MAX];
	size_t count = 0;

	if (c->key_headers.count == 0 && c->key_cookies.count == 0)
		return 0;
	for (size_t i = 0; i < c->key_headers.count && count < KEPT_PARTS_MAX; i++, count++) {
		ssize_t n = forward_value(r, c->key_headers.at[i], values[count], VARY_VALUE_BYTES);

		if (n < 0) /* the site wants it so: each client has its own object */
			n = (ssize_t)verdict_reduced_value(r->rq, c->key_headers.at[i], c,
							   values[count], VARY_VALUE_BYTES);
		parts[count] = view_of(values[count], (size_t)n);
	}
	for (size_t i = 0; i < c->key_cookies.count && count < KEPT_PARTS_MAX; i++, count++)
		parts[count] = cookie_value(&r->rq->fields, c->key_cookies.at[i]);
	return cache_key_secondary(0, parts, count);
}

bool request_vary_key(struct request *r, struct view rule, uint64_t *out_secondary)
{
	char values[VARY_NAMES_MAX][VARY_VALUE_BYTES];
	struct view parts[VARY_NAMES_MAX], rest = rule, name;
	size_t count = 0;

	while (http_list_next(&rest, &name)) {
		ssize_t n = count < VARY_NAMES_MAX
				    ? forward_value(r, name, values[count], VARY_VALUE_BYTES)
				    : -E2BIG;

		if (n < 0)
			return false;
		parts[count] = view_of(values[count], (size_t)n);
		count++;
	}
	*out_secondary = cache_key_secondary(r->key.base, parts, count);
	return true;
}

struct cache_key request_pass_key(const struct request *r)
{
	struct cache_key key = r->key;

	if (http_fields_has(&r->rq->fields, FIELD_COOKIE) ||
	    http_fields_has(&r->rq->fields, FIELD_AUTHORIZATION))
		key.primary[15] ^= 1;
	return key;
}

struct cache_key request_failure_key(const struct request *r)
{
	struct cache_key key = r->key;

	key.primary[15] ^= 2;
	return key;
}

/* --- step: look_up ---------------------------------------------------------------------------- */

/* A claim for another key than the one that we now know to be right helps nobody. */
static void set_secondary(struct request *r, uint64_t secondary)
{
	if (r->key.secondary == secondary)
		return;
	r->key.secondary = secondary;
	if (r->claim != NULL)
		cache_claim_drop(&r->claim);
}

int request_find(struct request *r, struct cache_key *key)
{
	uint64_t secondary;
	int e;

	key->secondary = key->base;
	e = cache_find(r->w->cache, key, &r->record);
	if (e != 0 || r->record.kind != CACHE_RECORD_VARY)
		return e;
	if (!request_vary_key(r, view_of(r->record.vary, r->record.vary_bytes), &secondary))
		return -ENOENT;
	r->why = FORWARD_VARY_MISS;
	key->secondary = secondary;
	return cache_find(r->w->cache, key, &r->record);
}

static int find(struct request *r)
{
	struct cache_key key = r->key;
	int e = request_find(r, &key);

	set_secondary(r, key.secondary);
	return e;
}

enum step_result request_step_look_up(struct machine *m)
{
	struct request *r = request_of(m);
	bool found;

	request_forget_object(r);
	request_forget_part(r);
	r->why = FORWARD_URI_MISS;
	r->key.base = base_secondary(r);
	found = find(r) == 0;
	if (found && r->record.body_id != r->lost_id)
		return request_goto(r, REQUEST_OPEN);
	if (r->background && !found)
		return request_goto(r, REQUEST_END); /* gone, and nobody asks for it */
	if (!found && r->cache.no_vary_search && r->claim == NULL)
		return request_goto(r, REQUEST_SEARCH);
	if (r->ranged)
		return request_goto(r, REQUEST_PART);
	return request_goto(r, r->claim != NULL ? REQUEST_FETCH : REQUEST_CLAIM);
}

/* --- step: open ---------------------------------------------------------------------------------- */

static enum step_result miss(struct request *r)
{
	request_forget_object(r);
	return request_goto(r, r->claim != NULL ? REQUEST_FETCH : REQUEST_CLAIM);
}

static enum step_result must_ask(struct request *r)
{
	r->why = FORWARD_STALE;
	return request_goto(r, r->claim != NULL ? REQUEST_FETCH : REQUEST_CLAIM);
}

static enum step_result decide(struct request *r)
{
	const struct cache_meta *meta = &r->object->meta;
	enum cache_purged purged = cache_object_purged(r->object, r->target.site->key_forms);

	if (purged == CACHE_HARD_PURGED)
		return miss(r);
	r->soft_purged = purged == CACHE_SOFT_PURGED;
	verdict_age(meta, loop_wall(r->w->loop), &r->times);
	shape_rules(r, meta->status, r->object->head);
	switch (verdict_use(r->rq, meta, &r->times, r->soft_purged, &r->cache)) {
	case USE_FRESH:
		return request_serve_object(r, STATS_HIT, 0);
	case USE_STALE_WHILE_REVALIDATE:
		if (r->background)
			break;
		request_begin_background(r);
		return request_serve_object(r, STATS_STALE, 0);
	case USE_REVALIDATE:
	case USE_MISS:
		break;
	}
	return must_ask(r);
}

enum step_result request_step_open(struct machine *m)
{
	struct request *r = request_of(m);
	int e = cache_object_open(r->w->cache, &r->key, &r->record, &m->ready, &r->pending, &r->object);

	if (e == -EINPROGRESS)
		return r->x->gone ? request_broken(r) : STEP_PARK;
	if (e != 0)
		return miss(r);
	return decide(r);
}

/* --- step: claim ------------------------------------------------------------------------------------ */

static bool only_if_cached(const struct request *r)
{
	struct http_cache_control cc;

	if (!http_fields_has(&r->rq->fields, FIELD_CACHE_CONTROL))
		return false;
	http_cache_control(&r->rq->fields, FIELD_CACHE_CONTROL, &cc);
	return cc.flags & CC_ONLY_IF_CACHED;
}

static enum step_result pass(struct request *r)
{
	machine_no_deadline(&r->m);
	if (r->claim != NULL)
		cache_claim_drop(&r->claim);
	r->waiting = r->asks_part = false;
	if (only_if_cached(r))
		return request_error(r, 504, NULL, "not in the cache, and only-if-cached was asked for");
	r->result = STATS_PASS;
	return r->background ? request_goto(r, REQUEST_END) : request_goto(r, REQUEST_FETCH);
}

void request_stop_waiting(struct request *r)
{
	cache_wait_cancel(r->w->cache, &r->wait);
	if (r->waiting && r->background)
		r->w->background_waits--;
	r->waiting = false;
}

static enum step_result wait_over(struct request *r)
{
	request_stop_waiting(r);
	if (r->m.timed_out && !r->background)
		return pass(r);
	machine_no_deadline(&r->m);
	return request_goto(r, REQUEST_LOOK_UP);
}

static enum step_result wait(struct request *r, bool collapsed)
{
	if (r->waits == WAITS_MAX || (collapsed && (r->ranged || only_if_cached(r)))) {
		request_stop_waiting(r);
		return pass(r);
	}
	r->waiting = true;
	r->collapsed |= collapsed;
	if (collapsed)
		stats_add(&stats_site(r->w->stats, r->target.site->slot)->fill_waits, 1);
	r->waits++;
	/* A commit is a matter of milliseconds, unless the keeper hangs. */
	machine_deadline(&r->m, collapsed ? r->cache.collapse_wait_ms : COMMIT_WAIT_MS);
	return STEP_PARK;
}

/* Stale is what the index says; the claim may still be that of the very commit (the keeper writes the index first), or can't be
 * looked at now. Then nobody revalidates, so this waits for a moment, and only then leaves it to the next request. */
static enum step_result wait_in_background(struct request *r)
{
	if (r->waits == WAITS_MAX || r->w->background_waits == BACKGROUND_WAITS_MAX) {
		request_stop_waiting(r);
		return request_goto(r, REQUEST_END);
	}
	r->waiting = true;
	r->waits++;
	r->w->background_waits++;
	machine_deadline(&r->m, BACKGROUND_WAIT_MS);
	return STEP_PARK;
}

static enum cache_claimed take(struct request *r, const struct cache_key *key)
{
	struct cache_names names = {
		.primary = r->key.primary,
		.site_hash = r->target.site->name_hash,
		.host_hash = scopes_host_hash(&r->target, &r->cache),
		.url = target_url(&r->target, &r->arena),
		.any_host = !r->cache.key_host,
		.forms = r->target.site->key_forms,
	};

	return cache_claim_take(r->w->cache, key, &names, &r->wait, &r->m.ready, &r->claim);
}

/* A part has a claim of its own, so that nobody who wants the whole waits for it; but where that is on its way it isn't asked for
 * as a part. */
static enum cache_claimed take_for(struct request *r)
{
	enum cache_claimed claimed = take(r, &r->key);
	struct cache_key key;

	r->asks_part = claimed == CACHE_CLAIM_OWNED && request_wants_part(r);
	if (!r->asks_part)
		return claimed;
	cache_claim_drop(&r->claim);
	key = request_part_key(&r->key);
	return take(r, &key);
}

static enum step_result take_claim(struct request *r)
{
	switch (take_for(r)) {
	case CACHE_CLAIM_OWNED:
		/* Without something to validate, a HEAD's answer is not stored, nor are several parts. */
		if (only_if_cached(r) || (r->object == NULL && !r->asks_part &&
					  (r->ranged || r->rq->method != METHOD_GET)))
			break;
		return request_goto(r, REQUEST_LOOK_UP); /* a commit may have come between */
	case CACHE_CLAIM_WAIT:
		if (!r->background)
			return wait(r, true);
		request_stop_waiting(r); /* what is to be done is being done */
		return request_goto(r, REQUEST_END);
	case CACHE_CLAIM_COMMIT:
		return r->background ? wait_in_background(r) : wait(r, false);
	case CACHE_CLAIM_PASS:
		if (r->background)
			return wait_in_background(r);
		break;
	}
	return pass(r);
}

/* The fetch that this request waited for failed: the next would, too, and one by one the crowd would wait for all of them. */
static bool failure_is_shared(const struct request *r)
{
	struct cache_key key = request_failure_key(r);

	return r->waits > 0 && r->cache.collapse_share && cache_pass_known(r->w->cache, &key);
}

static enum step_result share_failure(struct request *r)
{
	if (r->object != NULL && verdict_stale_if_error(r->rq, &r->object->meta, &r->times, &r->cache))
		return request_serve_object(r, STATS_STALE, 0);
	return request_error(r, 503, "destination_unavailable",
			     "the origin failed another request that this one waited for");
}

enum step_result request_step_claim(struct machine *m)
{
	struct request *r = request_of(m);
	struct cache_key pass_key = request_pass_key(r);

	if (r->x->gone)
		return request_broken(r);
	if (r->waiting)
		return wait_over(r);
	if (failure_is_shared(r))
		return share_failure(r);
	if (cache_pass_known(r->w->cache, &pass_key))
		return pass(r);
	return take_claim(r);
}

/* --- serving what is stored --------------------------------------------------------------------------- */

static void describe_answer(struct request *r, uint16_t forward_status)
{
	const struct cache_object *o = r->object;
	bool validated = forward_status != 0;
	bool hit = !validated && !r->collapsed, age;
	struct view fields = shape_fields(r, o->meta.status, o->head,
					  o->meta.flags & META_FOR_CACHES, &age);

	r->answer = (struct answer){
		.status = o->meta.status,
		.fields = fields,
		.own = answer_own(r, validated || !age ? -1 : r->times.age_ms, hit, false,
				  forward_status, VIEW("1.1")),
		.length = (int64_t)o->record.body_bytes,
		.no_body = r->rq->method == METHOD_HEAD,
	};
	if (answer_matches_conditions(r->rq, &o->meta, o->head)) {
		r->answer.status = 304;
		r->answer.fields = answer_not_modified(fields, &r->arena);
	}
	if (r->answer.status == 304 || r->answer.status == 204) {
		r->answer.no_body = true;
		r->answer.length = -1;
	}
}

enum step_result request_serve_object(struct request *r, enum stats_result result, uint16_t forward_status)
{
	if (r->claim != NULL)
		cache_claim_drop(&r->claim);
	r->result = result;
	if (r->background)
		return request_goto(r, REQUEST_END);
	cache_object_hit(r->object);
	describe_answer(r, forward_status);
	r->offset = 0;
	r->until = r->object->record.body_bytes;
	r->parts = NULL;
	request_apply_range(r);
	if (request_send_head(r) != 0)
		return request_broken(r);
	r->body = (struct view){ 0 };
	if (r->parts != NULL && !r->answer.no_body)
		return request_goto(r, REQUEST_PARTS);
	if (r->answer.no_body || r->offset == r->until)
		return request_goto(r, REQUEST_FINISH);
	if (r->object->body.n == 0)
		return request_goto(r, REQUEST_DELIVER);
	r->body = view_of(r->object->body.p + r->offset, r->until - r->offset);
	r->offset = 0;
	return request_goto(r, REQUEST_SEND);
}

/* --- step: deliver ---------------------------------------------------------------------------------------- */

/* Some of the body isn't there (evicted meanwhile, or the disk lost it). Before a byte of the answer is out that is a miss;
 * after that it is one for a request behind, or all who come would be broken off, too. */
static enum step_result body_lost(struct request *r, int error)
{
	r->lost_id = r->object->record.body_id;
	if (!r->x->sent_head)
		return request_goto(r, REQUEST_LOOK_UP);
	if (error != -ECANCELED)
		request_begin_background(r);
	return request_broken(r);
}

enum step_result request_step_deliver(struct machine *m)
{
	struct request *r = request_of(m);
	const struct cache_object *o = r->object;
	uint64_t share = 0;

	if (r->x->gone || request_client_stuck(r))
		return request_broken(r);
	while (share < DELIVER_BYTES) {
		struct cache_span span;
		int64_t n;
		int e;

		if (r->offset == r->until)
			return request_goto(r, r->parts != NULL ? REQUEST_PARTS : REQUEST_FINISH);
		e = cache_object_body(o, &r->reader, r->offset, &m->ready, &span);
		if (e == -EINPROGRESS)
			return STEP_PARK;
		if (e != 0)
			return body_lost(r, e);
		if (span.bytes > r->until - r->offset)
			span.bytes = (uint32_t)(r->until - r->offset);
		n = r->x->ops->send_file(r->x, span.fd, span.offset, span.bytes,
					 r->parts == NULL && r->offset + span.bytes == r->until);
		if (n < 0)
			return request_broken(r);
		if (n == 0)
			return request_wait_client(r);
		machine_no_deadline(m);
		r->offset += (uint64_t)n;
		share += (uint64_t)n;
	}
	return STEP_YIELD;
}
