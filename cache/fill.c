/*
 * Fills: writing a new object while it comes in.
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
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/claim.h"
#include "cache/place.h"
#include "cache/read.h"

enum {
	FILL_MAGIC = 0x4c4c4946,
	STAGE_BYTES = 64 << 10,
	SPLICE_STAGED_BYTES = 16 << 10, /* a spliced body over this goes direct: one copy less */
	HELD_CHUNKS = 32,		/* the newest chunk files stay open for slower readers */
	SLOW_BYTES = 256 << 10,		/* what a slowed fill may append each CACHE_SLOW_MS */
	PATIENCE_MS = 1000,
	OBJECT_PART = 2, /* of a store is more than any object may take */
};

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

/* False: the keeper is told how much is wanted. */
static bool has_room(struct cache *c, struct shared_store *st, uint64_t bytes)
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
	if (body_bytes > st->small_bytes && !has_room(c, st, first_chunk_bytes(st, body_bytes)))
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

static int go_direct(struct cache_fill *f);

/* Chooses the mode. */
static int prepare(struct cache_fill *f)
{
	if (f->body_bytes > f->store->small_bytes) {
		f->mode = MODE_CHUNKS;
		return 0;
	}
	if (f->body_bytes > STAGE_BYTES)
		return go_direct(f);
	f->mode = MODE_STAGED;
	f->stage_bytes = f->body_bytes < 0 ? STAGE_BYTES : (size_t)f->body_bytes;
	if (f->stage_bytes == 0)
		return 0;
	f->stage = malloc(f->stage_bytes);
	return f->stage != NULL ? 0 : -EAGAIN;
}

static unsigned store_number(const struct cache_fill *f)
{
	return (unsigned)(f->store - f->cache->shared->stores);
}

/* Reserves the entry's range with its body's. */
static int go_direct(struct cache_fill *f)
{
	int e = place_reserve(f->cache, f->shared, store_number(f), f->head_bytes,
			      (uint64_t)f->body_bytes, &f->place);

	if (e < 0)
		return e;
	e = place_file(f->cache, store_number(f), f->place.segment, &f->segment);
	if (e < 0)
		return e;
	f->mode = MODE_DIRECT;
	return 0;
}

/* --- chunks ----------------------------------------------------------------------------------------- */

static uint64_t next_chunk_bytes(const struct cache_fill *f)
{
	uint64_t begin = (uint64_t)f->chunk_count * f->store->chunk_bytes;

	if (f->body_bytes < 0 || (uint64_t)f->body_bytes - begin > f->store->chunk_bytes)
		return f->store->chunk_bytes;
	return (uint64_t)f->body_bytes - begin;
}

static int create_chunk(struct cache_fill *f, struct file_name *name, int *out_fd)
{
	int dir_fd = f->cache->stores[name->store].dir_fd;
	int fd = files_create(dir_fd, name);

	if (fd == -ENOSPC || fd == -EDQUOT)
		shared_store_full(f->cache->shared, name->store);
	else if (fd < 0 && fd != -EMFILE && fd != -ENFILE)
		shared_store_fail(f->cache->shared, name->store, REASON_WRITE, -fd);
	if (fd < 0)
		return fd;
	*out_fd = fd;
	return 0;
}

/* Draws the next chunk's bytes, tells the claim, makes the file. Without room, too: what has arrived must go somewhere,
 * and the keeper evicts for it afterwards. */
static int next_chunk(struct cache_fill *f)
{
	uint64_t bytes = next_chunk_bytes(f);
	struct file_name name = { .kind = FILE_CHUNK,
				  .store = (uint8_t)store_number(f),
				  .id = f->object.body_id,
				  .chunk = f->chunk_count };
	struct file **place = &f->chunks[f->chunk_count % HELD_CHUNKS];
	int fd, e;

	(void)has_room(f->cache, f->store, bytes);
	/* Written down before it is done: a death in between gives back what was not taken, at most once. Release: the
	 * keeper that sees the chunk in the claim sees the bytes. */
	atomic_fetch_add_explicit(&f->shared->drawn_bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&f->shared->chunks_begun, f->chunk_count + 1, memory_order_release);
	atomic_fetch_sub_explicit(&f->store->free_bytes, (int64_t)bytes, memory_order_relaxed);
	e = create_chunk(f, &name, &fd);
	if (e < 0)
		return e;
	files_put(&f->cache->files, place);
	e = files_adopt(&f->cache->files, &name, fd, place);
	if (e < 0)
		return e;
	f->chunk_count++;
	f->room_bytes = bytes;
	return 0;
}

