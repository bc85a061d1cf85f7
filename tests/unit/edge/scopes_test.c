/* Which keys a URL can have, and that requests for it have no others. */
#include "edge/scopes.h"

#include "tests/unit/conf/testing.h"

static struct arena arena;

static struct target target(const struct conf *c, const char *path)
{
	struct target t;

	assert_int_equal(target_of(c, VIEW("http"), VIEW("shop.example"), view_str(path), &arena, &t),
			 0);
	return t;
}

/* The key of a GET for path, with these field lines. */
static uint64_t key_of(const struct conf *c, const char *path, const char *head)
{
	struct http_field at[8];
	struct http_fields fields = { .at = at, .capacity = 8 };
	struct target t = target(c, path);
	struct conf_request r = {
		.path = t.path_only, .query = t.query, .host = t.host, .method = METHOD_GET, .fields = &fields
	};
	struct conf_cache cache;
	struct conf_ruling ruling;
	uint8_t primary[16];

	assert_int_equal(http_fields_parse(&fields, head, strlen(head)), 0);
	conf_request_rules(t.site, &r, &cache, &ruling);
	target_key(&t, &cache, primary);
	return cache_scope_url(primary).hash;
}

static bool names(const struct cache_scope *scopes, unsigned count, uint64_t key)
{
	for (unsigned i = 0; i < count; i++) {
		if (scopes[i].hash == key)
			return true;
	}
	return false;
}

/* How many keys «path» can have by these rules; all that requests have are among them. */
static unsigned count(const char *rules, const char *path)
{
	static const char *const heads[] = { "", "Cookie: session=1\r\n", "X-A: 1\r\n",
					     "X-A: 1\r\nCookie: session=1\r\n" };
	struct cache_scope scopes[SCOPES_OF_URL_MAX];
	char text[2048];
	unsigned found;

	snprintf(text, sizeof(text), WITH_SITE("'rules': [%s]"), rules);
	struct conf *c = build(text);
	struct target t = target(c, path);

	found = scopes_of_url(&t, scopes);
	for (size_t i = 0; i < ARRAY_LEN(heads); i++)
		assert_true(names(scopes, found, key_of(c, path, heads[i])));
	assert_int_equal(scopes[found - 1].kind, CACHE_SCOPE_PATH);
	conf_unref(c);
	return found - 1;
}

static void without_rules_one(void **state)
{
	(void)state;
	assert_int_equal(count("", "/a/b?c"), 1);
}

static void a_rule_for_the_url_replaces(void **state)
{
	(void)state;
	assert_int_equal(
		count("{'match': {'path': '/a/*'}, 'cache': {'key': {'query': 'none'}}}", "/a/b?c"), 1);
	assert_int_equal(
		count("{'match': {'path': '/a/*'}, 'cache': {'key': {'query': 'none'}}}", "/x?c"), 1);
	assert_int_equal(count("{'match': {'query': 'c', 'host': 'shop.*'}, 'cache': {'key': "
			       "{'host': false}}}",
			       "/x?c"),
			 1);
}

static void a_rule_for_what_the_url_does_not_say_adds(void **state)
{
	(void)state;
	assert_int_equal(
		count("{'match': {'cookie': 'session'}, 'cache': {'key': {'query': 'none'}}},"
		      "{'match': {'path': '/a/*'}, 'cache': {'key': {'host': false, 'scheme': "
		      "true}}}",
		      "/a/b?c"),
		2);
	assert_int_equal(
		count("{'match': {'cookie': 'session'}, 'cache': {'key': {'query': {'only': "
		      "'a'}}}},"
		      "{'match': {'header': 'x-a'}, 'cache': {'key': {'query': {'only': 'c', "
		      "'sort': true}}}},"
		      "{'match': {'not': {'cookie': '*'}}, 'cache': {'key': {'scheme': true}}}",
		      "/a/b?c&a"),
		6);
}

static void rules_that_leave_the_key_alone_do_not_count(void **state)
{
	(void)state;
	assert_int_equal(count("{'match': {'cookie': 'session'}, 'cache': {'ttl': 1}}", "/a?b"), 1);
	assert_int_equal(
		count("{'match': {'cookie': 'session'}, 'cache': {'key': {'query': 'none'}}}",
		      "/a"),
		1);
}

static void filters_that_leave_the_same_are_one(void **state)
{
	(void)state;
	assert_int_equal(count("{'match': {'cookie': 'session'}, 'cache': {'key': {'query': "
			       "{'only': 'a'}}}},"
			       "{'match': {'header': 'x-a'}, 'cache': {'key': {'query': {'except': "
			       "'utm_*'}}}}",
			       "/x?a=1"),
			 1);
}

