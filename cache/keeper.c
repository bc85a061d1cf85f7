/*
 * The keeper: opens the stores, then steers. A tick (the beat that says «the keeper is here»), the workers' hint and
 * the ends of jobs call the pumps of the other files; a pump starts what is due and never waits.
 *
 * A keeper may die at any time, and another one takes over with the same shared memory: segments on offer, claims under
 * way and bytes drawn are found there, all else on the disk.
 */
#include "cache/keeper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cache/keeper_store.h"
#include "cache/purge_clock.h"
#include "edge/base/log.h"

enum {
	KEEPER_CLOSE_PASSES = 16,
	/* Fills that end within this are committed together. Alone, each would cost two processes a wake-up and the worker its
	 * core: 41 µs of the keeper for 1 KiB, 8 together. Who waits for a commit hardly notices. */
	GATHER_MS = 2,
};

/* --- stores ----------------------------------------------------------------------------------------------- */

const char *keeper_store_path(const struct keeper_store *ks, char *out, size_t n)
{
	char link[48];
	ssize_t got;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", ks->dir_fd);
	got = readlink(link, out, n - 1);
	out[got < 0 ? 0 : got] = '\0';
	return out;
}

void keeper_store_failed(struct keeper_store *ks, enum shared_reason reason, int error)
{
	char path[256];

	/* What is under way still had the old one; the new one's own end says how it went. */
	if (reason == REASON_INDEX && rebuild_running(ks))
		return;
	shared_store_fail(ks->shared, ks->number, reason, error < 0 ? -error : error);
	if (!ks->usable)
		return;
	log_error("store_failed", "store=%s path=%s state=\"%s\" error=\"%s\"", ks->st->name,
		  keeper_store_path(ks, path, sizeof(path)), shared_store_state_text(ks->st),
		  strerror(error < 0 ? -error : error));
	/* An index is made anew, once a minute at most: what damages it faster than that is the disk. */
	if (reason == REASON_INDEX && ks->renewals_since >= KEEPER_RENEWALS_TICKS &&
	    !ks->keeper->closing) {
		ks->renewals_since = 0;
		rebuild_index(ks);
		return;
	}
	ks->usable = false;
	commit_refuse_all(ks);
	/* Log, index and data may no longer say the same. */
	if (reason != REASON_JOURNAL && reason != REASON_OPEN && reason != REASON_FORMAT)
		superblock_note(ks, SUPERBLOCK_SUSPECT);
}

bool keeper_is_full(struct keeper_store *ks, int error)
{
	if (error != -ENOSPC && error != -EDQUOT)
		return false;
	shared_store_full(ks->shared, ks->number);
	return true;
}

/* A worker found it bad. */
static void notice_failure(struct keeper_store *ks)
{
	if (!ks->usable || rebuild_running(ks) ||
	    atomic_load_explicit(&ks->st->state, memory_order_acquire) != STORE_FAILED)
		return;
	keeper_store_failed(ks, (enum shared_reason)atomic_load(&ks->st->reason),
			    atomic_load(&ks->st->error));
}

static bool is_busy(const struct keeper_store *ks)
{
	return ks->usable && (ks->evict != NULL || ks->no_room_for_segment ||
			      atomic_load_explicit(&ks->st->wanted_bytes, memory_order_relaxed) != 0 ||
			      atomic_load_explicit(&ks->st->unsynced_bytes, memory_order_relaxed) >
				      (int64_t)(ks->st->unsynced_limit_bytes / 8));
}

static void pump_store(struct keeper_store *ks)
{
	notice_failure(ks);
	if (!ks->usable)
		return;
	segments_pump(ks);
	commit_pump(ks);
	sync_tick(ks);
	evict_pump(ks);
}

static void pump(struct keeper *k)
{
	bool busy = false;

	for (unsigned i = 0; i < k->store_count; i++) {
		pump_store(&k->stores[i]);
		busy = busy || is_busy(&k->stores[i]);
	}
	if (busy)
		timer_set(&k->pulse, KEEPER_PULSE_MS);
}

static void on_pulse(struct timer *t)
{
	struct keeper *k = CONTAINER_OF(t, struct keeper, pulse);

	CHECK_MAGIC(k, KEEPER_MAGIC);
	pump(k);
}

static void look(struct keeper *k)
{
	k->hint_waits = false;
	/* Before looking: what is hinted from here on wakes us again. */
	shared_keeper_woken(k->shared);
	keeper_drain_ring(k);
	purges_pump(k, false);
	pump(k);
}

static bool is_committing(const struct keeper *k)
{
	for (unsigned i = 0; i < k->store_count; i++)
		if (k->stores[i].batch != NULL)
			return true;
	return false;
}

