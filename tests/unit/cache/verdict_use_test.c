/* Stored responses, as tables: what may be used, when, and why; conditions of clients. */
#include "tests/unit/cache/verdict_table.h"

/* --- may it be used now? ----------------------------------------------------------------------- */

/* Lifetime 100 s. */
#define TAG META_HAS_VALIDATOR

static const struct {
	const char *rfc, *what, *request;
	int age_s;
	uint32_t flags;
	unsigned swr_s;
	unsigned site;
	bool soft;
	enum use_verdict want;
} uses[] = {
	{ "9111 §4.2", "fresh", NULL, 99, TAG, 0, 0, false, USE_FRESH },
	{ "9111 §4.2", "fresh without validator", NULL, 99, 0, 0, 0, false, USE_FRESH },
	{ "9111 §4.2", "age equal to lifetime is stale", NULL, 100, TAG, 0, 0, false, USE_REVALIDATE },
	{ "9111 §4.3.1", "stale without validator", NULL, 101, 0, 0, 0, false, USE_MISS },
	{ "9111 §5.2.2.4", "no-cache though fresh", NULL, 1, TAG | META_NO_CACHE, 0, SWR_20, false,
	  USE_REVALIDATE },
	{ "9111 §5.2.2.2", "must-revalidate while fresh", NULL, 99, TAG | META_MUST_REVALIDATE, 0,
	  0, false, USE_FRESH },

	{ "5861 §3", "within stale-while-revalidate", NULL, 107, TAG | META_SWR_GIVEN, 7, 0, false,
	  USE_STALE_WHILE_REVALIDATE },
	{ "5861 §3", "beyond it", NULL, 108, TAG | META_SWR_GIVEN, 7, 0, false, USE_REVALIDATE },
	{ "5861 §3", "without validator", NULL, 107, META_SWR_GIVEN, 7, 0, false,
	  USE_STALE_WHILE_REVALIDATE },
	{ "interface", "the site's", NULL, 120, TAG, 0, SWR_20, false, USE_STALE_WHILE_REVALIDATE },
	{ "interface", "beyond the site's", NULL, 121, TAG, 0, SWR_20, false, USE_REVALIDATE },
	{ "interface", "the origin's is shorter, and counts", NULL, 108, TAG | META_SWR_GIVEN, 7,
	  SWR_20, false, USE_REVALIDATE },
	{ "5861 §3", "0 from the origin", NULL, 100, TAG | META_SWR_GIVEN, 0, SWR_20, false,
	  USE_REVALIDATE },
	{ "9111 §4.2.4", "must-revalidate forbids it", NULL, 101,
	  TAG | META_SWR_GIVEN | META_MUST_REVALIDATE, 7, SWR_20, false, USE_REVALIDATE },

	{ "interface", "a soft purge makes it stale", NULL, 1, TAG, 0, 0, true, USE_REVALIDATE },
	{ "interface", "since now", NULL, 1, TAG, 0, SWR_20, true, USE_STALE_WHILE_REVALIDATE },
	{ "interface", "one that was stale is no fresher", NULL, 121, TAG, 0, SWR_20, true,
	  USE_REVALIDATE },

	{ "9111 §5.2.1.2", "max-stale is always honoured", "Cache-Control: max-stale=5\n", 105, TAG,
	  0, 0, false, USE_STALE_WHILE_REVALIDATE },
	{ "9111 §5.2.1.2", "as far as it goes", "Cache-Control: max-stale=5\n", 106, TAG, 0, 0,
	  false, USE_REVALIDATE },
	{ "9111 §5.2.1.2", "without a value: any", "Cache-Control: max-stale\n", 99999, TAG, 0, 0,
	  false, USE_STALE_WHILE_REVALIDATE },
	{ "9111 §5.2.1.2", "not over must-revalidate", "Cache-Control: max-stale\n", 101,
	  TAG | META_MUST_REVALIDATE, 0, 0, false, USE_REVALIDATE },
	{ "9111 §5.2.1.2", "nor over no-cache", "Cache-Control: max-stale\n", 101,
	  TAG | META_NO_CACHE, 0, 0, false, USE_REVALIDATE },

	{ "interface", "no-cache is ignored", "Cache-Control: no-cache\n", 1, TAG, 0, 0, false,
	  USE_FRESH },
	{ "interface", "max-age=0 is ignored", "Cache-Control: max-age=0\n", 1, TAG, 0, 0, false,
	  USE_FRESH },
	{ "interface", "min-fresh is ignored", "Cache-Control: min-fresh=100\n", 1, TAG, 0, 0,
	  false, USE_FRESH },
	{ "interface", "Pragma is ignored", "Pragma: no-cache\n", 1, TAG, 0, 0, false, USE_FRESH },

	{ "9111 §5.2.1.4", "no-cache honoured", "Cache-Control: no-cache\n", 1, TAG, 0, HONOUR,
	  false, USE_REVALIDATE },
	{ "9111 §5.2.1.4", "without validator", "Cache-Control: no-cache\n", 1, 0, 0, HONOUR, false,
	  USE_MISS },
	{ "9111 §5.4", "Pragma honoured", "Pragma: no-cache\n", 1, TAG, 0, HONOUR, false, USE_REVALIDATE },
	{ "9111 §5.4", "not beside Cache-Control", "Pragma: no-cache\nCache-Control: max-age=5\n",
	  1, TAG, 0, HONOUR, false, USE_FRESH },
	{ "9111 §5.4", "another Pragma", "Pragma: foo\n", 1, TAG, 0, HONOUR, false, USE_FRESH },
	{ "9111 §5.2.1.1", "young enough", "Cache-Control: max-age=5\n", 5, TAG, 0, HONOUR, false,
	  USE_FRESH },
	{ "9111 §5.2.1.1", "too old", "Cache-Control: max-age=5\n", 6, TAG, 0, HONOUR, false,
	  USE_REVALIDATE },
	{ "9111 §5.2.1.1", "nothing stale, though the site would", "Cache-Control: max-age=999\n",
	  101, TAG, 0, HONOUR | SWR_20, false, USE_REVALIDATE },
	{ "9111 §5.2.1.1", "unless max-stale stands beside it", "Cache-Control: max-age=999, max-stale=5\n",
	  101, TAG, 0, HONOUR, false, USE_STALE_WHILE_REVALIDATE },
	{ "9111 §5.2.1.4", "no-cache among others", "Cache-Control: foo, no-cache, max-age=99\n", 1,
	  TAG, 0, HONOUR, false, USE_REVALIDATE },
	{ "9111 §5.2.1.4", "in capitals", "Cache-Control: NO-CACHE\n", 1, TAG, 0, HONOUR, false,
	  USE_REVALIDATE },
	{ "9111 §5.2.1.1", "max-age=0", "Cache-Control: max-age=0\n", 1, TAG, 0, HONOUR, false,
	  USE_REVALIDATE },
	{ "9111 §5.2.1.1", "an invalid one is 0", "Cache-Control: max-age=x\n", 1, TAG, 0, HONOUR,
	  false, USE_REVALIDATE },
	{ "9111 §5.2.1.1", "s-maxage is no word of requests", "Cache-Control: s-maxage=0\n", 50,
	  TAG, 0, HONOUR, false, USE_FRESH },
	{ "9111 §5.2.1.2", "max-stale means nothing while fresh", "Cache-Control: max-stale=5\n",
	  50, TAG, 0, HONOUR, false, USE_FRESH },
	{ "9111 §5.2.1.2", "within the site's window, too", "Cache-Control: max-stale=1\n", 115,
	  TAG, 0, SWR_20, false, USE_STALE_WHILE_REVALIDATE },
	{ "9111 §5.2.1.2", "an invalid one is 0", "Cache-Control: max-stale=x\n", 101, TAG, 0, 0,
	  false, USE_REVALIDATE },
	{ "9111 §5.2.1.2", "0 takes what is stale just now", "Cache-Control: max-stale=0\n", 100,
	  TAG, 0, 0, false, USE_STALE_WHILE_REVALIDATE },
	{ "9111 §5.4", "Pragma in capitals", "Pragma: NO-CACHE\n", 1, TAG, 0, HONOUR, false,
	  USE_REVALIDATE },
	{ "9111 §5.2.1.6", "no-transform is not for us: nothing is transformed",
	  "Cache-Control: no-transform\n", 1, TAG, 0, HONOUR, false, USE_FRESH },
	{ "9111 §5.2.1.3", "min-fresh and max-stale: fresh is asked for",
	  "Cache-Control: min-fresh=1, max-stale=50\n", 101, TAG, 0, HONOUR, false, USE_REVALIDATE },
	{ "9111 §5.2.1.3", "fresh for long enough", "Cache-Control: min-fresh=10\n", 90, TAG, 0,
	  HONOUR, false, USE_FRESH },
	{ "9111 §5.2.1.3", "not so", "Cache-Control: min-fresh=10\n", 91, TAG, 0, HONOUR, false,
	  USE_REVALIDATE },
	{ "9111 §5.2.1.5", "no-store is no word on what is stored", "Cache-Control: no-store\n", 1,
	  TAG, 0, HONOUR, false, USE_FRESH },
	{ "9111 §5.2.1.7", "only-if-cached is the caller's", "Cache-Control: only-if-cached\n", 1,
	  TAG, 0, HONOUR, false, USE_FRESH },
	{ "8246 §2", "a reload of what is immutable", "Cache-Control: max-age=0\n", 1,
	  TAG | META_IMMUTABLE, 0, HONOUR, false, USE_FRESH },
	{ "8246 §2", "once it is stale", "Cache-Control: max-age=0\n", 100, TAG | META_IMMUTABLE, 0,
	  HONOUR, false, USE_REVALIDATE },
	{ "8246 §2", "even if stale would do", "Cache-Control: max-age=0, max-stale=5\n", 101,
	  TAG | META_IMMUTABLE, 0, HONOUR, false, USE_REVALIDATE },
	{ "8246 §2", "a forced reload", "Cache-Control: no-cache\n", 1, TAG | META_IMMUTABLE, 0,
	  HONOUR, false, USE_REVALIDATE },
};

