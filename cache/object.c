/*
 * Stored objects: opening by a record, reading bodies.
 *
 * A hit reads its entry (header, texts, stored head, and a body of up to 16 KiB that lies right behind) with one
 * preadv2(RWF_NOWAIT) into the object's own memory; a checksum proves head and texts, and key and object id
 * must be the record's: an index that points somewhere else costs a miss, never a wrong answer. Where the bytes aren't in
 * memory a thread reads them.
 *
 * Lifetime of an object: cache_object_open (or cache_refresh) → references → the last cache_object_unref. Whoever may share it
 * sees it as const: from its opening on nothing in it changes. Those that are asked for often are kept by a reference
 * of hot.c's, and opening them is finding them there. Any other holds the segment's
 * file open if its body lies there, so an eviction doesn't take the bytes away. Chunk files, and a kept object's segment, are opened as
 * they are reached: an eviction before the first is a miss, one in between breaks the answer off.
 */
#include "cache/object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/hot.h"
#include "cache/read.h"
#include "edge/base/hash.h"

enum { OBJECT_MAGIC = 0x4a424f43 };

struct object {
	struct cache_object seen; /* what everybody sees */
	uint32_t refs;
	struct file *file; /* of a body in a segment; NULL: no need */
	struct view vary;
	uint32_t bytes; /* of the entry, and the body behind it */
	_Alignas(16) char entry[];
};

static struct object *inner(struct cache_object *o)
{
	CHECK_MAGIC(o, OBJECT_MAGIC);
	return CONTAINER_OF(o, struct object, seen);
}

static const struct object *inside(const struct cache_object *o)
{
	CHECK_MAGIC(o, OBJECT_MAGIC);
	return CONTAINER_OF(o, const struct object, seen);
}

/* --- memory ---------------------------------------------------------------------------------------- */

struct cache_object *object_new(struct cache *c, const struct cache_key *key,
				const struct cache_record *r, uint32_t bytes)
{
	struct object *o = malloc(sizeof(*o) + bytes);

	if (o == NULL)
		return NULL;
	memset(&o->seen.meta, 0, sizeof(o->seen.meta));
	o->seen.magic = OBJECT_MAGIC;
	o->seen.cache = c;
	o->seen.key = *key;
	o->seen.head = o->seen.body = o->vary = (struct view){ NULL, 0 };
	/* The rule's text, which an object's record doesn't have, is most of a record. */
	memcpy(&o->seen.record, r, offsetof(struct cache_record, vary));
	o->refs = 1;
	o->file = NULL;
	o->bytes = bytes;
	return &o->seen;
}

void *object_entry(struct cache_object *o)
{
	return inner(o)->entry;
}

struct cache_object *object_ref(struct cache_object *o)
{
	struct object *in = inner(o);

	CHECK(in->refs > 0);
	in->refs++;
	return o;
}

size_t cache_object_memory(const struct cache_object *o)
{
	const struct object *in = inside(o);

	return in->refs > 1 ? 0 : sizeof(*in) + in->bytes;
}

void cache_object_unref(const struct cache_object *o)
{
	struct object *in;

	if (o == NULL)
		return;
	in = (struct object *)inside(o);
	CHECK(in->refs > 0);
	if (--in->refs != 0)
		return;
	files_put(&o->cache->files, &in->file);
	in->seen.magic = 0;
	free(in);
}

uint32_t object_bytes(const struct cache_object *o)
{
	return (uint32_t)sizeof(struct object) + inside(o)->bytes;
}

void object_let_file_go(struct cache_object *o)
{
	files_put(&o->cache->files, &inner(o)->file);
}

void object_share_file(struct cache_object *o, const struct cache_object *before)
{
	const struct object *from = inside(before);

	if (from->file != NULL && o->body.n == 0)
		inner(o)->file = file_ref(from->file);
}

/* --- what the bytes say -------------------------------------------------------------------------------- */

static void object_meta(const struct format_object *f, const struct format_texts *t,
			struct cache_meta *out)
{
	*out = (struct cache_meta){
		.status = f->status,
		.flags = f->flags,
		.birth = f->birth,
		.received = { f->received_ms },
		.initial_age_ms = f->initial_age_ms,
		.lifetime_ms = f->lifetime_ms,
		.stale_while_revalidate_s = f->stale_while_revalidate_s,
		.stale_if_error_s = f->stale_if_error_s,
		.site_hash = f->site_hash,
		.host_hash = f->host_hash,
		.url = t->url,
		.etag = t->etag,
		.last_modified = t->last_modified,
		.tags = t->tag_count != 0 ? t->tags : NULL,
		.tag_count = t->tag_count,
	};
}

static bool is_recorded(const struct format_object *f, const struct cache_key *key,
			const struct cache_record *r)
{
	return f->object_id == r->object_id && f->secondary == key->secondary &&
	       memcmp(f->primary, key->primary, sizeof(f->primary)) == 0 &&
	       f->head_bytes == r->head_bytes && f->body_bytes == r->body_bytes &&
	       f->body_id == r->body_id && f->body_segment == r->body_segment &&
	       f->body_offset == r->body_offset;
}

int object_decode(struct cache_object *o)
{
	struct object *in = inner(o);
	const struct cache_record *r = &o->record;
	const struct format_object *f;
	struct format_texts texts;

	if (format_entry_decode(in->entry, in->bytes, &f, &texts) < 0 || !is_recorded(f, &o->key, r)) {
		atomic_fetch_add_explicit(&cache_shared_store(o->cache, r->store)->entries_bad, 1,
					  memory_order_relaxed);
		return -ENOENT;
	}
	object_meta(f, &texts, &o->meta);
	o->head = texts.head;
	in->vary = texts.vary;
	if (in->bytes > r->head_bytes)
		o->body = view_of(in->entry + r->head_bytes, r->body_bytes);
	return 0;
}

