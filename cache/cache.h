/*
 * The cache as a worker and the keeper see it: keys, lookups, objects, claims, fills, purges.
 *
 * Read this, then edge/connection.c and edge/request.c, and you know the program.
 *
 * Processes: the master creates the shared memory (cache_shared_new) before it forks; each worker
 * attaches (cache_attach), the keeper runs the engine of cache/keeper.h. Only the keeper writes LMDB,
 * logs and the journal; workers write bodies into ranges that they reserved, and read.
 *
 * Nothing here blocks the loop: what is not in memory is read by a thread, and the caller's «wake» is
 * posted. Functions that may need that return -EINPROGRESS; call them again when woken.
 */
#ifndef BRIM_CACHE_CACHE_H
#define BRIM_CACHE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/verdict.h"
#include "edge/base/clock.h"
#include "edge/base/loop.h"
#include "edge/base/view.h"

struct cache;	     /* this process's view */
struct cache_shared; /* the shared memory: claims, segment tables, purge clock, counters, mailboxes */

/* --- set-up ------------------------------------------------------------------------------- */

struct cache_store_conf {
	struct view name;
	int dir_fd; /* opened by the master; children open everything beneath it */
	uint64_t size_bytes;
};

struct cache_conf {
	struct cache_store_conf stores[8];
	unsigned store_count;
	unsigned workers;
};

/* In the master: opens and locks store directories (creating them, mode 0750, owned by uid/gid when root). The lock is
 * flock on a lock file: it belongs to the returned descriptor, which the master and the keeper share; a
 * second node gets -EWOULDBLOCK. */
int cache_store_open(struct view path, unsigned uid, unsigned gid, int *out_dir_fd, int *out_lock_fd)
	NODISCARD;
/* Mapped MAP_SHARED; inherited by fork. NULL: no memory. The descriptors for wakes are created in it too. */
struct cache_shared *cache_shared_new(const struct cache_conf *conf) NODISCARD;
void cache_shared_free(struct cache_shared *s);

/* In a worker: slot 0..workers-1. Everything that a dead predecessor in this slot held is swept. Works while the
 * keeper is away (stores are then out of service until it is back). */
int cache_attach(struct cache_shared *s, const struct cache_conf *conf, struct loop *l,
		 unsigned slot, struct cache **out) NODISCARD;
void cache_detach(struct cache *c);
/* From now on nothing is stored (draining without the keeper; the master is dead). */
void cache_stop_storing(struct cache *c);
/* Is any store in service? */
bool cache_in_service(const struct cache *c);

/* --- keys --------------------------------------------------------------------------------- */

struct cache_key {
	uint8_t primary[16]; /* also the URL's purge scope */
	uint64_t secondary;  /* 0: none */
	uint64_t base; /* secondary before Vary (0 without kept headers): a Vary rule's record lies at (primary, base); no part
			      * of a lookup, so cache_find compares primary and secondary alone */
};

/* What the primary key is made of; host is lower case, without default port (empty: left out of the key), path is normalised, with query. */
struct cache_url {
	struct view site, scheme, host, path; /* scheme empty: not keyed */
};
void cache_key_primary(const struct cache_url *u, uint8_t out_primary[16]);
/* The hash of kept request headers and cookies and of what Vary names: each part a value (combined, normalised).
 * Never 0. base: the secondary key before Vary, or 0. */
uint64_t cache_key_secondary(uint64_t base, const struct view *values, size_t count);

/* --- lookups ------------------------------------------------------------------------------ */

enum { CACHE_VARY_MAX = 512 /* bytes of a Vary rule: lower-case names separated by one comma */ };

/* What the index says. Small, copied out of LMDB. */
struct cache_record {
	enum { CACHE_RECORD_OBJECT = 1, CACHE_RECORD_VARY = 2 } kind;
	uint8_t store;
	uint16_t status;
	uint32_t flags;
	uint64_t object_id, birth;
	uint64_t body_id; /* whose body it is (chunk files bear it): object_id but after a refresh */
	uint32_t head_segment, head_offset, head_bytes; /* whole entry: header, texts, stored head */
	uint32_t body_segment, body_offset; /* a body in a segment; segment 0: chunk files or none */
	uint64_t body_bytes;
	struct wall received;
	int64_t initial_age_ms, lifetime_ms;
	uint32_t stale_while_revalidate_s, stale_if_error_s;
	uint16_t vary_bytes; /* kind VARY: the rule */
	char vary[CACHE_VARY_MAX];
};

/* 0; -ENOENT: not there (or its segment is dead, or its store out of service); -EIO: the store has gone bad. */
int cache_find(struct cache *c, const struct cache_key *key, struct cache_record *out) NODISCARD;

