/*
 * One admin connection, as a machine: head, body, the call, its answer, and again.
 *
 * Everything is small and bounded, so a request is read whole before its call runs, and an answer is whole in memory
 * before it is sent. Whether the call is allowed at all is decided when its head is there: only those who may
 * make us keep bodies. Bodies come with Content-Length; a chunked one is 411, since no client of this API needs
 * it. What is wrong with the framing closes the connection.
 */
#include "edge/admin_connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "edge/admin_audit.h"
#include "edge/base/io.h"
#include "edge/base/log.h"
#include "edge/base/machine.h"
#include "edge/base/tls.h"
#include "edge/http/head.h"
#include "edge/reason.h"

enum {
	ADMIN_CONNECTION_MAGIC = 0x61646d63,
	HEAD_BYTES = 16 << 10,
	FIELDS = 64,
	HEAD_MS = 5000,
	BODY_MS = 10000,
	SEND_MS = 30000,
	IDLE_MS = 60000,
	LINGER_MS = 2000,
	LINGER_BYTES = 8 << 20,
	ANSWER_HEAD = 1024,
	BODY_FIRST = 64 << 10,
};

struct admin_connection {
	uint32_t magic;
	struct io plain, *io; /* io: plain, or TLS over its descriptor */
	struct machine m;
	struct admin *admin;
	struct admin_peer peer;
	struct list link;

	/* Of the request: bytes[0..filled), of which head_bytes are its head. */
	char bytes[HEAD_BYTES];
	size_t filled;
	struct http_field fields[FIELDS];
	struct http_request rq;
	struct http_scan scan;
	char *body; /* grows as it comes, so that a length alone costs nothing */
	size_t body_filled, body_capacity;
	bool keep_alive, call_begun;
	bool unread; /* more of this request may come, and nobody reads it */
	size_t lingered;
	bool runs; /* the call may have begun what it was asked for */
	struct admin_call call;

	char head[ANSWER_HEAD];
	size_t head_bytes, sent, to_send;
};

static enum step_result step_tls(struct machine *m);
static enum step_result step_head(struct machine *m);
static enum step_result step_body(struct machine *m);
static enum step_result step_call(struct machine *m);
static enum step_result step_answer(struct machine *m);
static enum step_result step_linger(struct machine *m);

enum { STEP_TLS, STEP_HEAD, STEP_BODY, STEP_CALL, STEP_ANSWER, STEP_LINGER };
static const struct step steps[] = {
	[STEP_TLS] = { "tls", step_tls },	   /* HEAD_MS; nothing to do on a plain socket */
	[STEP_HEAD] = { "head", step_head },	   /* IDLE_MS, then HEAD_MS */
	[STEP_BODY] = { "body", step_body },	   /* BODY_MS */
	[STEP_CALL] = { "call", step_call },	   /* none: purges and reloads end by themselves */
	[STEP_ANSWER] = { "answer", step_answer }, /* SEND_MS */
	[STEP_LINGER] = { "linger", step_linger }, /* LINGER_MS */
};

static struct admin_connection *of(struct machine *m)
{
	struct admin_connection *c = CONTAINER_OF(m, struct admin_connection, m);

	CHECK_MAGIC(c, ADMIN_CONNECTION_MAGIC);
	return c;
}

/* --- a call's life ----------------------------------------------------------------------------- */

static void on_wake(struct ready *r)
{
	struct admin_connection *c = CONTAINER_OF(r, struct admin_connection, call.wake);

	machine_wake(&c->m);
}

static void begin_call(struct admin_connection *c)
{
	c->call = (struct admin_call){ .admin = c->admin,
				       .conf = conf_ref(c->admin->conf),
				       .peer = &c->peer };
	arena_init(&c->call.arena, ADMIN_ARENA_MAX);
	ready_init(&c->call.wake, c->admin->loop, on_wake);
	list_init(&c->call.link);
	c->call_begun = true;
}

static void end_call(struct admin_connection *c)
{
	if (!c->call_begun)
		return;
	c->call_begun = false;
	if (c->runs && c->call.route->changes)
		admin_audit_left(&c->call);
	c->runs = false;
	if (c->call.drop != NULL)
		c->call.drop(&c->call);
	list_remove(&c->call.link);
	ready_cancel(&c->call.wake);
	arena_fini(&c->call.arena);
	conf_unref(c->call.conf);
	free(c->body);
	c->body = NULL;
	c->body_filled = c->body_capacity = 0;
}

/* The next request may already be behind this one. */
static void end_request(struct admin_connection *c)
{
	size_t used = c->scan.head_bytes;

	end_call(c);
	memmove(c->bytes, c->bytes + used, c->filled - used);
	c->filled -= used;
	c->scan = (struct http_scan){ 0 };
}

