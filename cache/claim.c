/*
 * The claim table: who is filling what, in shared memory. See claim.h for the rules and shared.h for the states.
 *
 * A stripe's «used» word says which of its 64 slots are not FREE, so that a search touches only those; it is
 * derived from the states and made anew when a holder of the mutex died. The mutex guards taking and
 * freeing (and so the keys); all other steps are single stores of the state by the one process that may make them.
 *
 * A process keeps a small struct cache_claim for what it owns; it dies with the process, the slot is then swept by
 * (slot, generation) of the worker.
 */
#include "cache/claim.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "cache/process.h"
#include "cache/purge_clock.h"
#include "edge/base/hash.h"

enum { CLAIM_MAGIC = 0x4d49414c, LOCK_WAIT_NS = 1000000 };

struct cache_claim {
	uint32_t magic;
	uint32_t slot;
	struct cache *cache;
	uint64_t birth;
};

/* --- stripes ----------------------------------------------------------------------------------- */

int claim_table_init(struct cache_shared *s)
{
	pthread_mutexattr_t attributes;
	int r = pthread_mutexattr_init(&attributes);

	if (r != 0)
		return -r;
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	for (unsigned i = 0; i < SHARED_STRIPES && r == 0; i++)
		r = pthread_mutex_init(&s->stripes[i].mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return -r;
}

static unsigned stripe_of(const struct cache_shared *s, const uint8_t primary[16])
{
	return (unsigned)(hash_xxh3_seed(primary, 16, s->secret[0]) % SHARED_STRIPES);
}

static bool is_pending(uint32_t state)
{
	return state == CLAIM_FILLING || state == CLAIM_DONE;
}

/* A holder died. States are stored last when a slot is taken and first when it is freed, so they are true. */
static void repair(struct cache_shared *s, unsigned stripe)
{
	uint64_t used = 0;

	for (unsigned i = 0; i < SHARED_STRIPE_CLAIMS; i++) {
		struct shared_claim *at = &s->claims[stripe * SHARED_STRIPE_CLAIMS + i];

		if (atomic_load_explicit(&at->state, memory_order_acquire) != CLAIM_FREE)
			used |= (uint64_t)1 << i;
	}
	atomic_store_explicit(&s->stripes[stripe].used, used, memory_order_relaxed);
	CHECK(pthread_mutex_consistent(&s->stripes[stripe].mutex) == 0);
}

/* False: not had within a millisecond. Holders do no I/O, so that one is stopped or the machine is far behind. */
static bool lock(struct cache_shared *s, unsigned stripe)
{
	pthread_mutex_t *mutex = &s->stripes[stripe].mutex;
	struct timespec until;
	int r = pthread_mutex_trylock(mutex);

	if (r == EBUSY) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += LOCK_WAIT_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		r = pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
	}
	if (r == EOWNERDEAD)
		repair(s, stripe);
	return r == 0 || r == EOWNERDEAD;
}

static void unlock(struct cache_shared *s, unsigned stripe)
{
	CHECK(pthread_mutex_unlock(&s->stripes[stripe].mutex) == 0);
}

/* Under the mutex: state FREE first, so that a death in between leaves a slot that repair sees as free. */
static void set_free(struct cache_shared *s, uint32_t slot)
{
	atomic_store_explicit(&s->claims[slot].state, CLAIM_FREE, memory_order_release);
	atomic_fetch_and_explicit(&s->stripes[slot / SHARED_STRIPE_CLAIMS].used,
				  ~((uint64_t)1 << slot % SHARED_STRIPE_CLAIMS), memory_order_relaxed);
}

/* After the state was stored. Sequentially consistent, as in wait_for: see claim.h. */
static uint64_t take_waiting(struct shared_claim *at)
{
	return atomic_exchange_explicit(&at->waiting, 0, memory_order_seq_cst);
}

/* --- taking -------------------------------------------------------------------------------------- */

struct wanted {
	const struct cache_key *key;
	const struct cache_names *names;
	unsigned stripe;
};

static struct shared_claim *find_pending(struct cache_shared *s, const struct wanted *w);
static void wait_for(struct cache *c, uint32_t slot, struct cache_wait *wait, struct ready *wake);
static struct cache_claim *take_slot(struct cache *c, const struct wanted *w);

enum cache_claimed cache_claim_take(struct cache *c, const struct cache_key *key,
				    const struct cache_names *names, struct cache_wait *wait,
				    struct ready *wake, struct cache_claim **out)
{
	struct cache_shared *s = c->shared;
	struct wanted w = {
		.key = key,
		.names = names,
		.stripe = stripe_of(s, key->primary),
	};
	struct shared_claim *pending;
	struct cache_claim *taken = NULL;

