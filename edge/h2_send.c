/*
 * Output of an HTTP/2 connection.
 *
 * Frames gather in one buffer, and what a turn of the loop made leaves in one write at its end: sixteen small answers cost one
 * system call. Payload from files and pipes goes past the buffer: its frame's head is written, then the payload by sendfile or splice.
 * A frame that the socket takes only in part is finished through the buffer (a copy of at most 16 KiB, once each time that
 * the socket is full): so a stream may be given up at any time, and no frame is ever left half sent. (Rejected: to
 * keep the place within the frame. Then a client's reset of that stream, or a failing fill, costs the whole connection.)
 *
 * Whose turn it is (RFC 9218): requests offer bytes when they have some. As long as nobody waits, an offer is sent at once. Once the
 * socket is full, or the connection's window is shut, who offers is queued by urgency and woken one by one, each for a quantum: an
 * incremental stream then goes to the end of its queue, another one to its front again.
 */
#include "edge/h2.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	DIRECT_BYTES = 4 << 10, /* from here on past the buffer */
	LEAST_ROOM = 1 << 10,	/* for a frame to be begun */
	UNSENT_BYTES = 128 << 10,
};

/* --- the buffer ---------------------------------------------------------------------------------- */

static size_t room(const struct h2 *h)
{
	return H2_OUT_BYTES - h->out_end;
}

/* 0, or -ENOMEM. What was sent makes room. */
static int make_room(struct h2 *h)
{
	if (h->out == NULL) {
		h->out = malloc(H2_OUT_BYTES);
		if (h->out == NULL)
			return -ENOMEM;
		h->out_start = h->out_end = 0;
	}
	if (h->out_start > 0) {
		memmove(h->out, h->out + h->out_start, h->out_end - h->out_start);
		h->out_end -= h->out_start;
		h->out_start = 0;
	}
	return 0;
}

static void append(struct h2 *h, const void *p, size_t n)
{
	CHECK(n <= room(h));
	memcpy(h->out + h->out_end, p, n);
	h->out_end += n;
}

static int blocked(struct h2 *h, int64_t error)
{
	if (error != -EAGAIN)
		return -ECONNRESET;
	h->blocked = true;
	h->wait = h->io->wait;
	return 0;
}

/* The buffer goes to the socket. 0, also where it takes only a part; negative: broken. */
static int flush(struct h2 *h, bool more)
{
	int r = h->io->holds && !h->blocked ? h->io->ops->flush(h->io) : 0;

	if (r != 0)
		return blocked(h, r);
	while (!h->blocked && h->out_start < h->out_end) {
		struct iovec v = { h->out + h->out_start, h->out_end - h->out_start };
		int64_t n = h->io->ops->write(h->io, &v, 1, more);

		if (n <= 0)
			return blocked(h, n);
		h->out_start += (size_t)n;
		h->written += (uint64_t)n;
	}
	if (h->out_start == h->out_end)
		h->out_start = h->out_end = 0;
	return 0;
}

/* What the session has given and the buffer had no room for. False: there is still none. */
static int place_held(struct h2 *h, bool *out_placed)
{
	int r = make_room(h);

	if (r == 0 && h->held.n > room(h)) {
		r = flush(h, false);
		if (r == 0)
			r = make_room(h);
	}
	if (r != 0)
		return r;
	*out_placed = h->held.n <= room(h);
	if (*out_placed) {
		append(h, h->held.p, h->held.n);
		h->held.n = 0;
	}
	return 0;
}

/* The session's frames go into the buffer, until it has none, or there is no room. */
static int pack(struct h2 *h)
{
	for (;;) {
		const uint8_t *p;
		ssize_t n;
		bool placed = true;
		int r = h->held.n > 0 ? place_held(h, &placed) : 0;

		if (r != 0 || !placed)
			return r;
		n = nghttp2_session_mem_send(h->session, &p);
		if (n < 0)
			return -ECONNRESET;
		if (n == 0)
			return 0;
		h->held = view_of((const char *)p, (size_t)n);
	}
}

int h2_send_all(struct h2 *h)
{
	int r = pack(h);

	if (r == 0)
		r = flush(h, false);
	if (r != 0 || h->blocked)
		return r;
	if (h->out_end == 0) {
		free(h->out);
		h->out = NULL;
	}
	r = h->io->ops->flush(h->io);
	return r == 0 ? 0 : blocked(h, r);
}

