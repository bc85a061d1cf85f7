/*
 * The exchange table of an HTTP/2 stream: what a request sees of it. A head is kept until something follows it, so that it leaves
 * together with the first bytes, or may still be replaced by an error. The end of a body whose length is known goes with its
 * last frame; of others with an empty one, or with the trailers.
 */
#include <errno.h>

#include "edge/base/io.h"
#include "edge/h2.h"
#include "edge/tls_server.h"

static struct h2_stream *of(struct exchange *x)
{
	struct h2_stream *s = CONTAINER_OF(x, struct h2_stream, x);

	CHECK_MAGIC(s, H2_STREAM_MAGIC);
	return s;
}

static void wake_request(struct h2_stream *s)
{
	if (s->x.request != NULL)
		machine_wake(s->x.request);
}

void h2_exchange_gone(struct h2_stream *s)
{
	s->x.gone = true;
	h2_send_forget(s);
	wake_request(s);
}

/* The session failed: the machine sees it at once. */
static int64_t broken(struct h2_stream *s)
{
	s->x.gone = true;
	s->h->m.broken = true;
	h2_send_soon(s->h);
	return -ECONNRESET;
}

/* --- request bodies ----------------------------------------------------------------------------------- */

int h2_exchange_body(struct h2_stream *s, const uint8_t *p, size_t n)
{
	struct h2_bytes *b = &s->body;

	if (s->body_start > 0) {
		memmove(b->p, b->p + s->body_start, b->n - s->body_start);
		b->n -= s->body_start;
		s->body_start = 0;
	}
	wake_request(s);
	return h2_bytes_add(b, p, n);
}

static void send_continue(struct h2_stream *s)
{
	static const nghttp2_nv status = { (uint8_t *)":status", (uint8_t *)"100", 7, 3, 0 };

	s->continue_due = false;
	if (!s->closed && !s->ended &&
	    nghttp2_submit_headers(s->h->session, NGHTTP2_FLAG_NONE, s->id, NULL, &status, 1, NULL) == 0)
		h2_send_soon(s->h);
}

static int h2_read_body(struct exchange *x, struct view *out)
{
	struct h2_stream *s = of(x);

	if (s->body_start < s->body.n && !h2_memory_takes_body(s))
		return 0;
	if (s->body_start < s->body.n) {
		*out = view_of(s->body.p + s->body_start, s->body.n - s->body_start);
		return 1;
	}
	if (s->body_ended) {
		h2_memory_body_over(s);
		return -ENODATA;
	}
	if (x->gone)
		return -ECONNRESET;
	if (s->continue_due)
		send_continue(s);
	return 0;
}

/* What was read may be sent again: the windows open. */
static void consume(struct h2_stream *s, size_t n)
{
	struct h2 *h = s->h;

	if (n == 0 || h->lost)
		return;
	if (s->closed)
		(void)nghttp2_session_consume_connection(h->session, n);
	else
		(void)nghttp2_session_consume(h->session, s->id, n);
	h2_send_soon(h);
}

static void h2_took_body(struct exchange *x, size_t n)
{
	struct h2_stream *s = of(x);

	s->body_start += n;
	consume(s, n);
	if (s->body_start == s->body.n) {
		h2_bytes_free(&s->body);
		s->body_start = 0;
	}
}

/* --- heads ---------------------------------------------------------------------------------------------- */

static void h2_send_interim(struct exchange *x, uint16_t status, struct view fields)
{
	struct h2_stream *s = of(x);
	struct answer a = { .status = status, .fields = fields, .length = -1 };
	struct h2_answer head;

	if (x->gone || s->closed || x->sent_head || status == 101 || h2_answer_head(&a, &head) != 0)
		return;
	if (nghttp2_submit_headers(s->h->session, NGHTTP2_FLAG_NONE, s->id, NULL, head.at,
				   head.count, NULL) == 0)
		h2_send_soon(s->h);
}

