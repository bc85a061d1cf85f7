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
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/store.h"
#include "edge/base/log.h"

/* --- faults under the index ----------------------------------------------------------------------------- */

static _Thread_local struct shared_store *blamed;
static struct sigaction before[NSIG];

static void on_fault(int signal_number)
{
	if (blamed != NULL) {
		atomic_store(&blamed->reason, REASON_INDEX);
		atomic_store(&blamed->state, STORE_FAILED);
	}
	/* The instruction is run again (abort() goes on) and meets who was there before. */
	sigaction(signal_number, &before[signal_number], NULL);
}

void recover_catch_faults(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGABRT };
	static bool caught;
	struct sigaction action = { .sa_handler = on_fault };

	for (size_t i = 0; i < ARRAY_LEN(signals) && !caught; i++)
		CHECK(sigaction(signals[i], &action, &before[signals[i]]) == 0);
	caught = true;
}

void recover_blame(struct keeper_store *ks)
{
	blamed = ks == NULL ? NULL : ks->st;
}

/* --- superblock --------------------------------------------------------------------------------------- */

static int new_store(struct keeper_store *ks)
{
	struct journal_set empty = { 0 };
	int r = store_make(ks->st->size_bytes, ks->st->segment_bytes, ks->st->chunk_bytes, &ks->super);

	if (r == 0)
		r = store_make_dirs(ks->dir_fd);
	if (r == 0)
		r = index_wipe(ks->dir_fd);
	if (r == 0)
		r = journal_rewrite(ks->dir_fd, ks->super.id, &empty);
	ks->super.scan_epoch = 1;
	ks->super.scan_segment = 1;
	ks->super.flags = FORMAT_STORE_CLEAN;
	return r;
}

static void tell_unusable(struct keeper_store *ks, int error)
{
	char path[256];
	const char *what = "can't be read";

	if (error == -EBADMSG)
		what = "isn't a store's superblock, or is damaged; remove the directory's contents "
		       "to begin an empty store";
	if (error == -EPROTONOSUPPORT)
		what = "has another format; use the version that made it, or remove the "
		       "directory's contents";
	log_error("store_unusable", "store=%s file=%s/%s error=%s what=\"%s\"", ks->st->name,
		  keeper_store_path(ks, path, sizeof(path)), FORMAT_STORE_PATH, strerror(-error), what);
}

int recover_super(struct keeper_store *ks)
{
	uint64_t reserve;
	int r = store_load(ks->dir_fd, &ks->super);

	if (r == -ENOENT)
		r = new_store(ks);
	else if (r == 0)
		r = store_make_dirs(ks->dir_fd);
	if (r != 0) {
		tell_unusable(ks, r);
		return r;
	}
	/* Sizes of segments and chunks stay what they were when the store was made. */
	ks->st->segment_bytes = ks->super.segment_bytes;
	ks->st->chunk_bytes = ks->super.chunk_bytes;
	if (ks->st->small_bytes > ks->super.chunk_bytes)
		ks->st->small_bytes = ks->super.chunk_bytes;
	reserve = ks->st->size_bytes / 32;
	ks->capacity_bytes = ks->st->size_bytes - reserve;
	ks->open_count = (unsigned)(ks->st->size_bytes / ks->super.segment_bytes / 8);
	if (ks->open_count < 2)
		ks->open_count = 2;
	if (ks->open_count > SHARED_SEGMENTS_OPEN)
		ks->open_count = SHARED_SEGMENTS_OPEN;
	return 0;
}

/* Did it end in a way that leaves only synced records to trust? */
static bool was_cut(const struct format_store *sb, const uint8_t boot_id[40])
{
	if (sb->flags & FORMAT_STORE_SUSPECT)
		return true;
	return !(sb->flags & FORMAT_STORE_CLEAN) &&
	       (boot_id[0] == 0 || memcmp(sb->boot_id, boot_id, 40) != 0);
}

