/* Preconditions in the order of RFC 9110 §13.2.2, and If-Range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "edge/http/condition.h"

#define OLD "Sun, 06 Nov 1994 08:49:36 GMT"
#define SAME "Sun, 06 Nov 1994 08:49:37 GMT"
#define NEW "Sun, 06 Nov 1994 08:49:38 GMT"
enum { SAME_S = 784111777 };

static struct http_field at[10];
static struct http_fields fields = { .at = at, .capacity = 10 };

static void parse(const char *lines)
{
	assert_int_equal(http_fields_parse(&fields, lines, strlen(lines)), 0);
}

static const struct http_selected full = {
	.status = 200,
	.etag = { "\"a\"", 3 },
	.last_modified = { SAME, sizeof(SAME) - 1 },
	.date = { "Sun, 06 Nov 1994 09:00:00 GMT", 29 },
	.received = { INT64_C(1000) * SAME_S + 900000 },
};

#define GO CONDITION_PROCEED
#define SAY304 CONDITION_NOT_MODIFIED
#define SAY412 CONDITION_FAILED

struct row {
	const char *lines;
	enum http_condition cache, origin; /* for a GET */
};

static void assert_rows(const struct row *rows, size_t n, const struct http_selected *s)
{
	for (size_t i = 0; i < n; i++) {
		parse(rows[i].lines);
		enum http_condition cache = http_preconditions(METHOD_GET, &fields, s, false);
		enum http_condition origin = http_preconditions(METHOD_GET, &fields, s, true);
		if (cache != rows[i].cache || origin != rows[i].origin)
			fail_msg("%s: %d, %d", rows[i].lines, (int)cache, (int)origin);
	}
}

static void test_single(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "A: b\r\n", GO, GO },
		/* §13.1.1: strong comparison */
		{ "If-Match: \"a\"\r\n", GO, GO },
		{ "If-Match: *\r\n", GO, GO },
		{ "If-Match: \"b\", \"a\"\r\n", GO, GO },
		{ "If-Match: \"b\"\r\n", GO, SAY412 },
		{ "If-Match: W/\"a\"\r\n", GO, SAY412 },
		{ "If-Match:\r\n", GO, SAY412 },
		/* §13.1.2: weak comparison */
		{ "If-None-Match: \"a\"\r\n", SAY304, SAY304 },
		{ "If-None-Match: W/\"a\"\r\n", SAY304, SAY304 },
		{ "If-None-Match: *\r\n", SAY304, SAY304 },
		{ "If-None-Match: \"b\"\r\nIf-None-Match: \"a\"\r\n", SAY304, SAY304 },
		{ "If-None-Match: \"b\"\r\n", GO, GO },
		{ "If-None-Match: a\r\n", GO, GO },
		/* §13.1.3 */
		{ "If-Modified-Since: " OLD "\r\n", GO, GO },
		{ "If-Modified-Since: " SAME "\r\n", SAY304, SAY304 },
		{ "If-Modified-Since: " NEW "\r\n", SAY304, SAY304 },
		{ "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n", SAY304, SAY304 },
		{ "If-Modified-Since: yesterday\r\n", GO, GO },
		{ "If-Modified-Since: " NEW ", " NEW "\r\n", GO, GO },
		{ "If-Modified-Since: " NEW "\r\nIf-Modified-Since: " NEW "\r\n", GO, GO },
		/* §13.1.4 */
		{ "If-Unmodified-Since: " OLD "\r\n", GO, SAY412 },
		{ "If-Unmodified-Since: " SAME "\r\n", GO, GO },
		{ "If-Unmodified-Since: 0\r\n", GO, GO },
		{ "If-Unmodified-Since: " OLD "\r\nIf-Unmodified-Since: " OLD "\r\n", GO, GO },
	};
	assert_rows(rows, ARRAY_LEN(rows), &full);
}

static void test_order(void **state)
{
	(void)state;
	static const struct row rows[] = {
		/* step 1 before 2 */
		{ "If-Match: \"a\"\r\nIf-Unmodified-Since: " OLD "\r\n", GO, GO },
		{ "If-Match: \"b\"\r\nIf-Unmodified-Since: " SAME "\r\n", GO, SAY412 },
		/* 1 and 2 before 3 and 4 */
		{ "If-Match: \"b\"\r\nIf-None-Match: \"a\"\r\n", SAY304, SAY412 },
		{ "If-Match: \"a\"\r\nIf-None-Match: \"a\"\r\n", SAY304, SAY304 },
		{ "If-Unmodified-Since: " OLD "\r\nIf-None-Match: \"a\"\r\n", SAY304, SAY412 },
		{ "If-Unmodified-Since: " OLD "\r\nIf-Modified-Since: " SAME "\r\n", SAY304, SAY412 },
		/* 3 before 4 */
		{ "If-None-Match: \"a\"\r\nIf-Modified-Since: " OLD "\r\n", SAY304, SAY304 },
		{ "If-None-Match: \"b\"\r\nIf-Modified-Since: " NEW "\r\n", GO, GO },
		{ "If-None-Match: x\r\nIf-Modified-Since: " NEW "\r\n", GO, GO },
	};
	assert_rows(rows, ARRAY_LEN(rows), &full);
}

