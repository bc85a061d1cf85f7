/*
 * The shared memory: one MAP_SHARED | MAP_ANONYMOUS block that the master makes before it forks.
 * Workers, keeper and their successors find in it: who is filling what (claims), where bytes may be
 * written (segment tables, byte budgets), what was purged (clock and cells), letters to the keeper
 * (mailboxes), what is popular, what is known to be uncacheable, and the counters of each store.
 *
 * It is a layout, not an object: fixed offsets, no pointers, SHARED_FORMAT counts its changes (a new
 * program after an upgrade shares a block only with the same format). Whatever two processes touch at
 * once is _Atomic, and every access names its memory order; plain fields are published by the state
 * beside them (written before a release store of it, read after an acquire load).
 *
 * Any process may die at any instruction. So nothing here is a count that only its owner can put right:
 * what a worker holds is written down in a claim or a mailbox *before* it is taken, and swept by its
 * slot. Hints (eventfds, the ring of finished claims) may be lost: the state is the message, and the
 * keeper looks at all of it once a second and when it starts.
 *
 * Rejected: lists and heaps in shared memory (a kill -9 in the middle of a link has no repair), and a
 * file in /dev/shm (a name to protect and to clean up; a restart of the node begins empty anyway).
 */
#ifndef BRIM_CACHE_SHARED_H
#define BRIM_CACHE_SHARED_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"

enum {
	SHARED_FORMAT = 5,
	SHARED_MAGIC = 0x5342524d,
	SHARED_WORKERS = 64,
	SHARED_STORES = 8,
	SHARED_STORE_NAME = 64,

	/* A segment's slot is its id modulo this; the keeper skips an id whose slot is taken. */
	SHARED_SEGMENTS = 16384,
	SHARED_SEGMENTS_OPEN = 4,

	SHARED_STRIPES = 1024,
	SHARED_STRIPE_CLAIMS = 64,
	SHARED_CLAIMS = SHARED_STRIPES * SHARED_STRIPE_CLAIMS,
	SHARED_RING = 4096,

	SHARED_CELLS = 4 << 20,
	SHARED_SITE_CELLS = 4096,
	SHARED_PATH_CELLS = 1 << 20,
	SHARED_FORMS = 4096,
	SHARED_FORMS_PROBES = 16, /* a site's place is within so many */
	SHARED_PREFIX_WORDS = (CACHE_PREFIX_MAX + 1) / 64,
	SHARED_POPULARITY = 1 << 20,
	SHARED_PASSES = 64 << 10,
	SHARED_SEARCH_RULES = 1024, /* of so many paths … */
	SHARED_SEARCH_RULE_WORDS = 32,
	SHARED_SEARCH_URLS = 16 << 10, /* … and of so many queries */
	SHARED_SEARCH_URL_WORDS = 4,
	SHARED_MAILBOXES = 16,
	SHARED_SCOPES = CACHE_ASK_SCOPES, /* of one mailbox */

	SHARED_BEAT_MS = 250,	      /* the keeper renews its beat this often … */
	SHARED_KEEPER_AWAY_MS = 2000, /* … and counts as away when it is older than this */
};

/* --- segments ------------------------------------------------------------------------------- */

/*
 * FREE → OPEN (keeper: the file and its log are there) → FULL (a worker found no room, or the keeper closed
 * it) → SEALED (keeper: closed, and no claim names it any more) → DEAD (keeper: evicted; lookups miss from
 * here on) → FREE (keeper: the files are unlinked and no record names it).
 */
enum shared_segment_state {
	SEGMENT_FREE,
	SEGMENT_OPEN,
	SEGMENT_FULL,
	SEGMENT_SEALED,
	SEGMENT_DEAD,
};

/*
 * Reservation: the worker writes the id into its claim's «segment», then moves «tail» by compare-and-swap. The
 * tail holds the id too, so a slot that was given to another segment meanwhile refuses. The keeper closes a
 * segment by segment_close (the tail becomes SEGMENT_CLOSED); after that no reservation succeeds, and
 * every one that did is named by a claim in FILLING or DONE (claim_segment_busy) or was abandoned.
 */
