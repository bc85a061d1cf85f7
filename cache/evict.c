/*
 * Making room: the oldest sealed segment goes, and files are unlinked. (Oldest first for now; popularity
 * will choose.)
 *
 * Order, so that a death at any point is harmless: dead in the shared table (lookups miss) → dead in its log (a
 * start goes on evicting) → its records out of the index, in small transactions → its chunk files unlinked, each slice's
 * after that slice is committed → segment, then log unlinked → slot free.
 *
 * On a full disk the index can't be changed, and nothing would ever go: then the segment's entries are unlinked first. Lookups
 * miss them anyway, and a start takes a log without its segment for a dying one.
 *
 * What is unlinked counts as used for two more seconds, until workers have published what they hold open; so eviction
 * keeps ahead of the rate at which room is taken.
 *
 * Orphans are chunk files without a record: a fill was under way when the node died. Files of earlier runs that no log of
 * the last one names go; what this run writes (a higher epoch) is left alone.
 */
#include "cache/keeper_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "edge/base/log.h"

enum {
	EVICT_SLOTS_FREE = 64 /* of the table: a store may run out of slots before it runs out of bytes */
};

/* --- unlinking chunk files ------------------------------------------------------------------------- */

struct unlinking {
	struct job job;
	struct keeper_store *ks;
	struct chunk_list list;
	bool of_claim;
	uint32_t slot;
};

static void unlink_chunks(int dir_fd, const struct chunk_body *body)
{
	char path[FORMAT_PATH_MAX];

	for (uint32_t i = 0; i < body->chunks; i++) {
		format_chunk_path(body->body_id, i, path);
		/* ENOENT: unlinked before. Others: an orphan, found by the next start. */
		(void)!unlinkat(dir_fd, path, 0);
	}
}

static void run_unlinking(struct job *j)
{
	struct unlinking *u = CONTAINER_OF(j, struct unlinking, job);

	for (size_t i = 0; i < u->list.count; i++)
		unlink_chunks(u->ks->dir_fd, &u->list.items[i]);
}

static void unlinked(struct job *j)
{
	struct unlinking *u = CONTAINER_OF(j, struct unlinking, job);

	account_unlinked(u->ks, u->list.bytes);
	if (u->of_claim)
		keeper_claim_ended(u->ks->keeper, u->slot);
	chunk_list_fini(&u->list);
	free(u);
}

void evict_unlink(struct keeper_store *ks, struct chunk_list *doomed)
{
	struct unlinking *u;

	if (doomed->count == 0 && doomed->bytes == 0)
		return;
	u = calloc(1, sizeof(*u));
	if (u == NULL)
		return;
	u->ks = ks;
	u->list = *doomed;
	*doomed = (struct chunk_list){ 0 };
	lane_submit(ks->slow_lane, &u->job, run_unlinking, unlinked);
}

void evict_failed_claim(struct keeper_store *ks, uint32_t slot, uint64_t body_id, uint32_t chunks)
{
	struct unlinking *u = calloc(1, sizeof(*u));

	if (u == NULL) {
		keeper_claim_ended(ks->keeper, slot);
		return;
	}
	u->ks = ks;
	u->of_claim = true;
	u->slot = slot;
	chunk_list_add(&u->list, body_id, chunks);
	lane_submit(ks->slow_lane, &u->job, run_unlinking, unlinked);
}

/* --- evicting a segment -------------------------------------------------------------------------------- */

struct evict {
	struct job job;
	struct keeper_store *ks;
	uint32_t segment;
	struct log_reader *reader;
	bool begun, ended;
	/* of one slice */
	int error;
	uint64_t objects_before;
	struct lane_totals totals;
	struct chunk_list doomed;
	struct log_end ends[1];
	unsigned end_count;
	uint64_t log_bytes;
};

/* The log says it first. Where it can't be written (a full disk), a start would have to find out again. */
static void log_dead(struct evict *e)
{
	struct keeper_segment *seg = segment_find(e->ks, e->segment);
	struct log *log = segment_log(e->ks, seg);

	if (log == NULL)
		return;
	log_add(log, FORMAT_LOG_DEAD, NULL, 0);
	if (logs_flush(e->ks, false, e->ends, &e->end_count) != 0)
		e->end_count = 0;
}

