/* No-Vary-Search: the field, and which queries are equal under it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>

#include "edge/http/no_vary_search.h"

static struct http_field at[4];
static struct http_fields fields = { .at = at, .capacity = 4 };

static int parse(const char *value, struct http_no_vary_search *out)
{
	static char line[2000];

	snprintf(line, sizeof(line), "No-Vary-Search: %s\r\n", value);
	assert_int_equal(http_fields_parse(&fields, line, strlen(line)), 0);
	return http_no_vary_search(&fields, out);
}

/* §4.1.1: the draft's examples */
static void test_field(void **state)
{
	(void)state;
	static const char *const defaults[] = {
		"unknown-key",
		"key-order=\"not a boolean\"",
		"params=\"not a boolean or inner list\"",
		"params=(not-a-string)",
		"params=(\"a\"), except=(\"x\")",
		"params=(), except=()",
		"params=?0, except=(\"x\")",
		"params, except=(not-a-string)",
		"params, except=\"not an inner list\"",
		"params, except=?1",
		"except=(\"x\")",
		"except=()",
		"params=?0",
		"params=()",
		"key-order=?0",
		"",
		"key-order, params=1",
		"params, !",
		"key-order, except=()",
		"params=(\"%f6\")",
		"params=(\"%c3\")",
		"key-order=?1, key-order=1",
	};
	struct http_no_vary_search s = { .count = 7 };

	for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
		if (parse(defaults[i], &s) != -ENOENT || s.count != 7)
			fail_msg("%s", defaults[i]);
	}
	assert_int_equal(parse("params", &s), 0);
	assert_true(s.all_but && s.count == 0 && !s.any_order);
	assert_int_equal(parse("params=(\"a\";x \"b\"), ext=1;y", &s), 0);
	assert_true(!s.all_but && s.count == 2 && view_eq(s.names[1], VIEW("b")));
	assert_int_equal(parse("params=?1, key-order=?1, except=(\"x\")", &s), 0);
	assert_true(s.all_but && s.count == 1 && s.any_order);
	assert_int_equal(parse("except=(1), params, except=(\"x\")", &s), 0);
	fields.count = 0;
	fields.seen = 0;
	assert_int_equal(http_no_vary_search(&fields, &s), -ENOENT);
}

static void test_many_names(void **state)
{
	(void)state;
	char value[1000] = "params=(";
	size_t n = strlen(value);
	struct http_no_vary_search s;

	for (int i = 0; i < NO_VARY_NAMES_MAX; i++)
		n += (size_t)snprintf(value + n, sizeof(value) - n, "\"n%d\" ", i);
	snprintf(value + n, sizeof(value) - n, ")");
	assert_int_equal(parse(value, &s), 0);
	assert_int_equal(s.count, NO_VARY_NAMES_MAX);
	snprintf(value + n, sizeof(value) - n, "\"z\")");
	assert_int_equal(parse(value, &s), -ENOENT);
}

static void assert_normal(const char *value, const char *query, const char *expected)
{
	struct http_no_vary_search s;
	char out[300];

	assert_int_equal(parse(value, &s), 0);
	struct view got = view_of(out, http_no_vary_normalise(&s, view_str(query), out));
	if (!view_eq(got, view_str(expected)))
		fail_msg("%s, %s: %.*s", value, query, VIEW_ARG(got));
	/* Unless it stands for itself, it is its own normal form. */
	char again[900];
	assert_true(view_eq(got, view_of(again, http_no_vary_normalise(&s, got, again))));
}

/* §5 */
static void test_queries(void **state)
{
	(void)state;
	static const char *const cases[][3] = {
		/* §5.1 */
		{ "key-order", "", "" },
		{ "key-order", "a=x", "a=x" },
		{ "key-order", "%61=%78", "a=x" },
		{ "key-order", "a=\xc3\xa9", "a=%C3%A9" },
		{ "key-order", "a=%c3%a9", "a=%C3%A9" },
		{ "key-order", "a=x&&&&", "a=x" },
		{ "key-order", "a=", "a=" },
		{ "key-order", "a", "a=" },
		{ "key-order", "a=%20", "a=%20" },
		{ "key-order", "a=+", "a=%20" },
		{ "key-order", "a= &", "a=%20" },
		/* order: of names alone */
		{ "key-order", "b=1&a=2&b=0&a=1", "a=2&a=1&b=1&b=0" },
		{ "key-order", "%62=1&a=2", "a=2&b=1" },
		{ "key-order", "b&a&c&aa&", "a=&aa=&b=&c=" },
		{ "params=(\"x\")", "b=1&a=2", "b=1&a=2" },
		/* what matters */
		{ "params", "a=1&b=2", "" },
		{ "params=(\"a\" \"c\")", "a=1&b=2&%63=3&a&A=4", "b=2&A=4" },
		{ "params, except=(\"b\")", "a=1&b=2&c=3&b", "b=2&b=" },
		{ "params, except=()", "a=1", "" },
		{ "params=(\"\")", "=1&a=&=&b", "a=&b=" },
		/* names in their spellings */
		{ "params=(\"%C3%A9+%E6%B0%97\")",
		  "\xc3\xa9 \xe6\xb0\x97=1&\xc3\xa9+\xe6\xb0\x97=2&%C3%A9%20\xe6\xb0\x97=3&"
		  "%C3%A9+%E6%B0%97=4&x",
		  "x=" },
		{ "params=(\"a\\\"b\" \"c\\\\d\" \"100%\" \"%2b\")",
		  "a%22b&c%5Cd&c\\d&100%&%2B&+=1&e", "%20=1&e=" },
		/* nothing that the query's own syntax uses comes out undone */
		{ "key-order", "a%26b=c%3Dd%25&a=b=c&%2B", "%2B=&a=b%3Dc&a%26b=c%3Dd%25" },
		{ "key-order", "a=%&b=%4&c=%zz", "a=%25&b=%254&c=%25zz" },
		{ "key-order", "a=%00;?/", "a=%00%3B%3F%2F" },
		/* no UTF-8: itself */
		{ "key-order", "b=%f6&a", "b=%f6&a" },
		{ "key-order", "b&a=%c3", "b&a=%c3" },
		{ "params", "%ed%a0%80", "%ed%a0%80" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_normal(cases[i][0], cases[i][1], cases[i][2]);
}

static void test_many_pairs(void **state)
{
	(void)state;
	char query[2 * NO_VARY_PAIRS_MAX + 2], out[3 * sizeof(query) + 1];
	struct http_no_vary_search s;

	for (size_t i = 0; i < sizeof(query); i += 2) {
		query[i] = (char)('z' - i % 26);
		query[i + 1] = '&';
	}
	assert_int_equal(parse("key-order", &s), 0);
	struct view fits = view_of(query, 2 * NO_VARY_PAIRS_MAX), more = view_of(query, sizeof(query));
	size_t n = http_no_vary_normalise(&s, fits, out);
	assert_int_equal(n, 3 * NO_VARY_PAIRS_MAX - 1);
	assert_memory_equal(out, "b=&b=&", 6);
	assert_true(view_eq(view_of(out, http_no_vary_normalise(&s, more, out)), more));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_field),
		cmocka_unit_test(test_many_names),
		cmocka_unit_test(test_queries),
		cmocka_unit_test(test_many_pairs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