static int h2_send_head(struct exchange *x, const struct answer *a)
{
	struct h2_stream *s = of(x);

	s->answer = *a;
	s->head_due = true;
	return 0;
}

static bool without_body(const struct h2_stream *s)
{
	return s->answer.no_body || s->answer.length == 0;
}

/* The head goes to the session; with it the end, where no body follows. */
static int submit_head(struct h2_stream *s)
{
	nghttp2_data_provider data = { .read_callback = h2_send_read };
	bool ends = without_body(s);
	struct h2_answer head;

	s->head_due = false;
	if (h2_answer_head(&s->answer, &head) != 0 ||
	    nghttp2_submit_response(s->h->session, s->id, head.at, head.count, ends ? NULL : &data) != 0)
		return -EPROTO;
	s->ended = ends;
	s->x.sent_head = true;
	return 0;
}

/* --- bodies of answers ------------------------------------------------------------------------------------ */

static void account(struct h2_stream *s, size_t taken)
{
	if (s->x.first_byte_us == 0)
		s->x.first_byte_us = clock_mono_us();
	s->x.sent_bytes += taken;
	s->quantum_left -= taken < s->quantum_left ? taken : s->quantum_left;
}

/* 0, also where nothing was taken. */
static int64_t offer(struct h2_stream *s)
{
	bool head = s->head_due;
	int r = head ? submit_head(s) : 0;

	if (r == 0)
		r = h2_send_offer(s);
	s->offer.kind = H2_NOTHING;
	if (r != 0)
		return broken(s);
	if (head || s->offer.taken > 0) {
		account(s, s->offer.taken);
		h2_send_soon(s->h);
	}
	return (int64_t)s->offer.taken;
}

/* With others waiting, a turn's share at most. */
static size_t share(const struct h2_stream *s, size_t n)
{
	return s->h->turn == s && s->h->queued_count > 0 && n > s->quantum_left ? s->quantum_left : n;
}

static int64_t send_some(struct h2_stream *s, struct h2_offer o)
{
	size_t all = o.n;
	int64_t taken;

	if (s->x.gone || s->closed)
		return -ECONNRESET;
	if (!h2_send_may(s))
		return 0;
	o.n = share(s, all);
	o.last = o.n == all && (o.last || (s->answer.length >= 0 &&
					   s->x.sent_bytes + o.n == (uint64_t)s->answer.length));
	s->offer = o;
	taken = offer(s);
	if (taken == 0)
		h2_send_wait(s);
	return taken;
}

static int64_t h2_send_memory(struct exchange *x, const void *p, size_t n, bool last)
{
	struct h2_stream *s = of(x);

	if (n > 0)
		return send_some(s, (struct h2_offer){ .kind = H2_MEMORY, .p = p, .n = n, .last = last });
	if (x->gone || s->closed)
		return -ECONNRESET;
	if (s->head_due) {
		s->offer = (struct h2_offer){ .kind = H2_NOTHING };
		return offer(s);
	}
	return 0;
}

static int64_t h2_send_file(struct exchange *x, int fd, uint64_t offset, size_t n, bool last)
{
	return send_some(of(x),
			 (struct h2_offer){
				 .kind = H2_FILE, .fd = fd, .offset = offset, .n = n, .last = last });
}

static int64_t h2_send_pipe(struct exchange *x, int pipe_fd, size_t n, bool last)
{
	return send_some(of(x),
			 (struct h2_offer){ .kind = H2_PIPE, .fd = pipe_fd, .n = n, .last = last });
}

/* One whose window is shut takes nothing; one that waits for its turn shares in what the connection takes. */
static bool h2_taking(struct exchange *x)
{
	struct h2_stream *s = of(x);
	struct h2 *h = s->h;
	int64_t untaken = h->io->ops->untaken(h->io);
	uint64_t drained = h->written - (untaken > 0 ? (uint64_t)untaken : 0);
	bool moved = x->sent_bytes != s->sent_seen;
	bool shut = s->window_shut || nghttp2_session_get_remote_window_size(h->session) <= 0;
	bool drains = drained != s->drained_seen;

	s->sent_seen = x->sent_bytes;
	s->drained_seen = drained;
	return moved || (!shut && drains);
}