static void begin_reading(struct evict *e)
{
	e->begun = true;
	log_dead(e);
	if (log_reader_open(e->ks->dir_fd, e->ks->super.id, e->segment, 0, &e->reader) != 0)
		e->reader = NULL;
}

/* False: the end. */
static bool evict_record(struct evict *e)
{
	struct format_log_view v;

	if (e->reader == NULL || log_read(e->reader, &v) != 0)
		return false;
	if (v.type == FORMAT_LOG_COMMIT || v.type == FORMAT_LOG_REFRESH)
		apply_eviction(e->ks, e->segment, v.type, v.object, &v.texts, &e->doomed);
	return true;
}

static void run_slice(struct job *j)
{
	struct evict *e = CONTAINER_OF(j, struct evict, job);
	struct index *index = e->ks->index;
	int64_t begin = clock_mono_us();
	bool more = true;

	e->end_count = 0;
	if (!e->begun)
		begin_reading(e);
	index_begin(index);
	e->objects_before = index_totals(index).objects;
	while (more && clock_mono_us() - begin < KEEPER_BATCH_US)
		more = evict_record(e);
	if (!more) {
		struct keeper_segment *seg = segment_find(e->ks, e->segment);

		e->ended = true;
		index_forget_applied(index, e->segment);
		e->log_bytes = seg->log.bytes;
	}
	e->error = index_commit(index);
	if (e->error == 0)
		e->ks->log_bytes -= e->log_bytes;
	lane_totals_take(e->ks, &e->totals);
}

static void run_unlink_segment(struct job *j)
{
	struct evict *e = CONTAINER_OF(j, struct evict, job);
	char path[FORMAT_PATH_MAX];

	format_segment_path(e->segment, path);
	(void)!unlinkat(e->ks->dir_fd, path, 0);
	format_log_path(e->segment, path);
	(void)!unlinkat(e->ks->dir_fd, path, 0);
}

static void free_slot(struct keeper_store *ks, uint32_t id)
{
	struct shared_segment *sg = &ks->st->segments[id % SHARED_SEGMENTS];

	atomic_store_explicit(&sg->id, 0, memory_order_relaxed);
	/* Release: who takes a FREE slot finds it without id. */
	atomic_store_explicit(&sg->state, SEGMENT_FREE, memory_order_release);
}

static void end_evict(struct evict *e)
{
	log_reader_close(&e->reader);
	chunk_list_fini(&e->doomed);
	e->ks->evict = NULL;
	free(e);
}

static void segment_unlinked(struct job *j)
{
	struct evict *e = CONTAINER_OF(j, struct evict, job);
	struct keeper_store *ks = e->ks;
	struct keeper_segment *seg = segment_find(ks, e->segment);

	account_add(ks, ACCOUNT_LEAVING, (int64_t)seg->charged_bytes);
	account_add(ks, ACCOUNT_SEGMENTS, -(int64_t)seg->charged_bytes);
	/* The log's bytes left their account with the last slice. */
	account_unlinked(ks, seg->charged_bytes + e->log_bytes);
	segment_drop(ks, e->segment);
	free_slot(ks, e->segment);
	atomic_fetch_add_explicit(&ks->st->evicted_segments, 1, memory_order_relaxed);
	end_evict(e);
	evict_pump(ks);
	segments_pump(ks);
}

static void run_unlink_entries(struct job *j)
{
	struct evict *e = CONTAINER_OF(j, struct evict, job);
	char path[FORMAT_PATH_MAX];

	format_segment_path(e->segment, path);
	(void)!unlinkat(e->ks->dir_fd, path, 0);
}

/* It stays dead for lookups, and is tried again: at the next tick, or with a new index. */
static void evict_later(struct job *j)
{
	struct evict *e = CONTAINER_OF(j, struct evict, job);

	atomic_store(&e->ks->dying, true);
	end_evict(e);
}

