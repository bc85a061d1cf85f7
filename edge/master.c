/*
 * The master's loop. It waits in ppoll for signals (by signalfd), for its children's messages and for the
 * nearest deadline. Not libuv: its loop can't be carried over a fork, its signal pipe is global to the
 * process, and the master forks again and again as long as it lives (docs/decisions/processes.md).
 *
 * How a node ends: DRAINING (TERM, QUIT) until the workers have finished or the time is over, STOPPING
 * (INT, or a second TERM) for workers that end now, CLOSING while the keeper commits and closes.
 */
#include "edge/master.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "edge/base/log.h"
#include "edge/base/tls.h"
#include "edge/board.h"

enum {
	DRAIN_GRACE_MS = 2000, /* for workers to notice that their own deadline has passed */
	STOP_MS = 2000,
	CLOSE_MS = 15000, /* the keeper syncs what workers wrote */
};

static const int handled[] = { SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGCHLD };

/* --- phases ------------------------------------------------------------------------------------- */

static void enter(struct master *m, enum master_phase phase, uint64_t deadline_ms)
{
	m->phase = phase;
	m->deadline = (struct mono){ clock_mono().ms + (int64_t)deadline_ms };
}

static void drain(struct master *m)
{
	struct message_drain body = { .timeout_ms = m->node.conf.conf->shutdown_timeout_ms };

	log_info("draining", "timeout_ms=%llu", (unsigned long long)body.timeout_ms);
	reload_abandon(m);
	enter(m, MASTER_DRAINING, body.timeout_ms + DRAIN_GRACE_MS);
	atomic_store(&m->node.board->draining, 1);
	children_retire(m, PROCESS_WORKER);
	/* Ours are copies of the workers': theirs must be the last, or the queues would never end. */
	listen_close_traffic(&m->node.sockets, -1);
	children_tell(m, PROCESS_WORKER, MESSAGE_DRAIN, &body, sizeof(body));
}

static void stop(struct master *m)
{
	log_info("stopping", "workers=%u", children_alive(m, PROCESS_WORKER));
	reload_abandon(m);
	enter(m, MASTER_STOPPING, STOP_MS);
	atomic_store(&m->node.board->draining, 1);
	children_retire(m, PROCESS_MASTER);
	listen_close_traffic(&m->node.sockets, -1);
	children_tell(m, PROCESS_WORKER, MESSAGE_STOP, NULL, 0);
}

static void close_store(struct master *m)
{
	enter(m, MASTER_CLOSING, CLOSE_MS);
	children_retire(m, PROCESS_MASTER);
	children_tell(m, PROCESS_KEEPER, MESSAGE_STOP, NULL, 0);
}

/* The phase's time is over. */
static void phase_late(struct master *m)
{
	switch (m->phase) {
	case MASTER_RUNNING:
	case MASTER_OVER:
		return;
	case MASTER_DRAINING:
		log_warn("drain_timed_out", "workers=%u", children_alive(m, PROCESS_WORKER));
		stop(m);
		return;
	case MASTER_STOPPING:
		children_kill(m, PROCESS_WORKER);
		enter(m, MASTER_STOPPING, STOP_MS);
		return;
	case MASTER_CLOSING:
		log_error("keeper_killed", "reason=late");
		children_kill(m, PROCESS_KEEPER);
		enter(m, MASTER_CLOSING, CLOSE_MS);
		return;
	}
}

static void advance(struct master *m)
{
	if (m->phase != MASTER_RUNNING && clock_mono().ms >= m->deadline.ms)
		phase_late(m);
	if ((m->phase == MASTER_DRAINING || m->phase == MASTER_STOPPING) &&
	    children_alive(m, PROCESS_WORKER) == 0)
		close_store(m);
	if (m->phase == MASTER_CLOSING && children_alive(m, PROCESS_MASTER) == 0)
		m->phase = MASTER_OVER;
}

/* --- signals ------------------------------------------------------------------------------------ */

static void reopen_logs(struct master *m)
{
	struct node *n = &m->node;
	struct conf_faults faults = { 0 };
	struct message_logs body = { .error = 1 };
	struct logs fresh;
	int fds[2], count = 0;

	if (logs_open(n->conf.conf, &faults, &fresh) != 0) {
		log_error("logs_kept", "fault=\"%s\"", faults.first);
		return;
	}
	logs_close(&n->logs);
	n->logs = fresh;
	logs_use(&n->logs, n->conf.conf);
	if (fresh.access_fd >= 0) {
		body.access = 1;
		fds[count++] = fresh.access_fd;
	}
	fds[count++] = fresh.error_fd;
	EACH_CHILD(m, c)
	{
		if (c->pid != 0 && child_send(c, MESSAGE_LOGS, &body, sizeof(body), fds, count) != 0)
			log_warn("message_lost", "slot=%u pid=%d type=%d", c->slot, c->pid,
				 MESSAGE_LOGS);
	}
	log_info("logs_reopened", "access=%d", body.access);
}

static void on_signal(struct master *m, int number)
{
	switch (number) {
	case SIGCHLD:
		children_reap(m);
		return;
	case SIGHUP:
		reload_begin(m, 0);
		return;
	case SIGUSR1:
		reopen_logs(m);
		return;
	case SIGINT:
		if (m->phase < MASTER_STOPPING)
			stop(m);
		return;
	case SIGTERM:
	case SIGQUIT:
		if (m->phase == MASTER_RUNNING)
			drain(m);
		else if (m->phase == MASTER_DRAINING)
			stop(m);
		return;
	}
}