/* An object whose entry is in memory; its files stay open (and so its bytes alive) while it is held. Requests of this process may
 * share it: it never changes. */
struct cache_object {
	uint32_t magic;
	struct cache *cache;
	struct cache_key key;
	struct cache_record record;
	struct cache_meta meta; /* views into this object's memory */
	struct view head; /* stored fields, "Name: value CRLF" …, without final empty line */
	struct view body; /* a small body that came with the entry; n 0: use cache_object_body */
};

/* Reads and checks the entry that the record points to. 0; -EINPROGRESS (wake follows; call again with the same
 * arguments; *pending carries the read between the calls, NULL at first); -ENOENT: gone meanwhile, or not
 * what the record says (a miss). */
struct cache_read;
int cache_object_open(struct cache *c, const struct cache_key *key, const struct cache_record *r,
		      struct ready *wake, struct cache_read **pending,
		      const struct cache_object **out) NODISCARD;
void cache_read_cancel(struct cache_read **pending);
/* Gives back what cache_object_open or cache_refresh gave. NULL is allowed. */
void cache_object_unref(const struct cache_object *o);
/* Bytes of memory that only this holder keeps: 0 for an object that others have, too. */
size_t cache_object_memory(const struct cache_object *o);

/* Where body bytes from «offset» on lie: a descriptor (borrowed until the next call or free), the offset in
 * it, and how many bytes (>0, at most 256 KiB) are there and in the page cache. -EINPROGRESS: being read by a
 * thread, wake follows. -EIO, -ENOENT: lost; the client's answer must be broken off. -ECANCELED: cut off (dead too long). */
struct cache_span {
	int fd;
	uint64_t offset;
	uint32_t bytes;
};
/* Where one reader of an object stands; zero it; end it with cache_reader_fini before the object is freed. */
struct cache_reader {
	void *file;
	void *pending;
	struct ready *wake; /* of the last call: posted when the reader is cut off */
	struct list link;
};
int cache_object_body(const struct cache_object *o, struct cache_reader *r, uint64_t offset,
		      struct ready *wake, struct cache_span *out) NODISCARD;
void cache_reader_fini(struct cache_reader *r);

/* Popularity: one more hit (small saturating counter in shared memory). */
void cache_object_hit(const struct cache_object *o);
/* As counted there. Another object may share the counter. */
unsigned cache_object_hits(const struct cache_object *o);

/* --- purge clock --------------------------------------------------------------------------- */

enum cache_purged { CACHE_NOT_PURGED, CACHE_SOFT_PURGED, CACHE_HARD_PURGED };
/* Is this object older than a purge that names it? forms: of the keys of the site that asks, see struct cache_names. */
enum cache_purged cache_object_purged(const struct cache_object *o, uint32_t forms);
/* The same by the names of another URL that it is to serve. */
struct cache_names;
enum cache_purged cache_object_purged_as(const struct cache_object *o, const struct cache_names *names);

/* Scopes: hashes of (kind, name); the URL's is its primary key. */
enum cache_scope_kind {
	CACHE_SCOPE_URL,
	CACHE_SCOPE_PREFIX,
	CACHE_SCOPE_TAG,
	CACHE_SCOPE_HOST,
	CACHE_SCOPE_SITE,
	CACHE_SCOPE_ALL,
	CACHE_SCOPE_TAG_ANYWHERE, /* a tag, of whatever site */
	CACHE_SCOPE_PATH, /* goes with a URL's: names its path to those whose keys are made of other things */
	CACHE_SCOPE_UNSAFE, /* names nothing: an unsafe method was answered, and what it changed was looked for in the stores in service */
	CACHE_SCOPE_STORE,  /* all of a store that was away then */
};
enum { CACHE_PREFIX_MAX = 4095 };
struct cache_scope {
	uint64_t hash;
	uint64_t site_hash; /* whose objects it can name: spares other sites' hits a probe; 0: any */
	uint8_t kind;	    /* enum cache_scope_kind */
	uint16_t bytes;	    /* PREFIX: of its path, 1 … CACHE_PREFIX_MAX */
	uint32_t forms;	    /* PATH: of the keys under which the URL was purged */
};
struct cache_scope cache_scope_url(const uint8_t primary[16]);
/* host empty: of what is stored without its host (META_ANY_HOST). */
struct cache_scope cache_scope_host(uint64_t site_hash, struct view host);
/* authority: as in the URL; empty: as above. path: what normalised paths with query begin with, 1 … CACHE_PREFIX_MAX bytes. */
struct cache_scope cache_scope_prefix(uint64_t site_hash, struct view authority, struct view path);
/*
 * What a URL's purge says to those who may ask for it under other keys, after a reload: path (normalised, without query), whatever the
 * host and scheme. forms: see struct cache_names.
 */
