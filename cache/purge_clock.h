/*
 * The purge clock and its cells: which objects are older than a purge that names them.
 *
 * A purge takes the clock's next number and raises three cells for each of its scopes; a scope's newest purge is
 * the least of its three cells. It can only be too new (another scope shares all three), never too old:
 * a false purge costs a fetch. The order on the keeper's side makes an answered purge final:
 *
 *	journal (synced)  →  purge_clock_raise, each scope  →  purge_clock_publish  →  answer
 *
 * A worker that reads the clock and sees the number therefore sees the raised cells, and what it passed at an
 * earlier reading of the clock it probes again.
 */
#ifndef BRIM_CACHE_PURGE_CLOCK_H
#define BRIM_CACHE_PURGE_CLOCK_H

#include "cache/cache.h"
#include "cache/shared.h"

/* By the keeper: raises the scope's cells to «number» (never lowers them). Replays may come in any order. */
void purge_clock_raise(struct cache_shared *s, const struct cache_scope *scope, bool soft,
		       uint64_t number);
/* By the keeper, after all raises of that number: the clock is at least «number» from now on. */
void purge_clock_publish(struct cache_shared *s, uint64_t number);
uint64_t purge_clock_now(const struct cache_shared *s);

/* The newest purge, hard or soft, that names this scope; 0: none. */
uint64_t purge_clock_newest(const struct cache_shared *s, const struct cache_scope *scope, bool soft);
/* Does a hard purge newer than «birth» name one of these? */
bool purge_clock_hit(const struct cache_shared *s, const struct cache_scope *scopes, unsigned count,
		     bool soft, uint64_t birth);

/* Mailboxes, by the keeper. The next one that asks (from *cursor on; all are looked at once around), marked TAKEN;
 * NULL: none. restart: also those that an earlier keeper had taken. Frees cancelled ones as it passes. */
struct shared_mailbox *purge_mailbox_take(struct cache_shared *s, uint32_t *cursor, bool restart);
/* The answer: result 0 and its sequence, or a negative errno; wakes the worker. */
void purge_mailbox_answer(struct cache_shared *s, struct shared_mailbox *m, int result,
			  uint64_t sequence);
/* A worker is gone: its mailboxes are cancelled. */
void purge_mailbox_sweep(struct cache_shared *s, unsigned worker);

#endif
