/* HTTP dates, against the C library's calendar where it has one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <errno.h>
#include <time.h>

#include "edge/http/field.h"

static void assert_date(const char *text, int64_t seconds)
{
	struct wall t;

	if (http_date_parse(view_str(text), &t) != 0)
		fail_msg("refused: %s", text);
	if (t.ms != seconds * 1000)
		fail_msg("%s: %lld", text, (long long)t.ms / 1000);
}

static void test_forms(void **state)
{
	(void)state;
	assert_date("Sun, 06 Nov 1994 08:49:37 GMT", 784111777);
	assert_date("Sunday, 06-Nov-94 08:49:37 GMT", 784111777);
	assert_date("Sun Nov  6 08:49:37 1994", 784111777);
	assert_date("Sun Nov 16 08:49:37 1994", 784975777);
	assert_date("THU, 18 AUG 2050 02:01:18 gmt", 2544400878);
	assert_date("Thu, 01 Jan 1970 00:00:00 GMT", 0);
	assert_date("Sat, 29 Feb 2020 23:59:60 GMT", 1583020800);
	assert_date("Mon, 01 Jan 1900 00:00:00 GMT", -2208988800);
	assert_date("Fri, 31 Dec 9999 23:59:59 GMT", 253402300799);
}

static void test_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"",
		"0",
		"-1",
		"784111777",
		"Sun, 06 Nov 1994 08:49:37",
		"Sun, 06 Nov 1994 08:49:37 UTC",
		"Sun, 06 Nov 1994 08:49:37 +0000",
		"Sun, 6 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 94 08:49:37 GMT",
		"Sun 06 Nov 1994 08:49:37 GMT",
		"Sun, 06  Nov  1994 08:49:37 GMT",
		"Sun, 06-Nov-1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08.49.37 GMT",
		"Sun, 06 Nov 1994 8:49:37 GMT",
		" Sun, 06 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:37 GMT ",
		"Sun, 32 Jan 1994 08:49:37 GMT",
		"Sun, 00 Jan 1994 08:49:37 GMT",
		"Sun, 29 Feb 2023 08:49:37 GMT",
		"Sun, 29 Feb 1900 08:49:37 GMT",
		"Sun, 06 Nov 1994 24:00:00 GMT",
		"Sun, 06 Nov 1994 23:60:00 GMT",
		"Sun, 06 Nov 1994 23:00:61 GMT",
		"Sun, 06 Foo 1994 08:49:37 GMT",
		"Foo, 06 Nov 1994 08:49:37 GMT",
		"Sunday, 06 Nov 1994 08:49:37 GMT",
		"Sun, 06-Nov-94 08:49:37 GMT",
		"Sun Nov 6 08:49:37 1994",
		"Sun Nov 06 08:49:37 1994 GMT",
		"Sun, 31 Apr 1994 08:49:37 GMT",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct wall t = { 42 };
		if (http_date_parse(view_str(bad[i]), &t) != -EINVAL)
			fail_msg("not refused: %s", bad[i]);
		assert_int_equal(t.ms, 42);
	}
}

/* A two-digit year is within 50 years from now, ahead or behind. */
static void test_century(void **state)
{
	(void)state;
	struct wall now = clock_wall();

	for (int year = 0; year < 100; year++) {
		char text[60];
		struct wall t;
		snprintf(text, sizeof(text), "Monday, 15-Jun-%02d 12:00:00 GMT", year);
		assert_int_equal(http_date_parse(view_str(text), &t), 0);
		time_t seconds = (time_t)(t.ms / 1000);
		struct tm tm;
		gmtime_r(&seconds, &tm);
		assert_int_equal(tm.tm_year % 100, year);
		int64_t half = INT64_C(50) * 31556952 * 1000, day = 86400000;
		assert_true(t.ms <= now.ms + half + day && t.ms >= now.ms - half - day);
	}
}

static void test_format(void **state)
{
	(void)state;
	for (int64_t s = -70000000000; s < 253402300799; s += 86400 * 97 + 12345) {
		char ours[HTTP_DATE_BYTES + 1] = "", theirs[HTTP_DATE_BYTES + 1];
		time_t seconds = (time_t)s;
		struct wall t = { s * 1000 + 999 }, back;
		struct tm tm;
		if (s < -62167219200)
			continue; /* before the year 0 */
		http_date_format(t, ours);
		gmtime_r(&seconds, &tm);
		static const char days[] = "SunMonTueWedThuFriSat",
				  months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
		snprintf(theirs, sizeof(theirs), "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
			 days + 3 * tm.tm_wday, (unsigned)tm.tm_mday % 100, months + 3 * tm.tm_mon,
			 (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
			 (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
		assert_string_equal(ours, theirs);
		assert_int_equal(http_date_parse(view_of(ours, HTTP_DATE_BYTES), &back), 0);
		assert_true(back.ms == s * 1000);
	}
}

static void test_format_ends(void **state)
{
	(void)state;
	char text[HTTP_DATE_BYTES];

	http_date_format((struct wall){ INT64_MAX }, text);
	assert_memory_equal(text, "Fri, 31 Dec 9999 23:59:59 GMT", HTTP_DATE_BYTES);
	http_date_format((struct wall){ INT64_MIN }, text);
	assert_memory_equal(text, "Sat, 01 Jan 0000 00:00:00 GMT", HTTP_DATE_BYTES);
	http_date_format((struct wall){ -1 }, text);
	assert_memory_equal(text, "Wed, 31 Dec 1969 23:59:59 GMT", HTTP_DATE_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),	    cmocka_unit_test(test_refused),
		cmocka_unit_test(test_century),	    cmocka_unit_test(test_format),
		cmocka_unit_test(test_format_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
