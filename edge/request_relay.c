/*
 * Step relay: an answer that isn't stored goes from the origin to the client, socket → pipe → client. The pipe is from the worker's
 * pool and held only while it holds bytes, so that slow clients keep none; where all are in use, the bytes are copied.
 */
#include <errno.h>

#include "edge/request.h"

enum {
	RELAY_BYTES = 1 << 20, /* a turn's share */
	COPY_BYTES = 16 << 10, /* at a time, where no pipe is to be had */
};

/* Bytes relayed; 0: wait for the client; -EAGAIN: wait for the origin; -ENODATA: ask the fetch again; else gone. */
static int64_t empty_pipe(struct request *r)
{
	struct pipe *p = r->pipe;
	bool last = fetch_body_left(r->fetch) == 0;
	int64_t n = r->x->ops->send_pipe(r->x, p->read_fd, p->held_bytes, last);

	if (n <= 0)
		return n;
	p->held_bytes -= (size_t)n;
	if (p->held_bytes == 0)
		pipe_give(&r->w->pipes, &r->pipe);
	return n;
}

static int64_t fill_pipe(struct request *r)
{
	int64_t n = fetch_body_splice(r->fetch, r->pipe->write_fd, r->pipe->capacity_bytes);

	if (n > 0) {
		r->pipe->held_bytes = (size_t)n;
		return n;
	}
	pipe_give(&r->w->pipes, &r->pipe);
	return n == 0 ? -EAGAIN : -ENODATA;
}

/* All pipes are in use: a bounded copy. */
static int64_t fill_copy(struct request *r)
{
	int64_t n;
	char *p = r->body.p != NULL ? (char *)r->body.p : arena_alloc(&r->arena, COPY_BYTES);

	if (p == NULL)
		return -ENOMEM;
	n = fetch_body_read(r->fetch, p, COPY_BYTES);
	r->body = view_of(p, n > 0 ? (size_t)n : 0);
	r->offset = 0;
	if (n > 0)
		return n;
	return n == 0 ? -EAGAIN : -ENODATA;
}

static int64_t send_copy(struct request *r)
{
	int64_t n = r->x->ops->send_memory(r->x, r->body.p + r->offset, r->body.n - r->offset, false);

	if (n > 0)
		r->offset += (uint64_t)n;
	return n;
}

static int64_t relay_memory(struct request *r, struct view v)
{
	bool last = fetch_body_left(r->fetch) == (int64_t)v.n;
	int64_t n = r->x->ops->send_memory(r->x, v.p, v.n, last);

	if (n > 0)
		fetch_body_took(r->fetch, (size_t)n);
	return n;
}

static enum step_result relay_broke_off(struct request *r)
{
	enum fetch_error e = fetch_error(r->fetch);

	stats_origin_error(stats_site(r->w->stats, r->target.site->slot), e);
	if (!r->x->sent_head)
		return request_error(r, fetch_error_status(e), fetch_error_type(e),
				     "the origin's answer broke off");
	r->error = fetch_error_type(e);
	return request_broken(r);
}

/* One piece. *out is set where the step has to end. */
static int64_t relay_piece(struct request *r, enum step_result *out)
{
	struct view v;

	if (r->pipe != NULL && r->pipe->held_bytes > 0)
		return empty_pipe(r);
	if (r->offset < r->body.n)
		return send_copy(r);
	switch (fetch_body_next(r->fetch, &v)) {
	case FETCH_BODY_MEMORY:
		return relay_memory(r, v);
	case FETCH_BODY_SOCKET:
		if (r->pipe == NULL)
			r->pipe = pipe_take(&r->w->pipes);
		return r->pipe != NULL ? fill_pipe(r) : fill_copy(r);
	case FETCH_BODY_AGAIN:
		return -EAGAIN;
	case FETCH_BODY_END:
		*out = request_goto(r, REQUEST_FINISH);
		return -ECANCELED;
	case FETCH_BODY_FAILED:
		break;
	}
	*out = relay_broke_off(r);
	return -ECANCELED;
}

static enum step_result wait_for_origin(struct request *r)
{
	if (r->x->ops->send_memory(r->x, NULL, 0, false) < 0)
		return request_broken(r);
	return STEP_PARK;
}

static enum step_result relay(struct request *r, uint64_t until)
{
	enum step_result out = STEP_YIELD;

	while (r->x->sent_bytes < until) {
		int64_t n = relay_piece(r, &out);

		if (n == -ECANCELED)
			return out;
		if (n == -ENODATA)
			continue;
		if (n == -EAGAIN)
			return wait_for_origin(r);
		if (n < 0)
			return request_broken(r);
		if (n == 0) {
			fetch_pause(r->fetch);
			return request_wait_client(r);
		}
		machine_no_deadline(&r->m);
	}
	return out;
}

enum step_result request_step_relay(struct machine *m)
{
	struct request *r = request_of(m);
	uint64_t before = r->x->sent_bytes;
	enum step_result out;

	if (r->x->gone || request_client_stuck(r))
		return request_broken(r);
	out = relay(r, before + RELAY_BYTES);
	stats_add(&stats_site(r->w->stats, r->target.site->slot)->origin_bytes,
		  r->x->sent_bytes - before);
	return out;
}
