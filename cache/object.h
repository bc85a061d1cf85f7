/* Objects inside the cache: made from an entry's bytes, whoever brought them (a read, a refresh). */
#ifndef BRIM_CACHE_OBJECT_H
#define BRIM_CACHE_OBJECT_H

#include "cache/format.h"
#include "cache/process.h"

/* An object with room for «bytes» of entry (and small body); object_entry says where they go. NULL: no memory. */
struct cache_object *object_new(struct cache *c, const struct cache_key *key,
				const struct cache_record *r, uint32_t bytes) NODISCARD;
void *object_entry(struct cache_object *o);
/* The bytes are there: checks them against the record, sets meta, head and a small body. -ENOENT: not what the record says. */
int object_decode(struct cache_object *o) NODISCARD;
/* What else the entry tells: the Vary rule. Valid after object_decode. */
struct view object_vary(const struct cache_object *o);
/* One more reference. */
struct cache_object *object_ref(struct cache_object *o);
/* What it takes of memory. */
uint32_t object_bytes(const struct cache_object *o);
/* o will be kept: it holds no file from here on. Whoever wants its body opens that by name, and finds it gone if it was evicted. */
void object_let_file_go(struct cache_object *o);
/* The body's bytes stay alive for o as they do for «before», whose body it shares. */
void object_share_file(struct cache_object *o, const struct cache_object *before);

#endif