	if (!cache_may_store(c) || !lock(s, w.stripe))
		return CACHE_CLAIM_PASS;
	pending = find_pending(s, &w);
	if (pending == NULL)
		taken = take_slot(c, &w);
	if (pending != NULL)
		wait_for(c, (uint32_t)(pending - s->claims), wait, wake);
	unlock(s, w.stripe);
	if (pending != NULL)
		return atomic_load_explicit(&pending->state, memory_order_relaxed) == CLAIM_FILLING
			       ? CACHE_CLAIM_WAIT
			       : CACHE_CLAIM_COMMIT;
	if (taken == NULL)
		return CACHE_CLAIM_PASS;
	*out = taken;
	return CACHE_CLAIM_OWNED;
}

/* A purge that names it is newer: from now on lookups skip it and its commit is refused. */
static bool supersede(struct cache_shared *s, struct shared_claim *at, const struct wanted *w)
{
	uint64_t birth = atomic_load_explicit(&at->birth, memory_order_relaxed);

	if (purge_clock_names(s, w->names, birth, NULL) == CACHE_NOT_PURGED)
		return false;
	atomic_store_explicit(&at->superseded, 1, memory_order_release);
	return true;
}

static struct shared_claim *find_pending(struct cache_shared *s, const struct wanted *w)
{
	uint64_t used = atomic_load_explicit(&s->stripes[w->stripe].used, memory_order_relaxed);
	bool purges = purge_clock_now(s) != 0; /* acquire: before the cells */

	for (; used != 0; used &= used - 1) {
		struct shared_claim *at =
			&s->claims[w->stripe * SHARED_STRIPE_CLAIMS + (unsigned)__builtin_ctzll(used)];

		if (!is_pending(atomic_load_explicit(&at->state, memory_order_acquire)) ||
		    atomic_load_explicit(&at->superseded, memory_order_relaxed))
			continue;
		if (at->secondary != w->key->secondary || memcmp(at->primary, w->key->primary, 16) != 0)
			continue;
		if (!purges || !supersede(s, at, w))
			return at;
	}
	return NULL;
}

static void fill_slot(struct cache *c, struct shared_claim *at, const struct cache_key *key,
		      uint64_t birth)
{
	uint32_t generation = atomic_load_explicit(&at->generation, memory_order_relaxed) + 1;

	/* All relaxed: the release store of the state, at the end, publishes them. */
	atomic_store_explicit(&at->generation, generation, memory_order_relaxed);
	atomic_store_explicit(&at->progress, (uint64_t)(generation & 0xffff) << 48,
			      memory_order_relaxed);
	atomic_store_explicit(&at->waiting, 0, memory_order_relaxed);
	atomic_store_explicit(&at->attached, 0, memory_order_relaxed);
	atomic_store_explicit(&at->object_id, 0, memory_order_relaxed);
	atomic_store_explicit(&at->drawn_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&at->chunks_begun, 0, memory_order_relaxed);
	atomic_store_explicit(&at->segment, 0, memory_order_relaxed);
	atomic_store_explicit(&at->owner_generation, c->generation, memory_order_relaxed);
	atomic_store_explicit(&at->owner, (uint8_t)c->slot, memory_order_relaxed);
	atomic_store_explicit(&at->superseded, 0, memory_order_relaxed);
	atomic_store_explicit(&at->kind, CLAIM_FILL, memory_order_relaxed);
	atomic_store_explicit(&at->store, 0, memory_order_relaxed);
	memcpy(at->primary, key->primary, sizeof(at->primary));
	at->secondary = key->secondary;
	atomic_store_explicit(&at->birth, birth, memory_order_relaxed);
	memset(&at->commit, 0, sizeof(at->commit));
	atomic_store_explicit(&at->state, CLAIM_FILLING, memory_order_release);
}

/* NULL: the stripe is full, or no memory. */
static struct cache_claim *take_slot(struct cache *c, const struct wanted *w)
{
	struct shared_stripe *stripe = &c->shared->stripes[w->stripe];
	uint64_t free_slots = ~atomic_load_explicit(&stripe->used, memory_order_relaxed);
	struct cache_claim *cl;
	unsigned at;

