/*
 * From what lies on the disk to a store in service. Always the same way, whether the node starts for the
 * first time, after a clean end, after kill -9 of the keeper or of all, or after a power cut:
 *
 * 1. superblock: whose store is it, how did it end;
 * 2. (purge.c: journals, so that nothing purged can be served;)
 * 3. segments: what is on the disk meets what the shared memory knows. A log or segment alone is what a death left: it goes.
 * 4. index: opened, and each log replayed from where the index says it stands; or wiped and rebuilt.
 *
 * A rebuild reads the logs in the commit lane, in slices between commits, while traffic is served: lookups find what was
 * read so far. It never reads a body.
 *
 * After a power cut (another boot, no clean end) or a failed sync, each log is first cut behind the last mark: what
 * follows may tell of data that never reached the disk. The index isn't safe against power cuts and is rebuilt.
 *
 * A damaged page of the index can kill the keeper, since LMDB reads pages as they are. A fault under the index is noted in the
 * shared memory before the process dies of it; the next keeper makes a new one.
 */
#include "cache/keeper_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/store.h"
#include "edge/base/log.h"

/* --- segments ------------------------------------------------------------------------------------------- */

struct on_disk {
	uint32_t id;
	bool seg, log;
};
struct listing {
	struct on_disk *items;
	size_t count, capacity;
};

static int listing_add(struct listing *l, uint32_t id, bool is_log)
{
	if (l->count == l->capacity) {
		size_t capacity = l->capacity == 0 ? 256 : l->capacity * 2;
		struct on_disk *items = realloc(l->items, capacity * sizeof(*items));

		if (items == NULL)
			return -ENOMEM;
		l->items = items;
		l->capacity = capacity;
	}
	l->items[l->count++] = (struct on_disk){ .id = id, .seg = !is_log, .log = is_log };
	return 0;
}

static int by_id(const void *a, const void *b)
{
	uint32_t x = ((const struct on_disk *)a)->id, y = ((const struct on_disk *)b)->id;

	return x < y ? -1 : x > y;
}

/* One item per id, in order. */
static void listing_merge(struct listing *l)
{
	size_t kept = 0;

	if (l->count != 0)
		qsort(l->items, l->count, sizeof(*l->items), by_id);
	for (size_t i = 0; i < l->count; i++) {
		if (kept != 0 && l->items[kept - 1].id == l->items[i].id) {
			l->items[kept - 1].seg |= l->items[i].seg;
			l->items[kept - 1].log |= l->items[i].log;
			continue;
		}
		l->items[kept++] = l->items[i];
	}
	l->count = kept;
}

