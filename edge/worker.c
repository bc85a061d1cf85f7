/*
 * A worker's process: it takes connections from its own sockets, obeys the master, and leaves in order.
 *
 *   running    accepting
 *   paused     (ACCEPT 0) as draining, but the sockets only stop listening, so that ACCEPT 1 makes it run again
 *   draining   (DRAIN, or the master is dead) what was queued is accepted, then the sockets close: closing
 *              resets whoever still waits there. Over when the last request is, or at the deadline
 *   aborting   (STOP, or the deadline) connections are cut; over at once
 *
 * A worker that leaves with nothing under way takes everything down in order. One that is cut off just
 * exits: its memory goes with it, and the keeper sweeps what it held as after any death.
 */
#include "edge/worker.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edge/arrival.h"
#include "edge/base/log.h"
#include "edge/listen.h"
#include "edge/message.h"
#include "edge/process.h"
#include "edge/snapshot.h"
#include "edge/tls_server.h"

enum {
	WORKER_MAGIC = 0x776f726b,
	ACCEPTS_A_TURN = 32,
	ACCEPTS_AT_END = 8192, /* more than a queue holds: newcomers can't keep us here for ever */
	ACCEPT_PAUSE_MS = 100,
	TICK_MS = 1000,
	ENDING_TICK_MS = 20,
	ABORT_MS = 500,
	/* A user's pipes may take 64 MiB together (pipe-user-pages-soft), and each wants to have 1 MiB. */
	PIPES_OF_USER = 60,
	PIPES_MOST = 16,
	PIPES_LEAST = 4,
	CERTIFICATES_A_STEP = 4, /* read while traffic waits: less than a millisecond */
};

struct worker_listener {
	struct watch watch;
	struct worker_process *process;
	/* The address is what it was at the start; the texts are the current snapshot's. */
	struct conf_listener conf;
};

struct worker_process {
	struct worker w;
	const struct process *given;
	struct snapshot snapshot;
	int error_fd;
	struct watch ipc;
	struct worker_listener listeners[CONF_LISTENERS_MAX];
	struct timer tick, deadline, resume;
	struct tls_server *offered_tls; /* of the snapshot on offer */
	struct ready load;		/* goes on with it */
	bool leaving;			/* else, when it is draining, it is only paused */
	bool aborting;
};

static void drain(struct worker_process *p, uint64_t timeout_ms);
static void abort_connections(struct worker_process *p);
static void end_if_idle(struct worker_process *p);

/* --- accepting ---------------------------------------------------------------------------------- */

static void want_connections(struct worker_process *p, unsigned events)
{
	for (size_t i = 0; i < p->w.conf->listener_count; i++) {
		if (p->listeners[i].watch.handle != NULL)
			watch_want(&p->listeners[i].watch, events);
	}
}

/* Out of descriptors or memory: without a pause the loop would spin on sockets that stay readable. */
static void pause_accepting(struct worker_process *p, int error)
{
	log_error("accept_failed", "error=%d pause_ms=%d", error, ACCEPT_PAUSE_MS);
	want_connections(p, 0);
	timer_set(&p->resume, ACCEPT_PAUSE_MS);
}

static void on_resume(struct timer *t)
{
	struct worker_process *p = CONTAINER_OF(t, struct worker_process, resume);

	if (!p->w.draining)
		want_connections(p, WATCH_READ);
}

/* The limit is the node's: all workers' open connections count. */
static bool node_is_full(const struct worker_process *p)
{
	uint64_t limit = p->w.conf->limits.connections, open = 0;

	if (limit == 0)
		return false;
	for (unsigned i = 0; i < stats_workers(p->given->stats); i++) {
		struct stats_gauges g;

		stats_worker_get(p->given->stats, i, &g);
		open += g.connections;
	}
	return open >= limit;
}

/* Best effort: what doesn't fit into an empty send buffer isn't waited for. Over TLS nothing could be said without a
 * handshake, which is dearer than what is refused. */
static void tell_full(const struct worker *w, const struct conf_listener *l, int fd)
{
	static const char body[] = "Too many connections.\n";
	char text[512];
	int n = snprintf(text, sizeof(text),
			 "HTTP/1.1 503 Service Unavailable\r\n"
			 "Proxy-Status: %.*s; error=connection_limit_reached\r\n"
			 "Retry-After: 1\r\nContent-Type: text/plain\r\n"
			 "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
			 VIEW_ARG(w->conf->name), sizeof(body) - 1, body);

	if (!l->tls && n > 0 && (size_t)n < sizeof(text))
		(void)send(fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)shutdown(fd, SHUT_WR);
}

