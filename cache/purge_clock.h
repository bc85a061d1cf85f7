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
#include "cache/format.h"
#include "cache/shared.h"
#include "edge/base/hash.h"

/* By the keeper: raises the scope's cells to «number» (never lowers them). Replays may come in any order. */
void purge_clock_raise(struct cache_shared *s, const struct cache_scope *scope, bool soft,
		       uint64_t number);
/* By the keeper: all of a store that was away. */
void purge_clock_raise_store(struct cache_shared *s, unsigned store, uint64_t number);
/* By the keeper, after all raises of that number: the clock is at least «number» from now on. */
void purge_clock_publish(struct cache_shared *s, uint64_t number);
uint64_t purge_clock_now(const struct cache_shared *s);

/* Does a purge newer than «birth» name it? out_number: of a hard one that does; NULL: not wanted. */
enum cache_purged purge_clock_names(const struct cache_shared *s, const struct cache_names *names,
				    uint64_t birth, uint64_t *out_number);

/* Of what log records and entries say; views into them. */
struct cache_names purge_names_of(const struct format_object *o, const struct format_texts *t);

/* --- hashes of scopes ---------------------------------------------------------------------------- */

/* splitmix64's finish: every bit of the input reaches all of the output. */
static inline uint64_t purge_mix(uint64_t h)
{
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
	h = (h ^ h >> 27) * 0x94d049bb133111eb;
	return h ^ h >> 31;
}

/* From a site's tag to the tag of whatever site, and back: an object keeps one hash for both scopes. */
static inline uint64_t purge_tag_anywhere(uint64_t tag, uint64_t site_hash)
{
	return tag ^ purge_mix(site_hash + 0x9e3779b97f4a7c15);
}

/* A path, of whatever keys: a hit hashes it only where its site's keys have changed. */
static inline uint64_t purge_path_hash(uint64_t site_hash, struct view path)
{
	return hash_xxh3_seed(path.p, path.n, site_hash);
}

/* The scope of a path that was purged under these forms of keys, and back: the journal keeps the newest purge of each. */
static inline uint64_t purge_path_under(uint64_t path_hash, uint32_t forms)
{
	return path_hash ^ purge_mix(forms);
}

/*
 * The running hash of prefixes: a byte at a time, since a hit asks for it at each length in use. FNV-1a; who
 * makes two URLs collide gets his own fetched once more.
 */
static inline uint64_t purge_prefix_step(uint64_t h, char c)
{
	return (h ^ (uint8_t)c) * 0x100000001b3;
}
static inline uint64_t purge_prefix_more(uint64_t h, struct view text)
{
	for (size_t i = 0; i < text.n; i++)
		h = purge_prefix_step(h, text.p[i]);
	return h;
}
static inline uint64_t purge_prefix_begin(uint64_t site_hash, struct view authority)
{
	return purge_prefix_more(purge_mix(site_hash ^ 0xcbf29ce484222325), authority);
}

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
