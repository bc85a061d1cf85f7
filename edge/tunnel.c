/*
 * A tunnel, which is what client's and origin's connections become together when the origin agrees to change the protocol
 * (WebSocket). Until its 101 all is HTTP, and a request whose Upgrade nobody agrees to is served as if it weren't there.
 *
 *   switch   the 101 leaves for the client
 *   tunnel   bytes go both ways: what either side had sent behind its head, then by splice through a pipe of the
 *            worker's, or by memory where a side is TLS in user space
 *
 * A pipe is given back before the turn ends: a side that takes nothing may do so for as long as tunnel_timeout, and a few
 * of them must not have all pipes of the worker. What it did not take is copied, a piece at most.
 *
 * A side that ends is told of to the other one (half-close), which may go on. Over when both have ended; cut, which the
 * peers see as a reset, when one breaks or says nothing for tunnel_timeout: what a protocol makes of an end that nobody
 * meant we can't know.
 */
#include "edge/tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edge/answer.h"
#include "edge/base/io.h"
#include "edge/http/field.h"
#include "edge/shape.h"
#include "edge/text.h"

enum {
	TUNNEL_MAGIC = 0x74756e6e,
	TURN_BYTES = 1 << 20,	/* a turn's share of one direction */
	PIECE_BYTES = 64 << 10, /* by splice */
	RECORD_BYTES = 16 << 10,
};

/* One direction. What was received and not yet sent is early, in the pipe or in memory. */
struct flow {
	struct io *from, *to;
	struct view early;
	struct pipe *pipe; /* within a turn; NULL: it would be empty */
	char *memory;	   /* the same, but for the turn */
	size_t begin, end; /* in memory */
	bool at_end;	   /* and the other side was told */
	unsigned want_from, want_to;
	uint64_t moved_bytes; /* that the other side has taken */
};

struct tunnel {
	uint32_t magic;
	struct worker *w;
	struct fetch *fetch;
	struct flow up, down; /* to the origin, to the client */
	uint64_t up_counted, down_counted;
};

/* --- what is asked for ---------------------------------------------------------------------------- */

static bool site_allows(const struct request *r, struct view protocol)
{
	const struct conf_list *allowed = &r->target.site->upgrade;

	for (size_t i = 0; i < allowed->count; i++) {
		if (view_eq_nocase(protocol, allowed->at[i]))
			return true;
	}
	return false;
}

static void put_allowed(struct request *r, struct view list, struct text *t)
{
	struct view protocol;

	while (http_list_next(&list, &protocol)) {
		if (!site_allows(r, protocol))
			continue;
		if (t->n > 0)
			text_put(t, VIEW(", "));
		text_put(t, protocol);
	}
}

struct view tunnel_offer(struct request *r)
{
	const struct http_request *rq = r->rq;
	const struct http_fields *fields = &rq->fields;
	size_t room = 0;

	if (!rq->upgrade || rq->method != METHOD_GET || rq->framing != FRAMING_NONE ||
	    r->x->ops->tunnel == NULL)
		return (struct view){ 0 };
	for (uint16_t i = 0; i < fields->count; i++)
		room += fields->at[i].id == FIELD_UPGRADE ? 2 * fields->at[i].value.n + 2 : 0;
	struct text t = text_new(&r->arena, room);
	for (uint16_t i = 0; i < fields->count; i++) {
		if (fields->at[i].id == FIELD_UPGRADE)
			put_allowed(r, fields->at[i].value, &t);
	}
	return text_view(&t);
}

/* --- step: switch ----------------------------------------------------------------------------------- */

/* Our own lines, and the protocol that the origin has named. */
static struct view own_lines(struct request *r, const struct http_response *rs)
{
	struct view own = answer_own(r, -1, false, false, 0, rs->minor == 0 ? VIEW("1.0") : VIEW("1.1"));
	struct view protocol = { 0 };

	for (uint16_t i = 0; i < rs->fields.count; i++) {
		if (rs->fields.at[i].id == FIELD_UPGRADE)
			protocol = rs->fields.at[i].value;
	}
	struct text t = text_new(&r->arena, own.n + protocol.n + 16);
	text_put(&t, own);
	text_line(&t, VIEW("Upgrade"), protocol);
	return text_view(&t);
}

enum step_result tunnel_begin(struct request *r)
{
	const struct http_response *rs = fetch_response(r->fetch);
	struct view fields = answer_fields(rs, &r->cache, NULL, fetch_received_at(r->fetch),
					   ANSWER_KEEP_SET_COOKIE, &r->arena);
	bool age;

