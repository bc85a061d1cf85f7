/*
 * Cells and clock: see purge_clock.h for the idea and the order.
 *
 * A scope's three cells are chosen by a keyed hash (nobody can choose URLs whose purge hits a victim's cells).
 * Cells only rise: a raise is a compare-and-swap loop for the maximum, so keeper, journal replay and a
 * successor that replays again may come in any order.
 *
 * A hit's check, cheapest first: the clock has not moved since this worker last passed the object (or since its birth); the
 * site was not named since then; then the scopes themselves. A scope that nobody purged mostly shows it by its first
 * cell, hard and soft side by side in one cache line. Prefixes are probed only where one was purged since the birth, at the
 * lengths that were ever in use: one running hash over the path serves all of them.
 *
 * A URL's purge names the keys that its site gave the URL at that time. A reload may change what keys are made of, and a later one
 * change it back; so such a purge also says under which «forms» of keys it was made, and names the path. That counts only
 * for who asks under other forms, or where others were in between: then too much is named rather than too little.
 */
#include "cache/purge_clock.h"

#include "cache/process.h"
#include "cache/purge_names.h"

static void raise(_Atomic uint64_t *cell, uint64_t number)
{
	uint64_t now = atomic_load_explicit(cell, memory_order_relaxed);

	/* Relaxed: the clock's release store, which comes after, publishes it. */
	while (now < number && !atomic_compare_exchange_weak_explicit(
				       cell, &now, number, memory_order_relaxed, memory_order_relaxed))
		continue;
}

enum { PLACES = 3, PLACE_BITS = 21 };
_Static_assert(SHARED_CELLS <= 1 << 22, "a place is the low bits of what is left of a hash");

static uint64_t spread(const struct cache_shared *s, uint64_t hash, uint8_t kind)
{
	return purge_mix((hash ^ s->secret[1]) + (kind + 1) * 0x9e3779b97f4a7c15);
}

static unsigned place(uint64_t spread_hash, unsigned i)
{
	return (spread_hash >> i * PLACE_BITS) % SHARED_CELLS;
}

static _Atomic uint64_t *site_cell(struct cache_shared *s, uint64_t site_hash)
{
	return &s->site_newest[site_hash % SHARED_SITE_CELLS];
}

/* The site's place, or the free one where it would be; NULL: there is none. */
static struct shared_forms *forms_of(const struct cache_shared *s, uint64_t site_hash)
{
	uint64_t h = spread(s, site_hash, CACHE_SCOPE_SITE);

	for (unsigned i = 0; i < SHARED_FORMS_PROBES; i++) {
		const struct shared_forms *f = &s->forms[(h + i) % SHARED_FORMS];
		/* Acquire: the rest is there. */
		uint64_t there = atomic_load_explicit(&f->site_hash, memory_order_acquire);

		if (there == site_hash || there == 0)
			return (struct shared_forms *)(uintptr_t)f;
	}
	return NULL;
}

/* --- the keeper's side -------------------------------------------------------------------------- */

static void raise_kind(struct cache_shared *s, const struct cache_scope *scope, uint64_t number)
{
	if (scope->kind == CACHE_SCOPE_TAG_ANYWHERE)
		raise(&s->newest_anywhere, number);
	if (scope->kind != CACHE_SCOPE_PREFIX)
		return;
	atomic_fetch_or_explicit(&s->prefix_lengths[scope->bytes / 64 % SHARED_PREFIX_WORDS],
				 (uint64_t)1 << scope->bytes % 64, memory_order_relaxed);
	raise(&s->newest_prefix, number);
}

/* In any order, as a successor replays it. */
static void raise_forms(struct cache_shared *s, const struct cache_scope *scope, uint64_t number)
{
	struct shared_forms *f = forms_of(s, scope->site_hash);
	uint64_t newest;

	if (f == NULL)
		return; /* who doesn't find its site asks */
	newest = atomic_load_explicit(&f->newest, memory_order_relaxed);
	if (atomic_load_explicit(&f->site_hash, memory_order_relaxed) != 0 &&
	    atomic_load_explicit(&f->forms, memory_order_relaxed) != scope->forms)
		raise(&f->changed, number);
	/* Release: who sees these forms sees since when. */
	if (number > newest)
		atomic_store_explicit(&f->forms, scope->forms, memory_order_release);
	raise(&f->newest, number);
	atomic_store_explicit(&f->site_hash, scope->site_hash, memory_order_release);
}

