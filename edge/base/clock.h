/*
 * The one clock. Wall time (for HTTP's dates and ages) and monotonic time (for
 * deadlines) are different types, so that they cannot be mixed.
 *
 * clock.c is the real one. The test program is linked with clock_test.c in its
 * place, which adds an offset that tests set while the node runs (wall time only).
 */
#ifndef BRIM_BASE_CLOCK_H
#define BRIM_BASE_CLOCK_H

#include <stdint.h>

/* Milliseconds since 1970-01-01 UTC. */
struct wall {
	int64_t ms;
};

/* Milliseconds since some moment before the process began. */
struct mono {
	int64_t ms;
};

struct wall clock_wall(void);
struct mono clock_mono(void);
/* Microseconds on the monotonic clock, for measuring durations. */
int64_t clock_mono_us(void);

#endif
