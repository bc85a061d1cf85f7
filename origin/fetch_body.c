/*
 * The answer's body, pulled by the owner: first what was read along with the head, then from the
 * socket, by splice if it likes, or, over TLS in user space, in pieces of up to 64 KiB in memory. Chunks of 16 KiB and more are offered for splicing like any
 * other body: only the lines between them are read, a few hundred bytes at a time. Smaller ones are
 * read into memory, 64 KiB at a time, since there a splice would move less than it costs.
 *
 * The end is proved by the length, by the last chunk, or, where that is the framing, by the
 * peer's FIN (a reset proves nothing), with TLS by its close_notify (a FIN proves nothing: anyone can send it). Then nothing may follow: bytes that are there together with
 * the end mean that we and the origin disagree on where messages end, and the body counts as
 * failed (request smuggling shows like this).
 *
 * After a short read the socket is taken to be empty and the next read waits for its event,
 * rather than asking the kernel again to be told EAGAIN. For a splice «short» may also mean that the
 * pipe was full of small packets: then the event comes at once.
 *
 * Where the kernel decrypts (kTLS), a splice gives one record at most, and fails at one that isn't payload: that one is
 * read, by OpenSSL, which deals with it. Several records are gathered in the pipe.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "origin/parts.h"

enum {
	READ_LINE = 256,       /* between large chunks: a line, and little of the payload */
	TAIL_LEAST = 256,      /* of framing kept for its trailers */
	TAIL_MOST = 16 * 1024, /* more than http_chunked allows */
};

static enum fetch_body next_length(struct fetch *f, struct view *out);
static enum fetch_body next_close(struct fetch *f, struct view *out);
static enum fetch_body next_chunked(struct fetch *f, struct view *out);
static enum fetch_body feed(struct fetch *f);
static enum fetch_body from_memory(struct fetch *f, uint64_t most, struct view *out);
static enum fetch_body from_stream(struct fetch *f);
static enum fetch_body read_on(struct fetch *f, size_t most);
static enum fetch_body failed(struct fetch *f, enum fetch_error e);
static enum fetch_body prove_end(struct fetch *f);
static void wait_for_bytes(struct fetch *f);
static uint64_t spliceable(const struct fetch *f);
static int64_t splice_records(struct fetch *f, int pipe_fd, size_t max);
static int64_t splice_once(const struct fetch *f, int pipe_fd, size_t max);
static bool holds_bytes(const struct fetch *f);
static int64_t moved(struct fetch *f, int64_t n, size_t asked);
static void took(struct fetch *f, uint64_t n);
static bool readable(const struct fetch *f);
static int keep_tail(struct fetch *f, const char *p, size_t n) NODISCARD;
static int take_trailers(struct fetch *f, const char *p, size_t n) NODISCARD;

void fetch_body_begin(struct fetch *f)
{
	f->left = f->response.framing == FRAMING_LENGTH ? f->response.length : 0;
	http_chunked_init(&f->chunked);
	machine_no_deadline(&f->machine);
	f->machine.step = FETCH_STEP_BODY;
}

/* An event for an owner that waits; else it isn't wanted now. */
enum step_result fetch_step_body(struct machine *m)
{
	struct fetch *f = fetch_of(m);

	if (m->timed_out && !readable(f))
		return fetch_fail(f, FETCH_READ_TIMEOUT);
	f->dry = false;
	machine_no_deadline(m);
	if (f->owner_waits)
		ready_post(f->wake);
	f->owner_waits = false;
	return STEP_PARK;
}

enum fetch_body fetch_body_next(struct fetch *f, struct view *out)
{
	if (f->state == FETCH_ENDED)
		return FETCH_BODY_END;
	if (f->state == FETCH_FAILED)
		return FETCH_BODY_FAILED;
	CHECK(f->state == FETCH_HEAD);
	switch (f->response.framing) {
	case FRAMING_NONE:
		return prove_end(f);
	case FRAMING_LENGTH:
		return next_length(f, out);
	case FRAMING_CHUNKED:
		return next_chunked(f, out);
	case FRAMING_CLOSE:
		break;
	}
	return next_close(f, out);
}

