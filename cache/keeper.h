/*
 * The keeper's side of the cache: the only writer of indexes, logs and journals. It commits fills,
 * evicts, unlinks, syncs, purges. File I/O runs in threads, per store; its loop only steers.
 */
#ifndef BRIM_CACHE_KEEPER_H
#define BRIM_CACHE_KEEPER_H

#include "cache/cache.h"

struct keeper;

/* Opens the stores (superblock, journal replay, then logs → index as needed; serving begins as soon as the
 * journal is replayed; an index that must be rebuilt is filled while traffic is served). Sweeps what dead workers left. */
int keeper_open(struct cache_shared *s, const struct cache_conf *conf, struct loop *l,
		struct keeper **out) NODISCARD;
/* Commit what is DONE, sync, mark stores clean, close. Blocks (at most a few seconds). */
void keeper_close(struct keeper *k);
/* A worker died: its claims, bits, mailboxes and LMDB reader are swept. */
void keeper_worker_died(struct keeper *k, unsigned slot, int pid);

/* Purges: journalled in every store, synced, cells raised, clock advanced; then done(arg, result, sequence) from the loop.
 * Calls that come together share a sync. count at most KEEPER_PURGE_SCOPES. */
enum { KEEPER_PURGE_SCOPES = 200000 };
typedef void keeper_purge_fn(void *arg, int result, uint64_t sequence);
int keeper_purge(struct keeper *k, const struct cache_scope *scopes, unsigned count, bool soft,
		 keeper_purge_fn *done, void *arg) NODISCARD;

/* How many objects, and bytes of them, these scopes name: by a walk over all logs. -EBUSY: several are counted already;
 * -EAGAIN: no store is usable, or one is being rebuilt. done's result may be -EAGAIN (the keeper closes) or the store's error. */
typedef void keeper_count_fn(void *arg, int result, uint64_t objects, uint64_t bytes);
int keeper_purge_count(struct keeper *k, const struct cache_scope *scopes, unsigned count,
		       keeper_count_fn *done, void *arg) NODISCARD;

/* What a purge's objects gave back so far. -ENOENT: no such purge, or it is too long ago, or an earlier keeper's. */
struct keeper_reclaimed {
	uint64_t objects, bytes;
	bool soft, complete; /* complete: nothing of it is left (a soft one takes nothing) */
};
int keeper_purge_reclaimed(const struct keeper *k, uint64_t sequence, struct keeper_reclaimed *out)
	NODISCARD;

/* For the admin API's object call: what is stored under a primary key (its variants), by the index. The callback gets each
 * variant's record and meta (meta read from the entry; blocking small reads are allowed here: run in a thread by the caller? no:
 * entries are read through cache_object_open by the admin). Returns how many records. */
typedef void keeper_record_fn(void *arg, const struct cache_key *key, const struct cache_record *r);
int keeper_records(struct keeper *k, const uint8_t primary[16], keeper_record_fn *fn, void *arg)
	NODISCARD;
/* The keeper's own reading view (it may open objects as a worker does). */
struct cache *keeper_cache(struct keeper *k);

#endif
