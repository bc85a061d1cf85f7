/* Request heads: what is understood, what is refused and why, and that it makes no difference in
 * which pieces the bytes arrive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "edge/http/head.h"

enum { FIELDS = 20, HEAD_BYTES = 2000 };

static struct http_field at[FIELDS];
static struct http_request r;
static struct http_scan scan;

/* All at once, from memory that ends where the text does (so that ASan sees reading behind it). */
static enum http_parse parse_limited(const char *text, size_t n, uint32_t head_bytes, uint16_t fields)
{
	struct http_limits limits = { head_bytes, fields };
	static char *copy;

	free(copy);
	copy = malloc(n + (n == 0));
	memcpy(copy, text, n);
	memset(&scan, 0, sizeof(scan));
	r = (struct http_request){ .fields = { .at = at, .capacity = FIELDS } };
	return http_request_parse(&r, &scan, copy, n, &limits);
}

static enum http_parse parse(const char *text)
{
	return parse_limited(text, strlen(text), HEAD_BYTES, FIELDS);
}

/* Byte by byte, with the buffer at another place each time. */
static enum http_fault fault_in_pieces(const char *text, size_t n)
{
	struct http_limits limits = { HEAD_BYTES, FIELDS };
	struct http_scan s = { 0 };
	struct http_field others[FIELDS];
	struct http_request piecewise = { .fields = { .at = others, .capacity = FIELDS } };

	for (size_t i = 1; i <= n; i++) {
		char *copy = malloc(i);
		memcpy(copy, text, i);
		enum http_parse p = http_request_parse(&piecewise, &s, copy, i, &limits);
		free(copy);
		if (p == PARSE_BAD)
			return s.fault;
		if (p == PARSE_DONE) {
			assert_int_equal(s.head_bytes, i);
			return HTTP_OK;
		}
	}
	fail_msg("no verdict on: %s", text);
	return HTTP_OK;
}

static void assert_view(struct view v, const char *expected)
{
	if (v.n != strlen(expected) || memcmp(v.p, expected, v.n) != 0)
		fail_msg("«%.*s» is not «%s»", VIEW_ARG(v), expected);
}

static void assert_fault_n(const char *text, size_t n, enum http_fault expected)
{
	if (parse_limited(text, n, HEAD_BYTES, FIELDS) != PARSE_BAD)
		fail_msg("not refused: %s", text);
	if (scan.fault != expected)
		fail_msg("«%s», not «%s»: %s", http_fault_text(scan.fault),
			 http_fault_text(expected), text);
	assert_int_equal(fault_in_pieces(text, n), expected);
}

static void assert_fault(const char *text, enum http_fault expected)
{
	assert_fault_n(text, strlen(text), expected);
}

static void assert_fine(const char *text)
{
	if (parse(text) != PARSE_DONE)
		fail_msg("refused as «%s»: %s", http_fault_text(scan.fault), text);
	assert_int_equal(fault_in_pieces(text, scan.head_bytes), HTTP_OK);
}

/* A GET with these field lines behind a good Host. */
static const char *with(const char *lines)
{
	static char text[HEAD_BYTES];

	snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", lines);
	return text;
}

static void test_plain(void **state)
{
	(void)state;
	assert_fine("GET /a?b=c HTTP/1.1\r\nHost: example.com:8080\r\nAccept:\t x  y "
		    "\t\r\nX-Empty:\r\n\r\nrest");
	assert_int_equal(r.method, METHOD_GET);
	assert_view(r.method_text, "GET");
	assert_view(r.target, "/a?b=c");
	assert_view(r.path, "/a?b=c");
	assert_view(r.authority, "example.com:8080");
	assert_view(r.scheme, "");
	assert_int_equal(r.minor, 1);
	assert_true(r.keep_alive);
	assert_false(r.expect_continue);
	assert_int_equal(r.framing, FRAMING_NONE);
	assert_int_equal(r.fields.count, 3);
	assert_view(r.fields.at[1].name, "Accept");
	assert_view(r.fields.at[1].value, "x  y");
	assert_view(r.fields.at[2].value, "");
	assert_true(http_fields_has(&r.fields, FIELD_HOST));
	assert_false(http_fields_has(&r.fields, FIELD_COOKIE));
}

static void test_more(void **state)
{
	(void)state;
	assert_int_equal(parse(""), PARSE_MORE);
	assert_int_equal(parse("\r"), PARSE_MORE);
	assert_int_equal(parse("\r\n"), PARSE_MORE);
	assert_int_equal(parse("GET"), PARSE_MORE);
	assert_int_equal(parse("GET / HTTP/1.1\r\nHost: a\r\n\r"), PARSE_MORE);
}

