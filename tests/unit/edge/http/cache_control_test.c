/* Targeted fields (RFC 9213), and the field names that no-cache and private list. Cache-Control:
 * field_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <errno.h>

#include "edge/http/field.h"

static struct http_field at[10];
static struct http_fields fields = { .at = at, .capacity = 10 };

static void parse(const char *lines)
{
	assert_int_equal(http_fields_parse(&fields, lines, strlen(lines)), 0);
}

static int targeted(const char *value, struct http_cache_control *out)
{
	static char line[300]; /* views point into it */

	snprintf(line, sizeof(line), "Cache-Control: no-store\r\nCDN-Cache-Control: %s\r\n", value);
	parse(line);
	return http_targeted_cache_control(&fields, VIEW("CDN-Cache-Control"), out);
}

static void test_targeted(void **state)
{
	(void)state;
	static const struct {
		const char *value;
		uint32_t flags;
		int64_t max_age_ms;
	} cases[] = {
		{ "max-age=60", 0, 60000 },
		{ "max-age=0", 0, 0 },
		{ "max-age=60;ext=1;max-age=5", 0, 60000 },
		{ "max-age=99999999999", 0, INT64_C(2147483648000) },
		{ "max-age=5, max-age=60", 0, 60000 },
		{ "max-age=\"x\", max-age=60", 0, 60000 },
		{ "none", 0, -1 },
		{ "foobar, max-age=3600", 0, 3600000 },
		{ "other=\"no-store, max-age=1\"", 0, -1 },
		{ "no-store", CC_NO_STORE, -1 },
		{ "no-store;x", CC_NO_STORE, -1 },
		{ "no-store=?0, max-age=1", 0, 1000 },
		{ "no-store, no-store=?0", 0, -1 },
		{ "no-store=1", CC_NO_STORE, -1 },
		{ "no-store=\"a\"", CC_NO_STORE, -1 },
		{ "no-store=(a)", CC_NO_STORE, -1 },
		{ "no-cache, max-age=60", CC_NO_CACHE, 60000 },
		{ "no-cache=\"a, b\"", CC_NO_CACHE_FIELDS, -1 },
		{ "no-cache=\"a\", no-cache", CC_NO_CACHE, -1 },
		{ "no-cache=a", CC_NO_CACHE, -1 },
		{ "private=\"\"", CC_PRIVATE, -1 },
		{ "private=\"a b\"", CC_PRIVATE, -1 },
		{ "private=\"Set-Cookie\"", CC_PRIVATE_FIELDS, -1 },
		{ "public, immutable=?1, must-understand=?0", CC_PUBLIC | CC_IMMUTABLE, -1 },
		{ "public=1, immutable=a", 0, -1 },
		{ "must-revalidate, proxy-revalidate, no-transform",
		  CC_MUST_REVALIDATE | CC_PROXY_REVALIDATE | CC_NO_TRANSFORM, -1 },
		/* What is broken does not take back what forbids. */
		{ "no-store, max-age=\"60\"", CC_NO_STORE, 0 },
		{ "max-age=-1, private", CC_PRIVATE, 0 },
		/* Requests' directives mean nothing here. */
		{ "only-if-cached, max-stale, min-fresh=x", 0, -1 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct http_cache_control c;
		if (targeted(cases[i].value, &c) != 0 || c.flags != cases[i].flags ||
		    c.max_age_ms != cases[i].max_age_ms)
			fail_msg("%s: %#x, %lld", cases[i].value, c.flags, (long long)c.max_age_ms);
	}
}

static void test_targeted_ignored(void **state)
{
	(void)state;
	static const char *const cases[] = {
		"",
		"max-age=60, &&&&&",
		"MaX-aGe=60",
		"max-age =60",
		"max-age= 60",
		"max-age=60,",
		"max-age=\"60\"",
		"max-age=1.5",
		"max-age=-1",
		"max-age",
		"max-age=sixty",
		"max-age=(60)",
		"s-maxage=x, max-age=60",
		"max-age=60, stale-if-error=?1",
		"max-age=@60",
		"no-store, \"",
		"max-age=60; max-age =1",
		"must-revalidate, max-age=a",
	};
	struct http_cache_control c = { .flags = 7 };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (targeted(cases[i], &c) != -EINVAL || c.flags != 7)
			fail_msg("%s", cases[i]);
	}
	assert_int_equal(http_targeted_cache_control(&fields, VIEW("Edge-Cache-Control"), &c), -ENOENT);
	parse("Edge-Cache-Control: max-age=1, s-maxage=2\r\nedge-cache-control: "
	      "stale-while-revalidate=3, stale-if-error=4\r\n");
	assert_int_equal(http_targeted_cache_control(&fields, VIEW("Edge-Cache-Control"), &c), 0);
	assert_true(c.max_age_ms == 1000 && c.s_maxage_ms == 2000 &&
		    c.stale_while_revalidate_ms == 3000 && c.stale_if_error_ms == 4000);
	assert_true(c.max_stale_ms == -1 && c.min_fresh_ms == -1);
}