	if (free_slots == 0)
		return NULL;
	cl = malloc(sizeof(*cl));
	if (cl == NULL)
		return NULL;
	at = (unsigned)__builtin_ctzll(free_slots);
	*cl = (struct cache_claim){
		.magic = CLAIM_MAGIC,
		.slot = w->stripe * SHARED_STRIPE_CLAIMS + at,
		.cache = c,
		.birth = purge_clock_now(c->shared),
	};
	atomic_fetch_or_explicit(&stripe->used, (uint64_t)1 << at, memory_order_relaxed);
	fill_slot(c, &c->shared->claims[cl->slot], w->key, cl->birth);
	return cl;
}

/* --- waiting --------------------------------------------------------------------------------------- */

static void wait_for(struct cache *c, uint32_t slot, struct cache_wait *wait, struct ready *wake)
{
	struct shared_claim *at = &c->shared->claims[slot];

	list_remove(&wait->link);
	wait->wake = wake;
	wait->slot = slot;
	wait->generation = atomic_load_explicit(&at->generation, memory_order_relaxed);
	list_append(&c->waits, &wait->link);
	/* The bit, then the state; who ends the claim does it the other way round. Sequentially consistent,
	 * so that one of the two sees the other. */
	atomic_fetch_or_explicit(&at->waiting, (uint64_t)1 << c->slot, memory_order_seq_cst);
	if (!is_pending(atomic_load_explicit(&at->state, memory_order_seq_cst)))
		ready_post(wake);
}

void cache_wait_cancel(struct cache *c, struct cache_wait *wait)
{
	(void)c; /* the bit stays: at worst one wake-up for nothing */
	list_remove(&wait->link);
}

static bool is_over(const struct cache *c, const struct cache_wait *wait)
{
	const struct shared_claim *at = &c->shared->claims[wait->slot];

	return !is_pending(atomic_load_explicit(&at->state, memory_order_seq_cst)) ||
	       atomic_load_explicit(&at->generation, memory_order_relaxed) != wait->generation;
}

void claim_wake_waiting(struct cache *c, bool all)
{
	LIST_EACH (&c->waits, link, following) {
		struct cache_wait *wait = LIST_ENTRY(link, struct cache_wait, link);

		if (!all && !is_over(c, wait))
			continue;
		list_remove(&wait->link);
		ready_post(wait->wake);
	}
}

/* Those in this process need no eventfd. */
static void wake_after(struct cache *c, uint64_t mask)
{
	const uint64_t self = (uint64_t)1 << c->slot;

	if (mask & self)
		claim_wake_waiting(c, false);
	shared_wake_workers(c->shared, mask & ~self);
}

/* --- the owner --------------------------------------------------------------------------------------- */

static struct shared_claim *slot_of(const struct cache_claim *cl)
{
	CHECK_MAGIC(cl, CLAIM_MAGIC);
	return &cl->cache->shared->claims[cl->slot];
}

struct shared_claim *claim_slot(struct cache_claim *cl)
{
	return slot_of(cl);
}

struct cache *claim_cache(struct cache_claim *cl)
{
	return cl->cache;
}

uint64_t cache_claim_birth(const struct cache_claim *cl)
{
	return cl->birth;
}

bool claim_is_superseded(const struct cache_claim *cl)
{
	return atomic_load_explicit(&slot_of(cl)->superseded, memory_order_relaxed) != 0;
}

static void forget(struct cache_claim **cl)
{
	(*cl)->magic = 0;
	free(*cl);
	*cl = NULL;
}

/* FILLING → state by the owner. The keeper may have swept it (it took us for dead): then it is the keeper's. */
static bool leave_filling(struct cache_claim *cl, uint32_t state)
{
	uint32_t filling = CLAIM_FILLING;

	/* Sequentially consistent for the waiting bits; it also releases «commit» to the keeper. */
	return atomic_compare_exchange_strong_explicit(&slot_of(cl)->state, &filling, state,
						       memory_order_seq_cst, memory_order_relaxed);
}

void claim_done(struct cache_claim **cl)
{
	struct cache_shared *s = (*cl)->cache->shared;

	if (leave_filling(*cl, CLAIM_DONE)) {
		shared_ring_put(s, (*cl)->slot);
		shared_hint_keeper(s);
	}
	forget(cl);
}

/* FILLING → FAILED after something was written: wakes who waits; the keeper unlinks and frees. *cl is freed. */
static void claim_fail(struct cache_claim **cl)
{
	struct cache *c = (*cl)->cache;
	struct shared_claim *at = slot_of(*cl);
	uint32_t slot = (*cl)->slot;
	bool left = leave_filling(*cl, CLAIM_FAILED);

	forget(cl);
	if (!left)
		return;
	wake_after(c, take_waiting(at));
	shared_ring_put(c->shared, slot);
	shared_hint_keeper(c->shared);
}

