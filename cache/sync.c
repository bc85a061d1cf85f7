/*
 * The sync pump: data, then logs, then a mark in each log that says how far it may be trusted after a power
 * cut, then that mark. It is the brake of the store too: what it has synced comes off «unsynced_bytes», which
 * slows fills down when it grows.
 *
 * It starts every five seconds where anything is dirty, and at once when a quarter of the limit is unsynced. A pump that
 * began before a record was written promises nothing about it: the ends of the logs are noted first, then the data is
 * synced. Chunk files of fills that go on are synced as well (their claims tell), else a long fill could
 * only ever fill the bound.
 *
 * What it can't try for want of descriptors it tries again, with all that was noted. A sync that was tried and failed is
 * final, whatever the error: the kernel reports it once and forgets the bytes.
 *
 * What a keeper that died had not synced nobody remembers by name: its successor's first pump syncs the whole file system.
 *
 * Files are opened anew for their fdatasync: it covers all dirty pages of the file whoever wrote them, and the lanes need
 * share no descriptors.
 */
#include "cache/keeper_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cache/store.h"
#include "edge/base/log.h"

struct sync {
	struct job job;
	struct keeper_store *ks;
	int64_t noted_bytes; /* unsynced when it began */
	struct log_end *logs;
	unsigned log_count;
	struct chunk_list chunks;
	bool dirs[256]; /* of chunk files */
	bool whole;
	int error;
	/* of the marks */
	struct log_end ends[KEEPER_TOUCHED];
	unsigned end_count;
	struct lane_totals totals;
};

/* --- in the slow lane ------------------------------------------------------------------------------- */

/* A file that is gone needs no syncing. */
static int sync_file(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = fdatasync(fd) == 0 ? 0 : -errno;
	close(fd);
	return r;
}

static int sync_segments(struct sync *y)
{
	char path[FORMAT_PATH_MAX];
	int r = 0;

	for (unsigned i = 0; i < y->log_count && r == 0; i++) {
		format_segment_path(y->logs[i].segment, path);
		r = sync_file(y->ks->dir_fd, path);
	}
	return r;
}

static int sync_body(struct sync *y, const struct chunk_body *body)
{
	char path[FORMAT_PATH_MAX];
	int r = 0;

	for (uint32_t i = 0; i < body->chunks && r == 0; i++) {
		format_chunk_path(body->body_id, i, path);
		r = sync_file(y->ks->dir_fd, path);
	}
	y->dirs[body->body_id & 0xff] = true;
	return r;
}

static int sync_chunks(struct sync *y)
{
	char path[FORMAT_PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < y->chunks.count && r == 0; i++)
		r = sync_body(y, &y->chunks.items[i]);
	for (unsigned i = 0; i < ARRAY_LEN(y->dirs) && r == 0; i++) {
		snprintf(path, sizeof(path), FORMAT_CHUNKS_DIR "/%02x", i);
		if (y->dirs[i])
			r = store_sync_dir(y->ks->dir_fd, path);
	}
	return r;
}

static int sync_logs(struct sync *y)
{
	char path[FORMAT_PATH_MAX];
	int r = 0;

	for (unsigned i = 0; i < y->log_count && r == 0; i++) {
		format_log_path(y->logs[i].segment, path);
		r = sync_file(y->ks->dir_fd, path);
	}
	return r;
}

static int sync_data(struct sync *y)
{
	int r = sync_segments(y);

	if (r == 0)
		r = sync_chunks(y);
	if (r == 0 && y->whole && syncfs(y->ks->dir_fd) != 0)
		r = -errno;
	return r == 0 ? sync_logs(y) : r;
}

static void run_data(struct job *j)
{
	struct sync *y = CONTAINER_OF(j, struct sync, job);

	y->error = sync_data(y);
}

static void run_logs(struct job *j)
{
	struct sync *y = CONTAINER_OF(j, struct sync, job);

	y->error = sync_logs(y);
}

