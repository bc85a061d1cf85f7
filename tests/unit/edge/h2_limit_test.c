/* So many a minute, and no more. */
#include "edge/h2_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct mono at(int64_t ms)
{
	return (struct mono){ 1000 + ms };
}

static unsigned taken(struct h2_meter *m, int64_t ms)
{
	unsigned n = 0;

	while (h2_meter_count(m, at(ms)))
		n++;
	return n;
}

static void a_minute_has_its_share(void **state)
{
	const struct conf_h2_limits limits = { .resets_per_minute = 60, .controls_per_minute = 1 };
	struct h2_meters m;

	(void)state;
	h2_meters_init(&m, &limits, at(0));
	assert_int_equal(taken(&m.resets, 0), 60);
	assert_int_equal(taken(&m.resets, 999), 0);
	assert_int_equal(taken(&m.resets, 1000), 1);
	assert_int_equal(taken(&m.resets, 31000), 30);
	assert_int_equal(taken(&m.resets, 10000000), 60);
	assert_int_equal(taken(&m.controls, 0), 1);
	assert_int_equal(taken(&m.controls, 59999), 0);
	assert_int_equal(taken(&m.controls, 60000), 1);
}

static void every_limit_has_a_name(void **state)
{
	(void)state;
	for (unsigned i = 0; i < H2_LIMITS; i++)
		assert_non_null(h2_limit_name((enum h2_limit)i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_minute_has_its_share),
		cmocka_unit_test(every_limit_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
