/*
 * One process's view of the cache: attaching to the shared memory, looking up keys, and the wake-ups.
 *
 * The index is a map of a file, so it is read under a guard (guard.h): a fault costs the store, not the worker, which would
 * otherwise die again of the next request for the same key.
 *
 * An index is opened at the first lookup after its store came into service (LMDB handles must not cross a fork), and anew
 * when the keeper put another in its place.
 */
#include "cache/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/claim.h"
#include "cache/fill.h"
#include "cache/guard.h"
#include "cache/process.h"
#include "cache/purge_clock.h"
#include "edge/base/hash.h"

/* --- waking ---------------------------------------------------------------------------------------- */

/* everybody: the keeper is away, so what they wait for won't come; they find another way. */
static void look_around(struct cache *c, bool everybody)
{
	shared_worker_woken(c->shared, (unsigned)c->slot);
	claim_wake_waiting(c, everybody);
	purge_ask_wake(c, everybody);
}

static void on_woken(struct watch *w, unsigned events)
{
	struct cache *c = CONTAINER_OF(w, struct cache, woken);

	(void)events;
	CHECK_MAGIC(c, CACHE_MAGIC);
	look_around(c, false);
}

static void on_tick(struct timer *t)
{
	struct cache *c = CONTAINER_OF(t, struct cache, tick);

	CHECK_MAGIC(c, CACHE_MAGIC);
	if (c->slot >= 0)
		look_around(c, !shared_keeper_here(c->shared));
	files_sweep(&c->files);
	timer_set(&c->tick, CACHE_TICK_MS);
}

static void on_slow(struct timer *t)
{
	struct cache *c = CONTAINER_OF(t, struct cache, slow);

	CHECK_MAGIC(c, CACHE_MAGIC);
	fill_wake_slow(c);
}

/* --- attach and detach -------------------------------------------------------------------------------- */

static struct cache *new_cache(struct cache_shared *s, const struct cache_conf *conf,
			       struct loop *l, int slot)
{
	struct cache *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->magic = CACHE_MAGIC;
	c->shared = s;
	c->loop = l;
	c->slot = slot;
	c->page_bytes = sysconf(_SC_PAGESIZE);
	c->store_count = conf->store_count;
	list_init(&c->waits);
	list_init(&c->slow_fills);
	files_init(&c->files, s, slot, 0);
	for (unsigned i = 0; i < conf->store_count; i++) {
		const struct cache_store_conf *from = &conf->stores[i];

		c->stores[i].dir_fd = from->dir_fd;
		c->stores[i].weight = (double)from->size_bytes;
		c->stores[i].seed = hash_xxh3(from->name.p, from->name.n);
		files_add_store(&c->files, from->dir_fd);
	}
	return c;
}

static int open_handles(struct cache *c)
{
	int e = timer_open(&c->tick, c->loop, on_tick);

	if (e == 0)
		e = timer_open(&c->slow, c->loop, on_slow);
	if (e == 0 && c->slot >= 0)
		e = watch_open(&c->woken, c->loop, c->shared->worker_eventfds[c->slot], on_woken);
	if (e < 0)
		return e;
	if (c->slot >= 0)
		watch_want(&c->woken, WATCH_READ);
	timer_set(&c->tick, CACHE_TICK_MS);
	return 0;
}

/* What an earlier worker in this slot held is swept, then the slot is ours. */
static void enter_slot(struct cache *c)
{
	struct cache_shared *s = c->shared;
	struct shared_worker *w = &s->workers[c->slot];

	/* Nobody is there: the sweep takes all generations so far and their bits. */
	atomic_store_explicit(&w->pid, 0, memory_order_seq_cst);
	(void)claim_sweep_worker(s, (unsigned)c->slot); /* what is left is the keeper's to come back to */
	purge_mailbox_sweep(s, (unsigned)c->slot);
	for (unsigned i = 0; i < s->store_count; i++)
		atomic_store_explicit(&s->stores[i].dead_open_bytes[c->slot], 0, memory_order_relaxed);
	/* Generation before pid: see claim_sweep_worker. */
	c->generation = atomic_fetch_add_explicit(&w->generation, 1, memory_order_seq_cst) + 1;
	atomic_store_explicit(&w->pid, (int32_t)getpid(), memory_order_seq_cst);
}

int cache_attach(struct cache_shared *s, const struct cache_conf *conf, struct loop *l,
		 unsigned slot, struct cache **out)
{
	struct cache *c;
	int e;

	CHECK(s->magic == SHARED_MAGIC && slot < s->worker_count);
	c = new_cache(s, conf, l, (int)slot);
	if (c == NULL)
		return -ENOMEM;
	c->hot = calloc(1, sizeof(*c->hot));
	e = c->hot != NULL ? open_handles(c) : -ENOMEM;
	if (e < 0) {
		cache_detach(c);
		return e;
	}
	guard_install();
	enter_slot(c);
	*out = c;
	return 0;
}

