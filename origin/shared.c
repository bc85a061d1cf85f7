/*
 * The table is anonymous shared memory and the eventfds are inherited, so both must exist before
 * the first fork. Addresses are read under a sequence lock, word by word: a reader never waits for
 * the keeper, and a keeper that died while writing leaves an odd version, which reads as «pending»
 * until its successor publishes again.
 *
 * Limits over processes without a lock: count yourself first, then sum. Two workers that race for
 * the last place may both step back; each wakes the other (shared_closed), and who waits looks
 * again after setting its bit, so the last to step back sees the room.
 */
#include "origin/shared.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "edge/base/hash.h"
#include "origin/fetch.h"

enum { ADDRESS_WORDS = sizeof(struct shared_addresses) / sizeof(uint64_t), READ_TRIES = 64 };
_Static_assert(sizeof(struct shared_addresses) % sizeof(uint64_t) == 0, "copied in words");
_Static_assert(CONF_WORKERS_MAX <= 64, "a bit per worker");

struct row {
	_Atomic uint64_t waiting, holding; /* a bit per worker */
	_Atomic uint32_t open[CONF_WORKERS_MAX];
	_Atomic uint32_t version; /* of the addresses; odd: being written */
	_Atomic uint64_t addresses[ADDRESS_WORDS];
};

struct origin_shared {
	struct row *rows; /* shared; CONF_SERVERS_MAX */
	int wake_fds[CONF_WORKERS_MAX];
};

static void wake_workers(const struct origin_shared *s, uint64_t mask);
static bool read_addresses(struct row *r, struct shared_addresses *out);
static uint64_t sum(struct row *r);
static uint64_t bit(unsigned worker);

struct origin_shared *origin_shared_new(void)
{
	struct origin_shared *s = malloc(sizeof(*s));