static void a_filter_is_in_the_key_and_not_in_the_url(void **state)
{
	struct conf *c = build(WITH_CACHE("'key': {'query': {'except': 'utm_*', 'sort': true}}"));
	struct target t = target(c, "/a?utm_x=1&b=%7e&a=2");

	(void)state;
	assert_view(t.path, "/a?utm_x=1&b=~&a=2");
	assert_view(t.query, "?utm_x=1&b=~&a=2");
	assert_int_equal(key_of(c, "/a?utm_x=1&b=%7e&a=2", ""), key_of(c, "/a?a=2&b=~", ""));
	assert_int_equal(key_of(c, "/a?utm_x=1", ""), key_of(c, "/a", ""));
	assert_int_not_equal(key_of(c, "/a?a=2", ""), key_of(c, "/a", ""));
	assert_int_not_equal(key_of(c, "/a?", ""), key_of(c, "/a", ""));
	conf_unref(c);
}

static uint32_t forms(const char *site)
{
	char text[1024];
	uint32_t found;

	snprintf(text, sizeof(text), WITH_SITE("%s"), site);
	struct conf *c = build(text);

	found = target(c, "/").site->key_forms;
	conf_unref(c);
	return found;
}

/* They differ where keys of a URL may, and only there, since a difference makes purges of URLs name more. */
static void forms_of_keys(void **state)
{
	static const char *const different[] = {
		"'rules': []",
		"'cache': {'key': {'scheme': true}}",
		"'cache': {'key': {'host': false}}",
		"'cache': {'key': {'query': 'none'}}",
		"'cache': {'key': {'query': {'only': 'a'}}}",
		"'cache': {'key': {'query': {'except': 'a'}}}",
		"'cache': {'key': {'query': {'except': ['a', 'b']}}}",
		"'cache': {'key': {'query': {'except': 'a', 'sort': true}}}",
		"'rules': [{'match': {'path': '/a'}, 'cache': {'key': {'host': false}}}]",
		"'rules': [{'match': {'path': '/b'}, 'cache': {'key': {'host': false}}}]",
		"'rules': [{'match': {'cookie': 'c'}, 'cache': {'key': {'host': false}}}]",
		"'rules': [{'match': {'not': {'path': '/b'}}, 'cache': {'key': {'host': false}}}]",
	};
	static const char *const same[] = {
		"'cache': {'default_ttl': 5, 'key': {'headers': 'X-A', 'cookies': 'c'}}",
		"'cache': {'key': {'host': true, 'scheme': false, 'query': 'all'}}",
		"'rules': [{'match': {'path': '/a'}, 'cache': {'ttl': 5}}]",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(different); i++) {
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(forms(different[i]), forms(different[j]));
	}
	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		assert_int_equal(forms(same[i]), forms(different[0]));
}

static bool prefix_names(const char *site, const char *prefix, struct cache_scope stored)
{
	struct cache_scope scopes[SCOPES_OF_HOST_MAX];
	char text[1024];
	bool found;

	snprintf(text, sizeof(text), WITH_SITE("%s"), site);
	struct conf *c = build(text);
	struct target t = target(c, prefix);

	found = names(scopes, scopes_of_prefix(&t, scopes), stored.hash);
	conf_unref(c);
	return found;
}

static struct cache_scope prefix_of(const char *site, const char *host, const char *path)
{
	char text[1024];

	snprintf(text, sizeof(text), WITH_SITE("%s"), site);
	struct conf *c = build(text);
	struct cache_scope scope = cache_scope_prefix(target(c, "/").site->name_hash,
						      view_str(host), view_str(path));

	conf_unref(c);
	return scope;
}

static void a_prefix_names_its_host_and_what_has_none(void **state)
{
	const char *plain = "'cache': {}",
		   *filtered = "'cache': {'key': {'query': {'except': 'utm'}}}";

	(void)state;
	assert_true(prefix_names(plain, "/a/./b?c", prefix_of(plain, "shop.example", "/a/b?c")));
	assert_true(prefix_names(plain, "/a/b?c", prefix_of(plain, "", "/a/b?c")));
	assert_false(prefix_names(plain, "/a/b?c", prefix_of(plain, "other.example", "/a/b?c")));
	assert_false(prefix_names(plain, "/a/b?c", prefix_of(plain, "shop.example", "/a/b")));
	assert_true(prefix_names(filtered, "/a/b?c", prefix_of(filtered, "shop.example", "/a/b")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_rules_one),
		cmocka_unit_test(a_rule_for_the_url_replaces),
		cmocka_unit_test(a_rule_for_what_the_url_does_not_say_adds),
		cmocka_unit_test(a_prefix_names_its_host_and_what_has_none),
		cmocka_unit_test(rules_that_leave_the_key_alone_do_not_count),
		cmocka_unit_test(filters_that_leave_the_same_are_one),
		cmocka_unit_test(forms_of_keys),
		cmocka_unit_test(a_filter_is_in_the_key_and_not_in_the_url),
	};
	int failed;

	arena_init(&arena, 1 << 20);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	arena_fini(&arena);
	return failed;
}
