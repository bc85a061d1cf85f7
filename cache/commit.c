/*
 * Finished claims → log → index, in batches: one write per log and one transaction for up to KEEPER_BATCH of
 * them. While a batch is under way the next gathers, so batches grow with the load and a lone fill waits for nobody.
 *
 * A commit is refused when a hard purge newer than its birth names it, when a newer object has its key, when its
 * entry isn't what the claim says, or when a segment that it needs is gone. Everything else is retried: once
 * records may have been written to a log, the claim stays DONE until log and index agree, since a record without its
 * object would come back at the next start.
 */
#include "cache/keeper_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/purge_clock.h"
#include "edge/base/log.h"

enum { COMMIT_ENTRY_BYTES = 16 << 10, COMMIT_PAUSE_TICKS = 4 };

enum commit_result { COMMIT_DONE, COMMIT_REFUSED };

struct commit_item {
	struct claim_view view;
	enum commit_result result;
};

struct commit_batch {
	struct job job;
	struct keeper_store *ks;
	unsigned count;
	struct commit_item items[KEEPER_BATCH];
	char *entry; /* one entry at a time */
	size_t entry_capacity;
	/* results */
	enum shared_reason reason;
	int error;
	struct lane_totals totals;
	struct chunk_list doomed;
	struct log_end ends[KEEPER_TOUCHED];
	unsigned end_count;
};

/* --- in the lane ------------------------------------------------------------------------------------ */

/* The entry's bytes, in the batch's buffer. NULL: they can't be read. */
static const char *read_entry(struct commit_batch *b, const struct shared_commit *c)
{
	struct keeper_segment *seg = segment_find(b->ks, c->head_segment);

	if (seg == NULL || seg->fd < 0 || c->head_bytes > FORMAT_HEAD_MAX)
		return NULL;
	if (c->head_bytes > b->entry_capacity) {
		free(b->entry);
		b->entry_capacity = c->head_bytes < COMMIT_ENTRY_BYTES ? COMMIT_ENTRY_BYTES
								       : c->head_bytes;
		b->entry = malloc(b->entry_capacity);
		if (b->entry == NULL) {
			b->entry_capacity = 0;
			return NULL;
		}
	}
	if (pread(seg->fd, b->entry, c->head_bytes, c->head_offset) != (ssize_t)c->head_bytes)
		return NULL;
	return b->entry;
}

static bool entry_is(const struct format_object *o, const struct claim_view *v)
{
	const struct shared_commit *c = &v->commit;

	return o->object_id == v->object_id && memcmp(o->primary, v->key.primary, 16) == 0 &&
	       o->secondary == c->secondary && o->birth == c->birth &&
	       o->head_segment == c->head_segment && o->head_offset == c->head_offset &&
	       o->head_bytes == c->head_bytes && o->body_segment == c->body_segment &&
	       o->body_bytes == c->body_bytes;
}

/* Is it older than a hard purge that names it? */
static bool is_purged(struct cache_shared *s, const struct format_object *o,
		      const struct format_texts *t)
{
	const struct cache_names names = purge_names_of(o, t);

	return purge_clock_names(s, &names, o->birth, NULL) == CACHE_HARD_PURGED;
}

static bool is_superseded(struct cache_shared *s, const struct claim_view *v)
{
	return v->superseded ||
	       atomic_load_explicit(&s->claims[v->slot].superseded, memory_order_acquire) != 0;
}

static enum commit_result commit_item(struct commit_batch *b, const struct claim_view *v)
{
	struct keeper_store *ks = b->ks;
	const struct format_object *o;
	struct format_texts texts;
	enum format_log_type type = v->kind == CLAIM_REFRESH ? FORMAT_LOG_REFRESH : FORMAT_LOG_COMMIT;
	const char *entry = read_entry(b, &v->commit);
	struct keeper_segment *seg = segment_find(ks, v->commit.head_segment);
	struct log *log;

	if (entry == NULL || format_entry_decode(entry, v->commit.head_bytes, &o, &texts) != 0 ||
	    !entry_is(o, v) || is_superseded(ks->shared, v) || is_purged(ks->shared, o, &texts))
		return COMMIT_REFUSED;
	log = segment_log(ks, seg);
	if (log == NULL)
		return COMMIT_REFUSED;
	switch (apply_object(ks, type, o, &texts, true, &b->doomed)) {
	case APPLIED:
		log_add_object(log, type, o, &texts);
		if (v->commit.max_variants != 0)
			apply_variant_limit(ks, o, v->commit.max_variants, &b->doomed);
		return COMMIT_DONE;
	case APPLIED_BEFORE: /* by a keeper that died before it could say so */
		return COMMIT_DONE;
	case APPLIED_LOST:
		break;
	}
	return COMMIT_REFUSED;
}

static void run_batch(struct job *j)
{
	struct commit_batch *b = CONTAINER_OF(j, struct commit_batch, job);
	struct keeper_store *ks = b->ks;

	index_begin(ks->index);
	for (unsigned i = 0; i < b->count; i++)
		b->items[i].result = commit_item(b, &b->items[i].view);
	b->reason = REASON_LOG;
	b->error = logs_flush(ks, true, b->ends, &b->end_count);
	if (b->error != 0) {
		index_abort(ks->index);
	} else {
		b->reason = REASON_INDEX;
		b->error = index_commit(ks->index);
	}
	lane_totals_take(ks, &b->totals);
	free(b->entry);
	b->entry = NULL;
}

