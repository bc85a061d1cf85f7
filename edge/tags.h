/*
 * Tags: what an origin calls its answers so that it can purge them together, in the fields that the site's
 * tag_headers name. Kept as hashes alone, each once and sorted. What names more than may be kept is not
 * stored at all, since it couldn't be purged by the rest.
 */
#ifndef BRIM_EDGE_TAGS_H
#define BRIM_EDGE_TAGS_H

#include "cache/cache.h"
#include "conf/conf.h"
#include "edge/base/arena.h"
#include "edge/http/head.h"

enum { TAGS_BYTES_MAX = 16 << 10, TAGS_MAX = 1000 };

struct tags {
	bool given; /* a field of tag_headers is there, be it empty */
	const uint64_t *hashes;
	uint16_t count;
};

/* Hashes of the site's TAG scopes, in the arena. 0; -E2BIG; -ENOMEM. */
int tags_read(const struct http_fields *f, const struct conf_list *names, uint64_t site_hash,
	      struct arena *a, struct tags *out) NODISCARD;
/* Sorts, and drops what is there twice. Returns how many are left. */
uint16_t tags_sort(uint64_t *hashes, uint16_t count);

#endif
