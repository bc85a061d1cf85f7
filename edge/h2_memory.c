/*
 * What the streams of a connection hold in memory, and what is done about it, so that a connection stays under 1 MiB (docs/decisions/h2.md
 * has the sum). Nothing is counted as it comes and goes, which would need a hand in every file that allocates: where a decision is due,
 * what there is is added up.
 *
 *   a request              begins when another has ended; until then its stream has no more than its head
 *   a new stream           is refused, if even heads are too much (REFUSED_STREAM: it may be asked again)
 *   a body for an origin   stays in its window, which then shuts: it is not handed on to where it would wait, too
 *   an answer that its client doesn't let come (the stream's window is shut) is given up
 *
 * A request is counted with what it will hold once it waits for its origin: so a hundred that come in one read are no surprise later.
 */
#include "edge/h2.h"
#include "edge/request.h"

enum {
	SESSION_BYTES = 384, /* of a stream in nghttp2, with its place in a hash table */
	REQUEST_LEAST = 4300, /* of a request that waits for its origin, but for the copy of its head */
	HEAD_LEAST = 1 << 10,	 /* of that copy */
	UPLOAD_BYTES = 17 << 10, /* of a body on its way to the origin */
};

static size_t most(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t request_bytes(const struct h2_stream *s)
{
	if (s->x.request == NULL)
		return 0;
	return most(request_memory(s->x.request), REQUEST_LEAST + most(s->block.capacity, HEAD_LEAST));
}

static size_t stream_bytes(const struct h2_stream *s)
{
	return sizeof(*s) + SESSION_BYTES + s->block.capacity + s->body.capacity + request_bytes(s);
}

static size_t all_bytes(const struct h2 *h)
{
	size_t n = 0;

	LIST_EACH (&h->streams, at, next)
		n += stream_bytes(LIST_ENTRY(at, struct h2_stream, link));
	return n;
}

/* --- new streams --------------------------------------------------------------------------------- */

void h2_memory_turn(struct h2 *h)
{
	h->memory_known = false;
}

/* As this turn began, and what came since: what ended since may be counted still. */
static size_t known_bytes(struct h2 *h)
{
	if (!h->memory_known)
		h->memory = all_bytes(h);
	h->memory_known = true;
	return h->memory;
}

/* A client can't know how much its requests are to us: for such a refusal it isn't blamed. */
bool h2_memory_admits(struct h2 *h)
{
	if (known_bytes(h) < H2_STREAMS_BYTES)
		return true;
	h->spared++;
	return false;
}

/* There is always one that has begun, or nothing would end. */
static bool may_begin(struct h2 *h)
{
	return known_bytes(h) < H2_BEGUN_BYTES || h->begun == 0;
}

bool h2_memory_holds(struct h2_stream *s)
{
	struct h2 *h = s->h;

	if (list_empty(&h->waiting) && may_begin(h))
		return false;
	list_append(&h->waiting, &s->held);
	h->memory += stream_bytes(s);
	return true;
}

void h2_memory_begun(struct h2_stream *s)
{
	s->begun = true;
	s->h->begun++;
	s->h->memory += stream_bytes(s);
}

struct h2_stream *h2_memory_next(struct h2 *h)
{
	struct h2_stream *s;

	if (list_empty(&h->waiting) || h->lost || !may_begin(h))
		return NULL;
	s = LIST_ENTRY(h->waiting.next, struct h2_stream, held);
	list_remove(&s->held);
	return s;
}

void h2_memory_forget(struct h2_stream *s)
{
	h2_memory_body_over(s);
	s->h->begun -= s->begun;
	if (list_linked(&s->held))
		list_remove(&s->held);
}

/* --- bodies ---------------------------------------------------------------------------------------- */

/* One always may: a connection full of requests that wait for long doesn't stop it. */
bool h2_memory_takes_body(struct h2_stream *s)
{
	struct h2 *h = s->h;

	if (h->uploads == 0 || s->uploads || all_bytes(h) + UPLOAD_BYTES <= H2_STREAMS_BYTES) {
		h->uploads += !s->uploads;
		s->uploads = true;
		return true;
	}
	h->uploads_wait = true;
	return false;
}

void h2_memory_body_over(struct h2_stream *s)
{
	struct h2 *h = s->h;

	h->uploads -= s->uploads;
	s->uploads = false;
	if (!h->uploads_wait)
		return;
	h->uploads_wait = false;
	LIST_EACH (&h->streams, at, next) {
		const struct h2_stream *other = LIST_ENTRY(at, struct h2_stream, link);

		if (other->body.n > 0 && other->x.request != NULL)
			machine_wake(other->x.request);
	}
}

/* --- answers ------------------------------------------------------------------------------------------ */

bool h2_memory_lets_wait(const struct h2_stream *s)
{
	return all_bytes(s->h) <= H2_STREAMS_BYTES;
}
