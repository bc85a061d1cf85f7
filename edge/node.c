/*
 * Opening a node, in the order in which a second one should fail: first the stores, whose lock says who
 * else is running, then addresses. Everything shared exists before the first fork.
 */
#include "edge/node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cache/format.h"
#include "conf/fault.h"
#include "edge/base/log.h"
#include "edge/base/tls.h"
#include "edge/board.h"
#include "edge/sealed.h"
#include "edge/tls_check.h"

enum { ARENA_BYTES_MAX = 1 << 20, WAIT_MS = 10000, WAIT_STEP_MS = 50 };

/* The text that the options name. Faults are told. 0 or a negative errno. */
static int node_text(const struct node_options *o, struct conf_faults *faults, char **out_text)
{
	if (o->file != NULL)
		return conf_read_all(o->file, tls_check, faults, out_text);
	return conf_quick_text(&o->quick, faults, out_text);
}

/* Nobody stands by to read them: the node runs, and this is a reload. */
static void log_warning(const char *line)
{
	char quoted[1024];

	log_warn("configuration_warning", "what=%s",
		 log_quote(line, strlen(line), quoted, sizeof(quoted)));
}

/* One text for workers, one without keys for the keeper. */
static int seal(const char *text, struct node_conf *c)
{
	char *without = conf_without_keys(view_str(text));
	int fd, keeper_fd;

	if (without == NULL)
		return -ENOMEM;
	keeper_fd = sealed_write("brim-keeper-configuration", view_str(without));
	conf_text_free(without);
	if (keeper_fd < 0)
		return keeper_fd;
	fd = sealed_write("brim-configuration", view_str(text));
	if (fd < 0) {
		close(keeper_fd);
		return fd;
	}
	c->fd = fd;
	c->keeper_fd = keeper_fd;
	return 0;
}

int node_conf_read(const struct node_options *o, const struct conf *before, uint32_t generation,
		   struct conf_faults *faults, struct node_conf *out)
{
	struct node_conf c = { .fd = -1 };
	char *text = NULL, *slotted = NULL;
	int r;

	if (faults->to == NULL && faults->warn == NULL)
		faults->warn = log_warning;
	r = node_text(o, faults, &text);
	if (r == 0)
		r = conf_assign_slots(view_str(text), before, faults, &slotted);
	if (r == 0)
		r = conf_build(view_str(slotted), generation, faults, &c.conf);
	if (r == 0) {
		if (conf_has_keys(c.conf))
			privileges_hide();
		r = seal(slotted, &c);
	}
	if (r != 0 && c.conf != NULL) {
		conf_fault(faults, "configuration", "can't be sealed: %s", strerror(-r));
		conf_unref(c.conf);
	}
	conf_text_free(text);
	conf_text_free(slotted);
	if (r == 0)
		*out = c;
	return r;
}

void node_conf_close(struct node_conf *c)
{
	if (c->conf != NULL)
		conf_unref(c->conf);
	if (c->fd >= 0) {
		close(c->fd);
		close(c->keeper_fd);
	}
	*c = (struct node_conf){ .fd = -1 };
}

static int find_user(struct node *n, struct conf_faults *faults)
{
	struct view user = n->conf.conf->user;
	int r = privileges_find(user, &n->privileges);

	if (r == -ENOENT)
		conf_fault(faults, "/user", "no such user: %.*s (\"\" to stay root)", VIEW_ARG(user));
	else if (r != 0)
		conf_fault(faults, "/user", "%.*s: %s", VIEW_ARG(user), strerror(-r));
	return r;
}

/* --- stores --------------------------------------------------------------------------------------- */

/* The lock file holds the master's pid, for the message to whoever finds it locked. */
static void write_owner(int lock_fd)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	if (ftruncate(lock_fd, 0) != 0 || pwrite(lock_fd, text, (size_t)n, 0) != n)
		log_warn("lock_not_signed", "error=%d", errno);
}

/* 0: not known. */
static int read_owner(struct view path)
{
	char name[PATH_MAX], text[16] = "";
	int fd, pid = 0;

	(void)snprintf(name, sizeof(name), "%.*s/%s", VIEW_ARG(path), FORMAT_LOCK_PATH);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) > 0)
		pid = atoi(text);
	close(fd);
	return pid;
}

static bool is_dead(int pid)
{
	return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH;
}

static void wait_a_moment(void)
{
	const struct timespec moment = { .tv_nsec = WAIT_STEP_MS * 1000000L };

	(void)nanosleep(&moment, NULL);
}

/* A node whose master was killed still has a keeper that closes the store: its successor waits for it. */
static int lock_store(struct node *n, struct view path, int *out_dir_fd, int *out_lock_fd)
{
	for (unsigned waited = 0;; waited += WAIT_STEP_MS) {
		int r = cache_store_open(path, n->privileges.uid, n->privileges.gid, out_dir_fd,
					 out_lock_fd);

		if (r != -EWOULDBLOCK || waited >= WAIT_MS || !is_dead(read_owner(path)))
			return r;
		n->follows_crash = true;
		wait_a_moment();
	}
}

