/*
 * A store as the keeper holds it. Private to the keeper's files:
 *
 *	keeper.c	opening and closing, the tick, claims handed to stores
 *	superblock.c	how the store ended, and what this run notes
 *	recover.c	what is on the disk → segments, index, in service
 *	replay.c	logs → the index
 *	rebuild.c	a new index, filled while traffic is served
 *	blame.c		an index that kills keepers is made anew
 *	apply.c		one log record → the index
 *	commit.c	finished claims → log → index
 *	segments.c	segments: new, full, sealed; the store's byte budget
 *	evict.c		the oldest segment goes; files are unlinked
 *	sync.c		data, log, «synced to here»
 *	purge.c		journals, cells, clock
 *	reclaim.c	what purges left behind; counting what they would
 *
 * Who touches what. The loop owns everything that isn't marked «commit lane». The commit lane alone writes logs and the
 * index; the slow lane syncs and unlinks; the journal lane appends purges. A job gets what it needs in itself
 * and leaves results in itself; done() takes them over in the loop.
 *
 * A segment's files are open here while it takes entries or has unsynced records.
 */
#ifndef BRIM_CACHE_KEEPER_STORE_H
#define BRIM_CACHE_KEEPER_STORE_H

#include "cache/claim.h"
#include "cache/format.h"
#include "cache/index.h"
#include "cache/journal.h"
#include "cache/keeper.h"
#include "cache/lane.h"
#include "cache/log.h"
#include "cache/process.h"
#include "cache/shared.h"

enum {
	KEEPER_MAGIC = 0x4b505242,
	KEEPER_STORE_MAGIC = 0x53505242,
	KEEPER_TICK_MS = SHARED_BEAT_MS,
	KEEPER_SCAN_TICKS = 1000 / KEEPER_TICK_MS, /* all claims, all full segments */
	KEEPER_RELEASE_TICKS = 2000 / KEEPER_TICK_MS, /* from unlinking to being free: workers publish what they hold */
	KEEPER_SYNC_TICKS = 5000 / KEEPER_TICK_MS,
	KEEPER_RENEWALS_TICKS = 60000 / KEEPER_TICK_MS, /* an index is renewed, a full disk told, this often at most */
	KEEPER_BATCH = 256,				/* records of one transaction: about 2 ms */
	KEEPER_BATCH_US = 2000,
	KEEPER_TOUCHED = 4 * KEEPER_BATCH, /* a record can reach three logs */
	KEEPER_PULSE_MS = 20,		   /* how often a store under load is looked at */
};

struct keeper_segment {
	uint32_t id;
	int fd;		/* entries; -1: not open */
	struct log log; /* commit lane */
	bool touched;	/* commit lane: its log has records that aren't written yet */
	bool hides; /* commit lane: it replaced objects of older segments whose logs don't tell */
	uint64_t log_seen;	/* its end after the last finished job */
	uint64_t log_marked;	/* marked as synced to here; less than log_seen: wants syncing */
	uint64_t charged_bytes; /* of the segment's file, as it counts for the store */
	uint64_t chunk_bytes; /* of chunk files committed to it while open: it ends early when they are many */
	struct job rest; /* closes the log's descriptor when it is sealed */
	bool resting;
};

/* What counts as used. Their sum and what workers drew and what is free make up the capacity. */
enum keeper_account {
	ACCOUNT_SEGMENTS, /* open ones at their full size */
	ACCOUNT_LOGS,
	ACCOUNT_INDEX,
	ACCOUNT_JOURNAL,
	ACCOUNT_CHUNKS,	 /* of objects in the index */
	ACCOUNT_LEAVING, /* no longer in the index: being unlinked, or too young to be free */
	ACCOUNT_DEAD_OPEN,
	ACCOUNTS,
};

/* Bodies in chunk files: to be unlinked, or to be synced. */
struct chunk_body {
	uint64_t body_id;
	uint32_t chunks;
};
struct chunk_list {
	struct chunk_body *items;
	size_t count, capacity;
	uint64_t bytes; /* as counted in the index's totals */
};
struct commit_batch;
struct rebuild;
struct evict;
struct sync;

