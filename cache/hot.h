/*
 * Hot objects: what is asked for again and again stays in memory, so that a hit on it reads no file.
 *
 * The index is still asked on every hit, and the purge clock, too; what a remembered object spares is reading and checking
 * its entry. It is used only under the very record that it was opened by: bytes once written never change and no object id is
 * given out twice, so the same key with the same record (id, place, lengths, times) is the same object. A replaced one
 * has another record, an evicted or removed one has none, and with a new index all that came by the old one are forgotten.
 *
 * What comes in is the entry, with a body of up to 16 KiB. A larger body stays in its file, which is opened by name when it is sent:
 * nothing here holds a descriptor, so nothing here keeps a removed file alive. Objects are counted: a slow client's stays whole when its place is taken.
 *
 * A worker has HOT_SETS sets of up to HOT_WAYS objects and HOT_SET_BYTES bytes: 8 MiB at most, however large the store.
 * An object comes in when it is read though it was hit before (in any worker), and only into a place that is free, or whose
 * object was not found since all of the set's were last marked unused: those who are passed by once, as in a scan, take each other's place.
 * (The rejected alternative, an LRU, lets a scan empty it, and moves list links on each hit.)
 */
#ifndef BRIM_CACHE_HOT_H
#define BRIM_CACHE_HOT_H

#include "cache/cache.h"

enum { HOT_SETS = 128, HOT_WAYS = 8, HOT_SET_BYTES = 64 << 10 };

struct hot_set {
	uint32_t tags[HOT_WAYS]; /* of the keys, so that a search touches only the object it is for */
	uint32_t bytes;
	uint8_t used; /* a bit per object: found since the bits were last cleared */
	struct cache_object *objects[HOT_WAYS]; /* NULL: free */
};

/* Zeroed: empty. */
struct hot {
	struct hot_set sets[HOT_SETS];
	uint64_t hits;	/* objects found, until somebody takes the count */
	uint64_t bytes; /* of those that are here */
};

/* With a reference for the caller; NULL: not here. What is here under another record is let go. */
struct cache_object *hot_find(struct hot *h, const struct cache_key *key, const struct cache_record *r);
/* o was read, and proved. It may take a reference; o must not change from here on. */
void hot_offer(struct hot *h, struct cache_object *o);
/* The store has another index. */
void hot_forget(struct hot *h, unsigned store);
void hot_fini(struct hot *h);

#endif
