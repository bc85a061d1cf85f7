/*
 * The exchange table of HTTP/1: framing of request bodies and answers (RFC 9112 §6, §7).
 *
 * A head is not copied: it is queued as pieces that belong to the request, and leaves in one writev with
 * the first body bytes, or with MSG_MORE before a sendfile. An unknown length is sent in chunks of our own on
 * HTTP/1.1, each as large as the bytes that are there; on HTTP/1.0 the close ends it.
 */
#include <errno.h>
#include <sys/socket.h>

#include "edge/connection.h"
#include "edge/reason.h"
#include "edge/text.h"

static struct connection *of(struct exchange *x)
{
	struct connection *c = CONTAINER_OF(x, struct connection, x);

	CHECK_MAGIC(c, CONNECTION_MAGIC);
	return c;
}

void h1_begin(struct connection *c)
{
	const struct http_request *rq = &c->rq;
	bool parsed = c->scan.head_bytes != 0;

	c->body_space = c->in_start;
	c->body_ended = parsed && rq->framing == FRAMING_NONE;
	c->body_left = parsed && rq->framing == FRAMING_LENGTH ? rq->length : 0;
	if (parsed && rq->framing == FRAMING_LENGTH && rq->length == 0)
		c->body_ended = true;
	c->continue_due = parsed && rq->expect_continue;
	http_chunked_init(&c->body_chunks);
	c->pending_first = c->pending_count = 0;
	c->chunked = c->until_close = c->blocked = c->request_over = false;
	c->x.request = NULL;
	c->x.sent_head = false;
	c->x.early = c->io->early;
	c->x.sent_bytes = 0;
	c->x.first_byte_us = 0;
	c->x.began_us = loop_now_us(c->w->loop);
	c->x.protocol = parsed && rq->minor == 0 ? VIEW("HTTP/1.0") : VIEW("HTTP/1.1");
	c->x.via_version = parsed && rq->minor == 0 ? VIEW("1.0") : VIEW("1.1");
}

/* --- request bodies ------------------------------------------------------------------------------- */

/* Half of an interim answer can't be taken back; one that is not sent at all is not missed. */
static void send_aside(struct connection *c, const struct iovec *v, int count)
{
	size_t all = 0;
	int64_t sent;

	for (int i = 0; i < count; i++)
		all += v[i].iov_len;
	sent = c->io->ops->write(c->io, v, count, false);
	if (sent > 0 && (size_t)sent < all)
		c->x.gone = true;
}

static void send_continue(struct connection *c)
{
	static char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	const struct iovec v = { text, sizeof(text) - 1 };

	c->continue_due = false;
	send_aside(c, &v, 1);
}

/* 1: bytes came; 0: none now; negative: gone. */
static int fill_input(struct connection *c)
{
	int64_t n;

	if (c->continue_due)
		send_continue(c);
	c->in_start = c->in_end = c->body_space;
	n = c->io->ops->read(c->io, c->block->bytes + c->in_end, c->block->capacity - c->in_end);
	if (n > 0) {
		c->in_end += (size_t)n;
		return 1;
	}
	if (n == -EAGAIN) {
		watch_want(&c->m.watch, c->io->wait | (c->blocked ? WATCH_WRITE : 0));
		return 0;
	}
	c->x.gone = true;
	return -ECONNRESET;
}

static struct view input(const struct connection *c)
{
	return view_of(c->block->bytes + c->in_start, c->in_end - c->in_start);
}

/* Steps over framing. 1: payload is at the front; 0: more input is needed; else as read_body. */
static int unframe(struct connection *c, struct view *out)
{
	struct view v = input(c);
	size_t used = 0;

	if (c->rq.framing == FRAMING_LENGTH) {
		*out = view_of(v.p, v.n < c->body_left ? v.n : (size_t)c->body_left);
		return v.n > 0;
	}
	if (v.n == 0)
		return 0;
	switch (http_chunked_feed(&c->body_chunks, v.p, v.n, &used)) {
	case CHUNKED_MORE:
		c->in_start = c->in_end;
		return 0;
	case CHUNKED_PAYLOAD:
		c->in_start += used;
		v = view_skip(v, used);
		*out = view_of(v.p, v.n < c->body_chunks.payload_left
					    ? v.n
					    : (size_t)c->body_chunks.payload_left);
		return v.n > 0;
	case CHUNKED_END:
		c->in_start += used;
		c->body_ended = true;
		return -ENODATA;
	case CHUNKED_BAD:
		break;
	}
	return -EPROTO;
}