static void test_empty_line_before(void **state)
{
	(void)state;
	assert_fine("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_int_equal(scan.head_bytes, strlen("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"));
	assert_fault("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD_START_LINE);
	assert_fault("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BARE_CR_LF);
}

static void test_methods(void **state)
{
	(void)state;
	static const char *const names[] = { "GET",    "HEAD",	  "POST",    "PUT",
					     "DELETE", "CONNECT", "OPTIONS", "TRACE",
					     "PATCH",  "PURGE",	  "get" };
	for (unsigned m = 0; m <= METHOD_OTHER; m++) {
		char text[100];
		snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: a:1\r\n\r\n", names[m],
			 m == METHOD_CONNECT ? "a:1" : "/");
		assert_fine(text);
		assert_int_equal(r.method, m);
	}
	assert_true(http_method_safe(METHOD_HEAD) && !http_method_safe(METHOD_PURGE));
	assert_true(http_method_idempotent(METHOD_PUT) && !http_method_idempotent(METHOD_POST));
}

static void test_request_line(void **state)
{
	(void)state;
	static const char *const malformed[] = {
		"GET / HTTP/1.1 ", "GET  / HTTP/1.1", "GET /  HTTP/1.1",
		" GET / HTTP/1.1", "GET /",	      "GET",
		"GET / ",	   "GET / http/1.1",  "GET / HTTP/1.",
		"GET / HTTP/1.10", "GET / HTTP/1,1",  "GE(T / HTTP/1.1",
		"GET / HTTP/a.1",  "GET\t/ HTTP/1.1", "GET / HTTP/1.1\t",
		"/ HTTP/1.1",	   "GET HTTP/1.1",    "GET / XTTP/1.1",
	};
	for (size_t i = 0; i < ARRAY_LEN(malformed); i++) {
		char text[100];
		snprintf(text, sizeof(text), "%s\r\nHost: a\r\n\r\n", malformed[i]);
		assert_fault(text, HTTP_BAD_START_LINE);
	}
	assert_fault("GET / HTTP/2.0\r\nHost: a\r\n\r\n", HTTP_BAD_VERSION);
	assert_fault("GET / HTTP/0.9\r\nHost: a\r\n\r\n", HTTP_BAD_VERSION);
	assert_fault("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP_BAD_VERSION);
	assert_int_equal(http_fault_status(HTTP_BAD_VERSION), 505);
	assert_fine("GET / HTTP/1.9\r\nHost: a\r\n\r\n");
	assert_int_equal(r.minor, 1);
}

static void test_targets(void **state)
{
	(void)state;
	assert_fault("GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD_TARGET);
	assert_fault("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD_TARGET);
	assert_fault("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD_TARGET);
	assert_fault("GET a HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD_TARGET);
	assert_fault("GET * HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD_TARGET);
	assert_fault("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD_TARGET);
	assert_fault("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD_TARGET);
	assert_fault("GET http://u@a/x HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD_TARGET);
	assert_fault("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD_TARGET);
	assert_fault("CONNECT /x HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD_TARGET);
	assert_fine("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_view(r.path, "*");
	assert_fine("CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n");
	assert_view(r.authority, "b:443");
	assert_fine("GET /{|}\"<>\\^` HTTP/1.1\r\nHost: a\r\n\r\n");
}

static void test_absolute_form(void **state)
{
	(void)state;
	assert_fine("GET HTTP://Example.com:80/x?y HTTP/1.1\r\nHost: example.COM\r\n\r\n");
	assert_view(r.scheme, "http");
	assert_view(r.authority, "Example.com:80");
	assert_view(r.path, "/x?y");
	assert_fine("GET https://a HTTP/1.1\r\nHost: a:443\r\n\r\n");
	assert_view(r.path, "/");
	assert_fine("OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_view(r.path, "*");
	assert_fine("OPTIONS http://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_view(r.path, "/");
	assert_fine("GET http://a/ HTTP/1.0\r\n\r\n");
	assert_view(r.authority, "a");
	assert_fault("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", HTTP_BAD_HOST);
	assert_fault("GET http://a/ HTTP/1.1\r\nHost: a:443\r\n\r\n", HTTP_BAD_HOST);
	assert_fault("GET http://a/ HTTP/1.1\r\n\r\n", HTTP_BAD_HOST);
	assert_fault("GET http://a?x HTTP/1.1\r\nHost: a\r\n\r\n", HTTP_BAD_TARGET);
}

static void test_host(void **state)
{
	(void)state;
	assert_fault("GET / HTTP/1.1\r\n\r\n", HTTP_BAD_HOST);
	assert_fault("GET / HTTP/1.1\r\nHost:\r\n\r\n", HTTP_BAD_HOST);
	assert_fault("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", HTTP_BAD_HOST);
	assert_fault("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", HTTP_BAD_HOST);
	assert_fault("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", HTTP_BAD_HOST);
	assert_fault("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", HTTP_BAD_HOST);
	assert_fault("GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", HTTP_BAD_HOST);
	assert_fault("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", HTTP_BAD_HOST);
	assert_fault("GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", HTTP_BAD_HOST);
	assert_fine("GET / HTTP/1.0\r\n\r\n");
	assert_view(r.authority, "");
	assert_fine("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n");
	assert_view(r.authority, "[::1]:80");
}

static void test_field_lines(void **state)
{
	(void)state;
	assert_fault(with("A : b\r\n"), HTTP_SPACE_BEFORE_COLON);
	assert_fault(with("A\t: b\r\n"), HTTP_SPACE_BEFORE_COLON);
	assert_fault(with("A: b\r\n c\r\n"), HTTP_OBS_FOLD);
	assert_fault(with("A: b\r\n\tc: d\r\n"), HTTP_OBS_FOLD);
	assert_fault("GET / HTTP/1.1\r\n Host: a\r\n\r\n", HTTP_OBS_FOLD);
	assert_fault(with(": b\r\n"), HTTP_BAD_FIELD);
	assert_fault(with("A\r\n"), HTTP_BAD_FIELD);
	assert_fault(with("A b: c\r\n"), HTTP_BAD_FIELD);
	assert_fault(with("A(b): c\r\n"), HTTP_BAD_FIELD);
	assert_fault(with("A\xc3\xa4: c\r\n"), HTTP_BAD_FIELD);
	assert_fault(with("A: \x7f\r\n"), HTTP_BAD_FIELD);
	assert_fault(with("A: \x01\r\n"), HTTP_BAD_FIELD);
	assert_fault(with("A: \x1b[1m\r\n"), HTTP_BAD_FIELD);
	assert_fault(with("A: b\nC: d\r\n"), HTTP_BARE_CR_LF);
	assert_fault(with("A: b\rC: d\r\n"), HTTP_BARE_CR_LF);
	assert_fault(with("A: b\r\r\n"), HTTP_BARE_CR_LF);
	assert_fault("GET / HTTP/1.1\nHost: a\n\n", HTTP_BARE_CR_LF);
	assert_fault_n("GET / HTTP/1.1\r\nA: \0\r\n\r\n", 25, HTTP_BAD_FIELD);
	assert_fault_n("GET /\0 HTTP/1.1\r\n\r\n", 20, HTTP_BAD_START_LINE);
	assert_fault_n("\r\nGET /\0 HTTP/1.1\r\n\r\n", 22, HTTP_BAD_START_LINE);
	assert_fine(with("A: \xc3\xa4\tb\r\n!#$%&'*+-.^_`|~09aZ: c\r\n"));
	assert_view(r.fields.at[1].value, "\xc3\xa4\tb");
}

static void test_length(void **state)
{
	(void)state;
	static const char *const invalid[] = {
		"",
		"+5",
		"-5",
		"5, 6",
		"5, 5",
		"5,",
		"0x5",
		"5a",
		"5 5",
		"1.0",
		"99999999999999999999",
		"1152921504606846977",
	};
	for (size_t i = 0; i < ARRAY_LEN(invalid); i++) {
		char line[100];
		snprintf(line, sizeof(line), "Content-Length: %s\r\n", invalid[i]);
		assert_fault(with(line), HTTP_BAD_LENGTH);
	}
	assert_fault(with("Content-Length: 5\r\nContent-Length: 6\r\n"), HTTP_BAD_LENGTH);
	assert_fault(with("Content-Length: 5\r\nContent-Length: 5\r\n"), HTTP_BAD_LENGTH);
	assert_fine(with("Content-Length: 1152921504606846976\r\n"));
	assert_int_equal(r.framing, FRAMING_LENGTH);
	assert_true(r.length == UINT64_C(1) << 60);
	assert_fine(with("Content-Length: 0\r\n"));
	assert_int_equal(r.framing, FRAMING_LENGTH);
}

static void test_transfer_encoding(void **state)
{
	(void)state;
	assert_fine(with("Transfer-Encoding: CHUNKED\r\n"));
	assert_int_equal(r.framing, FRAMING_CHUNKED);
	assert_false(http_fields_has(&r.fields, FIELD_TRANSFER_ENCODING));
	assert_true(r.fields.at[1].dropped);
	assert_fault(with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
		     HTTP_LENGTH_AND_CHUNKED);
	assert_fault(with("Content-Length: 5\r\nTransfer-Encoding: gzip\r\n"), HTTP_LENGTH_AND_CHUNKED);
	assert_fault("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_BAD_FRAMING);
	assert_fault(with("Transfer-Encoding: chunked, chunked\r\n"), HTTP_BAD_FRAMING);
	assert_fault(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
		     HTTP_BAD_FRAMING);
	assert_fault(with("Transfer-Encoding: chunked, gzip\r\n"), HTTP_BAD_FRAMING);
	assert_fault(with("Transfer-Encoding:\r\n"), HTTP_BAD_FRAMING);
	assert_fault(with("Transfer-Encoding: gzip, chunked\r\n"), HTTP_BAD_TRANSFER_ENCODING);
	assert_fault(with("Transfer-Encoding: identity\r\n"), HTTP_BAD_TRANSFER_ENCODING);
	assert_fault(with("Transfer-Encoding: xchunked\r\n"), HTTP_BAD_TRANSFER_ENCODING);
	assert_fault(with("Transfer-Encoding: chunked;a=b\r\n"), HTTP_BAD_TRANSFER_ENCODING);
	assert_fault(with("Transfer-Encoding: \"chunked\"\r\n"), HTTP_BAD_TRANSFER_ENCODING);
	assert_fault(with("Transfer-Encoding : chunked\r\n"), HTTP_SPACE_BEFORE_COLON);
	assert_fault(with("Transfer-Encoding: \x0b"
			  "chunked\r\n"),
		     HTTP_BAD_FIELD);
	assert_int_equal(http_fault_status(HTTP_BAD_TRANSFER_ENCODING), 501);
	assert_int_equal(http_fault_status(HTTP_BAD_FRAMING), 400);
}

static void test_connection(void **state)
{
	(void)state;
	static const char *const refused[] = {
		"Host",		 "content-length", "Transfer-Encoding", "Cookie",
		"Authorization", "Cache-Control",  "CDN-Loop",		"Via",
		"a b",		 "\"close\""
	};
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		char line[100];
		snprintf(line, sizeof(line), "Connection: close, %s\r\n", refused[i]);
		assert_fault(with(line), HTTP_BAD_CONNECTION);
	}
	assert_fine(with("X-One: 1\r\nx-two: 2\r\nAge: 3\r\nX-One: 4\r\nX-Three: 5\r\n"
			 "Connection: x-one, ,X-TWO\r\nConnection: age\r\n"));
	for (uint16_t i = 1; i <= 4; i++)
		assert_true(r.fields.at[i].dropped);
	assert_false(r.fields.at[5].dropped);
	assert_false(http_fields_has(&r.fields, FIELD_AGE));
	assert_null(http_fields_first(&r.fields, FIELD_AGE));
	assert_true(r.keep_alive);
}

static void assert_options(int options, enum http_fault expected)
{
	char line[200];
	size_t n = (size_t)snprintf(line, sizeof(line), "Connection: a");

	for (int i = 1; i < options; i++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, ",a");
	snprintf(line + n, sizeof(line) - n, "\r\n");
	if (expected == HTTP_OK)
		assert_fine(with(line));
	else
		assert_fault(with(line), expected);
}

static void test_connection_has_a_limit(void **state)
{
	(void)state;
	assert_options(32, HTTP_OK);
	assert_options(33, HTTP_BAD_CONNECTION);
}

static void test_hop_by_hop(void **state)
{
	(void)state;
	assert_fine(
		with("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n"
		     "Keep-Alive: x\r\nProxy-Connection: x\r\nTE: trailers\r\nTrailer: x\r\n"
		     "Proxy-Authorization: x\r\nProxy-Authenticate: x\r\n"
		     "Proxy-Authentication-Info: x\r\nAccept: x\r\n"));
	assert_true(r.upgrade);
	for (uint16_t i = 1; i < r.fields.count - 1; i++)
		assert_true(r.fields.at[i].dropped);
	assert_false(r.fields.at[r.fields.count - 1].dropped);
	assert_int_equal(r.fields.seen & ~UINT64_C(1), UINT64_C(1) << FIELD_HOST);
	assert_fine(with("Upgrade: h2c\r\n"));
	assert_false(r.upgrade);
}

static void test_keep_alive(void **state)
{
	(void)state;
	assert_fine(with("Connection: foo, CLOSE\r\n"));
	assert_false(r.keep_alive);
	assert_fine(with("Connection: keep-alive, close\r\n"));
	assert_false(r.keep_alive);
	assert_fine("GET / HTTP/1.0\r\n\r\n");
	assert_false(r.keep_alive);
	assert_fine("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
	assert_true(r.keep_alive);
	assert_fine("GET / HTTP/1.0\r\nProxy-Connection: keep-alive\r\n\r\n");
	assert_false(r.keep_alive);
}

static void test_expect(void **state)
{
	(void)state;
	assert_fine(with("Expect: 100-Continue\r\nContent-Length: 1\r\n"));
	assert_true(r.expect_continue);
	assert_fine("GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n");
	assert_false(r.expect_continue);
	assert_fault(with("Expect: 200-ok\r\n"), HTTP_BAD_EXPECT);
	assert_fault(with("Expect: 100-continue\r\nExpect: b\r\n"), HTTP_BAD_EXPECT);
	assert_fault(with("Expect: 100-continue, b\r\n"), HTTP_BAD_EXPECT);
	assert_int_equal(http_fault_status(HTTP_BAD_EXPECT), 417);
}

static void test_limits(void **state)
{
	(void)state;
	const char *text = "GET / HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n";
	uint32_t n = (uint32_t)strlen(text);

	assert_int_equal(parse_limited(text, n, n, FIELDS), PARSE_DONE);
	for (size_t have = n - 1; have <= n; have++) {
		assert_int_equal(parse_limited(text, have, n - 1, FIELDS), PARSE_BAD);
		assert_int_equal(scan.fault, HTTP_HEAD_TOO_LARGE);
	}
	assert_int_equal(parse_limited(text, n - 2, n - 1, FIELDS), PARSE_MORE);
	assert_int_equal(parse_limited(text, n, n, 2), PARSE_DONE);
	assert_int_equal(parse_limited(text, n, n, 1), PARSE_BAD);
	assert_int_equal(scan.fault, HTTP_HEAD_TOO_LARGE);
	assert_int_equal(parse_limited("GET /aaaaaaaaaaaaaaaa", 20, 16, FIELDS), PARSE_BAD);
	assert_int_equal(scan.fault, HTTP_TARGET_TOO_LONG);
	assert_int_equal(parse_limited("AAAAAAAAAAAAAAAAAAAAAA", 20, 16, FIELDS), PARSE_BAD);
	assert_int_equal(scan.fault, HTTP_HEAD_TOO_LARGE);
	assert_int_equal(http_fault_status(HTTP_HEAD_TOO_LARGE), 431);
	assert_int_equal(http_fault_status(HTTP_TARGET_TOO_LONG), 414);
}

static void test_capacity_holds(void **state)
{
	(void)state;
	char text[HEAD_BYTES];
	size_t n = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\n");
	for (int i = 0; i < FIELDS; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "A: b\r\n");
	n += (size_t)snprintf(text + n, sizeof(text) - n, "\r\n");
	assert_int_equal(parse_limited(text, n, HEAD_BYTES, UINT16_MAX), PARSE_BAD);
	assert_int_equal(scan.fault, HTTP_HEAD_TOO_LARGE);
}

/* Bad bytes are told at once, not when the head is whole. */
static void test_early(void **state)
{
	(void)state;
	assert_int_equal(parse("GET / HTTP/1.1\r\nA: b\n"), PARSE_BAD);
	assert_int_equal(parse("GET / HTTP/1.1\r\nA: b\rc"), PARSE_BAD);
	assert_int_equal(parse("\x16\x03\x01"), PARSE_BAD);
	assert_int_equal(scan.fault, HTTP_BAD_START_LINE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_more),
		cmocka_unit_test(test_empty_line_before),
		cmocka_unit_test(test_methods),
		cmocka_unit_test(test_request_line),
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_absolute_form),
		cmocka_unit_test(test_host),
		cmocka_unit_test(test_field_lines),
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_transfer_encoding),
		cmocka_unit_test(test_connection),
		cmocka_unit_test(test_connection_has_a_limit),
		cmocka_unit_test(test_hop_by_hop),
		cmocka_unit_test(test_keep_alive),
		cmocka_unit_test(test_expect),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_capacity_holds),
		cmocka_unit_test(test_early),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
