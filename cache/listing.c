/*
 * See listing.h. A lane of its own, made when it is first needed: the stores' lanes may be in a sync of seconds, and the
 * loop's pool is for those who serve.
 *
 * The lane's thread gets copies and reads files; of the keeper it looks at nothing but what never changes while it is
 * open, and the purge clock. Where a log has gone meanwhile, its segment was evicted: the next one follows.
 */
#include "cache/listing.h"

#include <errno.h>
#include <stdlib.h>

#include "cache/keeper_store.h"
#include "cache/log.h"
#include "cache/purge_clock.h"

enum {
	/* What a page may cost, whatever it finds: some milliseconds of the thread. */
	RECORDS_MOST = 20000,
	LOGS_MOST = 512,
	ARENA_BYTES_MAX = 64 << 20, /* of texts: LISTING_MOST URLs of the longest kind */
};

struct listings {
	struct keeper *keeper;
	struct loop *loop;
	struct lane *lane; /* NULL: not yet needed */
};

/* A store as it was when the listing began. */
struct listing_store {
	bool there;
	int dir_fd;
	uint64_t id[2];
	uint32_t lowest, end; /* of segments */
};

struct listing {
	struct listings *owner;
	struct job job;
	struct ready *wake; /* NULL: nobody waits */
	bool running;
	struct arena arena;
	struct listing_query query;
	struct listing_store stores[SHARED_STORES];
	struct cache_shared *shared;

	/* Of the thread, then of the loop. */
	struct listed *items;
	unsigned count;
	unsigned records, logs; /* read */
	struct listing_place at;
	int error;
};

int listings_new(struct keeper *k, struct loop *l, struct listings **out)
{
	struct listings *ls = calloc(1, sizeof(*ls));

	if (ls == NULL)
		return -ENOMEM;
	ls->keeper = k;
	ls->loop = l;
	*out = ls;
	return 0;
}

void listings_free(struct listings **listings)
{
	struct listings *ls = *listings;

	if (ls == NULL)
		return;
	*listings = NULL;
	if (ls->lane != NULL)
		lane_close(&ls->lane); /* whoever was left to it is freed by its own end */
	free(ls);
}

/* --- in the thread ------------------------------------------------------------------------------- */

static bool of_site(const struct listing_query *q, uint64_t site_hash)
{
	for (size_t i = 0; i < q->site_count; i++) {
		if (q->sites[i] == site_hash)
			return true;
	}
	return q->site_count == 0;
}

static bool has_prefix(const struct listing_query *q, struct view url)
{
	const char *mark = q->any_scheme ? memmem(url.p, url.n, "://", 3) : NULL;

	return view_starts(mark != NULL ? view_skip(url, (size_t)(mark + 3 - url.p)) : url, q->prefix);
}

static int take(struct listing *l, const struct format_log_view *v)
{
	const struct format_object *o = v->object;
	struct listed *to = &l->items[l->count];
	struct cache_names names;

	if (!of_site(&l->query, o->site_hash) || !has_prefix(&l->query, v->texts.url))
		return 0;
	*to = (struct listed){ .key = { .secondary = o->secondary, .base = o->base_secondary },
			       .store = (uint8_t)l->at.store,
			       .status = o->status,
			       .tag_count = v->texts.tag_count,
			       .object_id = o->object_id,
			       .body_bytes = o->body_bytes,
			       .site_hash = o->site_hash,
			       .head_segment = o->head_segment,
			       .head_offset = o->head_offset,
			       .received = { o->received_ms },
			       .initial_age_ms = o->initial_age_ms,
			       .lifetime_ms = o->lifetime_ms };
	memcpy(to->key.primary, o->primary, sizeof(to->key.primary));
	names = purge_names_of(o, &v->texts);
	to->purged = purge_clock_names(l->shared, &names, o->birth, NULL);
	to->url = arena_copy(&l->arena, v->texts.url);
	if (to->url.p == NULL)
		return -ENOMEM;
	l->count++;
	return 0;
}

static bool is_full(const struct listing *l)
{
	return l->count == l->query.limit || l->records >= RECORDS_MOST || l->logs >= LOGS_MOST;
}

/* 0: its end; 1: the page is full; or a negative errno. */
static int read_log(struct listing *l, struct log_reader *reader)
{
	struct format_log_view v;
	int r;

	while (!is_full(l)) {
		r = log_read(reader, &v);
		if (r != 0)
			return r == -ENODATA ? 0 : r;
		l->records++;
		l->at.offset = log_reader_offset(reader);
		if (v.object == NULL)
			continue;
		r = take(l, &v);
		if (r != 0)
			return r;
	}
	return 1;
}