static int h1_read_body(struct exchange *x, struct view *out)
{
	struct connection *c = of(x);

	if (c->body_ended)
		return -ENODATA;
	if (x->gone)
		return -ECONNRESET;
	for (;;) {
		int r = unframe(c, out);

		if (r != 0)
			return r;
		r = fill_input(c);
		if (r <= 0)
			return r;
	}
}

static void h1_took_body(struct exchange *x, size_t n)
{
	struct connection *c = of(x);

	c->in_start += n;
	if (c->rq.framing == FRAMING_CHUNKED) {
		http_chunked_took(&c->body_chunks, n);
		return;
	}
	c->body_left -= n;
	c->body_ended = c->body_left == 0;
}

/* --- answers ---------------------------------------------------------------------------------------- */

/* room: for that of a status without a phrase. */
static struct view status_line(uint16_t status, char room[CONNECTION_STATUS_BYTES])
{
	struct view known = reason_status_line(status);
	struct text t = text_over(room, CONNECTION_STATUS_BYTES);

	if (known.n > 0)
		return known;
	text_put(&t, VIEW("HTTP/1.1 "));
	text_decimal(&t, status);
	text_put(&t, VIEW(" \r\n"));
	CHECK(!t.failed);
	return text_view(&t);
}

static void h1_send_interim(struct exchange *x, uint16_t status, struct view fields)
{
	struct connection *c = of(x);
	char room[CONNECTION_STATUS_BYTES];
	struct view line = status_line(status, room);
	struct iovec v[] = { { (void *)line.p, line.n }, { (void *)fields.p, fields.n }, { "\r\n", 2 } };

	if (c->rq.minor == 0 || x->sent_head)
		return;
	send_aside(c, v, ARRAY_LEN(v));
}

static void queue(struct connection *c, const void *p, size_t n)
{
	if (n == 0)
		return;
	CHECK(c->pending_count < CONNECTION_QUEUE_MAX);
	c->pending[c->pending_count++] = (struct iovec){ (void *)p, n };
}

static bool speaks_1_1(const struct connection *c)
{
	return c->rq.minor != 0 || c->scan.head_bytes == 0;
}

static void put_framing(const struct connection *c, const struct answer *a, struct text *t)
{
	if (a->status == 101) {
		text_put(t, VIEW("Connection: upgrade\r\n\r\n"));
		return;
	}
	if (a->length >= 0 && a->status != 204) { /* RFC 9110 §8.6 */
		text_put(t, VIEW("Content-Length: "));
		text_decimal(t, a->length);
		text_put(t, VIEW("\r\n"));
	} else if (c->chunked) {
		text_put(t, VIEW("Transfer-Encoding: chunked\r\n"));
	}
	if (!c->keep_alive || c->draining)
		text_put(t, VIEW("Connection: close\r\n"));
	else if (!speaks_1_1(c))
		text_put(t, VIEW("Connection: keep-alive\r\n"));
	text_put(t, VIEW("\r\n"));
}

/* Where our close is the body's end, every close is a reset (that of our death, too) until the body is whole. Elsewhere the length
 * or the missing last chunk shows a cut, and a reset would throw away what the client has not read yet. */
