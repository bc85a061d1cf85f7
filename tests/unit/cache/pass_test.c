/* The pass memory: remembers, forgets in time, never takes one key for another. */
#include "tests/unit/cache/world.h"

static void test_remembers_until_its_time(void **state)
{
	struct world w;
	struct cache_key key = world_key("/private"), other = world_key("/other");

	(void)state;
	world_open(&w);
	assert_false(cache_pass_known(w.cache, &key));
	cache_pass_remember(w.cache, &key, 60000);
	assert_true(cache_pass_known(w.cache, &key));
	assert_false(cache_pass_known(w.cache, &other));
	cache_pass_remember(w.cache, &key, -1000);
	assert_false(cache_pass_known(w.cache, &key));
	world_close(&w);
}

static void test_variants_are_apart(void **state)
{
	struct world w;
	struct cache_key key = world_key("/private"), variant = key;

	(void)state;
	world_open(&w);
	variant.secondary = 99;
	cache_pass_remember(w.cache, &variant, 60000);
	assert_false(cache_pass_known(w.cache, &key));
	assert_true(cache_pass_known(w.cache, &variant));
	world_close(&w);
}

static void test_bounded_and_lossy(void **state)
{
	struct world w;
	unsigned known = 0;
	char path[32];

	(void)state;
	world_open(&w);
	for (unsigned i = 0; i < 2 * SHARED_PASSES; i++) {
		struct cache_key key;

		snprintf(path, sizeof(path), "/p%u", i);
		key = world_key(path);
		cache_pass_remember(w.cache, &key, 60000);
		assert_true(cache_pass_known(w.cache, &key));
	}
	for (unsigned i = 0; i < 2 * SHARED_PASSES; i++) {
		struct cache_key key;

		snprintf(path, sizeof(path), "/p%u", i);
		key = world_key(path);
		known += cache_pass_known(w.cache, &key);
	}
	assert_true(known > SHARED_PASSES / 2 && known <= SHARED_PASSES);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_remembers_until_its_time),
		cmocka_unit_test(test_variants_are_apart),
		cmocka_unit_test(test_bounded_and_lossy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
