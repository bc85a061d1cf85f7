/* Response heads: status line, the repairs of RFC 9112 §5, and how the body is framed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "edge/http/head.h"

enum { FIELDS = 20 };

static const struct http_limits limits = { 2000, FIELDS };
static struct http_field at[FIELDS];
static struct http_response r;
static struct http_scan scan;

static enum http_parse parse_for(const char *text, enum http_method request_method)
{
	static char *copy;
	size_t n = strlen(text);

	free(copy);
	copy = malloc(n + (n == 0));
	memcpy(copy, text, n);
	memset(&scan, 0, sizeof(scan));
	r = (struct http_response){ .fields = { .at = at, .capacity = FIELDS } };
	return http_response_parse(&r, &scan, copy, n, request_method, &limits);
}

static void assert_fine(const char *text)
{
	if (parse_for(text, METHOD_GET) != PARSE_DONE)
		fail_msg("refused as «%s»: %s", http_fault_text(scan.fault), text);
}

static void assert_fault(const char *text, enum http_fault expected)
{
	if (parse_for(text, METHOD_GET) != PARSE_BAD)
		fail_msg("not refused: %s", text);
	if (scan.fault != expected)
		fail_msg("«%s», not «%s»: %s", http_fault_text(scan.fault),
			 http_fault_text(expected), text);
}

static void assert_view(struct view v, const char *expected)
{
	if (v.n != strlen(expected) || memcmp(v.p, expected, v.n) != 0)
		fail_msg("«%.*s» is not «%s»", VIEW_ARG(v), expected);
}

static void test_status_line(void **state)
{
	(void)state;
	assert_fine("HTTP/1.1 404 Not  Found \r\nA: b\r\n\r\n");
	assert_int_equal(r.status, 404);
	assert_view(r.reason, "Not  Found ");
	assert_fine("HTTP/1.1 200\r\n\r\n");
	assert_view(r.reason, "");
	assert_fine("HTTP/1.0 200 \r\n\r\n");
	assert_view(r.reason, "");
	assert_int_equal(r.minor, 0);
	assert_fine("HTTP/1.1 599 \xc3\xa4\r\n\r\n");
	static const char *const malformed[] = {
		"HTTP/1.1 99\r\n\r\n",	       "HTTP/1.1 099 a\r\n\r\n",   "HTTP/1.1 600 a\r\n\r\n",
		"HTTP/1.1 2000\r\n\r\n",       "HTTP/1.1  200 a\r\n\r\n",  "HTTP/1.1 200OK\r\n\r\n",
		"HTTP/1.1 2x0 a\r\n\r\n",      "HTTP/1.1\r\n\r\n",	   "ICY 200 OK\r\n\r\n",
		"\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200\tOK\r\n\r\n", "HTTP/1.1 20\r\n\r\n",
	};
	for (size_t i = 0; i < ARRAY_LEN(malformed); i++)
		assert_fault(malformed[i], HTTP_BAD_START_LINE);
	assert_fault("HTTP/2.0 200 OK\r\n\r\n", HTTP_BAD_VERSION);
}

static void test_repairs(void **state)
{
	(void)state;
	assert_fine("HTTP/1.1 200 OK\r\nA : b\r\nC:\r\n \td\r\n\t e \r\nF: g\r\n  "
		    "\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(r.fields.count, 4);
	assert_view(r.fields.at[0].name, "A");
	assert_view(r.fields.at[0].value, "b");
	assert_view(r.fields.at[1].value, "d    e");
	assert_view(r.fields.at[2].value, "g");
	assert_int_equal(r.framing, FRAMING_LENGTH);
	assert_fine("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n");
	assert_view(r.fields.at[0].value, "b   c");
}

static void test_not_repaired(void **state)
{
	(void)state;
	assert_fault("HTTP/1.1 200 OK\r\n A: b\r\n\r\n", HTTP_OBS_FOLD);
	assert_fault("HTTP/1.1 200 OK\r\nA\r\n\r\n", HTTP_BAD_FIELD);
	assert_fault("HTTP/1.1 200 OK\r\nA B: c\r\n\r\n", HTTP_BAD_FIELD);
	assert_fault("HTTP/1.1 200 OK\r\n: c\r\n\r\n", HTTP_BAD_FIELD);
	assert_fault("HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n", HTTP_BAD_FIELD);
	assert_fault("HTTP/1.1 200 OK\nA: b\n\n", HTTP_BARE_CR_LF);
	assert_fault("HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", HTTP_BARE_CR_LF);
	assert_fault("HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n", HTTP_BARE_CR_LF);
}

/* What is repaired is so only once the head is whole, and a second look finds the same. */
static void test_repair_waits(void **state)
{
	(void)state;
	const char *text = "HTTP/1.1 200 OK\r\nA : b\r\n c\r\n\r\n";
	char buf[100], *moved = NULL;
	size_t n = strlen(text);

	memcpy(buf, text, n);
	memset(&scan, 0, sizeof(scan));
	r = (struct http_response){ .fields = { .at = at, .capacity = FIELDS } };
	for (size_t i = 1; i < n; i++) {
		moved = malloc(i);
		memcpy(moved, buf, i);
		assert_int_equal(http_response_parse(&r, &scan, moved, i, METHOD_GET, &limits),
				 PARSE_MORE);
		assert_memory_equal(moved, text, i);
		free(moved);
	}
	assert_int_equal(http_response_parse(&r, &scan, buf, n, METHOD_GET, &limits), PARSE_DONE);
	memset(&scan, 0, sizeof(scan));
	assert_int_equal(http_response_parse(&r, &scan, buf, n, METHOD_GET, &limits), PARSE_DONE);
	assert_view(r.fields.at[0].value, "b   c");
}