struct keeper_store {
	uint32_t magic;
	struct keeper *keeper;
	unsigned number;
	int dir_fd;
	struct cache_shared *shared;
	struct shared_store *st;
	bool usable; /* opened, and not failed since */

	struct format_store super;
	struct index *index; /* commit lane */
	struct index *lent; /* the same, but for the moment in which it is renewed: the loop may find in it */
	struct journal journal; /* journal lane */
	struct lane *commit_lane, *slow_lane, *journal_lane;
	struct job blame; /* the commit lane's first */

	/* By id % SHARED_SEGMENTS. The loop adds and drops, the commit lane looks. */
	_Atomic(struct keeper_segment *) segments[SHARED_SEGMENTS];
	uint32_t lowest_id, next_id;
	uint32_t segment_count; /* in the table */
	uint32_t first_segment; /* of this run */
	unsigned open_count;	/* entries of shared «open» that this store keeps filled */
	unsigned being_made;
	_Atomic bool dying; /* some segment may be DEAD and wait for its eviction */
	bool no_room_for_segment;

	uint64_t capacity_bytes;
	uint64_t objects_max; /* whose index fits into memory */
	uint64_t accounts[ACCOUNTS];
	uint64_t log_bytes;		  /* commit lane: of all logs */
	uint32_t touched[KEEPER_TOUCHED]; /* commit lane: segments whose logs have unwritten records */
	unsigned touched_count;
	uint64_t releasing[KEEPER_RELEASE_TICKS];
	int64_t free_before;  /* at the last tick, for how fast it goes */
	uint64_t drain_bytes; /* per release period, decaying */

	uint32_t *waiting; /* claims to commit, a queue of SHARED_CLAIMS */
	uint32_t waiting_first, waiting_count;
	unsigned renewals_since;    /* ticks since the index was last renewed */
	unsigned commit_pause;	    /* ticks, after the disk was full */
	struct commit_batch *batch; /* the one under way, or NULL */
	struct rebuild *rebuild;
	struct evict *evict;
	struct sync *sync;
	struct reclaim *reclaim;	   /* the pass under way, or NULL */
	unsigned reclaims;		   /* with counts */
	unsigned reclaim_rest;		   /* ticks until the next pass may begin */
	uint64_t reclaimed_to;		   /* the purge clock when the last whole pass began */
	struct chunk_list unsynced_chunks; /* committed since the last sync */
	unsigned ticks_since_full;	   /* the log was told that the file system is */
	unsigned ticks_since_sync;
	bool sync_whole;	/* a keeper that died may have left chunk files unsynced */
	bool was_clean;		/* the last run ended in order */
	bool trust_synced_only; /* after a power cut, until each log was cut to its mark */
};

struct keeper {
	uint32_t magic;
	struct cache_shared *shared;
	struct loop *loop;
	struct cache_conf conf;
	struct cache *cache; /* reading view */
	struct watch hint;
	struct timer tick, pulse, gather;
	unsigned ticks;
	bool closing;
	bool hint_waits; /* a hint came during a batch */
	uint64_t ring_cursor;
	uint64_t *handled; /* a bit per claim: in a queue or a job */
	uint64_t unswept; /* a bit per worker's slot: what dead ones held there is still to be swept, in part */
	struct purges *purges;
	unsigned journalled; /* a bit for each store whose journal knows of the run under way; see journal.h */
	unsigned counts; /* of what purges would name, under way */
	unsigned store_count;
	struct keeper_store stores[SHARED_STORES];
};

/* --- keeper.c ------------------------------------------------------------------------------- */

