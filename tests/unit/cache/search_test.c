/* The hints of No-Vary-Search: found as they were put, lost in time, never taken for another's. */
#include "tests/unit/cache/world.h"

static const uint8_t path[16] = "a path's key is", other_path[16] = "another path is";

static void test_a_rule_and_what_is_under_it(void **state)
{
	struct world w;
	struct cache_search rule, again;
	struct cache_key key = world_key("/a?x=1");
	uint8_t primary[16];

	(void)state;
	world_open(&w);
	assert_false(cache_search_rule(w.cache, path, &rule));
	cache_search_learn(w.cache, path, VIEW("key-order"), &rule);
	assert_true(cache_search_rule(w.cache, path, &again));
	assert_true(view_eq(view_of(again.rule, again.bytes), VIEW("key-order")));
	assert_int_equal(again.stamp, rule.stamp);
	assert_false(cache_search_rule(w.cache, other_path, &again));

	assert_false(cache_search_find(w.cache, path, &rule, VIEW("x=1"), primary));
	cache_search_put(w.cache, path, &rule, VIEW("x=1"), key.primary);
	assert_true(cache_search_find(w.cache, path, &rule, VIEW("x=1"), primary));
	assert_memory_equal(primary, key.primary, 16);
	assert_false(cache_search_find(w.cache, path, &rule, VIEW("x=2"), primary));
	assert_false(cache_search_find(w.cache, path, &rule, VIEW(""), primary));
	assert_false(cache_search_find(w.cache, other_path, &rule, VIEW("x=1"), primary));
	world_close(&w);
}

/* What was put under a rule that was lost doesn't come back with it. */
static void test_the_stamp(void **state)
{
	struct world w;
	struct cache_search rule, same, later;
	struct cache_key key = world_key("/a?x=1");
	uint8_t primary[16];

	(void)state;
	world_open(&w);
	cache_search_learn(w.cache, path, VIEW("key-order"), &rule);
	cache_search_put(w.cache, path, &rule, VIEW("x=1"), key.primary);
	cache_search_learn(w.cache, path, VIEW("key-order"), &same);
	assert_int_equal(same.stamp, rule.stamp);
	cache_search_learn(w.cache, path, VIEW("params"), &later);
	cache_search_learn(w.cache, path, VIEW("key-order"), &later);
	assert_int_not_equal(later.stamp, rule.stamp);
	assert_false(cache_search_find(w.cache, path, &later, VIEW("x=1"), primary));
	world_close(&w);
}

static void test_the_longest_rule(void **state)
{
	struct world w;
	struct cache_search rule;
	char text[CACHE_SEARCH_MAX];

	(void)state;
	world_open(&w);
	memset(text, 'x', sizeof(text));
	cache_search_learn(w.cache, path, view_of(text, sizeof(text)), &rule);
	memset(&rule, 0, sizeof(rule));
	assert_true(cache_search_rule(w.cache, path, &rule));
	assert_int_equal(rule.bytes, sizeof(text));
	assert_memory_equal(rule.rule, text, sizeof(text));
	world_close(&w);
}

/* Who dies at it leaves half an entry: it isn't one. */
static void test_what_is_torn_is_nothing(void **state)
{
	struct world w;
	struct cache_search rule;
	struct cache_key key = world_key("/a?x=1");
	uint8_t primary[16];

	(void)state;
	world_open(&w);
	cache_search_learn(w.cache, path, VIEW("key-order"), &rule);
	cache_search_put(w.cache, path, &rule, VIEW("x=1"), key.primary);
	for (unsigned i = 0; i < SHARED_SEARCH_RULES; i++)
		atomic_fetch_xor(&w.shared->search_rules[i][4], 1);
	for (unsigned i = 0; i < SHARED_SEARCH_URLS; i++)
		atomic_fetch_xor(&w.shared->search_urls[i][3], 1);
	assert_false(cache_search_rule(w.cache, path, &rule));
	assert_false(cache_search_find(w.cache, path, &rule, VIEW("x=1"), primary));
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_rule_and_what_is_under_it),
		cmocka_unit_test(test_the_stamp),
		cmocka_unit_test(test_the_longest_rule),
		cmocka_unit_test(test_what_is_torn_is_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
