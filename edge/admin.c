/*
 * The admin server: it accepts while there is room for connections, and knows what the node is at the
 * moment. It lives in the keeper's loop; nothing in it waits.
 */
#include "edge/admin.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cache/listing.h"
#include "edge/admin_check.h"
#include "edge/admin_connection.h"
#include "edge/base/log.h"
#include "edge/listen.h"
#include "edge/tls_admin.h"

enum {
	ADMIN_MAGIC = 0x61646d69,
	RELOADS_OF_A_KEEPER_BITS = 16, /* a predecessor's reload may end while ours waits, and is older */
};

struct admin_listener {
	struct watch watch;
	struct admin *admin;
	enum admin_door door;
	bool tls;
};

static bool has_room(const struct admin *a, enum admin_door door)
{
	return a->connection_count < ADMIN_CONNECTIONS_MAX &&
	       (door == ADMIN_DOOR_LOCAL || a->remote_count < ADMIN_REMOTE_MAX);
}

static void describe_peer(int fd, const struct sock_addr *from, struct admin_peer *peer)
{
	struct ucred cred = { 0 };
	socklen_t n = sizeof(cred);

	if (from->any.sa_family != AF_UNIX) {
		(void)sock_addr_text(from, peer->text);
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) != 0)
		cred = (struct ucred){ .uid = (uid_t)-1 };
	(void)snprintf(peer->text, sizeof(peer->text), "pid:%d", (int)cred.pid);
	peer->uid = cred.uid;
}

/* Beyond the limit a newcomer is closed at once: one that waits in silence looks like a node that hangs. */
static void on_listener(struct watch *watch, unsigned events)
{
	struct admin_listener *l = CONTAINER_OF(watch, struct admin_listener, watch);
	struct sock_addr from = { .len = sizeof(from.local) };
	struct admin_peer peer = { .door = l->door, .tls = l->tls };
	int fd;

	(void)events;
	CHECK_MAGIC(l->admin, ADMIN_MAGIC);
	while ((fd = accept4(watch->fd, &from.any, &from.len, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		if (!has_room(l->admin, l->door)) {
			close(fd);
			continue;
		}
		describe_peer(fd, &from, &peer);
		if (from.any.sa_family != AF_UNIX)
			sock_tune(fd);
		admin_connection_open(l->admin, fd, &peer);
	}
	if (errno != EAGAIN)
		log_warn("admin_accept_failed", "error=%d", errno);
}

/* What isn't known to be near counts as far. */
static void classify(struct admin_listener *l, bool metrics)
{
	struct sock_addr own = { .len = sizeof(own.local) };
	bool known = getsockname(l->watch.fd, &own.any, &own.len) == 0;
	bool local = known && own.any.sa_family == AF_UNIX;

	l->door = metrics ? ADMIN_DOOR_METRICS : local ? ADMIN_DOOR_LOCAL : ADMIN_DOOR_TCP;
	l->tls = !local && !(known && sock_addr_is_loopback(&own));
}

/* fds: up to the first that is -1. */
static int open_listeners(struct admin *a, const int *fds, bool metrics)
{
	for (size_t i = 0; i < LISTEN_ADMIN_MAX && fds[i] >= 0; i++) {
		struct admin_listener *l = &a->listeners[a->listener_count];
		int r = watch_open(&l->watch, a->loop, fds[i], on_listener);

		if (r != 0)
			return r;
		l->admin = a;
		classify(l, metrics);
		a->listener_count++;
		watch_want(&l->watch, WATCH_READ);
	}
	return 0;
}

int admin_new(const struct process *p, struct loop *l, struct keeper *keeper, struct admin **out)
{
	struct admin *a = calloc(1, sizeof(*a));
	int r;

	if (a == NULL)
		return -ENOMEM;
	a->listeners = calloc(2 * LISTEN_ADMIN_MAX, sizeof(*a->listeners));
	if (a->listeners == NULL) {
		free(a);
		return -ENOMEM;
	}
	a->magic = ADMIN_MAGIC;
	a->process = p;
	a->loop = l;
	a->keeper = keeper;
	a->conf_fd = -1;
	a->reload_serial = atomic_load(&p->board->keeper.restarts) << RELOADS_OF_A_KEEPER_BITS;
	list_init(&a->connections);
	list_init(&a->reloads);
	list_init(&a->drains);
	r = timer_open(&a->drain_timer, l, admin_drain_tick);
	if (r == 0 && keeper != NULL)
		r = listings_new(keeper, l, &a->listings);
	if (r == 0)
		r = open_listeners(a, p->admin_fds, false);
	if (r == 0)
		r = open_listeners(a, p->metrics_fds, true);
	if (r != 0) {
		admin_free(&a);
		return r;
	}
	*out = a;
	return 0;
}

/* The master has looked at it, so this does not fail; if it does, the old one is better than none. */
static void use_certificate(struct admin *a)
{
	const char *fault;
	struct ssl_ctx_st *fresh;

	if (a->conf->admin_tls.certificate.n == 0)
		return;
	fresh = tls_admin_server(&a->conf->admin_tls, &fault);
	if (fresh == NULL) {
		log_error("admin_certificate_failed", "fault=\"%s\"", fault);
		return;
	}
	tls_admin_unref(a->tls);
	a->tls = fresh;
}

void admin_use(struct admin *a, struct conf *conf, int conf_fd)
{
	struct conf *before = a->conf;

	a->conf = conf_ref(conf);
	a->conf_fd = conf_fd;
	use_certificate(a);
	if (before != NULL)
		conf_unref(before);
}

void admin_free(struct admin **admin)
{
	struct admin *a = *admin;

	if (a == NULL)
		return;
	*admin = NULL;
	admin_connections_close(a);
	admin_check_forget(a);
	listings_free(&a->listings);
	timer_close(&a->drain_timer);
	for (size_t i = 0; i < a->listener_count; i++)
		watch_close(&a->listeners[i].watch);
	free(a->listeners);
	tls_admin_unref(a->tls);
	if (a->conf != NULL)
		conf_unref(a->conf);
	a->magic = 0;
	free(a);
}