static void slice_failed(struct evict *e)
{
	struct keeper_store *ks = e->ks;
	int error = e->error;

	if (error == -ENOSPC || error == -EDQUOT) {
		lane_submit(ks->slow_lane, &e->job, run_unlink_entries, evict_later);
		return;
	}
	evict_later(&e->job);
	if (error != -ENOMEM)
		keeper_store_failed(ks, REASON_INDEX, error);
}

static void slice_done(struct job *j)
{
	struct evict *e = CONTAINER_OF(j, struct evict, job);
	struct keeper_store *ks = e->ks;

	logs_grown(ks, e->ends, e->end_count);
	if (e->error != 0) {
		slice_failed(e);
		return;
	}
	account_lane(ks, &e->totals, e->doomed.bytes + e->log_bytes);
	atomic_fetch_add_explicit(&ks->st->evicted_objects,
				  e->objects_before - e->totals.index.objects, memory_order_relaxed);
	evict_unlink(ks, &e->doomed);
	if (e->ended)
		lane_submit(ks->slow_lane, &e->job, run_unlink_segment, segment_unlinked);
	else
		lane_submit(ks->commit_lane, &e->job, run_slice, slice_done);
}

/* --- when and which ------------------------------------------------------------------------------------- */

/* The oldest that is sealed, or was dying when the last keeper did. 0: none. */
static uint32_t oldest(struct keeper_store *ks, bool dead_only)
{
	while (ks->lowest_id < ks->next_id && segment_find(ks, ks->lowest_id) == NULL)
		ks->lowest_id++;
	for (uint32_t id = ks->lowest_id; id < ks->next_id; id++) {
		struct keeper_segment *seg = segment_find(ks, id);
		uint32_t state = seg == NULL ? SEGMENT_FREE : segment_state(ks, id);

		if (seg != NULL && !seg->resting &&
		    (state == SEGMENT_DEAD || (state == SEGMENT_SEALED && !dead_only)))
			return id;
	}
	return 0;
}

/* Room for two segments and what is taken in two seconds, but no more than an eighth of the store for that; slots for new
 * segments; and an index that fits into memory. */
static bool needs_room(const struct keeper_store *ks)
{
	int64_t coming = (int64_t)ks->accounts[ACCOUNT_LEAVING];
	int64_t now = atomic_load_explicit(&ks->st->free_bytes, memory_order_relaxed);
	uint64_t most = ks->capacity_bytes / 8;
	uint64_t ahead = ks->drain_bytes < most ? ks->drain_bytes : most;
	uint64_t target = 2 * (uint64_t)ks->super.segment_bytes + ahead +
			  atomic_load_explicit(&ks->st->wanted_bytes, memory_order_relaxed);

	return now + coming < (int64_t)target ||
	       ks->segment_count > SHARED_SEGMENTS - EVICT_SLOTS_FREE ||
	       atomic_load_explicit(&ks->st->objects, memory_order_relaxed) > ks->objects_max;
}

static void begin_evict(struct keeper_store *ks, uint32_t id)
{
	struct evict *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return;
	e->ks = ks;
	e->segment = id;
	ks->evict = e;
	atomic_store_explicit(&ks->st->disk_full, 0, memory_order_relaxed);
	segment_set_dead(ks, id);
	lane_submit(ks->commit_lane, &e->job, run_slice, slice_done);
}

/* What a worker asked for is there, or is more than there can be. */
static void grant_wanted(struct keeper_store *ks)
{
	uint64_t wanted = atomic_load_explicit(&ks->st->wanted_bytes, memory_order_relaxed);

	if (wanted != 0 &&
	    (wanted > ks->capacity_bytes / 2 ||
	     atomic_load_explicit(&ks->st->free_bytes, memory_order_relaxed) >= (int64_t)wanted))
		(void)atomic_compare_exchange_strong_explicit(&ks->st->wanted_bytes, &wanted, 0,
							      memory_order_relaxed,
							      memory_order_relaxed);
}

