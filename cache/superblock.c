/*
 * A store's superblock through its life: read at a start (whose store is it, how did it end), written before the
 * first object id of a new epoch is given out, changed while in use by the slow lane alone, and marked clean at an
 * orderly end.
 *
 * «Clean» says two things: that everything is synced, so that a reboot costs nothing; and that no fill was under
 * way, so that no chunk file lacks a record.
 */
#include "cache/keeper_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/store.h"
#include "edge/base/log.h"

enum { INDEX_OBJECT_BYTES = 225 /* of the index's file, measured */ };

/* Segments without a superblock aren't ours to throw away. */
static bool has_segments(int dir_fd)
{
	int fd = openat(dir_fd, FORMAT_SEGMENTS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool found = false, is_log;
	uint32_t id;

	if (dir == NULL) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	/* cppcheck-suppress readdirCalled ; nobody else has this DIR */
	while (!found && (entry = readdir(dir)) != NULL)
		found = format_segment_name(entry->d_name, &id, &is_log);
	closedir(dir);
	return found;
}

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
		what = "is missing, damaged or no superblock; remove the directory's contents "
		       "to begin an empty store";
	if (error == -EPROTONOSUPPORT)
		what = "has another format; use the version that made it, or remove the "
		       "directory's contents";
	log_error("store_unusable", "store=%s file=%s/%s error=\"%s\" what=\"%s\"", ks->st->name,
		  keeper_store_path(ks, path, sizeof(path)), FORMAT_STORE_PATH, strerror(-error), what);
}

int superblock_open(struct keeper_store *ks)
{
	uint64_t reserve;
	int r = store_load(ks->dir_fd, &ks->super);

	if (r == -ENOENT)
		r = has_segments(ks->dir_fd) ? -EBADMSG : new_store(ks);
	else if (r == 0)
		r = store_make_dirs(ks->dir_fd);
	if (r != 0) {
		tell_unusable(ks, r);
		return r;
	}
	/* Chunks stay what they were when the store was made: their files don't tell. New segments go with the store's size. */
	if (ks->super.size_bytes != ks->st->size_bytes)
		ks->super.segment_bytes = ks->st->segment_bytes;
	ks->st->segment_bytes = ks->super.segment_bytes;
	ks->st->chunk_bytes = ks->super.chunk_bytes;
	if (ks->st->small_bytes > ks->super.chunk_bytes)
		ks->st->small_bytes = ks->super.chunk_bytes;
	reserve = ks->st->size_bytes / 32;
	ks->capacity_bytes = ks->st->size_bytes - reserve;
	ks->objects_max = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2 /
			  INDEX_OBJECT_BYTES;
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

int superblock_begin(struct keeper_store *ks, uint64_t epoch)
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

int superblock_clean(struct keeper_store *ks)
{
	ks->super.flags |= FORMAT_STORE_CLEAN;
	return store_save(ks->dir_fd, &ks->super);
}

void superblock_suspect(struct keeper_store *ks)
{
	ks->super.flags |= FORMAT_STORE_SUSPECT;
	/* Where it fails, too, the disk is past helping: the log was told. */
	(void)!store_save(ks->dir_fd, &ks->super);
}

/* A change of the superblock while the store is in use: in the slow lane, which alone writes it then. */
struct note {
	struct job job;
	struct keeper_store *ks;
	enum superblock_note note;
};

static void run_note(struct job *j)
{
	struct note *n = CONTAINER_OF(j, struct note, job);
	struct format_store *sb = &n->ks->super;

	switch (n->note) {
	case SUPERBLOCK_SUSPECT:
		sb->flags |= FORMAT_STORE_SUSPECT;
		break;
	case SUPERBLOCK_CUT:
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

void superblock_note(struct keeper_store *ks, enum superblock_note note)
{
	struct note *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return;
	n->ks = ks;
	n->note = note;
	lane_submit(ks->slow_lane, &n->job, run_note, noted);
}

int superblock_scanned(struct keeper_store *ks)
{
	ks->super.scan_epoch = ks->super.epoch;
	ks->super.scan_segment = ks->first_segment;
	return store_save(ks->dir_fd, &ks->super);
}
