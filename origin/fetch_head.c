/*
 * The answer's head. It is read into a pooled buffer together with up to 16 KiB of what follows,
 * parsed there, and copied with its fields to the fetch's arena before the owner hears of it: so
 * the buffer can be given back as soon as the bytes behind the head are taken, and a fetch that
 * waits for a slow body holds no buffer at all.
 *
 * The head must be whole first_byte after the request was sent, 1xx heads or not; and there may
 * be only so many of those, since an origin that sends them without end would hold the loop.
 */
#include <errno.h>

#include "origin/parts.h"
#include "origin/tls.h"

enum { INTERIMS_MAX = 64 };

enum parsed { PARSED_MORE, PARSED_SKIPPED, PARSED_INTERIM, PARSED_FINAL, PARSED_FAILED };

static enum parsed parse(struct fetch *f);
static enum parsed interim(struct fetch *f);
static enum parsed switched(struct fetch *f);
static enum parsed final(struct fetch *f);
static int keep_response(struct fetch *f);
static void rebase(struct view *v, const char *from, const char *to);
static uint32_t head_limit(const struct fetch *f);
static int64_t read_stream(struct fetch *f, char *p, size_t most);
static int make_room(struct fetch *f, size_t most);
static enum fetch_error unanswered(struct fetch *f, int error);
static bool may_retry(const struct fetch *f);
static enum step_result retry(struct fetch *f);

enum step_result fetch_step_head(struct machine *m)
{
	struct fetch *f = fetch_of(m);
	enum step_result result = fetch_read_answer(f, STEP_READ);

	if (result != STEP_READ)
		return result;
	return m->timed_out ? fetch_fail(f, FETCH_RESPONSE_TIMEOUT) : fetch_waits_for(f->wait);
}

enum step_result fetch_read_answer(struct fetch *f, enum step_result waiting)
{
	if (f->state == FETCH_INTERIM) /* the owner hasn't taken the last one */
		return waiting == STEP_BOTH ? STEP_WRITE : STEP_PARK;
	f->dry = false;
	for (;;) {
		enum parsed found = buffered(f->in) > 0 ? parse(f) : PARSED_MORE;
		if (found == PARSED_FINAL || found == PARSED_FAILED)
			return STEP_PARK;
		if (found == PARSED_INTERIM)
			return waiting == STEP_BOTH ? STEP_WRITE : STEP_PARK;
		if (found == PARSED_SKIPPED)
			continue;
		if (f->dry)
			return waiting;
		int64_t n = fetch_fill(f, FETCH_READ_FIRST);
		if (n == -EAGAIN)
			return waiting;
		if (n <= 0)
			return fetch_broken_off(f, (int)-n);
	}
}

void fetch_interim_done(struct fetch *f)
{
	CHECK(f->state == FETCH_INTERIM);
	f->state = FETCH_STARTING;
	machine_wake(&f->machine);
}

int64_t fetch_fill(struct fetch *f, size_t most)
{
	if (make_room(f, most) != 0)
		return -ENOMEM;
	struct buffer *b = f->in;
	if (most > b->capacity - b->end)
		most = b->capacity - b->end;
	int64_t n = read_stream(f, b->bytes + b->end, most);
	if (n > 0) {
		f->answered = true;
		b->end += (size_t)n;
		return n;
	}
	if (buffered(b) == 0)
		pool_buffer_give(f->pool, &f->in);
	return n;
}

/*
 * One read of the socket; of TLS in user space, where a read gives one record, as many as are there. A short read of a
 * plain socket has emptied it; TLS says when it is empty.
 */
static int64_t read_stream(struct fetch *f, char *p, size_t most)
{
	struct io *io = fetch_io(f);
	bool tls = pool_over_tls(f->connection);
	size_t got = 0;
	int64_t n;

	do {
		n = io->ops->read(io, p + got, most - got);
		got += n > 0 ? (size_t)n : 0;
	} while (tls && !io->splices_in && n > 0 && got < most);
	f->dry = n == -EAGAIN || (!tls && got < most);
	f->wait = n == -EAGAIN ? io->wait : WATCH_READ;
	return got > 0 ? (int64_t)got : n;
}

/* A whole head may be larger than a pooled buffer. */
static int make_room(struct fetch *f, size_t most)
{
	struct buffer *b = f->in;

	if (b == NULL) {
		f->in = pool_buffer(f->pool, most);
		return f->in == NULL ? -ENOMEM : 0;
	}
	if (b->begin == b->end)
		b->begin = b->end = 0;
	if (b->end < b->capacity)
		return 0;
	if (b->begin > 0) {
		memmove(b->bytes, b->bytes + b->begin, buffered(b));
		b->end -= b->begin;
		b->begin = 0;
		return 0;
	}
	struct buffer *larger = pool_buffer(f->pool, b->capacity * 2);
	if (larger == NULL)
		return -ENOMEM;
	memcpy(larger->bytes, b->bytes, b->end);
	larger->end = b->end;
	pool_buffer_give(f->pool, &f->in);
	f->in = larger;
	return 0;
}

/* --- parsing ---------------------------------------------------------------------------------- */

static enum parsed parse(struct fetch *f)
{
	struct http_limits limits = { .head_bytes = head_limit(f), .fields = POOL_FIELDS_MAX };
	struct buffer *b = f->in;
	struct http_response *r = &f->response;

