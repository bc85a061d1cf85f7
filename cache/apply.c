/*
 * One log record → the index. Commits, replay and rebuild go the same way, so that they can't disagree.
 *
 * The order in which records of different logs are applied must not matter: the highest object id of a key
 * wins, a removal takes out nothing but the object it names, and what loses leaves its chunk files to be unlinked.
 * Applying a record twice changes nothing.
 *
 * A record of removal is only needed where the replaced object could outlive its successor: where it lies in the same or a
 * younger segment, or in one that still takes entries, since the oldest that is sealed is evicted first. (Where a purge leaves nothing
 * in a segment, it may go before older ones: only if it «hides» none of theirs.)
 *
 * Chunk files belong to whatever record the index has for their object; a refresh takes them along to its own
 * log. A small body stays in its segment and goes with it, and the object goes then too.
 */
#include "cache/keeper_store.h"

#include <stdlib.h>
#include <string.h>

/* --- chunk files ----------------------------------------------------------------------------- */

void chunk_list_fini(struct chunk_list *list)
{
	free(list->items);
	*list = (struct chunk_list){ 0 };
}

void chunk_list_add(struct chunk_list *list, uint64_t body_id, uint32_t chunks)
{
	if (chunks == 0)
		return;
	if (list->count == list->capacity) {
		size_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
		struct chunk_body *items = realloc(list->items, capacity * sizeof(*items));

		if (items == NULL)
			return;
		list->items = items;
		list->capacity = capacity;
	}
	list->items[list->count++] = (struct chunk_body){ body_id, chunks };
}

/* Files take whole pages. */
uint64_t apply_chunk_bytes(const struct keeper_store *ks, uint32_t body_segment, uint64_t body_bytes)
{
	(void)ks;
	if (body_segment != 0)
		return 0;
	return (body_bytes + FORMAT_PAGE - 1) & ~(uint64_t)(FORMAT_PAGE - 1);
}

uint32_t apply_chunks(const struct keeper_store *ks, uint32_t body_segment, uint64_t body_bytes)
{
	uint64_t chunk = ks->super.chunk_bytes;

	if (body_segment != 0)
		return 0;
	return (uint32_t)(body_bytes / chunk + (body_bytes % chunk != 0));
}

static void doom_record(struct keeper_store *ks, const struct cache_record *r, struct chunk_list *doomed)
{
	uint64_t bytes = apply_chunk_bytes(ks, r->body_segment, r->body_bytes);

	chunk_list_add(doomed, r->body_id, apply_chunks(ks, r->body_segment, r->body_bytes));
	doomed->bytes += bytes;
	index_add_chunk_bytes(ks->index, -(int64_t)bytes);
}

static void doom_object(struct keeper_store *ks, const struct format_object *o, struct chunk_list *doomed)
{
	chunk_list_add(doomed, o->body_id, apply_chunks(ks, o->body_segment, o->body_bytes));
}

/* --- objects --------------------------------------------------------------------------------- */

static void record_of(const struct format_object *o, struct cache_record *out)
{
	memset(out, 0, offsetof(struct cache_record, vary));
	out->kind = CACHE_RECORD_OBJECT;
	out->status = o->status;
	out->flags = o->flags;
	out->object_id = o->object_id;
	out->body_id = o->body_id;
	out->birth = o->birth;
	out->head_segment = o->head_segment;
	out->head_offset = o->head_offset;
	out->head_bytes = o->head_bytes;
	out->body_segment = o->body_segment;
	out->body_offset = o->body_offset;
	out->body_bytes = o->body_bytes;
	out->received.ms = o->received_ms;
	out->initial_age_ms = o->initial_age_ms;
	out->lifetime_ms = o->lifetime_ms;
	out->stale_while_revalidate_s = o->stale_while_revalidate_s;
	out->stale_if_error_s = o->stale_if_error_s;
}

static struct cache_key key_of(const struct format_object *o, uint64_t secondary)
{
	struct cache_key key = { .secondary = secondary };

	memcpy(key.primary, o->primary, sizeof(key.primary));
	return key;
}