static struct cache_meta meta_of(uint32_t flags, unsigned swr_s, unsigned sie_s)
{
	return (struct cache_meta){ .flags = flags,
				    .received = { NOW_MS },
				    .lifetime_ms = 100000,
				    .stale_while_revalidate_s = swr_s,
				    .stale_if_error_s = sie_s };
}

static void test_uses(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(uses); i++) {
		struct lines l;
		struct http_request rq = request_of(&l, METHOD_GET, uses[i].request);
		struct conf_cache site = site_of(uses[i].site);
		struct cache_meta meta = meta_of(uses[i].flags, uses[i].swr_s, 0);
		struct use_times t;
		verdict_age(&meta, (struct wall){ NOW_MS + uses[i].age_s * INT64_C(1000) }, &t);
		enum use_verdict got = verdict_use(&rq, &meta, &t, uses[i].soft, &site);
		if (got != uses[i].want)
			fault(uses[i].rfc, uses[i].what, "%d", got);
	}
	table_ends();
}

static const struct {
	const char *rfc, *what, *request;
	int age_s;
	uint32_t flags;
	unsigned sie_s, site;
	bool want;
} errors[] = {
	{ "9111 §4.2.4", "nobody allowed it", NULL, 101, TAG, 0, 0, false },
	{ "9111 §4.2.4", "not even when softly purged just now", NULL, 1, TAG, 0, 0, false },
	{ "5861 §4", "within stale-if-error", NULL, 107, META_SIE_GIVEN, 7, 0, true },
	{ "5861 §4", "beyond it", NULL, 108, META_SIE_GIVEN, 7, 0, false },
	{ "interface", "the site's", NULL, 120, TAG, 0, SIE_20, true },
	{ "interface", "beyond the site's", NULL, 121, TAG, 0, SIE_20, false },
	{ "interface", "the origin said 0", NULL, 101, META_SIE_GIVEN, 0, SIE_20, false },
	{ "9111 §5.2.2.2", "must-revalidate forbids it", NULL, 101,
	  META_SIE_GIVEN | META_MUST_REVALIDATE, 7, SIE_20, false },
	{ "9111 §5.2.2.4", "no-cache forbids it", NULL, 1, META_SIE_GIVEN | META_NO_CACHE, 7,
	  SIE_20, false },
	{ "9111 §5.2.1.2", "the client takes it stale", "Cache-Control: max-stale=5\n", 105, TAG, 0,
	  0, true },
	{ "9111 §5.2.1.2", "but not so stale", "Cache-Control: max-stale=5\n", 106, TAG, 0, 0, false },
	{ "5861 §4", "softly purged while it was fresh", NULL, 1, META_SIE_GIVEN, 7, 0, true },
	{ "9111 §5.2.2.10", "s-maxage forbids it as must-revalidate does",
	  "Cache-Control: max-stale\n", 101, META_MUST_REVALIDATE, 0, SIE_20, false },
	{ "5861 §4", "a client's stale-if-error, honoured", "Cache-Control: stale-if-error=5\n",
	  105, TAG, 0, HONOUR, true },
	{ "5861 §4", "as far as it goes", "Cache-Control: stale-if-error=5\n", 106, TAG, 0, HONOUR,
	  false },
	{ "interface", "ignored by default", "Cache-Control: stale-if-error=5\n", 101, TAG, 0, 0, false },
	{ "9111 §4.2.4", "must-revalidate forbids that, too", "Cache-Control: stale-if-error=5\n",
	  101, META_MUST_REVALIDATE, 0, HONOUR, false },
};

