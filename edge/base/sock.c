/*
 * Addresses as text and as the kernel's structures, networks to compare them with, and the few
 * ways in which sockets are opened here. Texts are numeric: names are resolved by the keeper.
 *
 * "*:80" is the IPv6 wildcard, which takes IPv4 too; where the kernel has no IPv6 it falls back
 * to the IPv4 wildcard. An IPv4-mapped address (::ffff:1.2.3.4, how IPv4 clients look on that
 * socket) prints and compares as IPv4.
 */
#include "edge/base/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int parse_port(struct view text, uint16_t *out);
static int local_addr(struct view path, struct sock_addr *out);
static int ip_bytes(const struct sock_addr *a, uint8_t out[16], bool *out_v4);
static uint16_t port_of(const struct sock_addr *a);
static int listen_at(const struct sock_addr *a, int backlog, bool reuseport);
static bool stale_local(const struct sock_addr *a);

int sock_addr_parse(struct view text, struct sock_addr *out)
{
	const struct view unix_prefix = VIEW("unix:");
	uint16_t port;

	if (view_starts(text, unix_prefix))
		return local_addr(view_skip(text, unix_prefix.n), out);
	const char *colon = text.n == 0 ? NULL : memrchr(text.p, ':', text.n);
	if (colon == NULL)
		return -EINVAL;
	struct view host = view_of(text.p, (size_t)(colon - text.p));
	if (parse_port(view_skip(text, host.n + 1), &port) != 0)
		return -EINVAL;
	if (view_eq(host, VIEW("*")))
		return sock_addr_literal(VIEW("::"), port, out);
	if (memchr(host.p, ':', host.n) != NULL && host.p[0] != '[')
		return -EINVAL; /* "::1:80" is ambiguous */
	return sock_addr_literal(host, port, out);
}

int sock_addr_literal(struct view host, uint16_t port, struct sock_addr *out)
{
	char text[INET6_ADDRSTRLEN];
	struct sock_addr a = { 0 };

	bool bracketed = host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
	if (bracketed)
		host = view_of(host.p + 1, host.n - 2);
	if (host.n == 0 || host.n >= sizeof(text) || memchr(host.p, '\0', host.n) != NULL)
		return -EINVAL;
	memcpy(text, host.p, host.n);
	text[host.n] = '\0';
	if (!bracketed && inet_pton(AF_INET, text, &a.v4.sin_addr) == 1) {
		a.len = sizeof(a.v4);
		a.v4.sin_family = AF_INET;
		a.v4.sin_port = htons(port);
		*out = a;
		return 0;
	}
	if (inet_pton(AF_INET6, text, &a.v6.sin6_addr) != 1)
		return -EINVAL;
	a.len = sizeof(a.v6);
	a.v6.sin6_family = AF_INET6;
	a.v6.sin6_port = htons(port);
	*out = a;
	return 0;
}

const char *sock_addr_text(const struct sock_addr *a, char out[SOCK_ADDR_TEXT])
{
	char host[SOCK_ADDR_TEXT];

	if (a->any.sa_family == AF_UNIX) {
		(void)snprintf(out, SOCK_ADDR_TEXT, "unix:%.108s", a->local.sun_path);
		return out;
	}
	sock_addr_host(a, host);
	bool v6 = strchr(host, ':') != NULL;
	(void)snprintf(out, SOCK_ADDR_TEXT, "%s%.64s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "",
		       port_of(a));
	return out;
}

const char *sock_addr_host(const struct sock_addr *a, char out[SOCK_ADDR_TEXT])
{
	uint8_t bytes[16];
	bool v4;

	if (ip_bytes(a, bytes, &v4) != 0) {
		(void)snprintf(out, SOCK_ADDR_TEXT, "unix");
		return out;
	}
	CHECK(inet_ntop(v4 ? AF_INET : AF_INET6, bytes, out, SOCK_ADDR_TEXT) != NULL);
	return out;
}

int sock_net_parse(struct view text, struct sock_net *out)
{
	const char *slash = text.n == 0 ? NULL : memchr(text.p, '/', text.n);
	struct view host = slash == NULL ? text : view_of(text.p, (size_t)(slash - text.p));
	struct sock_net net = { 0 };
	struct sock_addr a;

	if (sock_addr_literal(host, 0, &a) != 0 || ip_bytes(&a, net.bytes, &net.v4) != 0)
		return -EINVAL;
	uint16_t most = net.v4 ? 32 : 128, bits = most;
	if (slash != NULL && parse_port(view_skip(text, host.n + 1), &bits) != 0)
		return -EINVAL;
	if (net.v4 && a.any.sa_family == AF_INET6 && slash != NULL) {
		if (bits < 96) /* a mapped address with a mask over the mapping itself */
			return -EINVAL;
		bits = (uint16_t)(bits - 96);
	}
	if (bits > most)
		return -EINVAL;
	net.bits = (uint8_t)bits;
	for (unsigned bit = bits; bit < most; bit++) {
		if (net.bytes[bit / 8] & (0x80 >> bit % 8))
			return -EINVAL;
	}
	*out = net;
	return 0;
}

