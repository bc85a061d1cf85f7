/*
 * What one process holds of the cache: its handles on indexes and files, and who in it waits for what.
 * Private to cache/; everyone else sees struct cache as opaque.
 *
 * All of it belongs to the loop's thread. Threads of the pool get a reference to a file and a buffer,
 * and nothing else.
 *
 * The worker's eventfd says «look again»: at waiting claims and at asked mailboxes. The same look is taken
 * once a second, since a hint can die with its sender.
 */
#ifndef BRIM_CACHE_PROCESS_H
#define BRIM_CACHE_PROCESS_H

#include "cache/cache.h"
#include "cache/files.h"
#include "cache/hot.h"
#include "cache/index.h"
#include "cache/shared.h"

enum {
	CACHE_MAGIC = 0x43425243,
	CACHE_NO_SLOT = -1,
	CACHE_TICK_MS = 1000,
	CACHE_SLOW_MS = 50,  /* fills that must wait look again this often … */
	CACHE_PASSED = 8192, /* objects that are remembered as not purged; a power of two */
	CACHE_SEEN = 1024,   /* spans that are remembered as in memory; a power of two */
};

struct cache_store {
	int dir_fd; /* the master's; inherited */
	double weight;
	uint64_t seed; /* of its name: its place in the rendezvous doesn't depend on its place in the file */
	struct index *index;
	bool index_borrowed; /* the keeper's own handle */
	uint32_t index_generation;
};

/* An object that was found not purged when the clock stood at «clock». Stores that were used without each other may both have
 * given out its id. */
struct cache_passed {
	uint64_t object_id, clock;
	uint32_t forms; /* of the site's keys, to the one who asked */
	uint8_t store;
};

/* A span of a file that was seen to be in the page cache. */
struct cache_seen {
	struct file_name name;
	uint64_t offset;
	uint32_t bytes; /* 0: none */
	struct mono at;
};

struct cache {
	uint32_t magic;
	struct cache_shared *shared;
	struct loop *loop;
	int slot; /* of the worker; CACHE_NO_SLOT: the keeper, which only reads */
	uint32_t generation;
	bool storing_stopped, detached;
	unsigned reads;		      /* in threads; a detached cache is freed after the last */
	bool no_nowait, no_cachestat; /* the kernel doesn't have it: found out at the first try */
	long page_bytes;
	unsigned store_count;
	struct cache_store stores[SHARED_STORES];
	struct files files;
	struct hot *hot; /* NULL: the keeper, which opens to show */
	struct watch woken;
	struct timer tick, slow;
	struct list waits;	/* of struct cache_wait */
	struct list slow_fills; /* of struct cache_fill that wait for room */
	struct ready *asks[SHARED_MAILBOXES];
	uint64_t ask_ticket;
	struct cache_passed passed[CACHE_PASSED];
	struct cache_seen seen[CACHE_SEEN];
};

/* The keeper's reading view: no slot, no claims, no fills. Indexes are lent to it as they are opened (NULL: taken away). */
int cache_attach_keeper(struct cache_shared *s, const struct cache_conf *conf, struct loop *l,
			struct cache **out) NODISCARD;
void cache_lend_index(struct cache *c, unsigned store, struct index *index);

void cache_free_if_unused(struct cache *c);

/* The store of a primary key, by weighted rendezvous over those in service; -ENOENT: none is. */
int cache_store_for(const struct cache *c, const uint8_t primary[16]);
/* May this process store anything now? */
bool cache_may_store(const struct cache *c);

static inline struct shared_store *cache_shared_store(struct cache *c, unsigned store)
{
	return &c->shared->stores[store];
}

#endif
