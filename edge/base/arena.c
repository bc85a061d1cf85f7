/*
 * Blocks in a list, newest first; allocation bumps a pointer in the newest. A block's size doubles
 * with what the arena holds, so that a snapshot of the configuration takes few blocks while a
 * request that copies three fields takes one small one. Bytes counted against the limit are those
 * asked of malloc: the limit is about our memory and not about what callers make of it.
 *
 * arena_reset keeps the oldest block: a connection's next request then allocates nothing.
 */
#include "edge/base/arena.h"

#include <errno.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_BLOCK = 1024, LARGEST_BLOCK = 64 * 1024 };

struct arena_block {
	struct arena_block *older;
	size_t bytes; /* of data */
	alignas(max_align_t) char data[];
};

static int add_block(struct arena *a, size_t bytes) NODISCARD;
static void free_block(struct arena *a);

void arena_init(struct arena *a, size_t limit_bytes)
{
	*a = (struct arena){ .limit_bytes = limit_bytes };
}

void arena_fini(struct arena *a)
{
	while (a->block != NULL)
		free_block(a);
	a->used = 0;
}

void arena_wipe(struct arena *a)
{
	for (struct arena_block *block = a->block; block != NULL; block = block->older)
		explicit_bzero(block->data, block->bytes);
}

void arena_reset(struct arena *a)
{
	while (a->block != NULL && a->block->older != NULL)
		free_block(a);
	a->used = 0;
}

struct arena_mark arena_mark(const struct arena *a)
{
	return (struct arena_mark){ .block = a->block, .used = a->used };
}

/* An arena that was empty then keeps its first block, as arena_reset does. */
void arena_rewind(struct arena *a, struct arena_mark m)
{
	while (a->block != m.block && a->block != NULL && a->block->older != NULL)
		free_block(a);
	a->used = m.used;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	const size_t mask = alignof(max_align_t) - 1;

	if (bytes > a->limit_bytes)
		return NULL;
	bytes = (bytes + mask) & ~mask;
	if (a->block == NULL || a->block->bytes - a->used < bytes) {
		if (add_block(a, bytes) != 0)
			return NULL;
	}
	void *p = a->block->data + a->used;
	a->used += bytes;
	return p;
}

void *arena_zalloc(struct arena *a, size_t bytes)
{
	void *p = arena_alloc(a, bytes);

	return p == NULL ? NULL : memset(p, 0, bytes);
}

struct view arena_copy(struct arena *a, struct view v)
{
	char *p = v.n < SIZE_MAX ? arena_alloc(a, v.n + 1) : NULL;

	if (p == NULL)
		return (struct view){ 0 };
	if (v.n > 0)
		memcpy(p, v.p, v.n);
	p[v.n] = '\0';
	return view_of(p, v.n);
}

struct view arena_printf(struct arena *a, const char *format, ...)
{
	va_list args, again;
	char *p = NULL;

	va_start(args, format);
	va_copy(again, args);
	int n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n >= 0)
		p = arena_alloc(a, (size_t)n + 1);
	if (p != NULL)
		(void)vsnprintf(p, (size_t)n + 1, format, again);
	va_end(again);
	return p == NULL ? (struct view){ 0 } : view_of(p, (size_t)n);
}

static int add_block(struct arena *a, size_t bytes)
{
	size_t size = a->total_bytes < FIRST_BLOCK ? FIRST_BLOCK : a->total_bytes;

	if (size > LARGEST_BLOCK)
		size = LARGEST_BLOCK;
	if (size > a->limit_bytes - a->total_bytes)
		size = a->limit_bytes - a->total_bytes;
	if (size < bytes)
		size = bytes;
	if (size > a->limit_bytes - a->total_bytes)
		return -ENOMEM;
	struct arena_block *b = malloc(sizeof(*b) + size);
	if (b == NULL)
		return -ENOMEM;
	*b = (struct arena_block){ .older = a->block, .bytes = size };
	a->block = b;
	a->used = 0;
	a->total_bytes += size;
	return 0;
}

static void free_block(struct arena *a)
{
	struct arena_block *b = a->block;

	a->block = b->older;
	a->total_bytes -= b->bytes;
	free(b);
}