int recover_epoch(struct keeper_store *ks, uint64_t epoch)
{
	uint8_t boot_id[40];

	store_boot_id(boot_id);
	ks->trust_synced_only = was_cut(&ks->super, boot_id);
	if (epoch > ks->super.epoch) {
		/* Nothing was under way: nothing of earlier runs is to be looked for. */
		if (ks->super.flags & FORMAT_STORE_CLEAN)
			ks->super.scan_epoch = epoch;
		ks->super.epoch = epoch;
	}
	ks->super.size_bytes = ks->st->size_bytes;
	ks->was_clean = ks->super.flags & FORMAT_STORE_CLEAN;
	ks->super.flags &= ~(uint32_t)FORMAT_STORE_CLEAN;
	/* The old boot's name stays until the logs are cut: a death before that must find it again. */
	if (!ks->trust_synced_only)
		memcpy(ks->super.boot_id, boot_id, sizeof(boot_id));
	return store_save(ks->dir_fd, &ks->super);
}

int recover_clean(struct keeper_store *ks)
{
	ks->super.flags |= FORMAT_STORE_CLEAN;
	return store_save(ks->dir_fd, &ks->super);
}

/* A change of the superblock while the store is in use: in the slow lane, which alone writes it then. */
struct note {
	struct job job;
	struct keeper_store *ks;
	enum recover_note note;
};

static void run_note(struct job *j)
{
	struct note *n = CONTAINER_OF(j, struct note, job);
	struct format_store *sb = &n->ks->super;

	switch (n->note) {
	case RECOVER_SUSPECT:
		sb->flags |= FORMAT_STORE_SUSPECT;
		break;
	case RECOVER_CUT:
		sb->flags &= ~(uint32_t)FORMAT_STORE_SUSPECT;
		store_boot_id(sb->boot_id);
		break;
	}
	/* Where it fails the store is lost anyway (SUSPECT), or the start after this one does more than it needs to. */
	if (store_save(n->ks->dir_fd, sb) != 0)
		return;
}

static void noted(struct job *j)
{
	free(CONTAINER_OF(j, struct note, job));
}

void recover_note(struct keeper_store *ks, enum recover_note note)
{
	struct note *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return;
	n->ks = ks;
	n->note = note;
	lane_submit(ks->slow_lane, &n->job, run_note, noted);
}

int recover_scanned(struct keeper_store *ks)
{
	ks->super.scan_epoch = ks->super.epoch;
	ks->super.scan_segment = ks->first_segment;
	return store_save(ks->dir_fd, &ks->super);
}

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
	uint32_t state = segment_state(ks, seg->id);
	char path[FORMAT_PATH_MAX];
	uint64_t size;

	format_segment_path(seg->id, path);
	seg->charged_bytes = disk_bytes(ks->dir_fd, path, &size);
	if (state == SEGMENT_OPEN || state == SEGMENT_FULL) {
		seg->charged_bytes = ks->super.segment_bytes;
		seg->fd = openat(ks->dir_fd, path, O_RDWR | O_CLOEXEC);
		if (seg->fd < 0)
			return -errno;
	}
	format_log_path(seg->id, path);
	(void)disk_bytes(ks->dir_fd, path, &size);
	seg->log.bytes = seg->log_seen = seg->log_marked = size;
	/* The last run may have died before it synced. After a power cut what isn't marked is cut off instead. */
	if (!ks->was_clean && !ks->trust_synced_only && seg->id >= ks->super.scan_segment)
		seg->log_marked = 0;
	ks->log_bytes += size;
	ks->accounts[ACCOUNT_SEGMENTS] += seg->charged_bytes;
	return 0;
}

