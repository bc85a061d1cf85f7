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

/* Does a purge (soft: a soft one) newer than «birth» name one of these? */
bool purge_clock_hit(const struct cache_shared *s, const struct cache_scope *scopes, unsigned count,
		     bool soft, uint64_t birth);

/* --- mailboxes (purge_ask.c) ---------------------------------------------------------------------- */

/* By the keeper. The next letter from *cursor (0 at first) on, marked TAKEN; NULL: all were looked at, and the cursor is 0
 * again. restart: in a new keeper's first round, also those that an earlier keeper had taken. Each letter that was taken
 * must be answered. */
struct shared_mailbox *purge_mailbox_take(struct cache_shared *s, uint32_t *cursor, bool restart);
/* The answer: result 0 and its sequence, or a negative errno; wakes the worker. */
void purge_mailbox_answer(struct cache_shared *s, struct shared_mailbox *m, int result,
			  uint64_t sequence);
/* By a worker that attaches: its predecessor's letters are cancelled. (The keeper need not: what a dead worker asked for
 * is done, and the answer waits for nobody.) */
void purge_mailbox_sweep(struct cache_shared *s, unsigned worker);
/* The worker was woken: post the wakes of those who have an answer; all: of everybody who waits for one. */
void purge_ask_wake(struct cache *c, bool all);

#endif
