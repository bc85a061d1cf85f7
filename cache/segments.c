/*
 * Segments in use and the store's byte budget.
 *
 * A segment's way (states in cache/shared.h): made in the commit lane (two files, synced into their directory), given to the
 * workers, full, sealed when no claim names it, dead, gone. There are always as many open ones as «open»
 * has places that this store uses: the workers fill the first two, the rest are spares for when the keeper is slow.
 *
 * A segment that owns as much in chunk files as it could hold itself is ended early, so that evicting one
 * segment always frees about the same; in a very large store it may own more, since the table has a fixed number of slots.
 * One that is left behind half the table is ended too: ids in use then lie close together, and what goes through all
 * of them never grows.
 *
 * Budget: capacity = everything accounted + drawn by workers + free_bytes. Every change of an account moves free_bytes the other
 * way, so the sum holds without ever being computed; only a start computes it. The capacity is the configured
 * size less a reserve for what nobody announces: directories, journal files being rewritten, LMDB's growth within a batch.
 */
#include "cache/keeper_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/store.h"
#include "edge/base/log.h"

enum { SEGMENT_MODE = 0640 };

/* --- the table ------------------------------------------------------------------------------- */

struct keeper_segment *segment_find(const struct keeper_store *ks, uint32_t id)
{
	/* Acquire: what the loop filled in before it added it. */
	struct keeper_segment *seg = atomic_load_explicit(&ks->segments[id % SHARED_SEGMENTS],
							  memory_order_acquire);

	return seg != NULL && seg->id == id ? seg : NULL;
}

struct keeper_segment *segment_add(struct keeper_store *ks, uint32_t id)
{
	struct keeper_segment *seg = calloc(1, sizeof(*seg));

	if (seg == NULL)
		return NULL;
	CHECK(atomic_load(&ks->segments[id % SHARED_SEGMENTS]) == NULL);
	seg->id = id;
	seg->fd = -1;
	seg->log.fd = -1;
	ks->segment_count++;
	atomic_store_explicit(&ks->segments[id % SHARED_SEGMENTS], seg, memory_order_release);
	if (ks->lowest_id == 0 || id < ks->lowest_id)
		ks->lowest_id = id;
	if (id >= ks->next_id)
		ks->next_id = id + 1;
	return seg;
}

void segment_drop(struct keeper_store *ks, uint32_t id)
{
	struct keeper_segment *seg = segment_find(ks, id);

	if (seg == NULL)
		return;
	CHECK(!seg->resting);
	atomic_store_explicit(&ks->segments[id % SHARED_SEGMENTS], NULL, memory_order_release);
	ks->segment_count--;
	if (seg->fd >= 0)
		close(seg->fd);
	log_close(&seg->log);
	free(seg);
}

static struct shared_segment *slot_of(const struct keeper_store *ks, uint32_t id)
{
	struct shared_segment *sg = &ks->st->segments[id % SHARED_SEGMENTS];

	return atomic_load_explicit(&sg->id, memory_order_relaxed) == id ? sg : NULL;
}

uint32_t segment_state(const struct keeper_store *ks, uint32_t id)
{
	struct shared_segment *sg = slot_of(ks, id);

	return sg == NULL ? SEGMENT_FREE : atomic_load_explicit(&sg->state, memory_order_acquire);
}

bool segment_takes_entries(const struct keeper_store *ks, uint32_t id)
{
	uint32_t state = segment_state(ks, id);

	return state == SEGMENT_OPEN || state == SEGMENT_FULL;
}

void segment_set_dead(struct keeper_store *ks, uint32_t id)
{
	atomic_store_explicit(&ks->st->segments[id % SHARED_SEGMENTS].state, SEGMENT_DEAD,
			      memory_order_release);
	atomic_store(&ks->dying, true);
}

/* --- logs, in the commit lane -------------------------------------------------------------------- */

struct log *segment_log(struct keeper_store *ks, struct keeper_segment *seg)
{
	struct log reopened;