static void test_methods_and_statuses(void **state)
{
	(void)state;
	struct http_selected s = full;

	parse("If-None-Match: \"a\"\r\n");
	assert_int_equal(http_preconditions(METHOD_HEAD, &fields, &s, false), SAY304);
	assert_int_equal(http_preconditions(METHOD_PUT, &fields, &s, true), SAY412);
	parse("If-Modified-Since: " NEW "\r\n");
	assert_int_equal(http_preconditions(METHOD_HEAD, &fields, &s, false), SAY304);
	assert_int_equal(http_preconditions(METHOD_PUT, &fields, &s, true), GO);
	parse("If-Match: \"b\"\r\nIf-None-Match: *\r\n");
	static const uint16_t others[] = { 199, 301, 304, 404, 500 };
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		s.status = others[i];
		assert_int_equal(http_preconditions(METHOD_GET, &fields, &s, true), GO);
	}
	s.status = 204;
	assert_int_equal(http_preconditions(METHOD_GET, &fields, &s, true), SAY412);
}

/* RFC 9111 §4.3.2 */
static void test_without_validators(void **state)
{
	(void)state;
	struct http_selected s = full;
	static const struct row rows[] = {
		{ "If-None-Match: \"a\"\r\n", GO, GO },
		{ "If-None-Match: \"\"\r\n", GO, GO },
		{ "If-None-Match: *\r\n", SAY304, SAY304 },
		{ "If-Match: \"a\"\r\n", GO, SAY412 },
		{ "If-Match: *\r\n", GO, GO },
		{ "If-Unmodified-Since: " OLD "\r\n", GO, GO },
		{ "If-Modified-Since: Sun, 06 Nov 1994 08:59:59 GMT\r\n", GO, GO },
		{ "If-Modified-Since: Sun, 06 Nov 1994 09:00:00 GMT\r\n", SAY304, GO },
	};
	static const struct row received[] = {
		{ "If-Modified-Since: Sun, 06 Nov 1994 09:04:36 GMT\r\n", GO, GO },
		{ "If-Modified-Since: Sun, 06 Nov 1994 09:04:37 GMT\r\n", SAY304, GO },
	};
	s.etag = s.last_modified = VIEW("");
	assert_rows(rows, ARRAY_LEN(rows), &s);
	s.last_modified = VIEW("today");
	s.etag = VIEW("unquoted");
	assert_rows(rows, ARRAY_LEN(rows), &s);
	s.date = VIEW("");
	s.received.ms += 999;
	assert_rows(received, ARRAY_LEN(received), &s);
}

static void assert_if_range(const struct http_selected *s, const char *value, bool expected)
{
	char lines[200];

	snprintf(lines, sizeof(lines), "If-Range: %s\r\n", value);
	parse(lines);
	if (http_if_range(&fields, s) != expected)
		fail_msg("%s", value);
}

/* RFC 9110 §13.1.5 */
static void test_if_range(void **state)
{
	(void)state;
	struct http_selected s = full;

	parse("A: b\r\n");
	assert_true(http_if_range(&fields, &s));
	parse("If-Range: \"a\"\r\nIf-Range: \"a\"\r\n");
	assert_false(http_if_range(&fields, &s));
	assert_if_range(&s, "\"a\"", true);
	assert_if_range(&s, "\"b\"", false);
	assert_if_range(&s, "\"b\", \"a\"", false);
	assert_if_range(&s, "W/\"a\"", false);
	assert_if_range(&s, "*", false);
	assert_if_range(&s, "", false);
	assert_if_range(&s, SAME, true);
	assert_if_range(&s, OLD, false);
	assert_if_range(&s, NEW, false);
	s.etag = VIEW("W/\"a\"");
	assert_if_range(&s, "W/\"a\"", false);
	assert_if_range(&s, "\"a\"", false);
	/* §8.8.2.2 */
	s.date = VIEW(NEW);
	assert_if_range(&s, SAME, true);
	s.date = VIEW(SAME);
	assert_if_range(&s, SAME, false);
	s.date = VIEW("");
	assert_if_range(&s, SAME, false);
	s = full;
	s.last_modified = VIEW("");
	assert_if_range(&s, SAME, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_single),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_methods_and_statuses),
		cmocka_unit_test(test_without_validators),
		cmocka_unit_test(test_if_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