/* While a batch is under way the hint stays set: workers then spare themselves the system call for each fill, and we the
 * wake-up; the end of the batch, or the tick, looks. */
static void on_hint(struct watch *w, unsigned events)
{
	struct keeper *k = CONTAINER_OF(w, struct keeper, hint);
	eventfd_t count;

	(void)events;
	CHECK_MAGIC(k, KEEPER_MAGIC);
	(void)!eventfd_read(w->fd, &count);
	purges_pump(k, false);
	if (!k->hint_waits && !is_committing(k))
		timer_set(&k->gather, GATHER_MS);
	k->hint_waits = true;
}

static void on_gather(struct timer *t)
{
	struct keeper *k = CONTAINER_OF(t, struct keeper, gather);

	CHECK_MAGIC(k, KEEPER_MAGIC);
	if (k->hint_waits && !is_committing(k))
		look(k);
}

void keeper_batch_done(struct keeper *k)
{
	if (k->hint_waits && !k->closing)
		timer_set(&k->gather, GATHER_MS);
}

static void tick_store(struct keeper_store *ks)
{
	if (!ks->usable)
		return;
	ks->ticks_since_sync++;
	ks->renewals_since++;
	ks->ticks_since_full++;
	if (ks->commit_pause != 0)
		ks->commit_pause--;
	account_tick(ks);
	reclaim_tick(ks);
	if (ks->keeper->ticks % KEEPER_SCAN_TICKS == 0)
		segments_seal(ks);
}

static void on_tick(struct timer *t)
{
	struct keeper *k = CONTAINER_OF(t, struct keeper, tick);

	CHECK_MAGIC(k, KEEPER_MAGIC);
	timer_set(&k->tick, KEEPER_TICK_MS);
	k->ticks++;
	shared_keeper_beat(k->shared);
	if (k->ticks % KEEPER_SCAN_TICKS == 0) {
		keeper_sweep_again(k);
		keeper_scan_claims(k);
	}
	for (unsigned i = 0; i < k->store_count; i++)
		tick_store(&k->stores[i]);
	look(k);
}

/* --- opening -------------------------------------------------------------------------------------------------- */

static void run_blame(struct job *j)
{
	blame_index(CONTAINER_OF(j, struct keeper_store, blame));
}

static void blamed(struct job *j)
{
	(void)j;
}

static int open_lanes(struct keeper_store *ks)
{
	struct loop *l = ks->keeper->loop;
	int r = lane_open(l, &ks->commit_lane);

	if (r == 0)
		r = lane_open(l, &ks->slow_lane);
	if (r == 0)
		r = lane_open(l, &ks->journal_lane);
	if (r == 0) /* all that its thread does from now on */
		lane_submit(ks->commit_lane, &ks->blame, run_blame, blamed);
	return r;
}

static int init_store(struct keeper *k, unsigned number)
{
	struct keeper_store *ks = &k->stores[number];

	ks->magic = KEEPER_STORE_MAGIC;
	ks->keeper = k;
	ks->number = number;
	ks->dir_fd = k->conf.stores[number].dir_fd;
	ks->shared = k->shared;
	ks->st = &k->shared->stores[number];
	ks->renewals_since = ks->ticks_since_full = KEEPER_RENEWALS_TICKS;
	ks->dying = true; /* the last keeper may have left some */
	ks->waiting = malloc(SHARED_CLAIMS * sizeof(*ks->waiting));
	if (ks->waiting == NULL)
		return -ENOMEM;
	return open_lanes(ks);
}

static bool left_failed(const struct keeper_store *ks)
{
	return atomic_load_explicit(&ks->st->state, memory_order_acquire) == STORE_FAILED &&
	       atomic_load(&ks->st->reason) != REASON_INDEX;
}

static void open_super(struct keeper_store *ks)
{
	int r;

	/* What an earlier keeper of this node gave up stays given up until the node starts anew. */
	if (left_failed(ks))
		return;
	r = superblock_open(ks);
	if (r != 0) {
		shared_store_fail(ks->shared, ks->number,
				  r == -EPROTONOSUPPORT ? REASON_FORMAT : REASON_OPEN, -r);
		return;
	}
	ks->usable = true;
}

/* Object ids of this node are above all that its stores hold. A keeper that takes over goes on in its
 * predecessor's epoch. */