static void assert_names(struct http_names n, const char *joined)
{
	char got[200] = "";
	size_t length = 0;
	struct view name;

	while (http_names_next(&n, &name))
		length += (size_t)snprintf(got + length, sizeof(got) - length, "%.*s|", VIEW_ARG(name));
	assert_string_equal(got, joined);
	assert_false(http_names_next(&n, &name));
}

static void assert_listed(const char *lines, uint32_t flag, const char *joined)
{
	struct http_names n;

	parse(lines);
	http_cache_control_names(&fields, FIELD_CACHE_CONTROL, flag, &n);
	assert_names(n, joined);
}

static void test_names(void **state)
{
	(void)state;
	assert_listed("A: b\r\n", CC_NO_CACHE_FIELDS, "");
	assert_listed("Cache-Control: no-cache, private\r\n", CC_NO_CACHE_FIELDS, "");
	assert_listed("Cache-Control: no-cache=\"a, ,b\", max-age=1, No-Cache=c\r\n"
		      "Cache-Control: private=\"d\"\r\nCache-Control: no-cache=\"e\"\r\n",
		      CC_NO_CACHE_FIELDS, "a|b|c|e|");
	assert_listed("Cache-Control: private=\"d\", no-cache=\"x\"\r\n", CC_PRIVATE_FIELDS, "d|");
	assert_listed("Cache-Control: no-cache=\"a b\", no-cache = \"c\", ext=\"no-cache=d\"\r\n",
		      CC_NO_CACHE_FIELDS, "");
	assert_listed("CDN-Cache-Control: no-cache=\"a\"\r\n", CC_NO_CACHE_FIELDS, "");
}

static void assert_targeted(const char *value, uint32_t flag, const char *joined)
{
	struct http_cache_control c;
	struct http_names n;

	(void)!targeted(value, &c);
	http_targeted_names(&fields, VIEW("cdn-cache-control"), flag, &n);
	assert_names(n, joined);
}

static void test_targeted_names(void **state)
{
	(void)state;
	assert_targeted("no-cache=\"a, b\", private=\"c\"", CC_NO_CACHE_FIELDS, "a|b|");
	assert_targeted("no-cache=\"a, b\", private=\"c\"", CC_PRIVATE_FIELDS, "c|");
	assert_targeted("no-cache=\"a\", no-cache=\"b\"", CC_NO_CACHE_FIELDS, "b|");
	assert_targeted("no-cache=\"a\", no-cache", CC_NO_CACHE_FIELDS, "");
	assert_targeted("no-cache=\"a\", !", CC_NO_CACHE_FIELDS, "");
	assert_targeted("no-cache=a", CC_NO_CACHE_FIELDS, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targeted),
		cmocka_unit_test(test_targeted_ignored),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_targeted_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