static void test_framing(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum http_method method;
		enum http_framing framing;
		uint64_t length;
		bool has_length, keep_alive;
	} cases[] = {
		{ "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n", METHOD_GET, FRAMING_LENGTH, 5, true, true },
		{ "HTTP/1.1 200\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\n", METHOD_GET,
		  FRAMING_LENGTH, 5, true, true },
		{ "HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n", METHOD_GET, FRAMING_CHUNKED,
		  0, false, true },
		{ "HTTP/1.1 200\r\n\r\n", METHOD_GET, FRAMING_CLOSE, 0, false, false },
		{ "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n", METHOD_HEAD, FRAMING_NONE, 5, true, true },
		{ "HTTP/1.1 200\r\n\r\n", METHOD_HEAD, FRAMING_NONE, 0, false, true },
		{ "HTTP/1.1 304\r\nContent-Length: 5\r\n\r\n", METHOD_GET, FRAMING_NONE, 5, true, true },
		{ "HTTP/1.1 204\r\n\r\n", METHOD_GET, FRAMING_NONE, 0, false, true },
		{ "HTTP/1.1 204\r\nContent-Length: 0\r\n\r\n", METHOD_GET, FRAMING_NONE, 0, true, true },
		{ "HTTP/1.1 204\r\nContent-Length: 5\r\n\r\n", METHOD_GET, FRAMING_NONE, 5, true, false },
		{ "HTTP/1.1 204\r\nTransfer-Encoding: chunked\r\n\r\n", METHOD_GET, FRAMING_NONE, 0,
		  false, false },
		{ "HTTP/1.1 103\r\nLink: a\r\n\r\n", METHOD_GET, FRAMING_NONE, 0, false, true },
		{ "HTTP/1.1 200\r\nContent-Length: 5\r\nConnection: close\r\n\r\n", METHOD_GET,
		  FRAMING_LENGTH, 5, true, false },
		{ "HTTP/1.0 200\r\nContent-Length: 5\r\n\r\n", METHOD_GET, FRAMING_LENGTH, 5, true,
		  false },
		{ "HTTP/1.0 200\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n", METHOD_GET,
		  FRAMING_LENGTH, 5, true, true },
		{ "HTTP/1.0 200\r\nConnection: keep-alive\r\n\r\n", METHOD_GET, FRAMING_CLOSE, 0,
		  false, false },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (parse_for(cases[i].text, cases[i].method) != PARSE_DONE)
			fail_msg("case %zu refused: %s", i, http_fault_text(scan.fault));
		if (r.framing != cases[i].framing || r.length != cases[i].length ||
		    r.has_length != cases[i].has_length || r.keep_alive != cases[i].keep_alive)
			fail_msg("case %zu: %s", i, cases[i].text);
	}
}

static void test_bad_framing(void **state)
{
	(void)state;
	assert_fault("HTTP/1.1 200\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", HTTP_BAD_LENGTH);
	assert_fault("HTTP/1.1 200\r\nContent-Length: 5, 6\r\n\r\n", HTTP_BAD_LENGTH);
	assert_fault("HTTP/1.1 200\r\nContent-Length: x\r\n\r\n", HTTP_BAD_LENGTH);
	assert_fault("HTTP/1.1 200\r\nContent-Length:\r\n\r\n", HTTP_BAD_LENGTH);
	assert_fault("HTTP/1.1 200\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		     HTTP_LENGTH_AND_CHUNKED);
	assert_fault("HTTP/1.1 200\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		     HTTP_BAD_TRANSFER_ENCODING);
	assert_fault("HTTP/1.1 200\r\nTransfer-Encoding: chunked, identity\r\n\r\n", HTTP_BAD_FRAMING);
	assert_fault("HTTP/1.0 200\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_BAD_FRAMING);
}

static void test_connection(void **state)
{
	(void)state;
	assert_fine(
		"HTTP/1.1 200 OK\r\nConnection: a, b, cache-control, \"\r\na: 1\r\nB: 2\r\nc: 3\r\n"
		"Cache-Control: private\r\nKeep-Alive: x\r\n\r\n");
	assert_true(r.fields.at[0].dropped && r.fields.at[1].dropped && r.fields.at[2].dropped);
	assert_false(r.fields.at[3].dropped || r.fields.at[4].dropped);
	assert_true(http_fields_has(&r.fields, FIELD_CACHE_CONTROL));
	assert_true(r.fields.at[5].dropped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status_line),  cmocka_unit_test(test_repairs),
		cmocka_unit_test(test_not_repaired), cmocka_unit_test(test_repair_waits),
		cmocka_unit_test(test_framing),	     cmocka_unit_test(test_bad_framing),
		cmocka_unit_test(test_connection),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
