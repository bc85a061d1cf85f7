/*
 * Idle connections, and who waits for one.
 *
 * Is an idle connection quiet? Bytes that an origin sends without being asked would be read as the
 * next request's answer. Idle connections are watched, so what arrived before the last poll has
 * closed them by the time readies run. Hence pool_take asks the kernel (MSG_PEEK) only for a
 * connection that became idle in this very turn, and must be called from a ready or a timer, never
 * from a watch's callback, when events of the same poll may be outstanding. What arrives
 * after the poll is as unknowable as what is still on the wire; a look at the socket for each
 * request would narrow that gap by microseconds and cost a system call in four.
 *
 * max_connections counts idle connections too, of all workers. A worker that waits says so
 * (shared_wait); others then close idle connections for it, and close instead of keeping what they
 * finish with, as long as they have more than their share. Else the worker that happened to get
 * all connections first would keep them, and all requests of the others would fail.
 */
#include "origin/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "origin/tls.h"

enum {
	POOL_MAGIC = 0x706f6f6c,
	CONNECTION_MAGIC = 0x6f636f6e,
	WAITERS_MAX = 1024,
	BUFFERS_KEPT = 32,
	RETRY_MS = 10,
};

static void on_wake(struct watch *w, unsigned events);
static void on_retry(struct timer *t);
static void on_idle_timeout(struct timer *t);
static bool open_one(struct origin_pool *p, const struct conf_server *server);
static void close_idle(struct origin_pool *p, struct pool_server *s);
static void unlink_idle(struct origin_connection *c);
static void retire(struct origin_connection *c);
static bool quiet(const struct origin_connection *c);
static void close_connection(struct origin_connection *c, uint64_t except);
static uint64_t others_wait(struct origin_pool *p, unsigned server_slot);
static bool must_yield(struct origin_pool *p, const struct conf_server *server);
static bool wake_waiter(struct origin_pool *p, unsigned server_slot);
static void wake_all_waiters(struct origin_pool *p);

/* --- the pool ------------------------------------------------------------------------------ */

int origin_pool_new(struct origin_shared *s, struct loop *l, unsigned slot, struct origin_pool **out)
{
	struct origin_pool *p = calloc(1, sizeof(*p));

	CHECK(slot < CONF_WORKERS_MAX);
	if (p == NULL)
		return -ENOMEM;
	*p = (struct origin_pool){ .magic = POOL_MAGIC, .shared = s, .loop = l, .slot = slot };
	list_init(&p->waiters);
	list_init(&p->tls_contexts);
	for (unsigned i = 0; i < CONF_SERVERS_MAX; i++)
		list_init(&p->servers[i].idle);
	int result = watch_open(&p->wake, l, shared_wake_fd(s, slot), on_wake);
	if (result == 0)
		result = timer_open(&p->retry, l, on_retry);
	if (result != 0) {
		watch_close(&p->wake);
		free(p);
		return result;
	}
	watch_want(&p->wake, WATCH_READ);
	shared_forget(s, slot);
	*out = p;
	return 0;
}

void origin_pool_free(struct origin_pool *p)
{
	if (p == NULL)
		return;
	CHECK_MAGIC(p, POOL_MAGIC);
	CHECK(p->busy_count == 0 && list_empty(&p->waiters)); /* fetches are freed before */
	for (unsigned i = 0; i < CONF_SERVERS_MAX; i++) {
		while (p->servers[i].idle_count > 0)
			close_idle(p, &p->servers[i]);
		origin_tls_forget_session(&p->servers[i]);
	}
	origin_tls_forget_contexts(p, NULL);
	for (size_t i = 0; i < POOL_BUFFER_SIZES; i++) {
		while (p->buffers[i].first != NULL) {
			struct buffer *b = p->buffers[i].first;
			p->buffers[i].first = b->next;
			free(b);
		}
	}
	fetch_free_kept(p);
	watch_close(&p->wake);
	timer_close(&p->retry);
	free(p);
}

void origin_pool_counts(const struct origin_pool *p, unsigned *out_idle, unsigned *out_busy)
{
	*out_idle = p->idle_count;
	*out_busy = p->busy_count;
}

struct pool_server *pool_server(struct origin_pool *p, const struct conf_server *server)
{
	struct pool_server *s = &p->servers[server->slot];
	uint64_t identity = shared_identity(server);

