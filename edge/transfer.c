/*
 * A transfer: socket → the worker's pipe → file, until the body's end is proved, and then to the keeper.
 *
 * Its request is a follower: it sends from the file (or from staging memory) what is there, and is woken as
 * more comes. Tee to a second pipe for the first client, the rejected alternative, costs the same by
 * measure (docs/decisions/no-tee.md) and would be a second way for bytes to go.
 *
 * Lifetime: running → complete | broken | handover. It frees itself once it is over and nobody follows.
 * handover: the store takes no more (full, slow, failed). When its follower has read all that is there, the
 * rest of the body is relayed to it from the socket, and what was filled is given up. Bytes that the store
 * refused in mid-piece lie in the pipe: it goes along («rest»), and the worker takes another.
 */
#include "edge/transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "edge/answer.h"
#include "edge/base/log.h"

enum {
	TRANSFER_MAGIC = 0x7472616e,
	PUMP_BYTES = 1 << 20,	/* a turn's share of one transfer */
	FOLLOW_BYTES = 1 << 20, /* and of one follower */
};

enum transfer_state { RUNNING, COMPLETE, BROKEN, HANDOVER };

struct transfer {
	uint32_t magic;
	struct machine m;
	struct worker *w;
	struct conf *conf;
	struct fetch *fetch;
	struct cache_fill *fill;
	struct pipe *rest;     /* with bytes that the store didn't take; NULL: none */
	struct list followers; /* of struct request */
	enum transfer_state state;
	int64_t length;
	char *tail_bytes; /* holds the tail; NULL: there is none */
	struct view tail;
	uint64_t max_bytes;
	struct stats_site *stats;
	bool pumped; /* what came with the head is in the fill, and leaves together with it */
	bool over, abandon; /* abandon: without followers the fill is given up */
};

static enum step_result step_pump(struct machine *m);

static const struct step steps[] = {
	{ "pump", step_pump }, /* the fetch's timeouts */
};

static struct transfer *of(struct machine *m)
{
	struct transfer *t = CONTAINER_OF(m, struct transfer, m);

	CHECK_MAGIC(t, TRANSFER_MAGIC);
	return t;
}

static void free_if_done(struct transfer *t)
{
	struct worker *w = t->w;

	if (!t->over || !list_empty(&t->followers))
		return;
	cache_fill_free(t->fill);
	pipe_give(&w->pipes, &t->rest);
	free(t->tail_bytes);
	conf_unref(t->conf);
	t->magic = 0;
	w->transfer_count--;
	free(t);
	worker_transfer_gone(w);
}

static void transfer_end(struct machine *m)
{
	struct transfer *t = of(m);

	t->over = true;
	free_if_done(t);
}

int transfer_begin(struct request *r, struct cache_fill *fill, int64_t length, uint64_t max_bytes)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return -ENOMEM;
	if (machine_init(&t->m, r->w->loop, -1, steps, transfer_end) != 0) {
		free(t);
		return -ENOMEM;
	}
	t->magic = TRANSFER_MAGIC;
	t->w = r->w;
	t->w->transfer_count++;
	t->conf = conf_ref(r->conf);
	t->fill = fill;
	t->fetch = r->fetch;
	t->length = length;
	t->max_bytes = max_bytes;
	t->stats = stats_site(r->w->stats, r->target.site->slot);
	stats_add(&t->stats->fills, 1);
	t->abandon = r->cache.fill_after_abort == CONF_ABORT_NEVER;
	list_init(&t->followers);
	list_append(&t->followers, &r->follower);
	r->fetch = NULL;
	r->transfer = t;
	fetch_set_wake(t->fetch, &t->m.ready);
	machine_wake(&t->m);
	return 0;
}

void transfer_end_with(struct request *r, char *bytes, struct view tail)
{
	r->transfer->tail_bytes = bytes;
	r->transfer->tail = tail;
}

void transfer_leave(struct request *r)
{
	struct transfer *t = r->transfer;

	if (t == NULL)
		return;
	cache_reader_fini(&r->reader);
	list_remove(&r->follower);
	r->transfer = NULL;
	if (t->over)
		free_if_done(t);
	else if (list_empty(&t->followers) && (t->abandon || t->state == HANDOVER))
		machine_wake(&t->m);
}

/* --- the pump --------------------------------------------------------------------------------------- */

static void wake_followers(struct transfer *t)
{
	LIST_EACH (&t->followers, at, next)
		machine_wake(&LIST_ENTRY(at, struct request, follower)->m);
}