struct cache_scope cache_scope_path(uint64_t site_hash, struct view path, uint32_t forms);
/* site_hash 0: of all sites. */
struct cache_scope cache_scope_tag(uint64_t site_hash, struct view tag);
/* A cache group (RFC 9875) of an origin ("http://host:port"): kept and probed like a tag, in a name space of its own. */
struct cache_scope cache_scope_group(uint64_t site_hash, struct view origin, struct view group);
struct cache_scope cache_scope_site(uint64_t site_hash);
struct cache_scope cache_scope_all(void);

/* What a purge can name something by. Views are borrowed. */
struct cache_names {
	const uint8_t *primary;
	uint64_t site_hash, host_hash;
	struct view url;      /* with its scheme */
	bool any_host;	      /* stored without its host: serves all of the site's */
	const uint64_t *tags; /* hashes of TAG scopes */
	uint16_t tag_count;
	/* A hash of what the site's keys are made of, by the configuration of who asks (never 0). A purge of a URL names the
	 * keys of its own time; where these were others since the birth, it names the whole path. 0: by its keys alone. */
	uint32_t forms;
};

/* From a worker (PURGE): asks the keeper by a mailbox in shared memory. 0: answered, *out_sequence; -EINPROGRESS: wake
 * follows; -EAGAIN: it wasn't taken, since the keeper is away or mailboxes are full; -EOWNERDEAD: the keeper took it and went away: it may be done
 * or not; -EIO: journal can't be written, and nothing is known either. ask: zeroed at first, same later. */
struct cache_purge_ask {
	uint32_t slot; /* 1-based mailbox; 0: not asked yet */
	uint64_t ticket;
};
enum { CACHE_ASK_SCOPES = 9 };
int cache_purge_ask(struct cache *c, struct cache_purge_ask *ask, const struct cache_scope *scopes,
		    unsigned count /* at most CACHE_ASK_SCOPES */, bool soft, struct ready *wake,
		    uint64_t *out_sequence) NODISCARD;
void cache_purge_ask_cancel(struct cache *c, struct cache_purge_ask *ask);

/*
 * An unsafe method's answer raises the URL's cells only where this says so: a record or claim for its key exists (RFC 9111 §4.4), in
 * whatever store (which one the key goes to changes with the stores in service), or may come to light.
 */
bool cache_url_known(struct cache *c, const uint8_t primary[16]);
/*
 * It said no. Stores that are away may have the URL all the same: once there is a note of this in the journals, they are revalidated
 * as a whole when they come back. Is there none yet that would do? Then cache_scope_unsafe is to be purged.
 */
bool cache_unsafe_unnoted(const struct cache *c);
struct cache_scope cache_scope_unsafe(void);

/* --- claims ------------------------------------------------------------------------------- */

/* The right and duty to fetch for a key. Owned by one request at a time, then by its fill. */
struct cache_claim;
enum cache_claimed {
	CACHE_CLAIM_OWNED, /* fetch it; look into the index once more first */
	CACHE_CLAIM_WAIT, /* another fetches: wake follows when its state changes; look up again then */
	CACHE_CLAIM_COMMIT, /* as WAIT, for a moment: it is whole and on its way into the index */
	CACHE_CLAIM_PASS,   /* no room, or the stripe's mutex is busy: fetch without storing */
};
/* birth: the purge clock now. A claim in progress whose birth is older than a purge that names it (by all but tags, which
 * nobody knows yet) is superseded first. */
struct cache_wait { /* a place among those who wait; zero it; cancel before letting go of it */
	struct list link;
	struct ready *wake;
	uint32_t slot;
	uint32_t generation;
};
enum cache_claimed cache_claim_take(struct cache *c, const struct cache_key *key,
				    const struct cache_names *names, struct cache_wait *wait,
				    struct ready *wake, struct cache_claim **out);
void cache_wait_cancel(struct cache *c, struct cache_wait *wait);
/* When the request is sent to the origin: its birth (retries keep the first). */
uint64_t cache_claim_birth(const struct cache_claim *cl);
/* Let go without an object: waiters wake (and, where the answer is known to be uncacheable, find it in the pass memory). */
void cache_claim_drop(struct cache_claim **cl);

/* Uncacheable answers, remembered for a while so that a crowd is not serialised behind them. Lossy, bounded. */
void cache_pass_remember(struct cache *c, const struct cache_key *key, int64_t for_ms);
bool cache_pass_known(const struct cache *c, const struct cache_key *key);

/*
 * No-Vary-Search: what a path's answers say of their queries, and which URL's key has the object for a query's normal form. Hints in
 * fixed, lossy tables: they may be lost or wrong at any time, so who follows one proves it by what the object itself says.
 * path: the primary key of the URL without its query.
 */
