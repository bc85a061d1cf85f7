/* Which request fields go on to the origin. */
#include "tests/unit/conf/testing.h"

static void holds_back_what_makes_another_request_of_it(void **state)
{
	static const char *const held[] = {
		"X-Original-URL",     "x-rewrite-url", "X-HTTP-Method-Override",
		"X-Forwarded-Prefix", "X-Host",	       "x-forwarded-scheme",
		"Front-End-Https"
	};
	static const char *const passed[] = { "Accept",
					      "X-Forwarded-For",
					      "X-Forwarded-Host",
					      "X-Forwarded-Proto",
					      "X-Requested-With",
					      "Forwarded",
					      "X",
					      "X-Forwarded-" };
	const struct conf_cache cache = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(held); i++)
		assert_false(conf_passes(&cache, view_str(held[i])));
	for (size_t i = 0; i < ARRAY_LEN(passed); i++)
		assert_true(conf_passes(&cache, view_str(passed[i])));
	assert_true(conf_passes(&cache, VIEW("")));
}

static void lets_through_what_is_listed_or_keyed(void **state)
{
	struct view listed[] = { VIEW("x-original-url") }, keyed[] = { VIEW("X-Forwarded-Prefix") };
	const struct conf_cache cache = { .pass_headers = { listed, 1 }, .key_headers = { keyed, 1 } };

	(void)state;
	assert_true(conf_passes(&cache, VIEW("X-Original-URL")));
	assert_true(conf_passes(&cache, VIEW("x-forwarded-prefix")));
	assert_false(conf_passes(&cache, VIEW("X-Rewrite-URL")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holds_back_what_makes_another_request_of_it),
		cmocka_unit_test(lets_through_what_is_listed_or_keyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
