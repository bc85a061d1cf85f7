/*
 * POST /v1/drain and /v1/resume: the node takes no connections, or takes them again; it goes on in all else. The master
 * tells the workers; the answer waits until each of them says on the board that it does as told, looking every few
 * milliseconds: it happens seldom, and there is no message that a worker that dies in between could fail to send.
 */
#include <cjson/cJSON.h>
#include <stdatomic.h>

#include "edge/admin_call.h"
#include "edge/base/ipc.h"
#include "edge/message.h"

enum { LOOK_MS = 5, OBEY_MS = 5000 };

struct drain_call {
	bool accept;
	struct mono deadline;
};

/* A worker that is not there does neither; its successor will. */
static bool obeyed(const struct admin *a, bool accept)
{
	const struct process_board *b = a->process->board;

	if ((atomic_load(&b->draining) == 0) != accept)
		return false;
	for (unsigned i = 0; i < a->process->cache_conf.workers; i++) {
		const struct process_entry *worker = &b->workers[i];

		if (atomic_load(&worker->pid) != 0 && (atomic_load(&worker->accepting) != 0) != accept)
			return false;
	}
	return true;
}

void admin_drain_tick(struct timer *t)
{
	struct admin *a = CONTAINER_OF(t, struct admin, drain_timer);

	LIST_EACH (&a->drains, at, next) {
		ready_post(&LIST_ENTRY(at, struct admin_call, link)->wake);
	}
	if (!list_empty(&a->drains))
		timer_set(t, LOOK_MS);
}

static unsigned open_connections(const struct admin *a)
{
	unsigned count = 0;

	for (unsigned i = 0; i < a->process->cache_conf.workers; i++) {
		struct stats_gauges g;

		stats_worker_get(a->process->stats, i, &g);
		count += (unsigned)g.connections;
	}
	return count;
}

static enum admin_progress look(struct admin_call *c)
{
	const struct drain_call *d = c->state;
	cJSON *tree;

	if (!obeyed(c->admin, d->accept)) {
		if (loop_now(c->admin->loop).ms < d->deadline.ms)
			return ADMIN_WAIT;
		list_remove(&c->link);
		return admin_error(c, 503, "",
				   "not all workers have obeyed within 5 s: see the error log");
	}
	list_remove(&c->link);
	tree = cJSON_CreateObject();
	(void)cJSON_AddBoolToObject(tree, "draining", !d->accept);
	(void)cJSON_AddNumberToObject(tree, "connections", open_connections(c->admin));
	return admin_answer(c, tree);
}

static enum admin_progress set(struct admin_call *c, bool accept)
{
	struct message_accept body = { .accept = accept };
	struct drain_call *d;

	if (c->state != NULL)
		return look(c);
	d = arena_zalloc(&c->arena, sizeof(*d));
	if (d == NULL)
		return admin_error(c, 503, "", "no memory");
	if (ipc_send(c->admin->process->ipc_fd, MESSAGE_ACCEPT, &body, sizeof(body), NULL, 0) != 0)
		return admin_error(c, 503, "", "the master doesn't listen");
	d->accept = accept;
	d->deadline = (struct mono){ loop_now(c->admin->loop).ms + OBEY_MS };
	c->state = d;
	list_append(&c->admin->drains, &c->link);
	timer_set(&c->admin->drain_timer, LOOK_MS);
	return look(c);
}

enum admin_progress admin_drain(struct admin_call *c)
{
	return set(c, false);
}

enum admin_progress admin_resume(struct admin_call *c)
{
	return set(c, true);
}
