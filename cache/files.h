/*
 * Open files of the stores: a hash table and an LRU of at most a quarter of the descriptor limit.
 *
 * A file is counted: readers, objects and fills hold references; what nobody holds stays open in the
 * LRU until its place is needed or its name is gone. Files never change once written and names are never
 * used again, so an open descriptor is as good as the name; ENOENT is a miss.
 *
 * The keeper reclaims space by unlinking. A file that is gone but open keeps its bytes: those are «dead but open»,
 * published per worker. Once a second a bounded number of files is looked at: idle ones that are gone are closed; over an
 * eighth of the store in all workers together, the readers of the longest-dead file are cut off.
 *
 * Lifetime: files_get or files_adopt → references → files_put → idle (in the LRU) → closed.
 *
 * Opening may wait for the disk when the inode isn't in memory. files_get asks for the cached way only
 * (openat2 with RESOLVE_CACHED) and says -EAGAIN; the caller's thread then opens by files_open and the loop adopts it.
 */
#ifndef BRIM_CACHE_FILES_H
#define BRIM_CACHE_FILES_H

#include <stdint.h>

#include "cache/shared.h"
#include "edge/base/list.h"

enum file_kind { FILE_SEGMENT, FILE_CHUNK };

struct file_name {
	uint64_t id; /* segment or body id */
	uint32_t chunk;
	uint8_t store, kind;
};

enum { FILE_MAGIC = 0x454c4946 };

struct file {
	uint32_t magic, refs;
	struct files *files;
	int fd;
	struct file_name name;
	struct list bucket;  /* of the hash table */
	struct list place;   /* in files.idle (newest first) while refs is 0, else in files.held */
	struct list dead;    /* in files.dead, oldest first, once found to be unlinked while held */
	struct list readers; /* of struct cache_reader */
	uint64_t dead_bytes;
	bool cut; /* its readers get -ECANCELED */
};

enum { FILES_BUCKETS = 4096 };

struct files {
	struct cache_shared *shared;
	int slot; /* whose dead bytes are published; negative: nobody's */
	unsigned store_count;
	int dir_fds[SHARED_STORES];
	unsigned count, limit;
	struct list idle, held, dead;
	uint64_t dead_bytes[SHARED_STORES]; /* held and not cut */
	bool no_cached_open;		    /* openat2 can't do it here */
	unsigned cursor;		    /* the sweep's next bucket */
	unsigned settle_ticks, buckets_left;
	uint64_t turnover; /* of all stores when last looked */
	struct list buckets[FILES_BUCKETS];
};

/* limit 0: a quarter of RLIMIT_NOFILE. */
void files_init(struct files *fs, struct cache_shared *shared, int slot, unsigned limit);
void files_add_store(struct files *fs, int dir_fd);
void files_fini(struct files *fs);

/* A reference to the file if it is open or can be opened without waiting. 0; -ENOENT; -EAGAIN: open it in a thread;
 * -EMFILE: all of the limit is in use; other negative errno. */
int files_get(struct files *fs, const struct file_name *name, struct file **out) NODISCARD;
/* In any thread: a descriptor or a negative errno. */
int files_open(int dir_fd, const struct file_name *name) NODISCARD;
/* A new chunk file: descriptor or negative errno (-EEXIST). */
int files_create(int dir_fd, const struct file_name *name) NODISCARD;
/* Takes fd over in any case (closes it on failure, or when the file is open already). 0 with a reference, or -EMFILE, -ENOMEM. */
int files_adopt(struct files *fs, const struct file_name *name, int fd, struct file **out) NODISCARD;
struct file *file_ref(struct file *f);
void files_put(struct files *fs, struct file **f);

/* Something of this process's will be unlinked soon (a fill was aborted). */
void files_expect_unlinks(struct files *fs);
/* Once a second; looks at about a thousand files, then goes on where it was. Where nothing goes, nothing is looked at: after
 * an object was replaced or evicted anywhere all files are looked at, for ten seconds and then once more. */
void files_sweep(struct files *fs);

#endif
