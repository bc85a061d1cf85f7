/*
 * The index's rows of objects and Vary rules, as bytes: numbers in the machine's order, without holes. A row is told by its first
 * byte; a size that doesn't fit its kind is damage.
 */
#ifndef BRIM_CACHE_INDEX_ROW_H
#define BRIM_CACHE_INDEX_ROW_H

#include <assert.h>

#include "cache/cache.h"

enum { INDEX_ROW_KEY_BYTES = 24 };

/* An object's row. */
struct index_object {
	uint8_t kind, reserved;
	uint16_t status;
	uint32_t flags;
	uint64_t object_id, body_id, birth, body_bytes;
	int64_t received_ms, initial_age_ms, lifetime_ms;
	uint32_t head_segment, head_offset, head_bytes;
	uint32_t body_segment, body_offset;
	uint32_t stale_while_revalidate_s, stale_if_error_s;
	uint32_t unused;
};
static_assert(sizeof(struct index_object) == 96, "object row");

/* A Vary rule's row; the names follow. */
struct index_vary {
	uint8_t kind, reserved;
	uint16_t vary_bytes;
	uint32_t head_segment; /* of the newest object that the rule came with */
	uint64_t object_id, birth;
};
static_assert(sizeof(struct index_vary) == 24, "vary row");

struct index_row {
	union {
		struct index_object object;
		struct index_vary vary;
		char bytes[sizeof(struct index_vary) + CACHE_VARY_MAX];
	};
	size_t n;
};

/* primary, secondary: variants of a URL lie side by side. */
void index_row_key(const struct cache_key *key, uint8_t out[INDEX_ROW_KEY_BYTES]);
void index_row_key_decode(const uint8_t p[INDEX_ROW_KEY_BYTES], struct cache_key *out);
void index_row_encode(const struct cache_record *r, struct index_row *out);
/* Copies (the bytes are LMDB's); leaves out->vary alone where there is none. 0 or -EIO. */
int index_row_decode(struct view value, struct cache_record *out) NODISCARD;

#endif