/* Nothing is sealed: what the open ones own can only go if one is ended. Once a second at most, and not for next to nothing. */
static void end_largest(struct keeper_store *ks)
{
	uint32_t largest = 0;
	uint64_t most = ks->super.segment_bytes / 4;

	for (unsigned i = 0; i < ks->open_count; i++) {
		uint32_t id = atomic_load_explicit(&ks->st->open[i], memory_order_relaxed);
		struct keeper_segment *seg = segment_find(ks, id);

		if (seg != NULL && seg->chunk_bytes + segment_tail(ks, id) > most) {
			most = seg->chunk_bytes + segment_tail(ks, id);
			largest = id;
		}
	}
	if (largest == 0 || ks->keeper->ticks % KEEPER_SCAN_TICKS != 0)
		return;
	segment_find(ks, largest)->chunk_bytes = UINT64_MAX / 2;
	segments_pump(ks);
}

/* Somebody met a full file system: until a segment goes. */
static bool is_disk_full(struct keeper_store *ks)
{
	if (atomic_load_explicit(&ks->st->disk_full, memory_order_relaxed) == 0)
		return false;
	if (ks->ticks_since_full >= KEEPER_RENEWALS_TICKS) {
		ks->ticks_since_full = 0;
		log_warn("disk_full",
			 "store=%s what=\"the file system is full, the store is not; evicting\"",
			 ks->st->name);
	}
	return true;
}

void evict_pump(struct keeper_store *ks)
{
	bool needed;
	uint32_t id;

	grant_wanted(ks);
	if (!ks->usable || ks->evict != NULL || rebuild_running(ks) || ks->keeper->closing)
		return;
	needed = is_disk_full(ks) || needs_room(ks);
	/* Taken before looking: what dies meanwhile sets it again. */
	if (!atomic_exchange(&ks->dying, false) && !needed)
		return;
	id = oldest(ks, !needed);
	if (id != 0)
		begin_evict(ks, id);
	else if (needed)
		end_largest(ks);
}

/* --- orphans ------------------------------------------------------------------------------------------------ */

struct orphans {
	struct job job;
	struct keeper_store *ks;
	uint32_t segment, end; /* logs yet to be read */
	struct log_reader *reader;
	uint64_t *live; /* bodies in chunk files that the index names */
	size_t live_count, live_capacity;
	bool read_all, failed;
	uint64_t removed;
};

static void add_live(struct orphans *o, uint64_t body_id)
{
	if (o->live_count == o->live_capacity) {
		size_t capacity = o->live_capacity == 0 ? 1024 : o->live_capacity * 2;
		uint64_t *live = realloc(o->live, capacity * sizeof(*live));

		if (live == NULL) {
			o->failed = true;
			return;
		}
		o->live = live;
		o->live_capacity = capacity;
	}
	o->live[o->live_count++] = body_id;
}

static void look_at(struct orphans *o, const struct format_object *object)
{
	struct cache_key key = { .secondary = object->secondary };
	struct cache_record r;

	if (object->body_segment != 0 || object->body_bytes == 0)
		return;
	memcpy(key.primary, object->primary, sizeof(key.primary));
	if (index_get(o->ks->index, &key, &r) && r.kind == CACHE_RECORD_OBJECT &&
	    r.body_id == object->body_id)
		add_live(o, object->body_id);
}

/* Its objects go with it. By its state, since it may be dropped while we look; one that isn't dying can't be: it would have
 * to pass this lane. */
static bool is_going(const struct keeper_store *ks, uint32_t id)
{
	uint32_t state = segment_state(ks, id);

	return state == SEGMENT_DEAD || state == SEGMENT_FREE;
}

static void end_log(struct orphans *o)
{
	/* A log that can't be read to its end may name any of them. */
	if (!is_going(o->ks, o->segment) &&
	    (o->reader == NULL ||
	     log_reader_offset(o->reader) < segment_find(o->ks, o->segment)->log.bytes))
		o->failed = true;
	log_reader_close(&o->reader);
	o->segment++;
}