/* --- in the commit lane ----------------------------------------------------------------------------- */

static int write_marks(struct sync *y)
{
	struct keeper_store *ks = y->ks;
	int r;

	for (unsigned i = 0; i < y->log_count; i++) {
		struct format_synced mark = { .offset = y->logs[i].end };
		struct keeper_segment *seg;
		struct log *log;

		/* A dying one may be dropped at any time. */
		if (mark.offset == 0 || segment_state(ks, y->logs[i].segment) == SEGMENT_DEAD)
			continue;
		seg = segment_find(ks, y->logs[i].segment);
		if (seg == NULL)
			continue;
		log = segment_log(ks, seg);
		if (log != NULL) /* else it stays dirty, for the next pump */
			log_add(log, FORMAT_LOG_SYNCED, &mark, sizeof(mark));
	}
	r = logs_flush(ks, false, y->ends, &y->end_count);
	lane_totals_take(ks, &y->totals);
	return r;
}

static void run_marks(struct job *j)
{
	struct sync *y = CONTAINER_OF(j, struct sync, job);

	y->error = write_marks(y);
}

/* --- in the loop ---------------------------------------------------------------------------------------- */

static void end_sync(struct sync *y)
{
	y->ks->sync = NULL;
	chunk_list_fini(&y->chunks);
	free(y->logs);
	free(y);
}

/* Nothing was promised of them yet. */
static void put_back_chunks(struct sync *y)
{
	struct keeper_store *ks = y->ks;

	for (size_t i = 0; i < y->chunks.count; i++)
		chunk_list_add(&ks->unsynced_chunks, y->chunks.items[i].body_id,
			       y->chunks.items[i].chunks);
}

/* marking: a full disk can't take the marks now, which is no reason to distrust what was synced before. */
static void sync_failed(struct sync *y, bool marking)
{
	struct keeper_store *ks = y->ks;
	int error = y->error;

	put_back_chunks(y);
	end_sync(y);
	if (error == -EMFILE || error == -ENFILE)
		return;
	if (marking && keeper_is_full(ks, error))
		return;
	keeper_store_failed(ks, REASON_SYNC, error);
}

/* Logs with nothing behind the mark are clean. */
static void note_marked(struct sync *y)
{
	for (unsigned i = 0; i < y->end_count; i++) {
		struct keeper_segment *seg = segment_find(y->ks, y->ends[i].segment);
		uint32_t mark = sizeof(struct format_log_record) + sizeof(struct format_synced);

		for (unsigned k = 0; k < y->log_count && seg != NULL; k++) {
			if (y->logs[k].segment != seg->id)
				continue;
			seg->log_marked = y->logs[k].end;
			if (y->ends[i].end == y->logs[k].end + mark && seg->log_seen == y->ends[i].end)
				seg->log_marked = seg->log_seen;
		}
	}
}

static void logs_synced(struct job *j)
{
	struct sync *y = CONTAINER_OF(j, struct sync, job);
	struct keeper_store *ks = y->ks;

	if (y->error != 0) {
		sync_failed(y, false);
		return;
	}
	note_marked(y);
	end_sync(y);
	sync_tick(ks);
}

static void marks_written(struct job *j)
{
	struct sync *y = CONTAINER_OF(j, struct sync, job);

	logs_grown(y->ks, y->ends, y->end_count);
	if (y->error != 0) {
		sync_failed(y, true);
		return;
	}
	account_lane(y->ks, &y->totals, 0);
	lane_submit(y->ks->slow_lane, &y->job, run_logs, logs_synced);
}

static void data_synced(struct job *j)
{
	struct sync *y = CONTAINER_OF(j, struct sync, job);

	if (y->error != 0) {
		sync_failed(y, false);
		return;
	}
	if (y->whole)
		y->ks->sync_whole = false;
	atomic_fetch_sub_explicit(&y->ks->st->unsynced_bytes, y->noted_bytes, memory_order_relaxed);
	lane_submit(y->ks->commit_lane, &y->job, run_marks, marks_written);
}