	if (s->identity == identity)
		return s;
	while (s->idle_count > 0)
		close_idle(p, s);
	origin_tls_forget_session(s);
	s->identity = identity;
	s->good_address = 0;
	s->choose = (struct choose_state){ 0 };
	return s;
}

static struct choose_state *state_of(void *arg, const struct conf_server *server)
{
	return &pool_server(arg, server)->choose;
}

static bool is_full(void *arg, const struct conf_server *server)
{
	struct origin_pool *p = arg;

	return pool_server(p, server)->idle_count == 0 && !shared_has_room(p->shared, server);
}

struct choose_view pool_choose_view(struct origin_pool *p)
{
	return (struct choose_view){ .state = state_of, .full = is_full, .arg = p };
}

/* --- connections ----------------------------------------------------------------------------- */

static uint64_t tls_identity(const struct conf_origin *o, const struct conf_server *server)
{
	return server->tls ? o->tls_identity : 0;
}

struct origin_connection *pool_take(struct origin_pool *p, const struct conf_origin *o,
				    const struct conf_server *server)
{
	struct pool_server *s = pool_server(p, server);

	while (s->idle_count > 0) {
		struct origin_connection *c = LIST_ENTRY(s->idle.next, struct origin_connection, link);
		unlink_idle(c);
		p->busy_count++;
		if (c->tls_identity == tls_identity(o, server) &&
		    (c->idle_turn != loop_turn(p->loop) || quiet(c)))
			return c;
		pool_close(p, &c);
	}
	return NULL;
}

int pool_dial(struct origin_pool *p, const struct conf_origin *o, const struct conf_server *server,
	      const struct sock_addr *to, struct origin_connection **out)
{
	struct origin_connection *c = calloc(1, sizeof(*c));
	int result;

	if (c == NULL)
		return -ENOMEM;
	*c = (struct origin_connection){ .magic = CONNECTION_MAGIC,
					 .fd = -1,
					 .pool = p,
					 .identity = shared_identity(server),
					 .tls_identity = tls_identity(o, server),
					 .server_slot = server->slot,
					 .limited = server->max_connections > 0 };
	list_init(&c->link);
	if (!open_one(p, server)) {
		free(c);
		return -EUSERS;
	}
	p->busy_count++;
	result = c->fd = sock_dial(to);
	io_plain_init(&c->plain, c->fd);
	c->io = &c->plain;
	if (c->fd >= 0)
		result = watch_open(&c->watch, p->loop, c->fd, pool_idle_event);
	if (result != 0) {
		pool_close(p, &c);
		return result;
	}
	*out = c;
	return 0;
}

/* In place of an idle one, if need be: who dials doesn't trust those (a retry). */
static bool open_one(struct origin_pool *p, const struct conf_server *server)
{
	struct pool_server *s = pool_server(p, server);

	if (shared_open(p->shared, server, p->slot))
		return true;
	if (s->idle_count == 0)
		return false;
	close_idle(p, s);
	return shared_open(p->shared, server, p->slot);
}

/* Opened when it is idle for the first time: many connections never are. */
static bool has_timer(struct origin_connection *c)
{
	return c->timer.handle != NULL || timer_open(&c->timer, c->pool->loop, on_idle_timeout) == 0;
}

void pool_give(struct origin_pool *p, struct origin_connection **taken, const struct conf_origin *o,
	       const struct conf_server *server)
{
	struct origin_connection *c = *taken;
	struct pool_server *s = pool_server(p, server);

	CHECK_MAGIC(c, CONNECTION_MAGIC);
	if (s->idle_count >= o->max_idle || s->identity != c->identity || !has_timer(c)) {
		pool_close(p, taken);
		return;
	}
	if (c->limited && must_yield(p, server)) {
		*taken = NULL;
		p->busy_count--;
		close_connection(c, UINT64_C(1) << p->slot);
		return;
	}
	*taken = NULL;
	p->busy_count--;
	p->idle_count++;
	c->idle_turn = loop_turn(p->loop);
	list_prepend(&s->idle, &c->link);
	watch_want(&c->watch, WATCH_READ);
	timer_set(&c->timer, o->idle_ms);
	if (s->idle_count++ == 0 && c->limited)
		shared_hold_idle(p->shared, c->server_slot, p->slot, true);
	if (c->limited)
		(void)wake_waiter(p, c->server_slot);
}