static const char *allowed(const struct admin_call *call)
{
	return call->route->method == METHOD_GET ? "Allow: GET, HEAD\r\n" : "Allow: POST\r\n";
}

static enum step_result answer(struct admin_connection *c)
{
	struct admin_call *call = &c->call;
	bool no_body = call->method == METHOD_HEAD;
	int n = snprintf(c->head, sizeof(c->head),
			 "HTTP/1.1 %u %.*s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
			 "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s%s%s\r\n",
			 call->status, VIEW_ARG(reason_phrase(call->status)), call->type,
			 call->answer.n, call->status == 405 ? allowed(call) : "",
			 call->headers != NULL ? call->headers : "",
			 c->keep_alive ? "" : "Connection: close\r\n");

	CHECK(n > 0 && (size_t)n < sizeof(c->head));
	c->head_bytes = (size_t)n;
	c->sent = 0;
	c->to_send = c->head_bytes + (no_body ? 0 : call->answer.n);
	machine_deadline(&c->m, SEND_MS);
	return machine_goto(&c->m, STEP_ANSWER);
}

/* The call is not made. What comes of its body is in the way of the next request. */
static enum step_result refuse(struct admin_connection *c, uint16_t status, const char *why)
{
	if (c->rq.framing != FRAMING_NONE) {
		c->keep_alive = false;
		c->unread = true;
	}
	(void)admin_error(&c->call, status, "", "%s", why);
	return answer(c);
}

/* --- reading ---------------------------------------------------------------------------------- */

static int receive(struct admin_connection *c, char *to, size_t room, size_t *filled)
{
	int64_t n = c->io->ops->read(c->io, to, room);

	if (n > 0) {
		*filled += (size_t)n;
		return 0;
	}
	return n == -EAGAIN ? -EAGAIN : -ECONNRESET;
}

/* The stream said -EAGAIN. */
static enum step_result wait_for(const struct io *io)
{
	if (io->wait == (WATCH_READ | WATCH_WRITE))
		return STEP_BOTH;
	return io->wait == WATCH_WRITE ? STEP_WRITE : STEP_READ;
}

/* Room for what may come next: twice what is there, at most the whole body. */
static bool reserve(struct admin_connection *c)
{
	size_t n = c->body_capacity > 0 ? 2 * c->body_capacity : BODY_FIRST;
	char *more;

	if (c->body_filled < c->body_capacity || c->body_filled == c->rq.length)
		return true;
	n = n < c->rq.length ? n : c->rq.length;
	more = realloc(c->body, n);
	if (more == NULL)
		return false;
	c->body = more;
	c->body_capacity = n;
	return true;
}

static enum step_result begin_body(struct admin_connection *c)
{
	static char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	const struct iovec line = { go_on, sizeof(go_on) - 1 };
	size_t have = c->filled - c->scan.head_bytes;

	if (have > c->rq.length)
		have = c->rq.length;
	if (!reserve(c)) /* BODY_FIRST is more than a head's buffer can hold of it */
		return refuse(c, 503, "no memory");
	if (have > 0)
		memcpy(c->body, c->bytes + c->scan.head_bytes, have);
	c->body_filled = have;
	c->scan.head_bytes += (uint32_t)have;
	if (c->rq.expect_continue && have < c->rq.length)
		(void)c->io->ops->write(c->io, &line, 1, false); /* at worst the client waits for nothing */
	machine_deadline(&c->m, BODY_MS);
	return machine_goto(&c->m, STEP_BODY);
}

static enum step_result refuse_access(struct admin_connection *c, struct admin_refusal r)
{
	c->call.headers = r.status == 401 ? "WWW-Authenticate: Bearer realm=\"brim\"\r\n" : NULL;
	(void)refuse(c, r.status, r.why);
	admin_audit_refused(&c->call);
	return STEP_NEXT;
}

static void take_path(struct admin_connection *c)
{
	struct admin_call *call = &c->call;
	uint16_t at = 0;
	const struct http_field *accept = http_fields_find(&c->rq.fields, VIEW("Accept"), &at);
	const char *mark = memchr(c->rq.path.p, '?', c->rq.path.n);

	call->path = view_of(c->rq.path.p, mark != NULL ? (size_t)(mark - c->rq.path.p) : c->rq.path.n);
	if (mark != NULL)
		call->query = view_skip(c->rq.path, call->path.n + 1);
	if (accept != NULL)
		call->accept = accept->value;
	call->route = admin_route(call->path, &call->rest);
	if (call->route != NULL && c->peer.door == ADMIN_DOOR_METRICS && !call->route->for_metrics)
		call->route = NULL;
}