static int h2_finish(struct exchange *x, struct view trailers)
{
	struct h2_stream *s = of(x);

	if (x->gone || (s->closed && !s->ended))
		return -ECONNRESET;
	if (s->ended)
		return 0;
	if (s->head_due && without_body(s)) {
		s->offer = (struct h2_offer){ .kind = H2_NOTHING };
		return (int)offer(s);
	}
	if (s->answer.length >= 0 && x->sent_bytes != (uint64_t)s->answer.length)
		return -EPROTO; /* what is cut must not look whole */
	if (!h2_send_may(s))
		return -EAGAIN;
	s->offer = (struct h2_offer){ .kind = H2_END, .last = true, .trailers = trailers };
	if (offer(s) < 0)
		return -ECONNRESET;
	if (!s->ended) {
		h2_send_wait(s);
		return -EAGAIN;
	}
	h2_send_soon(s->h);
	return 0;
}

void h2_exchange_reset(struct h2_stream *s, uint32_t code)
{
	if (s->closed || s->reset || s->h->lost)
		return;
	s->reset = true;
	(void)nghttp2_submit_rst_stream(s->h->session, NGHTTP2_FLAG_NONE, s->id, code);
	h2_send_soon(s->h);
}

static void h2_abort(struct exchange *x)
{
	struct h2_stream *s = of(x);

	if (!s->ended)
		h2_exchange_reset(s, NGHTTP2_INTERNAL_ERROR);
}

/* RFC 9113 §8.1: the rest of its body isn't needed. Said at once it makes clients (curl 7.88, if it is just sending) throw away the
 * answer before it: so only to who goes on for long. What fits into the stream's window is not read. */
static void linger(struct h2_stream *s)
{
	if (s->closed || s->h->lost)
		return;
	s->lingers = true;
	s->h->lingering++;
}

void h2_exchange_linger_end(struct h2 *h)
{
	LIST_EACH (&h->streams, at, next) {
		struct h2_stream *s = LIST_ENTRY(at, struct h2_stream, link);

		if (s->lingered)
			h2_exchange_reset(s, NGHTTP2_NO_ERROR);
		s->lingered = s->lingers;
	}
}

static void h2_done(struct exchange *x)
{
	struct h2_stream *s = of(x);

	x->request = NULL;
	s->over = true;
	h2_send_forget(s);
	h2_memory_body_over(s);
	consume(s, s->body.n - s->body_start);
	h2_bytes_free(&s->body);
	s->body_start = 0;
	if (!s->ended)
		h2_exchange_reset(s, NGHTTP2_INTERNAL_ERROR);
	else if (!s->body_ended)
		linger(s);
	h2_send_soon(s->h);
	h2_stream_release(s);
}

static const struct exchange_ops h2_ops = {
	.read_body = h2_read_body,
	.took_body = h2_took_body,
	.send_interim = h2_send_interim,
	.send_head = h2_send_head,
	.send_memory = h2_send_memory,
	.send_file = h2_send_file,
	.send_pipe = h2_send_pipe,
	.taking = h2_taking,
	.finish = h2_finish,
	.abort = h2_abort,
	.done = h2_done,
};

void h2_exchange_begin(struct h2_stream *s)
{
	s->x = (struct exchange){
		.ops = &h2_ops,
		.began_us = clock_mono_us(),
		.scheme = s->h->io != &s->h->plain ? VIEW("https") : VIEW("http"),
		.protocol = VIEW("HTTP/2.0"),
		.via_version = VIEW("2"),
		.peer = &s->h->peer,
		.client = &s->h->from,
		.identity = s->h->identity,
		.early = s->h->io->early,
	};
	if (s->h->identity != NULL)
		s->x.tls = tls_identity_text(s->h->identity);
}