struct shared_segment {
	_Atomic uint32_t id; /* 0: none; ids begin at 1 */
	_Atomic uint32_t state;
	_Atomic uint64_t tail; /* id << 32 | offset of the first free byte */
	uint64_t unused[2];
};
#define SEGMENT_CLOSED 0xffffffffu
static_assert(sizeof(struct shared_segment) == 32, "layout");

/* --- stores --------------------------------------------------------------------------------- */

enum shared_store_state {
	STORE_OUT,	  /* not opened yet, or closed: nothing is served from it or stored */
	STORE_REBUILDING, /* in service, its index being filled from the logs */
	STORE_OPEN,
	STORE_FAILED,
};

enum shared_reason {
	REASON_NONE,
	REASON_OPEN,   /* its directory or superblock can't be used */
	REASON_FORMAT, /* another format */
	REASON_INDEX, /* LMDB failed or was damaged (a worker's SIGBUS comes here): the keeper rebuilds it */
	REASON_JOURNAL,
	REASON_LOG,
	REASON_WRITE, /* a body could not be written */
	REASON_SYNC,
	REASON_FULL, /* the file system is full */
};

struct shared_store {
	/* By cache_shared_new; before the store is in service the keeper puts in the sizes of its superblock. */
	char name[SHARED_STORE_NAME];
	uint64_t size_bytes;
	uint64_t unsynced_limit_bytes; /* beyond this a fill relays; over half of it, it slows down */
	uint32_t segment_bytes;	       /* size/256, a power of two within 4 MiB … 256 MiB */
	uint32_t chunk_bytes;	       /* min(8 MiB, segment/4) */
	uint32_t small_bytes;	       /* bodies up to here may lie in a segment */
	_Atomic uint32_t disk_full; /* a write met a full file system: the keeper evicts a segment, and zeroes it */

	_Atomic uint32_t state; /* enum shared_store_state: by the keeper; OPEN → FAILED also by a worker */
	_Atomic uint32_t reason;	   /* enum shared_reason, before state FAILED */
	_Atomic int32_t error;		   /* errno, before state FAILED */
	_Atomic uint32_t index_generation; /* the keeper put another index in place: open it anew */
	_Atomic uint64_t revalidate_before; /* objects born before this purge are softly purged: the store was away */

	/* Ids of segments that take reservations; 0: none here now. Workers prefer 0 and 1, the rest are spares.
	 * The keeper replaces an entry when its segment is FULL. */
	_Atomic uint32_t open[SHARED_SEGMENTS_OPEN];

	/* What chunk files may still take. Workers draw before they write (and note it in the claim); the keeper
	 * refills by evicting, and charges it for each segment at its full size. May go below 0. */
	_Atomic int64_t free_bytes;
	/* Written since the last sync. Workers add; the keeper notes the value, syncs, subtracts what it noted. */
	_Atomic int64_t unsynced_bytes;
	/* Bytes of unlinked files that a worker still holds open. */
	_Atomic uint64_t dead_open_bytes[SHARED_WORKERS];
	/* A worker wants room that there isn't: the keeper evicts until free_bytes covers it, then zeroes it. */
	_Atomic uint64_t wanted_bytes;

	/* Counters for people. */
	_Atomic uint64_t objects, used_bytes, index_bytes, segments_used; /* set by the keeper */
	_Atomic uint64_t commits, commits_refused, evicted_objects, evicted_segments,
		evicted_variants, reclaimed_objects, reclaimed_bytes; /* keeper */
	_Atomic uint64_t fills_refused, entries_bad, readers_cut;     /* workers */

	struct shared_segment segments[SHARED_SEGMENTS];
};

/* --- claims --------------------------------------------------------------------------------- */

