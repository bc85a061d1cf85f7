/* The real clock against the system's own answers; the settable one is tested end to end. */
#include "edge/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

static void wall_is_the_time_of_day(void **state)
{
	(void)state;
	int64_t before = (int64_t)time(NULL);
	struct wall now = clock_wall();
	int64_t after = (int64_t)time(NULL);

	/* time() may lag by a tick of the kernel's coarse clock. */
	assert_true(now.ms >= before * 1000);
	assert_true(now.ms <= (after + 1) * 1000 + 20);
}

static void mono_goes_on_and_both_units_agree(void **state)
{
	(void)state;
	struct timespec pause = { .tv_nsec = 3000000 };
	int64_t before_us = clock_mono_us();
	struct mono before = clock_mono();

	assert_int_equal(nanosleep(&pause, NULL), 0);
	struct mono after = clock_mono();
	int64_t after_us = clock_mono_us();

	assert_true(after.ms - before.ms >= 2);
	assert_true(after_us - before_us >= 3000);
	assert_true(before.ms >= before_us / 1000);
	assert_true(after.ms <= after_us / 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wall_is_the_time_of_day),
		cmocka_unit_test(mono_goes_on_and_both_units_agree),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