static void test_stale_if_error(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		struct lines l;
		struct http_request rq = request_of(&l, METHOD_GET, errors[i].request);
		struct conf_cache site = site_of(errors[i].site);
		struct cache_meta meta = meta_of(errors[i].flags, 0, errors[i].sie_s);
		struct use_times t;
		verdict_age(&meta, (struct wall){ NOW_MS + errors[i].age_s * INT64_C(1000) }, &t);
		if (verdict_stale_if_error(&rq, &meta, &t, &site) != errors[i].want)
			fault(errors[i].rfc, errors[i].what, "%d", !errors[i].want);
	}
	table_ends();
}

/* --- and why? -------------------------------------------------------------------------------- */

static const struct {
	const char *request;
	int age_s;
	uint32_t flags;
	unsigned site;
	bool soft;
	const char *want;
} reasons[] = {
	{ NULL, 1, TAG, 0, false, "fresh" },
	{ NULL, 1, TAG | META_NO_CACHE, 0, false, "no-cache" },
	{ "Cache-Control: no-cache\n", 1, TAG, HONOUR, false, "the request's no-cache" },
	{ "Cache-Control: no-cache\n", 1, TAG | META_NO_CACHE, HONOUR, false, "no-cache" },
	{ "Cache-Control: max-age=0\n", 1, TAG, HONOUR, false, "the request's max-age" },
	{ "Cache-Control: max-age=999\n", 101, TAG, HONOUR, false,
	  "stale, and the request's max-age takes nothing stale" },
	{ "Cache-Control: min-fresh=100\n", 1, TAG, HONOUR, false, "the request's min-fresh" },
	{ "Pragma: no-cache\n", 1, TAG, HONOUR, false, "the request's Pragma" },
	{ NULL, 101, TAG | META_MUST_REVALIDATE, SWR_20, false,
	  "stale, and must-revalidate, proxy-revalidate or s-maxage forbids its use" },
	{ NULL, 101, TAG, SWR_20, false, "stale, within stale-while-revalidate" },
	{ "Cache-Control: max-stale\n", 101, TAG, 0, false, "stale, within the request's max-stale" },
	{ NULL, 1, TAG, 0, true, "purged softly: stale" },
	{ NULL, 101, TAG, 0, false, "stale: its lifetime is over" },
};

