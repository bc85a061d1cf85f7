/* Fields that no-cache="…" and private="…" keep back. */
#include "tests/unit/cache/verdict_table.h"

static const struct {
	const char *rfc, *what, *response, *name;
	unsigned site;
	bool want;
} fields[] = {
	{ "9111 §5.2.2.4", "nothing is listed", FRESH, "x", 0, false },
	{ "9111 §5.2.2.4", "listed by no-cache", "Cache-Control: no-cache=\"x\"\n", "x", 0, true },
	{ "9111 §5.2.2.7", "listed by private", "Cache-Control: private=\"x\"\n", "x", 0, true },
	{ "9111 §5.2.2.4", "another", "Cache-Control: no-cache=\"x\"\n", "y", 0, false },
	{ "9111 §5.2.2.4", "case is ignored", "Cache-Control: No-Cache=\"X-Foo\"\n", "x-fOO", 0, true },
	{ "9111 §5.2.2.4", "one of several", "Cache-Control: no-cache=\"a, x ,b\"\n", "x", 0, true },
	{ "9111 §5.2.2.4", "as a token", "Cache-Control: no-cache=x\n", "x", 0, true },
	{ "9111 §5.2.2.4", "on another line", FRESH "Cache-Control: no-cache=\"x\"\n", "x", 0, true },
	{ "9111 §5.2.2.4", "in two lists: the first",
	  "Cache-Control: no-cache=\"x\", no-cache=\"y\"\n", "x", 0, true },
	{ "9111 §5.2.2.4", "the second", "Cache-Control: no-cache=\"x\", no-cache=\"y\"\n", "y", 0, true },
	{ "9111 §5.2.2.4", "one of each kind", "Cache-Control: no-cache=\"x\", private=\"y\"\n",
	  "y", 0, true },
	{ "9111 §5.2.2.4", "a part of a name is none", "Cache-Control: no-cache=\"x-foo\"\n", "x",
	  0, false },
	{ "choice", "the whole answer is meant: no field of its own",
	  "Cache-Control: no-cache=\"x, vary\"\n", "x", 0, false },
	{ "9111 §5.2.2.4", "and so with no-cache beside it",
	  "Cache-Control: no-cache, no-cache=\"x\"\n", "x", 0, false },
	{ "9111 §5.2.2.4", "what private lists stays though",
	  "Cache-Control: no-cache, private=\"x\"\n", "x", 0, true },
	{ "interface", "the site ignores it", "Cache-Control: no-cache=\"x\"\n", "x", IGNORE_CC, false },
	{ "9213 §2.2", "a targeted field says nothing of it",
	  "Cache-Control: no-cache=\"x\"\nCDN-Cache-Control: max-age=5\n", "x", 0, false },
	{ "9213 §2.1", "a targeted field lists it", "CDN-Cache-Control: private=\"x\", max-age=5\n",
	  "x", 0, true },
	{ "9213 §2.2", "one that isn't read", "Edge-Cache-Control: private=\"x\"\n" FRESH, "x", 0, false },
};

static void test_fields(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		struct lines l;
		struct http_response rs = response_of(&l, 200, fields[i].response);
		struct conf_cache site = site_of(fields[i].site);
		struct verdict_withheld w;
		verdict_withheld_fields(&rs, &site, &w);
		if (verdict_field_withheld(&w, view_str(fields[i].name)) != fields[i].want)
			fault(fields[i].rfc, fields[i].what, "%d", !fields[i].want);
	}
	table_ends();
}

/* Answers that can't do without them (docs/decisions/lifetimes.md). */
static void test_essential_fields_make_it_whole(void **state)
{
	static const char *const names[] = { "Content-Type",
					     "content-encoding",
					     "Content-Security-Policy",
					     "Vary",
					     "ETag",
					     "Last-Modified",
					     "Date",
					     "Age",
					     "Expires",
					     "Cache-Control",
					     "Location",
					     "CDN-Cache-Control" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct lines rq_lines, rs_lines;
		char text[128];
		struct conf_cache site = site_of(0);
		struct http_request rq = request_of(&rq_lines, METHOD_GET, NULL);
		struct cache_meta meta;
		(void)snprintf(text, sizeof(text), "Cache-Control: max-age=60, private=\"%s\"\n",
			       names[i]);
		struct http_response rs = response_of(&rs_lines, 200, text);
		const struct exchange_times t = { { NOW_MS }, { NOW_MS } };
		if (verdict_store(&rq, &rs, &t, &site, &meta) != STORE_PRIVATE)
			fault("choice", names[i], "stored");
	}
	table_ends();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_essential_fields_make_it_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
