/*
 * A fetch's life and what its owner asks; the steps are in dial.c, fetch_send.c, fetch_head.c,
 * fetch_body.c and fetch_stream.c (parts.h shows how they follow on each other).
 *
 * Fetches run in the owner's loop but never call it: they post its «wake», and it asks. A fetch
 * that is over has let go of connection and buffers; only its heads, in the arena, remain until
 * fetch_free. Structs are kept for the next fetch with their arena's first block, so that a request
 * in steady state allocates nothing here.
 */
#include "origin/fetch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "origin/parts.h"

enum {
	FETCH_MAGIC = 0x66657463,
	FETCHES_KEPT = 64,
	ARENA_EXTRA_BYTES = 64 * 1024,
	HANDLES_BYTES = 2 * 176, /* of libuv: its timer, its connection's watch */
};

static enum step_result step_over(struct machine *m);

static const struct step steps[] = {
	[FETCH_STEP_CHOOSE] = { "choose", fetch_step_choose }, /* connect, while it waits in line */
	[FETCH_STEP_CONNECT] = { "connect", fetch_step_connect }, /* connect, for each server */
	[FETCH_STEP_HANDSHAKE] = { "handshake", fetch_step_handshake }, /* what is left of connect */
	[FETCH_STEP_SEND] = { "send", fetch_step_send }, /* between_bytes, while the socket is full */
	[FETCH_STEP_HEAD] = { "head", fetch_step_head }, /* first_byte, for the whole head */
	[FETCH_STEP_BODY] = { "body", fetch_step_body }, /* between_bytes, while the owner waits */
	[FETCH_STEP_STREAM] = { "stream", fetch_step_stream }, /* the owner's own */
	[FETCH_STEP_OVER] = { "over", step_over },
};

static const struct {
	const char *type;
	uint16_t status;
} errors[] = {
	[FETCH_OK] = { "", 200 },
	[FETCH_DNS_TIMEOUT] = { "dns_timeout", 504 },
	[FETCH_DNS_ERROR] = { "dns_error", 502 },
	[FETCH_CONNECTION_REFUSED] = { "connection_refused", 502 },
	[FETCH_CONNECTION_TIMEOUT] = { "connection_timeout", 504 },
	[FETCH_CONNECTION_TERMINATED] = { "connection_terminated", 502 },
	[FETCH_CONNECTION_LIMIT_REACHED] = { "connection_limit_reached", 503 },
	[FETCH_DESTINATION_UNAVAILABLE] = { "destination_unavailable", 503 },
	[FETCH_RESPONSE_TIMEOUT] = { "http_response_timeout", 504 },
	[FETCH_RESPONSE_INCOMPLETE] = { "http_response_incomplete", 502 },
	[FETCH_PROTOCOL_ERROR] = { "http_protocol_error", 502 },
	[FETCH_HEAD_TOO_LARGE] = { "http_response_header_section_size", 502 },
	[FETCH_INTERNAL] = { "proxy_internal_error", 503 },
	[FETCH_READ_TIMEOUT] = { "connection_read_timeout", 504 },
	[FETCH_WRITE_TIMEOUT] = { "connection_write_timeout", 504 },
	[FETCH_TLS_PROTOCOL_ERROR] = { "tls_protocol_error", 502 },
	[FETCH_TLS_CERTIFICATE_ERROR] = { "tls_certificate_error", 502 },
	[FETCH_TLS_ALERT_RECEIVED] = { "tls_alert_received", 502 },
};

static struct fetch *allocate(struct origin_pool *p);
static void release(struct fetch *f);
static int copy_request(struct fetch *f, const struct fetch_request *r);
static struct view framing_line(const struct fetch_request *r, char *line, size_t line_bytes);
static struct view join(struct arena *a, const struct view *parts, size_t count);
static void let_go(struct fetch *f, enum fetch_state state);

const char *fetch_error_type(enum fetch_error e)
{
	CHECK((size_t)e < ARRAY_LEN(errors));
	return errors[e].type;
}