static struct shared_cell *path_cell(const struct cache_shared *s, uint64_t path_hash)
{
	uint64_t h = spread(s, path_hash, CACHE_SCOPE_PATH);

	return (struct shared_cell *)(uintptr_t)&s->path_cells[h % SHARED_PATH_CELLS];
}

static void raise_path(struct cache_shared *s, const struct cache_scope *scope, bool soft, uint64_t number)
{
	struct shared_cell *cell = path_cell(s, purge_path_under(scope->hash, scope->forms));

	raise(soft ? &cell->soft : &cell->hard, number);
	raise_forms(s, scope, number);
	raise(site_cell(s, scope->site_hash), number);
}

static void raise_cells(struct cache_shared *s, const struct cache_scope *scope, bool soft,
			uint64_t number)
{
	uint64_t h = spread(s, scope->hash, scope->kind);

	for (unsigned i = 0; i < PLACES; i++) {
		struct shared_cell *cell = &s->cells[place(h, i)];

		raise(soft ? &cell->soft : &cell->hard, number);
	}
}

void purge_clock_raise(struct cache_shared *s, const struct cache_scope *scope, bool soft, uint64_t number)
{
	if (scope->kind == CACHE_SCOPE_UNSAFE || scope->kind == CACHE_SCOPE_STORE)
		return; /* the keeper's own business */
	if (scope->kind == CACHE_SCOPE_PATH) {
		raise_path(s, scope, soft, number);
		return;
	}
	raise_cells(s, scope, soft, number);
	raise_kind(s, scope, number);
	raise(scope->site_hash != 0 ? site_cell(s, scope->site_hash) : &s->newest_purge, number);
}

