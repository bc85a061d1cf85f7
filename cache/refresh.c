/*
 * A 304 gave a stored object new fields and times: a new entry is written, the body stays where it is and
 * the record then names two places.
 *
 * A small body that came into memory with its head is written anew beside the new head instead: a hit on it then stays
 * one read, and its old segment may go. That is an ordinary new object to the keeper.
 */
#include <errno.h>

#include "cache/claim.h"
#include "cache/object.h"
#include "cache/place.h"

struct refresh {
	struct cache *c;
	struct shared_claim *claim;
	struct format_object object;
	struct format_texts texts;
	struct cache_record record; /* of the object as it will be */
	struct view body;	    /* copied along; n 0: stays where it is */
	bool copied;
};

static int prepare(struct refresh *rf, struct cache_claim *cl, const struct cache_object *o,
		   const struct cache_meta *meta, struct view head);
static int write_entry(struct refresh *rf, const struct cache_object *o,
		       const struct cache_object **out);

int cache_refresh(struct cache_claim **claim, const struct cache_object *o,
		  const struct cache_meta *meta, struct view head, const struct cache_object **out)
{
	struct refresh rf;
	const struct cache_object *fresh = NULL;
	int e = prepare(&rf, *claim, o, meta, head);

	if (e == 0)
		e = write_entry(&rf, o, &fresh);
	if (e < 0) {
		cache_claim_drop(claim);
		return e;
	}
	place_commit(&rf.object, &o->key, 0, (uint16_t)rf.texts.vary.n, 0, &rf.claim->commit);
	claim_done(claim);
	*out = fresh;
	return 0;
}

static bool is_usable(const struct cache *c, const struct cache_record *r)
{
	return r->body_segment == 0 ||
	       shared_segment(&c->shared->stores[r->store], r->body_segment) != NULL;
}

static int prepare(struct refresh *rf, struct cache_claim *cl, const struct cache_object *o,
		   const struct cache_meta *meta, struct view head)
{
	struct cache *c = claim_cache(cl);
	const struct cache_record *r = &o->record;
	struct format_object *f = &rf->object;

	if (!cache_may_store(c) || claim_is_superseded(cl) ||
	    !shared_store_in_service(c->shared, r->store) || !is_usable(c, r))
		return -EAGAIN;
	*rf = (struct refresh){ .c = c, .claim = claim_slot(cl) };
	rf->copied = o->body.n == r->body_bytes;
	rf->body = o->body;
	place_object(&o->key, meta, object_vary(o).n != 0, f);
	place_texts(meta, object_vary(o), head, &rf->texts);
	f->head_bytes = format_entry_bytes(&rf->texts);
	if (f->head_bytes == 0)
		return -EFBIG;
	f->object_id = atomic_fetch_add_explicit(&c->shared->next_object_id, 1, memory_order_relaxed);
	f->body_id = rf->copied ? f->object_id : r->body_id;
	f->body_bytes = r->body_bytes;
	atomic_store_explicit(&rf->claim->store, r->store, memory_order_relaxed);
	atomic_store_explicit(&rf->claim->kind, rf->copied ? CLAIM_FILL : CLAIM_REFRESH,
			      memory_order_relaxed);
	/* Release: who sees the id sees store and kind. */
	atomic_store_explicit(&rf->claim->object_id, f->object_id, memory_order_release);
	return 0;
}

/* f has its place: the record that the index will have. */
static void make_record(const struct format_object *f, uint8_t store, struct cache_record *out)
{
	*out = (struct cache_record){
		.kind = CACHE_RECORD_OBJECT,
		.store = store,
		.status = f->status,
		.flags = f->flags,
		.object_id = f->object_id,
		.birth = f->birth,
		.body_id = f->body_id,
		.head_segment = f->head_segment,
		.head_offset = f->head_offset,
		.head_bytes = f->head_bytes,
		.body_segment = f->body_segment,
		.body_offset = f->body_offset,
		.body_bytes = f->body_bytes,
		.received = { f->received_ms },
		.initial_age_ms = f->initial_age_ms,
		.lifetime_ms = f->lifetime_ms,
		.stale_while_revalidate_s = f->stale_while_revalidate_s,
		.stale_if_error_s = f->stale_if_error_s,
	};
}

static int take_place(struct refresh *rf, const struct cache_record *old, struct file **out)
{
	struct format_object *f = &rf->object;
	struct place place;
	int e = place_reserve(rf->c, rf->claim, old->store, f->head_bytes, rf->body.n, &place);

	if (e < 0)
		return e;
	e = place_file(rf->c, old->store, place.segment, out);
	if (e < 0)
		return e;
	f->head_segment = place.segment;
	f->head_offset = place.head_offset;
	f->body_segment = rf->copied ? (rf->body.n > 0 ? place.segment : 0) : old->body_segment;
	f->body_offset = rf->copied ? (rf->body.n > 0 ? place.body_offset : 0) : old->body_offset;
	make_record(f, old->store, &rf->record);
	return 0;
}

/* Writes entry and copied body from the new object's own memory. */
static int write_entry(struct refresh *rf, const struct cache_object *o, const struct cache_object **out)
{
	uint32_t bytes = rf->object.head_bytes + (uint32_t)rf->body.n;
	struct cache_object *fresh;
	struct file *f;
	char *entry;
	int e = take_place(rf, &o->record, &f);

	if (e < 0)
		return e;
	fresh = object_new(rf->c, &o->key, &rf->record, bytes);
	if (fresh == NULL) {
		files_put(&rf->c->files, &f);
		return -ENOMEM;
	}
	entry = object_entry(fresh);
	format_entry_encode(&rf->object, &rf->texts, entry);
	if (rf->body.n > 0)
		memcpy(entry + rf->object.head_bytes, rf->body.p, rf->body.n);
	e = place_write(rf->c, o->record.store, f, rf->object.head_offset, view_of(entry, bytes),
			view_of(NULL, 0));
	files_put(&rf->c->files, &f);
	if (e == 0)
		e = object_decode(fresh);
	if (e < 0) {
		cache_object_unref(fresh);
		return e;
	}
	object_share_file(fresh, o);
	*out = fresh;
	return 0;
}