	if (s == NULL)
		return NULL;
	for (unsigned i = 0; i < CONF_WORKERS_MAX; i++)
		s->wake_fds[i] = -1;
	s->rows = mmap(NULL, sizeof(struct row) * CONF_SERVERS_MAX, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->rows == MAP_FAILED)
		s->rows = NULL;
	bool whole = s->rows != NULL;
	for (unsigned i = 0; i < CONF_WORKERS_MAX && whole; i++) {
		s->wake_fds[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		whole = s->wake_fds[i] >= 0;
	}
	if (whole)
		return s;
	origin_shared_free(s);
	return NULL;
}

void origin_shared_free(struct origin_shared *s)
{
	if (s == NULL)
		return;
	for (unsigned i = 0; i < CONF_WORKERS_MAX; i++) {
		if (s->wake_fds[i] >= 0)
			close(s->wake_fds[i]);
	}
	if (s->rows != NULL)
		munmap(s->rows, sizeof(struct row) * CONF_SERVERS_MAX);
	free(s);
}

uint64_t shared_identity(const struct conf_server *server)
{
	return hash_xxh3(server->url.p, server->url.n);
}

void shared_lookup(struct origin_shared *s, const struct conf_server *server,
		   struct shared_addresses *out)
{
	if (server->literal) {
		out->state = SHARED_RESOLVED;
		out->count = 1;
		out->at[0] = server->address;
		return;
	}
	if (read_addresses(&s->rows[server->slot], out) && out->identity == shared_identity(server))
		return;
	out->state = SHARED_PENDING;
	out->count = 0;
}

void shared_publish(struct origin_shared *s, unsigned server_slot, const struct shared_addresses *a)
{
	struct row *r = &s->rows[server_slot];
	uint32_t version = atomic_load_explicit(&r->version, memory_order_relaxed) | 1;
	uint64_t words[ADDRESS_WORDS];

	memcpy(words, a, sizeof(words));
	atomic_store_explicit(&r->version, version, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (unsigned i = 0; i < ADDRESS_WORDS; i++)
		atomic_store_explicit(&r->addresses[i], words[i], memory_order_relaxed);
	atomic_store_explicit(&r->version, version + 1, memory_order_seq_cst);
	wake_workers(s, atomic_exchange(&r->waiting, 0));
}

bool shared_open(struct origin_shared *s, const struct conf_server *server, unsigned worker)
{
	struct row *r = &s->rows[server->slot];

	atomic_fetch_add(&r->open[worker], 1);
	if (server->max_connections == 0 || sum(r) <= server->max_connections)
		return true;
	shared_closed(s, server->slot, worker, bit(worker));
	return false;
}

void shared_closed(struct origin_shared *s, unsigned server_slot, unsigned worker, uint64_t except)
{
	struct row *r = &s->rows[server_slot];

	CHECK(atomic_fetch_sub(&r->open[worker], 1) > 0);
	if (atomic_load(&r->waiting) & ~except)
		wake_workers(s, atomic_fetch_and(&r->waiting, except) & ~except);
}

bool shared_has_room(struct origin_shared *s, const struct conf_server *server)
{
	return server->max_connections == 0 || sum(&s->rows[server->slot]) < server->max_connections;
}

uint32_t shared_open_count(struct origin_shared *s, unsigned server_slot, unsigned worker)
{
	return atomic_load_explicit(&s->rows[server_slot].open[worker], memory_order_relaxed);
}

void shared_forget(struct origin_shared *s, unsigned worker)
{
	for (unsigned i = 0; i < CONF_SERVERS_MAX; i++) {
		struct row *r = &s->rows[i];
		atomic_fetch_and(&r->holding, ~bit(worker));
		if (atomic_exchange(&r->open[worker], 0) > 0)
			wake_workers(s, atomic_exchange(&r->waiting, 0));
	}
}

void shared_wait(struct origin_shared *s, unsigned server_slot, unsigned worker)
{
	struct row *r = &s->rows[server_slot];

	atomic_fetch_or(&r->waiting, bit(worker));
	wake_workers(s, atomic_load(&r->holding) & ~bit(worker));
}

uint64_t shared_waiting(struct origin_shared *s, unsigned server_slot)
{
	return atomic_load(&s->rows[server_slot].waiting);
}

void shared_hold_idle(struct origin_shared *s, unsigned server_slot, unsigned worker, bool holds)
{
	struct row *r = &s->rows[server_slot];

	if (holds)
		atomic_fetch_or(&r->holding, bit(worker));
	else
		atomic_fetch_and(&r->holding, ~bit(worker));
}

int shared_wake_fd(const struct origin_shared *s, unsigned worker)
{
	return s->wake_fds[worker];
}

static void wake_workers(const struct origin_shared *s, uint64_t mask)
{
	const uint64_t one = 1;

	for (; mask != 0; mask &= mask - 1) {
		int fd = s->wake_fds[__builtin_ctzll(mask)];
		if (write(fd, &one, sizeof(one)) < 0)
			continue; /* only a counter that is full can fail: it is readable then */
	}
}

static bool read_addresses(struct row *r, struct shared_addresses *out)
{
	uint64_t words[ADDRESS_WORDS];

	for (int i = 0; i < READ_TRIES; i++) {
		uint32_t before = atomic_load_explicit(&r->version, memory_order_acquire);
		for (unsigned w = 0; w < ADDRESS_WORDS; w++)
			words[w] = atomic_load_explicit(&r->addresses[w], memory_order_relaxed);
		atomic_thread_fence(memory_order_acquire);
		uint32_t after = atomic_load_explicit(&r->version, memory_order_relaxed);
		if (before != after || (before & 1))
			continue;
		memcpy(out, words, sizeof(*out));
		return true;
	}
	return false;
}

static uint64_t sum(struct row *r)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < CONF_WORKERS_MAX; i++)
		all += atomic_load(&r->open[i]);
	return all;
}

static uint64_t bit(unsigned worker)
{
	return UINT64_C(1) << worker;
}