void fetch_input_took(struct fetch *f, size_t n)
{
	CHECK(n <= buffered(f->in));
	if (n == 0)
		return;
	f->in->begin += n;
	if (buffered(f->in) == 0)
		pool_buffer_give(f->pool, &f->in);
}

void fetch_body_took(struct fetch *f, size_t n)
{
	fetch_input_took(f, n);
	if (n > 0)
		took(f, n);
}

int64_t fetch_body_splice(struct fetch *f, int pipe_fd, size_t max)
{
	if (f->state != FETCH_HEAD)
		return -EPIPE;
	CHECK(buffered(f->in) == 0);
	if (max > spliceable(f))
		max = spliceable(f);
	if (pool_over_tls(f->connection))
		return splice_records(f, pipe_fd, max);
	int64_t n = splice_once(f, pipe_fd, max);
	if (n == -EAGAIN && holds_bytes(f)) {
		n = splice_once(f, pipe_fd, max); /* they may have come just now */
		if (n == -EAGAIN)
			return -EXFULL;
	}
	return moved(f, n, max);
}

int64_t fetch_body_read(struct fetch *f, void *p, size_t n)
{
	if (f->state != FETCH_HEAD)
		return -EPIPE;
	CHECK(buffered(f->in) == 0);
	if (n > spliceable(f))
		n = spliceable(f);
	struct io *io = fetch_io(f);
	int64_t got = io->ops->read(io, p, n);
	f->wait = got == -EAGAIN ? io->wait : WATCH_READ;
	return moved(f, got, n);
}

int64_t fetch_body_left(const struct fetch *f)
{
	return f->response.framing == FRAMING_LENGTH ? (int64_t)f->left : -1;
}

struct view fetch_trailers(const struct fetch *f)
{
	return f->trailers;
}

void fetch_pause(struct fetch *f)
{
	f->owner_waits = false;
	if (f->machine.step != FETCH_STEP_BODY)
		return;
	machine_no_deadline(&f->machine);
	watch_want(&f->machine.watch, 0);
}

/* --- framings ---------------------------------------------------------------------------------- */

static enum fetch_body next_length(struct fetch *f, struct view *out)
{
	enum fetch_body result = FETCH_BODY_MEMORY;

	while (result == FETCH_BODY_MEMORY) {
		if (f->left == 0)
			return prove_end(f);
		if (buffered(f->in) > 0)
			return from_memory(f, f->left, out);
		if (f->at_eof)
			return failed(f, FETCH_RESPONSE_INCOMPLETE);
		result = from_stream(f);
	}
	return result;
}

static enum fetch_body next_close(struct fetch *f, struct view *out)
{
	enum fetch_body result = FETCH_BODY_MEMORY;

	while (result == FETCH_BODY_MEMORY) {
		if (buffered(f->in) > 0)
			return from_memory(f, UINT64_MAX, out);
		if (f->at_eof) {
			fetch_end(f, false);
			return FETCH_BODY_END;
		}
		result = from_stream(f);
	}
	return result;
}

static enum fetch_body next_chunked(struct fetch *f, struct view *out)
{
	enum fetch_body result = FETCH_BODY_MEMORY;

	while (result == FETCH_BODY_MEMORY) {
		if (f->chunked.payload_left > 0 && buffered(f->in) > 0)
			return from_memory(f, f->chunked.payload_left, out);
		if (f->at_eof)
			return failed(f, FETCH_RESPONSE_INCOMPLETE);
		if (f->chunked.payload_left > 0 && f->chunk_large)
			result = from_stream(f);
		else if (buffered(f->in) > 0)
			result = feed(f);
		else
			result = read_on(f, f->chunk_large ? READ_LINE : POOL_BUFFER_BYTES);
	}
	return result;
}

