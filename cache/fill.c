/*
 * Fills: writing a new object while it comes in. How bytes are written is in fill_append.c; here is all else.
 *
 * Where the body goes:
 *	staged	  memory, until the end or 64 KiB: what is small is written with its head in one pwritev;
 *		  of unknown length, it becomes chunks when it outgrows the stage
 *	direct	  straight into its range of a segment: length known, too big to stage (or spliced)
 *	chunks	  a file for each chunk: length known to be over the segments' limit, or outgrown
 *
 * Lifetime: begin → write, splice … → finish or abort → (readable) → free. The claim ends at finish (the keeper's from
 * there on) or abort; chunk files of an aborted fill are unlinked, and their bytes given back, by the keeper, in the same way
 * whether this process aborted it or died.
 *
 * Before a chunk file is made, the claim says so and how many bytes were drawn for it. Bytes in «unsynced» are the
 * brake: over half of the limit a fill gets a little every 50 ms, over the limit, or after a second of
 * that, it is told to relay instead. Room in the store is asked for and waited for in the same way.
 *
 * Rejected: reserving the whole length at the start (a 100 GB response would evict the store before a byte came), and
 * writing in threads (page cache writes cost less than the hop; the brake keeps the kernel from throttling us).
 */
#include "cache/fill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/read.h"

enum {
	FILL_MAGIC = 0x4c4c4946,
	STAGE_BYTES = 64 << 10,
	SLOW_BYTES = 256 << 10, /* what a slowed fill may append each CACHE_SLOW_MS */
	PATIENCE_MS = 1000,
	OBJECT_PART = 2, /* of a store is more than any object may take */
};

/* --- begin ---------------------------------------------------------------------------------------- */

static int choose_store(struct cache_claim *cl, const struct cache_key *key, int64_t body_bytes,
			unsigned *out_store);
static struct cache_fill *new_fill(struct cache *c, const struct cache_key *key,
				   const struct cache_meta *meta, struct view vary, struct view head);
static int prepare(struct cache_fill *f);

static int refuse(struct cache_claim **claim, unsigned store, int error)
{
	struct cache *c = claim_cache(*claim);

	if (store < c->store_count)
		atomic_fetch_add_explicit(&cache_shared_store(c, store)->fills_refused, 1,
					  memory_order_relaxed);
	cache_claim_drop(claim);
	return error;
}

int cache_fill_begin(struct cache_claim **claim, const struct cache_key *key,
		     const struct cache_meta *meta, struct view vary_rule, struct view head,
		     int64_t body_bytes, struct cache_fill **out)
{
	struct cache *c = claim_cache(*claim);
	unsigned store = SHARED_STORES;
	struct cache_fill *f;
	int e = choose_store(*claim, key, body_bytes, &store);

	if (e < 0)
		return refuse(claim, store, e);
	f = new_fill(c, key, meta, vary_rule, head);
	if (f == NULL)
		return refuse(claim, store, -EFBIG);
	f->store = cache_shared_store(c, store);
	f->shared = claim_slot(*claim);
	f->body_bytes = body_bytes;
	/* The id is stored last (release): who sees it sees the store. */
	atomic_store_explicit(&f->shared->store, (uint8_t)store, memory_order_relaxed);
	f->object.object_id = f->object.body_id = atomic_fetch_add_explicit(
		&c->shared->next_object_id, 1, memory_order_relaxed);
	atomic_store_explicit(&f->shared->object_id, f->object.object_id, memory_order_release);
	e = prepare(f);
	if (e < 0) {
		cache_fill_free(f);
		return refuse(claim, store, e);
	}
	f->claim = *claim;
	*claim = NULL;
	*out = f;
	return 0;
}

bool fill_has_room(struct cache *c, struct shared_store *st, uint64_t bytes)
{
	if (atomic_load_explicit(&st->free_bytes, memory_order_relaxed) >= (int64_t)bytes)
		return true;
	atomic_store_explicit(&st->wanted_bytes, bytes, memory_order_relaxed);
	shared_hint_keeper(c->shared);
	return false;
}

