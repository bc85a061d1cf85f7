/*
 * The admin server: it accepts while there is room for connections, and knows what the node is at the
 * moment. It lives in the keeper's loop; nothing in it waits.
 */
#include "edge/admin.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edge/admin_connection.h"
#include "edge/base/log.h"
#include "edge/listen.h"

enum { ADMIN_MAGIC = 0x61646d69 };

struct admin_listener {
	struct watch watch;
	struct admin *admin;
};

/* Beyond the limit a newcomer is closed at once: one that waits in silence looks like a node that hangs. */
static void on_listener(struct watch *watch, unsigned events)
{
	struct admin *a = CONTAINER_OF(watch, struct admin_listener, watch)->admin;
	struct sock_addr peer = { .len = sizeof(peer.local) };
	int fd;

	(void)events;
	CHECK_MAGIC(a, ADMIN_MAGIC);
	while ((fd = accept4(watch->fd, &peer.any, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		if (a->connection_count >= ADMIN_CONNECTIONS_MAX)
			close(fd);
		else
			admin_connection_open(a, fd);
	}
	if (errno != EAGAIN)
		log_warn("admin_accept_failed", "error=%d", errno);
}

static int open_listeners(struct admin *a, size_t count)
{
	a->listeners = calloc(count > 0 ? count : 1, sizeof(*a->listeners));
	if (a->listeners == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct admin_listener *l = &a->listeners[i];
		int r = watch_open(&l->watch, a->loop, a->process->admin_fds[i], on_listener);

		if (r != 0)
			return r;
		l->admin = a;
		a->listener_count++;
		watch_want(&l->watch, WATCH_READ);
	}
	return 0;
}

int admin_new(const struct process *p, struct loop *l, struct keeper *keeper, struct admin **out)
{
	struct admin *a = calloc(1, sizeof(*a));
	size_t count = 0;
	int r;

	if (a == NULL)
		return -ENOMEM;
	a->magic = ADMIN_MAGIC;
	a->process = p;
	a->loop = l;
	a->keeper = keeper;
	a->conf_fd = -1;
	list_init(&a->connections);
	list_init(&a->reloads);
	while (count < LISTEN_ADMIN_MAX && p->admin_fds[count] >= 0)
		count++;
	r = open_listeners(a, count);
	if (r != 0) {
		admin_free(&a);
		return r;
	}
	*out = a;
	return 0;
}

void admin_use(struct admin *a, struct conf *conf, int conf_fd)
{
	struct conf *before = a->conf;

	a->conf = conf_ref(conf);
	a->conf_fd = conf_fd;
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
	for (size_t i = 0; i < a->listener_count; i++)
		watch_close(&a->listeners[i].watch);
	free(a->listeners);
	if (a->conf != NULL)
		conf_unref(a->conf);
	a->magic = 0;
	free(a);
}
