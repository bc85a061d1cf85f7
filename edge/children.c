/*
 * The master's children. They are forked and never exec'd: what they need is in memory or a descriptor.
 *
 * A child that dies is replaced at once. One that keeps dying within a second of its start waits
 * longer each time, up to a second, so that a fault that strikes at start doesn't take the machine.
 *
 * A child must not hold what belongs to others: as long as any process has a copy of the master's end
 * of a channel, the reader at the other end would not notice the master's death; and a listening socket
 * that someone forgot to close goes on collecting connections that nobody accepts.
 */
#include "edge/master.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge/base/log.h"
#include "edge/board.h"

enum { EARLY_MS = 1000, DELAY_FIRST_MS = 100, DELAY_MOST_MS = 1000 };

static void child_start(struct master *m, struct child *c);
static void child_ended(struct master *m, struct child *c, int status);

static const char *role_name(enum process_role role)
{
	return role == PROCESS_KEEPER ? "keeper" : "worker";
}

static bool child_is(const struct child *c, enum process_role role)
{
	return c->pid != 0 && (role == PROCESS_MASTER || c->role == role);
}

void children_init(struct master *m)
{
	struct mono now = clock_mono();

	m->child_count = 1 + m->node.conf.conf->workers;
	EACH_CHILD(m, c)
	{
		unsigned index = (unsigned)(c - m->children);

		*c = (struct child){ .role = index == 0 ? PROCESS_KEEPER : PROCESS_WORKER,
				     .slot = index == 0 ? 0 : index - 1,
				     .ipc_fd = -1,
				     .start_at = now };
		c->entry = index == 0 ? &m->node.board->keeper : &m->node.board->workers[c->slot];
	}
}

void children_start_due(struct master *m)
{
	struct mono now = clock_mono();

	EACH_CHILD(m, c)
	{
		if (c->pid == 0 && c->start_at.ms != 0 && c->start_at.ms <= now.ms)
			child_start(m, c);
	}
}

struct mono children_next_start(const struct master *m)
{
	struct mono next = { 0 };

	for (unsigned i = 0; i < m->child_count; i++) {
		struct mono at = m->children[i].start_at;

		if (at.ms != 0 && (next.ms == 0 || at.ms < next.ms))
			next = at;
	}
	return next;
}

void children_reap(struct master *m)
{
	int status, pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		EACH_CHILD(m, c)
		{
			if (c->pid == pid)
				child_ended(m, c, status);
		}
	}
}

unsigned children_alive(const struct master *m, enum process_role role)
{
	unsigned count = 0;

	for (unsigned i = 0; i < m->child_count; i++)
		count += child_is(&m->children[i], role);
	return count;
}

void children_tell(struct master *m, enum process_role role, uint32_t type, const void *body,
		   size_t body_bytes)
{
	EACH_CHILD(m, c)
	{
		int r = child_is(c, role) ? child_send(c, type, body, body_bytes, NULL, 0) : 0;

		if (r != 0)
			log_warn("message_lost", "to=%s slot=%u type=%u error=%d",
				 role_name(c->role), c->slot, type, -r);
	}
}

void children_kill(struct master *m, enum process_role role)
{
	EACH_CHILD(m, c)
	{
		if (child_is(c, role))
			(void)kill(c->pid, SIGKILL);
	}
}

void children_retire(struct master *m, enum process_role role)
{
	EACH_CHILD(m, c)
	{
		if (role == PROCESS_MASTER || c->role == role)
			c->start_at.ms = 0;
	}
}

int child_send(struct child *c, uint32_t type, const void *body, size_t body_bytes, const int *fds,
	       int fd_count)
{
	if (c->ipc_fd < 0)
		return -EPIPE;
	return ipc_send(c->ipc_fd, type, body, body_bytes, fds, fd_count);
}

/* --- in the child ------------------------------------------------------------------------------- */

