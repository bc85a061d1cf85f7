/* Field values: lists, numbers, Cache-Control, entity tags. */
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

static void test_pieces(void **state)
{
	(void)state;
	assert_true(http_token(VIEW("a-Z09!#$%&'*+.^_`|~")));
	assert_false(http_token(VIEW("")) || http_token(VIEW("a b")) || http_token(VIEW("a\xc3")));
	struct view v = http_trim(VIEW(" \t a b\t "));
	assert_true(view_eq(v, VIEW("a b")));
	assert_int_equal(http_trim(VIEW(" \t")).n, 0);
}

static void assert_list(const char *list, const char *joined)
{
	char got[200] = "";
	size_t n = 0;
	struct view rest = view_str(list), element;

	while (http_list_next(&rest, &element)) {
		assert_true(element.n > 0);
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%.*s|", VIEW_ARG(element));
	}
	assert_string_equal(got, joined);
}

static void test_lists(void **state)
{
	(void)state;
	assert_list("", "");
	assert_list(" , ,\t,", "");
	assert_list("a", "a|");
	assert_list(" a ,b,, c d\t,", "a|b|c d|");
	assert_list("a=\"b, c\", d", "a=\"b, c\"|d|");
	assert_list("a=\"b\\\", c\", d", "a=\"b\\\", c\"|d|");
	assert_list("a=\"b\\\\\", c", "a=\"b\\\\\"|c|");
	assert_list("a=\"b, no-store", "a=\"b|no-store|");
	assert_list("a=\"b\\\", \"c, d\"", "a=\"b\\\", \"c|d\"|");
	parse("TE: gzip;q=1, Trailers\r\nVary: a\r\nVary: b\r\n");
	assert_true(http_list_has(&fields, FIELD_VARY, VIEW("B")));
	assert_false(http_list_has(&fields, FIELD_VARY, VIEW("c")));
	assert_true(http_list_has(&fields, FIELD_TE, VIEW("trailers")));
}

/* A quote that is opened again and again and never closed must not be searched for each time. */
static void test_lists_are_linear(void **state)
{
	(void)state;
	static char list[4 << 20];
	struct view rest = view_of(list, sizeof(list)), element;
	size_t elements = 0;

	for (size_t i = 0; i < sizeof(list); i += 4)
		memcpy(list + i, "a\\\",", 4);
	list[1] = 'a';
	while (http_list_next(&rest, &element))
		elements++;
	assert_int_equal(elements, sizeof(list) / 4);
}

static void test_numbers(void **state)
{
	(void)state;
	uint64_t u = 7;
	int64_t s = 7;

	assert_int_equal(http_decimal(VIEW("18446744073709551615"), &u), 0);
	assert_true(u == UINT64_MAX);
	static const char *const bad[] = { "", " 1", "1 ", "+1", "-1", "0x1", "1.0", "a" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(http_decimal(view_str(bad[i]), &u), -EINVAL);
		assert_int_equal(http_delta_seconds(view_str(bad[i]), &s), -EINVAL);
	}
	assert_int_equal(http_decimal(VIEW("18446744073709551616"), &u), -EINVAL);
	assert_int_equal(s, 7);
	assert_int_equal(http_delta_seconds(VIEW("0060"), &s), 0);
	assert_int_equal(s, 60);
	assert_int_equal(http_delta_seconds(VIEW("2147483649"), &s), 0);
	assert_true(s == INT64_C(1) << 31);
	assert_int_equal(http_delta_seconds(VIEW("99999999999999999999999999999999"), &s), 0);
	assert_true(s == INT64_C(1) << 31);
	assert_int_equal(http_delta_seconds(VIEW("99999999999999999999999999999999x"), &s), -EINVAL);
}

static struct http_cache_control cache_control(const char *value)
{
	char line[300];
	struct http_cache_control c;

	snprintf(line, sizeof(line), "Cache-Control: %s\r\n", value);
	parse(line);
	http_cache_control(&fields, FIELD_CACHE_CONTROL, &c);
	return c;
}

