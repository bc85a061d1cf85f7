/* Which keys a URL can have. */
#include "edge/scopes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct view glob[] = { { "/a/*", 4 } }, cookie[] = { { "session", 7 } };
static struct conf_rule rules[2];
static struct conf_site site = { .name = { "s", 1 }, .cache = { .key_host = true }, .rules = rules };

static struct target target(const char *path, const char *path_only)
{
	return (struct target){ .site = &site,
				.scheme = VIEW("http"),
				.host = VIEW("a.test"),
				.authority = VIEW("a.test"),
				.path = view_str(path),
				.path_only = view_str(path_only) };
}

static unsigned scopes(const char *path, const char *path_only,
		       struct cache_scope out[SCOPES_OF_URL_MAX])
{
	struct target t = target(path, path_only);

	return scopes_of_url(&t, out);
}

static uint64_t key_with(bool host, bool scheme, bool query_none)
{
	struct conf_cache c = { .key_host = host, .key_scheme = scheme, .key_query_none = query_none };
	struct target t = target("/a/b?c", "/a/b");
	uint8_t primary[16];

	target_key(&t, &c, primary);
	return cache_scope_url(primary).hash;
}

static void without_rules_one(void **state)
{
	struct cache_scope out[SCOPES_OF_URL_MAX];

	(void)state;
	site.rule_count = 0;
	assert_int_equal(scopes("/a/b?c", "/a/b", out), 1);
	assert_int_equal(out[0].hash, key_with(true, false, false));
}

static void a_rule_for_the_path_replaces(void **state)
{
	struct cache_scope out[SCOPES_OF_URL_MAX];

	(void)state;
	rules[0] = (struct conf_rule){ .match.path = { glob, 1 },
				       .set = 1u << CONF_RULE_KEY_QUERY,
				       .cache.key_query_none = true };
	site.rule_count = 1;
	assert_int_equal(scopes("/a/b?c", "/a/b", out), 1);
	assert_int_equal(out[0].hash, key_with(true, false, true));
	assert_int_equal(scopes("/x?c", "/x", out), 1);
}

static void a_rule_for_a_cookie_adds(void **state)
{
	struct cache_scope out[SCOPES_OF_URL_MAX];

	(void)state;
	rules[0] = (struct conf_rule){ .match.cookie = { cookie, 1 },
				       .set = 1u << CONF_RULE_KEY_QUERY,
				       .cache.key_query_none = true };
	rules[1] = (struct conf_rule){ .match.path = { glob, 1 },
				       .set = 1u << CONF_RULE_KEY_HOST | 1u << CONF_RULE_KEY_SCHEME,
				       .cache.key_scheme = true };
	site.rule_count = 2;
	assert_int_equal(scopes("/a/b?c", "/a/b", out), 2);
	assert_int_equal(out[0].hash, key_with(false, true, false));
	assert_int_equal(out[1].hash, key_with(false, true, true));
}

static void rules_that_leave_the_key_alone_do_not_count(void **state)
{
	struct cache_scope out[SCOPES_OF_URL_MAX];

	(void)state;
	rules[0] = (struct conf_rule){ .set = 1u << CONF_RULE_TTL };
	site.rule_count = 1;
	assert_int_equal(scopes("/a/b?c", "/a/b", out), 1);
	assert_int_equal(out[0].hash, key_with(true, false, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_rules_one),
		cmocka_unit_test(a_rule_for_the_path_replaces),
		cmocka_unit_test(a_rule_for_a_cookie_adds),
		cmocka_unit_test(rules_that_leave_the_key_alone_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