/* Whoever signals the whole group (a terminal, a supervisor) means the master, and that one tells us. */
static void reset_signals(void)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGPIPE };
	sigset_t none;

	for (unsigned i = 0; i < ARRAY_LEN(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void name_process(const struct child *c)
{
	char log[32], kernel[16]; /* the kernel keeps 15 characters */

	if (c->role == PROCESS_KEEPER) {
		log_name("keeper");
		(void)prctl(PR_SET_NAME, "brim-keeper", 0, 0, 0);
		return;
	}
	(void)snprintf(log, sizeof(log), "worker/%u", c->slot);
	(void)snprintf(kernel, sizeof(kernel), "brim-worker/%u", c->slot % CONF_WORKERS_MAX);
	log_name(log);
	(void)prctl(PR_SET_NAME, kernel, 0, 0, 0);
}

static void forget_others(struct master *m, const struct child *me)
{
	enum process_role other = me->role == PROCESS_KEEPER ? PROCESS_WORKER : PROCESS_KEEPER;

	close(m->signal_fd);
	EACH_CHILD(m, c)
	{
		if (c->ipc_fd >= 0)
			close(c->ipc_fd);
	}
	close(node_conf_fd(&m->node.conf, other));
	if (m->reload.pending) {
		close(m->reload.conf.fd);
		close(m->reload.conf.keeper_fd);
		logs_close(&m->reload.logs);
	}
	node_keep_for(&m->node, me->role, me->slot);
}

/* What the master has read is in our memory, too. */
static void forget_keys(struct master *m)
{
	conf_unref(m->node.conf.conf);
	m->node.conf.conf = NULL;
	if (m->reload.pending)
		conf_unref(m->reload.conf.conf);
}

static int child_run(struct master *m, const struct child *c, int ipc_fd)
{
	struct node *n = &m->node;
	struct process p = {
		.role = c->role,
		.slot = c->slot,
		.ipc_fd = ipc_fd,
		.board = n->board,
		.cache_shared = n->cache_shared,
		.cache_conf = n->cache_conf,
		.origin_shared = n->origin_shared,
		.stats = n->stats,
		.peers = n->peers,
		.tickets = n->tickets,
		.listen_fds = n->sockets.workers[c->slot],
		.admin_fds = n->sockets.admin,
		.metrics_fds = n->sockets.metrics,
		.conf_fd = node_conf_fd(&n->conf, c->role),
		.generation = n->conf.conf->generation,
		.access_fd = n->logs.access_fd,
		.error_fd = n->logs.error_fd,
	};
	int r;

	name_process(c);
	forget_others(m, c);
	if (c->role == PROCESS_KEEPER)
		forget_keys(m);
	reset_signals();
	r = privileges_drop(&n->privileges);
	if (r != 0) {
		log_error("user_not_changed", "uid=%u error=%d", (unsigned)n->privileges.uid, -r);
		return 1;
	}
	return c->role == PROCESS_KEEPER ? keeper_run(&p) : worker_run(&p);
}

/* --- in the master ------------------------------------------------------------------------------- */

static void start_later(struct child *c)
{
	c->start_at = (struct mono){ clock_mono().ms + DELAY_MOST_MS };
}

static void child_start(struct master *m, struct child *c)
{
	int fds[2], pid, r = ipc_pair(fds);

	if (r != 0) {
		log_error("child_not_started", "role=%s slot=%u error=%d", role_name(c->role),
			  c->slot, -r);
		start_later(c);
		return;
	}
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		exit(child_run(m, c, fds[1]));
	}
	close(fds[1]);
	if (pid < 0) {
		log_error("child_not_started", "role=%s slot=%u error=%d", role_name(c->role),
			  c->slot, errno);
		close(fds[0]);
		start_later(c);
		return;
	}
	c->pid = pid;
	c->ipc_fd = fds[0];
	c->started = clock_mono();
	c->start_at.ms = 0;
	c->answer = CHILD_NOT_ASKED;
	board_child(c->entry, pid, c->restarts);
	log_info("child_started", "role=%s slot=%u pid=%d", role_name(c->role), c->slot, pid);
	reload_offer(m, c);
}

/* A worker is no longer needed when the node ends, the keeper until the last worker is gone. */
static bool wanted(const struct master *m, const struct child *c)
{
	if (c->role == PROCESS_WORKER)
		return m->phase == MASTER_RUNNING;
	return m->phase == MASTER_RUNNING || m->phase == MASTER_DRAINING;
}

static void plan_successor(struct child *c)
{
	struct mono now = clock_mono();
	unsigned delay = 0;

	if (now.ms - c->started.ms >= EARLY_MS)
		c->early_deaths = 0;
	else if (c->early_deaths++ > 0)
		delay = c->early_deaths < 6 ? DELAY_FIRST_MS << (c->early_deaths - 2) : DELAY_MOST_MS;
	c->restarts++;
	c->start_at = (struct mono){ now.ms + (delay < DELAY_MOST_MS ? delay : DELAY_MOST_MS) };
}

static void log_end(const struct master *m, const struct child *c, int status)
{
	const char *role = role_name(c->role);

	if (WIFSIGNALED(status))
		log_error("child_died", "role=%s slot=%u pid=%d signal=%d", role, c->slot, c->pid,
			  WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0 || wanted(m, c))
		log_error("child_died", "role=%s slot=%u pid=%d status=%d", role, c->slot, c->pid,
			  WEXITSTATUS(status));
	else
		log_info("child_ended", "role=%s slot=%u pid=%d", role, c->slot, c->pid);
}

static void child_ended(struct master *m, struct child *c, int status)
{
	struct message_death death = { .slot = c->slot, .pid = c->pid };

	log_end(m, c, status);
	c->pid = 0;
	if (c->ipc_fd >= 0)
		close(c->ipc_fd);
	c->ipc_fd = -1;
	if (c->role == PROCESS_WORKER)
		children_tell(m, PROCESS_KEEPER, MESSAGE_WORKER_DIED, &death, sizeof(death));
	if (wanted(m, c))
		plan_successor(c);
	board_child(c->entry, 0, c->restarts); /* a successor finds there the how many-th it is */
}
