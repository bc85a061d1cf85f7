/* The chunked coding, whole and in pieces of every size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "edge/http/chunked.h"

static char payload[20000];
static size_t payload_bytes;

/* Decodes text, n bytes at a time at most, payload too. *out_used: bytes up to the verdict. */
static enum http_chunked_event decode(const char *text, size_t total, size_t piece,
				      enum http_fault *out_fault, size_t *out_used)
{
	struct http_chunked c;
	enum http_chunked_event e = CHUNKED_MORE;
	size_t at = 0;

	http_chunked_init(&c);
	payload_bytes = 0;
	while (at < total && e != CHUNKED_END && e != CHUNKED_BAD) {
		size_t n = total - at < piece ? total - at : piece, used;
		e = http_chunked_feed(&c, text + at, n, &used);
		assert_true(used <= n && (e != CHUNKED_MORE || used == n));
		assert_true((e == CHUNKED_PAYLOAD) == (c.payload_left > 0));
		at += used;
		n -= used;
		if (e != CHUNKED_PAYLOAD || n == 0)
			continue;
		if (n > c.payload_left)
			n = c.payload_left;
		memcpy(payload + payload_bytes, text + at, n);
		payload_bytes += n;
		at += n;
		http_chunked_took(&c, n);
	}
	*out_fault = c.fault;
	*out_used = at;
	return e;
}

static void assert_decodes(const char *text, const char *expected)
{
	size_t whole = (size_t)(strchr(text, '|') - text);

	for (size_t piece = 1; piece <= strlen(text); piece++) {
		enum http_fault fault;
		size_t used;
		if (decode(text, strlen(text), piece, &fault, &used) != CHUNKED_END)
			fail_msg("no end in pieces of %zu: %s", piece, text);
		assert_int_equal(used, whole);
		assert_int_equal(payload_bytes, strlen(expected));
		assert_memory_equal(payload, expected, payload_bytes);
	}
}

static void assert_event(const char *text, enum http_chunked_event expected, enum http_fault fault)
{
	for (size_t piece = 1; piece <= strlen(text); piece++) {
		enum http_fault got;
		size_t used;
		if (decode(text, strlen(text), piece, &got, &used) != expected || got != fault)
			fail_msg("in pieces of %zu: %s", piece, text);
	}
}

/* The bar marks the end: what follows is the next message. */
static void test_good(void **state)
{
	(void)state;
	assert_decodes("0\r\n\r\n|", "");
	assert_decodes("5\r\nhello\r\n0\r\n\r\n|GET /", "hello");
	assert_decodes("1\r\na\r\n0A\r\n0123456789\r\n000\r\n\r\n|", "a0123456789");
	assert_decodes("1;a=b;c=\"d\\\"\"\r\na\r\n1 \t; e\r\nb\r\n0;x\r\n\r\n|", "ab");
	assert_decodes("2\r\n\r\n\r\n0\r\nA: b\r\nTrailer:\tc d \r\n\r\n|", "\r\n");
}

static void test_incomplete(void **state)
{
	(void)state;
	assert_event("5", CHUNKED_MORE, HTTP_OK);
	assert_event("5\r\n", CHUNKED_PAYLOAD, HTTP_OK);
	assert_event("1\r\na\r\n", CHUNKED_MORE, HTTP_OK);
	assert_event("0\r\n", CHUNKED_MORE, HTTP_OK);
	assert_event("0\r\nA: b\r\n", CHUNKED_MORE, HTTP_OK);
	assert_event("0\r\n\r", CHUNKED_MORE, HTTP_OK);
}