static void count_connections(struct worker *w)
{
	stats_set(&w->stats->gauges.connections, w->connection_count);
}

static void take_connection(struct worker_listener *l, int fd, const struct sock_addr *peer)
{
	struct worker_process *p = l->process;

	stats_add(&p->w.stats->gauges.accepted, 1);
	if (node_is_full(p)) {
		tell_full(&p->w, &l->conf, fd);
		close(fd);
		return;
	}
	arrival_open(&p->w, fd, peer, &l->conf);
	count_connections(&p->w);
}

/* False: nothing more can be taken now. */
static bool accept_one(struct worker_listener *l)
{
	struct sock_addr peer = { .len = sizeof(peer) - offsetof(struct sock_addr, any) };
	int fd = accept4(l->watch.fd, &peer.any, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		take_connection(l, fd, &peer);
		return true;
	}
	if (errno == EAGAIN)
		return false;
	if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		pause_accepting(l->process, errno);
		return false;
	}
	return errno != EINVAL; /* paused; else that connection is gone (ECONNABORTED and its like) */
}

static void on_listener(struct watch *watch, unsigned events)
{
	struct worker_listener *l = CONTAINER_OF(watch, struct worker_listener, watch);

	(void)events;
	for (unsigned i = 0; i < ACCEPTS_A_TURN && accept_one(l); i++)
		;
}

static int open_listeners(struct worker_process *p)
{
	for (size_t i = 0; i < p->w.conf->listener_count; i++) {
		struct worker_listener *l = &p->listeners[i];
		int r = watch_open(&l->watch, p->w.loop, p->given->listen_fds[i], on_listener);

		if (r != 0)
			return r;
		l->process = p;
		l->conf = p->w.conf->listeners[i];
	}
	return 0;
}

static void close_listeners(struct worker_process *p)
{
	for (unsigned i = 0; i < CONF_LISTENERS_MAX; i++) {
		struct worker_listener *l = &p->listeners[i];

		if (l->watch.handle == NULL)
			continue;
		for (unsigned n = 0; n < ACCEPTS_AT_END && !p->aborting && accept_one(l); n++)
			;
		watch_close(&l->watch);
		close(l->watch.fd);
	}
}

/* --- leaving ---------------------------------------------------------------------------------- */

static bool idle(const struct worker *w)
{
	return w->connection_count == 0 && w->request_count == 0 && w->transfer_count == 0;
}

static void end_if_idle(struct worker_process *p)
{
	if (p->leaving && idle(&p->w))
		loop_stop(p->w.loop);
}

static void drain_clients(struct worker *w)
{
	LIST_EACH (&w->clients, at, next) {
		struct worker_client *c = LIST_ENTRY(at, struct worker_client, link);

		c->ops->drain(c);
	}
}

static struct process_entry *entry_of(const struct worker_process *p)
{
	return &p->given->board->workers[p->w.slot];
}

/* A second shutdown would stick to the socket, and to all that it accepts once it listens again. A Unix socket could not
 * be made to listen again: there newcomers wait. */
static bool can_stop(int fd)
{
	int listens = 0, family = AF_UNIX;
	socklen_t n = sizeof(listens), m = sizeof(family);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) == 0 && listens != 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &m) == 0 && family != AF_UNIX;
}

/* The kernel refuses newcomers from here on; what was queued has been accepted. */
static void pause_listening(struct worker_process *p)
{
	for (unsigned i = 0; i < CONF_LISTENERS_MAX; i++) {
		struct worker_listener *l = &p->listeners[i];

		if (l->watch.handle == NULL)
			continue;
		for (unsigned n = 0; n < ACCEPTS_AT_END && accept_one(l); n++)
			;
		if (can_stop(l->watch.fd))
			(void)shutdown(l->watch.fd, SHUT_RD);
	}
	timer_clear(&p->resume);
	want_connections(p, 0);
}

static void pause_worker(struct worker_process *p)
{
	if (p->leaving || p->w.draining)
		return;
	p->w.draining = true;
	pause_listening(p);
	drain_clients(&p->w);
	atomic_store(&entry_of(p)->accepting, 0);
}

/* Also for a worker that starts on sockets that its predecessor stopped. */
static void listen_again(struct worker_process *p)
{
	for (unsigned i = 0; i < CONF_LISTENERS_MAX; i++) {
		const struct worker_listener *l = &p->listeners[i];

		if (l->watch.handle != NULL && listen(l->watch.fd, LISTEN_BACKLOG) != 0)
			log_error("listen_failed", "error=%d", errno);
	}
	want_connections(p, WATCH_READ);
	atomic_store(&entry_of(p)->accepting, 1);
}

