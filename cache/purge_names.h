/*
 * The scopes that can name an object, one after the other, cheapest and likeliest first: URL, host, site, all, tags, prefixes.
 * Inlined into the two who ask, the purge clock (is it older than a purge?) and a set of scopes (would this purge
 * name it?), so that they can't disagree about what a purge names.
 */
#ifndef BRIM_CACHE_PURGE_NAMES_H
#define BRIM_CACHE_PURGE_NAMES_H

#include "cache/purge_clock.h"

/* True: that is enough. */
typedef bool purge_test_fn(void *arg, uint64_t hash, uint8_t kind);

struct purge_asked {
	const _Atomic uint64_t *prefix_lengths; /* SHARED_PREFIX_WORDS: which are in use; NULL: none */
	bool anywhere;				/* some tags are purged in all sites */
};

#define PURGE_INLINE static inline __attribute__((always_inline))

PURGE_INLINE bool purge_each_tag(const struct cache_names *n, bool anywhere, purge_test_fn *test,
				 void *arg)
{
	for (unsigned i = 0; i < n->tag_count; i++) {
		if (test(arg, n->tags[i], CACHE_SCOPE_TAG))
			return true;
		if (anywhere &&
		    test(arg, purge_tag_anywhere(n->tags[i], n->site_hash), CACHE_SCOPE_TAG_ANYWHERE))
			return true;
	}
	return false;
}

/* "http://host:port/path?query" */
PURGE_INLINE struct view purge_path_of(struct view url, struct view *out_authority)
{
	const char *mark = url.n != 0 ? memmem(url.p, url.n, "://", 3) : NULL;
	struct view rest = mark != NULL ? view_skip(url, (size_t)(mark + 3 - url.p)) : url;
	const char *slash = rest.n != 0 ? memchr(rest.p, '/', rest.n) : NULL;
	size_t n = slash != NULL ? (size_t)(slash - rest.p) : rest.n;

	*out_authority = view_of(rest.p, n);
	return view_skip(rest, n);
}

PURGE_INLINE bool purge_each_prefix(const struct cache_names *n, const _Atomic uint64_t *lengths,
				    purge_test_fn *test, void *arg)
{
	struct view authority, path = purge_path_of(n->url, &authority);
	size_t longest = path.n < CACHE_PREFIX_MAX ? path.n : CACHE_PREFIX_MAX;
	uint64_t h = purge_prefix_begin(n->site_hash, n->any_host ? (struct view){ 0 } : authority);

	for (size_t i = 1; i <= longest; i++) {
		/* Relaxed: who asks the clock has loaded it with acquire before. */
		uint64_t word = atomic_load_explicit(&lengths[i / 64], memory_order_relaxed);

		h = purge_prefix_step(h, path.p[i - 1]);
		if ((word >> i % 64 & 1) && test(arg, h, CACHE_SCOPE_PREFIX))
			return true;
	}
	return false;
}

/* Was it enough? */
PURGE_INLINE bool purge_each(const struct cache_names *n, const struct purge_asked *asked,
			     purge_test_fn *test, void *arg)
{
	const struct cache_scope scopes[] = {
		cache_scope_url(n->primary),
		{ .hash = n->host_hash, .kind = CACHE_SCOPE_HOST },
		cache_scope_site(n->site_hash),
		cache_scope_all(),
	};

	for (unsigned i = 0; i < ARRAY_LEN(scopes); i++) {
		if (test(arg, scopes[i].hash, scopes[i].kind))
			return true;
	}
	return purge_each_tag(n, asked->anywhere, test, arg) ||
	       (asked->prefix_lengths != NULL && purge_each_prefix(n, asked->prefix_lengths, test, arg));
}

#endif
