/*
 * The keeper's process: the cache's engine, name resolution and the admin API in one loop.
 *
 * A store that can't be opened leaves the node relaying: the keeper stays, resolves names, and its admin API
 * says what is wrong. When the master dies it closes the stores at once: a new node may already be waiting.
 */
#include "cache/keeper.h"

#include <errno.h>
#include <unistd.h>

#include "edge/admin.h"
#include "edge/base/log.h"
#include "edge/process.h"
#include "edge/snapshot.h"

struct keeper_process {
	const struct process *given;
	struct snapshot snapshot;
	int error_fd;
	struct loop *loop;
	struct watch ipc;
	struct keeper *keeper; /* NULL: it could not be opened */
	struct resolver *resolver;
	struct admin *admin;
};

static void use_snapshot(struct snapshot *s)
{
	struct keeper_process *p = CONTAINER_OF(s, struct keeper_process, snapshot);
	resolver_use(p->resolver, p->snapshot.conf);
	admin_use(p->admin, p->snapshot.conf, p->snapshot.conf_fd);
}

/* The keeper writes no access log: that descriptor is the workers'. */
static void use_logs(struct snapshot *s)
{
	struct keeper_process *p = CONTAINER_OF(s, struct keeper_process, snapshot);
	if (p->snapshot.logs.access_fd >= 0)
		close(p->snapshot.logs.access_fd);
	p->snapshot.logs.access_fd = -1;
	snapshot_use_error_log(&p->snapshot, &p->error_fd);
}

static void on_worker_died(struct keeper_process *p, const struct ipc_message *m)
{
	struct message_death death;

	if (p->keeper == NULL || m->body_bytes != sizeof(death))
		return;
	memcpy(&death, m->body, sizeof(death));
	keeper_worker_died(p->keeper, death.slot, death.pid);
}

static void on_reloaded(struct keeper_process *p, const struct ipc_message *m)
{
	struct message_outcome outcome;

	if (m->body_bytes != sizeof(outcome))
		return;
	memcpy(&outcome, m->body, sizeof(outcome));
	admin_reloaded(p->admin, &outcome);
}

static void obey(struct snapshot *s, const struct ipc_message *m)
{
	struct keeper_process *p = CONTAINER_OF(s, struct keeper_process, snapshot);
	switch (m->type) {
	case MESSAGE_STOP:
		loop_stop(p->loop);
		return;
	case MESSAGE_WORKER_DIED:
		on_worker_died(p, m);
		return;
	case MESSAGE_RELOADED:
		on_reloaded(p, m);
		return;
	}
}

/* Nothing but the snapshot itself is made of an offer. */
static int offer_came(struct snapshot *s)
{
	(void)s;
	return 0;
}

static void offer_dropped(struct snapshot *s)
{
	(void)s;
}

static const struct snapshot_user user = { offer_came, offer_dropped, use_snapshot, use_logs, obey };

static void on_ipc(struct watch *watch, unsigned events)
{
	struct keeper_process *p = CONTAINER_OF(watch, struct keeper_process, ipc);
	int r = snapshot_receive(&p->snapshot, &user);

	(void)events;
	if (r == 0)
		return;
	log_error("master_gone", "error=%d", -r);
	watch_close(&p->ipc);
	loop_stop(p->loop);
}

static void open_keeper(struct keeper_process *p)
{
	const struct process *given = p->given;
	int r = keeper_open(given->cache_shared, &given->cache_conf, p->loop, &p->keeper);

	if (r != 0) {
		log_error("stores_not_opened", "error=%d", -r);
		p->keeper = NULL;
	}
}

static int open_parts(struct keeper_process *p)
{
	const struct process *given = p->given;
	int r;

	p->loop = loop_new();
	if (p->loop == NULL)
		return -ENOMEM;
	r = watch_open(&p->ipc, p->loop, given->ipc_fd, on_ipc);
	if (r == 0)
		r = resolver_new(given->origin_shared, p->loop, &p->resolver);
	if (r != 0)
		return r;
	open_keeper(p);
	return admin_new(given, p->loop, p->keeper, &p->admin);
}

static void close_parts(struct keeper_process *p)
{
	admin_free(&p->admin);
	resolver_free(p->resolver);
	if (p->keeper != NULL)
		keeper_close(p->keeper);
	watch_close(&p->ipc);
	loop_free(p->loop);
	snapshot_close(&p->snapshot);
}

int keeper_run(const struct process *given)
{
	static struct keeper_process p; /* the process's context */
	int r;

	p.given = given;
	p.error_fd = given->error_fd;
	if (given->access_fd >= 0)
		close(given->access_fd);
	if (snapshot_open(&p.snapshot, given) != 0)
		return 1;
	r = open_parts(&p);
	if (r != 0) {
		log_error("keeper_not_started", "error=%d", -r);
		return 1;
	}
	use_snapshot(&p.snapshot);
	watch_want(&p.ipc, WATCH_READ);
	loop_run(p.loop);
	close_parts(&p);
	return 0;
}