static enum step_result check_body(struct admin_connection *c)
{
	const struct admin_route *route = c->call.route;

	if (c->rq.framing == FRAMING_NONE)
		c->rq.length = 0;
	if (c->rq.framing == FRAMING_CHUNKED)
		return refuse(c, 411, "a body needs a Content-Length");
	if (c->rq.length > 0 && route->body_bytes_max == 0)
		return refuse(c, 400, "takes no body");
	if (c->rq.length > route->body_bytes_max)
		return refuse(c, 413, "the body is too large: at most 4 MiB");
	return begin_body(c);
}

static enum step_result head_done(struct admin_connection *c)
{
	struct admin_call *call = &c->call;
	struct admin_refusal r;

	begin_call(c);
	c->keep_alive = c->rq.keep_alive;
	call->method = c->rq.method;
	take_path(c);
	r = admin_access_host(call->conf, &c->rq);
	if (r.status != 0)
		return refuse_access(c, r);
	if (call->route == NULL)
		return refuse(c, 404, "no such path");
	if (!admin_route_takes(call->route, call->method))
		return refuse(c, 405, "this path takes another method");
	if (c->peer.door == ADMIN_DOOR_TCP)
		call->token = admin_access_token(call->conf, &c->rq);
	r = admin_access_check(c->peer.door, call->token, call->route->need);
	if (r.status != 0)
		return refuse_access(c, r);
	if (!admin_query_known(call)) {
		c->unread = c->rq.framing != FRAMING_NONE;
		c->keep_alive = c->keep_alive && !c->unread;
		return answer(c);
	}
	return check_body(c);
}

static enum step_result head_bad(struct admin_connection *c)
{
	begin_call(c);
	c->keep_alive = false;
	c->unread = true;
	c->scan.head_bytes = (uint32_t)c->filled;
	return refuse(c, http_fault_status(c->scan.fault), http_fault_text(c->scan.fault));
}

static enum step_result step_tls(struct machine *m)
{
	struct admin_connection *c = of(m);
	int r = c->io == &c->plain ? 0 : tls_handshake(c->io);

	if (m->broken || m->timed_out || (r != 0 && r != -EAGAIN)) {
		log_debug("admin_handshake_failed", "from=%s fault=%s", c->peer.text,
			  r != 0 && r != -EAGAIN ? tls_fault(c->io) : "late");
		return STEP_DONE;
	}
	if (r == -EAGAIN)
		return wait_for(c->io);
	machine_deadline(m, HEAD_MS);
	return machine_goto(m, STEP_HEAD);
}

static enum step_result step_head(struct machine *m)
{
	const struct http_limits limits = { .head_bytes = HEAD_BYTES, .fields = FIELDS };
	struct admin_connection *c = of(m);

	if (m->broken || m->timed_out)
		return STEP_DONE;
	for (;;) {
		c->rq = (struct http_request){ .fields = { .at = c->fields, .capacity = FIELDS } };
		switch (c->filled == 0
				? PARSE_MORE
				: http_request_parse(&c->rq, &c->scan, c->bytes, c->filled, &limits)) {
		case PARSE_DONE:
			return head_done(c);
		case PARSE_BAD:
			return head_bad(c);
		case PARSE_MORE:
			break;
		}
		if (c->filled == sizeof(c->bytes))
			return STEP_DONE;
		bool first = c->filled == 0;
		int r = receive(c, c->bytes + c->filled, sizeof(c->bytes) - c->filled, &c->filled);
		if (r == -EAGAIN)
			return wait_for(c->io);
		if (r != 0)
			return STEP_DONE;
		if (first)
			machine_deadline(m, HEAD_MS);
	}
}

static enum step_result step_body(struct machine *m)
{
	struct admin_connection *c = of(m);

	if (m->broken || m->timed_out)
		return STEP_DONE;
	while (c->body_filled < c->rq.length) {
		if (!reserve(c))
			return STEP_DONE;
		int r = receive(c, c->body + c->body_filled, c->body_capacity - c->body_filled,
				&c->body_filled);

		if (r == -EAGAIN)
			return wait_for(c->io);
		if (r != 0)
			return STEP_DONE;
	}
	c->call.body = view_of(c->body, c->body_filled);
	c->runs = true;
	machine_no_deadline(m);
	return machine_goto(m, STEP_CALL);
}

static enum step_result step_call(struct machine *m)
{
	struct admin_connection *c = of(m);

