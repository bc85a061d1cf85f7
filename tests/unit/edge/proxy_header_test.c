/* PROXY headers of both versions: what they say, where they end, and what is none. */
#include "edge/proxy_header.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

struct sample {
	const char *bytes;
	size_t n;
	enum proxy_header_result result;
	size_t used;
	const char *client; /* NULL: not known */
};
#define LINE(text, result, used, client)                     \
	{                                                    \
		text, sizeof(text) - 1, result, used, client \
	}

static const struct sample samples[] = {
	LINE("PROXY TCP4 192.0.2.1 192.0.2.2 1234 443\r\nGET", PROXY_HEADER_DONE, 41, "192.0.2.1:1234"),
	LINE("PROXY TCP6 2001:db8::1 2001:db8::2 1234 443\r\n", PROXY_HEADER_DONE, 45,
	     "[2001:db8::1]:1234"),
	LINE("PROXY UNKNOWN\r\n", PROXY_HEADER_DONE, 15, NULL),
	LINE("PROXY UNKNOWN ffff:f...f and so on\r\n", PROXY_HEADER_DONE, 36, NULL),
	LINE("PROXY TCP4 192.0.2.1 192.0.2.2 1234 443\r", PROXY_HEADER_MORE, 0, NULL),
	LINE("P", PROXY_HEADER_MORE, 0, NULL),
	LINE("", PROXY_HEADER_MORE, 0, NULL),
	LINE("PROXY TCP4 192.0.2.1 192.0.2.2 1234\r\n", PROXY_HEADER_BAD, 0, NULL),
	LINE("PROXY TCP4 192.0.2.1 192.0.2.2 1234 443 5\r\n", PROXY_HEADER_BAD, 0, NULL),
	LINE("PROXY TCP4 192.0.2.1 192.0.2.2 65536 443\r\n", PROXY_HEADER_BAD, 0, NULL),
	LINE("PROXY TCP4 192.0.2.1 192.0.2.2 -1 443\r\n", PROXY_HEADER_BAD, 0, NULL),
	LINE("PROXY TCP4 2001:db8::1 192.0.2.2 1 443\r\n", PROXY_HEADER_BAD, 0, NULL),
	LINE("PROXY TCP4 192.0.2.1 2001:db8::2 1 443\r\n", PROXY_HEADER_BAD, 0, NULL),
	LINE("PROXY TCP4 192.0.2.1  192.0.2.2 1 443\r\n", PROXY_HEADER_BAD, 0, NULL),
	LINE("PROXY TCP5 192.0.2.1 192.0.2.2 1 443\r\n", PROXY_HEADER_BAD, 0, NULL),
	LINE("PROXY TCP4 192.0.2.1 192.0.2.2 1 443\n", PROXY_HEADER_BAD, 0, NULL),
	LINE("PROXY \r\n", PROXY_HEADER_BAD, 0, NULL),
	LINE("GET / HTTP/1.1\r\n", PROXY_HEADER_BAD, 0, NULL),
	LINE("\x16\x03\x01", PROXY_HEADER_BAD, 0, NULL),
	LINE(SIGNATURE "\x21\x11\x00\x0c\xc0\x00\x02\x01\xc0\x00\x02\x02\x04\xd2\x01\xbbGET",
	     PROXY_HEADER_DONE, 28, "192.0.2.1:1234"),
	LINE(SIGNATURE
	     "\x21\x11\x00\x0f\xc0\x00\x02\x01\xc0\x00\x02\x02\x04\xd2\x01\xbb\x04\x00\x00",
	     PROXY_HEADER_DONE, 31, "192.0.2.1:1234"),
	LINE(SIGNATURE "\x21\x21\x00\x24\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"
		       "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02\x04\xd2\x01\xbb",
	     PROXY_HEADER_DONE, 52, "[2001:db8::1]:1234"),
	LINE(SIGNATURE "\x20\x00\x00\x00", PROXY_HEADER_DONE, 16, NULL),
	LINE(SIGNATURE "\x20\x11\x00\x02\x01\x02", PROXY_HEADER_DONE, 18, NULL),
	LINE(SIGNATURE "\x21\x00\x00\x00", PROXY_HEADER_DONE, 16, NULL),
	LINE(SIGNATURE "\x21\x11\x00\x0c\xc0", PROXY_HEADER_MORE, 0, NULL),
	LINE(SIGNATURE "\x21\x11\x00", PROXY_HEADER_MORE, 0, NULL),
	LINE(SIGNATURE "\x21\x11\x00\x0b\xc0\x00\x02\x01\xc0\x00\x02\x02\x04\xd2\x01",
	     PROXY_HEADER_BAD, 0, NULL),
	LINE(SIGNATURE "\x22\x11\x00\x0c", PROXY_HEADER_BAD, 0, NULL),
	LINE(SIGNATURE "\x11\x11\x00\x0c", PROXY_HEADER_BAD, 0, NULL),
	LINE(SIGNATURE "\x21\x11\xff\xff", PROXY_HEADER_BAD, 0, NULL),
	LINE("\r\n\r\n\0\r\nQUIX", PROXY_HEADER_BAD, 0, NULL),
};

static void says_what_it_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		const struct sample *s = &samples[i];
		struct proxy_header h = { .bytes = 9999 };
		char text[SOCK_ADDR_TEXT];

		print_message("%zu\n", i);
		assert_int_equal(proxy_header_parse(s->bytes, s->n, &h), s->result);
		if (s->result != PROXY_HEADER_DONE) {
			assert_int_equal(h.bytes, 9999);
			continue;
		}
		assert_int_equal(h.bytes, s->used);
		assert_int_equal(h.known, s->client != NULL);
		if (s->client != NULL)
			assert_string_equal(sock_addr_text(&h.client, text), s->client);
	}
}

static void a_line_has_107_bytes_at_most(void **state)
{
	char line[120];
	struct proxy_header h;

	(void)state;
	memset(line, 'x', sizeof(line));
	memcpy(line, "PROXY UNKNOWN ", 14);
	assert_int_equal(proxy_header_parse(line, 106, &h), PROXY_HEADER_MORE);
	assert_int_equal(proxy_header_parse(line, 107, &h), PROXY_HEADER_BAD);
	memcpy(line + 105, "\r\n", 2);
	assert_int_equal(proxy_header_parse(line, sizeof(line), &h), PROXY_HEADER_DONE);
	assert_int_equal(h.bytes, 107);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_what_it_says),
		cmocka_unit_test(a_line_has_107_bytes_at_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