	if (seg->log.fd < 0) {
		if (log_open(ks->dir_fd, seg->id, seg->log.bytes, &reopened) != 0)
			return NULL;
		seg->log = reopened;
	}
	if (!seg->touched && ks->touched_count < KEEPER_TOUCHED) {
		ks->touched[ks->touched_count++] = seg->id;
		seg->touched = true;
	}
	return seg->touched ? &seg->log : NULL;
}

/* Keeps the place, lets go of descriptor and memory. */
static void close_log(struct log *log)
{
	uint64_t bytes = log->bytes;

	log_close(log);
	log->bytes = bytes;
}

static int flush_log(struct keeper_store *ks, struct keeper_segment *seg, bool index)
{
	uint64_t before = seg->log.bytes;
	int r = log_flush(&seg->log);

	if (r != 0)
		return r;
	ks->log_bytes += seg->log.bytes - before;
	if (index)
		index_set_applied(ks->index, seg->id, seg->log.bytes);
	if (!segment_takes_entries(ks, seg->id))
		close_log(&seg->log);
	return 0;
}

static void logs_forget(struct keeper_store *ks)
{
	for (unsigned i = 0; i < ks->touched_count; i++) {
		struct keeper_segment *seg = segment_find(ks, ks->touched[i]);

		if (seg == NULL || !seg->touched)
			continue;
		log_forget(&seg->log);
		seg->touched = false;
	}
	ks->touched_count = 0;
}

int logs_flush(struct keeper_store *ks, bool index, struct log_end *out, unsigned *out_count)
{
	unsigned count = 0;
	int r = 0;

	for (unsigned i = 0; i < ks->touched_count && r == 0; i++) {
		struct keeper_segment *seg = segment_find(ks, ks->touched[i]);

		if (seg == NULL || !seg->touched)
			continue;
		r = flush_log(ks, seg, index);
		seg->touched = r != 0;
		if (r == 0)
			out[count++] = (struct log_end){ seg->id, seg->log.bytes };
	}
	*out_count = count;
	if (r != 0)
		logs_forget(ks);
	ks->touched_count = 0;
	return r;
}

void logs_grown(struct keeper_store *ks, const struct log_end *ends, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct keeper_segment *seg = segment_find(ks, ends[i].segment);

		if (seg != NULL)
			seg->log_seen = ends[i].end;
	}
}

static void run_rest(struct job *j)
{
	struct keeper_segment *seg = CONTAINER_OF(j, struct keeper_segment, rest);

	close_log(&seg->log);
}

/* No claim names it any more, so no batch reads its entries. */
static void rested(struct job *j)
{
	struct keeper_segment *seg = CONTAINER_OF(j, struct keeper_segment, rest);

	if (seg->fd >= 0)
		close(seg->fd);
	seg->fd = -1;
	seg->resting = false;
}

static bool room_for_segment(const struct keeper_store *ks)
{
	return atomic_load_explicit(&ks->st->free_bytes, memory_order_relaxed) >=
	       (int64_t)ks->super.segment_bytes;
}

/* --- making one -------------------------------------------------------------------------------- */

struct make {
	struct job job;
	struct keeper_store *ks;
	uint32_t id;
	int fd, error;
	struct log log;
};

static int make_files(struct make *m)
{
	char path[FORMAT_PATH_MAX];
	int dir_fd = m->ks->dir_fd;
	int r;

	m->log = (struct log){ .fd = -1 };
	format_segment_path(m->id, path);
	m->fd = openat(dir_fd, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, SEGMENT_MODE);
	if (m->fd < 0)
		return -errno;
	r = log_create(dir_fd, m->ks->super.id, m->id, &m->log);
	if (r == 0)
		r = store_sync_dir(dir_fd, FORMAT_SEGMENTS_DIR);
	if (r != 0) {
		close(m->fd);
		log_close(&m->log);
		unlinkat(dir_fd, path, 0);
		format_log_path(m->id, path);
		unlinkat(dir_fd, path, 0);
	}
	return r;
}

