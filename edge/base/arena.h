/*
 * An arena: memory of one owner that is given back all at once. What a machine
 * must keep beyond the next read is copied here. Bounded: a peer that makes us
 * keep too much gets an error, not our memory.
 */
#ifndef BRIM_BASE_ARENA_H
#define BRIM_BASE_ARENA_H

#include <stddef.h>

#include "edge/base/check.h"
#include "edge/base/view.h"

struct arena_block;

struct arena {
	struct arena_block *block; /* newest first; the oldest is kept by arena_reset */
	size_t used, total_bytes, limit_bytes;
};

void arena_init(struct arena *a, size_t limit_bytes);
void arena_fini(struct arena *a);
/* Overwrites what is in it, for one that held secrets. */
void arena_wipe(struct arena *a);
/* Forget everything, keep one block for the next use. */
void arena_reset(struct arena *a);

/* What is allocated after a mark can be given back alone: only for what nobody keeps. */
struct arena_mark {
	struct arena_block *block;
	size_t used;
};
struct arena_mark arena_mark(const struct arena *a);
void arena_rewind(struct arena *a, struct arena_mark m);

/* Aligned for any type; NULL where the limit or the memory is exhausted. */
void *arena_alloc(struct arena *a, size_t bytes) NODISCARD;
void *arena_zalloc(struct arena *a, size_t bytes) NODISCARD;
/* A copy, with a NUL behind it that is not counted; p is NULL on exhaustion. */
struct view arena_copy(struct arena *a, struct view v) NODISCARD;
struct view arena_printf(struct arena *a, const char *format, ...) PRINTF_LIKE(2, 3) NODISCARD;

#endif
