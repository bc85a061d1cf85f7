/*
 * The answers come from our own node, with Content-Length; yet whoever can create a socket there may answer
 * anything, so the head goes through the strict parser and sizes have limits.
 */
#include "edge/brimctl_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "edge/brimctl_dial.h"
#include "edge/http/head.h"

enum { ANSWER_MAX = 256 << 20, HEAD_MAX = 32 << 10, FIELDS = 64 };

struct client {
	struct dialled to;
	char *fault;
	char *bytes; /* what was received */
	size_t filled, capacity;
	bool changes; /* the call does: without an answer nobody knows whether it did */
};

int client_read_token(const char *file, char out[CLIENT_TOKEN_MAX + 1],
		      char out_fault[CLIENT_FAULT_BYTES])
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, CLIENT_TOKEN_MAX + 1);
	int error = errno;

	if (fd >= 0)
		close(fd);
	if (n < 0)
		return dial_fail(out_fault, "can't read the token of %s: %s", file, strerror(error));
	while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == '\r'))
		n--;
	if (n == 0 || n > CLIENT_TOKEN_MAX)
		return dial_fail(out_fault, "%s does not hold a token", file);
	for (ssize_t i = 0; i < n; i++) {
		if (out[i] <= ' ' || out[i] > '~')
			return dial_fail(out_fault,
					 "%s does not hold a token: it has one line without blanks",
					 file);
	}
	out[n] = '\0';
	return 0;
}

/* --- talking -------------------------------------------------------------------------------------- */

/* A node that refuses may close before it has read all; its answer is there all the same. */
static int send_all(struct client *c, struct view v)
{
	struct io *io = c->to.io;

	for (;;) {
		const struct iovec rest = { (char *)v.p, v.n };
		int64_t n = v.n > 0 && !io->holds ? io->ops->write(io, &rest, 1, false)
						  : io->ops->flush(io);

		if (n == -EAGAIN) {
			if (!dial_wait(&c->to))
				return dial_fail(c->fault, "the node took nothing within %d s",
						 DIAL_TIMEOUT_S);
			continue;
		}
		if (n == -EPIPE || n == -ECONNRESET)
			return 0;
		if (n < 0)
			return dial_fail(c->fault, "can't send: %s", strerror((int)-n));
		if (n == 0 && v.n == 0)
			return 0;
		v = view_skip(v, (size_t)n);
	}
}

static int send_request(struct client *c, const char *token, const char *method, const char *path,
			struct view body)
{
	char *head = NULL, type[96] = "";
	int n, r;

	if (body.n > 0)
		(void)snprintf(type, sizeof(type),
			       "Content-Type: application/json\r\nContent-Length: %zu\r\n", body.n);
	n = asprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s%s%s%s\r\n",
		     method, path, c->to.host, token != NULL ? "Authorization: Bearer " : "",
		     token != NULL ? token : "", token != NULL ? "\r\n" : "", type);
	if (n < 0)
		return dial_fail(c->fault, "no memory");
	r = send_all(c, view_of(head, (size_t)n));
	free(head);
	return r != 0 ? r : send_all(c, body);
}

/* Room for n bytes in all, and a NUL. */
static int reserve(struct client *c, size_t n)
{
	char *bytes;

	if (n > ANSWER_MAX)
		return dial_fail(c->fault, "the answer is too large");
	if (n < c->capacity)
		return 0;
	bytes = realloc(c->bytes, n + 1);
	if (bytes == NULL)
		return dial_fail(c->fault, "no memory");
	c->bytes = bytes;
	c->capacity = n + 1;
	return 0;
}

static const char *left_open(const struct client *c)
{
	return c->changes ? ": it may or may not be done; ask again" : "";
}

static int receive(struct client *c, size_t until)
{
	struct io *io = c->to.io;
	int64_t n;

	while ((n = io->ops->read(io, c->bytes + c->filled, until - c->filled)) == -EAGAIN) {
		if (!dial_wait(&c->to))
			return dial_fail(c->fault, "no answer within %d s%s", DIAL_TIMEOUT_S,
					 left_open(c));
	}
	if (n <= 0)
		return dial_fail(c->fault,
				 "the node closed the connection before its answer was whole%s%s",
				 left_open(c),
				 io == &c->to.plain && strcmp(c->to.host, "localhost") != 0
					 ? " (does it want https://?)"
					 : "");
	c->filled += (size_t)n;
	return 0;
}

static int receive_head(struct client *c, struct http_response *response, size_t *out_head_bytes)
{
	const struct http_limits limits = { .head_bytes = HEAD_MAX, .fields = FIELDS };
	struct http_scan scan = { 0 };

	for (;;) {
		if (c->filled > 0) {
			enum http_parse p = http_response_parse(response, &scan, c->bytes,
								c->filled, METHOD_GET, &limits);

			if (p == PARSE_BAD)
				return dial_fail(c->fault, "the answer is not HTTP: %s",
						 http_fault_text(scan.fault));
			if (p == PARSE_DONE) {
				*out_head_bytes = scan.head_bytes;
				return 0;
			}
		}
		if (receive(c, HEAD_MAX) != 0)
			return -1;
	}
}

static int receive_answer(struct client *c, struct client_answer *out)
{
	struct http_field at[FIELDS];
	struct http_response response = { .fields = { .at = at, .capacity = FIELDS } };
	size_t head_bytes = 0, end;

	if (reserve(c, HEAD_MAX) != 0 || receive_head(c, &response, &head_bytes) != 0)
		return -1;
	if (response.framing != FRAMING_LENGTH || response.length > ANSWER_MAX)
		return dial_fail(c->fault, "the answer has no length");
	end = head_bytes + response.length;
	if (reserve(c, end) != 0)
		return -1;
	while (c->filled < end) {
		if (receive(c, end) != 0)
			return -1;
	}
	memmove(c->bytes, c->bytes + head_bytes, response.length);
	c->bytes[response.length] = '\0';
	*out = (struct client_answer){ response.status, c->bytes, response.length };
	c->bytes = NULL;
	return 0;
}

int client_call(const struct client_target *target, const char *method, const char *path,
		struct view body, struct client_answer *out, char out_fault[CLIENT_FAULT_BYTES])
{
	struct client c = { .fault = out_fault, .changes = strcmp(method, "GET") != 0 };
	int r = dial_open(target, &c.to, out_fault);

	if (r != 0)
		return r;
	r = send_request(&c, target->token, method, path, body);
	if (r == 0)
		r = receive_answer(&c, out);
	dial_close(&c.to);
	free(c.bytes);
	return r;
}