/* The replaced object can't be found again by a rebuild when its successor is evicted before it. */
static void log_removal(struct keeper_store *ks, const struct cache_key *key,
			const struct cache_record *old, const struct format_object *by)
{
	struct format_removal removal = { .secondary = key->secondary,
					  .object_id = old->object_id,
					  .keeps_body = old->body_id == by->body_id };
	struct keeper_segment *seg = segment_find(ks, old->head_segment);
	struct keeper_segment *own = segment_find(ks, by->head_segment);
	struct log *log;

	if (seg == NULL)
		return;
	if (old->head_segment < by->head_segment && !segment_takes_entries(ks, old->head_segment)) {
		if (own != NULL)
			own->hides = true;
		return;
	}
	memcpy(removal.primary, key->primary, sizeof(removal.primary));
	log = segment_log(ks, seg);
	if (log != NULL)
		log_add(log, FORMAT_LOG_REMOVE, &removal, sizeof(removal));
}

static void replace(struct keeper_store *ks, const struct cache_key *key, const struct cache_record *old,
		    const struct format_object *o, bool committing, struct chunk_list *doomed)
{
	if (committing)
		log_removal(ks, key, old, o);
	if (old->body_id != o->body_id)
		doom_record(ks, old, doomed);
}

/* The Vary rule lies where a lookup without variant looks; the newest object's rule holds. */
static void apply_vary(struct keeper_store *ks, const struct format_object *o, struct view vary,
		       bool committing, struct chunk_list *doomed)
{
	struct cache_key key = key_of(o, o->base_secondary);
	struct cache_record old, rule = { .kind = CACHE_RECORD_VARY };

	if (vary.n == 0 || vary.n > CACHE_VARY_MAX || o->base_secondary == o->secondary)
		return;
	if (index_get(ks->index, &key, &old)) {
		if (old.object_id >= o->object_id)
			return;
		if (old.kind == CACHE_RECORD_OBJECT)
			replace(ks, &key, &old, o, committing, doomed);
	}
	rule.object_id = o->object_id;
	rule.birth = o->birth;
	rule.head_segment = o->head_segment;
	rule.vary_bytes = (uint16_t)vary.n;
	memcpy(rule.vary, vary.p, vary.n);
	index_put(ks->index, &key, &rule);
}

static bool segments_live(const struct keeper_store *ks, const struct format_object *o)
{
	return shared_segment(ks->st, o->head_segment) != NULL &&
	       (o->body_segment == 0 || shared_segment(ks->st, o->body_segment) != NULL);
}

enum applied apply_object(struct keeper_store *ks, enum format_log_type type,
			  const struct format_object *o, const struct format_texts *t,
			  bool committing, struct chunk_list *doomed)
{
	struct cache_key key = key_of(o, o->secondary);
	struct cache_record old, fresh;
	bool found = index_get(ks->index, &key, &old);
	bool had_object = found && old.kind == CACHE_RECORD_OBJECT;
	bool same_body = had_object && old.body_id == o->body_id;

	if (found && old.object_id == o->object_id && had_object)
		return APPLIED_BEFORE;
	if ((found && old.object_id > o->object_id) || !segments_live(ks, o) ||
	    (committing && type == FORMAT_LOG_REFRESH && !same_body)) {
		if (!same_body && type == FORMAT_LOG_COMMIT)
			doom_object(ks, o, doomed);
		return APPLIED_LOST;
	}
	if (had_object)
		replace(ks, &key, &old, o, committing, doomed);
	if (!same_body)
		index_add_chunk_bytes(ks->index,
				      (int64_t)apply_chunk_bytes(ks, o->body_segment, o->body_bytes));
	record_of(o, &fresh);
	index_put(ks->index, &key, &fresh);
	apply_vary(ks, o, t->vary, committing, doomed);
	return APPLIED;
}

/* --- variants beyond their number ------------------------------------------------------------- */

struct variants {
	unsigned count;
	struct cache_key key; /* the oldest one's … */
	struct cache_record record;
};

static void count_variant(void *arg, const struct cache_key *key, const struct cache_record *r)
{
	struct variants *v = arg;

	if (r->kind != CACHE_RECORD_OBJECT)
		return;
	if (v->count++ == 0 || r->object_id < v->record.object_id) {
		v->key = *key;
		v->record = *r;
	}
}