static uint64_t first_chunk_bytes(const struct shared_store *st, int64_t body_bytes)
{
	return (uint64_t)body_bytes < st->chunk_bytes ? (uint64_t)body_bytes : st->chunk_bytes;
}

static int choose_store(struct cache_claim *cl, const struct cache_key *key, int64_t body_bytes,
			unsigned *out_store)
{
	struct cache *c = claim_cache(cl);
	struct shared_store *st;
	int store;

	if (!cache_may_store(c) || claim_is_superseded(cl))
		return -EAGAIN;
	store = cache_store_for(c, key->primary);
	if (store < 0)
		return -EAGAIN;
	*out_store = (unsigned)store;
	st = cache_shared_store(c, (unsigned)store);
	if (body_bytes > 0 && (uint64_t)body_bytes > st->size_bytes / OBJECT_PART)
		return -EFBIG;
	if (atomic_load_explicit(&st->unsynced_bytes, memory_order_relaxed) >
	    (int64_t)st->unsynced_limit_bytes)
		return -EAGAIN;
	if (body_bytes > st->small_bytes && !fill_has_room(c, st, first_chunk_bytes(st, body_bytes)))
		return -ENOSPC;
	return 0;
}

static struct view keep(char **at, struct view v)
{
	struct view kept = { *at, v.n };

	if (v.n != 0)
		memcpy(*at, v.p, v.n);
	*at += v.n;
	return kept;
}

/* One block: the fill, its texts, and room for the entry. NULL: texts too long, or no memory. */
static struct cache_fill *new_fill(struct cache *c, const struct cache_key *key,
				   const struct cache_meta *meta, struct view vary, struct view head)
{
	struct format_texts t;
	struct cache_fill *f;
	uint32_t head_bytes;
	char *at;

	place_texts(meta, vary, head, &t);
	head_bytes = format_entry_bytes(&t);
	if (head_bytes == 0 || vary.n > CACHE_VARY_MAX)
		return NULL;
	f = calloc(1, sizeof(*f) + 2 * ((size_t)head_bytes + FORMAT_ALIGN));
	if (f == NULL)
		return NULL;
	f->magic = FILL_MAGIC;
	f->cache = c;
	f->key = *key;
	f->head_bytes = head_bytes;
	list_init(&f->slow);
	f->max_variants = vary.n != 0 ? meta->max_variants : 0;
	place_object(key, meta, vary.n != 0, &f->object);
	at = (char *)(f + 1);
	f->entry = at;
	at += (head_bytes + FORMAT_ALIGN - 1) / FORMAT_ALIGN * FORMAT_ALIGN;
	f->texts = t;
	f->texts.tags = (const uint64_t *)(const void *)keep(
				&at, view_of((const char *)t.tags, t.tag_count * sizeof(uint64_t)))
				.p;
	f->texts.url = keep(&at, t.url);
	f->texts.vary = keep(&at, t.vary);
	f->texts.etag = keep(&at, t.etag);
	f->texts.last_modified = keep(&at, t.last_modified);
	f->texts.head = keep(&at, t.head);
	return f;
}

/* Chooses the mode. */
static int prepare(struct cache_fill *f)
{
	if (f->body_bytes > f->store->small_bytes) {
		f->mode = MODE_CHUNKS;
		return 0;
	}
	if (f->body_bytes > STAGE_BYTES)
		return fill_go_direct(f);
	f->mode = MODE_STAGED;
	f->stage_bytes = f->body_bytes < 0 ? STAGE_BYTES : (size_t)f->body_bytes;
	if (f->stage_bytes == 0)
		return 0;
	f->stage = malloc(f->stage_bytes);
	return f->stage != NULL ? 0 : -EAGAIN;
}

/* --- while it is open ---------------------------------------------------------------------------- */

int fill_broken(struct cache_fill *f, int error)
{
	f->state = FILL_BROKEN;
	f->error = error;
	return error;
}

int fill_check(const struct cache_fill *f, size_t n)
{
	CHECK_MAGIC(f, FILL_MAGIC);
	if (f->state != FILL_OPEN)
		return f->error != 0 ? f->error : -EPIPE;
	if (f->body_bytes >= 0 && n > (uint64_t)f->body_bytes - f->ready)
		return -EFBIG;
	return 0;
}

