/*
 * The real clock: two clock_gettime calls, both answered by the vDSO without entering the kernel.
 * CLOCK_MONOTONIC and not CLOCK_BOOTTIME: a deadline should not pass because a machine slept.
 */
#include "edge/base/clock.h"

#include <time.h>

static int64_t microseconds(clockid_t id)
{
	struct timespec t;

	(void)clock_gettime(id, &t); /* fails only for an unknown clock */
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

struct wall clock_wall(void)
{
	return (struct wall){ microseconds(CLOCK_REALTIME) / 1000 };
}

struct mono clock_mono(void)
{
	return (struct mono){ microseconds(CLOCK_MONOTONIC) / 1000 };
}

int64_t clock_mono_us(void)
{
	return microseconds(CLOCK_MONOTONIC);
}
