/* Keys: what makes two URLs the same object and what doesn't. */
#include "tests/unit/cache/world.h"

static void primary(struct cache_url url, uint8_t out[16])
{
	cache_key_primary(&url, out);
}

static void test_parts_do_not_run_together(void **state)
{
	uint8_t a[16], b[16];

	(void)state;
	primary((struct cache_url){ .site = VIEW("s"), .host = VIEW("a.example"), .path = VIEW("/b") },
		a);
	primary((struct cache_url){ .site = VIEW("s"), .host = VIEW("a.example/b"), .path = VIEW("") },
		b);
	assert_memory_not_equal(a, b, 16);
	primary((struct cache_url){ .site = VIEW("sa"), .host = VIEW(".example"), .path = VIEW("/b") },
		b);
	assert_memory_not_equal(a, b, 16);
}

static void test_scheme_counts_only_where_it_is_keyed(void **state)
{
	struct cache_url url = { .site = VIEW("s"), .host = VIEW("h"), .path = VIEW("/") };
	uint8_t plain[16], tls[16], without[16], again[16];

	(void)state;
	primary(url, without);
	primary(url, again);
	url.scheme = VIEW("http");
	primary(url, plain);
	url.scheme = VIEW("https");
	primary(url, tls);
	assert_memory_equal(without, again, 16);
	assert_memory_not_equal(plain, tls, 16);
	assert_memory_not_equal(plain, without, 16);
}

static void test_secondary_is_never_zero_and_tells_values_apart(void **state)
{
	struct view one[] = { VIEW("gzip"), VIEW("") }, two[] = { VIEW(""), VIEW("gzip") };
	uint64_t none = cache_key_secondary(0, NULL, 0);

	(void)state;
	assert_int_not_equal(none, 0);
	assert_int_not_equal(cache_key_secondary(0, one, 2), cache_key_secondary(0, two, 2));
	assert_int_not_equal(cache_key_secondary(0, one, 2), cache_key_secondary(7, one, 2));
	assert_int_equal(cache_key_secondary(7, one, 2), cache_key_secondary(7, one, 2));
}

static void test_every_one_of_many_values_counts(void **state)
{
	struct view values[40];
	uint64_t all;

	(void)state;
	for (unsigned i = 0; i < 40; i++)
		values[i] = VIEW("same");
	all = cache_key_secondary(0, values, 40);
	for (unsigned i = 0; i < 40; i++) {
		values[i] = VIEW("other");
		assert_int_not_equal(cache_key_secondary(0, values, 40), all);
		values[i] = VIEW("same");
	}
	assert_int_not_equal(cache_key_secondary(0, values, 39), all);
}

static void test_scopes(void **state)
{
	const uint8_t key[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };

	(void)state;
	assert_int_equal(cache_scope_url(key).kind, CACHE_SCOPE_URL);
	assert_int_equal(cache_scope_url(key).hash, 0x0807060504030201);
	assert_int_not_equal(cache_scope_host(1, VIEW("h")).hash, cache_scope_host(2, VIEW("h")).hash);
	assert_int_equal(cache_scope_host(1, VIEW("h")).site_hash, 1);
	assert_int_equal(cache_scope_site(5).hash, 5);
	assert_int_equal(cache_scope_all().kind, CACHE_SCOPE_ALL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_do_not_run_together),
		cmocka_unit_test(test_scheme_counts_only_where_it_is_keyed),
		cmocka_unit_test(test_secondary_is_never_zero_and_tells_values_apart),
		cmocka_unit_test(test_every_one_of_many_values_counts),
		cmocka_unit_test(test_scopes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
