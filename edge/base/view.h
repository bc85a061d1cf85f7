/* A view: bytes that somebody else owns. Never freed, never assumed to end in NUL. */
#ifndef BRIM_BASE_VIEW_H
#define BRIM_BASE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct view {
	const char *p;
	size_t n;
};

/* The view of a string literal. */
#define VIEW(literal) ((struct view){ "" literal, sizeof(literal) - 1 })
/* For printf's "%.*s". */
#define VIEW_ARG(v) (int)(v).n, (v).p

static inline struct view view_of(const char *p, size_t n)
{
	return (struct view){ p, n };
}

static inline struct view view_str(const char *s)
{
	return (struct view){ s, strlen(s) };
}

static inline bool view_eq(struct view a, struct view b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* ASCII case is ignored. */
static inline bool view_eq_nocase(struct view a, struct view b)
{
	return a.n == b.n && (a.n == 0 || strncasecmp(a.p, b.p, a.n) == 0);
}

static inline bool view_starts(struct view v, struct view prefix)
{
	return v.n >= prefix.n && (prefix.n == 0 || memcmp(v.p, prefix.p, prefix.n) == 0);
}

/* The rest of v after its first n bytes; n must not exceed v.n. */
static inline struct view view_skip(struct view v, size_t n)
{
	return (struct view){ v.p + n, v.n - n };
}

#endif