/*
 * Who makes which step:
 *   FREE → FILLING       a worker, under the stripe's mutex (claim_take)
 *   FILLING → DONE       its owner, after the fill's last byte and all of «commit» are written
 *   FILLING → FAILED     its owner (aborted), or the keeper when the owner is dead
 *   FILLING → FREE       its owner, under the mutex, when nothing was written and nothing is attached (drop)
 *   DONE → COMMITTED     the keeper, when log and index hold it
 *   DONE → FAILED        the keeper: commit refused (superseded, its segment or store went away)
 *   COMMITTED, FAILED → FREE   the keeper, under the mutex, when no attached bit is left
 * FAILED is the keeper's to free since it also unlinks chunk files that a dead owner left.
 */
enum shared_claim_state {
	CLAIM_FREE,
	CLAIM_FILLING,
	CLAIM_DONE,
	CLAIM_FAILED,
	CLAIM_COMMITTED,
};

enum shared_claim_kind {
	CLAIM_FILL, /* a new object */
	CLAIM_REFRESH, /* a new head entry (a new object id) for a body that is there: commit.body_id wrote it */
};

/*
 * What the keeper needs to commit without reading a body. Texts (URL, Vary rule, validators, tags) it reads from the
 * entry at head_segment/head_offset, which is complete before DONE. Written by the owner alone before DONE.
 * The object's key is (primary, secondary of here); a Vary rule in the entry makes a VARY record at (primary, base).
 */
struct shared_commit {
	uint64_t secondary, base;
	uint64_t body_id; /* of the object that wrote the body: the object id of a fill, an older one of a refresh */
	uint32_t head_segment, head_offset, head_bytes; /* the whole entry: header, texts, head */
	uint32_t body_segment, body_offset; /* body_segment 0: in chunk files, or no body */
	uint32_t chunks;		    /* how many chunk files, numbers 0 … chunks-1 */
	uint64_t body_bytes;
	uint64_t birth;
	int64_t received_ms, initial_age_ms, lifetime_ms;
	uint32_t stale_while_revalidate_s, stale_if_error_s;
	uint32_t flags;
	uint16_t status, vary_bytes; /* vary_bytes 0: no rule */
	uint64_t site_hash, host_hash;
	uint32_t max_variants; /* of the site: beyond it the oldest variant of the URL goes */
	uint32_t reserved;
};

struct shared_claim {
	/* The first line is what others look at without the mutex. */
	_Atomic uint32_t state;
	_Atomic uint32_t generation; /* of the slot's use: +1 at FREE → FILLING */
	_Atomic uint64_t progress; /* generation & 0xffff, 48 bits of bytes ready: one load tells both */
	_Atomic uint64_t waiting;   /* a bit per worker: wake it when the state changes */
	_Atomic uint64_t attached;  /* a bit per worker that reads through this claim */
	_Atomic uint64_t object_id; /* 0: none yet */
	_Atomic uint64_t drawn_bytes; /* of free_bytes, for chunk files: goes back if the claim fails */
	_Atomic uint32_t chunks_begun;	   /* chunk files that may exist: 0 … this-1 */
	_Atomic uint32_t segment;	   /* reserved in, or about to be; 0: none */
	_Atomic uint32_t owner_generation; /* shared_worker.generation of the owner … */
	_Atomic uint8_t owner;		   /* … and its slot */
	_Atomic uint8_t superseded;	   /* lookups skip it, its commit is refused */
	_Atomic uint8_t kind, store;	   /* set before object_id */

	/* Under the stripe's mutex. */
	uint8_t primary[16];
	uint64_t secondary;
	_Atomic uint64_t birth;

	struct shared_commit commit;
	uint64_t unused[4];
};
static_assert(offsetof(struct shared_claim, primary) == 64, "one cache line");
static_assert(sizeof(struct shared_claim) == 256, "layout");
static_assert(sizeof(struct shared_commit) == 128, "layout");

struct shared_stripe {
	pthread_mutex_t mutex; /* robust, process-shared */
	_Atomic uint64_t used; /* a bit per claim that isn't FREE; changed under the mutex, derived from the states */
	uint8_t padding[64 - sizeof(pthread_mutex_t) - sizeof(uint64_t)];
};

