/* RFC 4648 §10, and that bytes have one text and no other. */
#include "edge/base/base64.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>

static const struct {
	struct view bytes, text;
} pairs[] = {
	{ VIEW(""), VIEW("") },
	{ VIEW("f"), VIEW("Zg==") },
	{ VIEW("fo"), VIEW("Zm8=") },
	{ VIEW("foo"), VIEW("Zm9v") },
	{ VIEW("foob"), VIEW("Zm9vYg==") },
	{ VIEW("fooba"), VIEW("Zm9vYmE=") },
	{ VIEW("foobar"), VIEW("Zm9vYmFy") },
	{ VIEW("\0\xff\xfe"), VIEW("AP/+") },
};

static void there_and_back(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		char text[BASE64_BYTES(6) + 1], bytes[6];
		size_t n = 99;

		base64_encode(pairs[i].bytes, text);
		assert_string_equal(text, pairs[i].text.p);
		assert_int_equal(base64_decode(pairs[i].text, bytes, &n), 0);
		assert_int_equal(n, pairs[i].bytes.n);
		assert_memory_equal(bytes, pairs[i].bytes.p, n);
	}
}

static void every_byte(void **state)
{
	char bytes[256], text[BASE64_BYTES(256) + 1], back[258];
	size_t n;

	(void)state;
	for (unsigned i = 0; i < 256; i++)
		bytes[i] = (char)i;
	base64_encode(view_of(bytes, 256), text);
	assert_int_equal(base64_decode(view_str(text), back, &n), 0);
	assert_int_equal(n, 256);
	assert_memory_equal(bytes, back, 256);
}

static void nothing_else(void **state)
{
	static const char *const texts[] = { "Zg",   "Zg=",  "Zg===",  "Zh==", "Zm9=", "Zg==Zg==",
					     "Z===", "====", "Zm9v\n", "Zm 9", "Zm-_", "=Zg=" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		char out[16];
		size_t n = 99;

		assert_int_equal(base64_decode(view_str(texts[i]), out, &n), -EINVAL);
		assert_int_equal(n, 99);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(every_byte),
		cmocka_unit_test(nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