static void resume_worker(struct worker_process *p)
{
	if (p->leaving || !p->w.draining)
		return;
	p->w.draining = false;
	listen_again(p);
}

static void drain(struct worker_process *p, uint64_t timeout_ms)
{
	if (p->leaving)
		return;
	p->leaving = true;
	p->w.draining = true;
	atomic_store(&entry_of(p)->accepting, 0);
	drain_clients(&p->w);
	close_listeners(p);
	timer_clear(&p->resume);
	timer_set(&p->deadline, timeout_ms);
	timer_set(&p->tick, ENDING_TICK_MS);
	end_if_idle(p);
}

static void abort_connections(struct worker_process *p)
{
	if (p->aborting) {
		loop_stop(p->w.loop);
		return;
	}
	p->aborting = true;
	log_info("connections_cut", "connections=%u", p->w.connection_count);
	LIST_EACH (&p->w.clients, at, next) {
		struct worker_client *c = LIST_ENTRY(at, struct worker_client, link);

		c->ops->cut(c);
	}
	drain(p, ABORT_MS);
	timer_set(&p->deadline, ABORT_MS);
	end_if_idle(p);
}

static void on_deadline(struct timer *t)
{
	abort_connections(CONTAINER_OF(t, struct worker_process, deadline));
}

void worker_client_add(struct worker *w, struct worker_client *c, const struct worker_client_ops *ops)
{
	c->ops = ops;
	list_append(&w->clients, &c->link);
	w->connection_count++;
}

void worker_client_replaced(struct worker *w, struct worker_client *c)
{
	list_remove(&c->link);
	w->connection_count--;
}

bool worker_client_admit(struct worker *w, const struct conf_listener *l, int fd,
			 const struct sock_addr *client)
{
	struct peers *peers = CONTAINER_OF(w, struct worker_process, w)->given->peers;
	uint32_t limit = w->conf->limits.connections_per_client;

	if (limit != 0 && peers_count(peers, client) >= limit) {
		tell_full(w, l, fd);
		return false;
	}
	peers_add(peers, w->slot, client);
	return true;
}

void worker_client_gone(struct worker *w, struct worker_client *c, const struct sock_addr *client)
{
	CHECK_MAGIC(w, WORKER_MAGIC);
	if (c != NULL)
		worker_client_replaced(w, c);
	if (client != NULL)
		peers_remove(CONTAINER_OF(w, struct worker_process, w)->given->peers, w->slot, client);
	count_connections(w);
	end_if_idle(CONTAINER_OF(w, struct worker_process, w));
}

void worker_transfer_gone(struct worker *w)
{
	CHECK_MAGIC(w, WORKER_MAGIC);
	end_if_idle(CONTAINER_OF(w, struct worker_process, w));
}

/* --- the master's word --------------------------------------------------------------------------- */

static bool speaks_tls(const struct conf *c)
{
	for (size_t i = 0; i < c->listener_count; i++)
		if (c->listeners[i].tls)
			return true;
	return false;
}

static void tell_expiry(struct worker *w)
{
	for (size_t i = 0; i < w->conf->site_count; i++) {
		const struct conf_site *site = &w->conf->sites[i];
		int64_t at = w->tls != NULL ? tls_server_expiry(w->tls, site) : 0;

		stats_set(&w->stats->certificate_expires_s[site->slot], (uint64_t)at);
	}
}

/* Without TLS there is nothing to make. The master has checked the certificates: what fails here is memory. */
static int begin_certificates(struct worker_process *p, struct conf *c)
{
	if (!speaks_tls(c))
		return 0;
	p->offered_tls = tls_server_new(c, p->given->tickets, p->w.tls);
	return p->offered_tls != NULL ? 0 : -ENOMEM;
}

static void use_certificates(struct worker_process *p)
{
	tls_server_unref(p->w.tls);
	p->w.tls = p->offered_tls;
	p->offered_tls = NULL;
	tell_expiry(&p->w);
}

/* Those that the worker starts with: nobody is served yet. */
static int load_certificates(struct worker_process *p)
{
	int r = begin_certificates(p, p->w.conf);

	if (r == 0 && p->offered_tls != NULL)
		r = tls_server_load(p->offered_tls, SIZE_MAX);
	if (r == 0)
		use_certificates(p);
	return r;
}