static int list_segments(int dir_fd, struct listing *out)
{
	int fd = openat(dir_fd, FORMAT_SEGMENTS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	uint32_t id;
	bool is_log;
	int r = 0;

	if (dir == NULL) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	/* cppcheck-suppress readdirCalled ; nobody else has this DIR */
	while (r == 0 && (entry = readdir(dir)) != NULL)
		if (format_segment_name(entry->d_name, &id, &is_log))
			r = listing_add(out, id, is_log);
	closedir(dir);
	listing_merge(out);
	return r;
}

static void unlink_pair(struct keeper_store *ks, uint32_t id)
{
	char path[FORMAT_PATH_MAX];

	format_segment_path(id, path);
	(void)!unlinkat(ks->dir_fd, path, 0);
	format_log_path(id, path);
	(void)!unlinkat(ks->dir_fd, path, 0);
}

static uint64_t disk_bytes(int dir_fd, const char *path, uint64_t *out_size)
{
	struct stat st;

	*out_size = 0;
	if (fstatat(dir_fd, path, &st, 0) != 0)
		return 0;
	*out_size = (uint64_t)st.st_size;
	return (uint64_t)st.st_blocks * 512;
}

/* What it takes on the disk; its file opened if fills under way may write to it. */
static int take_in(struct keeper_store *ks, struct keeper_segment *seg)
{
	char path[FORMAT_PATH_MAX];
	uint64_t size;

	format_segment_path(seg->id, path);
	seg->charged_bytes = disk_bytes(ks->dir_fd, path, &size);
	if (segment_takes_entries(ks, seg->id)) {
		seg->charged_bytes = ks->super.segment_bytes;
		seg->fd = openat(ks->dir_fd, path, O_RDWR | O_CLOEXEC);
		if (seg->fd < 0)
			return -errno;
	}
	format_log_path(seg->id, path);
	(void)disk_bytes(ks->dir_fd, path, &size);
	seg->log.bytes = seg->log_seen = seg->log_marked = size;
	/* The last run may have died before it synced. After a power cut what isn't marked is cut off instead. */
	if (!ks->was_clean && !ks->trust_synced_only && seg->id >= ks->super.scan_segment) {
		seg->log_marked = 0;
		ks->sync_whole = true;
	}
	ks->log_bytes += size;
	ks->accounts[ACCOUNT_SEGMENTS] += seg->charged_bytes;
	return 0;
}

static int know_segment(struct keeper_store *ks, const struct on_disk *d, bool all_lost)
{
	struct keeper_segment *seg;
	uint32_t state = segment_state(ks, d->id);

	/* A death between making or unlinking the two. A dying one's records may still be in the index: evicting ends it. */
	if (state == SEGMENT_FREE && (!d->log || shared_segment_known(ks->st, d->id) != 0)) {
		unlink_pair(ks, d->id);
		return 0;
	}
	seg = segment_add(ks, d->id);
	if (seg == NULL)
		return -ENOMEM;
	seg->hides = true; /* not known any more */
	if (all_lost || !d->seg || !d->log)
		segment_set_dead(ks, d->id);
	return take_in(ks, seg);
}

/* A slot whose files are gone: its keeper died after unlinking them. */
static void free_fileless_slots(struct keeper_store *ks)
{
	for (unsigned i = 0; i < SHARED_SEGMENTS; i++) {
		struct shared_segment *sg = &ks->st->segments[i];
		uint32_t id = atomic_load_explicit(&sg->id, memory_order_relaxed);

		if (atomic_load_explicit(&sg->state, memory_order_relaxed) == SEGMENT_FREE ||
		    segment_find(ks, id) != NULL)
			continue;
		atomic_store_explicit(&sg->id, 0, memory_order_relaxed);
		atomic_store_explicit(&sg->state, SEGMENT_FREE, memory_order_release);
	}
}

static bool is_on_offer(const struct keeper_store *ks, uint32_t id)
{
	for (unsigned i = 0; i < SHARED_SEGMENTS_OPEN; i++)
		if (atomic_load_explicit(&ks->st->open[i], memory_order_relaxed) == id)
			return true;
	return false;
}

/* What an earlier keeper of this node had on offer stays on offer; what it made and never offered is closed. */
static void mend_offers(struct keeper_store *ks)
{
	for (unsigned i = 0; i < SHARED_SEGMENTS_OPEN; i++) {
		uint32_t id = atomic_load_explicit(&ks->st->open[i], memory_order_relaxed);

		if (id != 0 && (segment_find(ks, id) == NULL || segment_state(ks, id) != SEGMENT_OPEN))
			atomic_store_explicit(&ks->st->open[i], 0, memory_order_release);
	}
	for (uint32_t id = ks->lowest_id; id != 0 && id < ks->next_id; id++)
		if (segment_find(ks, id) != NULL && segment_state(ks, id) == SEGMENT_OPEN &&
		    !is_on_offer(ks, id))
			(void)shared_segment_close(&ks->st->segments[id % SHARED_SEGMENTS]);
}

static int recover_segments(struct keeper_store *ks, bool all_lost)
{
	struct listing listing = { 0 };
	int r = list_segments(ks->dir_fd, &listing);

	ks->next_id = 1;
	for (size_t i = 0; i < listing.count && r == 0; i++)
		r = know_segment(ks, &listing.items[i], all_lost);
	free(listing.items);
	if (r != 0)
		return r;
	if (ks->lowest_id == 0)
		ks->lowest_id = ks->next_id;
	free_fileless_slots(ks);
	mend_offers(ks);
	ks->accounts[ACCOUNT_LOGS] = ks->log_bytes;
	ks->first_segment = ks->next_id;
	return 0;
}

/* --- the index ------------------------------------------------------------------------------------------ */

/* As it was left, with what came since. -ENOENT: there is none; -EINPROGRESS: it was never finished; else as index_open. */
static int kept_index(struct keeper_store *ks)
{
	bool complete;
	int r;

	if (faccessat(ks->dir_fd, FORMAT_INDEX_PATH, F_OK, 0) != 0)
		return -errno;
	r = index_open(ks->dir_fd, ks->super.id, &ks->index, &complete);
	if (r != 0)
		return r;
	r = complete ? replay_all(ks) : -EINPROGRESS;
	if (r != 0)
		index_close(&ks->index);
	return r;
}

static bool has_segments(const struct keeper_store *ks)
{
	return ks->lowest_id < ks->next_id;
}

/* A new index; *out_rebuild: NULL where there is nothing to fill it from. */
static int new_index(struct keeper_store *ks, struct rebuild **out_rebuild)
{
	int r = rebuild_fresh_index(ks, &ks->index);

	*out_rebuild = NULL;
	if (r != 0)
		return r;
	rebuild_announce(ks);
	if (has_segments(ks))
		return rebuild_new(ks, out_rebuild);
	index_begin(ks->index);
	index_set_complete(ks->index);
	return index_commit(ks->index);
}

/* An earlier keeper of this node died of it, or a worker couldn't read it. */
static bool is_failed(const struct keeper_store *ks)
{
	return atomic_load_explicit(&ks->st->state, memory_order_acquire) == STORE_FAILED;
}

static const char *reason_of(int error)
{
	switch (error) {
	case -ENOENT:
		return "missing";
	case -EINPROGRESS:
		return "unfinished";
	case -EBADMSG:
		return "damaged";
	case -EPROTO:
		return "of_another_format";
	case -EXDEV:
		return "of_another_store";
	}
	return strerror(-error);
}

/* NULL: the index that is there will do, and is open. */
static const char *why_anew(struct keeper_store *ks)
{
	int r;

	if (ks->trust_synced_only)
		return "unclean_boot";
	if (is_failed(ks))
		return "keeper_died_of_it";
	r = kept_index(ks);
	return r == 0 ? NULL : reason_of(r);
}

static int recover_the_index(struct keeper_store *ks, struct rebuild **out_rebuild)
{
	const char *reason = why_anew(ks);

	*out_rebuild = NULL;
	if (reason == NULL)
		return 0;
	/* A new store has none yet, and nothing to tell of. */
	if (has_segments(ks))
		log_info("index_rebuild", "store=%s reason=%s", ks->st->name, reason);
	return new_index(ks, out_rebuild);
}

int recover_store(struct keeper_store *ks, bool all_lost)
{
	struct rebuild *rebuild;
	struct lane_totals totals;
	int r = recover_segments(ks, all_lost);

	if (r == 0)
		r = recover_the_index(ks, &rebuild);
	if (r != 0)
		return r;
	lane_totals_take(ks, &totals);
	account_lane(ks, &totals, 0);
	account_start(ks);
	r = segments_make_now(ks);
	if (r != 0)
		return r;
	rebuild_lend(ks);
	/* Release: workers find all of the above when they see the store in service, and room for their first fills. */
	atomic_store_explicit(&ks->st->state, rebuild != NULL ? STORE_REBUILDING : STORE_OPEN,
			      memory_order_release);
	if (rebuild != NULL) {
		rebuild_start(rebuild);
	} else {
		rebuild_trust(ks);
		evict_orphans(ks);
	}
	return 0;
}
