/* Ranges: reading, resolving against a length, Content-Range, and the text of a multipart body. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <errno.h>

#include "edge/http/range.h"

static struct http_field at[4];
static struct http_fields fields = { .at = at, .capacity = 4 };

static int parse(const char *value, struct http_ranges *out)
{
	char line[300];

	snprintf(line, sizeof(line), "Range: %s\r\n", value);
	assert_int_equal(http_fields_parse(&fields, line, strlen(line)), 0);
	return http_ranges_parse(&fields, out);
}

/* What a Range comes to: "whole", "416", "ignored", or the parts. */
static void outcome(const char *value, uint64_t length, char *out, size_t room)
{
	struct http_ranges ranges;
	struct http_parts parts;
	size_t n = 0;

	if (parse(value, &ranges) < 0) {
		snprintf(out, room, "ignored");
		return;
	}
	enum http_range_answer answer = http_ranges_resolve(&ranges, length, &parts);
	if (answer != RANGE_PARTIAL) {
		snprintf(out, room, answer == RANGE_WHOLE ? "whole" : "416");
		return;
	}
	assert_true(parts.length == length);
	for (uint16_t i = 0; i < parts.count; i++)
		n += (size_t)snprintf(out + n, room - n, "%s%llu-%llu", i > 0 ? " " : "",
				      (unsigned long long)parts.at[i].first,
				      (unsigned long long)parts.at[i].last);
}