	r->answer = (struct answer){
		.status = rs->status,
		.fields = shape_fields(r, rs->status, fields, false, &age),
		.own = own_lines(r, rs),
		.length = -1,
		.no_body = true,
	};
	if (r->answer.fields.p == NULL || r->answer.own.p == NULL ||
	    r->x->ops->send_head(r->x, &r->answer) != 0)
		return request_broken(r);
	return request_goto(r, REQUEST_SWITCH);
}

static int tunnel_new(struct request *r)
{
	struct tunnel *t = calloc(1, sizeof(*t));
	struct view early_up, early_down;

	if (t == NULL)
		return -ENOMEM;
	struct io *client = r->x->ops->tunnel(r->x, &early_up);
	struct io *origin = fetch_stream(r->fetch, &early_down);
	*t = (struct tunnel){
		.magic = TUNNEL_MAGIC,
		.w = r->w,
		.fetch = r->fetch,
		.up = { .from = client, .to = origin, .early = early_up },
		.down = { .from = origin, .to = client, .early = early_down },
	};
	r->tunnel = t;
	r->w->tunnel_count++;
	return 0;
}

enum step_result request_step_switch(struct machine *m)
{
	struct request *r = request_of(m);
	int e;

	if (r->x->gone || request_client_stuck(r))
		return request_broken(r);
	e = r->x->ops->finish(r->x, (struct view){ 0 });
	if (e == -EAGAIN)
		return request_wait_client(r);
	if (e != 0 || tunnel_new(r) != 0)
		return request_broken(r);
	machine_deadline(m, r->conf->limits.tunnel_timeout_ms);
	return request_goto(r, REQUEST_TUNNEL);
}

void tunnel_free(struct request *r)
{
	struct tunnel *t = r->tunnel;

	if (t == NULL)
		return;
	CHECK_MAGIC(t, TUNNEL_MAGIC);
	r->tunnel = NULL;
	r->w->tunnel_count--;
	pipe_give(&r->w->pipes, &t->up.pipe);
	pipe_give(&r->w->pipes, &t->down.pipe);
	free(t->up.memory);
	free(t->down.memory);
	t->magic = 0;
	free(t);
}

/* --- one direction ------------------------------------------------------------------------------------ */

/* All functions: >0 bytes, 0 the end, -EAGAIN (want_from or want_to is then set), else broken. */

static int64_t receive_in_memory(struct flow *f)
{
	int64_t n;

	f->memory = malloc(RECORD_BYTES);
	if (f->memory == NULL)
		return -ENOMEM;
	n = f->from->ops->read(f->from, f->memory, RECORD_BYTES);
	f->begin = 0;
	f->end = n > 0 ? (size_t)n : 0;
	if (n > 0)
		return n;
	free(f->memory);
	f->memory = NULL;
	if (n == -EAGAIN)
		f->want_from = f->from->wait;
	return n;
}

/* -ENOTSUP: it must be read: there is no pipe, or what comes next in the socket is the end, or a record that isn't payload. */
static int64_t receive_in_pipe(struct tunnel *t, struct flow *f)
{
	struct pipe *p = pipe_take(&t->w->pipes);
	ssize_t n;

	if (p == NULL)
		return -ENOTSUP;
	n = splice(f->from->fd, NULL, p->write_fd, NULL, PIECE_BYTES, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n > 0) {
		p->held_bytes = (size_t)n;
		f->pipe = p;
		return n;
	}
	int error = n < 0 ? errno : 0;
	pipe_give(&t->w->pipes, &p);
	if (error == 0 || error == EINVAL || error == EIO)
		return -ENOTSUP;
	f->want_from = WATCH_READ;
	return error == EINTR ? -EAGAIN : -error;
}

static int64_t receive(struct tunnel *t, struct flow *f)
{
	int64_t n = -ENOTSUP;

	if (f->from->splices_in && f->to->splices_out && !f->from->ops->buffered(f->from))
		n = receive_in_pipe(t, f);
	return n == -ENOTSUP ? receive_in_memory(f) : n;
}

static bool holds(const struct flow *f)
{
	return f->early.n > 0 || f->pipe != NULL || f->memory != NULL || f->to->holds;
}

static int64_t send_piece(struct flow *f)
{
	struct iovec v;

	if (f->to->holds) {
		int r = f->to->ops->flush(f->to);
		return r == 0 ? 1 : r;
	}
	if (f->pipe != NULL)
		return f->to->ops->send_pipe(f->to, f->pipe->read_fd, f->pipe->held_bytes, false);
	v = f->early.n > 0 ? (struct iovec){ (void *)f->early.p, f->early.n }
			   : (struct iovec){ f->memory + f->begin, f->end - f->begin };
	return f->to->ops->write(f->to, &v, 1, false);
}