static void reset_on_close(const struct connection *c, bool on)
{
	struct linger reset = { .l_onoff = on, .l_linger = 0 };

	(void)setsockopt(c->io->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

static void choose_framing(struct connection *c, const struct answer *a)
{
	bool unknown = !a->no_body && a->length < 0, was_until_close = c->until_close;

	c->chunked = unknown && speaks_1_1(c);
	c->until_close = unknown && !speaks_1_1(c);
	c->chunk_open = false;
	c->chunk_left = 0;
	if (c->until_close != was_until_close)
		reset_on_close(c, c->until_close);
	/* Nobody will read what the client still sends of its body: the connection can't be used again. */
	if (c->until_close || !c->body_ended)
		c->keep_alive = false;
}

static int h1_send_head(struct exchange *x, const struct answer *a)
{
	struct connection *c = of(x);
	struct view status = status_line(a->status, c->status_line);
	struct text framing = text_over(c->framing_lines, sizeof(c->framing_lines));

	choose_framing(c, a);
	put_framing(c, a, &framing);
	CHECK(!framing.failed);
	c->pending_first = c->pending_count = 0;
	queue(c, status.p, status.n);
	queue(c, a->fields.p, a->fields.n);
	queue(c, a->own.p, a->own.n);
	queue(c, framing.p, framing.n);
	return 0;
}

static void wait_writable(struct connection *c)
{
	c->blocked = true;
	watch_want(&c->m.watch, WATCH_WRITE);
}

static int64_t failed(struct connection *c, int64_t error)
{
	if (error == -EAGAIN) {
		wait_writable(c);
		return 0;
	}
	c->x.gone = true;
	return -ECONNRESET;
}

/* Steps over n bytes of the queue; what is left of n was payload. */
static size_t dequeue(struct connection *c, size_t n)
{
	while (n > 0 && c->pending_first < c->pending_count) {
		struct iovec *v = &c->pending[c->pending_first];
		size_t step = n < v->iov_len ? n : v->iov_len;

		v->iov_base = (char *)v->iov_base + step;
		v->iov_len -= step;
		n -= step;
		if (v->iov_len == 0)
			c->pending_first++;
	}
	if (c->pending_first == c->pending_count)
		c->pending_first = c->pending_count = 0;
	return n;
}

/* So many bytes of payload were taken; of all that was offered: what it wasn't waits. */
static void note_sent(struct connection *c, size_t payload, bool all)
{
	c->x.sent_head = true;
	c->untaken_bytes = INT64_MAX;
	if (c->x.first_byte_us == 0)
		c->x.first_byte_us = clock_mono_us();
	c->x.sent_bytes += payload;
	if (c->chunked)
		c->chunk_left -= payload;
	if (!all || c->io->holds)
		wait_writable(c);
}

/* Queue and payload in one call. Payload bytes taken, 0 not now, negative gone. */
static int64_t write_out(struct connection *c, const void *p, size_t n, bool more)
{
	struct iovec *v = &c->pending[c->pending_first];
	int count = c->pending_count - c->pending_first;
	size_t all = n, payload;
	int64_t sent;

	for (int i = 0; i < count; i++)
		all += v[i].iov_len;
	if (n > 0) /* the place behind the queue is kept for it */
		v[count++] = (struct iovec){ (void *)p, n };
	if (all == 0)
		return 0;
	sent = c->io->ops->write(c->io, v, count, more);
	if (sent < 0)
		return failed(c, sent);
	if ((size_t)sent == all) {
		c->pending_first = c->pending_count = 0;
		payload = n;
	} else {
		payload = dequeue(c, (size_t)sent);
	}
	note_sent(c, payload, (size_t)sent == all);
	return (int64_t)payload;
}

/* Everything queued is out. 1; 0 not yet; negative gone. */
static int flush(struct connection *c, bool more)
{
	int64_t r;

	if (c->pending_count == 0)
		return 1;
	r = write_out(c, NULL, 0, more);
	if (r < 0)
		return (int)r;
	return c->pending_count == 0;
}

/* Opens a chunk of n bytes if none is open; n is then cut to what the chunk still takes. */
static size_t chunk_for(struct connection *c, size_t n)
{
	size_t line = 0;

	if (!c->chunked || n == 0)
		return n;
	if (c->chunk_left == 0) {
		if (c->chunk_open) {
			memcpy(c->chunk_line, "\r\n", 2);
			line = 2;
		}
		line += http_chunked_line(c->chunk_line + line, n);
		queue(c, c->chunk_line, line);
		c->chunk_left = n;
		c->chunk_open = true;
	}
	return n < c->chunk_left ? n : (size_t)c->chunk_left;
}

static bool stuck(struct connection *c)
{
	return c->blocked && !c->x.gone;
}

/* Bytes that the stream has taken are out of our hands. 0; -EAGAIN; negative gone. */
static int flush_stream(struct connection *c)
{
	int r = 0;

	if (c->io->corked || c->io->holds)
		r = c->io->ops->flush(c->io);
	if (r == -EAGAIN)
		wait_writable(c);
	else if (r != 0)
		c->x.gone = true;
	return r;
}

/* What is queued leaves, also what the kernel keeps because more was promised. */
static int64_t uncork(struct connection *c)
{
	int r;

	if (c->pending_count > 0)
		return write_out(c, NULL, 0, false);
	r = flush_stream(c);
	return r == -EAGAIN ? 0 : r;
}

static int64_t h1_send_memory(struct exchange *x, const void *p, size_t n, bool last)
{
	struct connection *c = of(x);

	if (x->gone)
		return -ECONNRESET;
	if (stuck(c))
		return 0;
	if (n == 0)
		return uncork(c);
	return write_out(c, p, chunk_for(c, n), !last && c->chunked);
}

/* What comes behind the head, by a call that passes payload on by itself. */
static int64_t sent_past_us(struct connection *c, int64_t sent, size_t n)
{
	if (sent == -EIO)
		return sent; /* the file is shorter than the index says */
	if (sent < 0)
		return failed(c, sent);
	note_sent(c, (size_t)sent, (size_t)sent == n);
	return sent;
}

static int64_t h1_send_file(struct exchange *x, int fd, uint64_t offset, size_t n, bool last)
{
	struct connection *c = of(x);
	int r;

	(void)last;
	if (x->gone)
		return -ECONNRESET;
	if (stuck(c))
		return 0;
	n = chunk_for(c, n);
	r = flush(c, true);
	if (r <= 0)
		return r;
	return sent_past_us(c, c->io->ops->send_file(c->io, fd, offset, n, false), n);
}

static int64_t h1_send_pipe(struct exchange *x, int pipe_fd, size_t n, bool last)
{
	struct connection *c = of(x);
	int r;

	(void)last;
	if (x->gone)
		return -ECONNRESET;
	if (stuck(c))
		return 0;
	n = chunk_for(c, n);
	r = flush(c, true);
	if (r <= 0)
		return r;
	/* Nothing more is promised: a pipe holds all that the origin's socket had; when more comes nobody knows. */
	return sent_past_us(c, c->io->ops->send_pipe(c->io, pipe_fd, n, false), n);
}

static bool h1_taking(struct exchange *x)
{
	struct connection *c = of(x);
	int64_t before = c->untaken_bytes, now = c->io->ops->untaken(c->io);

	if (now < 0)
		return false;
	c->untaken_bytes = now;
	return now < before;
}

/* The last chunk, with trailers. Queued once: chunked is then false. */
static void queue_last_chunk(struct connection *c, struct view trailers)
{
	queue(c, "\r\n", c->chunk_open ? 2 : 0);
	queue(c, "0\r\n", 3);
	queue(c, trailers.p, trailers.n);
	queue(c, "\r\n", 2);
	c->chunked = false;
}

static int h1_finish(struct exchange *x, struct view trailers)
{
	struct connection *c = of(x);
	int r;

	if (x->gone)
		return -ECONNRESET;
	if (c->chunked && c->pending_count + 4 <= CONNECTION_QUEUE_MAX)
		queue_last_chunk(c, trailers);
	if (stuck(c))
		return -EAGAIN;
	r = flush(c, false);
	if (r < 0)
		return r;
	if (r == 0)
		return -EAGAIN;
	if (c->chunked)
		return h1_finish(x, trailers); /* the head had filled the queue */
	r = flush_stream(c);
	if (r != 0)
		return r;
	if (c->until_close)
		reset_on_close(c, false);
	return 0;
}

/* Of one that takes nothing any more the kernel would keep what it has for a quarter of an hour. */
static void h1_abort(struct exchange *x)
{
	struct connection *c = of(x);

	c->aborted = true;
	if (c->blocked)
		reset_on_close(c, true);
}

static struct io *h1_tunnel(struct exchange *x, struct view *out_early)
{
	struct connection *c = of(x);

	*out_early = input(c);
	c->in_start = c->in_end;
	c->keep_alive = false;
	return c->io;
}

static void h1_tunnel_want(struct exchange *x, unsigned events)
{
	watch_want(&of(x)->m.watch, events);
}

static void h1_done(struct exchange *x)
{
	struct connection *c = of(x);

	x->request = NULL;
	c->request_over = true;
	machine_wake(&c->m);
}

const struct exchange_ops h1_ops = {
	.read_body = h1_read_body,
	.took_body = h1_took_body,
	.send_interim = h1_send_interim,
	.send_head = h1_send_head,
	.send_memory = h1_send_memory,
	.send_file = h1_send_file,
	.send_pipe = h1_send_pipe,
	.taking = h1_taking,
	.finish = h1_finish,
	.abort = h1_abort,
	.tunnel = h1_tunnel,
	.tunnel_want = h1_tunnel_want,
	.done = h1_done,
};