/* Nothing written, nothing drawn, nobody attached: the slot can be freed without the keeper. */
static bool is_untouched(const struct shared_claim *at)
{
	return atomic_load_explicit(&at->chunks_begun, memory_order_relaxed) == 0 &&
	       atomic_load_explicit(&at->drawn_bytes, memory_order_relaxed) == 0 &&
	       atomic_load_explicit(&at->attached, memory_order_relaxed) == 0;
}

void cache_claim_drop(struct cache_claim **cl)
{
	struct cache_claim *claim = *cl;
	struct cache *c;
	struct shared_claim *at;
	uint64_t waiting;

	if (claim == NULL)
		return;
	c = claim->cache;
	at = slot_of(claim);
	if (!lock(c->shared, claim->slot / SHARED_STRIPE_CLAIMS)) {
		claim_fail(cl);
		return;
	}
	if (!is_untouched(at) || !leave_filling(claim, CLAIM_FAILED)) {
		unlock(c->shared, claim->slot / SHARED_STRIPE_CLAIMS);
		claim_fail(cl);
		return;
	}
	waiting = take_waiting(at);
	set_free(c->shared, claim->slot);
	unlock(c->shared, claim->slot / SHARED_STRIPE_CLAIMS);
	forget(cl);
	wake_after(c, waiting);
}

/* --- the keeper ---------------------------------------------------------------------------------------- */

int claim_next(struct cache_shared *s, uint32_t from)
{
	while (from < SHARED_CLAIMS) {
		uint64_t used = atomic_load_explicit(&s->stripes[from / SHARED_STRIPE_CLAIMS].used,
						     memory_order_relaxed);

		used &= ~(uint64_t)0 << from % SHARED_STRIPE_CLAIMS;
		from -= from % SHARED_STRIPE_CLAIMS;
		if (used != 0)
			return (int)(from + (unsigned)__builtin_ctzll(used));
		from += SHARED_STRIPE_CLAIMS;
	}
	return -ENOENT;
}

int claim_view(struct cache_shared *s, uint32_t slot, struct claim_view *out)
{
	struct shared_claim *at = &s->claims[slot];
	/* Acquire: everything that the owner wrote before it. */
	uint32_t state = atomic_load_explicit(&at->state, memory_order_acquire);

	if (state == CLAIM_FREE || state == CLAIM_FILLING)
		return -ENOENT;
	*out = (struct claim_view){
		.slot = slot,
		.state = state,
		.kind = atomic_load_explicit(&at->kind, memory_order_relaxed),
		.superseded = atomic_load_explicit(&at->superseded, memory_order_acquire) != 0,
		.store = atomic_load_explicit(&at->store, memory_order_relaxed),
		.key = { .secondary = at->secondary, .base = at->commit.base },
		.object_id = atomic_load_explicit(&at->object_id, memory_order_relaxed),
		.chunks_begun = atomic_load_explicit(&at->chunks_begun, memory_order_relaxed),
		.commit = at->commit,
	};
	memcpy(out->key.primary, at->primary, sizeof(at->primary));
	return 0;
}

static void keeper_step(struct cache_shared *s, uint32_t slot, uint32_t from, uint32_t to)
{
	struct shared_claim *at = &s->claims[slot];

	CHECK(atomic_load_explicit(&at->state, memory_order_relaxed) == from);
	atomic_store_explicit(&at->state, to, memory_order_seq_cst);
	shared_wake_workers(s, take_waiting(at));
}

void claim_committed(struct cache_shared *s, uint32_t slot)
{
	keeper_step(s, slot, CLAIM_DONE, CLAIM_COMMITTED);
}

void claim_refused(struct cache_shared *s, uint32_t slot)
{
	keeper_step(s, slot, CLAIM_DONE, CLAIM_FAILED);
}

/* Under the mutex. An owner that drops its claim passes through FAILED on its way to FREE, and the next may have it since. */
static bool may_free(const struct shared_claim *at, uint32_t *out_state)
{
	*out_state = atomic_load_explicit(&at->state, memory_order_acquire);
	return (*out_state == CLAIM_COMMITTED || *out_state == CLAIM_FAILED) &&
	       atomic_load_explicit(&at->attached, memory_order_acquire) == 0;
}

