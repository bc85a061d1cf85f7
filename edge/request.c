/*
 * A request's frame: its machine, its beginning and end, and the answers that we make ourselves.
 *
 * Lifetime: request_begin → steps → request_end, which tells the exchange once (done) and goes back to
 * the worker's list of spare ones. Whatever it holds of cache and origin is let go of in one place, drop_all,
 * which is safe at any step.
 */
#include "edge/request.h"

#include <errno.h>
#include <stdlib.h>

#include "edge/http/field.h"
#include "edge/https.h"
#include "edge/text.h"
#include "edge/transfer.h"
#include "edge/tunnel.h"

enum { KEPT_REQUESTS = 256 };

static enum step_result step_send(struct machine *m);
static enum step_result step_finish(struct machine *m);
static enum step_result step_end(struct machine *m);

static const struct step steps[] = {
	[REQUEST_ROUTE] = { "route", request_step_route },
	[REQUEST_LOOK_UP] = { "look_up", request_step_look_up },
	[REQUEST_OPEN] = { "open", request_step_open },
	[REQUEST_SEARCH] = { "search", request_step_search },
	[REQUEST_PART] = { "part", request_step_part },
	[REQUEST_CLAIM] = { "claim", request_step_claim }, /* collapse.wait */
	[REQUEST_FETCH] = { "fetch", request_step_fetch },
	[REQUEST_AWAIT] = { "await", request_step_await }, /* the fetch's timeouts; body_timeout */
	[REQUEST_COMBINE] = { "combine", request_step_combine },
	[REQUEST_RELAY] = { "relay", request_step_relay },	 /* the fetch's; send_timeout */
	[REQUEST_FOLLOW] = { "follow", request_step_follow },	 /* send_timeout */
	[REQUEST_DELIVER] = { "deliver", request_step_deliver }, /* send_timeout */
	[REQUEST_INVALIDATE] = { "invalidate", request_step_invalidate },
	[REQUEST_PARTS] = { "parts", request_step_parts }, /* send_timeout */
	[REQUEST_PURGE] = { "purge", request_step_purge },
	[REQUEST_SWITCH] = { "switch", request_step_switch }, /* send_timeout */
	[REQUEST_TUNNEL] = { "tunnel", request_step_tunnel }, /* tunnel_timeout */
	[REQUEST_SEND] = { "send", step_send },		      /* send_timeout */
	[REQUEST_FINISH] = { "finish", step_finish },	      /* send_timeout */
	[REQUEST_END] = { "end", step_end },
};

static void request_end(struct machine *m);

struct request *request_of(struct machine *m)
{
	struct request *r = CONTAINER_OF(m, struct request, m);

	CHECK_MAGIC(r, REQUEST_MAGIC);
	return r;
}

/* --- beginning -------------------------------------------------------------------------------- */

static struct request *take_request(struct worker *w)
{
	struct request *r = w->free_requests;

	if (r == NULL) {
		r = malloc(sizeof(*r));
		if (r == NULL)
			return NULL;
		arena_init(&r->arena, REQUEST_ARENA_MAX);
	} else {
		w->free_requests = r->next_free;
		w->free_request_count--;
	}
	memset(&r->rq, 0, offsetof(struct request, record) - offsetof(struct request, rq));
	memset(&r->pending, 0, sizeof(*r) - offsetof(struct request, pending));
	return r;
}

struct request *request_new(struct worker *w, struct exchange *x)
{
	struct request *r = take_request(w);

	if (r == NULL)
		return NULL;
	if (machine_init(&r->m, w->loop, -1, steps, request_end) != 0) {
		arena_fini(&r->arena);
		free(r);
		return NULL;
	}
	r->magic = REQUEST_MAGIC;
	r->w = w;
	r->x = x;
	r->conf = conf_ref(w->conf);
	r->result = STATS_RESULTS;
	r->origin_us = -1;
	r->client = *x->client;
	list_init(&r->follower);
	x->request = &r->m;
	w->request_count++;
	return r;
}

static bool is_health_check(const struct http_request *rq, const struct conf_listener *listener)
{
	return listener != NULL && listener->health_path.n > 0 &&
	       view_eq(rq->path, listener->health_path) &&
	       (rq->method == METHOD_GET || rq->method == METHOD_HEAD);
}

int request_begin(struct worker *w, struct exchange *x, const struct http_request *rq,
		  enum http_fault fault, const struct conf_listener *listener)
{
	struct request *r = request_new(w, x);

	if (r == NULL)
		return -ENOMEM;
	r->rq = rq;
	if (rq == NULL) {
		r->early_status = http_fault_status(fault);
		r->early_text = http_fault_text(fault);
	} else {
		r->health = is_health_check(rq, listener);
		r->listener = listener;
	}
	machine_wake(&r->m);
	return 0;
}

