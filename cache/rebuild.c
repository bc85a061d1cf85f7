/*
 * Filling a new index from the logs, in the commit lane, in slices between commits, while traffic is served: lookups
 * find what was read so far. It never reads a body.
 *
 * After a power cut (another boot, no clean end) or a failed sync, each log is first cut behind the last mark: what
 * follows may tell of data that never reached the disk.
 */
#include "cache/keeper_store.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "edge/base/log.h"

struct rebuild {
	struct job job;
	struct keeper_store *ks;
	uint32_t id, end; /* logs yet to be read */
	struct replay replay;
	bool reading, ended;
	struct index *retired; /* the failed one, while the loop may still look into it */
	int error;
	struct lane_totals totals;
};

bool rebuild_running(const struct keeper_store *ks)
{
	return ks->rebuild != NULL;
}

/* Behind the last mark nothing counts; and the mark is set again, since cutting takes it. */
static int cut_to_mark(struct keeper_store *ks, struct keeper_segment *seg)
{
	struct format_synced mark;
	struct log log;
	int r = log_trusted(ks->dir_fd, ks->super.id, seg->id, &mark.offset);

	if (r == 0)
		r = log_open(ks->dir_fd, seg->id, mark.offset, &log);
	if (r != 0)
		return r;
	log_add(&log, FORMAT_LOG_SYNCED, &mark, sizeof(mark));
	r = log_flush(&log);
	if (r == 0 && fdatasync(log.fd) != 0)
		r = -errno;
	ks->log_bytes += log.bytes - seg->log.bytes;
	seg->log.bytes = seg->log_seen = seg->log_marked = log.bytes;
	log_close(&log);
	return r;
}

static int begin_log(struct rebuild *rb)
{
	struct keeper_store *ks = rb->ks;
	struct keeper_segment *seg = segment_find(ks, rb->id);
	int r = 0;

	if (seg == NULL || segment_state(ks, rb->id) == SEGMENT_DEAD)
		return -ENOENT;
	if (ks->trust_synced_only)
		r = cut_to_mark(ks, seg);
	if (r == 0)
		r = replay_begin(&rb->replay, ks, seg, 0);
	if (r != 0)
		segment_set_dead(ks, rb->id);
	return r;
}

static void run_rebuild(struct job *j)
{
	struct rebuild *rb = CONTAINER_OF(j, struct rebuild, job);
	bool more = true;

	while (!rb->reading && rb->id < rb->end) {
		rb->reading = begin_log(rb) == 0;
		rb->id += !rb->reading;
	}
	if (!rb->reading) {
		index_begin(rb->ks->index);
		index_set_complete(rb->ks->index);
		rb->error = index_commit(rb->ks->index);
		rb->ended = true;
	} else {
		rb->error = replay_slice(&rb->replay, &more);
	}
	if (rb->reading && (!more || rb->error != 0)) {
		replay_end(&rb->replay, rb->error == 0);
		rb->reading = false;
		rb->id++;
	}
	lane_totals_take(rb->ks, &rb->totals);
}

void rebuild_trust(struct keeper_store *ks)
{
	if (!ks->trust_synced_only)
		return;
	ks->trust_synced_only = false;
	superblock_note(ks, SUPERBLOCK_CUT);
}

static void end_rebuild(struct rebuild *rb)
{
	struct keeper_store *ks = rb->ks;
	uint32_t rebuilding = STORE_REBUILDING;
	int error = rb->error;

	ks->rebuild = NULL;
	chunk_list_fini(&rb->replay.doomed);
	free(rb);
	if (error != 0) {
		keeper_store_failed(ks, REASON_INDEX, error);
		return;
	}
	if (ks->keeper->closing || !ks->usable)
		return;
	(void)atomic_compare_exchange_strong_explicit(&ks->st->state, &rebuilding, STORE_OPEN,
						      memory_order_release, memory_order_relaxed);
	rebuild_trust(ks);
	log_info("store_rebuilt", "store=%s objects=%llu", ks->st->name,
		 (unsigned long long)atomic_load(&ks->st->objects));
	evict_orphans(ks);
	evict_pump(ks);
}

static void rebuilt_slice(struct job *j)
{
	struct rebuild *rb = CONTAINER_OF(j, struct rebuild, job);
	struct keeper_store *ks = rb->ks;

	account_lane(ks, &rb->totals, rb->replay.doomed.bytes);
	evict_unlink(ks, &rb->replay.doomed);
	chunk_list_fini(&rb->replay.doomed);
	if (rb->error != 0 || rb->ended || ks->keeper->closing || !ks->usable)
		end_rebuild(rb);
	else
		lane_submit(ks->commit_lane, &rb->job, run_rebuild, rebuilt_slice);
}

int rebuild_new(struct keeper_store *ks, struct rebuild **out)
{
	struct rebuild *rb = calloc(1, sizeof(*rb));

	if (rb == NULL)
		return -ENOMEM;
	rb->ks = ks;
	rb->id = ks->lowest_id;
	rb->end = ks->next_id;
	ks->rebuild = rb;
	*out = rb;
	return 0;
}

void rebuild_start(struct rebuild *rb)
{
	lane_submit(rb->ks->commit_lane, &rb->job, run_rebuild, rebuilt_slice);
}

/* --- the index's handle --------------------------------------------------------------------------------- */

void rebuild_lend(struct keeper_store *ks)
{
	ks->lent = ks->index;
	cache_lend_index(ks->keeper->cache, ks->number, ks->lent);
}

int rebuild_fresh_index(struct keeper_store *ks, struct index **out)
{
	bool complete;
	int r = index_wipe(ks->dir_fd);

	return r == 0 ? index_open(ks->dir_fd, ks->super.id, out, &complete) : r;
}

void rebuild_announce(struct keeper_store *ks)
{
	atomic_fetch_add_explicit(&ks->st->index_generation, 1, memory_order_release);
}

/* --- a new index while in use --- */

static void run_renew(struct job *j)
{
	struct rebuild *rb = CONTAINER_OF(j, struct rebuild, job);
	struct index *fresh = NULL;

	rb->error = rebuild_fresh_index(rb->ks, &fresh);
	if (rb->error != 0)
		return;
	rb->retired = rb->ks->index;
	rb->ks->index = fresh;
	run_rebuild(j);
}

static void renewed(struct job *j)
{
	struct rebuild *rb = CONTAINER_OF(j, struct rebuild, job);
	struct keeper_store *ks = rb->ks;

	if (rb->error != 0) {
		end_rebuild(rb);
		return;
	}
	rebuild_lend(ks);
	index_close(&rb->retired);
	rebuild_announce(ks);
	if (ks->usable)
		atomic_store_explicit(&ks->st->state, STORE_REBUILDING, memory_order_release);
	rebuilt_slice(j);
}

void rebuild_index(struct keeper_store *ks)
{
	struct rebuild *rb;

	if (ks->rebuild != NULL || rebuild_new(ks, &rb) != 0)
		return;
	lane_submit(ks->commit_lane, &rb->job, run_renew, renewed);
}