/* Framing in memory. FETCH_BODY_MEMORY: go on. */
static enum fetch_body feed(struct fetch *f)
{
	const char *p = f->in->bytes + f->in->begin;
	size_t used;
	enum http_chunked_event event = http_chunked_feed(&f->chunked, p, buffered(f->in), &used);

	if (event == CHUNKED_BAD)
		return failed(f, FETCH_PROTOCOL_ERROR);
	if ((event == CHUNKED_MORE && keep_tail(f, p, used) != 0) ||
	    (event == CHUNKED_END && take_trailers(f, p, used) != 0))
		return failed(f, FETCH_INTERNAL);
	f->in->begin += used;
	if (buffered(f->in) == 0)
		pool_buffer_give(f->pool, &f->in);
	if (event == CHUNKED_END)
		return prove_end(f);
	if (event == CHUNKED_PAYLOAD) {
		f->tail_bytes = 0;
		f->chunk_large = f->chunked.payload_left >= FETCH_CHUNK_LARGE;
	}
	return FETCH_BODY_MEMORY;
}

/* Into memory. FETCH_BODY_MEMORY: something came, or the end. */
static enum fetch_body read_on(struct fetch *f, size_t most)
{
	int64_t n = f->dry ? -EAGAIN : fetch_fill(f, most);

	if (n >= 0) {
		f->at_eof = n == 0;
		return FETCH_BODY_MEMORY;
	}
	if (n == -EAGAIN) {
		wait_for_bytes(f);
		return FETCH_BODY_AGAIN;
	}
	return failed(f, n == -ENOMEM ? FETCH_INTERNAL : FETCH_RESPONSE_INCOMPLETE);
}

static enum fetch_body from_memory(struct fetch *f, uint64_t most, struct view *out)
{
	size_t n = buffered(f->in);

	*out = view_of(f->in->bytes + f->in->begin, n < most ? n : (size_t)most);
	return FETCH_BODY_MEMORY;
}

/* Payload comes next. FETCH_BODY_MEMORY: as read_on. */
static enum fetch_body from_stream(struct fetch *f)
{
	const struct io *io = fetch_io(f);

	if (!f->dry && io->splices_in && !io->ops->buffered(io))
		return FETCH_BODY_SOCKET;
	return read_on(f, POOL_BUFFER_BYTES);
}

static enum fetch_body failed(struct fetch *f, enum fetch_error e)
{
	(void)fetch_fail(f, e);
	return FETCH_BODY_FAILED;
}

/* All was taken: is there something that should not be? */
static enum fetch_body prove_end(struct fetch *f)
{
	bool reusable = f->response.keep_alive && f->request_sent && !f->send_broken;
	struct io *io = fetch_io(f);
	char byte;

	if (buffered(f->in) > 0)
		return failed(f, FETCH_PROTOCOL_ERROR);
	if (!f->dry) {
		int64_t n = io->ops->read(io, &byte, 1);
		if (n > 0)
			return failed(f, FETCH_PROTOCOL_ERROR);
		reusable = reusable && n == -EAGAIN;
	}
	fetch_end(f, reusable);
	return FETCH_BODY_END;
}

/* --- bytes ---------------------------------------------------------------------------------- */

static void wait_for_bytes(struct fetch *f)
{
	f->owner_waits = true;
	machine_deadline(&f->machine, f->origin->between_bytes_ms);
	watch_want(&f->machine.watch, f->wait);
}

/* How much of what comes next in the socket is payload. */
static uint64_t spliceable(const struct fetch *f)
{
	if (f->response.framing == FRAMING_LENGTH)
		return f->left;
	return f->response.framing == FRAMING_CHUNKED ? f->chunked.payload_left : INT64_MAX;
}