int cache_attach_keeper(struct cache_shared *s, const struct cache_conf *conf, struct loop *l,
			struct cache **out)
{
	struct cache *c = new_cache(s, conf, l, CACHE_NO_SLOT);
	int e;

	if (c == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < c->store_count; i++)
		c->stores[i].index_borrowed = true;
	e = open_handles(c);
	if (e < 0) {
		cache_detach(c);
		return e;
	}
	guard_install();
	*out = c;
	return 0;
}

void cache_lend_index(struct cache *c, unsigned store, struct index *index)
{
	CHECK(c->stores[store].index_borrowed);
	c->stores[store].index = index;
}

void cache_free_if_unused(struct cache *c)
{
	if (!c->detached || c->reads != 0)
		return;
	files_fini(&c->files);
	c->magic = 0;
	free(c);
}

void cache_detach(struct cache *c)
{
	int32_t self = (int32_t)getpid();

	if (c == NULL)
		return;
	CHECK_MAGIC(c, CACHE_MAGIC);
	CHECK(list_empty(&c->slow_fills));
	watch_close(&c->woken);
	timer_close(&c->tick);
	timer_close(&c->slow);
	LIST_EACH (&c->waits, link, following)
		list_remove(link);
	if (c->hot != NULL)
		hot_fini(c->hot);
	free(c->hot);
	c->hot = NULL;
	for (unsigned i = 0; i < c->store_count; i++) {
		if (!c->stores[i].index_borrowed)
			index_close(&c->stores[i].index);
	}
	if (c->slot >= 0)
		atomic_compare_exchange_strong_explicit(&c->shared->workers[c->slot].pid, &self, 0,
							memory_order_seq_cst, memory_order_relaxed);
	c->detached = true;
	cache_free_if_unused(c); /* else by the last read that a thread still does */
}

void cache_stop_storing(struct cache *c)
{
	c->storing_stopped = true;
}

bool cache_in_service(const struct cache *c)
{
	for (unsigned i = 0; i < c->store_count; i++) {
		if (shared_store_in_service(c->shared, i))
			return true;
	}
	return false;
}

bool cache_may_store(const struct cache *c)
{
	return c->slot >= 0 && !c->storing_stopped && cache_in_service(c) &&
	       shared_keeper_here(c->shared);
}

/* --- lookups ---------------------------------------------------------------------------------------- */

/* log2(2^64 / h), to within 0.01, which shifts a store's share by less than the stores' sizes are rounded. The same in every
 * process, which the C library's log need not be after an upgrade. */
static double bits_below(uint64_t h)
{
	int leading = __builtin_clzll(h | 1);
	double m = (double)((h | 1) << leading << 1) / 18446744073709551616.0; /* h's mantissa, within [0, 1) */

	return leading + 1 - (m + 0.344 * m * (1 - m));
}

/* Weighted rendezvous: the key's draw from an exponential distribution whose rate is the weight; the least wins. */
static double draw(const struct cache_store *st, const uint8_t primary[16])
{
	return bits_below(hash_xxh3_seed(primary, 16, st->seed)) / st->weight;
}

int cache_store_for(const struct cache *c, const uint8_t primary[16])
{
	int best = -ENOENT;
	double least = 0;

	if (c->store_count == 1)
		return shared_store_in_service(c->shared, 0) ? 0 : -ENOENT;
	for (unsigned i = 0; i < c->store_count; i++) {
		double d;

		if (!shared_store_in_service(c->shared, i))
			continue;
		d = draw(&c->stores[i], primary);
		if (best < 0 || d < least) {
			least = d;
			best = (int)i;
		}
	}
	return best;
}

/* Index calls under the guard. -EFAULT: the map could not be read. */
struct index_call {
	int dir_fd;
	struct index *index;
	const struct cache_key *key;
	struct cache_record *out;
};

static int call_open(void *arg)
{
	struct index_call *call = arg;

	return index_open_reader(call->dir_fd, &call->index);
}

static int call_find(void *arg)
{
	struct index_call *call = arg;

	return index_find(call->index, call->key, call->out);
}

static int call_known(void *arg)
{
	struct index_call *call = arg;

	return index_known(call->index, call->key->primary);
}

/* NULL: not there yet, or damaged (the store is then out of service). */
static struct index *index_of(struct cache *c, unsigned store)
{
	struct cache_store *st = &c->stores[store];
	struct index_call call = { .dir_fd = st->dir_fd };
	/* Acquire: the index was put in place before its number. */
	uint32_t generation = atomic_load_explicit(&cache_shared_store(c, store)->index_generation,
						   memory_order_acquire);
	int e;

	if (st->index_borrowed || (st->index != NULL && st->index_generation == generation))
		return st->index;
	index_close(&st->index);
	if (c->hot != NULL)
		hot_forget(c->hot, store);
	e = guard_call(call_open, &call);
	if (e < 0) {
		if (e != -ENOENT)
			shared_store_fail(c->shared, store, REASON_INDEX, -e);
		return NULL;
	}
	st->index = call.index;
	st->index_generation = generation;
	return st->index;
}