/* A bit for each. */
static inline unsigned keeper_usable_stores(const struct keeper *k)
{
	unsigned stores = 0;

	for (unsigned i = 0; i < k->store_count; i++)
		stores |= (unsigned)k->stores[i].usable << i;
	return stores;
}
/* Out of service, told once in the log. error: negative errno. */
void keeper_store_failed(struct keeper_store *ks, enum shared_reason reason, int error);
/* Is it that the file system is full? That is no fault of the store's: it makes room, and what failed is tried again. */
bool keeper_is_full(struct keeper_store *ks, int error);
/* A batch ended, and the next (if any) has begun. */
void keeper_batch_done(struct keeper *k);
const char *keeper_store_path(const struct keeper_store *ks, char *out, size_t n);

/* --- keeper_claims.c ------------------------------------------------------------------------- */

/* The claim is no longer in a queue or job: free it if it is ended and nobody reads through it. */
void keeper_claim_ended(struct keeper *k, uint32_t slot);
/* Takes what ended: all claims, or those that the ring names. */
void keeper_scan_claims(struct keeper *k);
void keeper_drain_ring(struct keeper *k);
/* Of a dead worker, or an earlier one of the slot. What a stopped process keeps from it is left for the next time. */
void keeper_sweep(struct keeper *k, unsigned slot);
void keeper_sweep_again(struct keeper *k);

/* --- blame.c --------------------------------------------------------------------------------- */

/* Before anybody else catches them: SIGSEGV, SIGBUS, SIGABRT. */
void blame_catch_faults(void);
/* From here on a fault in this thread is blamed on this store's index, which the next keeper makes anew; NULL: on
 * nothing. Every call of index.h that touches its pages is made under it. */
void blame_index(struct keeper_store *ks);

/* --- superblock.c ----------------------------------------------------------------------------- */

/* Superblock, directories, sizes. 0 or a negative errno (told). */
int superblock_open(struct keeper_store *ks) NODISCARD;
/* The epoch that object ids of this run bear, made durable before the first is given out. */
int superblock_begin(struct keeper_store *ks, uint64_t epoch) NODISCARD;
/* Everything is synced and nothing under way. Blocks. */
int superblock_clean(struct keeper_store *ks) NODISCARD;
/* It couldn't be synced at the end: the next start is to trust marks alone. Blocks. */
void superblock_suspect(struct keeper_store *ks);
/* In the slow lane: no orphans are left of runs before this one. */
int superblock_scanned(struct keeper_store *ks) NODISCARD;
/* Behind: a write or sync failed; the logs were cut to their marks. */
enum superblock_note { SUPERBLOCK_SUSPECT, SUPERBLOCK_CUT };
void superblock_note(struct keeper_store *ks, enum superblock_note note);

/* --- recover.c --------------------------------------------------------------------------------- */

/* Segments, index, replay; in service at the end, or on the way to it (rebuild). all_lost: nothing in it may be served. */
int recover_store(struct keeper_store *ks, bool all_lost) NODISCARD;

/* --- replay.c ------------------------------------------------------------------------------------ */

/* One log, read on from where it is applied: by replay and by rebuild. */
struct replay {
	struct keeper_store *ks;
	struct keeper_segment *seg;
	struct log_reader *reader;
	bool dead;
	struct chunk_list doomed;
};

int replay_begin(struct replay *p, struct keeper_store *ks, struct keeper_segment *seg, uint64_t from)
	NODISCARD;
/* For 2 ms, in one transaction. *out_more: false at the log's end. 0 or the index's error. */
int replay_slice(struct replay *p, bool *out_more) NODISCARD;
/* at_end: the log ends where its last whole record does; what is torn behind it will be overwritten. */
void replay_end(struct replay *p, bool at_end);
/* Each log from where it is applied. -EBADMSG: index and logs aren't of one piece. */
int replay_all(struct keeper_store *ks) NODISCARD;

/* --- rebuild.c ------------------------------------------------------------------------------------- */