static void read_signals(struct master *m)
{
	struct signalfd_siginfo info;

	while (read(m->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		on_signal(m, (int)info.ssi_signo);
}

static int open_signals(struct master *m)
{
	sigset_t set;

	sigemptyset(&set);
	for (unsigned i = 0; i < ARRAY_LEN(handled); i++)
		sigaddset(&set, handled[i]);
	(void)signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return -errno;
	m->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return m->signal_fd < 0 ? -errno : 0;
}

/* --- the loop --------------------------------------------------------------------------------- */

/* Workers that start meanwhile see it on the board. */
static void accept_connections(struct master *m, bool accept)
{
	struct message_accept body = { .accept = accept };

	if (m->phase != MASTER_RUNNING)
		return;
	log_info(accept ? "accepting" : "not_accepting", "workers=%u",
		 children_alive(m, PROCESS_WORKER));
	atomic_store(&m->node.board->draining, !accept);
	children_tell(m, PROCESS_WORKER, MESSAGE_ACCEPT, &body, sizeof(body));
}

static void on_message(struct master *m, struct child *c, const struct ipc_message *message)
{
	struct message_reload body = { 0 };
	struct message_accept wish = { 0 };

	switch (message->type) {
	case MESSAGE_READY:
	case MESSAGE_REFUSED:
		reload_answered(m, c, message);
		return;
	case MESSAGE_RELOAD:
		if (c->role != PROCESS_KEEPER || message->body_bytes != sizeof(body))
			return;
		memcpy(&body, message->body, sizeof(body));
		if (body.dry_run)
			reload_try(m, body.serial);
		else
			reload_begin(m, body.serial);
		return;
	case MESSAGE_ACCEPT:
		if (c->role != PROCESS_KEEPER || message->body_bytes != sizeof(wish))
			return;
		memcpy(&wish, message->body, sizeof(wish));
		accept_connections(m, wish.accept != 0);
		return;
	default:
		log_warn("message_unknown", "slot=%u pid=%d type=%u", c->slot, c->pid, message->type);
	}
}

/* Children run without our rights, so none may make us hold descriptors or go on with a broken channel. */
static void read_child(struct master *m, struct child *c)
{
	struct ipc_message message;
	int r;

	while ((r = ipc_receive(c->ipc_fd, &message)) == 1) {
		for (int i = 0; i < message.fd_count; i++)
			close(message.fds[i]);
		on_message(m, c, &message);
	}
	if (r == -EAGAIN)
		return;
	close(c->ipc_fd); /* it has ended or is about to: SIGCHLD follows */
	c->ipc_fd = -1;
}

static void nearer(struct mono *at, struct mono other)
{
	if (other.ms != 0 && (at->ms == 0 || other.ms < at->ms))
		*at = other;
}

static int wait_ms(const struct master *m)
{
	struct mono at = children_next_start(m);
	int64_t left;

	if (m->reload.pending)
		nearer(&at, m->reload.deadline);
	if (m->phase != MASTER_RUNNING)
		nearer(&at, m->deadline);
	nearer(&at, m->ticket_key_due);
	if (at.ms == 0)
		return -1;
	left = at.ms - clock_mono().ms;
	return left > 0 ? (int)(left < 60000 ? left : 60000) : 0;
}

static void turn(struct master *m)
{
	struct pollfd fds[1 + MASTER_CHILDREN_MAX] = { { .fd = m->signal_fd, .events = POLLIN } };

	for (unsigned i = 0; i < m->child_count; i++)
		fds[1 + i] = (struct pollfd){ .fd = m->children[i].ipc_fd, .events = POLLIN };
	if (poll(fds, 1 + m->child_count, wait_ms(m)) < 0 && errno != EINTR)
		log_error("poll_failed", "error=%d", errno);
	for (unsigned i = 0; i < m->child_count; i++) {
		if (fds[1 + i].revents != 0 && m->children[i].ipc_fd == fds[1 + i].fd)
			read_child(m, &m->children[i]);
	}
	if (fds[0].revents != 0)
		read_signals(m);
	advance(m);
	m->ticket_key_due = tls_tickets_rotate(m->node.tickets, m->node.conf.conf->ticket_rotate_ms);
	children_start_due(m);
	reload_advance(m);
}

int master_run(const struct node_options *o)
{
	struct master m = { .magic = MASTER_MAGIC, .signal_fd = -1 };
	struct conf_faults faults = { .to = stderr };

	m.reload = (struct reload){ .conf.fd = -1, .logs = LOGS_NONE };
	log_name("master");
	if (node_open(&m.node, o, &faults) != 0)
		return 1;
	logs_use(&m.node.logs, m.node.conf.conf);
	if (open_signals(&m) != 0) {
		log_error("signals_failed", "error=%d", errno);
		node_close(&m.node);
		return 1;
	}
	board_started(m.node.board, m.node.conf.conf->generation);
	log_info("started", "version=%s pid=%d ktls=%s workers=%u", BRIM_VERSION, (int)getpid(),
		 tls_probe() ? "yes" : "no", m.node.conf.conf->workers);
	children_init(&m);
	while (m.phase != MASTER_OVER)
		turn(&m);
	log_info("ended", "pid=%d", (int)getpid());
	close(m.signal_fd);
	node_close(&m.node);
	return 0;
}