enum { CACHE_SEARCH_MAX = 224 };
struct cache_search {
	uint64_t stamp; /* when the rule was learned: with it dies what was put under it */
	uint16_t bytes;
	char rule[CACHE_SEARCH_MAX]; /* the field's value */
};
bool cache_search_rule(const struct cache *c, const uint8_t path[16], struct cache_search *out);
/* *out: as it is in force now, a rule that was there before with its stamp. At most CACHE_SEARCH_MAX bytes. */
void cache_search_learn(struct cache *c, const uint8_t path[16], struct view rule,
			struct cache_search *out);
bool cache_search_find(const struct cache *c, const uint8_t path[16], const struct cache_search *s,
		       struct view normal, uint8_t out_primary[16]);
void cache_search_put(struct cache *c, const uint8_t path[16], const struct cache_search *s,
		      struct view normal, const uint8_t primary[16]);

/* --- fills -------------------------------------------------------------------------------- */

/*
 * Writing an object. The fill owns its claim. Bodies: of known length up to the store's limit into a segment; of unknown
 * length staged in memory up to 64 KiB; all else into chunk files.
 * Bytes come in order by fill_write (memory) or fill_splice (from a pipe); readers in this worker see them at once.
 */
struct cache_fill;
enum { CACHE_LENGTH_UNKNOWN = -1 };

/* key is the object's final key (with its Vary secondary); vary_rule: names, or empty. head: stored fields. body_bytes: or -1.
 * 0; -ENOSPC: no room now; -EFBIG; -EAGAIN: no store in service or too much unsynced: relay instead (the claim is dropped with its waiters). */
int cache_fill_begin(struct cache_claim **claim, const struct cache_key *key,
		     const struct cache_meta *meta, struct view vary_rule, struct view head,
		     int64_t body_bytes, struct cache_fill **out) NODISCARD;
/* How many bytes may follow now: 0: slow down (wake follows when there is room); negative: relay from here on (disk full or bad). */
int64_t cache_fill_room(struct cache_fill *f, struct ready *wake);
/* Append all n bytes. 0 or a negative errno (the fill is then broken: abort it). */
int cache_fill_write(struct cache_fill *f, const void *p, size_t n) NODISCARD;
/* Append up to n bytes from a pipe's read end. >0 taken (may be short at a chunk's end: call again), or a negative errno. */
int64_t cache_fill_splice(struct cache_fill *f, int pipe_fd, size_t n) NODISCARD;
uint64_t cache_fill_ready(const struct cache_fill *f); /* bytes appended so far */
/* A reader of what is there so far (below cache_fill_ready): as cache_object_body. Memory staging: out->fd is -1 and
 * *out_memory points to the bytes. Valid until the next call on the fill. */
int cache_fill_body(struct cache_fill *f, struct cache_reader *r, uint64_t offset,
		    struct ready *wake, struct cache_span *out, const char **out_memory) NODISCARD;
void cache_fill_free(struct cache_fill *f); /* a fill that is neither finished nor aborted is aborted */
/* The end of the body was proved: hand it to the keeper. The object stays readable through f. */
int cache_fill_finish(struct cache_fill *f) NODISCARD;
void cache_fill_abort(struct cache_fill *f); /* the origin broke off: nothing is kept; waiters wake */

/* A 304 validated o: a new head entry (merged fields, new times), the old body. Consumes the claim. As cache_fill_begin.
 * *out: the object as it is now (with the new head), usable at once without the index. */
int cache_refresh(struct cache_claim **claim, const struct cache_object *o,
		  const struct cache_meta *meta, struct view head, const struct cache_object **out)
	NODISCARD;

/* --- for the admin API and metrics ------------------------------------------------------------ */

struct cache_store_status {
	struct view name;
	const char *state; /* "open", "rebuilding", "failed: …" */
	uint64_t size_bytes, used_bytes, dead_open_bytes, unsynced_bytes;
	uint64_t objects, segments;
	uint64_t reclaimed_objects, reclaimed_bytes; /* purged, and taken out */
	uint64_t commits, evicted_objects, evicted_segments, evicted_variants, fills_refused,
		index_bytes;
};
/* Reads shared memory only. 0 or -ENOENT (no such store). */
int cache_store_status(const struct cache_shared *s, unsigned store, struct cache_store_status *out)
	NODISCARD;
/* Of this worker: objects opened that were in its memory, since this was last called; what all such objects take now. */
struct cache_hot_counts {
	uint64_t hits, bytes;
};
struct cache_hot_counts cache_take_hot_counts(struct cache *c);
/* Claims that aren't FREE: for leak checks. */
unsigned cache_claims_held(const struct cache_shared *s);

#endif
