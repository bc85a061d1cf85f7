/*
 * A client's connection over HTTP/1: read a head, let a request serve it, go on.
 *
 * Phases and what is legal in them:
 *   head      bytes are read and parsed; no request exists; block may be NULL (idle)
 *   exchange  the request reads and writes through h1_ops; the machine only passes on events
 *   linger    the answer is out but unread input would turn our close into a reset: drain it for a while
 * A connection holds no input buffer while it is idle: ten thousand of them cost little.
 */
#include "edge/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edge/request.h"

enum { LINGER_MS = 2000, LINGER_BYTES_MAX = 1 << 20, KEPT_BLOCKS = 64 };

static enum step_result step_head(struct machine *m);
static enum step_result step_exchange(struct machine *m);
static enum step_result step_linger(struct machine *m);

enum { STEP_HEAD, STEP_EXCHANGE, STEP_LINGER };
static const struct step steps[] = {
	[STEP_HEAD] = { "head", step_head },		 /* idle_timeout, then header_timeout */
	[STEP_EXCHANGE] = { "exchange", step_exchange }, /* the request's own deadlines */
	[STEP_LINGER] = { "linger", step_linger },	 /* LINGER_MS */
};

static void connection_end(struct machine *m);

static struct connection *of(struct machine *m)
{
	struct connection *c = CONTAINER_OF(m, struct connection, m);

	CHECK_MAGIC(c, CONNECTION_MAGIC);
	return c;
}

/* --- opening --------------------------------------------------------------------------------- */

static void describe(struct exchange *x, const struct sock_addr *peer)
{
	x->ops = &h1_ops;
	x->scheme = VIEW("http");
	x->peer = *peer;
}

void connection_open(struct worker *w, int fd, const struct sock_addr *peer,
		     const struct conf_listener *listener)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (c == NULL || machine_init(&c->m, w->loop, fd, steps, connection_end) != 0) {
		free(c);
		close(fd);
		return;
	}
	c->magic = CONNECTION_MAGIC;
	c->fd = fd;
	c->w = w;
	c->listener = listener;
	c->draining = w->draining;
	describe(&c->x, peer);
	list_append(&w->connections, &c->link);
	w->connection_count++;
	sock_tune(fd);
	machine_deadline(&c->m, w->conf->limits.header_timeout_ms);
	machine_wake(&c->m);
}

/* --- input blocks ----------------------------------------------------------------------------- */

static struct head_block *block_new(const struct conf_limits *limits)
{
	size_t capacity = (size_t)limits->header_bytes + CONNECTION_BODY_SPACE;
	size_t aligned = (capacity + 15) & ~(size_t)15;
	struct head_block *b = malloc(sizeof(*b) + aligned +
				      limits->headers * sizeof(struct http_field));

	if (b == NULL)
		return NULL;
	b->capacity = capacity;
	b->field_capacity = limits->headers;
	b->fields = (struct http_field *)(void *)(b->bytes + aligned);
	return b;
}

static bool block_fits(const struct head_block *b, const struct conf_limits *limits)
{
	return b->capacity == (size_t)limits->header_bytes + CONNECTION_BODY_SPACE &&
	       b->field_capacity == limits->headers;
}

static int take_block(struct connection *c)
{
	struct worker *w = c->w;
	struct head_block *b = w->free_heads;

	if (c->block != NULL)
		return 0;
	if (b != NULL) {
		w->free_heads = b->next_free;
		w->free_head_count--;
		if (!block_fits(b, &w->conf->limits)) { /* a reload has changed the limits */
			free(b);
			b = NULL;
		}
	}
	if (b == NULL)
		b = block_new(&w->conf->limits);
	c->block = b;
	c->in_start = c->in_end = 0;
	return b != NULL ? 0 : -ENOMEM;
}

static void give_block(struct connection *c)
{
	struct worker *w = c->w;

	if (c->block == NULL)
		return;
	if (w->free_head_count < KEPT_BLOCKS) {
		c->block->next_free = w->free_heads;
		w->free_heads = c->block;
		w->free_head_count++;
	} else {
		free(c->block);
	}
	c->block = NULL;
}

void connections_free_kept(struct worker *w)
{
	while (w->free_heads != NULL) {
		struct head_block *b = w->free_heads;

		w->free_heads = b->next_free;
		free(b);
	}
	w->free_head_count = 0;
}

/* --- step: head --------------------------------------------------------------------------------- */

static enum step_result begin_exchange(struct connection *c, enum http_fault fault)
{
	h1_begin(c);
	machine_no_deadline(&c->m);
	if (request_begin(c->w, &c->x, fault == HTTP_OK ? &c->rq : NULL, fault, c->listener) != 0)
		return STEP_DONE;
	return machine_goto(&c->m, STEP_EXCHANGE);
}

/* Bytes of a head are there but it did not come in time: 408. Without bytes: a silent close. */
static enum step_result head_timed_out(struct connection *c)
{
	if (c->block == NULL || c->in_end == c->in_start)
		return STEP_DONE;
	c->keep_alive = false;
	h1_begin(c);
	c->body_ended = false;
	if (request_begin_timeout(c->w, &c->x) != 0)
		return STEP_DONE;
	return machine_goto(&c->m, STEP_EXCHANGE);
}

static enum step_result head_parsed(struct connection *c)
{
	c->in_start += c->scan.head_bytes;
	c->keep_alive = c->rq.keep_alive;
	return begin_exchange(c, HTTP_OK);
}