/* As read_log. A log that can't be read is left out: its objects can't be served for long either. */
static int list_segment(struct listing *l, const struct listing_store *s)
{
	struct log_reader *reader;
	int r = log_reader_open(s->dir_fd, s->id, l->at.segment, l->at.offset, &reader);

	l->logs++;
	if (r != 0)
		return r == -ENOMEM ? r : 0;
	r = read_log(l, reader);
	log_reader_close(&reader);
	return r == -EIO ? 0 : r;
}

static int list_store(struct listing *l, const struct listing_store *s)
{
	if (l->at.segment < s->lowest) {
		l->at.segment = s->lowest;
		l->at.offset = 0;
	}
	for (; s->there && l->at.segment < s->end; l->at.segment++, l->at.offset = 0) {
		int r = is_full(l) ? 1 : list_segment(l, s);

		if (r != 0)
			return r;
	}
	return 0;
}

static void run(struct job *j)
{
	struct listing *l = CONTAINER_OF(j, struct listing, job);

	for (; l->at.store < SHARED_STORES; l->at.store++, l->at.segment = 0, l->at.offset = 0) {
		int r = list_store(l, &l->stores[l->at.store]);

		if (r != 0) {
			l->error = r < 0 ? r : 0;
			return;
		}
	}
}

/* --- in the loop ---------------------------------------------------------------------------------- */

static void destroy(struct listing *l)
{
	arena_fini(&l->arena);
	free(l);
}

static void done(struct job *j)
{
	struct listing *l = CONTAINER_OF(j, struct listing, job);

	l->running = false;
	if (l->wake != NULL)
		ready_post(l->wake);
	else
		destroy(l);
}

static void copy_stores(struct listing *l, const struct keeper *k)
{
	for (unsigned i = 0; i < k->store_count; i++) {
		const struct keeper_store *ks = &k->stores[i];

		l->stores[i] = (struct listing_store){ .there = ks->usable,
						       .dir_fd = ks->dir_fd,
						       .id = { ks->super.id[0], ks->super.id[1] },
						       .lowest = ks->lowest_id,
						       .end = ks->next_id };
	}
}

static int copy_query(struct listing *l, const struct listing_query *q)
{
	uint64_t *sites = arena_alloc(&l->arena, (q->site_count + 1) * sizeof(*sites));

	l->query = *q;
	l->query.prefix = arena_copy(&l->arena, q->prefix);
	l->items = arena_alloc(&l->arena, q->limit * sizeof(*l->items));
	if (sites == NULL || l->query.prefix.p == NULL || l->items == NULL)
		return -ENOMEM;
	if (q->site_count > 0)
		memcpy(sites, q->sites, q->site_count * sizeof(*sites));
	l->query.sites = sites;
	l->at = q->from;
	return 0;
}

int listing_begin(struct listings *ls, const struct listing_query *q, struct ready *wake,
		  struct listing **out)
{
	struct listing *l;
	int r = ls->lane != NULL ? 0 : lane_open(ls->loop, &ls->lane);

	if (r != 0)
		return r;
	CHECK(q->limit > 0 && q->limit <= LISTING_MOST);
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	arena_init(&l->arena, ARENA_BYTES_MAX);
	l->owner = ls;
	l->shared = ls->keeper->shared;
	l->wake = wake;
	copy_stores(l, ls->keeper);
	r = copy_query(l, q);
	if (r != 0) {
		destroy(l);
		return r;
	}
	l->running = true;
	lane_submit(ls->lane, &l->job, run, done);
	*out = l;
	return 0;
}

bool listing_counts(const struct listing *l, const struct listed *item)
{
	struct cache_record r;

	/* Here, and not in a later record of the same object. */
	return cache_find(keeper_cache(l->owner->keeper), &item->key, &r) == 0 &&
	       r.kind == CACHE_RECORD_OBJECT && r.store == item->store &&
	       r.object_id == item->object_id && r.head_segment == item->head_segment &&
	       r.head_offset == item->head_offset;
}

int listing_page(struct listing *l, const struct listed **out, unsigned *out_count,
		 struct listing_place *out_next, bool *out_more)
{
	if (l->running)
		return -EINPROGRESS;
	if (l->error != 0)
		return l->error;
	*out = l->items;
	*out_count = l->count;
	*out_next = l->at;
	*out_more = l->at.store < SHARED_STORES;
	return 0;
}

void listing_free(struct listing **pl)
{
	struct listing *l = *pl;

	*pl = NULL;
	l->wake = NULL;
	if (!l->running)
		destroy(l);
}
