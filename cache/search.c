/*
 * Hints about No-Vary-Search: two fixed, lossy tables in shared memory. One has a path's rule as its answers gave it, the
 * other the primary key of the URL whose object has a query's normal form. Records in the index, the rejected alternative, would
 * be found again after a restart; but an object would have to lie under a key that is no URL's, which its claim, its purge
 * and its eviction would all have to know of.
 *
 * An entry is written and read word by word, without a lock, and has a checksum: of two who write at once, or one who
 * dies at it, nothing is left. A newer entry overwrites an older one in the same place. The stamp of a rule is part of the hash of
 * what is put under it: when a rule was lost and is learned again, nothing from before comes back, for an unsafe method's
 * answer invalidates a URL of this kind only while its path has a rule.
 */
#include "cache/process.h"
#include "edge/base/hash.h"

enum { RULE_CHECK, RULE_PATH, RULE_STAMP, RULE_BYTES, RULE_TEXT };
enum { URL_CHECK, URL_HASH, URL_PRIMARY };

static_assert((SHARED_SEARCH_RULE_WORDS - RULE_TEXT) * 8 == CACHE_SEARCH_MAX, "a rule's text");

static uint64_t path_hash(const struct cache *c, const uint8_t path[16])
{
	return hash_xxh3_seed(path, 16, c->shared->secret[1]);
}

static uint64_t check_of(const uint64_t *words, unsigned count)
{
	return hash_xxh3_seed(words + 1, (count - 1) * sizeof(*words), count);
}

/* Relaxed: the checksum says whether the words belong together. */
static void put(_Atomic uint64_t *entry, uint64_t *words, unsigned count)
{
	words[0] = check_of(words, count);
	for (unsigned i = 0; i < count; i++)
		atomic_store_explicit(&entry[i], words[i], memory_order_relaxed);
}

static bool get(const _Atomic uint64_t *entry, uint64_t *words, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		words[i] = atomic_load_explicit(&entry[i], memory_order_relaxed);
	return words[0] == check_of(words, count);
}

bool cache_search_rule(const struct cache *c, const uint8_t path[16], struct cache_search *out)
{
	uint64_t hash = path_hash(c, path), words[SHARED_SEARCH_RULE_WORDS];
	const _Atomic uint64_t *entry = c->shared->search_rules[hash % SHARED_SEARCH_RULES];

	/* Mostly somebody else's, or nobody's. */
	if (atomic_load_explicit(&entry[RULE_PATH], memory_order_relaxed) != hash ||
	    !get(entry, words, SHARED_SEARCH_RULE_WORDS) || words[RULE_PATH] != hash ||
	    words[RULE_BYTES] > CACHE_SEARCH_MAX)
		return false;
	out->stamp = words[RULE_STAMP];
	out->bytes = (uint16_t)words[RULE_BYTES];
	memcpy(out->rule, &words[RULE_TEXT], CACHE_SEARCH_MAX);
	return true;
}

void cache_search_learn(struct cache *c, const uint8_t path[16], struct view rule,
			struct cache_search *out)
{
	struct cache_shared *s = c->shared;
	uint64_t hash = path_hash(c, path), words[SHARED_SEARCH_RULE_WORDS] = { 0 };

	CHECK(rule.n <= CACHE_SEARCH_MAX);
	if (cache_search_rule(c, path, out) && view_eq(view_of(out->rule, out->bytes), rule))
		return;
	words[RULE_PATH] = hash;
	words[RULE_STAMP] = 1 + atomic_fetch_add_explicit(&s->search_stamp, 1, memory_order_relaxed);
	words[RULE_BYTES] = rule.n;
	memcpy(&words[RULE_TEXT], rule.p, rule.n);
	put(s->search_rules[hash % SHARED_SEARCH_RULES], words, SHARED_SEARCH_RULE_WORDS);
	out->stamp = words[RULE_STAMP];
	out->bytes = (uint16_t)rule.n;
	memcpy(out->rule, &words[RULE_TEXT], CACHE_SEARCH_MAX);
}

static uint64_t url_hash(const struct cache *c, const uint8_t path[16],
			 const struct cache_search *s, struct view normal)
{
	return hash_xxh3_seed(normal.p, normal.n, path_hash(c, path) ^ s->stamp * 0x9e3779b97f4a7c15);
}

bool cache_search_find(const struct cache *c, const uint8_t path[16], const struct cache_search *s,
		       struct view normal, uint8_t out_primary[16])
{
	uint64_t hash = url_hash(c, path, s, normal), words[SHARED_SEARCH_URL_WORDS];

	if (!get(c->shared->search_urls[hash % SHARED_SEARCH_URLS], words, SHARED_SEARCH_URL_WORDS) ||
	    words[URL_HASH] != hash)
		return false;
	memcpy(out_primary, &words[URL_PRIMARY], 16);
	return true;
}

void cache_search_put(struct cache *c, const uint8_t path[16], const struct cache_search *s,
		      struct view normal, const uint8_t primary[16])
{
	uint64_t hash = url_hash(c, path, s, normal);
	uint64_t words[SHARED_SEARCH_URL_WORDS] = { [URL_HASH] = hash };

	memcpy(&words[URL_PRIMARY], primary, 16);
	put(c->shared->search_urls[hash % SHARED_SEARCH_URLS], words, SHARED_SEARCH_URL_WORDS);
}
