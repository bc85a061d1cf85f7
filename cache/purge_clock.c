/*
 * Cells and clock: see purge_clock.h for the idea and the order.
 *
 * A scope's three cells are chosen by a keyed hash (nobody can choose URLs whose purge hits a victim's cells).
 * Cells only rise: a raise is a compare-and-swap loop for the maximum, so keeper, journal replay and a
 * successor that replays again may come in any order.
 *
 * A hit's check, cheapest first: the clock has not moved since this worker last passed the object (or since its birth); the
 * site was not named since then; then the scopes themselves, 12 cells and three for each tag.
 */
#include "cache/purge_clock.h"

#include "cache/process.h"

static void raise(_Atomic uint64_t *cell, uint64_t number)
{
	uint64_t now = atomic_load_explicit(cell, memory_order_relaxed);

	/* Relaxed: the clock's release store, which comes after, publishes it. */
	while (now < number && !atomic_compare_exchange_weak_explicit(
				       cell, &now, number, memory_order_relaxed, memory_order_relaxed))
		continue;
}

struct places {
	uint32_t at[3];
};

/* splitmix64's finish: every bit of the input reaches all positions. */
static struct places places_of(const struct cache_shared *s, uint64_t hash, uint8_t kind)
{
	uint64_t h = (hash ^ s->secret[1]) + (kind + 1) * 0x9e3779b97f4a7c15;

	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
	h = (h ^ h >> 27) * 0x94d049bb133111eb;
	h ^= h >> 31;
	return (struct places){ { h % SHARED_CELLS, (h >> 21) % SHARED_CELLS, (h >> 42) % SHARED_CELLS } };
}

static uint64_t newest(const struct cache_shared *s, uint64_t hash, uint8_t kind, bool soft)
{
	const _Atomic uint64_t *cells = soft ? s->soft : s->hard;
	struct places p = places_of(s, hash, kind);
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < ARRAY_LEN(p.at); i++) {
		/* Relaxed: the acquire load of the clock came before. */
		uint64_t n = atomic_load_explicit(&cells[p.at[i]], memory_order_relaxed);

		if (n < least)
			least = n;
	}
	return least;
}

static _Atomic uint64_t *site_cell(struct cache_shared *s, uint64_t site_hash)
{
	return &s->site_newest[site_hash % SHARED_SITE_CELLS];
}

/* --- the keeper's side -------------------------------------------------------------------------- */

void purge_clock_raise(struct cache_shared *s, const struct cache_scope *scope, bool soft, uint64_t number)
{
	_Atomic uint64_t *cells = soft ? s->soft : s->hard;
	struct places p = places_of(s, scope->hash, scope->kind);

	for (unsigned i = 0; i < ARRAY_LEN(p.at); i++)
		raise(&cells[p.at[i]], number);
	raise(scope->site_hash != 0 ? site_cell(s, scope->site_hash) : &s->newest_purge, number);
}

void purge_clock_publish(struct cache_shared *s, uint64_t number)
{
	uint64_t now = atomic_load_explicit(&s->purge_clock, memory_order_relaxed);

	/* Release: who reads this number or a later one sees the cells that were raised for it. */
	while (now < number &&
	       !atomic_compare_exchange_weak_explicit(&s->purge_clock, &now, number,
						      memory_order_release, memory_order_relaxed))
		continue;
}

uint64_t purge_clock_now(const struct cache_shared *s)
{
	return atomic_load_explicit(&s->purge_clock, memory_order_acquire);
}

bool purge_clock_hit(const struct cache_shared *s, const struct cache_scope *scopes, unsigned count,
		     bool soft, uint64_t birth)
{
	for (unsigned i = 0; i < count; i++) {
		if (newest(s, scopes[i].hash, scopes[i].kind, soft) > birth)
			return true;
	}
	return false;
}

/* --- the worker's side --------------------------------------------------------------------------- */

static bool named(const struct cache_object *o, bool soft, uint64_t birth)
{
	const struct cache_shared *s = o->cache->shared;
	const struct cache_meta *m = &o->meta;
	const struct cache_scope scopes[] = {
		cache_scope_url(o->key.primary),
		{ .hash = m->host_hash, .kind = CACHE_SCOPE_HOST },
		cache_scope_site(m->site_hash),
		cache_scope_all(),
	};

	if (purge_clock_hit(s, scopes, ARRAY_LEN(scopes), soft, birth))
		return true;
	for (unsigned i = 0; i < m->tag_count; i++) {
		if (newest(s, m->tags[i], CACHE_SCOPE_TAG, soft) > birth)
			return true;
	}
	return false;
}

enum cache_purged cache_object_purged(struct cache_object *o)
{
	struct cache *c = o->cache;
	struct cache_shared *s = c->shared;
	struct cache_passed *passed = &c->passed[o->record.object_id % CACHE_PASSED];
	uint64_t birth = o->meta.birth;
	uint64_t since = birth;
	uint64_t now = purge_clock_now(s); /* before the cells: what is raised later is asked about later */

	if (passed->object_id == o->record.object_id && passed->clock > since)
		since = passed->clock;
	if (since >= now)
		return CACHE_NOT_PURGED;
	if (atomic_load_explicit(&s->newest_purge, memory_order_relaxed) > since ||
	    atomic_load_explicit(site_cell(s, o->meta.site_hash), memory_order_relaxed) > since) {
		if (named(o, false, birth))
			return CACHE_HARD_PURGED;
		if (named(o, true, birth))
			return CACHE_SOFT_PURGED;
	}
	*passed = (struct cache_passed){ .object_id = o->record.object_id, .clock = now };
	return CACHE_NOT_PURGED;
}
