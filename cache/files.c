/*
 * Open files: see files.h. One hash table finds them, two lists order them (idle ones by when they were put
 * back), a third holds the dead that somebody still reads, longest dead first.
 */
#include "cache/files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cache/format.h"

enum {
	SWEEP_FILES = 1000,
	SETTLE_TICKS = 10, /* an unlink comes at most so long after what caused it */
	LIMIT_MAX = 1 << 18,
	DEAD_PART = 8, /* of a store may be dead but open */
	OPEN_FLAGS = O_RDWR | O_CLOEXEC | O_NOFOLLOW,
};

static unsigned default_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 4 > LIMIT_MAX)
		return LIMIT_MAX;
	return (unsigned)(limit.rlim_cur / 4);
}

void files_init(struct files *fs, struct cache_shared *shared, int slot, unsigned limit)
{
	*fs = (struct files){ .shared = shared, .slot = slot };
	fs->limit = limit != 0 ? limit : default_limit();
	list_init(&fs->idle);
	list_init(&fs->held);
	list_init(&fs->dead);
	for (unsigned i = 0; i < FILES_BUCKETS; i++)
		list_init(&fs->buckets[i]);
}

void files_add_store(struct files *fs, int dir_fd)
{
	CHECK(fs->store_count < SHARED_STORES);
	fs->dir_fds[fs->store_count++] = dir_fd;
}

/* --- finding ------------------------------------------------------------------------------------ */

static struct list *bucket_of(struct files *fs, const struct file_name *name)
{
	uint64_t h = (name->id * 31 + name->chunk) * 31 + name->store * 2u + name->kind;

	h *= 0x9e3779b97f4a7c15;
	return &fs->buckets[(h >> 32) % FILES_BUCKETS];
}

static bool is_named(const struct file *f, const struct file_name *name)
{
	return f->name.id == name->id && f->name.chunk == name->chunk &&
	       f->name.store == name->store && f->name.kind == name->kind;
}

static struct file *find(struct files *fs, const struct file_name *name)
{
	struct list *bucket = bucket_of(fs, name);

	LIST_EACH (bucket, link, following) {
		struct file *f = LIST_ENTRY(link, struct file, bucket);

		if (is_named(f, name))
			return f;
	}
	return NULL;
}

static void hold(struct files *fs, struct file *f)
{
	if (f->refs++ != 0)
		return;
	list_remove(&f->place);
	list_append(&fs->held, &f->place);
}

/* --- opening ------------------------------------------------------------------------------------ */

static void path_of(const struct file_name *name, char out[FORMAT_PATH_MAX])
{
	if (name->kind == FILE_SEGMENT)
		format_segment_path((uint32_t)name->id, out);
	else
		format_chunk_path(name->id, name->chunk, out);
}

/* Opens if all that it takes is in memory; -EAGAIN: it isn't, or this kernel can't tell (before 5.12, gVisor). */
static int open_cached(struct files *fs, const struct file_name *name)
{
	struct open_how how = { .flags = OPEN_FLAGS, .resolve = RESOLVE_CACHED | RESOLVE_BENEATH };
	char path[FORMAT_PATH_MAX];
	long fd;

	if (fs->no_cached_open)
		return -EAGAIN;
	path_of(name, path);
	fd = syscall(SYS_openat2, fs->dir_fds[name->store], path, &how, sizeof(how));
	if (fd >= 0)
		return (int)fd;
	if (errno != ENOSYS && errno != EINVAL && errno != EPERM)
		return -errno;
	fs->no_cached_open = true;
	return -EAGAIN;
}

int files_get(struct files *fs, const struct file_name *name, struct file **out)
{
	struct file *f = find(fs, name);
	int fd;

	if (f != NULL) {
		hold(fs, f);
		*out = f;
		return 0;
	}
	fd = open_cached(fs, name);
	if (fd < 0)
		return fd;
	return files_adopt(fs, name, fd, out);
}

int files_open(int dir_fd, const struct file_name *name)
{
	char path[FORMAT_PATH_MAX];
	int fd;

	path_of(name, path);
	fd = openat(dir_fd, path, OPEN_FLAGS);
	if (fd < 0)
		return -errno;
	return fd;
}

int files_create(int dir_fd, const struct file_name *name)
{
	char path[FORMAT_PATH_MAX];
	int fd;

	path_of(name, path);
	fd = openat(dir_fd, path, OPEN_FLAGS | O_CREAT | O_EXCL, 0640);
	if (fd < 0)
		return -errno;
	return fd;
}

static void close_file(struct files *fs, struct file *f);

/* False: everything that is open is held. */
static bool make_room(struct files *fs)
{
	if (fs->count < fs->limit)
		return true;
	if (list_empty(&fs->idle))
		return false;
	close_file(fs, LIST_ENTRY(fs->idle.prev, struct file, place));
	return true;
}

int files_adopt(struct files *fs, const struct file_name *name, int fd, struct file **out)
{
	struct file *f = find(fs, name);

	if (f != NULL) { /* opened by two threads at once */
		close(fd);
		hold(fs, f);
		*out = f;
		return 0;
	}
	f = make_room(fs) ? calloc(1, sizeof(*f)) : NULL;
	if (f == NULL) {
		close(fd);
		return fs->count >= fs->limit ? -EMFILE : -ENOMEM;
	}
	f->magic = FILE_MAGIC;
	f->refs = 1;
	f->files = fs;
	f->fd = fd;
	f->name = *name;
	list_init(&f->dead);
	list_init(&f->readers);
	list_append(bucket_of(fs, name), &f->bucket);
	list_append(&fs->held, &f->place);
	fs->count++;
	*out = f;
	return 0;
}

