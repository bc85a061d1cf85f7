/*
 * SO_REUSEPORT lets a second node of the same user share the address in silence, and each would get half
 * of the connections. So the address is first bound without it: that fails if anyone else listens there.
 *
 * Port 0 is allowed: what the kernel gave to the first slot is what the others bind.
 */
#include "edge/listen.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/fault.h"

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void listen_init(struct listen_sockets *s)
{
	for (unsigned w = 0; w < CONF_WORKERS_MAX; w++) {
		for (unsigned l = 0; l < CONF_LISTENERS_MAX; l++)
			s->workers[w][l] = -1;
	}
	for (unsigned i = 0; i < LISTEN_ADMIN_MAX; i++)
		s->admin[i] = s->metrics[i] = -1;
}

static int fail(struct conf_faults *faults, const char *kind, size_t index,
		const struct sock_addr *a, int error)
{
	char text[SOCK_ADDR_TEXT], pointer[64];

	(void)snprintf(pointer, sizeof(pointer), "%s/%zu", kind, index);
	conf_fault(faults, pointer, "can't listen on %s: %s", sock_addr_text(a, text), strerror(-error));
	return error;
}

static int bind_listener(struct listen_sockets *s, size_t l, const struct sock_addr *configured,
			 unsigned workers)
{
	struct sock_addr a = *configured;
	int probe = sock_listen(&a, 1, false);

	if (probe < 0)
		return probe;
	close(probe);
	for (unsigned w = 0; w < workers; w++) {
		int fd = sock_listen(&a, LISTEN_BACKLOG, true);

		if (fd < 0)
			return fd;
		s->workers[w][l] = fd;
		a.len = sizeof(a.v6);
		if (getsockname(fd, &a.any, &a.len) != 0)
			return -errno;
	}
	return 0;
}

int listen_open_traffic(struct listen_sockets *s, const struct conf *c, struct conf_faults *faults)
{
	for (size_t l = 0; l < c->listener_count; l++) {
		int r = bind_listener(s, l, &c->listeners[l].address, c->workers);

		if (r != 0)
			return fail(faults, "/listeners", l, &c->listeners[l].address, r);
	}
	return 0;
}

/* A Unix socket's mode is the lock, so the file is closed to others from the moment it is there. */
static int bind_admin(const struct sock_addr *a, const struct conf *c, const struct privileges *p)
{
	mode_t before = umask(0177);
	int fd = sock_listen(a, LISTEN_BACKLOG, false);

	umask(before);
	if (fd < 0 || a->any.sa_family != AF_UNIX)
		return fd;
	if ((p->drop && chown(a->local.sun_path, p->uid, p->gid) != 0) ||
	    chmod(a->local.sun_path, c->admin_socket_mode) != 0) {
		int error = -errno;

		close(fd);
		return error;
	}
	return fd;
}

static int bind_list(int fds[LISTEN_ADMIN_MAX], const struct conf_list *list, const char *pointer,
		     const struct conf *c, const struct privileges *p, struct conf_faults *faults)
{
	for (size_t i = 0; i < list->count; i++) {
		struct sock_addr a;
		int fd = sock_addr_parse(list->at[i], &a);

		if (fd == 0)
			fd = i < LISTEN_ADMIN_MAX ? bind_admin(&a, c, p) : -E2BIG;
		if (fd < 0)
			return fail(faults, pointer, i, &a, fd);
		fds[i] = fd;
	}
	return 0;
}

int listen_open_admin(struct listen_sockets *s, const struct conf *c, const struct privileges *p,
		      struct conf_faults *faults)
{
	int r = bind_list(s->admin, &c->admin_listen, "/admin/listen", c, p, faults);

	if (r != 0)
		return r;
	return bind_list(s->metrics, &c->metrics_listen, "/admin/metrics_listen", c, p, faults);
}

void listen_close_traffic(struct listen_sockets *s, int keep)
{
	for (int w = 0; w < CONF_WORKERS_MAX; w++) {
		for (unsigned l = 0; w != keep && l < CONF_LISTENERS_MAX; l++)
			close_fd(&s->workers[w][l]);
	}
}

void listen_close_admin(struct listen_sockets *s)
{
	for (unsigned i = 0; i < LISTEN_ADMIN_MAX; i++) {
		close_fd(&s->admin[i]);
		close_fd(&s->metrics[i]);
	}
}

static void remove_list(const int fds[LISTEN_ADMIN_MAX], const struct conf_list *list)
{
	for (size_t i = 0; i < LISTEN_ADMIN_MAX && i < list->count; i++) {
		struct sock_addr a;

		if (fds[i] >= 0 && sock_addr_parse(list->at[i], &a) == 0 && a.any.sa_family == AF_UNIX)
			(void)unlink(a.local.sun_path);
	}
}

void listen_remove_admin(const struct listen_sockets *s, const struct conf *c)
{
	remove_list(s->admin, &c->admin_listen);
	remove_list(s->metrics, &c->metrics_listen);
}
