/*
 * Where a new entry goes: a range in an open segment, and the entry's own bytes. For fills and refreshes.
 */
#ifndef BRIM_CACHE_PLACE_H
#define BRIM_CACHE_PLACE_H

#include "cache/format.h"
#include "cache/process.h"

struct place {
	uint32_t segment, head_offset, body_offset;
};

/* Reserves room for an entry of head_bytes and, behind it, body_bytes (0: none here). The claim names the segment first, so
 * that the keeper knows of it whatever happens to this process. 0; -EAGAIN: no segment has room now (the keeper is told). */
int place_reserve(struct cache *c, struct shared_claim *claim, unsigned store, uint32_t head_bytes,
		  uint64_t body_bytes, struct place *out) NODISCARD;
/* The segment's file, opened if need be. */
int place_file(struct cache *c, unsigned store, uint32_t segment, struct file **out) NODISCARD;

/* A new object's numbers but for its ids, places and body. */
void place_object(const struct cache_key *key, const struct cache_meta *meta, bool varies,
		  struct format_object *out);
void place_texts(const struct cache_meta *meta, struct view vary, struct view head,
		 struct format_texts *out);
/* The same for the keeper, from the finished object. max_variants 0: this adds none. */
void place_commit(const struct format_object *o, const struct cache_key *key, uint32_t chunks,
		  uint16_t vary_bytes, uint32_t max_variants, struct shared_commit *out);
/* All bytes of both parts, at offset. 0 or a negative errno; what went wrong with the disk fails the store. */
int place_write(struct cache *c, unsigned store, struct file *f, uint64_t offset, struct view first,
		struct view second) NODISCARD;

#endif
