/*
 * Which objects are stored, a page at a time, for the admin API.
 *
 * The index can't tell (it holds no URLs) and needn't: the logs do, as for rebuild and eviction. A page is a bounded
 * piece of them, read in a thread; which of its records still count is then asked of the index, in the loop, a few
 * at a time as the caller likes.
 *
 * The order is that of the logs: store, segment, place in the log. Whoever is there from the first page to the last is
 * listed at least once; twice, if it is written anew meanwhile. What comes or goes meanwhile may be listed or not.
 */
#ifndef BRIM_CACHE_LISTING_H
#define BRIM_CACHE_LISTING_H

#include "cache/keeper.h"

enum { LISTING_MOST = 1000 /* objects of a page */ };

/* Where a page begins. Zeroed: at the first object. */
struct listing_place {
	uint32_t store, segment;
	uint64_t offset;
};

/* What to list. All are views that the listing copies. */
struct listing_query {
	struct listing_place from;
	const uint64_t *sites; /* hashes of names; none: all */
	size_t site_count;
	struct view prefix; /* of the stored URL; empty: all */
	bool any_scheme;    /* the prefix begins with the host */
	unsigned limit;	    /* at most LISTING_MOST */
};

struct listed {
	struct cache_key key;
	uint8_t store;
	uint16_t status, tag_count;
	uint64_t object_id, body_bytes, site_hash;
	uint32_t head_segment, head_offset;
	struct wall received;
	int64_t initial_age_ms, lifetime_ms;
	enum cache_purged purged;
	struct view url;
};

/* The thread, and who waits for it. */
struct listings;
int listings_new(struct keeper *k, struct loop *l, struct listings **out) NODISCARD;
/* No listing is left; before the keeper closes. */
void listings_free(struct listings **listings);

struct listing;
/* The page is read behind; «wake» is posted when it is there. */
int listing_begin(struct listings *ls, const struct listing_query *q, struct ready *wake,
		  struct listing **out) NODISCARD;
/* -EINPROGRESS; else 0 and the candidates of the page, of which none may count though more follow. *out_next: where the next
 * page begins; *out_more false: there is none. Good until listing_free. */
int listing_page(struct listing *l, const struct listed **out, unsigned *out_count,
		 struct listing_place *out_next, bool *out_more) NODISCARD;
/* Is it what a lookup would find now? One look into the index. */
bool listing_counts(const struct listing *l, const struct listed *item);
/* At any time. */
void listing_free(struct listing **l);

#endif