uint16_t fetch_error_status(enum fetch_error e)
{
	CHECK((size_t)e < ARRAY_LEN(errors));
	return errors[e].status;
}

int fetch_new(struct origin_pool *p, const struct fetch_request *r, struct ready *wake,
	      struct fetch **out)
{
	struct fetch *f = allocate(p);

	if (f == NULL)
		return -ENOMEM;
	f->arena.limit_bytes = (size_t)r->conf->limits.header_bytes * 4 + ARENA_EXTRA_BYTES;
	int result = copy_request(f, r);
	if (result == 0)
		result = machine_init(&f->machine, p->loop, -1, steps, NULL);
	if (result != 0) {
		release(f);
		return result;
	}
	f->wake = wake;
	f->conf = conf_ref(r->conf);
	f->origin = r->origin;
	f->waiter = (struct pool_waiter){ .origin = r->origin, .machine = &f->machine };
	f->began_us = clock_mono_us();
	machine_wake(&f->machine);
	*out = f;
	return 0;
}

void fetch_free(struct fetch **taken)
{
	struct fetch *f = *taken;

	*taken = NULL;
	if (f == NULL)
		return;
	CHECK_MAGIC(f, FETCH_MAGIC);
	CHECK(!f->machine.running);
	if (f->machine.step != FETCH_STEP_OVER)
		let_go(f, FETCH_FAILED);
	machine_fini(&f->machine);
	conf_unref(f->conf);
	release(f);
}

void fetch_set_wake(struct fetch *f, struct ready *wake)
{
	f->wake = wake;
	ready_post(wake);
}

enum fetch_state fetch_state(const struct fetch *f)
{
	return f->state;
}

enum fetch_error fetch_error(const struct fetch *f)
{
	return f->error;
}

const char *fetch_tls_fault(const struct fetch *f)
{
	return f->tls_fault == NULL ? "" : f->tls_fault;
}

const struct http_response *fetch_response(const struct fetch *f)
{
	return &f->response;
}

struct wall fetch_sent_at(const struct fetch *f)
{
	return f->sent_at;
}

struct wall fetch_received_at(const struct fetch *f)
{
	return f->received_at;
}

int64_t fetch_duration_us(const struct fetch *f)
{
	return (f->ended_us != 0 ? f->ended_us : clock_mono_us()) - f->began_us;
}

const struct conf_server *fetch_server(const struct fetch *f)
{
	return f->server;
}

size_t fetch_memory(const struct fetch *f)
{
	size_t n = sizeof(*f) + sizeof(struct origin_connection) + HANDLES_BYTES + f->arena.total_bytes;

	if (f->in != NULL)
		n += f->in->capacity;
	return f->out != NULL ? n + f->out->capacity : n;
}

/* --- for the other files ----------------------------------------------------------------------- */

enum step_result fetch_fail(struct fetch *f, enum fetch_error e)
{
	f->error = e;
	let_go(f, FETCH_FAILED);
	ready_post(f->wake);
	return STEP_PARK;
}

void fetch_end(struct fetch *f, bool reusable)
{
	struct origin_connection *c = f->connection;

	if (reusable && !f->machine.broken && !c->io->closing) {
		f->connection = NULL;
		machine_release(&f->machine, &c->watch, pool_idle_event);
		pool_give(f->pool, &c, f->origin, f->server);
	}
	let_go(f, FETCH_ENDED);
}

void fetch_close_connection(struct fetch *f)
{
	struct origin_connection *c = f->connection;

	if (c == NULL)
		return;
	f->connection = NULL;
	machine_release(&f->machine, &c->watch, pool_idle_event);
	pool_close(f->pool, &c);
}

void fetch_free_kept(struct origin_pool *p)
{
	while (p->fetches != NULL) {
		struct fetch *f = p->fetches;
		p->fetches = f->next_free;
		arena_fini(&f->arena);
		free(f);
	}
	p->fetch_count = 0;
}

/* --- helpers ------------------------------------------------------------------------------------ */

static struct fetch *allocate(struct origin_pool *p)
{
	struct fetch *f = p->fetches;
	struct arena arena;