/* A wiped index, open; not yet anybody's. */
int rebuild_fresh_index(struct keeper_store *ks, struct index **out) NODISCARD;
/* Workers are to open it anew. */
void rebuild_announce(struct keeper_store *ks);
/* The index to the loop's readers. */
void rebuild_lend(struct keeper_store *ks);
/* Filling it from all logs that there are now. */
int rebuild_new(struct keeper_store *ks, struct rebuild **out) NODISCARD;
void rebuild_start(struct rebuild *rb);
/* All logs were cut behind their marks, or there are none: from here on they are believed to their end. */
void rebuild_trust(struct keeper_store *ks);
bool rebuild_running(const struct keeper_store *ks);
/* The index failed while in use: a new one is filled from the logs. */
void rebuild_index(struct keeper_store *ks);

/* --- apply.c ----------------------------------------------------------------------------------- */

void chunk_list_fini(struct chunk_list *list);
/* Memory exhausted: the files stay until their log is evicted. */
void chunk_list_add(struct chunk_list *list, uint64_t body_id, uint32_t chunks);

/* What chunk files of a body take on the disk (0: its body lies in a segment), and how many there are. */
uint64_t apply_chunk_bytes(const struct keeper_store *ks, uint32_t body_segment, uint64_t body_bytes);
uint32_t apply_chunks(const struct keeper_store *ks, uint32_t body_segment, uint64_t body_bytes);

enum applied {
	APPLIED,
	APPLIED_BEFORE /* it is there already */,
	APPLIED_LOST /* to a higher object id */
};
/* In a transaction. committing: records of removal go to the logs of what it replaces, and a refresh must find its body. */
enum applied apply_object(struct keeper_store *ks, enum format_log_type type,
			  const struct format_object *o, const struct format_texts *t,
			  bool committing, struct chunk_list *doomed);
void apply_variant_limit(struct keeper_store *ks, const struct format_object *o, uint32_t most,
			 struct chunk_list *doomed);
void apply_removal(struct keeper_store *ks, const struct format_removal *removal,
		   struct chunk_list *doomed);
/* Takes out what a record of an evicted segment's log put there, where it is still there. */
void apply_eviction(struct keeper_store *ks, uint32_t segment, enum format_log_type type,
		    const struct format_object *o, const struct format_texts *t,
		    struct chunk_list *doomed);

/* Does the index have the object that a record tells of? *out: what it has under the key; no OBJECT: nothing. */
bool apply_is_there(struct keeper_store *ks, const struct format_object *o, struct cache_record *out);
/* Takes out that object (r: what the index has), which was purged. */
void apply_purge(struct keeper_store *ks, const struct format_object *o, const struct format_texts *t,
		 const struct cache_record *r, struct chunk_list *doomed);

/* --- commit.c ------------------------------------------------------------------------------------ */

/* The claim is DONE: queue it. */
void commit_claim(struct keeper_store *ks, uint32_t slot);
/* Starts the next batch where none is under way and the store is fit. */
void commit_pump(struct keeper_store *ks);
/* The store is out: claims that wait are refused. */
void commit_refuse_all(struct keeper_store *ks);

/* --- segments.c ---------------------------------------------------------------------------------- */

struct keeper_segment *segment_find(const struct keeper_store *ks, uint32_t id);
/* Adds to the table; NULL: no memory. */
struct keeper_segment *segment_add(struct keeper_store *ks, uint32_t id);
void segment_drop(struct keeper_store *ks, uint32_t id);
uint32_t segment_state(const struct keeper_store *ks, uint32_t id);
/* Open, or full with claims that may still name it. */
bool segment_takes_entries(const struct keeper_store *ks, uint32_t id);
/* How much of an open one is reserved. */
uint64_t segment_tail(const struct keeper_store *ks, uint32_t id);
/* Lookups miss what lies in it from here on. */
void segment_set_dead(struct keeper_store *ks, uint32_t id);
/* Blocking, at the start: as many as there are places and room. 0 or a negative errno. */
int segments_make_now(struct keeper_store *ks) NODISCARD;
/* Replaces full ones, ends those that own much, makes new ones as room allows. */
void segments_pump(struct keeper_store *ks);
/* Once a second: FULL ones that no claim names any more are sealed. */
void segments_seal(struct keeper_store *ks);
/* No reservation succeeds any more. */
void segments_close_all(struct keeper_store *ks);