void pool_close(struct origin_pool *p, struct origin_connection **taken)
{
	struct origin_connection *c = *taken;

	*taken = NULL;
	if (c == NULL)
		return;
	p->busy_count--;
	close_connection(c, 0);
}

void pool_idle_event(struct watch *w, unsigned events)
{
	struct origin_connection *c = CONTAINER_OF(w, struct origin_connection, watch);

	if (pool_over_tls(c) && !(events & WATCH_ERROR) && quiet(c))
		return; /* session tickets */
	/* An end, an error, or bytes that nobody asked for. */
	unlink_idle(c);
	close_connection(c, 0);
}

static void on_idle_timeout(struct timer *t)
{
	retire(CONTAINER_OF(t, struct origin_connection, timer));
}

/* The one that was idle longest. */
static void close_idle(struct origin_pool *p, struct pool_server *s)
{
	struct origin_connection *c = LIST_ENTRY(s->idle.prev, struct origin_connection, link);

	CHECK(c->pool == p);
	retire(c);
}

/* We have no more use for an idle one. */
static void retire(struct origin_connection *c)
{
	unlink_idle(c);
	if (pool_over_tls(c))
		c->io->ops->end(c->io);
	close_connection(c, 0);
}

static void unlink_idle(struct origin_connection *c)
{
	CHECK_MAGIC(c, CONNECTION_MAGIC);
	struct origin_pool *p = c->pool;
	struct pool_server *s = &p->servers[c->server_slot];

	list_remove(&c->link);
	timer_clear(&c->timer);
	p->idle_count--;
	if (--s->idle_count == 0 && c->limited)
		shared_hold_idle(p->shared, c->server_slot, p->slot, false);
}

/* With TLS this deals with what isn't payload. Where it has to answer (new keys), it isn't quiet. */
static bool quiet(const struct origin_connection *c)
{
	char byte;

	return c->io->ops->read(c->io, &byte, 1) == -EAGAIN && c->io->wait == WATCH_READ &&
	       !c->io->closing;
}

static void close_connection(struct origin_connection *c, uint64_t except)
{
	CHECK_MAGIC(c, CONNECTION_MAGIC);
	struct origin_pool *p = c->pool;

	watch_close(&c->watch);
	timer_close(&c->timer);
	if (c->io != NULL)
		c->io->ops->free(c->io);
	if (c->fd >= 0)
		close(c->fd);
	shared_closed(p->shared, c->server_slot, p->slot, except);
	c->magic = 0;
	free(c);
}

void origin_pool_use(struct origin_pool *p, const struct conf *conf)
{
	CHECK_MAGIC(p, POOL_MAGIC);
	origin_tls_forget_contexts(p, conf);
}

/* --- waiting ---------------------------------------------------------------------------------- */

int pool_wait(struct origin_pool *p, struct pool_waiter *w)
{
	if (list_linked(&w->link))
		return 0;
	if (p->waiter_count == WAITERS_MAX)
		return -EUSERS;
	p->waiter_count++;
	list_append(&p->waiters, &w->link);
	return 0;
}

bool pool_line(const struct origin_pool *p, const struct pool_waiter *w)
{
	LIST_EACH (&p->waiters, at, following) {
		if (at == &w->link)
			return false;
		if (LIST_ENTRY(at, struct pool_waiter, link)->origin == w->origin)
			return true;
	}
	return false;
}

void pool_ask(struct origin_pool *p, const struct pool_waiter *w)
{
	const struct conf_origin *o = w->origin;

	for (size_t i = 0; i < o->server_count; i++) {
		if (o->servers[i].max_connections > 0 || !o->servers[i].literal)
			shared_wait(p->shared, o->servers[i].slot, p->slot);
	}
}

bool pool_has_room(const struct origin_pool *p, const struct pool_waiter *w)
{
	const struct conf_origin *o = w->origin;
	bool room = false;

	for (size_t i = 0; i < o->server_count && !room; i++)
		room = p->servers[o->servers[i].slot].idle_count > 0 ||
		       shared_has_room(p->shared, &o->servers[i]);
	return room;
}

void pool_leave(struct origin_pool *p, struct pool_waiter *w)
{
	if (!list_linked(&w->link))
		return;
	list_remove(&w->link);
	p->waiter_count--;
	LIST_EACH (&p->waiters, at, following) {
		struct pool_waiter *next = LIST_ENTRY(at, struct pool_waiter, link);
		if (next->origin != w->origin)
			continue;
		machine_wake(next->machine);
		return;
	}
}