int request_begin_timeout(struct worker *w, struct exchange *x)
{
	struct request *r = request_new(w, x);

	if (r == NULL)
		return -ENOMEM;
	r->early_status = 408;
	r->early_text = "the request head did not come in time";
	machine_wake(&r->m);
	return 0;
}

size_t request_memory(struct machine *m)
{
	const struct request *r = request_of(m);
	size_t n = sizeof(*r) + r->arena.total_bytes;

	if (r->fetch != NULL)
		n += fetch_memory(r->fetch);
	if (r->object != NULL)
		n += cache_object_memory(r->object);
	return r->part != NULL ? n + cache_object_memory(r->part) : n;
}

/* --- answers of our own --------------------------------------------------------------------------------- */

int request_send_head(struct request *r)
{
	if (https_strict(r)) {
		r->answer.own = https_own(r, r->answer.own);
		if (r->answer.own.p == NULL)
			return -ENOMEM;
	}
	return r->x->ops->send_head(r->x, &r->answer);
}

enum step_result request_answer(struct request *r, uint16_t status, struct view own, struct view body)
{
	bool head = r->rq != NULL && r->rq->method == METHOD_HEAD;

	r->answer = (struct answer){
		.status = status,
		.own = own,
		.length = status == 204 ? -1 : (int64_t)body.n,
		.no_body = head || status == 204 || status == 304,
	};
	r->body = r->answer.no_body ? (struct view){ 0 } : body;
	r->offset = 0;
	machine_no_deadline(&r->m); /* of what was waited for before */
	if (request_send_head(r) != 0)
		return request_broken(r);
	return request_goto(r, REQUEST_SEND);
}

static struct view error_fields(struct request *r, uint16_t status, const char *proxy_error)
{
	char date[HTTP_DATE_BYTES];
	struct text t = text_new(&r->arena, 512 + r->conf->name.n);

	http_date_format(clock_wall(), date);
	text_line(&t, VIEW("Date"), view_of(date, sizeof(date)));
	text_line(&t, VIEW("Content-Type"), VIEW("text/plain; charset=utf-8"));
	text_line(&t, VIEW("Cache-Control"), VIEW("no-store"));
	if (status == 405)
		text_put(&t, VIEW(REQUEST_ALLOW_LINE));
	if (status == 503)
		text_line(&t, VIEW("Retry-After"), VIEW("1"));
	text_put(&t, VIEW("Proxy-Status: "));
	text_put(&t, r->conf->name);
	if (proxy_error != NULL) {
		text_put(&t, VIEW("; error="));
		text_put(&t, view_str(proxy_error));
	}
	text_put(&t, VIEW("\r\n"));
	return text_view(&t);
}

enum step_result request_error(struct request *r, uint16_t status, const char *proxy_error,
			       const char *text)
{
	struct view body = arena_printf(&r->arena, "%u: %s\n", status, text);

	r->result = STATS_ERROR;
	r->error = proxy_error != NULL ? proxy_error : text;
	if (body.p == NULL)
		body = VIEW("error\n");
	return request_answer(r, status, error_fields(r, status, proxy_error), body);
}

/* --- steps: send, finish, end -------------------------------------------------------------------------------- */

enum step_result request_wait_client(struct request *r)
{
	if (r->m.timer.deadline.ms == 0)
		machine_deadline(&r->m, r->conf->limits.send_timeout_ms);
	return STEP_PARK;
}

bool request_client_stuck(struct request *r)
{
	if (!r->m.timed_out)
		return false;
	if (!r->x->ops->taking(r->x)) {
		stats_add(&r->w->stats->gauges.send_timeouts, 1);
		r->error = "send_timeout";
		return true;
	}
	machine_deadline(&r->m, r->conf->limits.send_timeout_ms);
	return false;
}

enum step_result request_broken(struct request *r)
{
	r->x->ops->abort(r->x);
	if (r->error == NULL)
		r->error = r->x->gone ? "client_gone" : "aborted";
	if (r->result == STATS_RESULTS && r->lookup)
		r->result = STATS_MISS; /* as far as one came */
	return request_goto(r, REQUEST_END);
}

static enum step_result step_send(struct machine *m)
{
	struct request *r = request_of(m);
	int64_t n;

	if (request_client_stuck(r))
		return request_broken(r);
	while (r->offset < r->body.n) {
		n = r->x->ops->send_memory(r->x, r->body.p + r->offset, r->body.n - r->offset, true);
		if (n < 0)
			return request_broken(r);
		if (n == 0)
			return request_wait_client(r);
		machine_no_deadline(m);
		r->offset += (uint64_t)n;
	}
	return request_goto(r, REQUEST_FINISH);
}

