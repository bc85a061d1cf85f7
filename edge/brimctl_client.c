/*
 * The answers come from our own node, with Content-Length; yet whoever can create a socket there may answer
 * anything, so the head goes through the strict parser and sizes have limits.
 */
#include "edge/brimctl_client.h"

#include <errno.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "edge/base/sock.h"
#include "edge/http/head.h"

enum { ANSWER_MAX = 256 << 20, HEAD_MAX = 32 << 10, FIELDS = 64, TIMEOUT_S = 60 };

struct client {
	int fd;
	char *fault;
	char *bytes; /* what was received */
	size_t filled, capacity;
};

static int fail(char *fault, const char *format, ...) PRINTF_LIKE(2, 3);

static int fail(char *fault, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(fault, CLIENT_FAULT_BYTES, format, args);
	va_end(args);
	return -1;
}

/* --- connecting ----------------------------------------------------------------------------------- */

static int not_allowed(char *fault, const char *path)
{
	struct group group, *found = NULL;
	char names[4096];
	struct stat st;

	if (stat(path, &st) != 0 || getgrgid_r(st.st_gid, &group, names, sizeof(names), &found) != 0)
		found = NULL;
	return fail(fault, "not allowed to use %s: run as root or as a member of %s%s", path,
		    found != NULL ? "group " : "the socket's group",
		    found != NULL ? found->gr_name : "");
}

static int explain(char *fault, const char *path, int error)
{
	switch (error) {
	case ENOENT:
		return fail(fault, "no socket at %s: is the node running? (-s ADDRESS or $BRIM_ADMIN name another)",
			    path);
	case ECONNREFUSED:
		return fail(fault, "nobody listens on %s: is the node running?", path);
	case EACCES:
	case EPERM:
		return not_allowed(fault, path);
	default:
		return fail(fault, "can't connect to %s: %s", path, strerror(error));
	}
}

static int dial(struct client *c, const char *address)
{
	const struct timeval timeout = { .tv_sec = TIMEOUT_S };
	struct sock_addr a;

	if (sock_addr_parse(view_str(address), &a) != 0 || a.any.sa_family != AF_UNIX)
		return fail(c->fault, "\"%s\" is not the address of an admin socket: wants unix:/PATH",
			    address);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return fail(c->fault, "no socket: %s", strerror(errno));
	(void)setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	(void)setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	if (connect(c->fd, &a.any, a.len) != 0)
		return explain(c->fault, a.local.sun_path, errno);
	return 0;
}

/* --- talking -------------------------------------------------------------------------------------- */

/* A node that refuses may close before it has read all; its answer is there all the same. */
static int send_all(struct client *c, struct view v)
{
	while (v.n > 0) {
		ssize_t n = send(c->fd, v.p, v.n, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EPIPE)
			return 0;
		if (n < 0)
			return fail(c->fault, "can't send: %s", strerror(errno));
		v = view_skip(v, (size_t)n);
	}
	return 0;
}

static int send_request(struct client *c, const char *method, const char *path, struct view body)
{
	char *head = NULL;
	int n, r;

	if (body.n == 0)
		n = asprintf(&head, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
			     method, path);
	else
		n = asprintf(&head,
			     "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
			     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
			     method, path, body.n);
	if (n < 0)
		return fail(c->fault, "no memory");
	r = send_all(c, view_of(head, (size_t)n));
	free(head);
	return r != 0 ? r : send_all(c, body);
}

/* Room for n bytes in all, and a NUL. */
static int reserve(struct client *c, size_t n)
{
	char *bytes;

	if (n > ANSWER_MAX)
		return fail(c->fault, "the answer is too large");
	if (n < c->capacity)
		return 0;
	bytes = realloc(c->bytes, n + 1);
	if (bytes == NULL)
		return fail(c->fault, "no memory");
	c->bytes = bytes;
	c->capacity = n + 1;
	return 0;
}

static int receive(struct client *c, size_t until)
{
	ssize_t n;

	do {
		n = recv(c->fd, c->bytes + c->filled, until - c->filled, 0);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		c->filled += (size_t)n;
		return 0;
	}
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return fail(c->fault, "no answer within %d s", TIMEOUT_S);
	return fail(c->fault, "the node closed the connection before its answer was whole");
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
				return fail(c->fault, "the answer is not HTTP: %s",
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
		return fail(c->fault, "the answer has no length");
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

int client_call(const char *address, const char *method, const char *path, struct view body,
		struct client_answer *out, char out_fault[CLIENT_FAULT_BYTES])
{
	struct client c = { .fd = -1, .fault = out_fault };
	int r = dial(&c, address);

	if (r == 0)
		r = send_request(&c, method, path, body);
	if (r == 0)
		r = receive_answer(&c, out);
	if (c.fd >= 0)
		close(c.fd);
	free(c.bytes);
	return r;
}