static void begin_epoch(struct keeper *k)
{
	uint64_t next = atomic_load_explicit(&k->shared->next_object_id, memory_order_relaxed);
	uint64_t epoch = next >> FORMAT_EPOCH_SHIFT, newest = 0;

	for (unsigned i = 0; i < k->store_count; i++)
		if (k->stores[i].usable && k->stores[i].super.epoch > newest)
			newest = k->stores[i].super.epoch;
	if (next == 0 || newest > epoch)
		epoch = newest + 1;
	for (unsigned i = 0; i < k->store_count; i++) {
		struct keeper_store *ks = &k->stores[i];
		int r = ks->usable ? superblock_begin(ks, epoch) : 0;

		if (r != 0)
			keeper_store_failed(ks, REASON_OPEN, r);
	}
	if (epoch > next >> FORMAT_EPOCH_SHIFT)
		atomic_store_explicit(&k->shared->next_object_id, epoch << FORMAT_EPOCH_SHIFT | 1,
				      memory_order_release);
}

static void open_store(struct keeper_store *ks, bool all_lost)
{
	int r;

	blame_index(ks);
	r = recover_store(ks, all_lost);
	blame_index(NULL);

	shared_keeper_beat(ks->shared);
	if (all_lost)
		log_warn("journal_lost",
			 "store=%s what=\"its objects can't be trusted and are dropped\"",
			 ks->st->name);
	if (r != 0) {
		keeper_store_failed(ks, r == -EBADMSG ? REASON_INDEX : REASON_OPEN, r);
		return;
	}
	evict_pump(ks);
}

static void open_stores(struct keeper *k)
{
	unsigned lost;

	for (unsigned i = 0; i < k->store_count; i++)
		open_super(&k->stores[i]);
	begin_epoch(k);
	lost = purges_replay(k);
	for (unsigned i = 0; i < k->store_count; i++)
		if (k->stores[i].usable)
			open_store(&k->stores[i], lost >> i & 1);
}

static int open_timers(struct keeper *k)
{
	int r = timer_open(&k->tick, k->loop, on_tick);

	if (r == 0)
		r = timer_open(&k->pulse, k->loop, on_pulse);
	if (r == 0)
		r = timer_open(&k->gather, k->loop, on_gather);
	if (r == 0)
		r = watch_open(&k->hint, k->loop, k->shared->keeper_eventfd, on_hint);
	if (r != 0)
		return r;
	watch_want(&k->hint, WATCH_READ);
	timer_set(&k->tick, KEEPER_TICK_MS);
	return 0;
}

static int open_keeper(struct keeper *k)
{
	int r = 0;

	blame_catch_faults();
	k->handled = calloc(SHARED_CLAIMS / 64, sizeof(*k->handled));
	if (k->handled == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < k->store_count && r == 0; i++)
		r = init_store(k, i);
	if (r == 0)
		r = cache_attach_keeper(k->shared, &k->conf, k->loop, &k->cache);
	if (r != 0)
		return r;
	open_stores(k);
	r = purges_open(k);
	return r == 0 ? open_timers(k) : r;
}

static void free_store(struct keeper_store *ks)
{
	lane_close(&ks->commit_lane);
	lane_close(&ks->slow_lane);
	lane_close(&ks->journal_lane);
	for (uint32_t id = ks->lowest_id; id != 0 && id < ks->next_id; id++)
		segment_drop(ks, id);
	index_close(&ks->index);
	journal_close(&ks->journal);
	chunk_list_fini(&ks->unsynced_chunks);
	free(ks->waiting);
}

static void free_keeper(struct keeper *k)
{
	timer_close(&k->tick);
	timer_close(&k->pulse);
	timer_close(&k->gather);
	watch_close(&k->hint);
	for (unsigned i = 0; i < k->store_count; i++)
		if (k->cache != NULL)
			cache_lend_index(k->cache, i, NULL);
	for (unsigned i = 0; i < k->store_count; i++)
		free_store(&k->stores[i]);
	purges_close(k);
	if (k->cache != NULL)
		cache_detach(k->cache);
	free(k->handled);
	k->magic = 0;
	free(k);
}

int keeper_open(struct cache_shared *s, const struct cache_conf *conf, struct loop *l,
		struct keeper **out)
{
	struct keeper *k = calloc(1, sizeof(*k));
	int r;

	if (k == NULL)
		return -ENOMEM;
	k->magic = KEEPER_MAGIC;
	k->shared = s;
	k->loop = l;
	k->conf = *conf;
	k->store_count = conf->store_count;
	for (unsigned i = 0; i < k->store_count; i++)
		k->stores[i].journal.fd = -1;
	/* Workers find somebody here from the moment at which a store is in service. */
	shared_keeper_beat(s);
	r = open_keeper(k);
	if (r != 0) {
		free_keeper(k);
		shared_keeper_gone(s);
		return r;
	}
	/* What an earlier keeper, or a worker that came meanwhile, had to leave. */
	for (unsigned slot = 0; slot < s->worker_count; slot++)
		keeper_sweep(k, slot);
	keeper_scan_claims(k);
	purges_pump(k, true);
	pump(k);
	*out = k;
	return 0;
}