static void test_bad(void **state)
{
	(void)state;
	static const char *const chunks[] = {
		" 5\r\n",
		"+5\r\n",
		"-5\r\n",
		"0x5\r\n",
		"\r\n",
		"g\r\n",
		";a\r\n",
		"5 \r\n",
		"5\n",
		"5\r\r\n",
		"5 5\r\n",
		"5;a\n",
		"5;\x01\r\n",
		"5\ra",
		"1\r\nab",
		"1\r\na\n",
		"1\r\na\rb",
		"1\r\na0\r\n",
		"5;a\r5;\r\n",
		"\n5\r\n",
		"00000000000000005\r\n",
		"1000000000000001\r\n",
		"ffffffffffffffff\r\n",
		"10000000000000000\r\n",
		"5,\r\n",
		"5.0\r\n",
		"5_0\r\n",
	};
	for (size_t i = 0; i < ARRAY_LEN(chunks); i++)
		assert_event(chunks[i], CHUNKED_BAD, HTTP_BAD_CHUNK);
	static const char *const trailers[] = {
		"0\r\nA\r\n",	  "0\r\nA : b\r\n",	 "0\r\n: b\r\n",
		"0\r\n a: b\r\n", "0\r\nA: b\r\n c\r\n", "0\r\nA: b\n",
		"0\r\nA: b\rc",	  "0\r\nA: \x01\r\n",	 "0\r\n\n",
		"0\r\n\ra",	  "0\r\nA: b\r\n\n",
	};
	for (size_t i = 0; i < ARRAY_LEN(trailers); i++)
		assert_event(trailers[i], CHUNKED_BAD, HTTP_BAD_TRAILER);
}

static void test_largest(void **state)
{
	(void)state;
	struct http_chunked c;
	size_t used;

	http_chunked_init(&c);
	assert_int_equal(http_chunked_feed(&c, "0fffffffffffffff\r\n", 18, &used), CHUNKED_PAYLOAD);
	assert_true(c.payload_left == (UINT64_C(1) << 60) - 1);
	http_chunked_took(&c, c.payload_left);
	assert_int_equal(http_chunked_feed(&c, "\r\n0\r\n\r\n", 7, &used), CHUNKED_END);
}

static void test_limits(void **state)
{
	(void)state;
	static char text[16000];
	enum http_fault fault;
	size_t used;

	memset(text, 'a', sizeof(text));
	memcpy(text, "5;", 2);
	assert_int_equal(decode(text, 1024, 100, &fault, &used), CHUNKED_MORE);
	assert_int_equal(decode(text, 1025, 100, &fault, &used), CHUNKED_BAD);
	assert_int_equal(fault, HTTP_BAD_CHUNK);
	memcpy(text, "0\r\nA:", 5);
	assert_int_equal(decode(text, 8195, 100, &fault, &used), CHUNKED_MORE);
	assert_int_equal(decode(text, 8196, 100, &fault, &used), CHUNKED_BAD);
	assert_int_equal(fault, HTTP_BAD_TRAILER);
}

static void test_verdicts_stay(void **state)
{
	(void)state;
	struct http_chunked c;
	size_t used;

	http_chunked_init(&c);
	assert_int_equal(http_chunked_feed(&c, "0\r\n\r\n", 5, &used), CHUNKED_END);
	assert_int_equal(http_chunked_feed(&c, "5\r\n", 3, &used), CHUNKED_END);
	assert_int_equal(used, 0);
	http_chunked_init(&c);
	assert_int_equal(http_chunked_feed(&c, "x", 1, &used), CHUNKED_BAD);
	assert_int_equal(http_chunked_feed(&c, "5\r\n", 3, &used), CHUNKED_BAD);
	assert_int_equal(used, 0);
}

static void test_size_line(void **state)
{
	(void)state;
	static const struct {
		uint64_t n;
		const char *line;
	} cases[] = { { 0, "0\r\n" },
		      { 1, "1\r\n" },
		      { 15, "f\r\n" },
		      { 16, "10\r\n" },
		      { 500, "1f4\r\n" },
		      { 65536, "10000\r\n" },
		      { UINT64_MAX, "ffffffffffffffff\r\n" } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char line[HTTP_CHUNK_LINE_MAX];
		size_t n = http_chunked_line(line, cases[i].n);
		assert_int_equal(n, strlen(cases[i].line));
		assert_memory_equal(line, cases[i].line, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),	  cmocka_unit_test(test_incomplete),
		cmocka_unit_test(test_bad),	  cmocka_unit_test(test_largest),
		cmocka_unit_test(test_limits),	  cmocka_unit_test(test_verdicts_stay),
		cmocka_unit_test(test_size_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
