/* A store's directory: see store.h. */
#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/cache.h"
#include "edge/base/hash.h"

enum { STORE_DIR_MODE = 0750, STORE_FILE_MODE = 0640, STORE_CHUNK_DIRS = 256 };
#define STORE_NEW_PATH FORMAT_STORE_PATH ".new"

/* --- the master's part ---------------------------------------------------------------------------- */

/* mkdir -p: each folder on the way that isn't there. */
static int make_path(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		int r = mkdir(path, 0755);
		*slash = '/';
		if (r != 0 && errno != EEXIST)
			return -errno;
	}
	return mkdir(path, STORE_DIR_MODE) == 0 || errno == EEXIST ? 0 : -errno;
}

static int open_dir(struct view path, int *out_fd)
{
	char *text = strndup(path.p, path.n);
	int r;

	if (text == NULL)
		return -ENOMEM;
	r = path.n == 0 ? -ENOENT : make_path(text);
	if (r == 0) {
		*out_fd = open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = *out_fd < 0 ? -errno : 0;
	}
	free(text);
	return r;
}

static int lock_dir(int dir_fd, int *out_fd)
{
	int fd = openat(dir_fd, FORMAT_LOCK_PATH, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			STORE_FILE_MODE);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	*out_fd = fd;
	return 0;
}

/* The children run as uid: the directory is theirs, and so is all that they make in it. */
static int give_away(int dir_fd, int lock_fd, unsigned uid, unsigned gid)
{
	if (geteuid() != 0)
		return 0;
	if (fchown(dir_fd, uid, gid) != 0 || fchown(lock_fd, uid, gid) != 0)
		return -errno;
	return 0;
}

int cache_store_open(struct view path, unsigned uid, unsigned gid, int *out_dir_fd, int *out_lock_fd)
{
	int dir_fd = -1, lock_fd = -1;
	int r = open_dir(path, &dir_fd);

	if (r == 0)
		r = lock_dir(dir_fd, &lock_fd);
	if (r == 0)
		r = give_away(dir_fd, lock_fd, uid, gid);
	if (r != 0) {
		if (lock_fd >= 0)
			close(lock_fd);
		if (dir_fd >= 0)
			close(dir_fd);
		return r;
	}
	*out_dir_fd = dir_fd;
	*out_lock_fd = lock_fd;
	return 0;
}

/* --- superblock ------------------------------------------------------------------------------------- */

enum { STORE_CHECKED = offsetof(struct format_store, magic) };

static uint64_t checksum_of(const struct format_store *sb)
{
	return hash_xxh3((const char *)sb + STORE_CHECKED, sizeof(*sb) - STORE_CHECKED);
}

int store_load(int dir_fd, struct format_store *out)
{
	struct format_store sb;
	ssize_t n;
	int fd = openat(dir_fd, FORMAT_STORE_PATH, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	n = pread(fd, &sb, sizeof(sb), 0);
	close(fd);
	if (n < 0)
		return -EIO;
	if ((size_t)n < offsetof(struct format_store, id) || sb.magic != FORMAT_STORE_MAGIC)
		return -EBADMSG;
	if (sb.format != FORMAT_STORE)
		return -EPROTONOSUPPORT;
	if (n != sizeof(sb) || sb.checksum != checksum_of(&sb))
		return -EBADMSG;
	if (sb.segment_bytes < FORMAT_HEAD_MAX || sb.chunk_bytes == 0)
		return -EBADMSG;
	*out = sb;
	return 0;
}

static int write_synced(int fd, const void *p, size_t n)
{
	ssize_t written = pwrite(fd, p, n, 0);

	if (written < 0)
		return -errno;
	if ((size_t)written != n)
		return -ENOSPC;
	return fdatasync(fd) == 0 ? 0 : -errno;
}

int store_save(int dir_fd, struct format_store *sb)
{
	int fd = openat(dir_fd, STORE_NEW_PATH, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			STORE_FILE_MODE);
	int r;

	if (fd < 0)
		return -errno;
	sb->checksum = checksum_of(sb);
	r = write_synced(fd, sb, sizeof(*sb));
	close(fd);
	if (r != 0)
		return r;
	if (renameat(dir_fd, STORE_NEW_PATH, dir_fd, FORMAT_STORE_PATH) != 0)
		return -errno;
	return store_sync_dir(dir_fd, ".");
}

int store_make(uint64_t size_bytes, uint32_t segment_bytes, uint32_t chunk_bytes,
	       struct format_store *out)
{
	*out = (struct format_store){
		.magic = FORMAT_STORE_MAGIC,
		.format = FORMAT_STORE,
		.segment_bytes = segment_bytes,
		.chunk_bytes = chunk_bytes,
		.size_bytes = size_bytes,
	};
	if (getrandom(out->id, sizeof(out->id), 0) != sizeof(out->id))
		return -EIO;
	return 0;
}

static int make_dir(int dir_fd, const char *name)
{
	return mkdirat(dir_fd, name, STORE_DIR_MODE) == 0 || errno == EEXIST ? 0 : -errno;
}

int store_make_dirs(int dir_fd)
{
	char name[FORMAT_PATH_MAX];
	int r = make_dir(dir_fd, FORMAT_SEGMENTS_DIR);

	if (r == 0)
		r = make_dir(dir_fd, FORMAT_CHUNKS_DIR);
	for (unsigned i = 0; i < STORE_CHUNK_DIRS && r == 0; i++) {
		snprintf(name, sizeof(name), FORMAT_CHUNKS_DIR "/%02x", i);
		r = make_dir(dir_fd, name);
	}
	return r;
}

void store_boot_id(uint8_t out[40])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = 0;

	memset(out, 0, 40);
	if (fd < 0)
		return;
	n = read(fd, out, 36);
	close(fd);
	if (n != 36)
		memset(out, 0, 40);
}

int store_sync_dir(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = fsync(fd) == 0 ? 0 : -errno;
	close(fd);
	return r;
}