uint64_t cache_fill_ready(const struct cache_fill *f)
{
	return f->ready;
}

/* --- room ------------------------------------------------------------------------------------------------ */

static int count_refused(struct cache_fill *f, int error)
{
	atomic_fetch_add_explicit(&f->store->fills_refused, 1, memory_order_relaxed);
	return fill_broken(f, error);
}

/* Wait for the next look; after PATIENCE_MS of that, give up. */
static int64_t slowed(struct cache_fill *f, struct ready *wake, int error)
{
	struct mono now = clock_mono();

	if (f->slow_since.ms == 0)
		f->slow_since = now;
	if (now.ms - f->slow_since.ms > PATIENCE_MS)
		return count_refused(f, error);
	f->wake = wake;
	if (!list_linked(&f->slow))
		list_append(&f->cache->slow_fills, &f->slow);
	timer_set(&f->cache->slow, CACHE_SLOW_MS);
	return 0;
}

int64_t cache_fill_room(struct cache_fill *f, struct ready *wake)
{
	int64_t limit = (int64_t)f->store->unsynced_limit_bytes;
	int64_t unsynced = atomic_load_explicit(&f->store->unsynced_bytes, memory_order_relaxed);
	int64_t room = f->body_bytes < 0 ? INT64_MAX : f->body_bytes - (int64_t)f->ready;
	int e = fill_check(f, 0);

	if (e < 0)
		return e;
	if (unsynced > limit || f->cache->storing_stopped ||
	    !shared_store_in_service(f->cache->shared, fill_store(f)))
		return count_refused(f, -EAGAIN);
	/* The next chunk is made by its first byte: perhaps there is none. */
	if (f->mode == MODE_CHUNKS && room > 0 && f->room_bytes == 0) {
		room = (int64_t)fill_next_chunk_bytes(f);
		if (!fill_has_room(f->cache, f->store, (uint64_t)room))
			return slowed(f, wake, -ENOSPC);
	} else if (f->mode == MODE_CHUNKS) {
		room = (int64_t)f->room_bytes;
	}
	if (unsynced > limit / 2) {
		if (!f->granted)
			return slowed(f, wake, -EAGAIN);
		f->granted = false;
		return room < SLOW_BYTES ? room : SLOW_BYTES;
	}
	f->slow_since.ms = 0;
	return room;
}

static void stop_waiting(struct cache_fill *f)
{
	list_remove(&f->slow);
	f->wake = NULL;
}

void fill_wake_slow(struct cache *c)
{
	LIST_EACH (&c->slow_fills, link, following) {
		struct cache_fill *f = LIST_ENTRY(link, struct cache_fill, slow);
		struct ready *wake = f->wake;

		stop_waiting(f);
		f->granted = true;
		if (wake != NULL)
			ready_post(wake);
	}
}

/* --- readers ----------------------------------------------------------------------------------------------- */

int cache_fill_body(struct cache_fill *f, struct cache_reader *r, uint64_t offset,
		    struct ready *wake, struct cache_span *out, const char **out_memory)
{
	struct file_name name = { .kind = FILE_SEGMENT,
				  .store = (uint8_t)fill_store(f),
				  .id = f->place.segment };
	uint64_t left, at;

	CHECK_MAGIC(f, FILL_MAGIC);
	CHECK(offset < f->ready);
	left = f->ready - offset;
	at = f->place.body_offset + offset;
	*out_memory = NULL;
	if (f->mode == MODE_STAGED) {
		*out_memory = f->stage + offset;
		*out = (struct cache_span){ .fd = -1, .offset = offset, .bytes = (uint32_t)left };
		return 0;
	}
	if (f->mode == MODE_CHUNKS) {
		name.kind = FILE_CHUNK;
		name.id = f->object.body_id;
		name.chunk = (uint32_t)(offset / f->store->chunk_bytes);
		at = offset % f->store->chunk_bytes;
		if (left > f->store->chunk_bytes - at)
			left = f->store->chunk_bytes - at;
	}
	return read_span(f->cache, r, &name, at,
			 left < READ_SPAN_BYTES ? (uint32_t)left : READ_SPAN_BYTES, wake, out);
}