/* --- in the loop ---------------------------------------------------------------------------------------- */

static struct shared_claim *claim_at(const struct keeper_store *ks, uint32_t slot)
{
	return &ks->shared->claims[slot];
}

/* What the worker drew for chunk files is accounted as chunk files now. */
static void settle_drawn(struct keeper_store *ks, uint32_t slot)
{
	uint64_t drawn = atomic_exchange_explicit(&claim_at(ks, slot)->drawn_bytes, 0,
						  memory_order_relaxed);

	atomic_fetch_add_explicit(&ks->st->free_bytes, (int64_t)drawn, memory_order_relaxed);
}

static void item_committed(struct keeper_store *ks, const struct claim_view *v)
{
	const struct shared_commit *c = &v->commit;
	struct keeper_segment *seg = segment_find(ks, c->head_segment);

	settle_drawn(ks, v->slot);
	if (v->kind == CLAIM_FILL && c->body_segment == 0 && c->body_bytes != 0) {
		chunk_list_add(&ks->unsynced_chunks, v->object_id, apply_chunks(ks, 0, c->body_bytes));
		if (seg != NULL)
			seg->chunk_bytes += apply_chunk_bytes(ks, 0, c->body_bytes);
	}
	atomic_fetch_add_explicit(&ks->st->commits, 1, memory_order_relaxed);
	claim_committed(ks->shared, v->slot);
	keeper_claim_ended(ks->keeper, v->slot);
}

static void item_refused(struct keeper_store *ks, const struct claim_view *v)
{
	uint32_t chunks = v->kind == CLAIM_FILL ? v->chunks_begun : 0;

	atomic_fetch_add_explicit(&ks->st->commits_refused, 1, memory_order_relaxed);
	claim_refused(ks->shared, v->slot);
	if (chunks == 0)
		keeper_claim_ended(ks->keeper, v->slot);
	else
		evict_failed_claim(ks, v->slot, v->object_id, chunks);
}

/* They are still DONE: to be tried again, after what is queued. */
static void put_back(struct keeper_store *ks, struct commit_batch *b)
{
	for (unsigned i = 0; i < b->count; i++)
		commit_claim(ks, b->items[i].view.slot);
	ks->commit_pause = COMMIT_PAUSE_TICKS;
}

static void batch_failed(struct keeper_store *ks, struct commit_batch *b)
{
	put_back(ks, b);
	if (b->error != -ENOMEM && !keeper_is_full(ks, b->error))
		keeper_store_failed(ks, b->reason, b->error);
}

static void batch_done(struct job *j)
{
	struct commit_batch *b = CONTAINER_OF(j, struct commit_batch, job);
	struct keeper_store *ks = b->ks;

	ks->batch = NULL;
	logs_grown(ks, b->ends, b->end_count);
	if (b->error == 0) {
		account_lane(ks, &b->totals, b->doomed.bytes);
		for (unsigned i = 0; i < b->count; i++) {
			if (b->items[i].result == COMMIT_DONE)
				item_committed(ks, &b->items[i].view);
			else
				item_refused(ks, &b->items[i].view);
		}
		evict_unlink(ks, &b->doomed);
	} else {
		batch_failed(ks, b);
	}
	chunk_list_fini(&b->doomed);
	free(b);
	segments_pump(ks);
	evict_pump(ks);
	commit_pump(ks);
	keeper_batch_done(ks->keeper);
}

void commit_claim(struct keeper_store *ks, uint32_t slot)
{
	CHECK(ks->waiting_count < SHARED_CLAIMS);
	ks->waiting[(ks->waiting_first + ks->waiting_count++) % SHARED_CLAIMS] = slot;
}

static uint32_t take_waiting(struct keeper_store *ks)
{
	uint32_t slot = ks->waiting[ks->waiting_first];

	ks->waiting_first = (ks->waiting_first + 1) % SHARED_CLAIMS;
	ks->waiting_count--;
	return slot;
}

static void gather(struct keeper_store *ks, struct commit_batch *b)
{
	while (ks->waiting_count != 0 && b->count < KEEPER_BATCH) {
		uint32_t slot = take_waiting(ks);
		struct claim_view *v = &b->items[b->count].view;

		if (claim_view(ks->shared, slot, v) != 0 || v->state != CLAIM_DONE)
			keeper_claim_ended(ks->keeper, slot);
		else
			b->count++;
	}
}

void commit_pump(struct keeper_store *ks)
{
	struct commit_batch *b;

	if (ks->batch != NULL || ks->waiting_count == 0 || !ks->usable || ks->commit_pause != 0)
		return;
	b = malloc(sizeof(*b));
	if (b == NULL)
		return;
	memset(b, 0, offsetof(struct commit_batch, items));
	memset((char *)b + offsetof(struct commit_batch, entry), 0,
	       offsetof(struct commit_batch, ends) - offsetof(struct commit_batch, entry));
	b->end_count = 0;
	b->ks = ks;
	gather(ks, b);
	if (b->count == 0) {
		free(b);
		return;
	}
	ks->batch = b;
	lane_submit(ks->commit_lane, &b->job, run_batch, batch_done);
}

void commit_refuse_all(struct keeper_store *ks)
{
	struct claim_view v;

	while (ks->waiting_count != 0) {
		uint32_t slot = take_waiting(ks);

		if (claim_view(ks->shared, slot, &v) == 0 && v.state == CLAIM_DONE)
			item_refused(ks, &v);
		else
			keeper_claim_ended(ks->keeper, slot);
	}
}
