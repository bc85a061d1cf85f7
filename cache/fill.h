/* Fills inside the cache: what fill.c and fill_append.c share, and the timer's side of waiting for room. */
#ifndef BRIM_CACHE_FILL_H
#define BRIM_CACHE_FILL_H

#include "cache/claim.h"
#include "cache/place.h"
#include "cache/process.h"

enum { HELD_CHUNKS = 32 }; /* the newest chunk files stay open for slower readers */

enum fill_mode { MODE_STAGED, MODE_DIRECT, MODE_CHUNKS };
enum fill_state { FILL_OPEN, FILL_DONE, FILL_BROKEN };

struct cache_fill {
	uint32_t magic;
	struct cache *cache;
	struct cache_claim *claim; /* ours until finish or abort */
	struct shared_claim *shared;
	struct shared_store *store;
	struct cache_key key;
	enum fill_mode mode;
	enum fill_state state;
	int error;	    /* of the first failure */
	int64_t body_bytes; /* CACHE_LENGTH_UNKNOWN until the end */
	uint64_t ready;

	struct format_object object;
	struct format_texts texts; /* views into this block's tail */
	uint32_t head_bytes;
	uint32_t max_variants;
	char *entry; /* where the entry is encoded, in this block's tail */

	char *stage;
	size_t stage_bytes;
	struct place place;
	struct file *segment; /* MODE_DIRECT, and of the head once written */
	struct file *chunks[HELD_CHUNKS];
	uint32_t chunk_count;
	uint64_t room_bytes; /* of the current chunk that was drawn and not yet filled */

	struct list slow; /* in cache.slow_fills */
	struct ready *wake;
	bool granted;		/* it has waited: a little may come */
	struct mono slow_since; /* ms 0: not slowed */
};

static inline unsigned fill_store(const struct cache_fill *f)
{
	return (unsigned)(f->store - f->cache->shared->stores);
}

/* False: the keeper is told how much is wanted. */
bool fill_has_room(struct cache *c, struct shared_store *st, uint64_t bytes);
/* May n more bytes come? 0 or a negative errno. */
int fill_check(const struct cache_fill *f, size_t n) NODISCARD;
/* From here on it can only be aborted. Returns the error. */
int fill_broken(struct cache_fill *f, int error);
/* Reserves the entry's range with its body's: MODE_DIRECT from here on. 0 or a negative errno. */
int fill_go_direct(struct cache_fill *f) NODISCARD;
uint64_t fill_next_chunk_bytes(const struct cache_fill *f);

/* Wakes all fills that wait for room. */
void fill_wake_slow(struct cache *c);

#endif