static void drop_certificates(struct worker_process *p)
{
	ready_cancel(&p->load);
	tls_server_unref(p->offered_tls);
	p->offered_tls = NULL;
}

/* A thousand new ones take a fifth of a second. */
static void load_some(struct ready *ready)
{
	struct worker_process *p = CONTAINER_OF(ready, struct worker_process, load);
	int r = tls_server_load(p->offered_tls, CERTIFICATES_A_STEP);

	if (r == 1) {
		ready_post(&p->load);
		return;
	}
	if (r != 0)
		drop_certificates(p);
	snapshot_built(&p->snapshot, r);
}

static int offer_came(struct snapshot *s)
{
	struct worker_process *p = CONTAINER_OF(s, struct worker_process, snapshot);
	int r = begin_certificates(p, s->offered);

	if (r != 0 || p->offered_tls == NULL)
		return r;
	ready_post(&p->load);
	return -EAGAIN;
}

static void offer_dropped(struct snapshot *s)
{
	drop_certificates(CONTAINER_OF(s, struct worker_process, snapshot));
}

static void use_snapshot(struct snapshot *s)
{
	struct worker_process *p = CONTAINER_OF(s, struct worker_process, snapshot);
	struct conf *before = p->w.conf;

	p->w.conf = conf_ref(p->snapshot.conf);
	use_certificates(p);
	for (size_t i = 0; i < p->w.conf->listener_count; i++)
		p->listeners[i].conf = p->w.conf->listeners[i];
	access_log_use_format(p->w.access, p->w.conf->access_combined);
	origin_pool_use(p->w.origins, p->w.conf);
	conf_unref(before);
}

static void use_logs(struct snapshot *s)
{
	struct worker_process *p = CONTAINER_OF(s, struct worker_process, snapshot);
	access_log_use_fd(p->w.access, p->snapshot.logs.access_fd);
	p->snapshot.logs.access_fd = -1;
	snapshot_use_error_log(&p->snapshot, &p->error_fd);
}

static void orphaned(struct worker_process *p)
{
	log_error("master_gone", "connections=%u", p->w.connection_count);
	watch_close(&p->ipc);
	if (p->w.cache != NULL)
		cache_stop_storing(p->w.cache);
	drain(p, p->w.conf->shutdown_timeout_ms);
}

static void obey(struct snapshot *s, const struct ipc_message *m)
{
	struct worker_process *p = CONTAINER_OF(s, struct worker_process, snapshot);
	struct message_drain body = { 0 };
	struct message_accept wish = { 0 };

	if (m->type == MESSAGE_ACCEPT && m->body_bytes == sizeof(wish)) {
		memcpy(&wish, m->body, sizeof(wish));
		if (wish.accept)
			resume_worker(p);
		else
			pause_worker(p);
	} else if (m->type == MESSAGE_STOP) {
		abort_connections(p);
	} else if (m->type == MESSAGE_DRAIN && m->body_bytes == sizeof(body)) {
		memcpy(&body, m->body, sizeof(body));
		drain(p, body.timeout_ms);
	}
}

static const struct snapshot_user user = { offer_came, offer_dropped, use_snapshot, use_logs, obey };

static void on_ipc(struct watch *watch, unsigned events)
{
	struct worker_process *p = CONTAINER_OF(watch, struct worker_process, ipc);
	int r = snapshot_receive(&p->snapshot, &user);

	(void)events;
	if (r != 0)
		orphaned(p);
}

static void count_origin_handshakes(struct worker *w)
{
	struct origin_tls_counts counts = origin_pool_take_tls_counts(w->origins);

	stats_add(&w->stats->gauges.origin_tls_handshakes, counts.handshakes);
	stats_add(&w->stats->gauges.origin_tls_resumed, counts.resumed);
	stats_add(&w->stats->gauges.origin_tls_failures, counts.failures);
}

static void count_hot_objects(struct worker *w)
{
	struct cache_hot_counts counts = { 0 };

	if (w->cache != NULL)
		counts = cache_take_hot_counts(w->cache);
	stats_add(&w->stats->gauges.hot_hits, counts.hits);
	stats_set(&w->stats->gauges.hot_bytes, counts.bytes);
}