/* RFC 9110 §14.1.1, §14.1.2, §14.2 */
static void test_ranges(void **state)
{
	(void)state;
	static const struct {
		const char *value;
		uint64_t length;
		const char *outcome;
	} cases[] = {
		/* §14.1.2: its own examples */
		{ "bytes=0-499", 10000, "0-499" },
		{ "bytes=500-999", 10000, "500-999" },
		{ "bytes=-500", 10000, "9500-9999" },
		{ "bytes=9500-", 10000, "9500-9999" },
		{ "bytes=0-0,-1", 10000, "0-0 9999-9999" },
		{ "bytes= 0-999, 4500-5499, -1000", 10000, "ignored" },
		{ "bytes=0-999, 4500-5499, -1000", 10000, "0-999 4500-5499 9000-9999" },
		{ "bytes=500-600,601-999", 10000, "500-999" },
		{ "bytes=500-700,601-999", 10000, "500-999" },
		/* ends */
		{ "bytes=0-", 1, "0-0" },
		{ "bytes=0-99999", 10, "0-9" },
		{ "bytes=-99999", 10, "0-9" },
		{ "bytes=9-9", 10, "9-9" },
		{ "bytes=10-", 10, "416" },
		{ "bytes=-0", 10, "416" },
		{ "bytes=0-", 0, "416" },
		{ "bytes=-5", 0, "whole" },
		{ "bytes=10-11, 3-4", 10, "3-4" },
		{ "bytes=-0, 10-", 10, "416" },
		{ "bytes=0-18446744073709551615", 10, "0-9" },
		{ "bytes=0-99999999999999999999", 10, "0-9" },
		{ "bytes=-99999999999999999999", 10, "0-9" },
		{ "bytes=99999999999999999999-", 10, "416" },
		/* units and lists */
		{ "BYTES=1-2", 10, "1-2" },
		{ "bytes=,1-2,, ,5-6,", 10, "1-6" },
		{ "items=1-2", 10, "ignored" },
		{ "bytes", 10, "ignored" },
		{ "bytes=", 10, "ignored" },
		{ "bytes=,", 10, "ignored" },
		{ "bytes =1-2", 10, "ignored" },
		{ "bytes=1 - 2", 10, "ignored" },
		{ "bytes=1- 2", 10, "ignored" },
		{ "bytes=2-1", 10, "ignored" },
		{ "bytes=0-1,2-1", 10, "ignored" },
		{ "bytes=-", 10, "ignored" },
		{ "bytes=1", 10, "ignored" },
		{ "bytes=1-2-3", 10, "ignored" },
		{ "bytes=--1", 10, "ignored" },
		{ "bytes=+1-2", 10, "ignored" },
		{ "bytes=a-b", 10, "ignored" },
		{ "bytes=\"1-2\"", 10, "ignored" },
		/* near, overlapping, out of order */
		{ "bytes=0-9,90-99", 10000, "0-9 90-99" },
		{ "bytes=0-9,89-99", 10000, "0-99" },
		{ "bytes=90-99,0-9", 10000, "90-99 0-9" },
		{ "bytes=1000-1999,0-949", 10000, "0-1999" },
		{ "bytes=1000-1999,5000-5999,0-949", 10000, "0-1999 5000-5999" },
		{ "bytes=0-99,1000-1099,150-199,1150-1199", 10000, "0-199 1000-1199" },
		{ "bytes=0-99,300-399,150-250", 10000, "0-399" },
		{ "bytes=0-99,50-149", 10000, "0-149" },
		{ "bytes=0-99,50-149,100-199", 10000, "whole" },
		{ "bytes=0-,0-", 10000, "0-9999" },
		{ "bytes=0-,0-,0-", 10000, "whole" },
		{ "bytes=0-0,0-0,20000-,5-5", 10000, "0-5" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char got[200];
		outcome(cases[i].value, cases[i].length, got, sizeof(got));
		if (strcmp(got, cases[i].outcome) != 0)
			fail_msg("%s of %llu: %s", cases[i].value,
				 (unsigned long long)cases[i].length, got);
	}
}

static void test_many(void **state)
{
	(void)state;
	char value[300];
	size_t n = (size_t)snprintf(value, sizeof(value), "bytes=0-0");
	struct http_ranges ranges = { .count = 7 };

	for (int i = 1; i < HTTP_RANGES_MAX; i++)
		n += (size_t)snprintf(value + n, sizeof(value) - n, ",%d-%d", i * 1000, i * 1000);
	assert_int_equal(parse(value, &ranges), 0);
	assert_int_equal(ranges.count, HTTP_RANGES_MAX);
	snprintf(value + n, sizeof(value) - n, ",99000-");
	assert_int_equal(parse(value, &ranges), -E2BIG);
	assert_int_equal(ranges.count, HTTP_RANGES_MAX);
	static const char two[] = "Range: bytes=0-1\r\nRange: bytes=2-3\r\n";
	assert_int_equal(http_fields_parse(&fields, two, sizeof(two) - 1), 0);
	assert_int_equal(http_ranges_parse(&fields, &ranges), -EINVAL);
	fields.count = 0;
	fields.seen = 0;
	assert_int_equal(http_ranges_parse(&fields, &ranges), -ENOENT);
}

/* §14.4 */
static void test_content_range(void **state)
{
	static const struct {
		struct http_content_range range;
		const char *want;
	} rows[] = {
		{ { .range = { 0, 499 }, .length = 1234 }, "bytes 0-499/1234" },
		{ { .range = { 734, 1233 }, .length = 1234 }, "bytes 734-1233/1234" },
		{ { .unsatisfied = true, .length = 1234 }, "bytes */1234" },
		{ { .unsatisfied = true }, "bytes */0" },
		{ { .range = { UINT64_MAX - 2, UINT64_MAX - 1 }, .length = UINT64_MAX },
		  "bytes 18446744073709551613-18446744073709551614/18446744073709551615" },
	};
	static const char *const bad[] = {
		"",
		"bytes",
		"bytes ",
		"bytes 0-1",
		"bytes */*",
		"bytes 42-1233/*",
		"bytes 1-0/2",
		"bytes 0-2/2",
		"bytes 0-0/0",
		"bytes=0-1/2",
		"bytes  0-1/2",
		"bytes 0 -1/2",
		"bytes 0-1 /2",
		"bytes 0-1/ 2",
		"items 0-1/2",
		"bytes -1/2",
		"bytes 0-/2",
		"bytes 0-1/2/3",
		"bytes 0-1/",
		"bytes *",
		"0-1/2",
		"bytes 0-1/99999999999999999999",
		"bytes 0-99999999999999999999/99999999999999999999",
	};
	struct http_content_range c;
	char out[HTTP_CONTENT_RANGE_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_true(view_eq(view_of(out, http_content_range_format(&rows[i].range, out)),
				    view_str(rows[i].want)));
		assert_int_equal(http_content_range_parse(view_str(rows[i].want), &c), 0);
		assert_true(c.unsatisfied == rows[i].range.unsatisfied &&
			    c.length == rows[i].range.length);
		assert_true(c.unsatisfied || (c.range.first == rows[i].range.range.first &&
					      c.range.last == rows[i].range.range.last));
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		c.length = 7;
		if (http_content_range_parse(view_str(bad[i]), &c) != -EINVAL || c.length != 7)
			fail_msg("%s", bad[i]);
	}
	assert_int_equal(http_content_range_parse(VIEW("Bytes 1-2/4"), &c), 0);
	assert_true(c.range.first == 1 && c.range.last == 2 && c.length == 4 && !c.unsatisfied);
}

/* §15.3.7.2 */
static void test_multipart(void **state)
{
	(void)state;
	const struct http_parts parts = { .count = 2, .at = { { 0, 9 }, { 500, 999 } }, .length = 8000 };
	struct http_multipart m = { &parts, VIEW("THIS"), VIEW("application/pdf") };
	static const char first[] = "--THIS\r\nContent-Type: application/pdf\r\n"
				    "Content-Range: bytes 0-9/8000\r\n\r\n";
	static const char second[] = "\r\n--THIS\r\nContent-Type: application/pdf\r\n"
				     "Content-Range: bytes 500-999/8000\r\n\r\n";
	static const char last[] = "\r\n--THIS--\r\n";
	char out[200];

	assert_int_equal(http_part_head(&m, 0, out, sizeof(out)), sizeof(first) - 1);
	assert_memory_equal(out, first, sizeof(first) - 1);
	assert_int_equal(http_part_head(&m, 1, out, sizeof(out)), sizeof(second) - 1);
	assert_memory_equal(out, second, sizeof(second) - 1);
	assert_int_equal(http_part_head(&m, 2, out, sizeof(out)), sizeof(last) - 1);
	assert_memory_equal(out, last, sizeof(last) - 1);
	assert_true(http_multipart_bytes(&m) ==
		    sizeof(first) + sizeof(second) + sizeof(last) - 3 + 10 + 500);
	char exact[sizeof(first) - 1];
	assert_int_equal(http_part_head(&m, 0, exact, sizeof(exact)), sizeof(exact));
	assert_memory_equal(exact, first, sizeof(exact));
	assert_int_equal(http_part_head(&m, 0, exact, 5), sizeof(exact));
	m.content_type = VIEW("");
	assert_int_equal(http_part_head(&m, 0, out, sizeof(out)), sizeof(first) - 1 - 31);
	assert_memory_equal(out, "--THIS\r\nContent-Range", 21);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_content_range),
		cmocka_unit_test(test_multipart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
