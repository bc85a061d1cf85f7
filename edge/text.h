/* Text built piece by piece, in an arena's memory or the caller's: header lines of the hot path, without printf. */
#ifndef BRIM_EDGE_TEXT_H
#define BRIM_EDGE_TEXT_H

#include "edge/base/arena.h"

struct text {
	char *p;
	size_t n, capacity;
	bool failed; /* something did not fit: the text is useless, and full */
};

/* Room for capacity bytes. */
static inline struct text text_new(struct arena *a, size_t capacity)
{
	char *p = arena_alloc(a, capacity);

	return (struct text){ .p = p, .capacity = p != NULL ? capacity : 0, .failed = p == NULL };
}

/* Over memory of the caller's. */
static inline struct text text_over(char *p, size_t capacity)
{
	return (struct text){ .p = p, .capacity = capacity };
}

static inline void text_fail(struct text *t)
{
	t->failed = true;
	t->n = t->capacity;
}

static inline void text_put(struct text *t, struct view v)
{
	if (v.n > t->capacity - t->n) {
		text_fail(t);
		return;
	}
	if (v.n > 0)
		memcpy(t->p + t->n, v.p, v.n);
	t->n += v.n;
}

void text_decimal(struct text *t, int64_t number);
/* 16 lower-case digits. */
void text_hex(struct text *t, uint64_t number);

/* "Name: value CRLF". */
static inline void text_line(struct text *t, struct view name, struct view value)
{
	text_put(t, name);
	text_put(t, VIEW(": "));
	text_put(t, value);
	text_put(t, VIEW("\r\n"));
}

static inline struct view text_view(const struct text *t)
{
	return t->failed ? (struct view){ 0 } : view_of(t->p, t->n);
}

#endif
