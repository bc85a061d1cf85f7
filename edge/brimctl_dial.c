/*
 * Opening a stream to a node. A token never goes in clear to another machine: a node would not take it either, but then it
 * has been said aloud.
 */
#include "edge/brimctl_dial.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "edge/base/loop.h"
#include "edge/base/sock.h"
#include "edge/base/tls.h"
#include "edge/tls_admin.h"

int dial_fail(char fault[CLIENT_FAULT_BYTES], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(fault, CLIENT_FAULT_BYTES, format, args);
	va_end(args);
	return -1;
}

bool dial_wait(const struct dialled *d)
{
	struct pollfd p = { .fd = d->plain.fd };
	int r;

	p.events = (short)((d->io->wait & WATCH_READ ? POLLIN : 0) |
			   (d->io->wait & WATCH_WRITE ? POLLOUT : 0));
	do {
		r = poll(&p, 1, DIAL_TIMEOUT_S * 1000);
	} while (r < 0 && errno == EINTR);
	return r > 0;
}

void dial_close(struct dialled *d)
{
	if (d->plain.fd < 0)
		return;
	d->io->ops->free(d->io);
	close(d->plain.fd);
	d->plain.fd = -1;
}

/* --- Unix sockets ---------------------------------------------------------------------------------- */

static int not_allowed(char *fault, const char *path)
{
	struct group group, *found = NULL;
	char names[4096];
	struct stat st;

	if (stat(path, &st) != 0 || getgrgid_r(st.st_gid, &group, names, sizeof(names), &found) != 0)
		found = NULL;
	return dial_fail(fault, "not allowed to use %s: run as root or as a member of %s%s", path,
			 found != NULL ? "group " : "the socket's group",
			 found != NULL ? found->gr_name : "");
}

static int explain_local(char *fault, const char *path, int error)
{
	switch (error) {
	case ENOENT:
		return dial_fail(fault, "no socket at %s: is the node running? (-s ADDRESS or $BRIM_ADMIN name another)",
				 path);
	case ECONNREFUSED:
		return dial_fail(fault, "nobody listens on %s: is the node running?", path);
	case EACCES:
	case EPERM:
		return not_allowed(fault, path);
	default:
		return dial_fail(fault, "can't connect to %s: %s", path, strerror(error));
	}
}

static int open_local(const char *address, struct dialled *d, char *fault)
{
	struct sock_addr a;

	if (sock_addr_parse(view_str(address), &a) != 0)
		return dial_fail(fault, "\"%s\" is not the address of a Unix socket: wants unix:/PATH",
				 address);
	d->plain.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (d->plain.fd < 0)
		return dial_fail(fault, "no socket: %s", strerror(errno));
	(void)snprintf(d->host, sizeof(d->host), "localhost");
	if (connect(d->plain.fd, &a.any, a.len) != 0)
		return explain_local(fault, a.local.sun_path, errno);
	return 0;
}

/* --- TCP ---------------------------------------------------------------------------------------------- */

struct remote {
	bool tls;
	char host[256], port[6]; /* host without brackets */
};

/* "[::1]:9000", "host:9000", and with a scheme "host" alone. */
static bool split(const char *text, const char *default_port, struct remote *out)
{
	const char *end = text + strcspn(text, "/"), *host = text, *host_end, *port;

	if (*end != '\0' && end[1] != '\0')
		return false; /* a path means nothing here */
	host_end = *host == '[' ? memchr(host, ']', (size_t)(end - host))
				: memchr(host, ':', (size_t)(end - host));
	if (host_end == NULL && *host == '[')
		return false;
	if (host_end == NULL)
		host_end = end;
	port = *host == '[' ? host_end + 1 : host_end;
	host += *host == '[';
	if (port < end && (*port != ':' || port + 1 == end))
		return false;
	if (port == end && default_port == NULL)
		return false;
	(void)snprintf(out->port, sizeof(out->port), "%.*s", port < end ? (int)(end - port - 1) : 5,
		       port < end ? port + 1 : default_port);
	return host_end > host && (size_t)snprintf(out->host, sizeof(out->host), "%.*s",
						   (int)(host_end - host), host) < sizeof(out->host);
}

