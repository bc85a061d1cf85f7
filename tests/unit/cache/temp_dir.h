/* A store's directory for one test: made on a real file system, removed afterwards. */
#ifndef BRIM_TESTS_CACHE_TEMP_DIR_H
#define BRIM_TESTS_CACHE_TEMP_DIR_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cache/store.h"

struct temp_dir {
	char path[256];
	int fd;
};

static inline void temp_dir_make(struct temp_dir *d)
{
	const char *base = getenv("TMPDIR");

	snprintf(d->path, sizeof(d->path), "%s/brim-test-XXXXXX", base != NULL ? base : "/var/tmp");
	assert_non_null(mkdtemp(d->path));
	d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(d->fd >= 0);
}

static inline int temp_dir_unlink(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static inline void temp_dir_remove(struct temp_dir *d)
{
	close(d->fd);
	assert_int_equal(nftw(d->path, temp_dir_unlink, 16, FTW_DEPTH | FTW_PHYS), 0);
}

#endif
