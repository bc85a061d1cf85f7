/*
 * One admin connection, as a machine: head, body, the call, its answer, and again.
 *
 * Everything is small and bounded (16 KiB of head, 1 MiB of body), so a request is read whole before its call
 * runs, and an answer is whole in memory before it is sent. Bodies come with Content-Length; a chunked one
 * is 411, since no client of this API needs it. What is wrong with the framing closes the connection.
 */
#include "edge/admin_connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "edge/base/log.h"
#include "edge/base/machine.h"
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
	ANSWER_HEAD = 512,
};

struct admin_connection {
	uint32_t magic;
	int fd;
	struct machine m;
	struct admin *admin;
	struct list link;

	/* Of the request: bytes[0..filled), of which head_bytes are its head. */
	char bytes[HEAD_BYTES];
	size_t filled;
	struct http_field fields[FIELDS];
	struct http_request rq;
	struct http_scan scan;
	char *body;
	size_t body_filled;
	bool keep_alive, call_begun;
	struct admin_call call;
	admin_call_fn *run;

	char head[ANSWER_HEAD];
	size_t head_bytes, sent, to_send;
};

static enum step_result step_head(struct machine *m);
static enum step_result step_body(struct machine *m);
static enum step_result step_call(struct machine *m);
static enum step_result step_answer(struct machine *m);

enum { STEP_HEAD, STEP_BODY, STEP_CALL, STEP_ANSWER };
static const struct step steps[] = {
	[STEP_HEAD] = { "head", step_head },	   /* IDLE_MS, then HEAD_MS */
	[STEP_BODY] = { "body", step_body },	   /* BODY_MS */
	[STEP_CALL] = { "call", step_call },	   /* none: purges and reloads end by themselves */
	[STEP_ANSWER] = { "answer", step_answer }, /* SEND_MS */
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
	c->call = (struct admin_call){ .admin = c->admin };
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
	if (c->call.drop != NULL)
		c->call.drop(&c->call);
	list_remove(&c->call.link);
	ready_cancel(&c->call.wake);
	arena_fini(&c->call.arena);
	c->body = NULL;
}

/* The next request may already be behind this one. */
static void end_request(struct admin_connection *c)
{
	size_t used = c->scan.head_bytes;

	end_call(c);
	memmove(c->bytes, c->bytes + used, c->filled - used);
	c->filled -= used;
	c->scan = (struct http_scan){ 0 };
	c->body_filled = 0;
}

static enum step_result answer(struct admin_connection *c)
{
	struct admin_call *call = &c->call;
	bool no_body = call->method == METHOD_HEAD;
	int n = snprintf(c->head, sizeof(c->head),
			 "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
			 "Cache-Control: no-store\r\n%s%s%s%s\r\n",
			 call->status, reason_phrase(call->status), call->type, call->answer.n,
			 call->allow != NULL ? "Allow: " : "",
			 call->allow != NULL ? call->allow : "", call->allow != NULL ? "\r\n" : "",
			 c->keep_alive ? "" : "Connection: close\r\n");

	CHECK(n > 0 && (size_t)n < sizeof(c->head));
	c->head_bytes = (size_t)n;
	c->sent = 0;
	c->to_send = c->head_bytes + (no_body ? 0 : call->answer.n);
	machine_deadline(&c->m, SEND_MS);
	return machine_goto(&c->m, STEP_ANSWER);
}

static enum step_result refuse(struct admin_connection *c, uint16_t status, const char *why)
{
	c->keep_alive = false;
	(void)admin_error(&c->call, status, "", "%s", why);
	return answer(c);
}

/* --- reading ---------------------------------------------------------------------------------- */