static _Atomic uint32_t *vacant_place(struct keeper_store *ks)
{
	for (unsigned i = 0; i < ks->open_count; i++)
		if (atomic_load_explicit(&ks->st->open[i], memory_order_relaxed) == 0)
			return &ks->st->open[i];
	return NULL;
}

/* The files are there: to the workers with it. The room was charged when it was begun. */
static int adopt_made(struct keeper_store *ks, struct make *m)
{
	struct keeper_segment *seg = segment_add(ks, m->id);
	_Atomic uint32_t *place = vacant_place(ks);

	if (seg == NULL)
		return -ENOMEM;
	seg->fd = m->fd;
	seg->log = m->log;
	seg->log_seen = m->log.bytes;
	seg->charged_bytes = ks->super.segment_bytes;
	CHECK(shared_segment_open(ks->st, m->id) == 0);
	if (place != NULL) /* Release: the slot is ready when its id is seen. */
		atomic_store_explicit(place, m->id, memory_order_release);
	return 0;
}

static bool slot_free(const struct keeper_store *ks, uint32_t id)
{
	const struct shared_segment *sg = &ks->st->segments[id % SHARED_SEGMENTS];

	return atomic_load_explicit(&sg->state, memory_order_relaxed) == SEGMENT_FREE &&
	       atomic_load(&ks->segments[id % SHARED_SEGMENTS]) == NULL;
}

/* 0: too few of the slots are free. (With one left for each that is being made, no two come to the same one.) */
static uint32_t take_id(struct keeper_store *ks)
{
	if (ks->segment_count + ks->being_made >= SHARED_SEGMENTS - SHARED_SEGMENTS_OPEN)
		return 0;
	for (unsigned i = 0; i < SHARED_SEGMENTS; i++) {
		uint32_t id = ks->next_id++;

		if (id != 0 && slot_free(ks, id))
			return id;
	}
	return 0;
}

static int make_now(struct keeper_store *ks)
{
	struct make m = { .ks = ks, .id = take_id(ks) };
	int r;

	if (m.id == 0)
		return 0;
	r = make_files(&m);
	if (r != 0)
		return r;
	ks->log_bytes += m.log.bytes;
	account_add(ks, ACCOUNT_SEGMENTS, ks->super.segment_bytes);
	return adopt_made(ks, &m);
}

int segments_make_now(struct keeper_store *ks)
{
	int r = 0;

	for (unsigned i = 0; i < ks->open_count && r == 0; i++)
		if (vacant_place(ks) != NULL && room_for_segment(ks))
			r = make_now(ks);
	return r == -ENOMEM || keeper_is_full(ks, r) ? 0 : r;
}

static void run_make(struct job *j)
{
	struct make *m = CONTAINER_OF(j, struct make, job);

	m->error = make_files(m);
	if (m->error == 0)
		m->ks->log_bytes += m->log.bytes;
}

static void made(struct job *j)
{
	struct make *m = CONTAINER_OF(j, struct make, job);
	struct keeper_store *ks = m->ks;

	ks->being_made--;
	if (m->error == 0)
		m->error = adopt_made(ks, m);
	if (m->error != 0) {
		account_add(ks, ACCOUNT_SEGMENTS, -(int64_t)ks->super.segment_bytes);
		if (m->error != -ENOMEM && !keeper_is_full(ks, m->error))
			keeper_store_failed(ks, REASON_LOG, m->error);
	}
	free(m);
}

static void begin_making(struct keeper_store *ks)
{
	struct make *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return;
	m->ks = ks;
	m->id = take_id(ks);
	if (m->id == 0) {
		free(m);
		return;
	}
	ks->being_made++;
	account_add(ks, ACCOUNT_SEGMENTS, ks->super.segment_bytes);
	lane_submit(ks->commit_lane, &m->job, run_make, made);
}

/* --- full, sealed --------------------------------------------------------------------------------- */