static enum step_result parse_head(struct connection *c)
{
	/* The block's limits are those of the snapshot that it was made under. */
	uint32_t head_bytes = (uint32_t)(c->block->capacity - CONNECTION_BODY_SPACE);
	struct http_limits limits = { .head_bytes = head_bytes, .fields = c->block->field_capacity };
	enum http_parse r;

	c->rq.fields = (struct http_fields){ .at = c->block->fields,
					     .capacity = c->block->field_capacity };
	r = http_request_parse(&c->rq, &c->scan, c->block->bytes + c->in_start,
			       c->in_end - c->in_start, &limits);
	if (r == PARSE_DONE)
		return head_parsed(c);
	if (r == PARSE_BAD) {
		c->keep_alive = false;
		return begin_exchange(c, c->scan.fault);
	}
	return STEP_READ;
}

/* Reads once. 1: bytes came; 0: none now; negative: the client is done or gone. */
static int read_some(struct connection *c)
{
	ssize_t n;

	if (take_block(c) != 0)
		return -ENOMEM;
	n = recv(c->fd, c->block->bytes + c->in_end, c->block->capacity - c->in_end, 0);
	if (n > 0) {
		if (c->in_end == c->in_start)
			machine_deadline(&c->m, c->w->conf->limits.header_timeout_ms);
		c->in_end += (size_t)n;
		return 1;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return -ECONNRESET;
}

static enum step_result step_head(struct machine *m)
{
	struct connection *c = of(m);
	enum step_result r;
	int got;

	if (m->broken ||
	    (c->draining && (c->block == NULL || c->in_end == c->in_start) && c->served > 0))
		return STEP_DONE;
	if (m->timed_out)
		return head_timed_out(c);
	if (c->block != NULL && c->in_end > c->in_start && c->scan.scanned == 0) {
		r = parse_head(c); /* pipelined */
		if (r != STEP_READ)
			return r;
	}
	got = read_some(c);
	if (got < 0)
		return STEP_DONE;
	if (got > 0)
		return parse_head(c);
	if (c->in_end == c->in_start)
		give_block(c);
	return STEP_READ;
}

/* --- step: exchange ----------------------------------------------------------------------------- */

/* What the client sent behind this request moves to the front, for the next head. */
static void keep_rest(struct connection *c)
{
	size_t rest = c->in_end - c->in_start;

	if (rest == 0) {
		give_block(c);
		return;
	}
	memmove(c->block->bytes, c->block->bytes + c->in_start, rest);
	c->in_start = 0;
	c->in_end = rest;
}

static enum step_result exchange_over(struct connection *c)
{
	struct machine *m = &c->m;

	c->served++;
	c->request_over = false;
	if (c->aborted || c->x.gone || m->broken)
		return STEP_DONE;
	if (!c->keep_alive || !c->body_ended || c->draining) {
		/* Only a client that wanted it so is known to send nothing more. */
		if (!c->rq.keep_alive && c->body_ended && c->in_end == c->in_start)
			return STEP_DONE;
		shutdown(c->fd, SHUT_WR);
		machine_deadline(m, LINGER_MS);
		return machine_goto(m, STEP_LINGER);
	}
	keep_rest(c);
	c->scan = (struct http_scan){ 0 };
	machine_goto(m, STEP_HEAD);
	if (c->block != NULL) {
		machine_deadline(m, c->w->conf->limits.header_timeout_ms);
		return STEP_NEXT;
	}
	machine_deadline(m, c->w->conf->limits.idle_timeout_ms);
	return STEP_READ;
}

static enum step_result step_exchange(struct machine *m)
{
	struct connection *c = of(m);

	if (c->request_over)
		return exchange_over(c);
	if (m->broken)
		c->x.gone = true;
	c->blocked = false;
	if (c->x.request != NULL)
		machine_wake(c->x.request);
	return m->broken ? STEP_PARK : STEP_GUARD;
}

/* --- step: linger -------------------------------------------------------------------------------- */

static enum step_result step_linger(struct machine *m)
{
	struct connection *c = of(m);
	char waste[4096];
	ssize_t n;

	if (m->broken || m->timed_out)
		return STEP_DONE;
	n = recv(c->fd, waste, sizeof(waste), 0);
	if (n < 0 && errno == EAGAIN)
		return STEP_READ;
	if (n <= 0)
		return STEP_DONE;
	c->drained_bytes += (uint64_t)n;
	return c->drained_bytes > LINGER_BYTES_MAX ? STEP_DONE : STEP_NEXT;
}

/* --- the end --------------------------------------------------------------------------------------- */

static void connection_end(struct machine *m)
{
	struct connection *c = of(m);
	struct worker *w = c->w;
	struct sock_addr peer = c->x.peer;

	give_block(c);
	close(c->fd);
	list_remove(&c->link);
	w->connection_count--;
	c->magic = 0;
	free(c);
	worker_connection_gone(w, &peer);
}

void connections_drain(struct worker *w)
{
	LIST_EACH (&w->connections, at, next) {
		struct connection *c = LIST_ENTRY(at, struct connection, link);

		c->draining = true;
		if (c->m.step == STEP_HEAD)
			machine_wake(&c->m);
	}
}

/* The machines end by themselves in this turn: each sees a broken descriptor. */
void connections_abort(struct worker *w)
{
	LIST_EACH (&w->connections, at, next) {
		struct connection *c = LIST_ENTRY(at, struct connection, link);

		c->m.broken = true;
		machine_wake(&c->m);
	}
}