static void test_cache_control_flags(void **state)
{
	(void)state;
	static const struct {
		const char *value;
		uint32_t flags;
	} cases[] = {
		{ "", 0 },
		{ "unknown, foo=bar, =, \"\", ;", 0 },
		{ "no-store", CC_NO_STORE },
		{ "NO-Store,,  Public", CC_NO_STORE | CC_PUBLIC },
		{ "no-store=x", CC_NO_STORE },
		{ "no-store =x", CC_NO_STORE },
		{ "no-cache", CC_NO_CACHE },
		{ "no-cache=\"a, b\"", CC_NO_CACHE_FIELDS },
		{ "no-cache=a", CC_NO_CACHE_FIELDS },
		{ "no-cache=\"\"", CC_NO_CACHE },
		{ "no-cache=", CC_NO_CACHE },
		{ "no-cache=\"a", CC_NO_CACHE },
		{ "no-cache=\"a b\"", CC_NO_CACHE },
		{ "no-cache=xa\"", CC_NO_CACHE },
		{ "no-cache = \"a\"", CC_NO_CACHE },
		{ "no-cache, no-cache=\"a\"", CC_NO_CACHE | CC_NO_CACHE_FIELDS },
		{ "private", CC_PRIVATE },
		{ "private=\"set-cookie\"", CC_PRIVATE_FIELDS },
		{ "public=x, immutable=1", 0 },
		{ "immutable, must-understand", CC_IMMUTABLE | CC_MUST_UNDERSTAND },
		{ "must-revalidate, proxy-revalidate, no-transform, only-if-cached",
		  CC_MUST_REVALIDATE | CC_PROXY_REVALIDATE | CC_NO_TRANSFORM | CC_ONLY_IF_CACHED },
		{ "ext=\"no-store, private\"", 0 },
		{ "ext=\"no-store, private", CC_PRIVATE },
		{ "max-stale", CC_MAX_STALE_ANY },
		{ "no-store; private", 0 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint32_t flags = cache_control(cases[i].value).flags;
		if (flags != cases[i].flags)
			fail_msg("%s: %#x, not %#x", cases[i].value, flags, cases[i].flags);
	}
}

static void test_cache_control_seconds(void **state)
{
	(void)state;
	static const struct {
		const char *value;
		int64_t max_age_ms;
	} cases[] = {
		{ "public", -1 },
		{ "max-age=3600", 3600000 },
		{ "MaX-aGe=3600", 3600000 },
		{ "max-age=\"3600\"", 3600000 },
		{ "max-age=003600", 3600000 },
		{ "max-age=0", 0 },
		{ "max-age='3600'", 0 },
		{ "max-age =3600", 0 },
		{ "max-age= 3600", 0 },
		{ "max-age=a3600", 0 },
		{ "max-age=3600a", 0 },
		{ "max-age=3600.0", 0 },
		{ "max-age=-3600", 0 },
		{ "max-age", 0 },
		{ "max-age=", 0 },
		{ "max-age=\"3600", 0 },
		{ "max-age=\"36\\00\"", 0 },
		{ "max-age:3600", -1 },
		{ "max-age=2147483648", INT64_C(2147483648000) },
		{ "max-age=99999999999", INT64_C(2147483648000) },
		{ "max-age=5, max-age=5", 5000 },
		{ "max-age=1800, max-age=1", 0 },
		{ "max-age=1, max-age=1800, max-age=1800", 0 },
		{ "max-age=1, max-age=x", 0 },
		{ "extension=\"max-age=3600\", max-age=1", 1000 },
		{ "max-age=\"1\", extension=\"max-age=3600\"", 1000 },
		{ "foobar, max-age=3600", 3600000 },
		{ "xmax-age=1, max-agex=2, x=max-age=3", -1 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t ms = cache_control(cases[i].value).max_age_ms;
		if (ms != cases[i].max_age_ms)
			fail_msg("%s: %lld", cases[i].value, (long long)ms);
	}
	struct http_cache_control c = cache_control(
		"s-maxage=1, stale-while-revalidate=2, stale-if-error=3, max-stale=4, min-fresh=5");
	assert_int_equal(c.flags, 0);
	assert_int_equal(c.max_age_ms, -1);
	assert_int_equal(c.s_maxage_ms, 1000);
	assert_int_equal(c.stale_while_revalidate_ms, 2000);
	assert_int_equal(c.stale_if_error_ms, 3000);
	assert_int_equal(c.max_stale_ms, 4000);
	assert_int_equal(c.min_fresh_ms, 5000);
}

static void test_cache_control_lines(void **state)
{
	(void)state;
	struct http_cache_control c;

	parse("Cache-Control: max-age=5\r\nX: y\r\ncache-control: public\r\nCDN-Cache-Control: "
	      "max-age=9\r\n");
	http_cache_control(&fields, FIELD_CACHE_CONTROL, &c);
	assert_int_equal(c.max_age_ms, 5000);
	assert_int_equal(c.flags, CC_PUBLIC);
	http_cache_control(&fields, FIELD_CDN_CACHE_CONTROL, &c);
	assert_int_equal(c.max_age_ms, 9000);
	parse("Cache-Control: max-age=5\r\nCache-Control: max-age=6\r\n");
	http_cache_control(&fields, FIELD_CACHE_CONTROL, &c);
	assert_int_equal(c.max_age_ms, 0);
	http_cache_control(&fields, FIELD_CDN_CACHE_CONTROL, &c);
	assert_int_equal(c.max_age_ms, -1);
}

static void test_etags(void **state)
{
	(void)state;
	struct http_etag tag;

	assert_int_equal(http_etag_parse(VIEW("\"a\\,\xc3\""), &tag), 0);
	assert_true(view_eq(tag.opaque, VIEW("\"a\\,\xc3\"")) && !tag.weak);
	assert_int_equal(http_etag_parse(VIEW("W/\"\""), &tag), 0);
	assert_true(view_eq(tag.opaque, VIEW("\"\"")) && tag.weak);
	static const char *const bad[] = { "",	      "a",	"\"",  "\"a",	      "a\"",
					   "w/\"a\"", "W/",	"W/a", "W\"a\"",      "\"a\"b",
					   "\"a b\"", " \"a\"", "*",   "\"a\", \"b\"" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(http_etag_parse(view_str(bad[i]), &tag), -EINVAL);
}

static void assert_listed(const char *list, const char *text, bool weakly, bool strongly)
{
	struct http_etag tag;
	char line[200];

	snprintf(line, sizeof(line), "If-None-Match: \"other\"\r\nIf-None-Match: %s\r\n", list);
	parse(line);
	assert_int_equal(http_etag_parse(view_str(text), &tag), 0);
	if (http_etag_listed(&fields, FIELD_IF_NONE_MATCH, &tag, true) != weakly ||
	    http_etag_listed(&fields, FIELD_IF_NONE_MATCH, &tag, false) != strongly)
		fail_msg("%s in %s", text, list);
}

static void test_etag_lists(void **state)
{
	(void)state;
	assert_listed("\"a\"", "\"a\"", true, true);
	assert_listed("\"A\"", "\"a\"", false, false);
	assert_listed("W/\"a\"", "\"a\"", true, false);
	assert_listed("\"a\"", "W/\"a\"", true, false);
	assert_listed("W/\"a\"", "W/\"a\"", true, false);
	assert_listed("\"x\" ,, \"y,\\\", \"a\",", "\"a\"", true, true);
	assert_listed("\"x,\"a\",y\"", "\"a\"", false, false);
	assert_listed("junk, \"a\"", "\"a\"", false, false);
	assert_listed("a", "\"a\"", false, false);
	assert_listed("*", "\"a\"", true, true);
	assert_listed("\"*\"", "\"a\"", false, false);
	assert_listed("", "\"a\"", false, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_lists_are_linear),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_cache_control_flags),
		cmocka_unit_test(test_cache_control_seconds),
		cmocka_unit_test(test_cache_control_lines),
		cmocka_unit_test(test_etags),
		cmocka_unit_test(test_etag_lists),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
