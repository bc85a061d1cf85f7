/*
 * The request goes out: head and what there is of the body by one write, then the body as the
 * owner gives it. Bytes of the body pass through one buffer, where chunks get their framing: so
 * «taken» is always true for the owner, whatever the socket does.
 *
 * An origin may answer before it has read everything, and often closes right after. Hence the
 * answer is looked for while the body is being sent, and a send that fails is not yet the end of
 * the fetch: what the origin said before it hung up is still in the socket.
 */
#include <errno.h>
#include <sys/uio.h>

#include "origin/parts.h"

enum { CHUNK_EXTRA = HTTP_CHUNK_LINE_MAX + 2 };

static int flush(struct fetch *f);
static void account(struct fetch *f, size_t head_bytes, size_t n);
static struct buffer *out_buffer(struct fetch *f);
static size_t room(const struct buffer *b);
static void append(struct buffer *b, const void *p, size_t n);
static bool takes_body(const struct fetch *f);
static void go_on(struct fetch *f);

/* --- the owner's side ------------------------------------------------------------------------- */

int64_t fetch_send(struct fetch *f, const void *p, size_t n)
{
	if (!takes_body(f))
		return -EPIPE;
	CHECK(!f->request_given && n > 0);
	struct buffer *b = out_buffer(f);
	bool chunked = f->request_framing == FRAMING_CHUNKED;
	size_t extra = chunked ? CHUNK_EXTRA : 0;
	if (b == NULL || room(b) <= extra) {
		f->owner_waits_to_send = true;
		return 0;
	}
	if (n > room(b) - extra)
		n = room(b) - extra;
	if (chunked) {
		b->end += http_chunked_line(b->bytes + b->end, n); /* there is room for the longest */
		append(b, p, n);
		append(b, "\r\n", 2);
	} else {
		CHECK(n <= f->request_left);
		append(b, p, n);
		f->request_left -= n;
		f->request_given = f->request_left == 0;
	}
	go_on(f);
	return (int64_t)n;
}

int fetch_send_end(struct fetch *f)
{
	const struct view last = VIEW("0\r\n\r\n");

	if (!takes_body(f))
		return -EPIPE;
	if (f->request_given)
		return 0;
	CHECK(f->request_framing == FRAMING_CHUNKED);
	struct buffer *b = out_buffer(f);
	if (b == NULL || room(b) < last.n) {
		f->owner_waits_to_send = true;
		return -EAGAIN;
	}
	append(b, last.p, last.n);
	f->request_given = true;
	go_on(f);
	return 0;
}

static bool takes_body(const struct fetch *f)
{
	return f->state == FETCH_STARTING || f->state == FETCH_INTERIM;
}

/* NULL: no memory, for now. */
static struct buffer *out_buffer(struct fetch *f)
{
	if (f->out == NULL)
		f->out = pool_buffer(f->pool, POOL_SMALL_BYTES);
	return f->out;
}

/* Bytes already sent lie before begin until all are: a request that nothing was sent of may begin anew. */
static size_t room(const struct buffer *b)
{
	return b->capacity - b->end;
}

static void append(struct buffer *b, const void *p, size_t n)
{
	memcpy(b->bytes + b->end, p, n);
	b->end += n;
}

static void go_on(struct fetch *f)
{
	if (f->machine.step == FETCH_STEP_SEND)
		machine_wake(&f->machine);
}

/* --- the machine's side ----------------------------------------------------------------------- */

enum step_result fetch_step_send(struct machine *m)
{
	struct fetch *f = fetch_of(m);
	int result = f->send_broken ? -EPIPE : flush(f);

	if (result < 0 && !f->send_broken) {
		f->send_broken = true;
		if (!f->sent_any)
			return fetch_broken_off(f, -result);
	}
	if (result == 1 && f->request_given) {
		f->request_sent = true;
		machine_deadline(m, f->origin->first_byte_ms);
		m->step = FETCH_STEP_HEAD;
		return f->state == FETCH_INTERIM ? STEP_PARK : STEP_READ;
	}
	if (m->timed_out)
		return fetch_fail(f, FETCH_WRITE_TIMEOUT);
	if (result == 1)
		machine_no_deadline(m);
	else if (m->timer.deadline.ms == 0)
		machine_deadline(m, f->origin->between_bytes_ms);
	enum step_result waiting = fetch_read_answer(f, result == 0 ? STEP_BOTH : STEP_READ);
	return waiting == STEP_READ ? fetch_waits_for(f->wait) : waiting;
}

/* 1: all there is was sent; 0: the socket is full; or a negative errno. */
static int flush(struct fetch *f)
{
	struct view host = f->host.n > 0 ? f->host : f->server->authority;
	struct view parts[] = { f->prefix, host, f->rest, { 0 } };
	size_t head_bytes = f->prefix.n + host.n + f->rest.n;
	struct iovec iov[ARRAY_LEN(parts)];
	size_t skip = f->head_sent, all = 0;
	struct io *io = fetch_io(f);
	int count = 0;

	if (f->out != NULL)
		parts[3] = view_of(f->out->bytes + f->out->begin, buffered(f->out));
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		size_t skipped = skip < parts[i].n ? skip : parts[i].n;
		struct view left = view_skip(parts[i], skipped);
		skip -= skipped;
		if (left.n == 0)
			continue;
		iov[count++] = (struct iovec){ (void *)left.p, left.n };
		all += left.n;
	}
	int64_t n = all == 0 ? 0 : io->ops->write(io, iov, count, false);
	if (n < 0)
		return n == -EAGAIN ? 0 : (int)n;
	if (n > 0)
		account(f, head_bytes, (size_t)n);
	if ((size_t)n < all)
		return 0;
	int result = io->ops->flush(io);
	return result == -EAGAIN ? 0 : result == 0 ? 1 : result;
}

static void account(struct fetch *f, size_t head_bytes, size_t n)
{
	size_t of_head = head_bytes - f->head_sent;

	if (f->sent_at.ms == 0)
		f->sent_at = clock_wall();
	f->sent_any = true;
	of_head = of_head < n ? of_head : n;
	f->head_sent += of_head;
	n -= of_head;
	machine_no_deadline(&f->machine); /* progress: the next wait has its own */
	if (n == 0)
		return;
	f->body_sent = true;
	f->out->begin += n;
	if (buffered(f->out) > 0)
		return;
	pool_buffer_give(f->pool, &f->out);
	if (f->owner_waits_to_send)
		ready_post(f->wake);
	f->owner_waits_to_send = false;
}