static int open_store(struct node *n, size_t i, struct conf_faults *faults)
{
	const struct conf_store *store = &n->conf.conf->stores[i];
	struct cache_store_conf *c = &n->cache_conf.stores[i];
	char pointer[64];
	int r = lock_store(n, store->path, &c->dir_fd, &n->lock_fds[i]);

	(void)snprintf(pointer, sizeof(pointer), "/stores/%zu/path", i);
	if (r == -EWOULDBLOCK) {
		conf_fault(faults, pointer,
			   "%.*s is in use by another node (pid %d): two can't share a store",
			   VIEW_ARG(store->path), read_owner(store->path));
		return r;
	}
	if (r != 0) {
		conf_fault(faults, pointer, "can't open %.*s: %s", VIEW_ARG(store->path), strerror(-r));
		return r;
	}
	write_owner(n->lock_fds[i]);
	c->name = arena_copy(&n->arena, store->name);
	if (c->name.p == NULL)
		return -ENOMEM;
	c->size_bytes = store->size_bytes;
	n->cache_conf.store_count++;
	return 0;
}

static int open_stores(struct node *n, struct conf_faults *faults)
{
	n->cache_conf.workers = n->conf.conf->workers;
	for (size_t i = 0; i < n->conf.conf->store_count; i++) {
		int r = open_store(n, i, faults);

		if (r != 0)
			return r;
	}
	return 0;
}

/* Workers of a node that crashed close their sockets at once, but not before they notice. */
static int open_traffic(struct node *n, struct conf_faults *faults)
{
	for (unsigned waited = 0; n->follows_crash && waited < WAIT_MS; waited += WAIT_STEP_MS) {
		struct conf_faults unheard = { 0 };

		if (listen_open_traffic(&n->sockets, n->conf.conf, &unheard) == 0)
			return 0;
		listen_close_traffic(&n->sockets, -1);
		wait_a_moment();
	}
	return listen_open_traffic(&n->sockets, n->conf.conf, faults);
}

static int share_memory(struct node *n, struct conf_faults *faults)
{
	n->board = board_new();
	n->stats = stats_new(n->cache_conf.workers);
	n->peers = peers_new(n->cache_conf.workers);
	n->tickets = tls_tickets_new();
	n->origin_shared = origin_shared_new();
	n->cache_shared = cache_shared_new(&n->cache_conf);
	if (n->board != NULL && n->stats != NULL && n->peers != NULL && n->tickets != NULL &&
	    n->origin_shared != NULL && n->cache_shared != NULL)
		return 0;
	conf_fault(faults, "memory", "the shared memory can't be had: %s", strerror(errno));
	return -ENOMEM;
}

/* Each connection takes a descriptor or two, and the default soft limit is made for select(). */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		log_warn("descriptor_limit_kept", "error=%d", errno);
}

int node_open(struct node *n, const struct node_options *o, struct conf_faults *faults)
{
	int r;

	*n = (struct node){ .options = o, .conf.fd = -1, .logs = LOGS_NONE };
	for (unsigned i = 0; i < CONF_STORES_MAX; i++) {
		n->lock_fds[i] = -1;
		n->cache_conf.stores[i].dir_fd = -1;
	}
	arena_init(&n->arena, ARENA_BYTES_MAX);
	listen_init(&n->sockets);
	raise_descriptor_limit();
	(void)tls_probe(); /* while one may still load the kernel's module (CAP_NET_ADMIN); children know the answer */
	r = node_conf_read(o, NULL, 1, faults, &n->conf);
	if (r == 0)
		r = find_user(n, faults);
	if (r == 0)
		r = open_stores(n, faults);
	if (r == 0)
		r = open_traffic(n, faults);
	if (r == 0)
		r = listen_open_admin(&n->sockets, n->conf.conf, &n->privileges, faults);
	if (r == 0)
		r = logs_open(n->conf.conf, faults, &n->logs);
	if (r == 0)
		r = share_memory(n, faults);
	if (r != 0)
		node_close(n);
	return r;
}

static void close_all(int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

void node_close(struct node *n)
{
	if (n->conf.conf != NULL)
		listen_remove_admin(&n->sockets, n->conf.conf);
	listen_close_traffic(&n->sockets, -1);
	listen_close_admin(&n->sockets);
	cache_shared_free(n->cache_shared);
	origin_shared_free(n->origin_shared);
	stats_free(n->stats);
	peers_free(n->peers);
	tls_tickets_free(n->tickets);
	board_free(n->board);
	for (unsigned i = 0; i < CONF_STORES_MAX; i++)
		close_all(&n->cache_conf.stores[i].dir_fd, 1);
	close_all(n->lock_fds, CONF_STORES_MAX);
	logs_close(&n->logs);
	node_conf_close(&n->conf);
	arena_fini(&n->arena);
}

void node_keep_for(struct node *n, enum process_role role, unsigned slot)
{
	listen_close_traffic(&n->sockets, role == PROCESS_WORKER ? (int)slot : -1);
	if (role == PROCESS_KEEPER)
		return;
	listen_close_admin(&n->sockets);
	close_all(n->lock_fds, CONF_STORES_MAX);
}
