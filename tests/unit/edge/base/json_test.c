/* Escaping for JSON: what stands for itself, what doesn't, and what is no UTF-8. */
#include "edge/base/json.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BYTES(literal)                       \
	{                                    \
		literal, sizeof(literal) - 1 \
	}

static const struct {
	const char *what;
	struct view in, want;
} rows[] = {
	{ "nothing", BYTES(""), BYTES("") },
	{ "plain", BYTES("/a?b=c'd"), BYTES("/a?b=c'd") },
	{ "a quote and a backslash", BYTES("a\"b\\c"), BYTES("a\\\"b\\\\c") },
	{ "what has a short form", BYTES("\n\r\t"), BYTES("\\n\\r\\t") },
	{ "other controls", BYTES("\x00\x1f\x7f"), BYTES("\\u0000\\u001f\\u007f") },
	{ "two bytes", BYTES("\xc3\xa4"), BYTES("\xc3\xa4") },
	{ "three", BYTES("\xe2\x82\xac"), BYTES("\xe2\x82\xac") },
	{ "four", BYTES("\xf0\x9f\x98\x80"), BYTES("\xf0\x9f\x98\x80") },
	{ "the last character", BYTES("\xf4\x8f\xbf\xbf"), BYTES("\xf4\x8f\xbf\xbf") },
	{ "beyond it", BYTES("\xf4\x90\x80\x80"), BYTES("\\u00f4\\u0090\\u0080\\u0080") },
	{ "a stray byte", BYTES("a\x80z"), BYTES("a\\u0080z") },
	{ "Latin-1", BYTES("\xe4pfel"), BYTES("\\u00e4pfel") },
	{ "cut off", BYTES("\xe2\x82"), BYTES("\\u00e2\\u0082") },
	{ "broken off by a quote", BYTES("\xe2\"\x82"), BYTES("\\u00e2\\\"\\u0082") },
	{ "overlong, two bytes", BYTES("\xc0\xaf"), BYTES("\\u00c0\\u00af") },
	{ "overlong, three", BYTES("\xe0\x9f\xbf"), BYTES("\\u00e0\\u009f\\u00bf") },
	{ "overlong, four", BYTES("\xf0\x8f\xbf\xbf"), BYTES("\\u00f0\\u008f\\u00bf\\u00bf") },
	{ "a surrogate", BYTES("\xed\xa0\x80"), BYTES("\\u00ed\\u00a0\\u0080") },
	{ "the one before surrogates", BYTES("\xed\x9f\xbf"), BYTES("\xed\x9f\xbf") },
};

static void test_escapes(void **state)
{
	unsigned faults = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char out[64];
		size_t taken, n = json_escape(rows[i].in, out, sizeof(out), &taken);
		if (taken == rows[i].in.n && view_eq(view_of(out, n), rows[i].want))
			continue;
		print_error("%s: %.*s\n", rows[i].what, (int)n, out);
		faults++;
	}
	assert_int_equal(faults, 0);
}

/* However small the room: whole characters and whole escapes, and the rest can follow. */
static void test_nothing_is_split(void **state)
{
	static const struct view in = BYTES("ab\xe2\x82\xac\x01\xc3\xa4\"\xf0\x9f\x98\x80z");
	static const struct view want = BYTES("ab\xe2\x82\xac\\u0001\xc3\xa4\\\"\xf0\x9f\x98\x80z");

	(void)state;
	for (size_t room = JSON_ESCAPED_MAX; room < want.n; room++) {
		char whole[64], part[64];
		size_t n = 0;
		for (struct view rest = in; rest.n > 0;) {
			size_t taken, got = json_escape(rest, part, room, &taken);
			assert_true(got > 0 && got <= room && taken > 0);
			memcpy(whole + n, part, got);
			n += got;
			rest = view_skip(rest, taken);
		}
		assert_true(view_eq(view_of(whole, n), want));
	}
}

static void test_no_room(void **state)
{
	char out[1];
	size_t taken;

	(void)state;
	assert_int_equal(json_escape(VIEW("\x01"), out, 0, &taken), 0);
	assert_int_equal(taken, 0);
	assert_int_equal(json_escape(VIEW("a"), out, 0, &taken), 0);
	assert_int_equal(taken, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_nothing_is_split),
		cmocka_unit_test(test_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