	if (m->broken)
		return STEP_DONE;
	switch (c->call.route->fn(&c->call)) {
	case ADMIN_WAIT:
		return STEP_PARK;
	case ADMIN_YIELD:
		return STEP_YIELD;
	case ADMIN_DONE:
		break;
	}
	c->runs = false;
	if (c->call.route->changes)
		admin_audit_change(&c->call);
	return answer(c);
}

/* --- writing ----------------------------------------------------------------------------------- */

static int64_t send_some(struct admin_connection *c)
{
	struct iovec iov[2];
	size_t in_head = c->sent < c->head_bytes ? c->sent : c->head_bytes;
	size_t in_body = c->sent - in_head, body_bytes = c->to_send - c->head_bytes;

	iov[0] = (struct iovec){ c->head + in_head, c->head_bytes - in_head };
	iov[1] = (struct iovec){ (char *)c->call.answer.p + in_body, body_bytes - in_body };
	return c->io->ops->write(c->io, iov, 2, false);
}

/* What the stream holds goes before more. 0: all is on its way; or what write and flush say. */
static int send_all(struct admin_connection *c)
{
	while (c->sent < c->to_send) {
		int held = c->io->holds ? c->io->ops->flush(c->io) : 0;
		int64_t n = held == 0 ? send_some(c) : held;

		if (n < 0)
			return (int)n;
		c->sent += (size_t)n;
	}
	return c->io->ops->flush(c->io);
}

static enum step_result step_answer(struct machine *m)
{
	struct admin_connection *c = of(m);
	int r = m->broken || m->timed_out ? -ECONNRESET : send_all(c);

	if (r == -EAGAIN)
		return wait_for(c->io);
	if (r != 0)
		return STEP_DONE;
	if (!c->keep_alive || c->io->closing) {
		c->io->ops->end(c->io);
		machine_deadline(m, LINGER_MS);
		return c->unread ? machine_goto(m, STEP_LINGER) : STEP_DONE;
	}
	end_request(c);
	machine_deadline(m, c->filled > 0 ? HEAD_MS : IDLE_MS);
	return machine_goto(m, STEP_HEAD);
}

/* Closing with bytes unread resets the connection, and the answer may be lost with it. */
static enum step_result step_linger(struct machine *m)
{
	struct admin_connection *c = of(m);
	char waste[4096];
	ssize_t n;

	if (m->broken || m->timed_out || c->lingered >= LINGER_BYTES)
		return STEP_DONE;
	n = recv(c->plain.fd, waste, sizeof(waste), MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return STEP_READ;
	c->lingered += n > 0 ? (size_t)n : 0;
	return n > 0 ? STEP_NEXT : STEP_DONE;
}

/* --- life ------------------------------------------------------------------------------------- */

static void connection_end(struct machine *m)
{
	struct admin_connection *c = of(m);

	end_call(c);
	c->io->ops->free(c->io);
	close(c->plain.fd);
	list_remove(&c->link);
	c->admin->connection_count--;
	c->admin->remote_count -= c->peer.door != ADMIN_DOOR_LOCAL;
	c->magic = 0;
	free(c);
}

/* From afar nothing is taken in clear. */
static int open_stream(struct admin_connection *c, int fd)
{
	io_plain_init(&c->plain, fd);
	c->io = &c->plain;
	if (!c->peer.tls)
		return 0;
	return c->admin->tls != NULL ? tls_new(c->admin->tls, fd, &c->io) : -ENOENT;
}

static struct admin_connection *connection_new(struct admin *a, int fd, const struct admin_peer *peer)
{
	struct admin_connection *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->magic = ADMIN_CONNECTION_MAGIC;
	c->admin = a;
	c->peer = *peer;
	if (open_stream(c, fd) != 0) {
		free(c);
		return NULL;
	}
	if (machine_init(&c->m, a->loop, fd, steps, connection_end) != 0) {
		c->io->ops->free(c->io);
		free(c);
		return NULL;
	}
	return c;
}

void admin_connection_open(struct admin *a, int fd, const struct admin_peer *peer)
{
	struct admin_connection *c = connection_new(a, fd, peer);

	if (c == NULL) {
		log_error("admin_connection_failed", "from=%s", peer->text);
		close(fd);
		return;
	}
	list_append(&a->connections, &c->link);
	a->connection_count++;
	a->remote_count += peer->door != ADMIN_DOOR_LOCAL;
	machine_deadline(&c->m, HEAD_MS);
	machine_wake(&c->m);
}

void admin_connections_close(struct admin *a)
{
	LIST_EACH (&a->connections, at, next) {
		struct admin_connection *c = LIST_ENTRY(at, struct admin_connection, link);

		machine_fini(&c->m);
		connection_end(&c->m);
	}
}