bool h2_send_pending(const struct h2 *h)
{
	return h->out_end > h->out_start || h->held.n > 0 || h->blocked ||
	       nghttp2_session_want_write(h->session);
}

/* --- DATA frames ------------------------------------------------------------------------------------ */

static bool direct(const struct h2 *h, const struct h2_offer *o, size_t n)
{
	return h->io->splices_out && n >= DIRECT_BYTES && (o->kind == H2_FILE || o->kind == H2_PIPE);
}

/* n bytes of the offer into the buffer. -EIO: the file ends before that. */
static int copy(struct h2 *h, struct h2_offer *o, size_t n)
{
	if (o->kind == H2_MEMORY) {
		append(h, o->p, n);
		o->p += n;
		return 0;
	}
	while (n > 0) {
		char *to = h->out + h->out_end;
		ssize_t got = o->kind == H2_FILE ? pread(o->fd, to, n, (off_t)o->offset)
						 : read(o->fd, to, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -EIO;
		o->offset += (uint64_t)got;
		h->out_end += (size_t)got;
		n -= (size_t)got;
	}
	return 0;
}

/* n bytes of the offer from their descriptor to the socket. Bytes sent, as far as it takes them; negative: broken. */
static int64_t pass(struct h2 *h, struct h2_offer *o, size_t n)
{
	size_t left = n;

	while (left > 0 && !h->blocked) {
		int64_t sent = o->kind == H2_FILE
				       ? h->io->ops->send_file(h->io, o->fd, o->offset, left, false)
				       : h->io->ops->send_pipe(h->io, o->fd, left, false);

		if (sent <= 0 && blocked(h, sent) != 0)
			return -ECONNRESET;
		if (sent <= 0)
			break;
		o->offset += (uint64_t)sent;
		h->written += (uint64_t)sent;
		left -= (size_t)sent;
	}
	return (int64_t)(n - left);
}

/* Room for a frame of n bytes, or a shorter one: a full buffer makes whole records of TLS. 0: none now; negative: broken. */
static ssize_t room_for_frame(struct h2 *h, size_t n)
{
	int r = make_room(h);

	if (r == 0 && room(h) < H2_FRAME_HEAD + (n < LEAST_ROOM ? n : LEAST_ROOM)) {
		r = flush(h, true);
		if (r == 0)
			r = make_room(h);
	}
	if (r != 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (room(h) >= H2_FRAME_HEAD + n)
		return (ssize_t)n;
	return room(h) >= H2_FRAME_HEAD + LEAST_ROOM ? (ssize_t)(room(h) - H2_FRAME_HEAD) : 0;
}

/* The stream ends with this frame, or with trailers behind it. */
static uint32_t end_flags(struct h2_stream *s)
{
	struct h2_answer trailers;

	s->ended = true;
	if (s->offer.trailers.n == 0 || h2_answer_trailers(s->offer.trailers, &trailers) != 0 ||
	    trailers.count == 0 ||
	    nghttp2_submit_trailer(s->h->session, s->id, trailers.at, trailers.count) != 0)
		return NGHTTP2_DATA_FLAG_EOF;
	return NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
}

ssize_t h2_send_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length,
		     uint32_t *flags, nghttp2_data_source *source, void *user)
{
	struct h2_stream *s = h2_stream_of(session, id);
	struct h2_offer *o = s != NULL ? &s->offer : NULL;
	size_t n;
	ssize_t fits;

	(void)source;
	(void)buf;
	if (o == NULL)
		return NGHTTP2_ERR_DEFERRED;
	n = o->n < length ? o->n : length;
	if (o->kind == H2_NOTHING || (n == 0 && o->kind != H2_END))
		return NGHTTP2_ERR_DEFERRED;
	fits = room_for_frame(h2_of(user), n);
	if (fits < 0)
		return fits;
	if (fits == 0 && n > 0)
		return NGHTTP2_ERR_DEFERRED;
	if ((size_t)fits == o->n && o->last)
		*flags |= end_flags(s);
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	return fits;
}

int h2_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t length,
		 nghttp2_data_source *source, void *user)
{
	struct h2 *h = h2_of(user);
	struct h2_offer *o = &h2_stream_of(session, frame->hd.stream_id)->offer;
	int64_t passed = 0;

	(void)source;
	append(h, head, H2_FRAME_HEAD);
	if (direct(h, o, length)) {
		if (flush(h, true) != 0)
			return NGHTTP2_ERR_CALLBACK_FAILURE;
		if (h->out_end == 0)
			passed = pass(h, o, length);
		if (passed < 0 || (passed < (int64_t)length && make_room(h) != 0))
			return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (copy(h, o, length - (size_t)passed) != 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	o->n -= length;
	o->taken += length;
	return 0;
}

int h2_send_offer(struct h2_stream *s)
{
	/* An error means that its DATA is not deferred: then it is asked anyway. */
	(void)nghttp2_session_resume_data(s->h->session, s->id);
	return pack(s->h);
}

/* --- whose turn it is ---------------------------------------------------------------------------------- */

void h2_send_forget(struct h2_stream *s)
{
	struct h2 *h = s->h;

	if (list_linked(&s->queued)) {
		list_remove(&s->queued);
		h->queued_count--;
	}
	if (h->turn == s)
		h->turn = NULL;
	s->window_shut = false;
}

static void queue(struct h2_stream *s, bool front)
{
	struct h2 *h = s->h;
	struct list *q = &h->queues[s->priority.urgency];

	h2_send_forget(s);
	if (front)
		list_prepend(q, &s->queued);
	else
		list_append(q, &s->queued);
	h->queued_count++;
	h2_send_soon(h);
}

/* Does anybody wait who comes before it, or whose turn is as good? */
static bool others_wait(const struct h2_stream *s)
{
	for (unsigned u = 0; u <= s->priority.urgency; u++)
		if (!list_empty(&s->h->queues[u]))
			return true;
	return false;
}

bool h2_send_may(struct h2_stream *s)
{
	struct h2 *h = s->h;

	if (list_linked(&s->queued))
		return false;
	if (h->turn == s ? h->blocked || (s->quantum_left == 0 && h->queued_count > 0)
			 : h->blocked || others_wait(s)) {
		queue(s, h->turn == s && !s->priority.incremental);
		return false;
	}
	return true;
}

void h2_send_wait(struct h2_stream *s)
{
	struct h2 *h = s->h;
	bool was_turn = h->turn == s;

	if (s->closed)
		return;
	if (nghttp2_session_get_stream_remote_window_size(h->session, s->id) <= 0) {
		h2_send_forget(s);
		s->window_shut = true;
		if (!h2_memory_lets_wait(s))
			h2_exchange_reset(s, NGHTTP2_ENHANCE_YOUR_CALM);
		return;
	}
	queue(s, was_turn && !s->priority.incremental);
}

/* What the kernel has taken can't be overtaken. Of clients that care it takes little ahead; of others much, which costs half as
 * much by measure (fewer turns). Best effort. */
static void keep_kernel_short(struct h2 *h)
{
	int bytes = UNSENT_BYTES;

	if (!h->prioritises)
		(void)setsockopt(h->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
	h->prioritises = true;
}

void h2_send_prioritise(struct h2_stream *s, struct h2_priority p)
{
	bool queued = list_linked(&s->queued);

	if (p.urgency != s->priority.urgency)
		keep_kernel_short(s->h);
	if (queued)
		h2_send_forget(s);
	s->priority = p;
	if (queued)
		queue(s, false);
}

static struct h2_stream *best(struct h2 *h)
{
	for (unsigned u = 0; u < H2_URGENCIES; u++)
		if (!list_empty(&h->queues[u]))
			return LIST_ENTRY(h->queues[u].next, struct h2_stream, queued);
	return NULL;
}

void h2_send_next(struct h2 *h)
{
	struct h2_stream *s;

	h->turn = NULL;
	if (h->queued_count == 0 || h->blocked || nghttp2_session_get_remote_window_size(h->session) <= 0)
		return;
	s = best(h);
	h2_send_forget(s);
	h->turn = s;
	s->quantum_left = H2_QUANTUM;
	if (s->x.request != NULL)
		machine_wake(s->x.request);
	h2_send_soon(h); /* behind it: if it sends nothing, the next one may */
}
