/* Hot objects: see hot.h. A key's set and tag are bytes of its hash. */
#include "cache/hot.h"

#include <string.h>

#include "cache/object.h"

_Static_assert(HOT_WAYS <= 8, "a byte of bits");

static struct hot_set *set_of(struct hot *h, const struct cache_key *key)
{
	uint32_t bits;

	/* The last bytes: the URL's scope and the store's choice look at the first. */
	memcpy(&bits, key->primary + 12, sizeof(bits));
	return &h->sets[bits % HOT_SETS];
}

/* Variants of a URL share a set, not a tag. */
static uint32_t tag_of(const struct cache_key *key)
{
	uint32_t bits;

	memcpy(&bits, key->primary + 8, sizeof(bits));
	return bits ^ (uint32_t)key->secondary;
}

static bool is_for(const struct cache_object *o, const struct cache_key *key)
{
	return memcmp(o->key.primary, key->primary, sizeof(key->primary)) == 0 &&
	       o->key.secondary == key->secondary && o->key.base == key->base;
}

/* All that an object's record has. Member by member, since there are holes between them. */
static bool is_same(const struct cache_record *a, const struct cache_record *b)
{
	return a->kind == b->kind && a->store == b->store && a->object_id == b->object_id &&
	       a->body_id == b->body_id && a->birth == b->birth && a->status == b->status &&
	       a->flags == b->flags && a->head_segment == b->head_segment &&
	       a->head_offset == b->head_offset && a->head_bytes == b->head_bytes &&
	       a->body_segment == b->body_segment && a->body_offset == b->body_offset &&
	       a->body_bytes == b->body_bytes && a->received.ms == b->received.ms &&
	       a->initial_age_ms == b->initial_age_ms && a->lifetime_ms == b->lifetime_ms &&
	       a->stale_while_revalidate_s == b->stale_while_revalidate_s &&
	       a->stale_if_error_s == b->stale_if_error_s;
}

static void let_go(struct hot *h, struct hot_set *set, unsigned way)
{
	struct cache_object *o = set->objects[way];
	uint32_t bytes = object_bytes(o);

	set->objects[way] = NULL;
	set->used &= (uint8_t) ~(1u << way);
	set->bytes -= bytes;
	h->bytes -= bytes;
	cache_object_unref(o);
}

/* Of the key's own object, under whatever record; HOT_WAYS: not here. */
static unsigned way_of(const struct hot_set *set, const struct cache_key *key)
{
	uint32_t tag = tag_of(key);
	unsigned way = 0;

	while (way < HOT_WAYS && !(set->tags[way] == tag && set->objects[way] != NULL &&
				   is_for(set->objects[way], key)))
		way++;
	return way;
}

struct cache_object *hot_find(struct hot *h, const struct cache_key *key, const struct cache_record *r)
{
	struct hot_set *set = set_of(h, key);
	unsigned way = way_of(set, key);

	if (way == HOT_WAYS)
		return NULL;
	if (!is_same(&set->objects[way]->record, r)) {
		let_go(h, set, way);
		return NULL;
	}
	set->used |= (uint8_t)(1u << way);
	h->hits++;
	return object_ref(set->objects[way]);
}

/* HOT_WAYS: all are in use; the next time those that were not used until then are not. */
static unsigned unused_way(struct hot_set *set)
{
	for (unsigned way = 0; way < HOT_WAYS; way++)
		if (set->objects[way] != NULL && !(set->used & 1u << way))
			return way;
	set->used = 0;
	return HOT_WAYS;
}

static unsigned free_way(const struct hot_set *set)
{
	unsigned way = 0;

	while (way < HOT_WAYS && set->objects[way] != NULL)
		way++;
	return way;
}

/* A free place, with room for so many bytes; HOT_WAYS: there is none to be had now. */
static unsigned make_room(struct hot *h, struct hot_set *set, uint32_t bytes)
{
	unsigned way;

	while ((way = free_way(set)) == HOT_WAYS || set->bytes + bytes > HOT_SET_BYTES) {
		way = unused_way(set);
		if (way == HOT_WAYS)
			return HOT_WAYS;
		let_go(h, set, way);
	}
	return way;
}

void hot_offer(struct hot *h, struct cache_object *o)
{
	struct hot_set *set = set_of(h, &o->key);
	uint32_t bytes = object_bytes(o);
	unsigned way;

	if (bytes > HOT_SET_BYTES || cache_object_hits(o) == 0)
		return;
	/* Two requests may have read it at the same time. */
	way = way_of(set, &o->key);
	if (way < HOT_WAYS)
		let_go(h, set, way);
	way = make_room(h, set, bytes);
	if (way == HOT_WAYS)
		return;
	object_let_file_go(o);
	set->objects[way] = object_ref(o);
	set->tags[way] = tag_of(&o->key);
	set->bytes += bytes;
	h->bytes += bytes;
}

static void forget(struct hot *h, int store)
{
	for (unsigned i = 0; i < HOT_SETS; i++)
		for (unsigned way = 0; way < HOT_WAYS; way++) {
			const struct cache_object *o = h->sets[i].objects[way];

			if (o != NULL && (store < 0 || o->record.store == store))
				let_go(h, &h->sets[i], way);
		}
}

void hot_forget(struct hot *h, unsigned store)
{
	forget(h, (int)store);
}

void hot_fini(struct hot *h)
{
	forget(h, -1);
}