uint64_t segment_tail(const struct keeper_store *ks, uint32_t id)
{
	struct shared_segment *sg = slot_of(ks, id);
	uint32_t tail = sg == NULL ? 0
				   : (uint32_t)atomic_load_explicit(&sg->tail, memory_order_relaxed);

	return tail == SEGMENT_CLOSED ? 0 : tail;
}

static void end_segment(struct keeper_store *ks, unsigned place)
{
	uint32_t id = atomic_load_explicit(&ks->st->open[place], memory_order_relaxed);
	struct shared_segment *sg = slot_of(ks, id);

	if (sg != NULL)
		(void)shared_segment_close(sg);
	atomic_store_explicit(&ks->st->open[place], 0, memory_order_release);
}

static uint64_t worth_of_a_full_one(const struct keeper_store *ks)
{
	uint64_t part = ks->capacity_bytes / (SHARED_SEGMENTS / 2);

	return part > ks->super.segment_bytes ? part : ks->super.segment_bytes;
}

/* Full for the workers, worth as much as a full one, or left behind. */
static bool wants_ending(const struct keeper_store *ks, uint32_t id)
{
	struct keeper_segment *seg = segment_find(ks, id);

	if (seg == NULL || segment_state(ks, id) != SEGMENT_OPEN)
		return true;
	return seg->chunk_bytes + segment_tail(ks, id) >= worth_of_a_full_one(ks) ||
	       ks->next_id - id > SHARED_SEGMENTS / 2;
}

void segments_pump(struct keeper_store *ks)
{
	unsigned vacant = 0;

	for (unsigned i = 0; i < ks->open_count; i++) {
		uint32_t id = atomic_load_explicit(&ks->st->open[i], memory_order_relaxed);

		if (id != 0 && wants_ending(ks, id))
			end_segment(ks, i);
		vacant += atomic_load_explicit(&ks->st->open[i], memory_order_relaxed) == 0;
	}
	ks->no_room_for_segment = false;
	if (ks->keeper->closing)
		return;
	while (vacant > ks->being_made) {
		unsigned before = ks->being_made;

		if (!room_for_segment(ks)) {
			ks->no_room_for_segment = true;
			break;
		}
		begin_making(ks);
		if (ks->being_made == before)
			break;
	}
}

static uint64_t file_bytes(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static void seal(struct keeper_store *ks, struct keeper_segment *seg)
{
	struct shared_segment *sg = slot_of(ks, seg->id);
	uint64_t bytes = seg->fd >= 0 ? file_bytes(seg->fd) : seg->charged_bytes;

	atomic_store_explicit(&sg->state, SEGMENT_SEALED, memory_order_release);
	account_add(ks, ACCOUNT_SEGMENTS, (int64_t)(bytes - seg->charged_bytes));
	seg->charged_bytes = bytes;
	seg->resting = true;
	lane_submit(ks->commit_lane, &seg->rest, run_rest, rested);
}

void segments_seal(struct keeper_store *ks)
{
	for (uint32_t id = ks->lowest_id; id != 0 && id < ks->next_id; id++) {
		struct keeper_segment *seg = segment_find(ks, id);

		if (seg == NULL || segment_state(ks, id) != SEGMENT_FULL)
			continue;
		/* A worker may have called it full: after closing it for good, «not busy» stays true. */
		(void)shared_segment_close(slot_of(ks, id));
		if (!claim_segment_busy(ks->shared, ks->number, id))
			seal(ks, seg);
	}
}

void segments_close_all(struct keeper_store *ks)
{
	for (unsigned i = 0; i < SHARED_SEGMENTS_OPEN; i++)
		if (atomic_load_explicit(&ks->st->open[i], memory_order_relaxed) != 0)
			end_segment(ks, i);
}

/* --- the budget ------------------------------------------------------------------------------------ */

void account_set(struct keeper_store *ks, enum keeper_account account, uint64_t bytes)
{
	int64_t change = (int64_t)(bytes - ks->accounts[account]);

	if (change == 0)
		return;
	ks->accounts[account] = bytes;
	atomic_fetch_sub_explicit(&ks->st->free_bytes, change, memory_order_relaxed);
}

void lane_totals_take(const struct keeper_store *ks, struct lane_totals *out)
{
	out->index = index_totals(ks->index);
	out->index_bytes = index_file_bytes(ks->index);
	out->log_bytes = ks->log_bytes;
}

void account_lane(struct keeper_store *ks, const struct lane_totals *t, uint64_t gone)
{
	account_set(ks, ACCOUNT_LOGS, t->log_bytes);
	account_set(ks, ACCOUNT_INDEX, t->index_bytes);
	account_add(ks, ACCOUNT_LEAVING, (int64_t)gone);
	account_set(ks, ACCOUNT_CHUNKS, t->index.chunk_bytes);
	atomic_store_explicit(&ks->st->objects, t->index.objects, memory_order_relaxed);
	atomic_store_explicit(&ks->st->index_bytes, t->index_bytes, memory_order_relaxed);
}

void account_unlinked(struct keeper_store *ks, uint64_t bytes)
{
	ks->releasing[ks->keeper->ticks % KEEPER_RELEASE_TICKS] += bytes;
}

static uint64_t dead_open(const struct keeper_store *ks)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < SHARED_WORKERS; i++)
		total += atomic_load_explicit(&ks->st->dead_open_bytes[i], memory_order_relaxed);
	return total;
}