/* A lookup failed otherwise than by not finding. */
static int index_went_bad(struct cache *c, unsigned store, int e)
{
	if (e == -EFAULT)
		c->stores[store].index = NULL; /* never touched again */
	shared_store_fail(c->shared, store, REASON_INDEX, -e);
	return -EIO;
}

static bool is_alive(struct cache *c, const struct cache_record *r)
{
	struct shared_store *st = cache_shared_store(c, r->store);

	if (r->kind != CACHE_RECORD_OBJECT)
		return true;
	if (shared_segment(st, r->head_segment) == NULL)
		return false;
	return r->body_segment == 0 || r->body_segment == r->head_segment ||
	       shared_segment(st, r->body_segment) != NULL;
}

int cache_find(struct cache *c, const struct cache_key *key, struct cache_record *out)
{
	int store = cache_store_for(c, key->primary);
	struct index_call call = { .key = key, .out = out };
	int e;

	if (store < 0)
		return -ENOENT;
	call.index = index_of(c, (unsigned)store);
	if (call.index == NULL)
		return -ENOENT;
	e = guard_call(call_find, &call);
	if (e == -ENOENT)
		return e;
	if (e < 0)
		return index_went_bad(c, (unsigned)store, e);
	out->store = (uint8_t)store;
	return is_alive(c, out) ? 0 : -ENOENT;
}

/* Objects of it may be found later that aren't now: it isn't open yet, or an index is being filled. (What failed otherwise stays out until
 * the node starts anew.) */
static bool is_in_doubt(const struct shared_store *st)
{
	switch (atomic_load_explicit(&st->state, memory_order_acquire)) {
	case STORE_OUT:
	case STORE_REBUILDING:
		return true;
	case STORE_FAILED:
		return atomic_load_explicit(&st->reason, memory_order_relaxed) == REASON_INDEX;
	default:
		return false;
	}
}

static bool is_known_in(struct cache *c, unsigned store, const struct cache_key *key)
{
	struct index_call call = { .key = key };
	int known;

	if (is_in_doubt(cache_shared_store(c, store)))
		return true;
	if (!shared_store_in_service(c->shared, store))
		return false;
	call.index = index_of(c, store);
	if (call.index == NULL)
		return true;
	known = guard_call(call_known, &call);
	if (known < 0)
		(void)index_went_bad(c, store, known);
	return known != 0;
}

bool cache_url_known(struct cache *c, const uint8_t primary[16])
{
	struct cache_key key = { .secondary = 0 };

	if (claim_known(c->shared, primary))
		return true;
	memcpy(key.primary, primary, sizeof(key.primary));
	for (unsigned i = 0; i < c->store_count; i++) {
		if (is_known_in(c, i, &key))
			return true;
	}
	return false;
}

struct cache_hot_counts cache_take_hot_counts(struct cache *c)
{
	struct cache_hot_counts counts = { .hits = c->hot->hits, .bytes = c->hot->bytes };

	c->hot->hits = 0;
	return counts;
}

/* A store that failed since misses what is answered from now on. */
bool cache_unsafe_unnoted(const struct cache *c)
{
	uint64_t noted = atomic_load_explicit(&c->shared->unsafe_noted, memory_order_acquire);

	for (unsigned i = 0; i < c->store_count; i++) {
		if ((noted >> i & 1) && !shared_store_in_service(c->shared, i))
			return true;
	}
	return noted == 0;
}

/* --- status ------------------------------------------------------------------------------------------- */

static uint64_t counter(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

int cache_store_status(const struct cache_shared *s, unsigned store, struct cache_store_status *out)
{
	const struct shared_store *st = &s->stores[store];
	int64_t unsynced;

	if (store >= s->store_count)
		return -ENOENT;
	unsynced = atomic_load_explicit(&st->unsynced_bytes, memory_order_relaxed);
	*out = (struct cache_store_status){
		.name = view_str(st->name),
		.state = shared_store_state_text(st),
		.size_bytes = st->size_bytes,
		.used_bytes = counter(&st->used_bytes),
		.unsynced_bytes = unsynced > 0 ? (uint64_t)unsynced : 0,
		.objects = counter(&st->objects),
		.segments = counter(&st->segments_used),
		.commits = counter(&st->commits),
		.evicted_objects = counter(&st->evicted_objects),
		.evicted_segments = counter(&st->evicted_segments),
		.evicted_variants = counter(&st->evicted_variants),
		.reclaimed_objects = counter(&st->reclaimed_objects),
		.reclaimed_bytes = counter(&st->reclaimed_bytes),
		.fills_refused = counter(&st->fills_refused),
		.index_bytes = counter(&st->index_bytes),
	};
	for (unsigned i = 0; i < SHARED_WORKERS; i++)
		out->dead_open_bytes += counter(&st->dead_open_bytes[i]);
	return 0;
}