static int64_t splice_records(struct fetch *f, int pipe_fd, size_t max)
{
	int64_t n, got = 0;

	do {
		n = splice_once(f, pipe_fd, max - (size_t)got);
		got += n > 0 ? n : 0;
	} while (n > 0 && (size_t)got < max);
	f->wait = WATCH_READ;
	if (got > 0) { /* more may be there: EAGAIN could have meant that the pipe is full */
		took(f, (uint64_t)got);
		f->dry = false;
		return got;
	}
	if (n == 0 || n == -EINVAL || n == -EIO) /* not payload, or the end: OpenSSL knows */
		n = fetch_fill(f, POOL_BUFFER_BYTES);
	return n > 0 ? -ENODATA : moved(f, n, max);
}

static int64_t splice_once(const struct fetch *f, int pipe_fd, size_t max)
{
	ssize_t n = splice(f->machine.watch.fd, NULL, pipe_fd, NULL, max,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	return n < 0 ? -errno : n;
}

/* The socket does: a splice that says EAGAIN all the same means that the pipe is full. */
static bool holds_bytes(const struct fetch *f)
{
	int waiting = 0;

	return ioctl(f->machine.watch.fd, FIONREAD, &waiting) == 0 && waiting > 0;
}

/* The outcome of a splice or read: n bytes of «asked», 0 at the end, or a negative errno. */
static int64_t moved(struct fetch *f, int64_t n, size_t asked)
{
	if (n == -EAGAIN || n == -EINTR) {
		f->dry = n == -EAGAIN;
		wait_for_bytes(f);
		return 0;
	}
	if (n < 0) {
		(void)fetch_fail(f, FETCH_RESPONSE_INCOMPLETE);
		return n;
	}
	if (n == 0) {
		f->at_eof = true;
		return -ENODATA;
	}
	f->dry = (size_t)n < asked && !pool_over_tls(f->connection);
	took(f, (uint64_t)n);
	return n;
}

static void took(struct fetch *f, uint64_t n)
{
	if (f->response.framing == FRAMING_LENGTH)
		f->left -= n;
	if (f->response.framing == FRAMING_CHUNKED)
		http_chunked_took(&f->chunked, n);
}

/* Did bytes (or the end) come while the loop was too busy to see them before the deadline? */
static bool readable(const struct fetch *f)
{
	char byte;

	return recv(f->machine.watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

/* --- trailers --------------------------------------------------------------------------------- */

/* Framing that ends with what was read: if no payload follows, trailers are in it. */
static int keep_tail(struct fetch *f, const char *p, size_t n)
{
	size_t needed = f->tail_bytes + n;

	if (needed > TAIL_MOST)
		return -E2BIG;
	if (needed > f->tail_capacity) {
		size_t capacity = needed * 2 > TAIL_LEAST ? needed * 2 : TAIL_LEAST;
		char *larger = arena_alloc(&f->arena, capacity);
		if (larger == NULL)
			return -ENOMEM;
		if (f->tail_bytes > 0)
			memcpy(larger, f->tail, f->tail_bytes);
		f->tail = larger;
		f->tail_capacity = capacity;
	}
	memcpy(f->tail + f->tail_bytes, p, n);
	f->tail_bytes = needed;
	return 0;
}

/* What lies between the last chunk's line and the empty line, once both are there. */
static int take_trailers(struct fetch *f, const char *p, size_t n)
{
	struct view framing = view_of(p, n);

	if (f->tail_bytes > 0) {
		if (keep_tail(f, p, n) != 0)
			return -ENOMEM;
		framing = view_of(f->tail, f->tail_bytes);
	}
	if (view_starts(framing, VIEW("\r\n"))) /* the end of the payload before */
		framing = view_skip(framing, 2);
	size_t line_bytes = 0; /* of the last chunk's line, whose end the parser has seen */
	while (line_bytes < framing.n && framing.p[line_bytes] != '\n')
		line_bytes++;
	CHECK(line_bytes < framing.n);
	framing = view_skip(framing, line_bytes + 1);
	CHECK(framing.n >= 2);
	framing.n -= 2;
	if (framing.n == 0)
		return 0;
	f->trailers = arena_copy(&f->arena, framing);
	return f->trailers.p == NULL ? -ENOMEM : 0;
}