static int receive(struct admin_connection *c, char *to, size_t room, size_t *filled)
{
	ssize_t n = recv(c->fd, to, room, 0);

	if (n > 0) {
		*filled += (size_t)n;
		return 0;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	return -ECONNRESET;
}

static void begin_body(struct admin_connection *c)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	size_t have = c->filled - c->scan.head_bytes;

	if (have > c->rq.length)
		have = c->rq.length;
	memcpy(c->body, c->bytes + c->scan.head_bytes, have);
	c->body_filled = have;
	c->scan.head_bytes += (uint32_t)have;
	if (c->rq.expect_continue && have < c->rq.length)
		(void)send(c->fd, go_on, sizeof(go_on) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	machine_deadline(&c->m, BODY_MS);
}

static enum step_result head_done(struct admin_connection *c)
{
	const char *mark;
	struct admin_call *call = &c->call;

	begin_call(c);
	c->keep_alive = c->rq.keep_alive;
	call->method = c->rq.method;
	mark = memchr(c->rq.path.p, '?', c->rq.path.n);
	call->path = view_of(c->rq.path.p, mark != NULL ? (size_t)(mark - c->rq.path.p) : c->rq.path.n);
	if (mark != NULL)
		call->query = view_skip(c->rq.path, call->path.n + 1);
	if (c->rq.framing == FRAMING_CHUNKED)
		return refuse(c, 411, "a body needs a Content-Length");
	if (c->rq.framing == FRAMING_LENGTH && c->rq.length > ADMIN_BODY_MAX)
		return refuse(c, 413, "a body has at most 1 MiB");
	if (c->rq.framing == FRAMING_NONE)
		c->rq.length = 0;
	c->body = arena_alloc(&call->arena, c->rq.length + 1);
	if (c->body == NULL)
		return refuse(c, 503, "no memory");
	begin_body(c);
	return machine_goto(&c->m, STEP_BODY);
}

static enum step_result head_bad(struct admin_connection *c)
{
	begin_call(c);
	c->scan.head_bytes = (uint32_t)c->filled;
	return refuse(c, http_fault_status(c->scan.fault), http_fault_text(c->scan.fault));
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
			return STEP_READ;
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
		int r = receive(c, c->body + c->body_filled, c->rq.length - c->body_filled,
				&c->body_filled);

		if (r == -EAGAIN)
			return STEP_READ;
		if (r != 0)
			return STEP_DONE;
	}
	c->call.body = view_of(c->body, c->body_filled);
	c->run = admin_route(c->call.method, c->call.path, &c->call.allow);
	machine_no_deadline(m);
	return machine_goto(m, STEP_CALL);
}

static enum step_result step_call(struct machine *m)
{
	struct admin_connection *c = of(m);

	if (m->broken)
		return STEP_DONE;
	return c->run(&c->call) == ADMIN_WAIT ? STEP_PARK : answer(c);
}

/* --- writing ----------------------------------------------------------------------------------- */

static ssize_t send_some(struct admin_connection *c)
{
	struct iovec iov[2];
	size_t in_head = c->sent < c->head_bytes ? c->sent : c->head_bytes;
	size_t in_body = c->sent - in_head, body_bytes = c->to_send - c->head_bytes;
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };

	iov[0] = (struct iovec){ c->head + in_head, c->head_bytes - in_head };
	iov[1] = (struct iovec){ (char *)c->call.answer.p + in_body, body_bytes - in_body };
	return sendmsg(c->fd, &message, MSG_NOSIGNAL);
}

static enum step_result step_answer(struct machine *m)
{
	struct admin_connection *c = of(m);

	if (m->broken || m->timed_out)
		return STEP_DONE;
	while (c->sent < c->to_send) {
		ssize_t n = send_some(c);

		if (n < 0 && errno == EAGAIN)
			return STEP_WRITE;
		if (n < 0 && errno != EINTR)
			return STEP_DONE;
		c->sent += n > 0 ? (size_t)n : 0;
	}
	if (!c->keep_alive)
		return STEP_DONE;
	end_request(c);
	machine_deadline(m, c->filled > 0 ? HEAD_MS : IDLE_MS);
	return machine_goto(m, STEP_HEAD);
}

/* --- life ------------------------------------------------------------------------------------- */

static void connection_end(struct machine *m)
{
	struct admin_connection *c = of(m);

	end_call(c);
	close(c->fd);
	list_remove(&c->link);
	c->admin->connection_count--;
	c->magic = 0;
	free(c);
}

void admin_connection_open(struct admin *a, int fd)
{
	struct admin_connection *c = calloc(1, sizeof(*c));

	if (c == NULL || machine_init(&c->m, a->loop, fd, steps, connection_end) != 0) {
		log_error("admin_connection_failed", "error=%d", ENOMEM);
		free(c);
		close(fd);
		return;
	}
	c->magic = ADMIN_CONNECTION_MAGIC;
	c->fd = fd;
	c->admin = a;
	list_append(&a->connections, &c->link);
	a->connection_count++;
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