static void on_tick(struct timer *t)
{
	struct worker_process *p = CONTAINER_OF(t, struct worker_process, tick);
	struct worker *w = &p->w;
	unsigned idle_count, busy_count;

	timer_set(t, p->leaving ? ENDING_TICK_MS : TICK_MS);
	access_log_flush(w->access);
	stats_loop_lag(w->stats, loop_take_lag_us(w->loop));
	origin_pool_counts(w->origins, &idle_count, &busy_count);
	stats_set(&w->stats->gauges.origin_idle, idle_count);
	stats_set(&w->stats->gauges.origin_busy, busy_count);
	count_origin_handshakes(w);
	count_hot_objects(w);
	stats_set(&w->stats->gauges.requests, w->request_count);
	stats_set(&w->stats->gauges.fills, w->transfer_count);
	stats_set(&w->stats->gauges.tunnels, w->tunnel_count);
	end_if_idle(p);
}

/* --- life ------------------------------------------------------------------------------------- */

static int open_pipes(struct worker *w)
{
	unsigned share = PIPES_OF_USER / w->conf->workers;
	unsigned limit = share > PIPES_MOST    ? PIPES_MOST
			 : share < PIPES_LEAST ? PIPES_LEAST
					       : share;
	int r = pipe_pool_init(&w->pipes, limit);

	if (r != 0)
		return r;
	w->fill_pipe = pipe_take(&w->pipes);
	return w->fill_pipe != NULL ? 0 : -EMFILE;
}

/* Without the cache everything is relayed: dear, but better than no answer. */
static void attach(struct worker_process *p)
{
	const struct process *given = p->given;
	int r = cache_attach(given->cache_shared, &given->cache_conf, p->w.loop, given->slot,
			     &p->w.cache);

	if (r != 0) {
		log_error("cache_not_attached", "error=%d", -r);
		p->w.cache = NULL;
	}
}

static int open_parts(struct worker_process *p)
{
	const struct process *given = p->given;
	struct worker *w = &p->w;
	int r;

	list_init(&w->clients);
	if (getrandom(w->boot_secret, sizeof(w->boot_secret), 0) != (ssize_t)sizeof(w->boot_secret))
		return -EIO;
	w->loop = loop_new();
	w->access = access_log_new(given->access_fd, w->conf->access_combined);
	w->stats = stats_worker(given->stats, given->slot);
	peers_reset(given->peers, given->slot);
	if (w->loop == NULL || w->access == NULL)
		return -ENOMEM;
	r = origin_pool_new(given->origin_shared, w->loop, given->slot, &w->origins);
	if (r != 0)
		return r;
	r = open_pipes(w);
	if (r != 0)
		return r;
	attach(p);
	ready_init(&p->load, w->loop, load_some);
	return load_certificates(p);
}

static int open_events(struct worker_process *p)
{
	struct loop *l = p->w.loop;
	int r = timer_open(&p->tick, l, on_tick);

	if (r == 0)
		r = timer_open(&p->deadline, l, on_deadline);
	if (r == 0)
		r = timer_open(&p->resume, l, on_resume);
	if (r == 0)
		r = watch_open(&p->ipc, l, p->given->ipc_fd, on_ipc);
	if (r == 0)
		r = open_listeners(p);
	if (r != 0)
		return r;
	if (atomic_load(&p->given->board->draining) != 0)
		pause_worker(p);
	else
		listen_again(p);
	watch_want(&p->ipc, WATCH_READ);
	timer_set(&p->tick, TICK_MS);
	return 0;
}

static void close_parts(struct worker_process *p)
{
	struct worker *w = &p->w;

	watch_close(&p->ipc);
	drop_certificates(p);
	timer_close(&p->tick);
	timer_close(&p->deadline);
	timer_close(&p->resume);
	requests_free_kept(w);
	connections_free_kept(w);
	h2_free_kept(w);
	origin_pool_free(w->origins);
	if (w->cache != NULL)
		cache_detach(w->cache);
	pipe_give(&w->pipes, &w->fill_pipe);
	pipe_pool_fini(&w->pipes);
	loop_free(w->loop);
	tls_server_unref(w->tls);
	conf_unref(w->conf);
	snapshot_close(&p->snapshot);
}

int worker_run(const struct process *given)
{
	static struct worker_process p; /* the process's context */
	int r;

	p.w = (struct worker){ .magic = WORKER_MAGIC, .slot = given->slot };
	p.given = given;
	p.error_fd = given->error_fd;
	if (snapshot_open(&p.snapshot, given) != 0)
		return 1;
	p.w.conf = conf_ref(p.snapshot.conf);
	r = open_parts(&p);
	if (r == 0)
		r = open_events(&p);
	if (r != 0) {
		log_error("worker_not_started", "error=%d", -r);
		return 1;
	}
	loop_run(p.w.loop);
	access_log_free(p.w.access);
	if (idle(&p.w))
		close_parts(&p);
	return 0;
}