static void test_reasons(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
		struct lines l;
		struct http_request rq = request_of(&l, METHOD_GET, reasons[i].request);
		struct conf_cache site = site_of(reasons[i].site);
		struct cache_meta meta = meta_of(reasons[i].flags, 0, 0);
		struct use_times t;
		verdict_age(&meta, (struct wall){ NOW_MS + reasons[i].age_s * INT64_C(1000) }, &t);
		const char *got = verdict_use_reason(&rq, &meta, &t, reasons[i].soft, &site);
		if (strcmp(got, reasons[i].want) != 0)
			fault("interface", reasons[i].want, "%s", got);
	}
	table_ends();
}

/* --- later answers of the origin ---------------------------------------------------------------- */

static const struct {
	const char *what;
	int stored_status, status;
	const char *response;
	int length; /* -1: none given */
	enum head_verdict want;
} heads[] = {
	{ "nothing differs", 200, 200, TAGGED "Last-Modified: " HOUR_AGO "\n", 100, HEAD_UPDATES },
	{ "it says little", 200, 200, NULL, -1, HEAD_UPDATES },
	{ "another length", 200, 200, NULL, 101, HEAD_OUTDATES },
	{ "another tag", 200, 200, "ETag: \"b\"\n", 100, HEAD_OUTDATES },
	{ "another date", 200, 200, TAGGED "Last-Modified: " NOW "\n", 100, HEAD_OUTDATES },
	{ "it is gone", 200, 410, NULL, -1, HEAD_TELLS_NOTHING },
	{ "an error", 200, 500, NULL, -1, HEAD_TELLS_NOTHING },
	{ "about a stored 404", 404, 200, NULL, -1, HEAD_TELLS_NOTHING },
};

static void test_heads(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		struct lines l;
		struct http_response rs = response_of(&l, heads[i].status, heads[i].response);
		struct cache_meta meta = { .status = (uint16_t)heads[i].stored_status,
					   .etag = VIEW("\"a\""),
					   .last_modified = VIEW(HOUR_AGO) };
		rs.has_length = heads[i].length >= 0;
		rs.length = rs.has_length ? (uint64_t)heads[i].length : 0;
		enum head_verdict got = verdict_head(&meta, 100, &rs);
		if (got != heads[i].want)
			fault("9111 §4.3.5", heads[i].what, "%d", got);
	}
	table_ends();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uses),
		cmocka_unit_test(test_stale_if_error),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_heads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
