/*
 * Reload: a new configuration, taken by every process or by none.
 *
 *   reload_begin    read, check, give slots, open logs; any fault ends it here
 *   (offered)       each child builds its snapshot and answers; a child that starts meanwhile is asked too
 *   reload_advance  one refused: dropped everywhere. All ready: committed, and from then on every child,
 *                   new ones too, has it. Who hasn't answered in time is killed and comes back with it.
 *
 * The master decides alone, and children obey in the order of their messages, so there is no moment at
 * which a child could hold a third opinion.
 */
#include "edge/master.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "edge/base/log.h"
#include "edge/board.h"

enum { ANSWER_MS = 5000 };

static void tell_keeper(struct master *m, uint32_t serial, bool dry_run, int result, const char *fault)
{
	struct message_outcome o = { .generation = m->node.conf.conf->generation,
				     .serial = serial,
				     .dry_run = dry_run,
				     .result = result };

	(void)snprintf(o.fault, sizeof(o.fault), "%s", fault);
	if (serial != 0)
		children_tell(m, PROCESS_KEEPER, MESSAGE_RELOADED, &o, sizeof(o));
}

static void tell_outcome(struct master *m, int result, const char *fault)
{
	uint32_t generation = m->node.conf.conf->generation;
	char quoted[2 * MESSAGE_FAULT_BYTES];

	if (result == 0)
		log_info("reload_done", "generation=%u", generation);
	else
		log_error("reload_failed", "generation=%u fault=%s", generation,
			  log_quote(fault, strlen(fault), quoted, sizeof(quoted)));
	board_reloaded(m->node.board, generation, result, fault);
	tell_keeper(m, m->reload.serial, false, result, fault);
}

/* What was asked for while this one was under way comes now. */
static void next_reload(struct master *m)
{
	struct reload *r = &m->reload;
	bool again = r->again;
	uint32_t serial = r->again_serial;

	*r = (struct reload){ .conf.fd = -1, .logs = LOGS_NONE };
	if (again)
		reload_begin(m, serial);
}

static void fail(struct master *m, const char *fault)
{
	struct message_generation g = { 0 };

	if (m->reload.pending) {
		g.generation = m->reload.conf.conf->generation;
		EACH_CHILD(m, c)
		{
			if (c->pid != 0 && c->answer != CHILD_NOT_ASKED &&
			    child_send(c, MESSAGE_DROP, &g, sizeof(g), NULL, 0) != 0)
				log_warn("drop_lost", "slot=%u", c->slot);
		}
	}
	node_conf_close(&m->reload.conf);
	logs_close(&m->reload.logs);
	tell_outcome(m, -EINVAL, fault);
	next_reload(m);
}

/* What can be said without asking anybody. Log files are opened, since that is where it may fail. */
static int read_next(struct master *m, struct conf_faults *faults, struct node_conf *out,
		     struct logs *out_logs)
{
	const struct conf *before = m->node.conf.conf;
	int r = node_conf_read(m->node.options, before, before->generation + 1, faults, out);

	if (r == 0)
		r = conf_reloadable(before, out->conf, faults);
	if (r == 0)
		r = logs_open(out->conf, faults, out_logs);
	return r;
}

void reload_try(struct master *m, uint32_t serial)
{
	struct node_conf conf = { .fd = -1 };
	struct logs logs = LOGS_NONE;
	struct conf_faults faults = { 0 };
	int r = read_next(m, &faults, &conf, &logs);

	node_conf_close(&conf);
	logs_close(&logs);
	tell_keeper(m, serial, true, r,
		    faults.count > 0 ? faults.first
		    : r != 0	     ? strerror(-r)
				     : "");
}

void reload_begin(struct master *m, uint32_t serial)
{
	struct reload *r = &m->reload;
	struct conf_faults faults = { 0 };
	int result;

	if (m->phase != MASTER_RUNNING) {
		log_warn("reload_ignored", "reason=ending");
		tell_keeper(m, serial, false, -ESHUTDOWN, "the node is ending");
		return;
	}
	if (r->pending) {
		r->again = true;
		r->again_serial = serial != 0 ? serial : r->again_serial;
		return;
	}
	*r = (struct reload){ .conf.fd = -1, .logs = LOGS_NONE, .serial = serial };
	result = read_next(m, &faults, &r->conf, &r->logs);
	if (result != 0) {
		fail(m, faults.count > 0 ? faults.first : strerror(-result));
		return;
	}
	r->pending = true;
	r->deadline = (struct mono){ clock_mono().ms + ANSWER_MS };
	EACH_CHILD(m, c)
	reload_offer(m, c);
	reload_advance(m);
}

void reload_offer(struct master *m, struct child *c)
{
	const struct reload *r = &m->reload;
	struct message_logs body = { 0 };
	int fds[3], count = 0;

	c->answer = CHILD_NOT_ASKED;
	if (!r->pending || c->pid == 0)
		return;
	body.generation = r->conf.conf->generation;
	fds[count++] = node_conf_fd(&r->conf, c->role);
	if (r->logs.access_fd >= 0) {
		body.access = 1;
		fds[count++] = r->logs.access_fd;
	}
	body.error = 1;
	fds[count++] = r->logs.error_fd;
	c->answer = CHILD_ASKED;
	/* A child that can't take a message doesn't answer either: the deadline deals with it. */
	if (child_send(c, MESSAGE_OFFER, &body, sizeof(body), fds, count) != 0)
		log_warn("offer_lost", "slot=%u pid=%d", c->slot, c->pid);
}

void reload_answered(struct master *m, struct child *c, const struct ipc_message *answer)
{
	struct message_outcome o;

	if (!m->reload.pending || answer->body_bytes < sizeof(struct message_generation))
		return;
	memset(&o, 0, sizeof(o));
	memcpy(&o, answer->body, answer->body_bytes < sizeof(o) ? answer->body_bytes : sizeof(o));
	if (o.generation != m->reload.conf.conf->generation)
		return;
	if (answer->type == MESSAGE_REFUSED) {
		o.fault[sizeof(o.fault) - 1] = '\0';
		fail(m, o.fault);
		return;
	}
	c->answer = CHILD_READY;
	reload_advance(m);
}

static void commit(struct master *m)
{
	struct node *n = &m->node;
	struct message_generation g = { .generation = m->reload.conf.conf->generation };

	EACH_CHILD(m, c)
	{
		if (c->pid != 0 && c->answer == CHILD_READY &&
		    child_send(c, MESSAGE_COMMIT, &g, sizeof(g), NULL, 0) != 0)
			(void)kill(c->pid, SIGKILL); /* its successor has it */
	}
	node_conf_close(&n->conf);
	logs_close(&n->logs);
	n->conf = m->reload.conf;
	n->logs = m->reload.logs;
	logs_use(&n->logs, n->conf.conf);
	tell_outcome(m, 0, "");
	next_reload(m);
}

void reload_advance(struct master *m)
{
	bool late = clock_mono().ms >= m->reload.deadline.ms;

	if (!m->reload.pending)
		return;
	EACH_CHILD(m, c)
	{
		if (c->pid == 0 || c->answer != CHILD_ASKED)
			continue;
		if (!late)
			return;
		log_error("child_unresponsive", "slot=%u pid=%d", c->slot, c->pid);
		c->answer = CHILD_NOT_ASKED;
		(void)kill(c->pid, SIGKILL);
	}
	commit(m);
}

void reload_abandon(struct master *m)
{
	m->reload.again = false;
	if (m->reload.pending)
		fail(m, "the node is ending");
}
