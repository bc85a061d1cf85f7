/* Texts: numbers at their limits, what doesn't fit, status lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "edge/reason.h"
#include "edge/text.h"

static void assert_text(const struct text *t, const char *expected)
{
	if (!view_eq(text_view(t), view_str(expected)))
		fail_msg("«%.*s» is not «%s»", VIEW_ARG(text_view(t)), expected);
}

static void test_decimal(void **state)
{
	static const struct {
		int64_t number;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 9, "9" },
		{ 10, "10" },
		{ 99, "99" },
		{ 100, "100" },
		{ -1, "-1" },
		{ 999999999999999999, "999999999999999999" },
		{ 1000000000000000000, "1000000000000000000" },
		{ INT64_MAX, "9223372036854775807" },
		{ INT64_MIN, "-9223372036854775808" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char room[20];
		size_t n = strlen(cases[i].text);
		struct text t = text_over(room, n), tight = text_over(room, n - 1);

		text_decimal(&t, cases[i].number);
		assert_text(&t, cases[i].text);
		text_decimal(&tight, cases[i].number);
		assert_true(tight.failed);
		assert_null(text_view(&tight).p);
	}
}

/* What comes behind what did not fit is not taken for the whole. */
static void test_failure_stays(void **state)
{
	char room[4];
	struct text t = text_over(room, sizeof(room));
	struct arena a;

	(void)state;
	text_put(&t, VIEW("abc"));
	text_put(&t, VIEW("de"));
	text_put(&t, VIEW("f"));
	text_decimal(&t, 1);
	text_put(&t, VIEW(""));
	assert_true(t.failed);
	assert_null(text_view(&t).p);
	arena_init(&a, 16);
	t = text_new(&a, 1000);
	text_put(&t, VIEW("a"));
	assert_true(t.failed);
	arena_fini(&a);
}

static void test_hex(void **state)
{
	char room[16];
	struct text t = text_over(room, sizeof(room));

	(void)state;
	text_hex(&t, 0x0123456789abcdef);
	assert_text(&t, "0123456789abcdef");
}

static void test_status_lines(void **state)
{
	(void)state;
	assert_true(view_eq(reason_status_line(200), VIEW("HTTP/1.1 200 OK\r\n")));
	assert_true(view_eq(reason_phrase(200), VIEW("OK")));
	assert_true(view_eq(reason_phrase(511), VIEW("Network Authentication Required")));
	assert_int_equal(reason_status_line(299).n + reason_phrase(299).n, 0);
	assert_int_equal(reason_status_line(600).n + reason_phrase(UINT16_MAX).n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decimal),
		cmocka_unit_test(test_failure_stays),
		cmocka_unit_test(test_hex),
		cmocka_unit_test(test_status_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