/* Another process has made room, resolved a name, or waits for what we hold. */
static void on_wake(struct watch *w, unsigned events)
{
	struct origin_pool *p = CONTAINER_OF(w, struct origin_pool, wake);
	uint64_t ignored;

	(void)events;
	CHECK_MAGIC(p, POOL_MAGIC);
	if (read(w->fd, &ignored, sizeof(ignored)) < 0 && errno == EAGAIN)
		return;
	for (unsigned i = 0; i < CONF_SERVERS_MAX; i++) {
		struct pool_server *s = &p->servers[i];
		if (s->idle_count > 0 && others_wait(p, i))
			close_idle(p, s);
	}
	wake_all_waiters(p);
}

static void on_retry(struct timer *t)
{
	wake_all_waiters(CONTAINER_OF(t, struct origin_pool, retry));
}

/* Those of other workers; only limited servers are waited for. */
static uint64_t others_wait(struct origin_pool *p, unsigned server_slot)
{
	return shared_waiting(p->shared, server_slot) & ~(UINT64_C(1) << p->slot);
}

/* Another worker waits, and we have nobody who does or more than our share. */
static bool must_yield(struct origin_pool *p, const struct conf_server *server)
{
	uint64_t others = others_wait(p, server->slot);

	if (others == 0)
		return false;
	uint64_t ours = shared_open_count(p->shared, server->slot, p->slot);
	uint64_t sharers = 1 + (uint64_t)__builtin_popcountll(others);
	if (ours * sharers <= server->max_connections && wake_waiter(p, server->slot))
		return false;
	if (!list_empty(&p->waiters))
		timer_set(&p->retry, RETRY_MS); /* in case the other doesn't want it any more */
	return true;
}

static bool wake_waiter(struct origin_pool *p, unsigned server_slot)
{
	LIST_EACH (&p->waiters, at, following) {
		struct pool_waiter *w = LIST_ENTRY(at, struct pool_waiter, link);
		for (size_t i = 0; i < w->origin->server_count; i++) {
			if (w->origin->servers[i].slot != server_slot)
				continue;
			machine_wake(w->machine);
			return true;
		}
	}
	return false;
}

/* The first of each origin (of each run of one); the next follows when that one leaves the line. */
static void wake_all_waiters(struct origin_pool *p)
{
	const struct conf_origin *woken = NULL;

	LIST_EACH (&p->waiters, at, following) {
		struct pool_waiter *w = LIST_ENTRY(at, struct pool_waiter, link);
		if (w->origin == woken)
			continue;
		woken = w->origin;
		machine_wake(w->machine);
	}
}

/* --- buffers ---------------------------------------------------------------------------------- */

/* The free ones of this size; NULL: such aren't kept. */
static struct pool_buffers *kept_buffers(struct origin_pool *p, size_t capacity)
{
	if (capacity == POOL_SMALL_BYTES)
		return &p->buffers[0];
	return capacity == POOL_BUFFER_BYTES ? &p->buffers[1] : NULL;
}

struct buffer *pool_buffer(struct origin_pool *p, size_t bytes)
{
	size_t least = bytes > POOL_SMALL_BYTES ? POOL_BUFFER_BYTES : POOL_SMALL_BYTES;
	size_t capacity = bytes > least ? bytes : least;
	struct pool_buffers *kept = kept_buffers(p, capacity);
	struct buffer *b = kept != NULL ? kept->first : NULL;

	if (b != NULL) {
		kept->first = b->next;
		kept->count--;
	} else {
		b = malloc(sizeof(*b) + capacity);
		if (b == NULL)
			return NULL;
		b->capacity = capacity;
	}
	b->next = NULL;
	b->begin = b->end = 0;
	return b;
}

void pool_buffer_give(struct origin_pool *p, struct buffer **given)
{
	struct buffer *b = *given;
	struct pool_buffers *kept;

	*given = NULL;
	if (b == NULL)
		return;
	kept = kept_buffers(p, b->capacity);
	if (kept == NULL || kept->count == BUFFERS_KEPT) {
		free(b);
		return;
	}
	b->next = kept->first;
	kept->first = b;
	kept->count++;
}
