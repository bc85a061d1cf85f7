/*
 * Claims as the keeper and the fill see them: who is filling what. The worker's public side
 * (cache_claim_take, cache_claim_drop, waits) is in cache/cache.h; the states are in cache/shared.h.
 *
 * A claim's stripe is chosen by a keyed hash of the primary key, so that a peer can't aim at one and all
 * variants meet. Its mutex guards the search and the fields that the search reads; it is never held across I/O or while waiting, and a worker
 * that can't have it within a millisecond passes. A holder's death leaves at most one slot half written: a slot
 * becomes visible by its state alone, which is stored last.
 *
 * Lost wakes are excluded by order: who waits sets its bit, then reads the state; who ends a claim stores
 * the state, then takes the bits. Both are sequentially consistent, so one of them sees the other.
 */
#ifndef BRIM_CACHE_CLAIM_H
#define BRIM_CACHE_CLAIM_H

#include "cache/cache.h"
#include "cache/shared.h"

/* Prepares stripes in a new block. */
int claim_table_init(struct cache_shared *s) NODISCARD;

/* --- the keeper's side -------------------------------------------------------------------------- */

/* What a finished claim says, copied. */
struct claim_view {
	uint32_t slot;
	enum shared_claim_state state;
	enum shared_claim_kind kind;
	bool superseded;
	uint8_t store;
	struct cache_key key; /* as claimed; the object's is in commit */
	uint64_t object_id;
	uint32_t chunks_begun; /* FAILED: chunk files 0 … this-1 may exist and are to be unlinked */
	struct shared_commit commit; /* DONE, COMMITTED */
};
/* The first claim from slot «from» on that isn't FREE, for scans of the whole table; -ENOENT: no more. */
int claim_next(struct cache_shared *s, uint32_t from);
/* 0 if the slot is DONE, FAILED or COMMITTED (only the keeper moves it on from there); -ENOENT: FREE or FILLING. */
int claim_view(struct cache_shared *s, uint32_t slot, struct claim_view *out) NODISCARD;
/* DONE → COMMITTED, when log and index hold it; wakes who waits. Then claim_free. */
void claim_committed(struct cache_shared *s, uint32_t slot);
/* DONE → FAILED: the commit is refused; wakes who waits. Then unlink its chunk files, then claim_free. */
void claim_refused(struct cache_shared *s, uint32_t slot);
/* COMMITTED or FAILED → FREE. Of a FAILED one the drawn bytes go back to the store: unlink first. 0; -EBUSY: still
 * attached, or not ended (any more: its owner freed it). */
int claim_free(struct cache_shared *s, uint32_t slot) NODISCARD;
/* Is the segment named by a claim in FILLING or DONE? Ask after shared_segment_close: then «no» stays «no». */
bool claim_segment_busy(struct cache_shared *s, unsigned store, uint32_t segment);
/* After shared_worker_gone, or for an attaching worker's predecessors: what they were filling becomes FAILED, their bits
 * are cleared. False: not in all stripes, since somebody who is stopped holds a mutex: to be called again later. */
bool claim_sweep_worker(struct cache_shared *s, unsigned worker);
/* Is any claim of this primary key there? */
bool claim_known(struct cache_shared *s, const uint8_t primary[16]);

/* --- the fill's side ------------------------------------------------------------------------------ */

struct shared_claim *claim_slot(struct cache_claim *cl);
struct cache *claim_cache(struct cache_claim *cl);
/* Some purge already refused it: what it would store is not worth storing. */
bool claim_is_superseded(const struct cache_claim *cl);
/* FILLING → DONE, announced to the keeper. The claim is the keeper's from here on; *cl is freed. */
void claim_done(struct cache_claim **cl);

/* The worker was woken: post the wakes of those whose claim is not FILLING or DONE any more; all: of everybody, since
 * nothing will be committed for now. */
void claim_wake_waiting(struct cache *c, bool all);

#endif
