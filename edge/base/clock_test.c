/*
 * The clock of brim-test, linked in place of clock.c: wall time plus an offset that a test sets
 * while the node runs, so that an hour's lifetime passes in no time. Monotonic time stays real:
 * timeouts are not what such a test is about.
 *
 * BRIM_TEST_CLOCK names a file of 8 bytes (int64, milliseconds to add, in the machine's order),
 * which is mapped, so that a test moves all processes of a node at once by one aligned write.
 * It is opened before main, while the process still has the rights that it was started with;
 * forked children inherit the mapping. Without the variable this is the real clock.
 */
#include "edge/base/clock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const _Atomic int64_t *offset_ms;

__attribute__((constructor)) static void map_offset(void)
{
	const char *path = getenv("BRIM_TEST_CLOCK");

	if (path == NULL)
		return;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*offset_ms), PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		perror(path);
		exit(2);
	}
	close(fd);
	offset_ms = at;
}

static int64_t microseconds(clockid_t id)
{
	struct timespec t;

	(void)clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

struct wall clock_wall(void)
{
	int64_t added = offset_ms == NULL ? 0 : atomic_load_explicit(offset_ms, memory_order_relaxed);

	return (struct wall){ microseconds(CLOCK_REALTIME) / 1000 + added };
}

struct mono clock_mono(void)
{
	return (struct mono){ microseconds(CLOCK_MONOTONIC) / 1000 };
}

int64_t clock_mono_us(void)
{
	return microseconds(CLOCK_MONOTONIC);
}