int claim_free(struct cache_shared *s, uint32_t slot)
{
	struct shared_claim *at = &s->claims[slot];
	unsigned stripe = slot / SHARED_STRIPE_CLAIMS;
	uint32_t state;
	uint64_t drawn;

	if (!lock(s, stripe))
		return -EBUSY;
	if (!may_free(at, &state)) {
		unlock(s, stripe);
		return -EBUSY;
	}
	drawn = atomic_exchange_explicit(&at->drawn_bytes, 0, memory_order_relaxed);
	if (state == CLAIM_FAILED && drawn != 0) {
		struct shared_store *st =
			&s->stores[atomic_load_explicit(&at->store, memory_order_relaxed)];

		atomic_fetch_add_explicit(&st->free_bytes, (int64_t)drawn, memory_order_relaxed);
	}
	set_free(s, slot);
	unlock(s, stripe);
	return 0;
}

bool claim_segment_busy(struct cache_shared *s, unsigned store, uint32_t segment)
{
	for (int slot = claim_next(s, 0); slot >= 0; slot = claim_next(s, (uint32_t)slot + 1)) {
		struct shared_claim *at = &s->claims[slot];

		if (atomic_load_explicit(&at->segment, memory_order_seq_cst) == segment &&
		    atomic_load_explicit(&at->store, memory_order_relaxed) == store &&
		    is_pending(atomic_load_explicit(&at->state, memory_order_acquire)))
			return true;
	}
	return false;
}

static void sweep_claim(struct cache_shared *s, uint32_t slot, unsigned worker, uint32_t dead_below,
			bool bits)
{
	struct shared_claim *at = &s->claims[slot];
	uint32_t filling = CLAIM_FILLING;
	const uint64_t bit = (uint64_t)1 << worker;

	if (bits) {
		atomic_fetch_and_explicit(&at->waiting, ~bit, memory_order_relaxed);
		atomic_fetch_and_explicit(&at->attached, ~bit, memory_order_release);
	}
	if (atomic_load_explicit(&at->owner, memory_order_relaxed) != worker ||
	    atomic_load_explicit(&at->owner_generation, memory_order_relaxed) >= dead_below)
		return;
	if (!atomic_compare_exchange_strong_explicit(&at->state, &filling, CLAIM_FAILED,
						     memory_order_seq_cst, memory_order_relaxed))
		return;
	shared_wake_workers(s, take_waiting(at));
	shared_ring_put(s, slot);
}

static void sweep_stripe(struct cache_shared *s, unsigned stripe, unsigned worker,
			 uint32_t dead_below, bool bits)
{
	uint64_t used = atomic_load_explicit(&s->stripes[stripe].used, memory_order_relaxed);

	for (; used != 0; used &= used - 1)
		sweep_claim(s, stripe * SHARED_STRIPE_CLAIMS + (unsigned)__builtin_ctzll(used),
			    worker, dead_below, bits);
}

bool claim_sweep_worker(struct cache_shared *s, unsigned worker)
{
	/* Generation before pid: a successor that attaches in between raises the one and sets the other, and is
	 * then taken for alive, with only its predecessors' claims swept and its bits left alone. */
	uint32_t generation = atomic_load_explicit(&s->workers[worker].generation, memory_order_seq_cst);
	bool gone = atomic_load_explicit(&s->workers[worker].pid, memory_order_seq_cst) == 0;
	bool all = true;

	for (unsigned stripe = 0; stripe < SHARED_STRIPES; stripe++) {
		if (atomic_load_explicit(&s->stripes[stripe].used, memory_order_relaxed) == 0)
			continue;
		/* The mutex, so that the slot isn't freed and taken by another between look and step. */
		if (!lock(s, stripe)) {
			all = false;
			continue;
		}
		sweep_stripe(s, stripe, worker, gone ? generation + 1 : generation, gone);
		unlock(s, stripe);
	}
	shared_hint_keeper(s);
	return all;
}

bool claim_known(struct cache_shared *s, const uint8_t primary[16])
{
	unsigned stripe = stripe_of(s, primary);
	uint64_t used;
	bool found = false;

	if (!lock(s, stripe))
		return true; /* can't tell: a purge too many costs a fetch */
	used = atomic_load_explicit(&s->stripes[stripe].used, memory_order_relaxed);
	for (; used != 0 && !found; used &= used - 1) {
		struct shared_claim *at =
			&s->claims[stripe * SHARED_STRIPE_CLAIMS + (unsigned)__builtin_ctzll(used)];

		found = is_pending(atomic_load_explicit(&at->state, memory_order_acquire)) &&
			memcmp(at->primary, primary, 16) == 0;
	}
	unlock(s, stripe);
	return found;
}

unsigned cache_claims_held(const struct cache_shared *s)
{
	unsigned held = 0;

	for (unsigned i = 0; i < SHARED_STRIPES; i++)
		held += (unsigned)__builtin_popcountll(
			atomic_load_explicit(&s->stripes[i].used, memory_order_relaxed));
	return held;
}