/* False: all logs are read. */
static bool next_log_record(struct orphans *o)
{
	struct keeper_store *ks = o->ks;
	struct format_log_view v;

	if (o->segment >= o->end)
		return false;
	if (o->reader == NULL &&
	    (is_going(ks, o->segment) ||
	     log_reader_open(ks->dir_fd, ks->super.id, o->segment, 0, &o->reader) != 0)) {
		end_log(o);
		return true;
	}
	if (log_read(o->reader, &v) != 0) {
		end_log(o);
		return true;
	}
	if (v.type == FORMAT_LOG_COMMIT || v.type == FORMAT_LOG_REFRESH)
		look_at(o, v.object);
	return true;
}

static void run_read_logs(struct job *j)
{
	struct orphans *o = CONTAINER_OF(j, struct orphans, job);
	int64_t begin = clock_mono_us();

	index_begin(o->ks->index);
	while (!o->read_all && clock_mono_us() - begin < KEEPER_BATCH_US)
		o->read_all = !next_log_record(o);
	if (index_commit(o->ks->index) != 0)
		o->failed = true;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool is_orphan(const struct orphans *o, uint64_t body_id)
{
	uint64_t epoch = body_id >> FORMAT_EPOCH_SHIFT;

	if (epoch >= o->ks->super.epoch || epoch < o->ks->super.scan_epoch)
		return false;
	return o->live_count == 0 ||
	       bsearch(&body_id, o->live, o->live_count, sizeof(*o->live), by_number) == NULL;
}

static void scan_dir(struct orphans *o, unsigned number)
{
	char path[FORMAT_PATH_MAX];
	struct dirent *entry;
	uint64_t body_id;
	uint32_t chunk;
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), FORMAT_CHUNKS_DIR "/%02x", number);
	fd = openat(o->ks->dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (dir == NULL) {
		if (fd >= 0)
			close(fd);
		return;
	}
	/* cppcheck-suppress readdirCalled ; each has its own DIR */
	while ((entry = readdir(dir)) != NULL) {
		if (format_chunk_name(entry->d_name, &body_id, &chunk) && is_orphan(o, body_id) &&
		    unlinkat(fd, entry->d_name, 0) == 0)
			o->removed++;
	}
	closedir(dir);
}

static void run_scan(struct job *j)
{
	struct orphans *o = CONTAINER_OF(j, struct orphans, job);

	if (o->live_count != 0)
		qsort(o->live, o->live_count, sizeof(*o->live), by_number);
	for (unsigned i = 0; i < 256 && !o->failed; i++)
		scan_dir(o, i);
	if (!o->failed && superblock_scanned(o->ks) != 0)
		o->failed = true;
}

static void scanned(struct job *j)
{
	struct orphans *o = CONTAINER_OF(j, struct orphans, job);

	if (o->removed != 0)
		log_info("orphans_removed", "store=%s files=%llu", o->ks->st->name,
			 (unsigned long long)o->removed);
	log_reader_close(&o->reader);
	free(o->live);
	free(o);
}

static void logs_read(struct job *j)
{
	struct orphans *o = CONTAINER_OF(j, struct orphans, job);

	/* This run's logs, too: a body may have been refreshed into one before its own log was evicted unread. */
	if (o->end < o->ks->next_id) {
		o->end = o->ks->next_id;
		o->read_all = false;
	}
	if (!o->read_all && !o->failed && !o->ks->keeper->closing)
		lane_submit(o->ks->commit_lane, &o->job, run_read_logs, logs_read);
	else if (o->read_all && !o->failed)
		lane_submit(o->ks->slow_lane, &o->job, run_scan, scanned);
	else
		scanned(j);
}

void evict_orphans(struct keeper_store *ks)
{
	struct orphans *o;

	if (ks->super.scan_epoch >= ks->super.epoch)
		return;
	o = calloc(1, sizeof(*o));
	if (o == NULL)
		return;
	o->ks = ks;
	o->segment = ks->super.scan_segment;
	o->end = ks->first_segment;
	lane_submit(ks->commit_lane, &o->job, run_read_logs, logs_read);
}