struct file *file_ref(struct file *f)
{
	CHECK_MAGIC(f, FILE_MAGIC);
	CHECK(f->refs > 0);
	f->refs++;
	return f;
}

void files_put(struct files *fs, struct file **held)
{
	struct file *f = *held;

	if (f == NULL)
		return;
	CHECK_MAGIC(f, FILE_MAGIC);
	CHECK(f->refs > 0);
	*held = NULL;
	if (--f->refs != 0)
		return;
	if (list_linked(&f->dead)) {
		close_file(fs, f);
		return;
	}
	list_remove(&f->place);
	list_prepend(&fs->idle, &f->place);
}

/* --- the dead -------------------------------------------------------------------------------------- */

static void publish_dead(struct files *fs, unsigned store)
{
	if (fs->slot >= 0)
		atomic_store_explicit(&fs->shared->stores[store].dead_open_bytes[fs->slot],
				      fs->dead_bytes[store], memory_order_relaxed);
}

static void close_file(struct files *fs, struct file *f)
{
	CHECK(f->refs == 0 && list_empty(&f->readers));
	if (list_linked(&f->dead)) {
		fs->dead_bytes[f->name.store] -= f->dead_bytes;
		publish_dead(fs, f->name.store);
	}
	list_remove(&f->dead);
	list_remove(&f->place);
	list_remove(&f->bucket);
	close(f->fd);
	fs->count--;
	f->magic = 0;
	free(f);
}

void files_fini(struct files *fs)
{
	CHECK(list_empty(&fs->held));
	while (!list_empty(&fs->idle))
		close_file(fs, LIST_ENTRY(fs->idle.next, struct file, place));
}

/* Unlinked: close it if nobody reads it, else count it. */
static void look_at(struct files *fs, struct file *f)
{
	struct stat st;

	if (list_linked(&f->dead) || fstat(f->fd, &st) < 0 || st.st_nlink != 0)
		return;
	if (f->refs == 0) {
		close_file(fs, f);
		return;
	}
	f->dead_bytes = (uint64_t)st.st_blocks * 512;
	fs->dead_bytes[f->name.store] += f->dead_bytes;
	list_append(&fs->dead, &f->dead);
	publish_dead(fs, f->name.store);
}

static uint64_t dead_of_all(const struct shared_store *st)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < SHARED_WORKERS; i++)
		total += atomic_load_explicit(&st->dead_open_bytes[i], memory_order_relaxed);
	return total;
}

/* What a cut file still holds goes when its readers have looked; it isn't counted any more, so that one
 * excess doesn't cut twice. */
static void cut_off(struct files *fs, struct file *f)
{
	f->cut = true;
	fs->dead_bytes[f->name.store] -= f->dead_bytes;
	f->dead_bytes = 0;
	publish_dead(fs, f->name.store);
	LIST_EACH (&f->readers, link, following) {
		struct cache_reader *r = LIST_ENTRY(link, struct cache_reader, link);

		atomic_fetch_add_explicit(&fs->shared->stores[f->name.store].readers_cut, 1,
					  memory_order_relaxed);
		if (r->wake != NULL)
			ready_post(r->wake);
	}
}

static void cut_longest_dead(struct files *fs)
{
	LIST_EACH (&fs->dead, link, following) {
		struct file *f = LIST_ENTRY(link, struct file, dead);
		struct shared_store *st = &fs->shared->stores[f->name.store];

		if (!f->cut && dead_of_all(st) > st->size_bytes / DEAD_PART)
			cut_off(fs, f);
	}
}

/* Moves when something was replaced, refused or evicted; a commit that only adds an object leaves it where it is. */
static uint64_t turnover(const struct files *fs)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < fs->store_count; i++) {
		const struct shared_store *st = &fs->shared->stores[i];

		total += atomic_load_explicit(&st->commits, memory_order_relaxed) -
			 atomic_load_explicit(&st->objects, memory_order_relaxed) +
			 atomic_load_explicit(&st->commits_refused, memory_order_relaxed) +
			 atomic_load_explicit(&st->evicted_segments, memory_order_relaxed);
	}
	return total;
}

void files_expect_unlinks(struct files *fs)
{
	fs->settle_ticks = SETTLE_TICKS;
}

/* False: nothing was unlinked since all files were looked at. */
static bool worth_looking(struct files *fs)
{
	uint64_t now = turnover(fs);

	if (now != fs->turnover)
		files_expect_unlinks(fs);
	fs->turnover = now;
	if (fs->settle_ticks > 0) {
		fs->settle_ticks--;
		fs->buckets_left = FILES_BUCKETS; /* the round that counts begins when all is quiet */
		return true;
	}
	return fs->buckets_left > 0;
}

void files_sweep(struct files *fs)
{
	unsigned seen = 0;

	if (!worth_looking(fs)) {
		cut_longest_dead(fs);
		return;
	}
	for (unsigned i = 0; i < FILES_BUCKETS && seen < SWEEP_FILES; i++) {
		struct list *bucket = &fs->buckets[fs->cursor];

		fs->cursor = (fs->cursor + 1) % FILES_BUCKETS;
		if (fs->buckets_left > 0)
			fs->buckets_left--;
		LIST_EACH (bucket, link, following) {
			look_at(fs, LIST_ENTRY(link, struct file, bucket));
			seen++;
		}
	}
	cut_longest_dead(fs);
}
