/* Known names, finding fields, and field lines alone (stored heads). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <ctype.h>
#include <errno.h>

#include "edge/http/head.h"

static const char *const names[] = {
	"accept-encoding",
	"accept-ranges",
	"age",
	"authorization",
	"cache-control",
	"cache-groups",
	"cache-group-invalidation",
	"cache-status",
	"cache-tag",
	"cdn-cache-control",
	"cdn-loop",
	"connection",
	"content-encoding",
	"content-length",
	"content-location",
	"content-range",
	"content-type",
	"cookie",
	"date",
	"etag",
	"expect",
	"expires",
	"forwarded",
	"host",
	"http2-settings",
	"if-match",
	"if-modified-since",
	"if-none-match",
	"if-range",
	"if-unmodified-since",
	"keep-alive",
	"last-modified",
	"location",
	"pragma",
	"proxy-authenticate",
	"proxy-authentication-info",
	"proxy-authorization",
	"proxy-connection",
	"proxy-status",
	"range",
	"set-cookie",
	"surrogate-control",
	"surrogate-key",
	"te",
	"trailer",
	"transfer-encoding",
	"upgrade",
	"vary",
	"via",
	"x-forwarded-for",
	"x-forwarded-host",
	"x-forwarded-proto",
	"x-real-ip",
	"xkey",
};

/* In the enum's order, so that a name that is added in one place alone is noticed. */
static void test_names(void **state)
{
	(void)state;
	assert_int_equal(ARRAY_LEN(names), FIELD_COUNT - 1);
	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		char upper[40];
		size_t n = strlen(names[i]);
		for (size_t k = 0; k <= n; k++)
			upper[k] = (char)toupper(names[i][k]);
		assert_int_equal(http_field_id(view_str(names[i])), i + 1);
		assert_int_equal(http_field_id(view_str(upper)), i + 1);
		upper[n / 2] = '!';
		assert_int_equal(http_field_id(view_str(upper)), FIELD_OTHER);
		assert_int_equal(http_field_id(view_of(names[i], n - 1)), FIELD_OTHER);
	}
	assert_int_equal(http_field_id(view_str("")), FIELD_OTHER);
	assert_int_equal(http_field_id(view_str("cdn\rloop")), FIELD_OTHER);
	assert_int_equal(http_field_id(view_str("x-request-id")), FIELD_OTHER);
}

static int parse(struct http_fields *f, const char *text)
{
	static char *copy;
	size_t n = strlen(text);

	free(copy);
	copy = malloc(n + (n == 0));
	memcpy(copy, text, n);
	return http_fields_parse(f, copy, n);
}

static void test_lines_alone(void **state)
{
	(void)state;
	struct http_field at[3];
	struct http_fields f = { .at = at, .capacity = 3 };

	assert_int_equal(parse(&f, "A: b\r\nETag: \"x\"\r\n"), 0);
	assert_int_equal(f.count, 2);
	assert_true(http_fields_has(&f, FIELD_ETAG));
	assert_int_equal(parse(&f, "A: b\r\n\r\nno field\r\n"), 0);
	assert_int_equal(f.count, 1);
	assert_false(http_fields_has(&f, FIELD_ETAG));
	assert_int_equal(parse(&f, "A: b\r\n\r\nno end"), 0);
	assert_int_equal(parse(&f, ""), 0);
	assert_int_equal(f.count, 0);
	assert_int_equal(parse(&f, "\r\nA: b\r\n"), 0);
	assert_int_equal(f.count, 0);
	static const char *const malformed[] = { "A: b",	   "A: b\r",	 "A: b\n", "A\r\n",
						 "A: b\r\n c\r\n", "A : b\r\n",	 "\r",	   "A",
						 "A: b\nC: d\r\n", "A: \x01\r\n" };
	for (size_t i = 0; i < ARRAY_LEN(malformed); i++)
		assert_int_equal(parse(&f, malformed[i]), -EINVAL);
	assert_int_equal(parse(&f, "A:\r\nA:\r\nA:\r\n"), 0);
	assert_int_equal(parse(&f, "A:\r\nA:\r\nA:\r\nA:\r\n"), -E2BIG);
}

static void test_finding(void **state)
{
	(void)state;
	struct http_field at[8];
	struct http_fields f = { .at = at, .capacity = 8 };
	uint16_t i = 0;

	assert_int_equal(parse(&f, "Vary: a\r\nX: 1\r\nvary: b\r\nx: 2\r\nTE: c\r\nx: 3\r\n"), 0);
	at[5].dropped = true;
	const struct http_field *vary = http_fields_first(&f, FIELD_VARY);
	assert_ptr_equal(vary, &at[0]);
	assert_ptr_equal(vary = http_fields_next(&f, vary), &at[2]);
	assert_null(http_fields_next(&f, vary));
	assert_null(http_fields_first(&f, FIELD_AGE));
	assert_null(http_fields_first(&f, FIELD_TE));
	assert_ptr_equal(http_fields_find(&f, VIEW("x"), &i), &at[1]);
	assert_ptr_equal(http_fields_find(&f, VIEW("x"), &i), &at[3]);
	assert_null(http_fields_find(&f, VIEW("x"), &i));
	assert_null(http_fields_find(&f, VIEW("x"), &i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_lines_alone),
		cmocka_unit_test(test_finding),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