static void set_dead(struct keeper_store *ks, uint32_t id)
{
	atomic_store_explicit(&ks->st->segments[id % SHARED_SEGMENTS].state, SEGMENT_DEAD,
			      memory_order_release);
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
	if (all_lost || !d->seg || !d->log)
		set_dead(ks, d->id);
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

/* --- replay ---------------------------------------------------------------------------------------------- */

/* One log, read on from where it is applied: by replay and by rebuild. */
struct replay {
	struct keeper_store *ks;
	struct keeper_segment *seg;
	struct log_reader *reader;
	bool dead;
	struct chunk_list doomed;
};

static int replay_begin(struct replay *p, struct keeper_store *ks, struct keeper_segment *seg,
			uint64_t from)
{
	*p = (struct replay){ .ks = ks, .seg = seg };
	return log_reader_open(ks->dir_fd, ks->super.id, seg->id, from, &p->reader);
}

static void replay_record(struct replay *p, const struct format_log_view *v)
{
	switch (v->type) {
	case FORMAT_LOG_COMMIT:
	case FORMAT_LOG_REFRESH:
		(void)apply_object(p->ks, v->type, v->object, &v->texts, false, &p->doomed);
		return;
	case FORMAT_LOG_REMOVE:
		apply_removal(p->ks, v->removal, &p->doomed);
		return;
	case FORMAT_LOG_DEAD:
		p->dead = true;
		return;
	case FORMAT_LOG_SYNCED:
		return;
	}
}

/* For 2 ms, in one transaction. *out_more: false at the log's end. 0 or the index's error. */
static int replay_slice(struct replay *p, bool *out_more)
{
	int64_t begin = clock_mono_us();
	struct format_log_view v;
	bool more = true;
	int r;

	index_begin(p->ks->index);
	while (more && !p->dead && clock_mono_us() - begin < KEEPER_BATCH_US) {
		more = log_read(p->reader, &v) == 0;
		if (more)
			replay_record(p, &v);
	}
	index_set_applied(p->ks->index, p->seg->id, log_reader_offset(p->reader));
	r = index_commit(p->ks->index);
	*out_more = more && !p->dead;
	return r;
}

/* The log ends where its last whole record does: what is torn behind it is overwritten. */
static void replay_end(struct replay *p, bool at_end)
{
	uint64_t end = log_reader_offset(p->reader);

	if (at_end && !p->dead && end < p->seg->log.bytes) {
		p->ks->log_bytes -= p->seg->log.bytes - end;
		p->seg->log.bytes = p->seg->log_seen = end;
	}
	if (p->dead)
		set_dead(p->ks, p->seg->id);
	log_reader_close(&p->reader);
}

static int replay_log(struct keeper_store *ks, struct keeper_segment *seg, struct chunk_list *doomed)
{
	struct replay p;
	uint64_t applied;
	bool more = true;
	int r;

	index_begin(ks->index);
	applied = index_applied(ks->index, seg->id);
	r = index_commit(ks->index);
	if (r != 0 || applied == seg->log.bytes)
		return r;
	/* The log is shorter than what the index saw of it: they aren't of one piece. */
	if (applied > seg->log.bytes)
		return -EBADMSG;
	if (replay_begin(&p, ks, seg, applied) != 0) {
		set_dead(ks, seg->id);
		return 0;
	}
	p.doomed = *doomed;
	while (r == 0 && more)
		r = replay_slice(&p, &more);
	replay_end(&p, r == 0);
	*doomed = p.doomed;
	return r;
}

static int replay_all(struct keeper_store *ks)
{
	struct chunk_list doomed = { 0 };
	int r = 0;

	for (uint32_t id = ks->lowest_id; id < ks->next_id && r == 0; id++) {
		struct keeper_segment *seg = segment_find(ks, id);

		if (seg != NULL && segment_state(ks, id) != SEGMENT_DEAD)
			r = replay_log(ks, seg, &doomed);
	}
	if (r == 0) {
		ks->accounts[ACCOUNT_LEAVING] += doomed.bytes;
		evict_unlink(ks, &doomed);
	}
	chunk_list_fini(&doomed);
	return r;
}

/* --- rebuild ----------------------------------------------------------------------------------------------- */

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

bool recover_rebuilding(const struct keeper_store *ks)
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
		set_dead(ks, rb->id);
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
	if (ks->keeper->closing)
		return;
	(void)atomic_compare_exchange_strong_explicit(&ks->st->state, &rebuilding, STORE_OPEN,
						      memory_order_release, memory_order_relaxed);
	if (ks->trust_synced_only) {
		ks->trust_synced_only = false;
		recover_note(ks, RECOVER_CUT);
	}
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

static int start_rebuild(struct keeper_store *ks, struct rebuild **out)
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

/* --- the index -------------------------------------------------------------------------------------------------- */

static int fresh_index(struct keeper_store *ks, struct index **out)
{
	bool complete;
	int r = index_wipe(ks->dir_fd);

	return r == 0 ? index_open(ks->dir_fd, ks->super.id, out, &complete) : r;
}

/* To the loop's readers. */
static void lend(struct keeper_store *ks)
{
	ks->lent = ks->index;
	cache_lend_index(ks->keeper->cache, ks->number, ks->lent);
}

static void announce_index(struct keeper_store *ks)
{
	atomic_fetch_add_explicit(&ks->st->index_generation, 1, memory_order_release);
}

/* As it was left, with what came since. -EBADMSG: not to be used. */
static int kept_index(struct keeper_store *ks)
{
	bool complete;
	int r = index_open(ks->dir_fd, ks->super.id, &ks->index, &complete);

	if (r != 0)
		return r;
	/* Made just now, or never finished. */
	r = complete ? replay_all(ks) : -ENOENT;
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
	int r = fresh_index(ks, &ks->index);

	*out_rebuild = NULL;
	if (r != 0)
		return r;
	announce_index(ks);
	if (has_segments(ks))
		return start_rebuild(ks, out_rebuild);
	index_begin(ks->index);
	index_set_complete(ks->index);
	return index_commit(ks->index);
}

/* An earlier keeper of this node died of it, or a worker couldn't read it. */
static bool is_failed(const struct keeper_store *ks)
{
	return atomic_load_explicit(&ks->st->state, memory_order_acquire) == STORE_FAILED;
}

static int recover_the_index(struct keeper_store *ks, struct rebuild **out_rebuild)
{
	bool deadly = is_failed(ks);
	int r = -EBADMSG;

	*out_rebuild = NULL;
	if (!ks->trust_synced_only && !deadly)
		r = kept_index(ks);
	if (r == 0)
		return 0;
	if (has_segments(ks))
		log_info("index_rebuild", "store=%s reason=%s", ks->st->name,
			 ks->trust_synced_only ? "unclean_boot"
			 : deadly	       ? "keeper_died_of_it"
					       : strerror(-r));
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
	lend(ks);
	/* Release: workers find all of the above when they see the store in service, and room for their first fills. */
	atomic_store_explicit(&ks->st->state, rebuild != NULL ? STORE_REBUILDING : STORE_OPEN,
			      memory_order_release);
	if (rebuild != NULL)
		lane_submit(ks->commit_lane, &rebuild->job, run_rebuild, rebuilt_slice);
	else
		evict_orphans(ks);
	return 0;
}

/* --- a new index while in use -------------------------------------------------------------------------------------- */

static void run_renew(struct job *j)
{
	struct rebuild *rb = CONTAINER_OF(j, struct rebuild, job);
	struct index *fresh = NULL;

	rb->error = fresh_index(rb->ks, &fresh);
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
	lend(ks);
	index_close(&rb->retired);
	announce_index(ks);
	atomic_store_explicit(&ks->st->state, STORE_REBUILDING, memory_order_release);
	rebuilt_slice(j);
}

void recover_index(struct keeper_store *ks)
{
	struct rebuild *rb;

	if (ks->rebuild != NULL || start_rebuild(ks, &rb) != 0)
		return;
	lane_submit(ks->commit_lane, &rb->job, run_renew, renewed);
}