static bool is_dirty(const struct keeper_store *ks, uint32_t id)
{
	const struct keeper_segment *seg = segment_find(ks, id);
	uint32_t state = segment_state(ks, id);

	if (seg == NULL || state == SEGMENT_DEAD)
		return false;
	/* Entries are written before their records are. */
	return seg->log_seen > seg->log_marked;
}

/* Which segments, and to which end their logs can be marked (0: nothing to mark, but fills may have written to it); at most as
 * many as one flush of logs holds, the rest next time. */
static int note_logs(struct sync *y)
{
	struct keeper_store *ks = y->ks;

	y->logs = malloc(KEEPER_TOUCHED * sizeof(*y->logs));
	if (y->logs == NULL)
		return -ENOMEM;
	for (uint32_t id = ks->lowest_id; id < ks->next_id && y->log_count < KEEPER_TOUCHED; id++) {
		bool dirty = is_dirty(ks, id);

		if (dirty || segment_takes_entries(ks, id))
			y->logs[y->log_count++] =
				(struct log_end){ id, dirty ? segment_find(ks, id)->log_seen : 0 };
	}
	return 0;
}

/* Chunk files of fills under way or waiting for their commit. */
static void note_claims(struct sync *y)
{
	struct cache_shared *s = y->ks->shared;

	for (int slot = claim_next(s, 0); slot >= 0; slot = claim_next(s, (uint32_t)slot + 1)) {
		struct shared_claim *c = &s->claims[slot];

		if (atomic_load_explicit(&c->store, memory_order_relaxed) == y->ks->number)
			chunk_list_add(&y->chunks,
				       atomic_load_explicit(&c->object_id, memory_order_acquire),
				       atomic_load_explicit(&c->chunks_begun, memory_order_relaxed));
	}
}

static struct sync *new_sync(struct keeper_store *ks)
{
	struct sync *y = calloc(1, sizeof(*y));

	if (y == NULL)
		return NULL;
	y->ks = ks;
	y->whole = ks->sync_whole;
	/* Before all else: what is written from here on isn't promised. */
	y->noted_bytes = atomic_load_explicit(&ks->st->unsynced_bytes, memory_order_acquire);
	if (note_logs(y) != 0) {
		free(y);
		return NULL;
	}
	y->chunks = ks->unsynced_chunks;
	ks->unsynced_chunks = (struct chunk_list){ 0 };
	note_claims(y);
	return y;
}

static bool anything_dirty(const struct keeper_store *ks)
{
	for (uint32_t id = ks->lowest_id; id < ks->next_id; id++)
		if (is_dirty(ks, id))
			return true;
	return ks->unsynced_chunks.count != 0 ||
	       atomic_load_explicit(&ks->st->unsynced_bytes, memory_order_relaxed) > 0;
}

void sync_tick(struct keeper_store *ks)
{
	int64_t unsynced = atomic_load_explicit(&ks->st->unsynced_bytes, memory_order_relaxed);
	bool urgent = unsynced > (int64_t)(ks->st->unsynced_limit_bytes / 4);
	struct sync *y;

	if (ks->sync != NULL || !ks->usable || ks->keeper->closing)
		return;
	if (!urgent && ks->ticks_since_sync < KEEPER_SYNC_TICKS)
		return;
	ks->ticks_since_sync = 0;
	if (!urgent && !anything_dirty(ks))
		return;
	y = new_sync(ks);
	if (y == NULL)
		return;
	ks->sync = y;
	lane_submit(ks->slow_lane, &y->job, run_data, data_synced);
}

int sync_now(struct keeper_store *ks)
{
	struct sync *y = new_sync(ks);
	int r;

	if (y == NULL)
		return -ENOMEM;
	r = sync_data(y);
	if (r == 0)
		r = write_marks(y);
	if (r == 0)
		r = sync_logs(y);
	logs_grown(ks, y->ends, y->end_count);
	end_sync(y);
	return r;
}