static enum step_result ends(struct transfer *t, enum transfer_state state)
{
	t->state = state;
	fetch_free(&t->fetch); /* the origin's connection waits for no client */
	wake_followers(t);
	return STEP_DONE;
}

static enum step_result body_ended(struct transfer *t)
{
	/* A fill that can't be finished is not stored, but its bytes are all there for who follows. */
	if ((t->tail.n > 0 && cache_fill_write(t->fill, t->tail.p, t->tail.n) != 0) ||
	    cache_fill_finish(t->fill) != 0) {
		stats_add(&t->stats->fills_broken, 1);
		cache_fill_abort(t->fill);
	}
	return ends(t, COMPLETE);
}

static enum step_result give_up(struct transfer *t)
{
	stats_add(&t->stats->fills_broken, 1);
	cache_fill_abort(t->fill);
	return ends(t, BROKEN);
}

static enum step_result broke_off(struct transfer *t)
{
	stats_origin_error(t->stats, fetch_error(t->fetch));
	return give_up(t);
}

/* A full or failing disk is the operator's business: told once a minute. */
static void tell_refusal(struct worker *w, int error)
{
	if (error == -EAGAIN || error == -EFBIG || error == -ECANCELED || !log_due(&w->refusal_told))
		return;
	log_warn("store_refuses", "error=\"%s\" what=\"answers are relayed and not stored\"",
		 strerror(-error));
}

/* error: why the store takes no more. */
static enum step_result hand_over(struct transfer *t, int error)
{
	tell_refusal(t->w, error);
	if (list_empty(&t->followers))
		return give_up(t);
	t->state = HANDOVER;
	fetch_pause(t->fetch);
	wake_followers(t);
	return STEP_PARK;
}

/* Bytes taken, or why the store takes no more: what it didn't take is still with the fetch. */
static int64_t from_memory(struct transfer *t, struct view v, size_t room)
{
	uint64_t before = cache_fill_ready(t->fill);
	size_t n = v.n < room ? v.n : room;
	int e = cache_fill_write(t->fill, v.p, n);

	fetch_body_took(t->fetch, (size_t)(cache_fill_ready(t->fill) - before));
	return e != 0 ? e : (int64_t)n;
}

/* Everything that the pipe holds goes into the fill: it is empty between turns. */
static int empty_pipe(struct transfer *t, struct pipe *p)
{
	while (p->held_bytes > 0) {
		int64_t n = cache_fill_splice(t->fill, p->read_fd, p->held_bytes);

		if (n <= 0)
			return n < 0 ? (int)n : -EIO;
		p->held_bytes -= (size_t)n;
	}
	return 0;
}

/* After an error of the store: the rest goes with the pipe to who follows. -ENOTRECOVERABLE: no other pipe is to be
 * had, it is lost. */
static int keep_rest(struct transfer *t, int error)
{
	struct worker *w = t->w;
	struct pipe *other = pipe_take(&w->pipes);

	if (other == NULL) {
		/* What stayed in it would go into another object. */
		CHECK(pipe_drop(&w->pipes, w->fill_pipe) == 0);
		return -ENOTRECOVERABLE;
	}
	t->rest = w->fill_pipe;
	w->fill_pipe = other;
	return error;
}

/* >0 bytes; 0: none now; -ENODATA: ask the fetch; else as keep_rest. */
static int64_t from_socket(struct transfer *t, size_t room)
{
	struct pipe *p = t->w->fill_pipe;
	size_t most = room < p->capacity_bytes ? room : p->capacity_bytes;
	int64_t n = fetch_body_splice(t->fetch, p->write_fd, most);
	int e;

	if (n <= 0)
		return n < 0 ? -ENODATA : 0;
	p->held_bytes = (size_t)n;
	e = empty_pipe(t, p);
	return e == 0 ? n : keep_rest(t, e);
}

/* One piece of the body. Positive: go on. */
static int64_t pump(struct transfer *t, size_t room, enum step_result *out)
{
	struct view v;
	int64_t n = 0;

	switch (fetch_body_next(t->fetch, &v)) {
	case FETCH_BODY_MEMORY:
		n = from_memory(t, v, room);
		break;
	case FETCH_BODY_SOCKET:
		n = from_socket(t, room);
		if (n == -ENODATA)
			return 1;
		break;
	case FETCH_BODY_AGAIN:
		break;
	case FETCH_BODY_END:
		*out = body_ended(t);
		return 0;
	case FETCH_BODY_FAILED:
		*out = broke_off(t);
		return 0;
	}
	if (n < 0)
		*out = n == -ENOTRECOVERABLE ? give_up(t) : hand_over(t, (int)n);
	else if (n == 0)
		*out = STEP_PARK;
	else
		stats_add(&t->stats->origin_bytes, (uint64_t)n);
	return n > 0;
}

