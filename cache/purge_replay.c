/*
 * Purges at the keeper's start: what the journals of all stores say together is raised, and written into each of them. What
 * numbers of several journals can be compared, and who was away, is decided by runs: see journal.h.
 */
#include "cache/keeper_store.h"

#include <errno.h>
#include <sys/random.h>

#include "cache/purge_clock.h"
#include "edge/base/log.h"

uint64_t purges_new_run(void)
{
	uint64_t id = 0;

	CHECK(getrandom(&id, sizeof(id), 0) == sizeof(id));
	return id | 1;
}

static void raise_store(struct keeper *k, const struct format_purge *p)
{
	for (unsigned i = 0; i < k->store_count; i++) {
		if (k->stores[i].usable && k->stores[i].super.id[0] == p->hash)
			purge_clock_raise_store(k->shared, i, p->sequence);
	}
}

static void raise_set(struct keeper *k, const struct journal_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct format_purge *p = &set->purges[i];
		struct cache_scope scope = { .hash = p->hash,
					     .site_hash = p->site_hash,
					     .kind = p->kind,
					     .bytes = p->bytes,
					     .forms = p->forms };

		purge_clock_raise(k->shared, &scope, p->soft, p->sequence);
		if (p->kind == CACHE_SCOPE_STORE)
			raise_store(k, p);
	}
	purge_clock_publish(k->shared, journal_set_newest(set));
}

struct loaded {
	struct journal_runs runs;
	bool there, lost;
	uint64_t unsafe; /* number of the newest note of an unsafe method's answer; 0: none */
};

static int load_store(struct keeper_store *ks, struct journal_set *all, struct loaded *out)
{
	size_t before = all->count;
	bool whole;
	int r = journal_load(ks->dir_fd, ks->super.id, all, &whole);

	for (size_t i = before; i < all->count; i++) {
		if (all->purges[i].kind == CACHE_SCOPE_UNSAFE && all->purges[i].sequence > out->unsafe)
			out->unsafe = all->purges[i].sequence;
	}
	out->lost = r == -ENOENT || r == -EBADMSG;
	out->there = r == 0;
	out->runs = all->runs;
	return out->lost ? 0 : r;
}

/* Does this journal have all that the others have, but for what was purged since? A new store's says nothing. */
static bool leads(const struct loaded *l, const struct loaded *others, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const struct journal_runs *runs = &others[i].runs;

		if (others[i].there && runs->count != 0 &&
		    !journal_runs_has(&l->runs, runs->ids[runs->count - 1]))
			return false;
	}
	return l->there;
}

static void join_runs(const struct loaded *loaded, unsigned count, struct journal_runs *out)
{
	*out = (struct journal_runs){ .count = 0 };
	for (unsigned i = 0; i < count; i++) {
		for (unsigned n = 0; loaded[i].there && n < loaded[i].runs.count; n++) {
			if (!journal_runs_has(out, loaded[i].runs.ids[n]))
				journal_runs_add(out, loaded[i].runs.ids[n]);
		}
	}
}

/* A journal that has what all others have; «count»: there is none. */
static unsigned leader(const struct loaded *loaded, unsigned count)
{
	unsigned i = 0;

	while (i < count && !leads(&loaded[i], loaded, count))
		i++;
	return i;
}

/* What all journals say together, under numbers that can be compared. */
static void join(struct journal_set *all, const struct loaded *loaded, unsigned count)
{
	unsigned i = leader(loaded, count);

	if (i < count) {
		all->runs = loaded[i].runs;
	} else {
		join_runs(loaded, count, &all->runs);
		if (all->runs.count != 0) {
			log_warn("journals_joined",
				 "what=\"stores were used without each other: what was purged "
				 "meanwhile is purged once more\"");
			journal_set_renumber(all);
		}
	}
	journal_runs_add(&all->runs, purges_new_run());
	journal_set_fold(all, JOURNAL_SCOPES);
}

/* Was it away when an unsafe method was answered? Nobody looked then what of this store that made invalid. */
static bool missed_unsafe(const struct loaded *loaded, unsigned count, unsigned store)
{
	unsigned first = leader(loaded, count);
	const struct journal_runs *newest = first < count ? &loaded[first].runs : NULL;
	uint64_t others = 0;

	if (!loaded[store].there)
		return false;
	if (newest != NULL && (newest->count == 0 ||
			       journal_runs_has(&loaded[store].runs, newest->ids[newest->count - 1])))
		return false;
	for (unsigned i = 0; i < count; i++) {
		if (i != store && loaded[i].unsafe > others)
			others = loaded[i].unsafe;
	}
	/* Without a leader numbers say nothing. */
	return others != 0 && (newest == NULL || others > loaded[store].unsafe);
}

/* It is revalidated as a whole, once: from now on its journal has the note, too. */
static int revalidate_store(struct keeper_store *ks, struct journal_set *all)
{
	const struct format_purge purge = { .sequence = journal_set_newest(all) + 1,
					    .hash = ks->super.id[0],
					    .kind = CACHE_SCOPE_STORE,
					    .soft = true,
					    .wall_ms = clock_wall().ms };

	log_warn("store_revalidated",
		 "store=%s what=\"unsafe methods were answered while it was away: what it holds is "
		 "revalidated\"",
		 ks->st->name);
	return journal_set_add(all, &purge);
}

static int rewrite_store(struct keeper_store *ks, const struct journal_set *all)
{
	int r = journal_rewrite(ks->dir_fd, ks->super.id, all);

	if (r == 0)
		r = journal_open(ks->dir_fd, &ks->journal);
	if (r == 0)
		ks->accounts[ACCOUNT_JOURNAL] = ks->journal.bytes;
	return r;
}

unsigned purges_replay(struct keeper *k)
{
	struct journal_set all = { .count = 0 };
	struct loaded loaded[SHARED_STORES] = { { .there = false } };
	unsigned lost = 0;

	for (unsigned i = 0; i < k->store_count; i++) {
		struct keeper_store *ks = &k->stores[i];
		int r = ks->usable ? load_store(ks, &all, &loaded[i]) : 0;

		if (r != 0)
			keeper_store_failed(ks, REASON_JOURNAL, r);
		if (loaded[i].lost)
			lost |= 1u << i;
	}
	join(&all, loaded, k->store_count);
	for (unsigned i = 0; i < k->store_count; i++) {
		int r = missed_unsafe(loaded, k->store_count, i)
				? revalidate_store(&k->stores[i], &all)
				: 0;

		if (r != 0)
			keeper_store_failed(&k->stores[i], REASON_JOURNAL, r);
	}
	raise_set(k, &all);
	for (unsigned i = 0; i < k->store_count; i++) {
		struct keeper_store *ks = &k->stores[i];
		int r = ks->usable ? rewrite_store(ks, &all) : 0;

		if (r != 0)
			keeper_store_failed(ks, REASON_JOURNAL, r);
	}
	k->journalled = keeper_usable_stores(k);
	journal_set_fini(&all);
	return lost;
}
