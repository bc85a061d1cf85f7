/*
 * What is known to be uncacheable: a fixed, lossy table in shared memory, so that a crowd that asks for an
 * uncacheable URL is not serialised behind one claim after another.
 *
 * An entry is one 64-bit word, so that it needs no lock: 32 bits of the key's hash and when to forget it (monotonic,
 * in tenths of a second: 13 years). A newer key overwrites an older one in the same place; that costs one claim
 * more. The hash is keyed by the boot's secret: nobody can aim at somebody else's place.
 */
#include "cache/process.h"
#include "edge/base/hash.h"

enum { TICKS_PER_S = 10, MS_PER_TICK = 1000 / TICKS_PER_S };

static uint64_t hash_of(const struct cache *c, const struct cache_key *key)
{
	return hash_xxh3_seed(key->primary, sizeof(key->primary), c->shared->secret[0] ^ key->secondary);
}

void cache_pass_remember(struct cache *c, const struct cache_key *key, int64_t for_ms)
{
	uint64_t hash = hash_of(c, key);
	uint64_t until = (uint64_t)(clock_mono().ms + for_ms) / MS_PER_TICK;

	/* Relaxed: the word says all there is. */
	atomic_store_explicit(&c->shared->passes[(uint32_t)hash % SHARED_PASSES],
			      (hash & 0xffffffff00000000) | (uint32_t)until, memory_order_relaxed);
}

bool cache_pass_known(const struct cache *c, const struct cache_key *key)
{
	uint64_t hash = hash_of(c, key);
	uint64_t entry = atomic_load_explicit(&c->shared->passes[(uint32_t)hash % SHARED_PASSES],
					      memory_order_relaxed);

	if (entry >> 32 != hash >> 32)
		return false;
	return (uint32_t)entry > (uint64_t)clock_mono().ms / MS_PER_TICK;
}