/* As cache_fill_room; when all that may come is there, only the proof of the end is awaited. */
static int64_t room_left(struct transfer *t)
{
	if (t->length >= 0 && cache_fill_ready(t->fill) + t->tail.n == (uint64_t)t->length)
		return 1;
	if (cache_fill_ready(t->fill) > t->max_bytes)
		return -EFBIG;
	return cache_fill_room(t->fill, &t->m.ready);
}

static enum step_result step_pump(struct machine *m)
{
	struct transfer *t = of(m);
	uint64_t before = cache_fill_ready(t->fill);
	enum step_result r = STEP_YIELD;

	if (t->state == HANDOVER)
		return t->fetch == NULL ? ends(t, BROKEN) : hand_over(t, -EAGAIN);
	if (list_empty(&t->followers) && t->abandon)
		return give_up(t);
	while (cache_fill_ready(t->fill) - before < PUMP_BYTES) {
		int64_t room = room_left(t);

		if (room < 0)
			return hand_over(t, (int)room);
		if (room == 0) {
			fetch_pause(t->fetch);
			r = STEP_PARK;
			break;
		}
		if (pump(t, room < PUMP_BYTES ? (size_t)room : PUMP_BYTES, &r) <= 0)
			break;
	}
	if (r != STEP_DONE && (cache_fill_ready(t->fill) > before || !t->pumped))
		wake_followers(t);
	t->pumped = true;
	return r;
}

/* --- a follower ---------------------------------------------------------------------------------------- */

/* The rest comes straight from the origin: nothing more is stored. */
static enum step_result take_over(struct request *r)
{
	struct transfer *t = r->transfer;

	r->fetch = t->fetch;
	t->fetch = NULL;
	r->pipe = t->rest;
	t->rest = NULL;
	stats_add(&t->stats->fills_broken, 1);
	cache_fill_abort(t->fill);
	fetch_set_wake(r->fetch, &r->m.ready);
	machine_wake(&t->m);
	transfer_leave(r);
	return request_goto(r, REQUEST_RELAY);
}

static enum step_result caught_up(struct request *r)
{
	struct transfer *t = r->transfer;

	if (t->length >= 0 && r->offset == (uint64_t)t->length)
		return request_goto(r, REQUEST_FINISH);
	switch (t->state) {
	case COMPLETE:
		return request_goto(r, REQUEST_FINISH);
	case BROKEN:
		if (!r->x->sent_head)
			return request_error(r, 502, "http_response_incomplete",
					     "the origin's answer broke off");
		r->error = "http_response_incomplete";
		return request_broken(r);
	case HANDOVER:
		return take_over(r);
	case RUNNING:
		if (!t->pumped)
			return STEP_PARK;
		break;
	}
	if (r->x->ops->send_memory(r->x, NULL, 0, false) < 0)
		return request_broken(r);
	return STEP_PARK;
}

static bool is_last(const struct request *r, uint64_t end)
{
	const struct transfer *t = r->transfer;

	if (end == r->until)
		return true;
	if (t->length >= 0)
		return end == (uint64_t)t->length;
	return t->state == COMPLETE && end == cache_fill_ready(t->fill);
}

/* Bytes sent; 0: the client takes none now; -EINPROGRESS: a thread reads them; else broken. */
static int64_t send_some(struct request *r)
{
	struct transfer *t = r->transfer;
	struct cache_span span;
	const char *memory = NULL;
	int e = cache_fill_body(t->fill, &r->reader, r->offset, &r->m.ready, &span, &memory);
	bool last;

	if (e != 0)
		return e;
	if (span.bytes > r->until - r->offset)
		span.bytes = (uint32_t)(r->until - r->offset);
	last = is_last(r, r->offset + span.bytes);
	if (memory != NULL)
		return r->x->ops->send_memory(r->x, memory, span.bytes, last);
	return r->x->ops->send_file(r->x, span.fd, span.offset, span.bytes, last);
}

enum step_result request_step_follow(struct machine *m)
{
	struct request *r = request_of(m);
	uint64_t share = 0;

	if (r->x->gone || request_client_stuck(r))
		return request_broken(r);
	while (share < FOLLOW_BYTES) {
		int64_t n;

		if (r->offset == r->until)
			return request_goto(r, REQUEST_FINISH);
		if (r->offset == cache_fill_ready(r->transfer->fill))
			return caught_up(r);
		n = send_some(r);
		if (n == -EINPROGRESS)
			return STEP_PARK;
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