static bool parse_remote(const char *address, struct remote *out)
{
	static const char http[] = "http://", https[] = "https://";

	*out = (struct remote){ .tls = strncmp(address, https, sizeof(https) - 1) == 0 };
	if (out->tls)
		return split(address + sizeof(https) - 1, "443", out);
	if (strncmp(address, http, sizeof(http) - 1) == 0)
		return split(address + sizeof(http) - 1, "80", out);
	return split(address, NULL, out);
}

static int connect_any(const struct addrinfo *list, int *out_fd, bool *out_near)
{
	int error = EHOSTUNREACH;

	for (const struct addrinfo *at = list; at != NULL; at = at->ai_next) {
		struct sock_addr a = { .len = at->ai_addrlen };
		int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd >= 0 && at->ai_addrlen <= sizeof(a.v6) &&
		    connect(fd, at->ai_addr, at->ai_addrlen) == 0) {
			memcpy(&a.any, at->ai_addr, at->ai_addrlen);
			*out_fd = fd;
			*out_near = sock_addr_is_loopback(&a);
			return 0;
		}
		error = errno;
		if (fd >= 0)
			close(fd);
	}
	return error;
}

static int connect_remote(const struct remote *r, struct dialled *d, bool *out_near, char *fault)
{
	const struct addrinfo wanted = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list;
	int e = getaddrinfo(r->host, r->port, &wanted, &list);

	if (e != 0)
		return dial_fail(fault, "no address of %s: %s", r->host, gai_strerror(e));
	e = connect_any(list, &d->plain.fd, out_near);
	freeaddrinfo(list);
	if (e == ECONNREFUSED)
		return dial_fail(fault, "nobody listens on %s port %s: is the node running, and the address in admin.listen?",
				 r->host, r->port);
	return e == 0 ? 0
		      : dial_fail(fault, "can't connect to %s port %s: %s", r->host, r->port,
				  strerror(e));
}

static int shake_hands(const struct client_target *target, const struct remote *r,
		       struct dialled *d, char *fault)
{
	const char *why;
	int e;

	if (tls_admin_client(d->plain.fd, r->host, target->ca_file, &d->io, &why) != 0)
		return dial_fail(fault, "no TLS: %s", why);
	while ((e = tls_handshake(d->io)) == -EAGAIN) {
		if (!dial_wait(d))
			return dial_fail(fault, "no TLS with %s within %d s", r->host, DIAL_TIMEOUT_S);
	}
	if (e == 0)
		return 0;
	return dial_fail(fault, "no TLS with %s port %s: %s (--ca-file FILE names whom to trust; http:// is without TLS)",
			 r->host, r->port, tls_admin_client_fault(d->io));
}

static int open_remote(const struct client_target *target, struct dialled *d, char *fault)
{
	struct remote r;
	bool near = false;

	if (!parse_remote(target->address, &r))
		return dial_fail(fault, "\"%s\" is no address of an admin API: wants unix:/PATH, HOST:PORT or https://HOST:PORT",
				 target->address);
	(void)snprintf(d->host, sizeof(d->host), strchr(r.host, ':') != NULL ? "[%s]:%s" : "%s:%s",
		       r.host, r.port);
	if (connect_remote(&r, d, &near, fault) != 0)
		return -1;
	sock_tune(d->plain.fd);
	if (!r.tls && !near && target->token != NULL)
		return dial_fail(fault, "the token would go to %s in clear: use https://", r.host);
	if (fcntl(d->plain.fd, F_SETFL, O_NONBLOCK) != 0)
		return dial_fail(fault, "the socket: %s", strerror(errno));
	return r.tls ? shake_hands(target, &r, d, fault) : 0;
}

int dial_open(const struct client_target *target, struct dialled *out, char fault[CLIENT_FAULT_BYTES])
{
	int r;

	io_plain_init(&out->plain, -1);
	out->io = &out->plain;
	if (strncmp(target->address, "unix:", 5) == 0)
		r = open_local(target->address, out, fault);
	else
		r = open_remote(target, out, fault);
	if (r != 0)
		dial_close(out);
	return r;
}