/* Some clients make a variant a request (a Vary on User-Agent): they would fill the store with one URL. */
void apply_variant_limit(struct keeper_store *ks, const struct format_object *o, uint32_t most,
			 struct chunk_list *doomed)
{
	struct variants v = { .count = 0 };
	struct format_removal removal = { 0 };
	struct keeper_segment *seg;
	struct log *log;

	index_each_now(ks->index, o->primary, count_variant, &v);
	if (v.count <= most || v.record.object_id == o->object_id)
		return;
	removal.secondary = v.key.secondary;
	removal.object_id = v.record.object_id;
	memcpy(removal.primary, v.key.primary, sizeof(removal.primary));
	seg = segment_find(ks, v.record.head_segment);
	log = seg != NULL ? segment_log(ks, seg) : NULL;
	if (log != NULL)
		log_add(log, FORMAT_LOG_REMOVE, &removal, sizeof(removal));
	doom_record(ks, &v.record, doomed);
	index_delete(ks->index, &v.key);
	atomic_fetch_add_explicit(&ks->st->evicted_variants, 1, memory_order_relaxed);
}

void apply_removal(struct keeper_store *ks, const struct format_removal *removal,
		   struct chunk_list *doomed)
{
	struct cache_key key = { .secondary = removal->secondary };
	struct cache_record old;

	memcpy(key.primary, removal->primary, sizeof(key.primary));
	if (!index_get(ks->index, &key, &old) || old.kind != CACHE_RECORD_OBJECT ||
	    old.object_id != removal->object_id)
		return;
	if (!removal->keeps_body)
		doom_record(ks, &old, doomed);
	else
		index_add_chunk_bytes(ks->index, -(int64_t)apply_chunk_bytes(ks, old.body_segment,
									     old.body_bytes));
	index_delete(ks->index, &key);
}

/* --- eviction and purges ---------------------------------------------------------------------------------- */

static void evict_vary(struct keeper_store *ks, const struct format_object *o, struct view vary)
{
	struct cache_key key = key_of(o, o->base_secondary);
	struct cache_record old;

	if (vary.n != 0 && index_get(ks->index, &key, &old) && old.kind == CACHE_RECORD_VARY &&
	    old.object_id == o->object_id)
		index_delete(ks->index, &key);
}

bool apply_is_there(struct keeper_store *ks, const struct format_object *o, struct cache_record *out)
{
	struct cache_key key = key_of(o, o->secondary);

	out->kind = CACHE_RECORD_VARY;
	return index_get(ks->index, &key, out) && out->kind == CACHE_RECORD_OBJECT &&
	       out->object_id == o->object_id;
}

/* The rule stays while it leads to other variants. */
void apply_purge(struct keeper_store *ks, const struct format_object *o, const struct format_texts *t,
		 const struct cache_record *r, struct chunk_list *doomed)
{
	struct cache_key key = key_of(o, o->secondary);
	struct variants left = { .count = 0 };

	doom_record(ks, r, doomed);
	index_delete(ks->index, &key);
	if (t->vary.n == 0)
		return;
	index_each_now(ks->index, o->primary, count_variant, &left);
	if (left.count == 0)
		evict_vary(ks, o, t->vary);
}

void apply_eviction(struct keeper_store *ks, uint32_t segment, enum format_log_type type,
		    const struct format_object *o, const struct format_texts *t,
		    struct chunk_list *doomed)
{
	struct cache_key key = key_of(o, o->secondary);
	struct cache_record old;
	bool found = index_get(ks->index, &key, &old) && old.kind == CACHE_RECORD_OBJECT;

	evict_vary(ks, o, t->vary);
	if (found && (old.object_id == o->object_id || old.body_segment == segment)) {
		doom_record(ks, &old, doomed);
		index_delete(ks->index, &key);
		return;
	}
	/* Another log has the chunk files now, or they were unlinked when the object was replaced (again: harmless). */
	if (type == FORMAT_LOG_COMMIT && (!found || old.body_id != o->body_id))
		doom_object(ks, o, doomed);
}