static struct file *current_chunk(const struct cache_fill *f)
{
	return f->chunks[(f->chunk_count - 1) % HELD_CHUNKS];
}

static uint64_t chunk_offset(const struct cache_fill *f)
{
	return f->ready - (uint64_t)(f->chunk_count - 1) * f->store->chunk_bytes;
}

/* --- appending ----------------------------------------------------------------------------------------- */

static int broken(struct cache_fill *f, int error)
{
	f->state = FILL_BROKEN;
	f->error = error;
	return error;
}

static void advance(struct cache_fill *f, size_t n)
{
	uint64_t generation = atomic_load_explicit(&f->shared->generation, memory_order_relaxed) &
			      0xffff;

	f->ready += n;
	if (f->mode == MODE_CHUNKS)
		f->room_bytes -= n;
	/* Release: the bytes are in the file when somebody reads how many there are. */
	atomic_store_explicit(&f->shared->progress, generation << 48 | f->ready, memory_order_release);
}

static int append_chunks(struct cache_fill *f, const char *p, size_t n)
{
	while (n > 0) {
		size_t part;
		int e = f->room_bytes == 0 ? next_chunk(f) : 0;

		if (e < 0)
			return e;
		part = n < f->room_bytes ? n : (size_t)f->room_bytes;
		e = place_write(f->cache, store_number(f), current_chunk(f), chunk_offset(f),
				view_of(p, part), view_of(NULL, 0));
		if (e < 0)
			return e;
		advance(f, part);
		p += part;
		n -= part;
	}
	return 0;
}

/* Unknown length, and the stage is too small for it. Where chunks can't be had, the stage stays: readers go on from it. */
static int outgrow(struct cache_fill *f)
{
	size_t staged = (size_t)f->ready;
	int e;

	f->mode = MODE_CHUNKS;
	f->ready = 0;
	e = append_chunks(f, f->stage, staged);
	if (e < 0) {
		f->mode = MODE_STAGED;
		f->ready = staged;
		return e;
	}
	free(f->stage);
	f->stage = NULL;
	return 0;
}

static int append(struct cache_fill *f, const char *p, size_t n)
{
	int e;

	if (f->mode == MODE_STAGED && f->ready + n > f->stage_bytes) {
		e = outgrow(f);
		if (e < 0)
			return e;
	}
	switch (f->mode) {
	case MODE_STAGED:
		memcpy(f->stage + f->ready, p, n);
		break;
	case MODE_DIRECT:
		e = place_write(f->cache, store_number(f), f->segment,
				f->place.body_offset + f->ready, view_of(p, n), view_of(NULL, 0));
		if (e < 0)
			return e;
		break;
	case MODE_CHUNKS:
		return append_chunks(f, p, n);
	}
	advance(f, n);
	return 0;
}

/* May n more bytes come? */
static int check(const struct cache_fill *f, size_t n)
{
	CHECK_MAGIC(f, FILL_MAGIC);
	if (f->state != FILL_OPEN)
		return f->error != 0 ? f->error : -EPIPE;
	if (f->body_bytes >= 0 && n > (uint64_t)f->body_bytes - f->ready)
		return -EFBIG;
	return 0;
}

int cache_fill_write(struct cache_fill *f, const void *p, size_t n)
{
	int e = check(f, n);

	if (e < 0 || n == 0)
		return e < 0 ? broken(f, e) : 0;
	e = append(f, p, n);
	return e < 0 ? broken(f, e) : 0;
}