/* What the pipe holds goes into memory. */
static int64_t unload(struct tunnel *t, struct flow *f)
{
	size_t n = f->pipe->held_bytes;

	f->memory = malloc(n);
	if (f->memory == NULL)
		return -ENOMEM;
	f->begin = f->end = 0;
	while (f->end < n) {
		ssize_t got = read(f->pipe->read_fd, f->memory + f->end, n - f->end);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -EIO;
		f->end += (size_t)got;
		f->pipe->held_bytes -= (size_t)got;
	}
	pipe_give(&t->w->pipes, &f->pipe);
	return -EAGAIN;
}

static int64_t send_held(struct tunnel *t, struct flow *f)
{
	bool of_stream = f->to->holds;
	int64_t n = send_piece(f);

	if (n == -EAGAIN) {
		f->want_to = f->to->wait;
		return f->pipe != NULL ? unload(t, f) : n;
	}
	if (n <= 0 || of_stream)
		return n == 0 ? -EPIPE : n;
	f->moved_bytes += (uint64_t)n;
	if (f->pipe != NULL) {
		f->pipe->held_bytes -= (size_t)n;
		if (f->pipe->held_bytes == 0)
			pipe_give(&t->w->pipes, &f->pipe);
	} else if (f->early.n > 0) {
		if (f == &t->down)
			fetch_stream_took(t->fetch, (size_t)n);
		f->early = view_skip(f->early, (size_t)n);
	} else {
		f->begin += (size_t)n;
		if (f->begin == f->end) {
			free(f->memory);
			f->memory = NULL;
		}
	}
	return n;
}

/* As much as goes now. 0; 1: there may be more, but it has had its share; negative: broken. */
static int pump(struct tunnel *t, struct flow *f)
{
	uint64_t until = f->moved_bytes + TURN_BYTES;

	f->want_from = f->want_to = 0;
	while (f->moved_bytes < until || f->pipe != NULL) {
		int64_t n;

		if (!holds(f) && f->at_end)
			return 0;
		n = holds(f) ? send_held(t, f) : receive(t, f);
		if (n == -EAGAIN)
			return 0;
		if (n < 0)
			return (int)n;
		if (n == 0) {
			f->at_end = true;
			f->to->ops->end(f->to);
		}
	}
	return 1;
}

/* --- step: tunnel --------------------------------------------------------------------------------------- */

static void count(struct request *r, struct tunnel *t)
{
	struct stats_site *s = stats_site(r->w->stats, r->target.site->slot);

	stats_add(&s->request_body_bytes, t->up.moved_bytes - t->up_counted);
	stats_add(&s->origin_bytes, t->down.moved_bytes - t->down_counted);
	r->x->sent_bytes += t->down.moved_bytes - t->down_counted;
	t->up_counted = t->up.moved_bytes;
	t->down_counted = t->down.moved_bytes;
}

static void reset_on_close(const struct io *io)
{
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };

	(void)setsockopt(io->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

static enum step_result cut(struct request *r, const char *why)
{
	r->error = why;
	reset_on_close(r->tunnel->up.from);
	reset_on_close(r->tunnel->up.to);
	return request_broken(r);
}

/* While nothing else is wanted of a side, that it is gone is. */
static unsigned or_error(unsigned events)
{
	return events != 0 ? events : WATCH_ERROR;
}

static enum step_result wait_for_sides(struct request *r)
{
	const struct flow *up = &r->tunnel->up, *down = &r->tunnel->down;

	r->x->ops->tunnel_want(r->x, or_error(up->want_from | down->want_to));
	fetch_stream_want(r->fetch, or_error(down->want_from | up->want_to));
	return STEP_PARK;
}

enum step_result request_step_tunnel(struct machine *m)
{
	struct request *r = request_of(m);
	struct tunnel *t = r->tunnel;
	uint64_t before = t->up_counted + t->down_counted;
	int up, down;

	if (r->x->gone)
		return cut(r, "client_gone");
	up = pump(t, &t->up);
	down = pump(t, &t->down);
	count(r, t);
	if (up < 0 || down < 0)
		return cut(r, "tunnel_broken");
	if (t->up.at_end && t->down.at_end && !holds(&t->up) && !holds(&t->down))
		return request_goto(r, REQUEST_END);
	if (t->up_counted + t->down_counted > before)
		machine_deadline(m, r->conf->limits.tunnel_timeout_ms);
	else if (m->timed_out)
		return cut(r, "tunnel_timeout");
	return up > 0 || down > 0 ? STEP_YIELD : wait_for_sides(r);
}