static enum step_result step_finish(struct machine *m)
{
	struct request *r = request_of(m);
	int e;

	if (request_client_stuck(r))
		return request_broken(r);
	e = r->x->ops->finish(r->x, r->fetch != NULL ? fetch_trailers(r->fetch) : (struct view){ 0 });
	if (e == -EAGAIN)
		return request_wait_client(r);
	if (e != 0)
		return request_broken(r);
	return request_goto(r, REQUEST_END);
}

static struct view result_text(const struct request *r)
{
	static const char *const text[] = {
		[STATS_HIT] = "hit",	 [STATS_MISS] = "miss",
		[STATS_STALE] = "stale", [STATS_REVALIDATED] = "revalidated",
		[STATS_PASS] = "pass",	 [STATS_BYPASS] = "bypass",
		[STATS_ERROR] = "error", [STATS_RESULTS] = "none",
	};

	return view_str(text[r->result]);
}

static struct view field_value(const struct request *r, struct view name)
{
	uint16_t at = 0;
	const struct http_field *f = http_fields_find(&r->rq->fields, name, &at);

	return f != NULL ? f->value : (struct view){ 0 };
}

static void log_access(struct request *r, int64_t ttfb_us, int64_t duration_us)
{
	char client[SOCK_ADDR_TEXT];

	if (r->rq != NULL)
		request_make_id(r);
	struct access_entry e = {
		.time = { clock_wall().ms - duration_us / 1000 },
		.request_id = r->request_id,
		.client = view_str(sock_addr_host(&r->client, client)),
		.protocol = r->x->protocol,
		.status = r->x->sent_head ? r->answer.status : 0,
		.bytes = r->x->sent_bytes,
		.cache = result_text(r),
		.ttfb_us = ttfb_us,
		.duration_us = duration_us,
		.origin = r->origin_url,
		.tls = r->x->tls,
		.origin_us = r->origin_us,
		.error = r->error != NULL ? view_str(r->error) : (struct view){ 0 },
	};

	if (r->rq != NULL) {
		e.method = r->rq->method_text;
		e.host = r->target.site != NULL ? r->target.host : r->rq->authority;
		e.path = r->rq->path;
		e.referer = field_value(r, VIEW("Referer"));
		e.user_agent = field_value(r, VIEW("User-Agent"));
	}
	if (r->target.site != NULL)
		e.site = r->target.site->name;
	access_log_write(r->w->access, &e);
}

static void account(struct request *r)
{
	int64_t now = clock_mono_us();
	int64_t duration = now - r->x->began_us;
	int64_t ttfb = r->x->first_byte_us != 0 ? r->x->first_byte_us - r->x->began_us : -1;

	if (r->background || r->health)
		return;
	if (r->target.site != NULL && r->result != STATS_RESULTS)
		stats_request(stats_site(r->w->stats, r->target.site->slot),
			      r->x->sent_head ? r->answer.status : 0, r->result, r->x->sent_bytes,
			      ttfb, duration);
	if (r->collapsed)
		stats_add(&stats_site(r->w->stats, r->target.site->slot)->followers, 1);
	if (access_log_wanted(r->w->access))
		log_access(r, ttfb, duration);
}

static enum step_result step_end(struct machine *m)
{
	account(request_of(m));
	return STEP_DONE;
}

void request_forget_object(struct request *r)
{
	if (r->object == NULL)
		return;
	cache_reader_fini(&r->reader);
	cache_object_unref(r->object);
	r->object = NULL;
}

static void drop_all(struct request *r)
{
	transfer_leave(r);
	request_forget_object(r);
	request_forget_part(r);
	cache_read_cancel(&r->pending);
	if (r->w->cache != NULL) {
		request_stop_waiting(r);
		cache_purge_ask_cancel(r->w->cache, &r->purge);
	}
	if (r->pipe != NULL)
		pipe_give(&r->w->pipes, &r->pipe);
	tunnel_free(r);
	fetch_free(&r->fetch);
	if (r->claim != NULL)
		cache_claim_drop(&r->claim);
}

static void request_end(struct machine *m)
{
	struct request *r = request_of(m);
	struct worker *w = r->w;

	drop_all(r);
	r->x->ops->done(r->x);
	conf_unref(r->conf);
	r->magic = 0;
	w->request_count--;
	if (w->free_request_count < KEPT_REQUESTS) {
		arena_reset(&r->arena);
		r->next_free = w->free_requests;
		w->free_requests = r;
		w->free_request_count++;
		return;
	}
	arena_fini(&r->arena);
	free(r);
}

void requests_free_kept(struct worker *w)
{
	while (w->free_requests != NULL) {
		struct request *r = w->free_requests;

		w->free_requests = r->next_free;
		arena_fini(&r->arena);
		free(r);
	}
	w->free_request_count = 0;
}