static void publish_used(struct keeper_store *ks)
{
	uint64_t used = 0;
	unsigned segments = 0;

	for (unsigned i = 0; i < ACCOUNTS; i++)
		used += ks->accounts[i];
	for (uint32_t id = ks->lowest_id; id != 0 && id < ks->next_id; id++)
		segments += segment_find(ks, id) != NULL;
	atomic_store_explicit(&ks->st->used_bytes, used, memory_order_relaxed);
	atomic_store_explicit(&ks->st->segments_used, segments, memory_order_relaxed);
}

/* How much was taken in the last release period, so that eviction keeps ahead of it. */
static void watch_drain(struct keeper_store *ks)
{
	int64_t now = atomic_load_explicit(&ks->st->free_bytes, memory_order_relaxed);

	ks->drain_bytes -= ks->drain_bytes / KEEPER_RELEASE_TICKS;
	if (now < ks->free_before)
		ks->drain_bytes += (uint64_t)(ks->free_before - now);
	ks->free_before = now;
}

void account_tick(struct keeper_store *ks)
{
	uint64_t *due = &ks->releasing[ks->keeper->ticks % KEEPER_RELEASE_TICKS];

	watch_drain(ks);
	account_set(ks, ACCOUNT_DEAD_OPEN, dead_open(ks));
	account_add(ks, ACCOUNT_LEAVING, -(int64_t)*due);
	*due = 0;
	ks->free_before = atomic_load_explicit(&ks->st->free_bytes, memory_order_relaxed);
	publish_used(ks);
}

static uint64_t drawn_by_claims(const struct keeper_store *ks)
{
	uint64_t drawn = 0;

	for (uint32_t i = 0; i < SHARED_CLAIMS; i++) {
		struct shared_claim *c = &ks->shared->claims[i];

		if (atomic_load_explicit(&c->state, memory_order_acquire) != CLAIM_FREE &&
		    atomic_load_explicit(&c->store, memory_order_relaxed) == ks->number)
			drawn += atomic_load_explicit(&c->drawn_bytes, memory_order_relaxed);
	}
	return drawn;
}

void account_start(struct keeper_store *ks)
{
	uint64_t used = drawn_by_claims(ks);

	for (unsigned i = 0; i < ACCOUNTS; i++)
		used += ks->accounts[i];
	ks->free_before = (int64_t)(ks->capacity_bytes - used);
	atomic_store_explicit(&ks->st->free_bytes, ks->free_before, memory_order_relaxed);
}