/* --- mailboxes: a worker asks the keeper for a purge ------------------------------------------- */

/*
 * FREE → ASKED (worker) → TAKEN (keeper) → DONE or FAILED (keeper) → FREE (worker). A worker that no longer waits
 * makes ASKED FREE and TAKEN CANCELLED, which the keeper frees instead of answering. A new keeper treats TAKEN as
 * ASKED (doing a purge twice is harmless) and frees CANCELLED.
 */
enum shared_mailbox_state {
	MAILBOX_FREE,
	MAILBOX_ASKED,
	MAILBOX_TAKEN,
	MAILBOX_DONE,
	MAILBOX_FAILED,
	MAILBOX_CANCELLED,
};

struct shared_mailbox {
	_Atomic uint32_t state;
	uint32_t count; /* plain fields: before ASKED by the worker, before DONE or FAILED by the keeper */
	uint64_t ticket;
	uint64_t sequence;
	int32_t error; /* negative errno of FAILED */
	uint32_t soft;
	struct cache_scope scopes[SHARED_SCOPES];
};

/* --- workers --------------------------------------------------------------------------------- */

struct shared_worker {
	_Atomic int32_t pid;	     /* 0: nobody */
	_Atomic uint32_t generation; /* +1 at each attach: what an earlier one held is swept */
	_Atomic uint32_t hinted;     /* its eventfd was written and not yet read */
	_Atomic uint32_t index_pid;  /* reserved for the keeper's reader checks */
	struct shared_mailbox mailboxes[SHARED_MAILBOXES];
};

/* --- the purge clock's cells ------------------------------------------------------------------- */

/* Side by side: a hit asks for both. */
struct shared_cell {
	_Atomic uint64_t hard, soft;
};

/*
 * What a site's keys were made of when its URLs were purged. Only the keeper writes; a site stays once it is in. Who finds other
 * forms than its own, or that they changed after the object's birth, also asks whether the path was purged.
 */
struct shared_forms {
	_Atomic uint64_t site_hash; /* 0: nobody's; after the rest */
	_Atomic uint64_t newest;    /* number of the site's last purge of a URL … */
	_Atomic uint64_t changed; /* … and one since which all were made under «forms»; 0: all ever */
	_Atomic uint32_t forms; /* of the last one; after «changed» */
};

/* --- the block -------------------------------------------------------------------------------- */

struct cache_shared {
	uint32_t magic, format;
	uint64_t bytes; /* of the block */
	uint32_t worker_count, store_count;
	uint64_t secret[2]; /* of this boot: table positions that a peer can't choose */
	int keeper_eventfd;
	int worker_eventfds[SHARED_WORKERS];

	_Atomic uint64_t next_object_id; /* the keeper sets it (epoch << 40) before a store is OPEN */
	_Atomic uint64_t purge_clock;
	_Atomic uint64_t newest_purge; /* of any purge that doesn't tell its site */
	_Atomic uint64_t unsafe_noted; /* a bit for each store whose journal says that an unsafe method was answered */
	_Atomic uint64_t newest_prefix, newest_anywhere; /* of kinds that few use: spare others the probes */
	_Atomic uint64_t prefix_lengths[SHARED_PREFIX_WORDS]; /* a bit per length of a prefix's path that was ever purged */

	_Atomic int64_t keeper_beat_ms; /* monotonic; 0: no keeper */
	_Atomic int32_t keeper_pid;
	_Atomic uint32_t keeper_hinted;

	/* Slots of claims that became DONE or FAILED, +1. Lossy: who laps it is found by the scan. */
	_Atomic uint64_t ring_head;
	_Atomic uint32_t ring[SHARED_RING];

	struct shared_worker workers[SHARED_WORKERS];
	struct shared_store stores[SHARED_STORES];
	struct shared_stripe stripes[SHARED_STRIPES];
	struct shared_claim claims[SHARED_CLAIMS]; /* stripe n: n*64 … n*64+63 */

