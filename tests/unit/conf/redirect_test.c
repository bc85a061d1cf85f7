/* Where a redirect leads. What is not a location is in check_test.c. */
#include "tests/unit/conf/testing.h"

static const struct {
	const char *location, *path, *query, *leads;
} cases[] = {
	{ "/new", "/a", "?b", "/new" },
	{ "https://${host}${path}${query}", "/a", "?b", "https://www.test/a?b" },
	{ "https://${host}${path}${query}", "//x/", "", "https://www.test//x/" },
	{ "http://a.test:81/x${path}", "/a", "?b", "http://a.test:81/x/a" },
	{ "https://[::1]/", "/a", "?b", "https://[::1]/" },
	{ "/p?from=${path}#$x", "/a", "", "/p?from=/a#$x" },
	{ "/${query}", "/a", "?b", "/?b" },
	{ "${path}", "/a", "?b", "/a" },
	{ "${path}", "/", "?b", "/" },
	/* another host's for a browser, if it stood there as it came */
	{ "${path}", "//other.test/", "", "/.//other.test/" },
	{ "${path}${query}", "/\\other.test", "?b", "/./\\other.test?b" },
	{ "/x${path}", "//other.test/", "", "/x//other.test/" },
};

static void fills_the_template(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 1 << 20);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct conf_respond redirect = { .location = view_str(cases[i].location) };
		const struct conf_request r = { .path = view_str(cases[i].path),
						.query = view_str(cases[i].query),
						.host = VIEW("www.test") };
		char text[512];

		snprintf(text, sizeof(text), WITH_RULE("'redirect': '%s'"), cases[i].location);
		conf_unref(build(text));
		assert_view(conf_redirect_location(&redirect, &r, &a), cases[i].leads);
	}
	arena_fini(&a);
}

static void tells_when_memory_is_short(void **state)
{
	const struct conf_respond redirect = { .location = VIEW("${path}") };
	const struct conf_request r = { .path = VIEW("/a") };
	struct arena a;

	(void)state;
	arena_init(&a, 0);
	assert_null(conf_redirect_location(&redirect, &r, &a).p);
	arena_fini(&a);
}

static void reads_both_ways_of_writing_it(void **state)
{
	struct conf *c = build(WITH_SITE(
		"'rules': [{'redirect': '/a'}, {'redirect': {'location': '/b', 'status': 308}}]"));

	(void)state;
	assert_view(c->sites[0].rules[0].respond->location, "/a");
	assert_int_equal(c->sites[0].rules[0].respond->status, 302);
	assert_view(c->sites[0].rules[1].respond->location, "/b");
	assert_int_equal(c->sites[0].rules[1].respond->status, 308);
	conf_unref(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fills_the_template),
		cmocka_unit_test(tells_when_memory_is_short),
		cmocka_unit_test(reads_both_ways_of_writing_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