bool sock_net_holds(const struct sock_net *n, const struct sock_addr *a)
{
	uint8_t bytes[16];
	bool v4;

	if (ip_bytes(a, bytes, &v4) != 0 || v4 != n->v4)
		return false;
	if (memcmp(bytes, n->bytes, n->bits / 8) != 0)
		return false;
	if (n->bits % 8 == 0)
		return true;
	uint8_t mask = (uint8_t)(0xff << (8 - n->bits % 8));
	return ((bytes[n->bits / 8] ^ n->bytes[n->bits / 8]) & mask) == 0;
}

int sock_listen(const struct sock_addr *a, int backlog, bool reuseport)
{
	int fd = listen_at(a, backlog, reuseport);

	if (fd == -EADDRINUSE && stale_local(a)) {
		(void)unlink(a->local.sun_path);
		return listen_at(a, backlog, reuseport);
	}
	bool any_v6 = a->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr);
	if (fd == -EAFNOSUPPORT && any_v6) {
		struct sock_addr v4 = { .len = sizeof(v4.v4),
					.v4 = { .sin_family = AF_INET, .sin_port = a->v6.sin6_port } };
		return listen_at(&v4, backlog, reuseport);
	}
	return fd;
}

int sock_dial(const struct sock_addr *a)
{
	int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (a->any.sa_family != AF_UNIX)
		sock_tune(fd);
	if (connect(fd, &a->any, a->len) != 0 && errno != EINPROGRESS) {
		int error = errno;
		close(fd);
		return -error;
	}
	return fd;
}

int sock_dial_result(int fd)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		return -errno;
	return -error;
}

/* Heads and small bodies leave in one write each: Nagle's delay could only hurt. */
/* A listener that nobody else knows of, and its only connection. */
static int accept_from(int listener, int client)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	if (bind(listener, (struct sockaddr *)&a, len) != 0 || listen(listener, 1) != 0 ||
	    getsockname(listener, (struct sockaddr *)&a, &len) != 0 ||
	    connect(client, (struct sockaddr *)&a, len) != 0)
		return -1;
	return accept4(listener, (struct sockaddr *)&a, &len, SOCK_CLOEXEC);
}

int sock_pair(int out_fds[2])
{
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int server = listener >= 0 && client >= 0 ? accept_from(listener, client) : -1;
	int error = errno;

	if (listener >= 0)
		close(listener);
	if (server < 0) {
		if (client >= 0)
			close(client);
		return -error;
	}
	out_fds[0] = client;
	out_fds[1] = server;
	return 0;
}

void sock_tune(int fd)
{
	int on = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	/* Urgent data as plain data: apart from the stream it would stop splice, and make the socket look readable for ever. */
	(void)setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
}

/* Also a prefix length: a decimal number of 1 to 5 digits up to 65535. */
static int parse_port(struct view text, uint16_t *out)
{
	unsigned value = 0;

	if (text.n == 0 || text.n > 5)
		return -EINVAL;
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] < '0' || text.p[i] > '9')
			return -EINVAL;
		value = value * 10 + (unsigned)(text.p[i] - '0');
	}
	if (value > UINT16_MAX)
		return -EINVAL;
	*out = (uint16_t)value;
	return 0;
}

static int local_addr(struct view path, struct sock_addr *out)
{
	struct sock_addr a = { .local = { .sun_family = AF_UNIX } };

	if (path.n == 0 || path.n >= sizeof(a.local.sun_path) || memchr(path.p, '\0', path.n))
		return -EINVAL;
	memcpy(a.local.sun_path, path.p, path.n);
	a.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.n + 1);
	*out = a;
	return 0;
}

static int ip_bytes(const struct sock_addr *a, uint8_t out[16], bool *out_v4)
{
	if (a->any.sa_family == AF_INET) {
		memcpy(out, &a->v4.sin_addr, 4);
		*out_v4 = true;
		return 0;
	}
	if (a->any.sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	*out_v4 = IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr);
	memcpy(out, a->v6.sin6_addr.s6_addr + (*out_v4 ? 12 : 0), *out_v4 ? 4 : 16);
	return 0;
}

static uint16_t port_of(const struct sock_addr *a)
{
	return ntohs(a->any.sa_family == AF_INET ? a->v4.sin_port : a->v6.sin6_port);
}

static int listen_at(const struct sock_addr *a, int backlog, bool reuseport)
{
	int family = a->any.sa_family, on = 1, off = 0, error;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (family != AF_UNIX) {
		if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
			goto fail;
		if (reuseport && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0)
			goto fail;
		if (family == AF_INET6)
			(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	}
	if (bind(fd, &a->any, a->len) == 0 && listen(fd, backlog) == 0)
		return fd;
fail:
	error = errno;
	close(fd);
	return -error;
}

/* A Unix socket's file whose listener is gone. (A plain file refuses connections too: hence the stat.) */
static bool stale_local(const struct sock_addr *a)
{
	struct stat st;

	if (a->any.sa_family != AF_UNIX || lstat(a->local.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return false;
	int fd = sock_dial(a);
	if (fd >= 0)
		close(fd);
	return fd == -ECONNREFUSED;
}

bool sock_addr_is_loopback(const struct sock_addr *a)
{
	static const struct sock_net loops[] = {
		{ .bytes = { 127 }, .bits = 8, .v4 = true },
		{ .bytes = { [15] = 1 }, .bits = 128 },
	};

	return sock_net_holds(&loops[0], a) || sock_net_holds(&loops[1], a);
}