struct view object_vary(const struct cache_object *o)
{
	return inside(o)->vary;
}

/* --- opening ------------------------------------------------------------------------------------------ */

/* The entry, and the body if it is small and lies right behind. */
static uint32_t bytes_to_read(const struct cache_record *r)
{
	if (r->body_segment != r->head_segment || r->body_bytes > FORMAT_PAGE_BODY ||
	    r->body_offset != r->head_offset + r->head_bytes)
		return r->head_bytes;
	return r->head_bytes + (uint32_t)r->body_bytes;
}

static bool is_plausible(const struct cache *c, const struct cache_record *r)
{
	return r->kind == CACHE_RECORD_OBJECT && r->store < c->store_count &&
	       r->head_bytes >= sizeof(struct format_entry) && r->head_bytes <= FORMAT_HEAD_MAX;
}

/* The bytes are there: the object or -ENOENT. Takes over o and f. */
static int opened(struct cache_object *o, struct file *f, int64_t n, const struct cache_object **out)
{
	struct cache *c = o->cache;
	int e = n == inner(o)->bytes ? object_decode(o) : -ENOENT;

	if (e == 0 && o->record.body_segment == o->record.head_segment && o->body.n == 0) {
		inner(o)->file = f;
		f = NULL;
	}
	files_put(&c->files, &f);
	if (e < 0) {
		cache_object_unref(o);
		return e;
	}
	if (c->hot != NULL)
		hot_offer(c->hot, o);
	*out = o;
	return 0;
}

static int open_pending(struct cache_read **pending, struct ready *wake, const struct cache_object **out)
{
	struct file *f;
	void *into;
	int64_t n;

	if (!read_finished(*pending, wake))
		return -EINPROGRESS;
	n = read_take(pending, &f, &into);
	return opened(&((struct object *)into)->seen, f, n, out);
}

static int open_file(struct cache *c, const struct cache_key *key, const struct cache_record *r,
		     struct ready *wake, struct cache_read **pending, const struct cache_object **out)
{
	struct file_name name = { .kind = FILE_SEGMENT, .store = r->store, .id = r->head_segment };
	struct cache_object *o;
	struct file *f = NULL;
	int64_t n = -EAGAIN;
	int e;

	if (!is_plausible(c, r))
		return -ENOENT;
	e = files_get(&c->files, &name, &f);
	if (e < 0 && e != -EAGAIN)
		return -ENOENT;
	o = object_new(c, key, r, bytes_to_read(r));
	if (o == NULL) {
		files_put(&c->files, &f);
		return -ENOENT;
	}
	if (f != NULL)
		n = read_now(c, f->fd, object_entry(o), inner(o)->bytes, r->head_offset);
	if (n == inner(o)->bytes)
		return opened(o, f, n, out);
	e = read_begin(c, &name, f, r->head_offset, inner(o)->bytes, inner(o),
		       offsetof(struct object, entry), wake, pending);
	files_put(&c->files, &f);
	return e < 0 ? -ENOENT : -EINPROGRESS;
}

int cache_object_open(struct cache *c, const struct cache_key *key, const struct cache_record *r,
		      struct ready *wake, struct cache_read **pending, const struct cache_object **out)
{
	struct cache_object *o;

	if (*pending != NULL)
		return open_pending(pending, wake, out);
	o = c->hot != NULL ? hot_find(c->hot, key, r) : NULL;
	if (o == NULL)
		return open_file(c, key, r, wake, pending, out);
	*out = o;
	return 0;
}

/* --- bodies --------------------------------------------------------------------------------------------- */

int cache_object_body(const struct cache_object *o, struct cache_reader *r, uint64_t offset,
		      struct ready *wake, struct cache_span *out)
{
	const struct cache_record *rec = &inside(o)->seen.record;
	const struct shared_store *st = cache_shared_store(o->cache, rec->store);
	struct file_name name = { .kind = FILE_SEGMENT, .store = rec->store, .id = rec->body_segment };
	uint64_t left, at;

	CHECK(offset < rec->body_bytes);
	left = rec->body_bytes - offset;
	at = rec->body_offset + offset;
	if (rec->body_segment == 0) {
		name = (struct file_name){ .kind = FILE_CHUNK,
					   .store = rec->store,
					   .id = rec->body_id,
					   .chunk = (uint32_t)(offset / st->chunk_bytes) };
		at = offset % st->chunk_bytes;
		if (left > st->chunk_bytes - at)
			left = st->chunk_bytes - at;
	}
	return read_span(o->cache, r, &name, at,
			 left < READ_SPAN_BYTES ? (uint32_t)left : READ_SPAN_BYTES, wake, out);
}

/* By the body's id: it stays the same when the object is refreshed. */
static _Atomic uint8_t *popularity_of(const struct cache_object *o)
{
	uint64_t h = o->record.body_id * 0x9e3779b97f4a7c15;

	return &o->cache->shared->popularity[(h >> 32) % SHARED_POPULARITY];
}

unsigned cache_object_hits(const struct cache_object *o)
{
	return atomic_load_explicit(popularity_of(o), memory_order_relaxed);
}

void cache_object_hit(const struct cache_object *o)
{
	enum { MOST = 3 };
	_Atomic uint8_t *hits = popularity_of(o);
	/* Relaxed, and not one step: a lost count doesn't matter, a locked add on every hit would. */
	uint8_t n = atomic_load_explicit(hits, memory_order_relaxed);

	if (n < MOST)
		atomic_store_explicit(hits, n + 1, memory_order_relaxed);
}