	r->fields = (struct http_fields){ .at = f->pool->fields, .capacity = POOL_FIELDS_MAX };
	switch (http_response_parse(r, &f->scan, b->bytes + b->begin, buffered(b), f->method, &limits)) {
	case PARSE_MORE:
		return PARSED_MORE;
	case PARSE_BAD:
		fetch_fail(f, f->scan.fault == HTTP_HEAD_TOO_LARGE ? FETCH_HEAD_TOO_LARGE
								   : FETCH_PROTOCOL_ERROR);
		return PARSED_FAILED;
	case PARSE_DONE:
		break;
	}
	if (r->status >= 200)
		return final(f);
	return r->status == 101 ? switched(f) : interim(f);
}

static enum parsed switched(struct fetch *f)
{
	if (!f->request_sent || !fetch_stream_agreed(f)) {
		fetch_fail(f, FETCH_PROTOCOL_ERROR);
		return PARSED_FAILED;
	}
	enum parsed found = final(f);
	if (found == PARSED_FINAL) {
		f->state = FETCH_SWITCHED;
		f->machine.step = FETCH_STEP_STREAM;
	}
	return found;
}

static enum parsed interim(struct fetch *f)
{
	if (++f->interims > INTERIMS_MAX) {
		fetch_fail(f, FETCH_PROTOCOL_ERROR);
		return PARSED_FAILED;
	}
	if (f->wants_interim && keep_response(f) != 0) {
		fetch_fail(f, FETCH_HEAD_TOO_LARGE);
		return PARSED_FAILED;
	}
	f->in->begin += f->scan.head_bytes;
	f->scan = (struct http_scan){ 0 };
	if (!f->wants_interim)
		return PARSED_SKIPPED;
	f->state = FETCH_INTERIM;
	ready_post(f->wake);
	return PARSED_INTERIM;
}

static enum parsed final(struct fetch *f)
{
	if (keep_response(f) != 0) {
		fetch_fail(f, FETCH_HEAD_TOO_LARGE);
		return PARSED_FAILED;
	}
	f->in->begin += f->scan.head_bytes;
	if (buffered(f->in) == 0)
		pool_buffer_give(f->pool, &f->in);
	pool_buffer_give(f->pool, &f->out); /* nobody will read the rest of the request */
	f->received_at = clock_wall();
	f->state = FETCH_HEAD;
	fetch_body_begin(f);
	ready_post(f->wake);
	return PARSED_FINAL;
}

/* Copies head and fields from buffer and scratch to the arena. */
static int keep_response(struct fetch *f)
{
	struct http_response *r = &f->response;
	const char *from = f->in->bytes + f->in->begin;
	struct view head = arena_copy(&f->arena, view_of(from, f->scan.head_bytes));
	struct http_field *at = arena_alloc(&f->arena, r->fields.count * sizeof(*at));

	if (head.p == NULL || at == NULL)
		return -ENOMEM;
	if (r->fields.count > 0)
		memcpy(at, r->fields.at, r->fields.count * sizeof(*at));
	r->fields.at = at;
	r->fields.capacity = r->fields.count;
	rebase(&r->reason, from, head.p);
	for (uint16_t i = 0; i < r->fields.count; i++) {
		rebase(&at[i].name, from, head.p);
		rebase(&at[i].value, from, head.p);
	}
	return 0;
}

static void rebase(struct view *v, const char *from, const char *to)
{
	if (v->p != NULL)
		v->p = to + (v->p - from);
}

static uint32_t head_limit(const struct fetch *f)
{
	return f->conf->limits.header_bytes * 2;
}

/* --- when it breaks ----------------------------------------------------------------------------- */

enum step_result fetch_broken_off(struct fetch *f, int error)
{
	if (error == ENOMEM)
		return fetch_fail(f, FETCH_INTERNAL);
	if (may_retry(f))
		return retry(f);
	return fetch_fail(f, f->answered ? FETCH_RESPONSE_INCOMPLETE : unanswered(f, error));
}

/* With TLS 1.3 the peer's last word on our certificate comes when the handshake is over for us. */
static enum fetch_error unanswered(struct fetch *f, int error)
{
	if (!pool_over_tls(f->connection) || error == 0)
		return FETCH_CONNECTION_TERMINATED;
	f->tls_fault = origin_tls_fault(f->connection);
	return origin_tls_error(f->connection);
}

/*
 * A kept connection that dies without a byte of answer was most likely closed by the origin before
 * it saw the request (RFC 9112 §9.3.1). Never again for a body already sent, nor for a request
 * that may have had its effect.
 */
static bool may_retry(const struct fetch *f)
{
	return f->kept && !f->answered && !f->body_sent &&
	       (!f->sent_any || http_method_idempotent(f->method));
}

/* On a new connection: if one kept connection is dead, others are likely to be. */
static enum step_result retry(struct fetch *f)
{
	fetch_close_connection(f);
	machine_no_deadline(&f->machine);
	f->fresh_only = true;
	f->send_broken = f->request_sent = f->sent_any = false;
	f->head_sent = 0;
	f->scan = (struct http_scan){ 0 };
	f->machine.step = FETCH_STEP_CHOOSE;
	return STEP_YIELD;
}
