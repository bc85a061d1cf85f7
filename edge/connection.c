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

#include "edge/arrival.h"
#include "edge/request.h"
#include "edge/tls_server.h"

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
static int take_block(struct connection *c);
static void give_block(struct connection *c);

static struct connection *of(struct machine *m)
{
	struct connection *c = CONTAINER_OF(m, struct connection, m);

	CHECK_MAGIC(c, CONNECTION_MAGIC);
	return c;
}

/* --- opening --------------------------------------------------------------------------------- */

static void connection_drain(struct worker_client *client);
static void connection_cut(struct worker_client *client);

static const struct worker_client_ops client_ops = { connection_drain, connection_cut };

static void describe(struct connection *c, const struct arrival *a)
{
	struct exchange *x = &c->x;

	c->peer = a->peer;
	c->from = a->client;
	x->ops = &h1_ops;
	x->scheme = a->io != NULL ? VIEW("https") : VIEW("http");
	x->peer = &c->peer;
	x->client = &c->from;
	x->identity = a->identity;
	if (a->identity != NULL)
		x->tls = tls_identity_text(a->identity);
}

/* What was read to tell the protocol is the first head's beginning. */
static int take_early(struct connection *c, const struct arrival *a)
{
	if (a->early_bytes == 0)
		return 0;
	if (take_block(c) != 0)
		return -ENOMEM;
	memcpy(c->block->bytes, a->early, a->early_bytes);
	c->in_end = a->early_bytes;
	return 0;
}

static struct connection *connection_new(struct worker *w, struct arrival *a)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->w = w;
	if (take_early(c, a) != 0 || arrival_machine(a, &c->m, w->loop, steps, connection_end) != 0) {
		give_block(c);
		free(c);
		return NULL;
	}
	return c;
}

void connection_open(struct worker *w, struct arrival *a)
{
	struct connection *c = connection_new(w, a);

	if (c == NULL) {
		arrival_close(a);
		worker_client_gone(w, NULL, &a->client);
		return;
	}
	c->magic = CONNECTION_MAGIC;
	c->listener = a->listener;
	c->draining = w->draining;
	io_plain_init(&c->plain, a->fd);
	c->io = a->io != NULL ? a->io : &c->plain;
	describe(c, a);
	worker_client_add(w, &c->client, &client_ops);
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

/* Between two answers: nothing is cut off, and a client over TLS is told so. */
static enum step_result leave(struct connection *c)
{
	if (c->io != &c->plain)
		c->io->ops->end(c->io);
	return STEP_DONE;
}

/* Bytes of a head are there but it did not come in time: 408. Without bytes: a silent close. */
static enum step_result head_timed_out(struct connection *c)
{
	if (c->block == NULL || c->in_end == c->in_start)
		return leave(c);
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
	c->keep_alive = c->rq.keep_alive && !c->io->closing;
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
	int64_t n;

	if (take_block(c) != 0)
		return -ENOMEM;
	n = c->io->ops->read(c->io, c->block->bytes + c->in_end, c->block->capacity - c->in_end);
	if (n > 0) {
		c->in_end += (size_t)n;
		return 1;
	}
	return n == -EAGAIN ? 0 : -ECONNRESET;
}

static enum step_result wait_for_socket(const struct io *io)
{
	if (io->wait == (WATCH_READ | WATCH_WRITE))
		return STEP_BOTH;
	return io->wait == WATCH_WRITE ? STEP_WRITE : STEP_READ;
}

/* What the stream has in memory already no event tells of. */
static enum step_result wait_for_more(struct connection *c)
{
	return c->io->ops->buffered(c->io) ? STEP_NEXT : STEP_READ;
}

/* Bytes have come. begun: the first ones of a head, which from now on has its own deadline if it isn't whole, as most are. */
static enum step_result parse_more(struct connection *c, bool begun)
{
	enum step_result r = parse_head(c);

	if (r != STEP_READ)
		return r;
	if (begun)
		machine_deadline(&c->m, c->w->conf->limits.header_timeout_ms);
	return wait_for_more(c);
}

/* Nothing has come of a next request, and none would be served. */
static bool may_leave(const struct connection *c)
{
	return (c->draining || c->io->closing) && (c->block == NULL || c->in_end == c->in_start) &&
	       c->served > 0;
}

static enum step_result step_head(struct machine *m)
{
	struct connection *c = of(m);
	bool begun = c->in_end == c->in_start;
	int got;

	if (m->broken)
		return STEP_DONE;
	if (may_leave(c))
		return leave(c);
	if (m->timed_out)
		return head_timed_out(c);
	if (c->block != NULL && c->in_end > c->in_start && c->scan.scanned == 0) {
		enum step_result r = parse_head(c); /* pipelined, or read before we were */

		if (r != STEP_READ)
			return r;
	}
	got = read_some(c);
	if (got < 0)
		return leave(c);
	if (got > 0)
		return parse_more(c, begun);
	if (c->in_end == c->in_start)
		give_block(c);
	return may_leave(c) ? leave(c) : wait_for_socket(c->io);
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
	if (!c->keep_alive || !c->body_ended || c->draining || c->io->closing) {
		/* Only a client that wanted it so is known to send nothing more: closing is then end enough. */
		bool silent = !c->rq.keep_alive && c->body_ended && c->in_end == c->in_start;

		if (!silent || c->io != &c->plain)
			c->io->ops->end(c->io);
		if (silent)
			return STEP_DONE;
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
	return wait_for_more(c);
}

/* What the stream holds goes first; only then is there room for more. */
static void send_held(struct connection *c)
{
	int r = c->io->ops->flush(c->io);

	if (r != 0 && r != -EAGAIN)
		c->x.gone = true;
	c->blocked = r == -EAGAIN;
}

static enum step_result step_exchange(struct machine *m)
{
	struct connection *c = of(m);

	if (c->request_over)
		return exchange_over(c);
	if (m->broken)
		c->x.gone = true;
	c->blocked = false;
	if (c->io->holds && !c->x.gone)
		send_held(c);
	if (c->x.request != NULL)
		machine_wake(c->x.request);
	if (m->broken)
		return STEP_PARK;
	return c->blocked ? STEP_WRITE : STEP_GUARD;
}

/* --- step: linger -------------------------------------------------------------------------------- */

static enum step_result step_linger(struct machine *m)
{
	struct connection *c = of(m);
	char waste[4096];
	ssize_t n;

	if (m->broken || m->timed_out)
		return STEP_DONE;
	n = recv(c->io->fd, waste, sizeof(waste), MSG_DONTWAIT); /* TLS: as it is, nobody reads it */
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
	struct sock_addr client = c->from;

	give_block(c);
	c->io->ops->free(c->io);
	close(c->plain.fd);
	worker_client_gone(w, &c->client, &client);
	c->magic = 0;
	free(c);
}

static struct connection *of_client(struct worker_client *client)
{
	struct connection *c = CONTAINER_OF(client, struct connection, client);

	CHECK_MAGIC(c, CONNECTION_MAGIC);
	return c;
}

static void connection_drain(struct worker_client *client)
{
	struct connection *c = of_client(client);

	c->draining = true;
	if (c->m.step == STEP_HEAD)
		machine_wake(&c->m);
}

/* The machine ends by itself in this turn: it sees a broken descriptor. */
static void connection_cut(struct worker_client *client)
{
	struct connection *c = of_client(client);

	c->m.broken = true;
	machine_wake(&c->m);
}
