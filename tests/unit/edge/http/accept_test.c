/* Accept-Encoding and Accept-Language, reduced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <errno.h>

#include "edge/http/accept.h"

static struct http_field at[4];
static struct http_fields fields = { .at = at, .capacity = 4 };

static void parse(const char *lines)
{
	assert_int_equal(http_fields_parse(&fields, lines, strlen(lines)), 0);
}

static void assert_encoding(const char *value, const char *expected)
{
	char line[300], out[HTTP_ACCEPT_ENCODING_MAX];
	unsigned codings;

	snprintf(line, sizeof(line), "Accept-Encoding: %s\r\n", value);
	parse(line);
	assert_int_equal(http_accept_encoding(&fields, &codings), 0);
	struct view got = view_of(out, http_accept_encoding_format(codings, out));
	if (!view_eq(got, view_str(expected)))
		fail_msg("%s: %.*s", value, VIEW_ARG(got));
}

/* RFC 9110 §12.5.3 */
static void test_encodings(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{ "", "identity" },
		{ "gzip", "gzip" },
		{ "gzip, deflate, br, zstd", "br, gzip, zstd" },
		{ "br;q=1.0, gzip;q=0.8, *;q=0.1", "br, gzip, zstd" },
		{ "zstd,  GZip ; Q=0.001 ,bR\t;\tq=1.000", "br, gzip, zstd" },
		{ "x-gzip", "gzip" },
		{ "deflate, compress", "identity" },
		{ "identity", "identity" },
		{ "gzip;q=0", "identity" },
		{ "gzip;q=0.000, br", "br" },
		{ "gzip;q=0, gzip", "identity" },
		{ "*", "br, gzip, zstd" },
		{ "*, br;q=0", "gzip, zstd" },
		{ "*;q=0", "identity;q=0" },
		{ "*;q=0, gzip", "gzip, identity;q=0" },
		{ "*;q=0, identity", "identity" },
		{ "identity;q=0, *", "br, gzip, zstd, identity;q=0" },
		{ "identity;q=0, gzip", "gzip, identity;q=0" },
		{ "identity;q=0.5, *;q=0", "identity" },
		/* broken elements */
		{ "gzip;q=2, br;q=1.001, zstd;q=0.0001", "identity" },
		{ "gzip;q=, br;q=a, zstd;x=1", "identity" },
		{ "gzip;q =1, br; q= 1", "identity" },
		{ "gzip;q=1;x, br/1, a b, zstd;", "identity" },
		{ "gzip;q=-1, br;q=.5, zstd;q=1.", "zstd" },
		{ "\"gzip, br\", zstd", "zstd" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_encoding(cases[i][0], cases[i][1]);
	unsigned codings = 7;
	parse("A: b\r\n");
	assert_int_equal(http_accept_encoding(&fields, &codings), -ENOENT);
	assert_int_equal(codings, 7);
	parse("Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n");
	assert_int_equal(http_accept_encoding(&fields, &codings), 0);
	assert_int_equal(codings, CODING_BR | CODING_GZIP);
}

static void assert_language(const char *value, const char *expected)
{
	static const struct view site[] = { VIEW("en-GB"), VIEW("de"), VIEW("de-CH"), VIEW("fr"),
					    VIEW("zh-Hant") };
	char line[300];

	snprintf(line, sizeof(line), "accept-language: %s\r\n", value);
	parse(line);
	int got = http_accept_language(&fields, site, ARRAY_LEN(site));
	struct view text = got < 0 ? VIEW("") : site[got];
	if (!view_eq(text, view_str(expected)))
		fail_msg("%s: %.*s", value, VIEW_ARG(text));
}

/* RFC 9110 §12.5.4, RFC 4647 §3.3.1, §3.4 */
static void test_languages(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{ "", "" },
		{ "it", "" },
		{ "de", "de" },
		{ "DE-ch", "de-CH" },
		{ "de-AT", "de" },
		{ "de-CH-1996", "de-CH" },
		{ "en", "en-GB" },
		{ "en-US, en;q=0.9, de;q=0.8", "en-GB" },
		{ "en-US, de;q=0.8", "de" },
		{ "zh", "zh-Hant" },
		{ "zh-Hant-a-x-foo", "zh-Hant" },
		{ "zh-Hans", "" },
		{ "e", "" },
		{ "it, fr;q=0.3, de;q=0.5", "de" },
		{ "fr;q=0.5, de;q=0.5", "fr" },
		{ "*", "en-GB" },
		{ "*, fr", "en-GB" },
		{ "*;q=0.1, fr", "fr" },
		{ "*;q=0", "" },
		{ "en;q=0, *", "de" },
		{ "de;q=0, de-CH", "de-CH" },
		{ "de, de-CH;q=0", "de" },
		{ "de-CH;q=0, de;q=0, *;q=0.1, en-GB;q=0", "fr" },
		{ "fr;q=0", "" },
		{ "fr;q=x, de;q=0.1", "de" },
		{ "a-b-c, -, de-", "de" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_language(cases[i][0], cases[i][1]);
	parse("A: b\r\n");
	assert_int_equal(http_accept_language(&fields, NULL, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_encodings),
		cmocka_unit_test(test_languages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