/* --- the end -------------------------------------------------------------------------------------------------- */

/* Where the entry goes, if it has no place yet: staged bodies go with it, chunks have only their head there. */
static int take_place(struct cache_fill *f)
{
	int e;

	if (f->mode == MODE_DIRECT)
		return 0;
	e = place_reserve(f->cache, f->shared, fill_store(f), f->head_bytes,
			  f->mode == MODE_STAGED ? f->ready : 0, &f->place);
	if (e < 0)
		return e;
	return place_file(f->cache, fill_store(f), f->place.segment, &f->segment);
}

/* Bytes of the last chunk that were drawn and not needed. */
static void give_back(struct cache_fill *f)
{
	uint64_t drawn = atomic_load_explicit(&f->shared->drawn_bytes, memory_order_relaxed);

	if (f->mode != MODE_CHUNKS || drawn <= f->ready)
		return;
	atomic_store_explicit(&f->shared->drawn_bytes, f->ready, memory_order_relaxed);
	atomic_fetch_add_explicit(&f->store->free_bytes, (int64_t)(drawn - f->ready),
				  memory_order_relaxed);
}

static int write_entry(struct cache_fill *f)
{
	struct format_object *o = &f->object;
	struct view head = { f->entry, f->head_bytes };
	struct view body = { NULL, 0 };

	o->body_bytes = f->ready;
	o->head_segment = f->place.segment;
	o->head_offset = f->place.head_offset;
	o->head_bytes = f->head_bytes;
	if (f->mode != MODE_CHUNKS && f->ready > 0) {
		o->body_segment = f->place.segment;
		o->body_offset = f->place.body_offset;
	}
	format_entry_encode(o, &f->texts, f->entry);
	if (f->mode == MODE_STAGED && f->ready > 0) {
		/* Up to the body: the few bytes before its page are zeros. */
		head.n = f->place.body_offset - o->head_offset;
		body = view_of(f->stage, (size_t)f->ready);
	}
	return place_write(f->cache, fill_store(f), f->segment, o->head_offset, head, body);
}

int cache_fill_finish(struct cache_fill *f)
{
	int e = fill_check(f, 0);

	if (e == 0 && f->body_bytes >= 0 && f->ready != (uint64_t)f->body_bytes)
		e = -EINVAL;
	if (e == 0 && f->cache->storing_stopped)
		e = -EAGAIN;
	if (e == 0)
		e = take_place(f);
	if (e == 0)
		e = write_entry(f);
	if (e < 0) {
		fill_broken(f, e);
		cache_fill_abort(f);
		return e;
	}
	give_back(f);
	place_commit(&f->object, &f->key, f->chunk_count, (uint16_t)f->texts.vary.n,
		     f->max_variants, &f->shared->commit);
	f->state = FILL_DONE;
	f->body_bytes = (int64_t)f->ready;
	stop_waiting(f);
	claim_done(&f->claim);
	return 0;
}

static void drop_claim(struct cache_fill *f)
{
	if (f->claim != NULL && f->chunk_count > 0)
		files_expect_unlinks(&f->cache->files);
	cache_claim_drop(&f->claim);
}

void cache_fill_abort(struct cache_fill *f)
{
	CHECK_MAGIC(f, FILL_MAGIC);
	if (f->state == FILL_OPEN)
		fill_broken(f, -ECANCELED);
	stop_waiting(f);
	drop_claim(f);
}

void cache_fill_free(struct cache_fill *f)
{
	if (f == NULL)
		return;
	CHECK_MAGIC(f, FILL_MAGIC);
	stop_waiting(f);
	drop_claim(f);
	files_put(&f->cache->files, &f->segment);
	for (unsigned i = 0; i < HELD_CHUNKS; i++)
		files_put(&f->cache->files, &f->chunks[i]);
	free(f->stage);
	f->magic = 0;
	free(f);
}