	if (f != NULL) {
		p->fetches = f->next_free;
		p->fetch_count--;
		arena = f->arena;
	} else {
		f = malloc(sizeof(*f));
		if (f == NULL)
			return NULL;
		arena_init(&arena, 0);
	}
	memset(f, 0, sizeof(*f));
	f->magic = FETCH_MAGIC;
	f->arena = arena;
	f->pool = p;
	return f;
}

static void release(struct fetch *f)
{
	struct origin_pool *p = f->pool;

	f->magic = 0;
	if (p->fetch_count == FETCHES_KEPT) {
		arena_fini(&f->arena);
		free(f);
		return;
	}
	arena_reset(&f->arena);
	f->next_free = p->fetches;
	p->fetches = f;
	p->fetch_count++;
}

/* «start» Host: HOST CRLF «framing fields» CRLF, in one piece: all but the host, which may be the server's, is put
 * together now, so that an attempt copies nothing. Connection is left out where it has nothing to say: 1.1 persists by default. */
static int copy_request(struct fetch *f, const struct fetch_request *r)
{
	char line[64];
	struct view framing = framing_line(r, line, sizeof(line));
	bool upgrades = r->upgrade.n > 0;
	struct view parts[] = {
		r->start,
		VIEW("Host: "),
		r->host,
		VIEW("\r\n"),
		framing,
		r->fields,
		upgrades ? VIEW("Connection: upgrade\r\nUpgrade: ") : (struct view){ 0 },
		r->upgrade,
		upgrades ? VIEW("\r\n\r\n") : VIEW("\r\n"),
	};
	struct view all = join(&f->arena, parts, ARRAY_LEN(parts));

	if (all.p == NULL)
		return -ENOMEM;
	f->prefix = view_of(all.p, r->start.n + parts[1].n);
	f->host = view_of(all.p + f->prefix.n, r->host.n);
	f->rest = view_skip(all, f->prefix.n + f->host.n);
	f->upgrade = view_of(all.p + all.n - parts[8].n - r->upgrade.n, r->upgrade.n);
	f->method = r->method;
	f->wants_interim = r->wants_interim;
	f->fresh_only = r->upgrade.n > 0; /* it may never come back */
	f->request_framing = r->body;
	f->request_left = r->body == FRAMING_LENGTH ? r->body_bytes : 0;
	f->request_given = r->body == FRAMING_NONE || (r->body == FRAMING_LENGTH && r->body_bytes == 0);
	return 0;
}

static struct view framing_line(const struct fetch_request *r, char *line, size_t line_bytes)
{
	if (r->body == FRAMING_CHUNKED)
		return VIEW("Transfer-Encoding: chunked\r\n");
	if (r->body != FRAMING_LENGTH)
		return view_of(line, 0);
	int n = snprintf(line, line_bytes, "Content-Length: %" PRIu64 "\r\n", r->body_bytes);
	return view_of(line, (size_t)n);
}

/* One string of all parts; p is NULL where the arena is exhausted. */
static struct view join(struct arena *a, const struct view *parts, size_t count)
{
	size_t bytes = 0, at = 0;

	for (size_t i = 0; i < count; i++)
		bytes += parts[i].n;
	char *p = arena_alloc(a, bytes);
	if (p == NULL)
		return (struct view){ 0 };
	for (size_t i = 0; i < count; i++) {
		if (parts[i].n > 0)
			memcpy(p + at, parts[i].p, parts[i].n);
		at += parts[i].n;
	}
	return view_of(p, bytes);
}

/* A wake that was posted before it was over. */
static enum step_result step_over(struct machine *m)
{
	(void)m;
	return STEP_PARK;
}

static void let_go(struct fetch *f, enum fetch_state state)
{
	fetch_close_connection(f);
	pool_leave(f->pool, &f->waiter);
	pool_buffer_give(f->pool, &f->in);
	pool_buffer_give(f->pool, &f->out);
	machine_no_deadline(&f->machine);
	f->machine.step = FETCH_STEP_OVER;
	f->ended_us = clock_mono_us();
	f->state = state;
}