static int64_t splice_to(struct cache_fill *f, struct file *to, uint64_t offset, int pipe_fd, size_t n)
{
	loff_t at = (loff_t)offset;
	ssize_t got;

	do
		got = splice(pipe_fd, NULL, to->fd, &at, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (got < 0 && errno == EINTR);
	if (got < 0 && (errno == ENOSPC || errno == EDQUOT))
		shared_store_full(f->cache->shared, store_number(f));
	if (got < 0)
		return -errno;
	if (got == 0)
		return -EPIPE;
	atomic_fetch_add_explicit(&f->store->unsynced_bytes, got, memory_order_relaxed);
	return got;
}

static int64_t splice_staged(struct cache_fill *f, int pipe_fd, size_t n)
{
	size_t room = f->stage_bytes - (size_t)f->ready;
	ssize_t got;

	do
		got = read(pipe_fd, f->stage + f->ready, n < room ? n : room);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	return got > 0 ? got : -EPIPE;
}

/* A stage is left where splicing pays, or where it is full. */
static int leave_stage(struct cache_fill *f)
{
	if (f->body_bytes > SPLICE_STAGED_BYTES && f->ready == 0) {
		if (go_direct(f) < 0) /* no room now, perhaps at the end */
			return 0;
		free(f->stage);
		f->stage = NULL;
		return 0;
	}
	return f->ready == f->stage_bytes ? outgrow(f) : 0;
}

static int64_t splice_on(struct cache_fill *f, int pipe_fd, size_t n)
{
	int e = f->mode == MODE_STAGED ? leave_stage(f) : 0;

	if (e == 0 && f->mode == MODE_CHUNKS && f->room_bytes == 0)
		e = next_chunk(f);
	if (e < 0)
		return e;
	switch (f->mode) {
	case MODE_STAGED:
		return splice_staged(f, pipe_fd, n);
	case MODE_DIRECT:
		return splice_to(f, f->segment, f->place.body_offset + f->ready, pipe_fd, n);
	default:
		return splice_to(f, current_chunk(f), chunk_offset(f), pipe_fd,
				 n < f->room_bytes ? n : (size_t)f->room_bytes);
	}
}

int64_t cache_fill_splice(struct cache_fill *f, int pipe_fd, size_t n)
{
	int64_t got = check(f, n);

	if (got == 0)
		got = splice_on(f, pipe_fd, n);
	if (got == -EAGAIN)
		return got; /* an empty pipe */
	if (got < 0) {
		if (got == -EIO)
			shared_store_fail(f->cache->shared, store_number(f), REASON_WRITE, EIO);
		return broken(f, (int)got);
	}
	advance(f, (size_t)got);
	return got;
}

uint64_t cache_fill_ready(const struct cache_fill *f)
{
	return f->ready;
}

/* --- room ------------------------------------------------------------------------------------------------ */

static int count_refused(struct cache_fill *f, int error)
{
	atomic_fetch_add_explicit(&f->store->fills_refused, 1, memory_order_relaxed);
	return broken(f, error);
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
	int e = check(f, 0);

	if (e < 0)
		return e;
	if (unsynced > limit || f->cache->storing_stopped ||
	    !shared_store_in_service(f->cache->shared, store_number(f)))
		return count_refused(f, -EAGAIN);
	/* The next chunk is made by its first byte: perhaps there is none. */
	if (f->mode == MODE_CHUNKS && room > 0 && f->room_bytes == 0) {
		room = (int64_t)next_chunk_bytes(f);
		if (!has_room(f->cache, f->store, (uint64_t)room))
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
				  .store = (uint8_t)store_number(f),
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
	e = place_reserve(f->cache, f->shared, store_number(f), f->head_bytes,
			  f->mode == MODE_STAGED ? f->ready : 0, &f->place);
	if (e < 0)
		return e;
	return place_file(f->cache, store_number(f), f->place.segment, &f->segment);
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
	return place_write(f->cache, store_number(f), f->segment, o->head_offset, head, body);
}

int cache_fill_finish(struct cache_fill *f)
{
	int e = check(f, 0);

	if (e == 0 && f->body_bytes >= 0 && f->ready != (uint64_t)f->body_bytes)
		e = -EINVAL;
	if (e == 0 && f->cache->storing_stopped)
		e = -EAGAIN;
	if (e == 0)
		e = take_place(f);
	if (e == 0)
		e = write_entry(f);
	if (e < 0) {
		broken(f, e);
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
		broken(f, -ECANCELED);
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
