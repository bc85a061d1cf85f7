/*
 * Reservations are made by workers without the keeper: see struct shared_segment. A worker prefers one of the first two
 * open segments (so that two workers' small objects don't share cache lines and a store of one worker fills one
 * segment after another), then the spares.
 *
 * A segment counts as full when less than a sixteenth is left and something didn't fit, or when nothing fitted
 * anywhere: a big body that finds no room must not close a segment that is half empty.
 */
#include "cache/place.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

static void mark_full(struct cache *c, struct shared_store *st, uint32_t id)
{
	struct shared_segment *sg = shared_segment(st, id);
	uint32_t open = SEGMENT_OPEN;

	if (sg != NULL)
		atomic_compare_exchange_strong_explicit(&sg->state, &open, SEGMENT_FULL,
							memory_order_release, memory_order_relaxed);
	shared_hint_keeper(c->shared);
}

static bool nearly_full(const struct shared_store *st, uint32_t id)
{
	const struct shared_segment *sg = &st->segments[id % SHARED_SEGMENTS];
	uint32_t tail = (uint32_t)atomic_load_explicit(&sg->tail, memory_order_relaxed);

	return tail > st->segment_bytes - st->segment_bytes / 16;
}

/* The body's first byte is what must lie on a page, if it is worth it: the entry begins that much before. */
static int reserve_in(struct shared_store *st, uint32_t id, uint32_t head_bytes,
		      uint64_t body_bytes, struct place *out)
{
	uint32_t head = (head_bytes + FORMAT_ALIGN - 1) / FORMAT_ALIGN * FORMAT_ALIGN;
	bool paged = body_bytes > FORMAT_PAGE_BODY;
	uint32_t bytes = (paged ? head : head_bytes) + (uint32_t)body_bytes;
	uint32_t offset;
	int e = shared_segment_reserve(st, id, bytes, paged ? FORMAT_PAGE : FORMAT_ALIGN,
				       paged ? head : 0, &offset);

	if (e < 0)
		return e;
	*out = (struct place){ .segment = id,
			       .head_offset = offset,
			       .body_offset = format_body_offset(offset, head_bytes, body_bytes) };
	CHECK(out->body_offset + body_bytes <= offset + bytes);
	return 0;
}

int place_reserve(struct cache *c, struct shared_claim *claim, unsigned store, uint32_t head_bytes,
		  uint64_t body_bytes, struct place *out)
{
	struct shared_store *st = cache_shared_store(c, store);
	const unsigned own = (unsigned)c->slot & 1;
	const unsigned order[SHARED_SEGMENTS_OPEN] = { own, 2, 3, own ^ 1 };
	uint32_t preferred = 0;

	for (unsigned i = 0; i < SHARED_SEGMENTS_OPEN; i++) {
		/* Acquire: the segment's slot and file were made before its id was put here. */
		uint32_t id = atomic_load_explicit(&st->open[order[i]], memory_order_acquire);

		if (id == 0)
			continue;
		/* Sequentially consistent, before the reservation: see shared_segment_close. */
		atomic_store_explicit(&claim->segment, id, memory_order_seq_cst);
		if (reserve_in(st, id, head_bytes, body_bytes, out) == 0)
			return 0;
		if (nearly_full(st, id))
			mark_full(c, st, id);
		else if (preferred == 0)
			preferred = id;
	}
	atomic_store_explicit(&claim->segment, 0, memory_order_relaxed);
	if (preferred != 0)
		mark_full(c, st, preferred);
	shared_hint_keeper(c->shared);
	return -EAGAIN;
}

int place_file(struct cache *c, unsigned store, uint32_t segment, struct file **out)
{
	struct file_name name = { .kind = FILE_SEGMENT, .store = (uint8_t)store, .id = segment };
	int e = files_get(&c->files, &name, out);
	int fd;

	if (e != -EAGAIN)
		return e;
	/* The keeper made it moments ago: its inode is in memory, whatever openat2 can tell. */
	fd = files_open(c->stores[store].dir_fd, &name);
	return fd < 0 ? fd : files_adopt(&c->files, &name, fd, out);
}

void place_object(const struct cache_key *key, const struct cache_meta *meta, bool varies,
		  struct format_object *out)
{
	*out = (struct format_object){
		.secondary = key->secondary,
		.base_secondary = varies ? key->base : key->secondary,
		.birth = meta->birth,
		.received_ms = meta->received.ms,
		.initial_age_ms = meta->initial_age_ms,
		.lifetime_ms = meta->lifetime_ms,
		.site_hash = meta->site_hash,
		.host_hash = meta->host_hash,
		.stale_while_revalidate_s = meta->stale_while_revalidate_s,
		.stale_if_error_s = meta->stale_if_error_s,
		.flags = meta->flags,
		.status = meta->status,
	};
	memcpy(out->primary, key->primary, sizeof(out->primary));
}

void place_texts(const struct cache_meta *meta, struct view vary, struct view head,
		 struct format_texts *out)
{
	*out = (struct format_texts){
		.tags = meta->tags,
		.tag_count = meta->tag_count,
		.url = meta->url,
		.vary = vary,
		.etag = meta->etag,
		.last_modified = meta->last_modified,
		.head = head,
	};
}

void place_commit(const struct format_object *o, const struct cache_key *key, uint32_t chunks,
		  uint16_t vary_bytes, uint32_t max_variants, struct shared_commit *out)
{
	*out = (struct shared_commit){
		.secondary = o->secondary,
		.base = key->base,
		.body_id = o->body_id,
		.head_segment = o->head_segment,
		.head_offset = o->head_offset,
		.head_bytes = o->head_bytes,
		.body_segment = o->body_segment,
		.body_offset = o->body_offset,
		.chunks = chunks,
		.body_bytes = o->body_bytes,
		.birth = o->birth,
		.received_ms = o->received_ms,
		.initial_age_ms = o->initial_age_ms,
		.lifetime_ms = o->lifetime_ms,
		.stale_while_revalidate_s = o->stale_while_revalidate_s,
		.stale_if_error_s = o->stale_if_error_s,
		.flags = o->flags,
		.status = o->status,
		.vary_bytes = vary_bytes,
		.site_hash = o->site_hash,
		.host_hash = o->host_hash,
		.max_variants = max_variants,
	};
}

static int write_failed(struct cache *c, unsigned store, int error)
{
	/* A full file system is not a broken one: the keeper makes room. Anything else doesn't pass by itself. */
	if (error == ENOSPC || error == EDQUOT)
		shared_store_full(c->shared, store);
	else
		shared_store_fail(c->shared, store, REASON_WRITE, error);
	return -error;
}

int place_write(struct cache *c, unsigned store, struct file *f, uint64_t offset, struct view first,
		struct view second)
{
	struct iovec v[2] = { { (void *)(uintptr_t)first.p, first.n },
			      { (void *)(uintptr_t)second.p, second.n } };
	size_t left = first.n + second.n;

	atomic_fetch_add_explicit(&cache_shared_store(c, store)->unsynced_bytes, (int64_t)left,
				  memory_order_relaxed);
	while (left > 0) {
		ssize_t n = pwritev(f->fd, v, 2, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return write_failed(c, store, errno);
		left -= (size_t)n;
		offset += (size_t)n;
		for (unsigned i = 0; i < 2 && n > 0; i++) {
			size_t part = (size_t)n < v[i].iov_len ? (size_t)n : v[i].iov_len;

			v[i].iov_base = (char *)v[i].iov_base + part;
			v[i].iov_len -= part;
			n -= (ssize_t)part;
		}
	}
	return 0;
}