/* --- closing ---------------------------------------------------------------------------------------------------- */

static void finish_lanes(struct keeper *k)
{
	for (unsigned i = 0; i < k->store_count; i++) {
		lane_finish(k->stores[i].commit_lane);
		lane_finish(k->stores[i].slow_lane);
		lane_finish(k->stores[i].journal_lane);
	}
}

static bool is_under_way(const struct keeper *k)
{
	for (unsigned i = 0; i < k->store_count; i++) {
		const struct keeper_store *ks = &k->stores[i];

		if (ks->batch != NULL || ks->evict != NULL || ks->rebuild != NULL || ks->sync != NULL ||
		    ks->being_made != 0 || ks->reclaims != 0 || (ks->usable && ks->waiting_count != 0))
			return true;
	}
	return purges_busy(k);
}

/* Fills that workers go on with may leave chunk files: the next start is to look for them. */
static bool is_filling(const struct keeper_store *ks)
{
	struct cache_shared *s = ks->shared;

	for (int slot = claim_next(s, 0); slot >= 0; slot = claim_next(s, (uint32_t)slot + 1)) {
		struct shared_claim *c = &s->claims[slot];

		if (atomic_load_explicit(&c->store, memory_order_relaxed) == ks->number &&
		    atomic_load_explicit(&c->chunks_begun, memory_order_relaxed) != 0 &&
		    atomic_load_explicit(&c->state, memory_order_acquire) != CLAIM_COMMITTED)
			return true;
	}
	return false;
}

static void close_store(struct keeper_store *ks)
{
	bool complete = atomic_load(&ks->st->state) == STORE_OPEN;
	int r;

	if (!ks->usable)
		return;
	segments_close_all(ks);
	r = sync_now(ks);
	if (r != 0)
		superblock_suspect(ks);
	if (r == 0)
		r = index_sync(ks->index);
	/* Unless a rebuild is unfinished: the next start goes on as after a death. */
	if (r == 0 && complete && !is_filling(ks))
		r = superblock_clean(ks);
	if (r != 0)
		log_error("store_close", "store=%s error=\"%s\"", ks->st->name, strerror(-r));
	if (shared_store_in_service(ks->shared, ks->number))
		atomic_store_explicit(&ks->st->state, STORE_OUT, memory_order_release);
}

void keeper_close(struct keeper *k)
{
	CHECK_MAGIC(k, KEEPER_MAGIC);
	keeper_drain_ring(k);
	keeper_scan_claims(k);
	k->closing = true;
	for (unsigned i = 0; i < k->store_count; i++)
		reclaim_stop(&k->stores[i]);
	for (unsigned pass = 0; pass < KEEPER_CLOSE_PASSES; pass++) {
		for (unsigned i = 0; i < k->store_count; i++) {
			k->stores[i].commit_pause = 0;
			commit_pump(&k->stores[i]);
		}
		finish_lanes(k);
		if (!is_under_way(k))
			break;
	}
	for (unsigned i = 0; i < k->store_count; i++)
		close_store(&k->stores[i]);
	shared_keeper_gone(k->shared);
	free_keeper(k);
}

/* --- calls ---------------------------------------------------------------------------------------------------------- */

void keeper_worker_died(struct keeper *k, unsigned slot, int pid)
{
	bool successor;

	CHECK_MAGIC(k, KEEPER_MAGIC);
	CHECK(slot < k->shared->worker_count);
	shared_worker_gone(k->shared, slot, pid);
	keeper_sweep(k, slot);
	successor = atomic_load_explicit(&k->shared->workers[slot].pid, memory_order_seq_cst) != 0;
	/* What is in the slot's name now may be its successor's, who swept when it came. */
	if (!successor)
		purge_mailbox_sweep(k->shared, slot);
	for (unsigned i = 0; i < k->store_count; i++) {
		atomic_store_explicit(&k->shared->stores[i].dead_open_bytes[slot], 0,
				      memory_order_relaxed);
		if (k->stores[i].lent != NULL)
			index_check_readers(k->stores[i].lent);
	}
	keeper_drain_ring(k);
	pump(k);
}

int keeper_records(struct keeper *k, const uint8_t primary[16], keeper_record_fn *fn, void *arg)
{
	int total = 0;

	CHECK_MAGIC(k, KEEPER_MAGIC);
	for (unsigned i = 0; i < k->store_count; i++) {
		int r = 0;

		blame_index(&k->stores[i]);
		if (k->stores[i].lent != NULL)
			r = index_each(k->stores[i].lent, primary, fn, arg);
		blame_index(NULL);
		if (r < 0)
			return r;
		total += r;
	}
	return total;
}

struct cache *keeper_cache(struct keeper *k)
{
	return k->cache;
}
