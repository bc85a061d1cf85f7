/* Hosts, URIs, the normal form of paths, globs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <errno.h>

#include "edge/http/uri.h"

static void assert_authority(const char *text, const char *host, uint16_t port)
{
	char got[URI_HOST_MAX + 1];
	size_t n;
	uint16_t got_port;

	if (uri_authority(view_str(text), got, &n, &got_port) != 0)
		fail_msg("refused: %s", text);
	assert_string_equal(got, host);
	assert_int_equal(n, strlen(host));
	assert_int_equal(got_port, port);
}

static void test_authority(void **state)
{
	(void)state;
	assert_authority("Example.COM:80", "example.com", 80);
	assert_authority("a_b-c.d~.", "a_b-c.d~.", 0);
	assert_authority("127.0.0.1:65535", "127.0.0.1", 65535);
	assert_authority("a:", "a", 0);
	assert_authority("[::FFFF:1.2.3.4]", "[::ffff:1.2.3.4]", 0);
	assert_authority("[::1]:8080", "[::1]", 8080);
	static const char *const bad[] = { "",
					   ":80",
					   "a:b",
					   "a:80:80",
					   "a:0",
					   "a:65536",
					   "a:000080",
					   "u@a",
					   "a b",
					   "a/b",
					   "a%41",
					   "[::1",
					   "::1",
					   "[1.2.3.4]",
					   "[::1]x",
					   "[]",
					   "a[::1]",
					   "a\xc3\xa4",
					   "[fe80::1%25eth0]",
					   "a?b",
					   "a#b",
					   "a,b",
					   "a\\b",
					   "a:+8",
					   "a: 8" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char host[URI_HOST_MAX + 1] = "x";
		size_t n = 1;
		uint16_t port = 1;
		if (uri_authority(view_str(bad[i]), host, &n, &port) != -EINVAL)
			fail_msg("not refused: %s", bad[i]);
		assert_true(n == 1 && port == 1 && strcmp(host, "x") == 0);
	}
}

static void test_authority_length(void **state)
{
	(void)state;
	char text[URI_HOST_MAX + 2], host[URI_HOST_MAX + 1];
	size_t n;
	uint16_t port;

	memset(text, 'a', sizeof(text));
	assert_int_equal(uri_authority(view_of(text, URI_HOST_MAX), host, &n, &port), 0);
	assert_int_equal(n, URI_HOST_MAX);
	assert_int_equal(uri_authority(view_of(text, URI_HOST_MAX + 1), host, &n, &port), -EINVAL);
	assert_int_equal(uri_authority(view_of(NULL, 0), host, &n, &port), -EINVAL);
}

static void test_parse(void **state)
{
	(void)state;
	struct uri u;

	assert_int_equal(uri_parse(VIEW("HTTPS://A.b:1/c/d?e=/"), &u), 0);
	assert_true(view_eq(u.scheme, VIEW("https")));
	assert_true(view_eq(u.authority, VIEW("A.b:1")));
	assert_true(view_eq(u.path, VIEW("/c/d?e=/")));
	assert_int_equal(uri_parse(VIEW("http://a"), &u), 0);
	assert_true(view_eq(u.path, VIEW("/")));
	static const char *const bad[] = { "",
					   "http:",
					   "http://",
					   "http:///a",
					   "ftp://a/",
					   "/a",
					   "a",
					   "http:/a/b",
					   "http://a?b",
					   "http://a/b#c",
					   "http://a/b c",
					   "http://u@a/",
					   "http://a/\xc3",
					   "httpx://a/",
					   "://a/",
					   "http://a#b" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (uri_parse(view_str(bad[i]), &u) != -EINVAL)
			fail_msg("not refused: %s", bad[i]);
	}
}

static void assert_normal(const char *text, const char *expected, bool expected_odd)
{
	size_t n = strlen(text), got, again;
	bool odd, ignored;
	char *out = malloc(n), *twice = malloc(n);

	if (uri_normalise(view_str(text), out, &got, &odd) != 0)
		fail_msg("refused: %s", text);
	if (!view_eq(view_of(out, got), view_str(expected)))
		fail_msg("%s: %.*s", text, (int)got, out);
	if (odd != expected_odd)
		fail_msg("%s is %sodd", text, odd ? "" : "not ");
	assert_int_equal(uri_normalise(view_of(out, got), twice, &again, &ignored), 0);
	assert_true(view_eq(view_of(out, got), view_of(twice, again)));
	free(out);
	free(twice);
}

static void test_normalise(void **state)
{
	(void)state;
	assert_normal("/", "/", false);
	assert_normal("*", "*", false);
	assert_normal("/a/b?c=d", "/a/b?c=d", false);
	assert_normal("/%7Ea%2d%5F%2E%41", "/~a-_.A", false);
	assert_normal("/%c3%a4%3a", "/%C3%A4%3A", false);
	assert_normal("/a?%7e%2f%5c%00%c3", "/a?~%2F%5C%00%C3", false);
	assert_normal("/a%3fb?c?d", "/a%3Fb?c?d", false);
	assert_normal("/%2541", "/%2541", false);
	assert_normal("//a//b", "//a//b", false);
	assert_normal("/./a/./b/.", "/a/b/", false);
	assert_normal("/a.b/..c/.d/...", "/a.b/..c/.d/...", false);
	assert_normal("/a?b/../c", "/a?b/../c", false);
	assert_normal("/?", "/?", false);
	assert_normal("/%7e?q=100%", "/~?q=100%", false);
	assert_normal("/?q=%zz%41", "/?q=%zz%41", false);
	assert_normal("/?q=%%34%31", "/?q=%%34%31", false);
}

static void test_normalise_odd(void **state)
{
	(void)state;
	assert_normal("/a%2fb", "/a%2Fb", true);
	assert_normal("/a%5cb", "/a%5Cb", true);
	assert_normal("/a\\b", "/a\\b", true);
	assert_normal("/a%00", "/a%00", true);
	assert_normal("/a/b/../c", "/a/c", true);
	assert_normal("/a/b/..", "/a/", true);
	assert_normal("/..", "/", true);
	assert_normal("/../../a", "/a", true);
	assert_normal("/a/%2E%2e/b", "/b", true);
	assert_normal("/a//../b", "/a/b", true);
	assert_normal("/a/.%2e?x", "/?x", true);
}

static void test_normalise_refused(void **state)
{
	(void)state;
	static const char *const bad[] = { "",	     "a",      "?a",	 "*a",	   "*?a",
					   "/%",     "/%4",    "/%4g",	 "/%g4",   "/a#b",
					   "/a?b#c", "/a b",   "/a\xc3", "/a\x01", "/?%\x01",
					   "/%zz?a", "/a\x7f", "%2fa" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char out[20];
		size_t n;
		bool odd;
		if (uri_normalise(view_str(bad[i]), out, &n, &odd) != -EINVAL)
			fail_msg("not refused: %s", bad[i]);
	}
	char out[20];
	size_t n;
	bool odd;
	assert_int_equal(uri_normalise(view_of("/a\0b", 4), out, &n, &odd), -EINVAL);
	assert_int_equal(uri_normalise(view_of(NULL, 0), out, &n, &odd), -EINVAL);
}

static void test_glob(void **state)
{
	(void)state;
	static const struct {
		const char *pattern, *text;
		bool matches;
	} cases[] = {
		{ "", "", true },
		{ "", "a", false },
		{ "*", "", true },
		{ "*", "a/b", true },
		{ "/a/*", "/a/b/c", true },
		{ "/a/*", "/a", false },
		{ "*.jpg", "/x.jpg", true },
		{ "*.jpg", "x.jpg.", false },
		{ "a*b*c", "axbxbc", true },
		{ "a*b*c", "acb", false },
		{ "**a**", "bab", true },
		{ "a?c", "abc", false },
		{ "[a]", "a", false },
		{ "*ab", "aab", true },
		{ "a*a", "a", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (uri_glob(view_str(cases[i].pattern), view_str(cases[i].text)) != cases[i].matches)
			fail_msg("%s on %s", cases[i].pattern, cases[i].text);
	}
	assert_true(uri_glob_nocase(VIEW("X-*-ID"), VIEW("x-request-id")));
	assert_true(uri_glob_nocase(VIEW("text/*"), VIEW("Text/HTML")));
	assert_false(uri_glob_nocase(VIEW("a[b"), VIEW("a{b")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_authority),     cmocka_unit_test(test_authority_length),
		cmocka_unit_test(test_parse),	      cmocka_unit_test(test_normalise),
		cmocka_unit_test(test_normalise_odd), cmocka_unit_test(test_normalise_refused),
		cmocka_unit_test(test_glob),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