	_Atomic uint64_t site_newest[SHARED_SITE_CELLS]; /* newest purge that names anything of a site */
	struct shared_cell cells[SHARED_CELLS];
	struct shared_forms forms[SHARED_FORMS];
	struct shared_cell path_cells[SHARED_PATH_CELLS]; /* one a path: few ask, and may be told too much */
	_Atomic uint64_t passes[SHARED_PASSES];
	_Atomic uint64_t search_stamp;
	_Atomic uint64_t search_rules[SHARED_SEARCH_RULES][SHARED_SEARCH_RULE_WORDS];
	_Atomic uint64_t search_urls[SHARED_SEARCH_URLS][SHARED_SEARCH_URL_WORDS];
	_Atomic uint8_t popularity[SHARED_POPULARITY];
};

/* --- hints -------------------------------------------------------------------------------------- */

/* Cheap when the other side already knows: one exchange, no system call. */
void shared_hint_keeper(struct cache_shared *s);
void shared_wake_worker(struct cache_shared *s, unsigned slot);
void shared_wake_workers(struct cache_shared *s, uint64_t mask);
/* By the one who is woken, before it looks: what is hinted afterwards wakes it again. */
void shared_keeper_woken(struct cache_shared *s);
void shared_worker_woken(struct cache_shared *s, unsigned slot);

/* The keeper is alive (its beat is young). */
bool shared_keeper_here(const struct cache_shared *s);
/* By the keeper, every SHARED_BEAT_MS; also sets its pid. shared_keeper_gone at an orderly end. */
void shared_keeper_beat(struct cache_shared *s);
void shared_keeper_gone(struct cache_shared *s);
/* By the keeper when the worker in this slot died; then claim_sweep_worker. */
void shared_worker_gone(struct cache_shared *s, unsigned slot, int pid);

/* The ring of finished claims. put: by a worker. take: by the keeper, with its own cursor (0 at first: everything in it).
 * Returns a slot number, -EAGAIN (empty), or -EOVERFLOW (lapped: scan all claims; the cursor was moved on). */
void shared_ring_put(struct cache_shared *s, uint32_t claim);
int shared_ring_take(struct cache_shared *s, uint64_t *cursor);

/* --- stores and segments -------------------------------------------------------------------------- */

/* A store is in service (OPEN or REBUILDING). */
bool shared_store_in_service(const struct cache_shared *s, unsigned store);
/* OPEN or REBUILDING → FAILED. By a worker or the keeper; hints the keeper. */
void shared_store_fail(struct cache_shared *s, unsigned store, enum shared_reason reason, int error);
/* A write met a full file system, though the store isn't: the keeper is to make room. */
void shared_store_full(struct cache_shared *s, unsigned store);
const char *shared_store_state_text(const struct shared_store *st);

/* The slot of a segment id, if it is that segment's and not DEAD or FREE; else NULL. */
struct shared_segment *shared_segment(struct shared_store *st, uint32_t id);
/* By the keeper. A new segment in its slot, OPEN, with tail 0. -EBUSY: the slot is taken, use the next id. */
int shared_segment_open(struct shared_store *st, uint32_t id) NODISCARD;
/* By the keeper at start: a segment that exists on disk, SEALED. -EBUSY. */
int shared_segment_known(struct shared_store *st, uint32_t id) NODISCARD;
/* By the keeper: no reservation succeeds any more; returns how many bytes were reserved. State → FULL. */
uint32_t shared_segment_close(struct shared_segment *sg);
/* By a worker, after its claim names the segment: n bytes at a multiple of «align» (a power of two) plus «skew» (the body's
 * start is what is aligned: the entry begins skew bytes before). 0; -ENOSPC; -ESTALE: not that segment any more. */
int shared_segment_reserve(struct shared_store *st, uint32_t id, uint32_t n, uint32_t align,
			   uint32_t skew, uint32_t *out_offset) NODISCARD;

#endif