void purge_clock_raise_store(struct cache_shared *s, unsigned store, uint64_t number)
{
	raise(&s->stores[store].revalidate_before, number);
	raise(&s->newest_purge, number);
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

/* --- what names what ------------------------------------------------------------------------------ */

struct probe {
	const struct cache_shared *s;
	uint64_t birth;
	uint64_t hard, soft; /* numbers of purges newer than the birth; 0: none found */
};

/* Relaxed: the acquire load of the clock came before. */
static uint64_t at(const _Atomic uint64_t *cell)
{
	return atomic_load_explicit(cell, memory_order_relaxed);
}

/* The first cell may have been raised for another scope. True: a hard purge was found, and the rest doesn't matter. */
static __attribute__((noinline)) bool probe_all_cells(struct probe *p, uint64_t spread_hash)
{
	uint64_t hard = UINT64_MAX, soft = UINT64_MAX;

	for (unsigned i = 0; i < PLACES; i++) {
		const struct shared_cell *cell = &p->s->cells[place(spread_hash, i)];
		uint64_t a = at(&cell->hard), b = at(&cell->soft);

		hard = a < hard ? a : hard;
		soft = b < soft ? b : soft;
	}
	if (soft > p->birth)
		p->soft = soft;
	if (hard > p->birth)
		p->hard = hard;
	return p->hard != 0;
}

/* What nobody purged mostly ends here. */
PURGE_INLINE bool probe(void *arg, uint64_t hash, uint8_t kind)
{
	struct probe *p = arg;
	uint64_t h = spread(p->s, hash, kind);
	const struct shared_cell *first = &p->s->cells[place(h, 0)];

	return (at(&first->hard) > p->birth || at(&first->soft) > p->birth) && probe_all_cells(p, h);
}

/* May a purge newer than «since» have been made under other keys than those of who asks? */
static bool under_other_forms(const struct cache_shared *s, const struct cache_names *names,
			      uint64_t since)
{
	const struct shared_forms *f = forms_of(s, names->site_hash);

	if (f == NULL)
		return true;
	if (at(&f->site_hash) == 0)
		return false;
	/* Acquire: see raise_forms. */
	return atomic_load_explicit(&f->forms, memory_order_acquire) != names->forms ||
	       at(&f->changed) > since;
}

static bool probe_path(struct probe *p, const struct cache_names *names)
{
	struct view authority, path = purge_path_of(names->url, &authority);
	const char *query = path.n != 0 ? memchr(path.p, '?', path.n) : NULL;
	const struct shared_cell *cell;

	if (query != NULL)
		path.n = (size_t)(query - path.p);
	cell = path_cell(p->s, purge_path_hash(names->site_hash, path));
	if (at(&cell->soft) > p->birth)
		p->soft = at(&cell->soft);
	p->hard = at(&cell->hard) > p->birth ? at(&cell->hard) : 0;
	return p->hard != 0;
}

enum cache_purged purge_clock_names(const struct cache_shared *s, const struct cache_names *names,
				    uint64_t birth, uint64_t *out_number)
{
	struct probe p = { .s = s, .birth = birth };
	const struct purge_asked asked = {
		.prefix_lengths = at(&s->newest_prefix) > birth ? s->prefix_lengths : NULL,
		.anywhere = at(&s->newest_anywhere) > birth,
	};

	if (purge_each(names, &asked, probe, &p) ||
	    (names->forms != 0 && under_other_forms(s, names, birth) && probe_path(&p, names))) {
		if (out_number != NULL)
			*out_number = p.hard;
		return CACHE_HARD_PURGED;
	}
	return p.soft != 0 ? CACHE_SOFT_PURGED : CACHE_NOT_PURGED;
}

struct cache_names purge_names_of(const struct format_object *o, const struct format_texts *t)
{
	return (struct cache_names){
		.primary = o->primary,
		.site_hash = o->site_hash,
		.host_hash = o->host_hash,
		.url = t->url,
		.any_host = (o->flags & META_ANY_HOST) != 0,
		.tags = t->tags,
		.tag_count = t->tag_count,
	};
}

/* --- the worker's side --------------------------------------------------------------------------- */

/* Since it was passed, or since its birth. */
static enum cache_purged named(const struct cache_object *o, uint32_t forms, uint64_t since)
{
	const struct cache_meta *m = &o->meta;
	const struct cache_names names = {
		.primary = o->key.primary,
		.site_hash = m->site_hash,
		.host_hash = m->host_hash,
		.url = m->url,
		.any_host = (m->flags & META_ANY_HOST) != 0,
		.tags = m->tags,
		.tag_count = m->tag_count,
		.forms = forms,
	};

	enum cache_purged purged = purge_clock_names(o->cache->shared, &names, since, NULL);
	const struct shared_store *st = &o->cache->shared->stores[o->record.store];

	return purged == CACHE_NOT_PURGED && at(&st->revalidate_before) > since ? CACHE_SOFT_PURGED
										: purged;
}

enum cache_purged cache_object_purged_as(const struct cache_object *o, const struct cache_names *names)
{
	const struct cache_shared *s = o->cache->shared;

	if (o->meta.birth >= purge_clock_now(s))
		return CACHE_NOT_PURGED;
	return purge_clock_names(s, names, o->meta.birth, NULL);
}

enum cache_purged cache_object_purged(const struct cache_object *o, uint32_t forms)
{
	struct cache *c = o->cache;
	struct cache_shared *s = c->shared;
	struct cache_passed *passed = &c->passed[o->record.object_id % CACHE_PASSED];
	uint64_t since = o->meta.birth;
	uint64_t now = purge_clock_now(s); /* before the cells: what is raised later is asked about later */

	if (passed->object_id == o->record.object_id && passed->store == o->record.store &&
	    passed->forms == forms && passed->clock > since)
		since = passed->clock;
	if (since >= now)
		return CACHE_NOT_PURGED;
	if (atomic_load_explicit(&s->newest_purge, memory_order_relaxed) > since ||
	    atomic_load_explicit(site_cell(s, o->meta.site_hash), memory_order_relaxed) > since) {
		enum cache_purged purged = named(o, forms, since);

		if (purged != CACHE_NOT_PURGED)
			return purged;
	}
	*passed = (struct cache_passed){
		.object_id = o->record.object_id, .clock = now, .forms = forms, .store = o->record.store
	};
	return CACHE_NOT_PURGED;
}
