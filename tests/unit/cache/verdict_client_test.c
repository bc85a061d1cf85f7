/* client_ttl: what clients are told. */
#include "tests/unit/cache/verdict_table.h"

static const struct {
	const char *what;
	int status;
	const char *response;
	unsigned site;
	const char *want; /* empty: the origin's fields stay */
} controls[] = {
	{ "instead of max-age", 200, FRESH, CLIENT_30, "max-age=30" },
	{ "of nothing", 200, NULL, CLIENT_30, "max-age=30" },
	{ "of Expires", 200, "Expires: " IN_AN_HOUR "\n", CLIENT_30, "max-age=30" },
	{ "of s-maxage, immutable and public", 200,
	  "Cache-Control: s-maxage=600, max-age=99, public, immutable\n", CLIENT_30, "max-age=30" },
	{ "of windows of staleness", 200,
	  "Cache-Control: max-age=9, stale-while-revalidate=600, stale-if-error=600\n", CLIENT_30,
	  "max-age=30" },
	{ "restrictions stay", 200,
	  "Cache-Control: no-transform, max-age=9, must-revalidate, proxy-revalidate\n", CLIENT_30,
	  "max-age=30, must-revalidate, proxy-revalidate, no-transform" },
	{ "a max-age that is broken", 200, "Cache-Control: max-age=x\n", CLIENT_30, "max-age=30" },
	{ "no client_ttl", 200, FRESH, 0, "" },
	{ "no-store stays", 200, "Cache-Control: no-store\n", CLIENT_30, "" },
	{ "with must-understand, too", 200, "Cache-Control: no-store, must-understand\n", CLIENT_30, "" },
	{ "no-cache stays", 200, "Cache-Control: no-cache\n", CLIENT_30, "" },
	{ "private stays", 200, "Cache-Control: private, max-age=9\n", CLIENT_30, "" },
	{ "with fields, too", 200, "Cache-Control: private=\"x\", max-age=9\n", CLIENT_30, "" },
	{ "though the site ignores it", 200, "Cache-Control: private\n", CLIENT_30 | IGNORE_CC, "" },
	{ "a targeted field is not for clients", 200, FRESH "CDN-Cache-Control: no-store\n",
	  CLIENT_30, "max-age=30" },
	{ "301", 301, FRESH, CLIENT_30, "max-age=30" },
	{ "304", 304, FRESH, CLIENT_30, "max-age=30" },
	{ "206", 206, FRESH, CLIENT_30, "max-age=30" },
	{ "404", 404, FRESH, CLIENT_30, "" },
	{ "503", 503, NULL, CLIENT_30, "" },
};

static void test_controls(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(controls); i++) {
		struct lines l;
		struct http_response rs = response_of(&l, controls[i].status, controls[i].response);
		struct conf_cache site = site_of(controls[i].site);
		char out[VERDICT_CLIENT_CONTROL_MAX];
		size_t n = verdict_client_control(&rs, &site, out);
		if (!view_eq(view_of(out, n), view_str(controls[i].want)))
			fault("interface", controls[i].what, "%.*s", (int)n, out);
	}
	table_ends();
}

/* What the longest one takes: a lifetime of the configuration's maximum and everything that stays. */
static void test_the_longest_fits(void **state)
{
	struct lines l;
	struct http_response rs = response_of(
		&l, 200, "Cache-Control: must-revalidate, proxy-revalidate, must-understand, no-transform\n");
	struct conf_cache site = site_of(0);
	char out[VERDICT_CLIENT_CONTROL_MAX];

	(void)state;
	site.client_ttl_ms = INT64_MAX;
	assert_in_range(verdict_client_control(&rs, &site, out), 80, VERDICT_CLIENT_CONTROL_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_controls),
		cmocka_unit_test(test_the_longest_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