/* The commit lane's. The log, open for appending, to be written by the next logs_flush; NULL: it can't be. */
struct log *segment_log(struct keeper_store *ks, struct keeper_segment *seg);
struct log_end {
	uint32_t segment;
	uint64_t end;
};
/* Writes what was gathered; where they end now goes to «out» (room for KEEPER_TOUCHED). index: also noted as applied, in
 * the transaction that is open. 0, or the first error: some may have been written. */
int logs_flush(struct keeper_store *ks, bool index, struct log_end *out, unsigned *out_count) NODISCARD;
/* In the loop: the logs have grown. */
void logs_grown(struct keeper_store *ks, const struct log_end *ends, unsigned count);

/* Sets one account; what changes is taken from (or given to) the free bytes. */
void account_set(struct keeper_store *ks, enum keeper_account account, uint64_t bytes);
static inline void account_add(struct keeper_store *ks, enum keeper_account account, int64_t bytes)
{
	account_set(ks, account, ks->accounts[account] + (uint64_t)bytes);
}
/* What the commit lane left: taken at the end of a job, accounted in the loop. gone: bytes of chunk files that left the index. */
struct lane_totals {
	struct index_totals index;
	uint64_t index_bytes, log_bytes;
};
void lane_totals_take(const struct keeper_store *ks, struct lane_totals *out);
void account_lane(struct keeper_store *ks, const struct lane_totals *t, uint64_t gone);
/* Unlinked just now: free in two seconds. */
void account_unlinked(struct keeper_store *ks, uint64_t bytes);
void account_tick(struct keeper_store *ks);
/* Free bytes from scratch, with what claims have drawn. */
void account_start(struct keeper_store *ks);

/* --- evict.c --------------------------------------------------------------------------------------- */

/* Starts evicting where there is need and none is under way. */
void evict_pump(struct keeper_store *ks);
/* Unlinks chunk files in the slow lane; takes the list over. */
void evict_unlink(struct keeper_store *ks, struct chunk_list *doomed);
/* Chunk files 0 … chunks-1 of a claim that failed; then it ends. */
void evict_failed_claim(struct keeper_store *ks, uint32_t slot, uint64_t body_id, uint32_t chunks);
/* Chunk files of the last run that no record names. */
void evict_orphans(struct keeper_store *ks);

/* --- sync.c ----------------------------------------------------------------------------------------- */

void sync_tick(struct keeper_store *ks);
/* Blocking: everything to the disk, marked. */
int sync_now(struct keeper_store *ks) NODISCARD;

/* --- reclaim.c --------------------------------------------------------------------------------------- */

/* Begins a pass where there is need. */
void reclaim_tick(struct keeper_store *ks);
/* At the end: one that pauses is given up; others end with their lanes. */
void reclaim_stop(struct keeper_store *ks);

/* --- purge_replay.c ------------------------------------------------------------------------------------ */

/* Loads all stores' journals, raises cells, sets the clock, mends journals. Returns a bit for each store whose journal was lost:
 * nothing that it holds may be served. */
unsigned purges_replay(struct keeper *k);
/* A random id. */
uint64_t purges_new_run(void);

/* --- purge.c ------------------------------------------------------------------------------------------ */

int purges_open(struct keeper *k) NODISCARD;
/* Mailboxes, and what waits. */
void purges_pump(struct keeper *k, bool restart);
/* The number of the newest hard purge (or a newer one's). */
uint64_t purges_newest_hard(const struct keeper *k);
/* A pass took this out, that the purge with this number named. */
void purges_reclaimed(struct keeper *k, uint64_t number, uint64_t objects, uint64_t bytes);
bool purges_busy(const struct keeper *k);
void purges_close(struct keeper *k);

#endif
