/* Freshness, as tables: what may be looked up, what may be stored, for how long, and what is kept beside it. */
#include "tests/unit/cache/verdict_table.h"

/* --- may a request be answered from the cache? ------------------------------------------------ */

static const struct {
	const char *rfc, *what;
	enum http_method method;
	const char *fields;
	enum http_framing framing;
	uint64_t length;
	unsigned site;
	enum request_verdict want;
} requests[] = {
	{ "9111 §2", "GET", METHOD_GET, NULL, FRAMING_NONE, 0, 0, REQUEST_LOOKUP },
	{ "9111 §2", "HEAD", METHOD_HEAD, NULL, FRAMING_NONE, 0, 0, REQUEST_LOOKUP },
	{ "9111 §2", "POST", METHOD_POST, NULL, FRAMING_LENGTH, 3, 0, REQUEST_METHOD },
	{ "9111 §2", "OPTIONS", METHOD_OPTIONS, NULL, FRAMING_NONE, 0, 0, REQUEST_METHOD },
	{ "9111 §2", "an unknown method", METHOD_OTHER, NULL, FRAMING_NONE, 0, 0, REQUEST_METHOD },
	{ "interface", "a rule bypasses", METHOD_GET, NULL, FRAMING_NONE, 0, BYPASS, REQUEST_BYPASS },
	{ "9111 §4.4", "an unsafe method invalidates in spite of it", METHOD_PUT, NULL,
	  FRAMING_LENGTH, 3, BYPASS, REQUEST_METHOD },
	{ "9110 §9.3.1", "a body with GET", METHOD_GET, NULL, FRAMING_LENGTH, 3, 0, REQUEST_BODY },
	{ "9110 §9.3.1", "a chunked one", METHOD_GET, NULL, FRAMING_CHUNKED, 0, 0, REQUEST_BODY },
	{ "9110 §9.3.1", "of no bytes", METHOD_GET, NULL, FRAMING_LENGTH, 0, 0, REQUEST_LOOKUP },
	{ "9110 §14.2", "a range", METHOD_GET, "Range: bytes=0-1\n", FRAMING_NONE, 0, 0, REQUEST_RANGE },
	{ "9110 §14.2", "of no account with HEAD", METHOD_HEAD, "Range: bytes=0-1\n", FRAMING_NONE,
	  0, 0, REQUEST_LOOKUP },
	{ "9111 §4.3.2", "If-Match is not for a cache", METHOD_GET, "If-Match: \"b\"\n",
	  FRAMING_NONE, 0, 0, REQUEST_LOOKUP },
	{ "9111 §5.2.1.4", "no-cache is about using", METHOD_GET, "Cache-Control: no-cache\n",
	  FRAMING_NONE, 0, HONOUR, REQUEST_LOOKUP },
	{ "9111 §4.4", "PURGE comes here only where it isn't one", METHOD_PURGE, NULL, FRAMING_NONE,
	  0, 0, REQUEST_METHOD },
	{ "9110 §9.3.8", "TRACE", METHOD_TRACE, NULL, FRAMING_NONE, 0, 0, REQUEST_METHOD },
	{ "9110 §9.3.5", "DELETE", METHOD_DELETE, NULL, FRAMING_NONE, 0, 0, REQUEST_METHOD },
	{ "9110 §9.3.2", "a body with HEAD", METHOD_HEAD, NULL, FRAMING_LENGTH, 1, 0, REQUEST_BODY },
};

static void test_acme_challenges_are_left_alone(void **state)
{
	struct http_request rq = { .method = METHOD_GET,
				   .path = VIEW("/.well-known/acme-challenge/token") };
	struct conf_cache site = site_of(0);

	(void)state;
	assert_int_equal(verdict_request(&rq, &site), REQUEST_BYPASS);
	rq.path = VIEW("/.well-known/change-password");
	assert_int_equal(verdict_request(&rq, &site), REQUEST_LOOKUP);
	rq.path = VIEW("/x/.well-known/acme-challenge/token");
	assert_int_equal(verdict_request(&rq, &site), REQUEST_LOOKUP);
}

static void test_requests(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		struct lines l;
		struct http_request rq = request_of(&l, requests[i].method, requests[i].fields);
		struct conf_cache site = site_of(requests[i].site);
		rq.framing = requests[i].framing;
		rq.length = requests[i].length;
		enum request_verdict got = verdict_request(&rq, &site);
		if (got != requests[i].want)
			fault(requests[i].rfc, requests[i].what, "%d", got);
	}
	table_ends();
}

/* --- may a response be stored, for how long, and who says so? ---------------------------------- */

static const struct {
	const char *rfc, *what;
	const char *request; /* fields of a GET */
	int status;
	const char *response;
	unsigned site;
	enum store_reason want;
	int lifetime_s; /* if stored … */
	const char *source;
} stores[] = {
	/* explicit lifetimes */
	{ "9111 §5.2.2.1", "max-age", NULL, 200, FRESH, 0, STORE_YES, 60, "max-age" },
	{ "9111 §5.2.2.10", "s-maxage before max-age", NULL, 200,
	  "Cache-Control: max-age=60, s-maxage=5\n", 0, STORE_YES, 5, "s-maxage" },
	{ "9111 §5.2.2.10", "in any order, from two lines", NULL, 200,
	  "Cache-Control: s-maxage=5\nCache-Control: max-age=60\n", 0, STORE_YES, 5, "s-maxage" },
	{ "9111 §5.3", "Expires", NULL, 200, "Date: " NOW "\nExpires: " IN_A_MINUTE "\n", 0,
	  STORE_YES, 60, "Expires" },
	{ "9111 §4.2.1", "Expires counts from Date, not from now", NULL, 200,
	  "Date: " MINUTE_AGO "\nExpires: " IN_A_MINUTE "\n", 0, STORE_YES, 120, "Expires" },
	{ "9111 §4.2.1", "from receipt where there is no Date", NULL, 200,
	  "Expires: " IN_A_MINUTE "\n", 0, STORE_YES, 60, "Expires" },
	{ "9111 §4.2.1", "or none that is valid", NULL, 200,
	  "Date: today\nExpires: " IN_A_MINUTE "\n", 0, STORE_YES, 60, "Expires" },
	{ "9111 §5.3", "max-age before Expires", NULL, 200, FRESH "Expires: " IN_AN_HOUR "\n", 0,
	  STORE_YES, 60, "max-age" },
	{ "9111 §5.3", "even a shorter one", NULL, 200, FRESH "Expires: " HOUR_AGO "\n", 0,
	  STORE_YES, 60, "max-age" },
	{ "9111 §5.3", "Expires: 0 is stale", NULL, 200, "Expires: 0\n" TAGGED, DEFAULT_60,
	  STORE_YES, 0, "Expires" },
	{ "9111 §5.3", "any invalid date is", NULL, 200, "Expires: tomorrow\n" TAGGED, DEFAULT_60,
	  STORE_YES, 0, "Expires" },
	{ "9111 §5.3", "an empty one too", NULL, 200, "Expires:\n" TAGGED, DEFAULT_60, STORE_YES, 0,
	  "Expires" },
	{ "9111 §5.3", "Expires before Date is stale", NULL, 200,
	  "Date: " NOW "\nExpires: " HOUR_AGO "\n" TAGGED, 0, STORE_YES, 0, "Expires" },
	{ "9111 §4.2.1", "two different Expires are stale", NULL, 200,
	  "Expires: " IN_AN_HOUR "\nExpires: " IN_A_MINUTE "\n" TAGGED, 0, STORE_YES, 0, "Expires" },
	{ "9111 §4.2.1", "two equal ones are one", NULL, 200,
	  "Expires: " IN_A_MINUTE "\nExpires: " IN_A_MINUTE "\n", 0, STORE_YES, 60, "Expires" },
	{ "9111 §4.2.1", "two different max-age are stale", NULL, 200,
	  "Cache-Control: max-age=60, max-age=5\n" TAGGED, 0, STORE_YES, 0, "max-age" },
	{ "9111 §4.2.1", "an invalid max-age is", NULL, 200, "Cache-Control: max-age=a\n" TAGGED, 0,
	  STORE_YES, 0, "max-age" },
	{ "9111 §4.2.1", "a negative one is", NULL, 200, "Cache-Control: max-age=-5\n" TAGGED,
	  DEFAULT_60, STORE_YES, 0, "max-age" },
	{ "9111 §1.2.2", "an enormous one is 2^31 seconds, cut to a year", NULL, 200,
	  "Cache-Control: max-age=99999999999999999999\n", 0, STORE_YES, 31536000, "max-age" },
	{ "9111 §5.2", "names ignore case", NULL, 200, "cache-control: MAX-Age=60\n", 0, STORE_YES,
	  60, "max-age" },
	{ "9111 §5.2", "a quoted argument", NULL, 200, "Cache-Control: max-age=\"60\"\n", 0,
	  STORE_YES, 60, "max-age" },
	{ "9111 §5.2.3", "unknown directives are ignored", NULL, 200,
	  "Cache-Control: foo, max-age=60, bar=\"no-store, private\"\n", 0, STORE_YES, 60, "max-age" },
	{ "9111 §5.4", "Pragma means nothing in a response", NULL, 200, FRESH "Pragma: no-cache\n",
	  0, STORE_YES, 60, "max-age" },

	{ "9111 §5.2", "no blank stands around the equals sign", NULL, 200,
	  "Cache-Control: max-age =60\n" TAGGED, 0, STORE_YES, 0, "max-age" },
	{ "9111 §5.2", "on neither side", NULL, 200, "Cache-Control: max-age= 60\n" TAGGED, 0,
	  STORE_YES, 0, "max-age" },
	{ "9111 §5.2", "blanks and commas around directives mean nothing", NULL, 200,
	  "Cache-Control: ,, ,\tmax-age=60 ,,\n", 0, STORE_YES, 60, "max-age" },
	{ "9111 §5.2", "two equal max-age are one", NULL, 200,
	  "Cache-Control: max-age=60, max-age=60\n", 0, STORE_YES, 60, "max-age" },
	{ "9111 §4.2.1", "from two lines that differ", NULL, 200,
	  FRESH "Cache-Control: max-age=5\n" TAGGED, 0, STORE_YES, 0, "max-age" },
	{ "9111 §1.2.2", "leading zeros", NULL, 200, "Cache-Control: max-age=0060\n", 0, STORE_YES,
	  60, "max-age" },
	{ "9111 §1.2.2", "no sign", NULL, 200, "Cache-Control: max-age=+60\n" TAGGED, 0, STORE_YES,
	  0, "max-age" },
	{ "9111 §1.2.2", "no fraction", NULL, 200, "Cache-Control: max-age=60.5\n" TAGGED, 0,
	  STORE_YES, 0, "max-age" },
	{ "9111 §1.2.2", "no unit", NULL, 200, "Cache-Control: max-age=60s\n" TAGGED, 0, STORE_YES,
	  0, "max-age" },
	{ "9111 §1.2.2", "no hexadecimal", NULL, 200, "Cache-Control: max-age=0x60\n" TAGGED, 0,
	  STORE_YES, 0, "max-age" },
	{ "9111 §5.2.2.1", "without a value", NULL, 200, "Cache-Control: max-age\n" TAGGED, 0,
	  STORE_YES, 0, "max-age" },
	{ "9111 §5.2.2.1", "with an empty one", NULL, 200, "Cache-Control: max-age=\n" TAGGED, 0,
	  STORE_YES, 0, "max-age" },
	{ "9111 §5.2.2.1", "in single quotes", NULL, 200, "Cache-Control: max-age='60'\n" TAGGED, 0,
	  STORE_YES, 0, "max-age" },
	{ "9111 §5.2", "separated by semicolons: one directive, and a broken one", NULL, 200,
	  "Cache-Control: max-age=60; public\n" TAGGED, 0, STORE_YES, 0, "max-age" },
	{ "9111 §5.2.2.10", "s-maxage=0 before max-age", NULL, 200,
	  "Cache-Control: s-maxage=0, max-age=60\n" TAGGED, 0, STORE_YES, 0, "s-maxage" },
	{ "9111 §5.2.2.10", "an invalid s-maxage doesn't fall back", NULL, 200,
	  "Cache-Control: s-maxage=x, max-age=60\n" TAGGED, 0, STORE_YES, 0, "s-maxage" },
	{ "9111 §5.2.2.10", "an invalid max-age doesn't matter beside s-maxage", NULL, 200,
	  "Cache-Control: s-maxage=60, max-age=x\n", 0, STORE_YES, 60, "s-maxage" },
	{ "9111 §5.2.2.10", "s-maxage before Expires", NULL, 200,
	  "Cache-Control: s-maxage=60\nExpires: " IN_AN_HOUR "\n", 0, STORE_YES, 60, "s-maxage" },
	{ "9111 §5.3", "an invalid max-age doesn't fall back to Expires", NULL, 200,
	  "Cache-Control: max-age=x\nExpires: " IN_AN_HOUR "\n" TAGGED, 0, STORE_YES, 0, "max-age" },
	{ "9111 §5.3", "Expires beside other directives", NULL, 200,
	  "Cache-Control: public\nDate: " NOW "\nExpires: " IN_A_MINUTE "\n", 0, STORE_YES, 60,
	  "Expires" },
	{ "9111 §5.3", "Expires that equals Date is stale", NULL, 200,
	  "Date: " NOW "\nExpires: " NOW "\n" TAGGED, 0, STORE_YES, 0, "Expires" },
	{ "9110 §5.6.7", "Expires in RFC 850's form", NULL, 200,
	  "Date: " NOW "\nExpires: Monday, 01-Jan-24 00:01:00 GMT\n", 0, STORE_YES, 60, "Expires" },
	{ "9110 §5.6.7", "in asctime's", NULL, 200,
	  "Date: " NOW "\nExpires: Mon Jan  1 00:01:00 2024\n", 0, STORE_YES, 60, "Expires" },
	{ "9111 §4.2", "in lower case", NULL, 200,
	  "Date: " NOW "\nExpires: mon, 01 jan 2024 00:01:00 gmt\n", 0, STORE_YES, 60, "Expires" },
	{ "9110 §5.6.7", "not in another zone", NULL, 200,
	  "Expires: Mon, 01 Jan 2024 00:01:00 CET\n" TAGGED, 0, STORE_YES, 0, "Expires" },
	{ "9110 §5.6.7", "nor with an offset", NULL, 200,
	  "Expires: Mon, 01 Jan 2024 00:01:00 +0000\n" TAGGED, 0, STORE_YES, 0, "Expires" },
	{ "9110 §5.6.7", "nor ISO 8601", NULL, 200, "Expires: 2024-01-01T00:01:00Z\n" TAGGED, 0,
	  STORE_YES, 0, "Expires" },
	{ "9110 §5.6.7", "nor seconds since 1970", NULL, 200, "Expires: 1704067260\n" TAGGED, 0,
	  STORE_YES, 0, "Expires" },
	{ "9110 §5.6.7", "nor without a comma", NULL, 200,
	  "Expires: Mon 01 Jan 2024 00:01:00 GMT\n" TAGGED, 0, STORE_YES, 0, "Expires" },
	{ "9110 §5.6.7", "nor with a day of one digit", NULL, 200,
	  "Expires: Mon, 1 Jan 2024 00:01:00 GMT\n" TAGGED, 0, STORE_YES, 0, "Expires" },
	{ "9110 §5.6.7", "nor a day that isn't", NULL, 200,
	  "Expires: Thu, 30 Feb 2034 00:01:00 GMT\n" TAGGED, 0, STORE_YES, 0, "Expires" },
	{ "9111 §4.2.1", "far away: cut to a year", NULL, 200,
	  "Date: " NOW "\nExpires: Sun, 21 Nov 2286 04:46:39 GMT\n", 0, STORE_YES, 31536000, "Expires" },
	{ "9111 §5.3", "in quotes", NULL, 200, "Expires: \"" IN_A_MINUTE "\"\n" TAGGED, 0,
	  STORE_YES, 0, "Expires" },
	{ "9111 §5.2.3", "a directive that only requests have", NULL, 200,
	  "Cache-Control: max-age=60, only-if-cached, min-fresh=999\n", 0, STORE_YES, 60, "max-age" },

	/* what forbids */
	{ "9111 §3", "no-store", NULL, 200, "Cache-Control: no-store, max-age=60\n", 0,
	  STORE_NO_STORE, 0, NULL },
	{ "9111 §3", "private", NULL, 200, "Cache-Control: private, max-age=60\n", 0, STORE_PRIVATE,
	  0, NULL },
	{ "9111 §5.2.2.7", "private beats public", NULL, 200,
	  "Cache-Control: public, private, max-age=60\n", 0, STORE_PRIVATE, 0, NULL },
	{ "9111 §5.2.2.7", "private with fields keeps back those", NULL, 200,
	  "Cache-Control: private=\"x-user\", max-age=60\n", 0, STORE_YES, 60, "max-age" },
	{ "choice", "unless the rest means nothing without them", NULL, 200,
	  "Cache-Control: private=\"content-encoding\", max-age=60\n", 0, STORE_PRIVATE, 0, NULL },
	{ "choice", "among others", NULL, 200, "Cache-Control: private=\"x, vary\", max-age=60\n",
	  0, STORE_PRIVATE, 0, NULL },
	{ "9111 §5.2.2.7", "with and without fields: without", NULL, 200,
	  "Cache-Control: private=\"x\", private, max-age=60\n", 0, STORE_PRIVATE, 0, NULL },
	{ "9111 §5.2.2.7", "a list that is none", NULL, 200,
	  "Cache-Control: private=\"a b\", max-age=60\n", 0, STORE_PRIVATE, 0, NULL },
	{ "9111 §5.2.2.7", "an empty one", NULL, 200, "Cache-Control: private=\"\", max-age=60\n",
	  0, STORE_PRIVATE, 0, NULL },
	{ "interface", "private=\"set-cookie\" doesn't make Set-Cookie pass by", NULL, 200,
	  "Cache-Control: private=\"set-cookie\", max-age=60\nSet-Cookie: a=b\n", 0,
	  STORE_SET_COOKIE, 0, NULL },
	{ "9111 §5.2.2.5", "no-store on a second line", NULL, 200,
	  FRESH "Cache-Control: no-store\n", 0, STORE_NO_STORE, 0, NULL },
	{ "9111 §5.2", "in capitals", NULL, 200, "Cache-Control: NO-STORE\n", 0, STORE_NO_STORE, 0, NULL },
	{ "9111 §5.2", "with an argument that it doesn't take", NULL, 200,
	  "Cache-Control: no-store=1, max-age=60\n", 0, STORE_NO_STORE, 0, NULL },
	{ "9111 §5.2", "inside a quoted string it is none", NULL, 200,
	  "Cache-Control: x=\"a, no-store, b\", max-age=60\n", 0, STORE_YES, 60, "max-age" },
	{ "9111 §5.2", "nor as a part of a word", NULL, 200,
	  "Cache-Control: no-store-please, max-age=60\n", 0, STORE_YES, 60, "max-age" },
	{ "9111 §5.2.2.5", "public doesn't lift it", NULL, 200,
	  "Cache-Control: public, no-store, max-age=60\n", 0, STORE_NO_STORE, 0, NULL },
	{ "9111 §5.2.2.5", "nor s-maxage", NULL, 200, "Cache-Control: s-maxage=60, no-store\n", 0,
	  STORE_NO_STORE, 0, NULL },
	{ "9111 §5.2.2.3", "must-understand overrides no-store for a known status", NULL, 200,
	  "Cache-Control: must-understand, no-store, max-age=60\n", 0, STORE_YES, 60, "max-age" },
	{ "9111 §5.2.2.3", "and forbids an unknown one", NULL, 299,
	  "Cache-Control: must-understand, max-age=60\n", 0, STORE_STATUS, 0, NULL },
	{ "9111 §5.2.2.3", "it overrides no private", NULL, 200,
	  "Cache-Control: must-understand, private, max-age=60\n", 0, STORE_PRIVATE, 0, NULL },
	{ "interface", "a rule's bypass", NULL, 200, FRESH, BYPASS, STORE_BYPASS, 0, NULL },
	{ "9111 §4.1", "Vary: *", NULL, 200, FRESH "Vary: *\n", 0, STORE_VARY_STAR, 0, NULL },
	{ "9111 §4.1", "among others", NULL, 200, FRESH "Vary: accept\nVary: a, *\n", 0,
	  STORE_VARY_STAR, 0, NULL },
	{ "choice", "Vary that names no field is as *", NULL, 200, FRESH "Vary: a b\n", 0,
	  STORE_VARY_STAR, 0, NULL },
	{ "9111 §4.1", "other Vary is stored", NULL, 200, FRESH "Vary: accept\n", 0, STORE_YES, 60,
	  "max-age" },

	/* no-cache */
	{ "9111 §5.2.2.4", "no-cache is stored, to be validated", NULL, 200,
	  "Cache-Control: no-cache\n" TAGGED, 0, STORE_YES, 0, "default_ttl" },
	{ "9111 §5.2.2.4", "but useless without a validator", NULL, 200,
	  "Cache-Control: no-cache, max-age=60\n", SWR_20 | SIE_20, STORE_NO_CACHE, 0, NULL },
	{ "9111 §5.2.2.4", "no-cache with fields is about those", NULL, 200,
	  "Cache-Control: no-cache=\"x\", max-age=60\n", 0, STORE_YES, 60, "max-age" },
	{ "choice", "unless the rest means nothing without them", NULL, 200,
	  "Cache-Control: no-cache=\"etag\", max-age=60\n", 0, STORE_NO_CACHE, 0, NULL },
	{ "9111 §5.2.2.4", "with and without fields: without", NULL, 200,
	  "Cache-Control: no-cache, no-cache=\"x\", max-age=60\n", 0, STORE_NO_CACHE, 0, NULL },

	/* statuses */
	{ "9111 §3", "informational", NULL, 103, FRESH, 0, STORE_STATUS, 0, NULL },
	{ "9111 §3", "304 is no response of its own", NULL, 304, FRESH TAGGED, 0, STORE_STATUS, 0, NULL },
	{ "9110 §15.5.13", "412 is about the request's precondition", NULL, 412, FRESH, 0,
	  STORE_STATUS, 0, NULL },
	{ "8470 §5.2", "425 is about when the request came", NULL, 425, FRESH, 0, STORE_STATUS, 0, NULL },
	{ "9111 §3.3", "206", NULL, 206, FRESH "Content-Range: bytes 0-1/9\n", 0, STORE_PARTIAL, 0, NULL },
	{ "choice", "416 is about a range", NULL, 416, FRESH, 0, STORE_PARTIAL, 0, NULL },
	{ "9111 §3", "any final status with an explicit lifetime: 302", NULL, 302, FRESH, 0,
	  STORE_YES, 60, "max-age" },
	{ "9111 §3", "500", NULL, 500, FRESH, 0, STORE_YES, 60, "max-age" },
	{ "9111 §3", "405", NULL, 405, FRESH, 0, STORE_YES, 60, "max-age" },
	{ "9111 §3", "one that nobody knows", NULL, 299, FRESH, 0, STORE_YES, 60, "max-age" },
	{ "9111 §3", "302 without one", NULL, 302, TAGGED, DEFAULT_60, STORE_STATUS, 0, NULL },
	{ "9111 §3", "500 without one", NULL, 500, TAGGED, DEFAULT_60, STORE_STATUS, 0, NULL },
	{ "9111 §3", "302 with public", NULL, 302, "Cache-Control: public\n", DEFAULT_60, STORE_YES,
	  60, "default_ttl" },
	{ "9110 §15.1", "200", NULL, 200, NULL, DEFAULT_60, STORE_YES, 60, "default_ttl" },
	{ "9110 §15.1", "203", NULL, 203, NULL, DEFAULT_60, STORE_YES, 60, "default_ttl" },
	{ "9110 §15.1", "204", NULL, 204, NULL, DEFAULT_60, STORE_YES, 60, "default_ttl" },
	{ "9110 §15.1", "300", NULL, 300, NULL, DEFAULT_60, STORE_YES, 60, "default_ttl" },
	{ "9110 §15.1", "301", NULL, 301, NULL, DEFAULT_60, STORE_YES, 60, "default_ttl" },
	{ "9110 §15.1", "308", NULL, 308, NULL, DEFAULT_60, STORE_YES, 60, "default_ttl" },
	{ "9110 §15.1", "404", NULL, 404, NULL, DEFAULT_60, STORE_YES, 60, "default_ttl" },
	{ "9110 §15.1", "410", NULL, 410, NULL, DEFAULT_60, STORE_YES, 60, "default_ttl" },
	{ "interface", "not 405", NULL, 405, NULL, DEFAULT_60, STORE_STATUS, 0, NULL },
	{ "interface", "not 414", NULL, 414, NULL, DEFAULT_60, STORE_STATUS, 0, NULL },
	{ "interface", "not 501", NULL, 501, NULL, DEFAULT_60, STORE_STATUS, 0, NULL },
	{ "interface", "public doesn't help them", NULL, 405, "Cache-Control: public\n", DEFAULT_60,
	  STORE_STATUS, 0, NULL },
	{ "interface", "nor does Last-Modified", NULL, 405, "Last-Modified: " YEAR_AGO "\n", 0,
	  STORE_STATUS, 0, NULL },
	{ "9110 §15.1", "201 is not heuristically cacheable", NULL, 201,
	  "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL, STORE_STATUS, 0, NULL },
	{ "9110 §15.1", "nor 202", NULL, 202, "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL,
	  STORE_STATUS, 0, NULL },
	{ "9110 §15.1", "nor 302", NULL, 302, "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL,
	  STORE_STATUS, 0, NULL },
	{ "9110 §15.1", "nor 307", NULL, 307, "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL,
	  STORE_STATUS, 0, NULL },
	{ "9110 §15.1", "nor 403", NULL, 403, "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL,
	  STORE_STATUS, 0, NULL },
	{ "9110 §15.1", "nor 400", NULL, 400, "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL,
	  STORE_STATUS, 0, NULL },
	{ "9110 §15.1", "nor 413", NULL, 413, "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL,
	  STORE_STATUS, 0, NULL },
	{ "9110 §15.1", "nor 431", NULL, 431, "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL,
	  STORE_STATUS, 0, NULL },
	{ "9110 §15.1", "nor 500", NULL, 500, "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL,
	  STORE_STATUS, 0, NULL },
	{ "9110 §15.1", "nor 503", NULL, 503, "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL,
	  STORE_STATUS, 0, NULL },
	{ "9110 §15.1", "206 is for the chunk map", NULL, 206, "Last-Modified: " YEAR_AGO "\n",
	  HEURISTIC_ALL, STORE_PARTIAL, 0, NULL },
	{ "9110 §15.1", "\"heuristic\": \"all\": 405", NULL, 405, "Last-Modified: " YEAR_AGO "\n",
	  HEURISTIC_ALL, STORE_YES, 86400, "heuristic" },
	{ "9110 §15.1", "414", NULL, 414, "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL, STORE_YES,
	  86400, "heuristic" },
	{ "9110 §15.1", "501", NULL, 501, "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL, STORE_YES,
	  86400, "heuristic" },
	{ "interface", "but not by default_ttl", NULL, 405, NULL, HEURISTIC_ALL | DEFAULT_60,
	  STORE_STATUS, 0, NULL },
	{ "interface", "nor by statuses", NULL, 405, "Last-Modified: " YEAR_AGO "\n",
	  HEURISTIC_ALL | STATUSES, STORE_STATUS, 0, NULL },
	{ "interface", "nor for a request with a Cookie", "Cookie: a=b\n", 405,
	  "Last-Modified: " YEAR_AGO "\n", HEURISTIC_ALL, STORE_COOKIE_REQUEST, 0, NULL },
	{ "9111 §3", "an explicit 0 makes a 500 storable, with a validator", NULL, 500,
	  "Cache-Control: max-age=0\n" TAGGED, 0, STORE_YES, 0, "max-age" },
	{ "9111 §3", "so does Expires in the past", NULL, 500, "Expires: " HOUR_AGO "\n" TAGGED, 0,
	  STORE_YES, 0, "Expires" },
	{ "9111 §3", "401 with an explicit lifetime", NULL, 401, FRESH, 0, STORE_YES, 60, "max-age" },
	{ "9111 §3", "407 with one", NULL, 407, FRESH, 0, STORE_YES, 60, "max-age" },
	{ "9111 §3", "599 with one", NULL, 599, FRESH, 0, STORE_YES, 60, "max-age" },

	/* "statuses" */
	{ "interface", "statuses", NULL, 503, NULL, STATUSES, STORE_YES, 2, "statuses" },
	{ "interface", "the narrowest counts", NULL, 404, NULL, STATUSES, STORE_YES, 7, "statuses" },
	{ "interface", "wherever it stands", NULL, 410, NULL, STATUSES, STORE_YES, 3, "statuses" },
	{ "interface", "else the wider", NULL, 403, NULL, STATUSES, STORE_YES, 5, "statuses" },
	{ "interface", "a status that RFC 9111 alone would refuse", NULL, 302, NULL, STATUSES,
	  STORE_YES, 9, "statuses" },
	{ "interface", "the origin's word comes first", NULL, 404, FRESH, STATUSES, STORE_YES, 60,
	  "max-age" },
	{ "interface", "a 404 before the heuristic", NULL, 404, "Last-Modified: " YEAR_AGO "\n",
	  STATUSES | DEFAULT_60, STORE_YES, 7, "statuses" },
	{ "interface", "not 400", NULL, 400, NULL, STATUSES, STORE_STATUS, 0, NULL },
	{ "interface", "not 413", NULL, 413, NULL, STATUSES, STORE_STATUS, 0, NULL },
	{ "interface", "not 431", NULL, 431, NULL, STATUSES, STORE_STATUS, 0, NULL },
	{ "interface", "not 501", NULL, 501, NULL, STATUSES, STORE_STATUS, 0, NULL },

	/* the heuristic */
	{ "9111 §4.2.2", "a tenth of what passed since it was modified", NULL, 200,
	  "Date: " NOW "\nLast-Modified: " TEN_MINUTES_AGO "\n", 0, STORE_YES, 60, "heuristic" },
	{ "9111 §4.2.2", "at most a day", NULL, 200, "Date: " NOW "\nLast-Modified: " YEAR_AGO "\n",
	  0, STORE_YES, 86400, "heuristic" },
	{ "9111 §4.2.2", "counted from Date", NULL, 200,
	  "Date: " MINUTE_AGO "\nLast-Modified: " TEN_MINUTES_AGO "\n", 0, STORE_YES, 54, "heuristic" },
	{ "interface", "before default_ttl", NULL, 200, "Last-Modified: " TEN_MINUTES_AGO "\n",
	  DEFAULT_60 | MAX_10, STORE_YES, 10, "heuristic" },
	{ "9111 §4.2.2", "never over an explicit lifetime", NULL, 200,
	  "Cache-Control: max-age=0\nLast-Modified: " YEAR_AGO "\n", 0, STORE_YES, 0, "max-age" },
	{ "interface", "it can be switched off", NULL, 200, "Last-Modified: " YEAR_AGO "\n",
	  NO_HEURISTIC | DEFAULT_60, STORE_YES, 60, "default_ttl" },
	{ "9111 §4.2.2", "modified in the future: none", NULL, 200,
	  "Date: " NOW "\nLast-Modified: " IN_AN_HOUR "\n", DEFAULT_60, STORE_YES, 60, "default_ttl" },
	{ "9111 §4.2.2", "no valid date: none", NULL, 200, "Last-Modified: long ago\n", DEFAULT_60,
	  STORE_YES, 60, "default_ttl" },
	{ "9111 §4.2.2", "an ETag alone: none", NULL, 200, TAGGED, 0, STORE_YES, 0, "default_ttl" },
	{ "9111 §4.2.2", "a 500: none", NULL, 500, "Last-Modified: " YEAR_AGO "\n", 0, STORE_STATUS,
	  0, NULL },
	{ "9111 §4.2.2", "a 500 that is public", NULL, 500,
	  "Cache-Control: public\nDate: " NOW "\nLast-Modified: " TEN_MINUTES_AGO "\n", 0,
	  STORE_YES, 60, "heuristic" },

	/* a rule's ttl, min_ttl, max_ttl */
	{ "interface", "a rule before all", NULL, 200, "Cache-Control: s-maxage=5\n", RULE_30,
	  STORE_YES, 30, "rule" },
	{ "interface", "even 0", NULL, 200, FRESH TAGGED, RULE_0, STORE_YES, 0, "rule" },
	{ "interface", "where the origin says nothing", NULL, 200, NULL, RULE_30, STORE_YES, 30, "rule" },
	{ "interface", "it doesn't lift no-store", NULL, 200, "Cache-Control: no-store\n", RULE_30,
	  STORE_NO_STORE, 0, NULL },
	{ "interface", "nor private", NULL, 200, "Cache-Control: private\n", RULE_30, STORE_PRIVATE,
	  0, NULL },
	{ "interface", "nor no-cache", NULL, 200, "Cache-Control: no-cache\n", RULE_30,
	  STORE_NO_CACHE, 0, NULL },
	{ "interface", "nor Set-Cookie", NULL, 200, "Set-Cookie: a=b\n", RULE_30, STORE_SET_COOKIE,
	  0, NULL },
	{ "interface", "it is not Brim's own decision: a Cookie is allowed", "Cookie: a=b\n", 200,
	  NULL, RULE_30, STORE_YES, 30, "rule" },
	{ "9111 §3.5", "Authorization isn't", "Authorization: Basic eDp5\n", 200, NULL, RULE_30,
	  STORE_AUTHORIZATION, 0, NULL },
	{ "choice", "it makes no 500 storable", NULL, 500, NULL, RULE_30, STORE_STATUS, 0, NULL },
	{ "choice", "nor a provoked 405", NULL, 405, NULL, RULE_30, STORE_STATUS, 0, NULL },
	{ "choice", "but replaces what the origin said of it", NULL, 500, FRESH, RULE_30, STORE_YES,
	  30, "rule" },
	{ "interface", "min_ttl", NULL, 200, FRESH, MIN_100, STORE_YES, 100, "max-age" },
	{ "interface", "even over 0", NULL, 200, "Cache-Control: max-age=0\n", MIN_100, STORE_YES,
	  100, "max-age" },
	{ "interface", "but not over no-store", NULL, 200, "Cache-Control: no-store\n", MIN_100,
	  STORE_NO_STORE, 0, NULL },
	{ "interface", "max_ttl", NULL, 200, FRESH, MAX_10, STORE_YES, 10, "max-age" },
	{ "interface", "max_ttl clamps a rule too", NULL, 200, NULL, RULE_30 | MAX_10, STORE_YES,
	  10, "rule" },
	{ "interface", "and min_ttl", NULL, 200, FRESH, MIN_100 | MAX_10, STORE_YES, 10, "max-age" },

	/* ignore_headers */
	{ "interface", "Cache-Control ignored: no-store", NULL, 200, "Cache-Control: no-store\n",
	  IGNORE_CC | RULE_30, STORE_YES, 30, "rule" },
	{ "interface", "private, max-age", NULL, 200, "Cache-Control: private, max-age=9\n",
	  IGNORE_CC | DEFAULT_60, STORE_YES, 60, "default_ttl" },
	{ "interface", "no-cache", NULL, 200, "Cache-Control: no-cache\n", IGNORE_CC | RULE_30,
	  STORE_YES, 30, "rule" },
	{ "interface", "Expires still counts", NULL, 200,
	  "Cache-Control: max-age=9\nExpires: " IN_A_MINUTE "\n", IGNORE_CC, STORE_YES, 60, "Expires" },
	{ "interface", "Expires ignored", NULL, 200, "Expires: 0\n", IGNORE_EXPIRES | DEFAULT_60,
	  STORE_YES, 60, "default_ttl" },
	{ "9111 §3.5", "an ignored public allows nothing", "Authorization: Basic eDp5\n", 200,
	  "Cache-Control: public, max-age=60\n", IGNORE_CC | RULE_30, STORE_AUTHORIZATION, 0, NULL },

	/* Authorization */
	{ "9111 §3.5", "Authorization", "Authorization: Basic eDp5\n", 200, FRESH, 0,
	  STORE_AUTHORIZATION, 0, NULL },
	{ "9111 §3.5", "with public", "Authorization: Basic eDp5\n", 200,
	  "Cache-Control: public, max-age=60\n", 0, STORE_YES, 60, "max-age" },
	{ "9111 §3.5", "with s-maxage", "Authorization: Basic eDp5\n", 200,
	  "Cache-Control: s-maxage=60\n", 0, STORE_YES, 60, "s-maxage" },
	{ "9111 §3.5", "with must-revalidate", "Authorization: Basic eDp5\n", 200,
	  "Cache-Control: max-age=60, must-revalidate\n", 0, STORE_YES, 60, "max-age" },
	{ "9111 §3.5", "with an s-maxage of 0", "Authorization: Basic eDp5\n", 200,
	  "Cache-Control: s-maxage=0\n" TAGGED, 0, STORE_YES, 0, "s-maxage" },
	{ "9111 §3.5", "public with an argument allows nothing", "Authorization: Basic eDp5\n", 200,
	  "Cache-Control: public=1, max-age=60\n", 0, STORE_AUTHORIZATION, 0, NULL },
	{ "9111 §3.5", "an empty Authorization is one", "Authorization:\n", 200, FRESH, 0,
	  STORE_AUTHORIZATION, 0, NULL },
	{ "9111 §3.5", "no-cache doesn't allow it", "Authorization: Basic eDp5\n", 200,
	  "Cache-Control: no-cache\n" TAGGED, 0, STORE_AUTHORIZATION, 0, NULL },
	{ "9111 §3.5", "Proxy-Authorization is not about the answer",
	  "Proxy-Authorization: Basic eDp5\n", 200, FRESH, 0, STORE_YES, 60, "max-age" },
	{ "9111 §3.5", "with a rule's ttl and public", "Authorization: Basic eDp5\n", 200,
	  "Cache-Control: public\n", RULE_30, STORE_YES, 30, "rule" },
	{ "9111 §3.5", "proxy-revalidate is not enough", "Authorization: Basic eDp5\n", 200,
	  "Cache-Control: max-age=60, proxy-revalidate\n", 0, STORE_AUTHORIZATION, 0, NULL },
	{ "interface", "where Brim decides, public is not enough", "Authorization: Basic eDp5\n",
	  200, "Cache-Control: public\n", DEFAULT_60, STORE_AUTHORIZATION, 0, NULL },

	/* Cookie and Set-Cookie */
	{ "interface", "a Cookie, an explicit lifetime", "Cookie: a=b\n", 200, FRESH, 0, STORE_YES,
	  60, "max-age" },
	{ "interface", "a Cookie, default_ttl", "Cookie: a=b\n", 200, NULL, DEFAULT_60,
	  STORE_COOKIE_REQUEST, 0, NULL },
	{ "interface", "a Cookie, the heuristic", "Cookie: a=b\n", 200,
	  "Last-Modified: " YEAR_AGO "\n", 0, STORE_COOKIE_REQUEST, 0, NULL },
	{ "interface", "a Cookie, statuses", "Cookie: a=b\n", 404, NULL, STATUSES,
	  STORE_COOKIE_REQUEST, 0, NULL },
	{ "interface", "Set-Cookie passes", NULL, 200, FRESH "Set-Cookie: a=b\n", 0,
	  STORE_SET_COOKIE, 0, NULL },
	{ "interface", "strip", NULL, 200, FRESH "Set-Cookie: a=b\n", COOKIE_STRIP, STORE_YES, 60,
	  "max-age" },
	{ "interface", "store", NULL, 200, FRESH "Set-Cookie: a=b\n", COOKIE_STORE, STORE_YES, 60,
	  "max-age" },
	{ "interface", "strip, a rule", NULL, 200, "Set-Cookie: a=b\n", COOKIE_STRIP | RULE_30,
	  STORE_YES, 30, "rule" },
	{ "interface", "strip, where Brim decides", NULL, 200, "Set-Cookie: a=b\n",
	  COOKIE_STRIP | DEFAULT_60, STORE_SET_COOKIE, 0, NULL },
	{ "interface", "store, where Brim decides", NULL, 200, "Set-Cookie: a=b\n",
	  COOKIE_STORE | DEFAULT_60, STORE_SET_COOKIE, 0, NULL },
	{ "interface", "ignored", NULL, 200, FRESH "Set-Cookie: a=b\n", IGNORE_COOKIE, STORE_YES,
	  60, "max-age" },
	{ "interface", "ignored, where Brim decides", NULL, 200, "Set-Cookie: a=b\n",
	  IGNORE_COOKIE | DEFAULT_60, STORE_YES, 60, "default_ttl" },

	{ "interface", "several Set-Cookie", NULL, 200, FRESH "Set-Cookie: a=b\nSet-Cookie: c=d\n",
	  0, STORE_SET_COOKIE, 0, NULL },
	{ "interface", "public doesn't lift it", NULL, 200,
	  "Cache-Control: public, max-age=60\nSet-Cookie: a=b\n", 0, STORE_SET_COOKIE, 0, NULL },
	{ "interface", "an empty Set-Cookie is one", NULL, 200, FRESH "Set-Cookie:\n", 0,
	  STORE_SET_COOKIE, 0, NULL },
	{ "interface", "strip, statuses", NULL, 404, "Set-Cookie: a=b\n", COOKIE_STRIP | STATUSES,
	  STORE_SET_COOKIE, 0, NULL },
	{ "interface", "a Cookie, \"public\" alone", "Cookie: a=b\n", 200,
	  "Cache-Control: public\n", DEFAULT_60, STORE_COOKIE_REQUEST, 0, NULL },
	{ "interface", "a Cookie, no-cache and no lifetime", "Cookie: a=b\n", 200,
	  "Cache-Control: no-cache\n" TAGGED, 0, STORE_COOKIE_REQUEST, 0, NULL },
	{ "interface", "a Cookie, an explicit 0", "Cookie: a=b\n", 200,
	  "Cache-Control: max-age=0\n" TAGGED, 0, STORE_YES, 0, "max-age" },

	/* a client's no-store */
	{ "9111 §5.2.1.5", "no-store honoured", "Cache-Control: no-store\n", 200, FRESH, HONOUR,
	  STORE_NO_STORE, 0, NULL },
	{ "interface", "ignored by default", "Cache-Control: no-store\n", 200, FRESH, 0, STORE_YES,
	  60, "max-age" },
	{ "9111 §5.2.1.4", "a client's no-cache forbids no storing", "Cache-Control: no-cache\n",
	  200, FRESH, HONOUR, STORE_YES, 60, "max-age" },

	/* no lifetime: is it of use? */
	{ "9111 §4.3", "max-age=0 with an ETag", NULL, 200, "Cache-Control: max-age=0\n" TAGGED, 0,
	  STORE_YES, 0, "max-age" },
	{ "9111 §4.3", "with Last-Modified", NULL, 200,
	  "Cache-Control: max-age=0\nLast-Modified: " YEAR_AGO "\n", 0, STORE_YES, 0, "max-age" },
	{ "9111 §4.3", "with neither", NULL, 200, "Cache-Control: max-age=0\n", 0,
	  STORE_NO_LIFETIME, 0, NULL },
	{ "9110 §8.8.3", "an ETag without quotes is none", NULL, 200,
	  "Cache-Control: max-age=0\nETag: a\n", 0, STORE_NO_LIFETIME, 0, NULL },
	{ "9111 §4.2", "nothing said at all", NULL, 200, NULL, 0, STORE_NO_LIFETIME, 0, NULL },
	{ "9111 §4.2.3", "stale on arrival", NULL, 200, FRESH "Age: 60\n", 0, STORE_NO_LIFETIME, 0, NULL },
	{ "5861 §3", "stale-while-revalidate makes it useful", NULL, 200,
	  "Cache-Control: max-age=0, stale-while-revalidate=5\n", 0, STORE_YES, 0, "max-age" },
	{ "5861 §4", "stale-if-error does", NULL, 200,
	  "Cache-Control: max-age=0, stale-if-error=5\n", 0, STORE_YES, 0, "max-age" },
	{ "interface", "the site's does, where the origin says nothing", NULL, 200,
	  "Cache-Control: max-age=0\n", SIE_20, STORE_YES, 0, "max-age" },
	{ "interface", "not where it says 0", NULL, 200,
	  "Cache-Control: max-age=0, stale-if-error=0\n", SIE_20, STORE_NO_LIFETIME, 0, NULL },
	{ "9111 §5.2.2.2", "must-revalidate takes it away", NULL, 200,
	  "Cache-Control: max-age=0, must-revalidate, stale-if-error=5\n", 0, STORE_NO_LIFETIME, 0,
	  NULL },
	{ "9111 §5.2.2.10", "so does s-maxage", NULL, 200,
	  "Cache-Control: s-maxage=0, stale-while-revalidate=5\n", 0, STORE_NO_LIFETIME, 0, NULL },
};

/* RFC 9213: rows as above. */
#define CDN(x) "CDN-Cache-Control: " x "\n"
#define AUTHORIZED "Authorization: Basic eDp5\n"

static const struct {
	const char *rfc, *what;
	const char *request;
	const char *response;
	unsigned site;
	enum store_reason want;
	int lifetime_s;
	const char *source, *field;
} targeted[] = {
	{ "9213 §2.2", "it comes before Cache-Control", NULL, CDN("max-age=5") FRESH, 0, STORE_YES,
	  5, "max-age", "CDN-Cache-Control" },
	{ "9213 §2.2", "and before Expires", NULL, CDN("max-age=5") "Expires: " IN_AN_HOUR "\n", 0,
	  STORE_YES, 5, "max-age", "CDN-Cache-Control" },
	{ "9213 §2.2", "it replaces wholly: Expires isn't looked at", NULL,
	  CDN("public") "Expires: " IN_AN_HOUR "\n", DEFAULT_60, STORE_YES, 60, "default_ttl",
	  "CDN-Cache-Control" },
	{ "9213 §2.2", "nor max-age", NULL, CDN("must-revalidate") FRESH TAGGED, 0, STORE_YES, 0,
	  "default_ttl", "CDN-Cache-Control" },
	{ "9213 §2.2", "nor Cache-Control's no-store", NULL, CDN("max-age=5") "Cache-Control: no-store\n",
	  0, STORE_YES, 5, "max-age", "CDN-Cache-Control" },
	{ "9213 §2.2", "nor private", NULL, CDN("max-age=5") "Cache-Control: private\n", 0,
	  STORE_YES, 5, "max-age", "CDN-Cache-Control" },
	{ "9213 §2.2", "nor no-cache", NULL, CDN("max-age=5") "Cache-Control: no-cache\n", 0,
	  STORE_YES, 5, "max-age", "CDN-Cache-Control" },
	{ "9213 §2.2", "its no-store forbids what Cache-Control allows", NULL,
	  CDN("no-store") FRESH, 0, STORE_NO_STORE, 0, NULL, NULL },
	{ "9213 §2.2", "its private does", NULL, CDN("private") FRESH, 0, STORE_PRIVATE, 0, NULL, NULL },
	{ "9213 §2.2", "its no-cache does", NULL, CDN("no-cache") FRESH, 0, STORE_NO_CACHE, 0, NULL,
	  NULL },
	{ "9213 §2.1", "s-maxage before max-age in it, too", NULL, CDN("max-age=60, s-maxage=5"), 0,
	  STORE_YES, 5, "s-maxage", "CDN-Cache-Control" },
	{ "9213 §2.1", "parameters mean nothing", NULL, CDN("max-age=5;a=b") FRESH, 0, STORE_YES, 5,
	  "max-age", "CDN-Cache-Control" },
	{ "9213 §2.1", "unknown members mean nothing", NULL, CDN("foo=(a b), max-age=5") FRESH, 0,
	  STORE_YES, 5, "max-age", "CDN-Cache-Control" },
	{ "9651 §3.2", "the last of two counts", NULL, CDN("max-age=60, max-age=5"), 0, STORE_YES,
	  5, "max-age", "CDN-Cache-Control" },
	{ "9651 §3.2", "from two lines", NULL, CDN("max-age=60") CDN("max-age=5"), 0, STORE_YES, 5,
	  "max-age", "CDN-Cache-Control" },
	{ "9213 §2.2", "broken: as if absent", NULL, CDN("max-age=5, &&") FRESH, 0, STORE_YES, 60,
	  "max-age", "Cache-Control" },
	{ "9213 §2.2", "broken by a space around the equals sign", NULL, CDN("max-age = 5") FRESH,
	  0, STORE_YES, 60, "max-age", "Cache-Control" },
	{ "9213 §2.2", "broken though it says no-store", NULL, CDN("no-store, &&") FRESH, 0,
	  STORE_YES, 60, "max-age", "Cache-Control" },
	{ "9213 §2.2", "broken: Cache-Control's no-store stands", NULL,
	  CDN("&&") "Cache-Control: no-store\n", 0, STORE_NO_STORE, 0, NULL, NULL },
	{ "9213 §2.2", "empty: as if absent", NULL, CDN("") FRESH, 0, STORE_YES, 60, "max-age",
	  "Cache-Control" },
	{ "9213 §2.1", "max-age of a wrong type", NULL, CDN("max-age=\"5\"") FRESH, 0, STORE_YES,
	  60, "max-age", "Cache-Control" },
	{ "9213 §2.1", "keys are in lower case: a Dictionary has no others", NULL,
	  CDN("Max-Age=5") FRESH, 0, STORE_YES, 60, "max-age", "Cache-Control" },
	{ "9213 §2.1", "its name is in any case", NULL, "cdn-cache-control: max-age=5\n" FRESH, 0,
	  STORE_YES, 5, "max-age", "CDN-Cache-Control" },
	{ "9213 §2.2", "the site lists none", NULL, CDN("max-age=5") FRESH, NO_TARGETS, STORE_YES,
	  60, "max-age", "Cache-Control" },
	{ "9213 §2.2", "one that the site doesn't list", NULL,
	  "Edge-Cache-Control: max-age=5\n" FRESH, 0, STORE_YES, 60, "max-age", "Cache-Control" },
	{ "9213 §2.2", "the first of the list", NULL, CDN("max-age=5") "Edge-Cache-Control: max-age=7\n",
	  TARGETS, STORE_YES, 7, "max-age", "Edge-Cache-Control" },
	{ "9213 §2.2", "the first that is there", NULL, CDN("max-age=5") FRESH, TARGETS, STORE_YES,
	  5, "max-age", "CDN-Cache-Control" },
	{ "9213 §2.2", "the first that is valid", NULL, "Edge-Cache-Control: &&\n" CDN("max-age=5") FRESH,
	  TARGETS, STORE_YES, 5, "max-age", "CDN-Cache-Control" },
	{ "interface", "Surrogate-Control only if it is listed", NULL,
	  "Surrogate-Control: max-age=5\n" FRESH, 0, STORE_YES, 60, "max-age", "Cache-Control" },
	{ "interface", "listed", NULL, "Surrogate-Control: max-age=5\n" FRESH, TARGETS, STORE_YES,
	  5, "max-age", "Surrogate-Control" },
	{ "interface", "with ESI's content", NULL,
	  "Surrogate-Control: max-age=5, content=\"ESI/1.0\"\n" FRESH, TARGETS, STORE_YES, 5,
	  "max-age", "Surrogate-Control" },

	{ "9111 §3.5", "its s-maxage allows Authorization", AUTHORIZED, CDN("s-maxage=5"), 0,
	  STORE_YES, 5, "s-maxage", "CDN-Cache-Control" },
	{ "9111 §3.5", "Cache-Control's public no longer does", AUTHORIZED,
	  CDN("max-age=5") "Cache-Control: public\n", 0, STORE_AUTHORIZATION, 0, NULL, NULL },
	{ "9111 §5.2.2.3", "must-understand in it", NULL, CDN("must-understand, no-store, max-age=5"),
	  0, STORE_YES, 5, "max-age", "CDN-Cache-Control" },
	{ "interface", "a rule's ttl replaces it", NULL, CDN("max-age=5"), RULE_30, STORE_YES, 30,
	  "rule", "CDN-Cache-Control" },
	{ "interface", "but not its no-store", NULL, CDN("no-store"), RULE_30, STORE_NO_STORE, 0,
	  NULL, NULL },
	{ "choice", "ignoring Cache-Control doesn't ignore it", NULL, CDN("max-age=5") FRESH,
	  IGNORE_CC, STORE_YES, 5, "max-age", "CDN-Cache-Control" },
	{ "9111 §5.2.2.7", "its private with fields", NULL, CDN("private=\"x\", max-age=5"), 0,
	  STORE_YES, 5, "max-age", "CDN-Cache-Control" },
	{ "choice", "that the rest needs", NULL, CDN("private=\"vary\", max-age=5"), 0,
	  STORE_PRIVATE, 0, NULL, NULL },
	{ "interface", "an explicit lifetime: a Cookie is allowed", "Cookie: a=b\n",
	  CDN("max-age=5"), 0, STORE_YES, 5, "max-age", "CDN-Cache-Control" },
};

static const struct exchange_times at_once = { { NOW_MS }, { NOW_MS } };

static void test_stores(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
		struct lines rq_lines, rs_lines;
		struct http_request rq = request_of(&rq_lines, METHOD_GET, stores[i].request);
		struct http_response rs = response_of(&rs_lines, stores[i].status, stores[i].response);
		struct conf_cache site = site_of(stores[i].site);
		struct cache_meta meta;
		enum store_reason got = verdict_store(&rq, &rs, &at_once, &site, &meta);
		if (got != stores[i].want) {
			fault(stores[i].rfc, stores[i].what, "%s", store_reason_text(got));
			continue;
		}
		if (got != STORE_YES)
			continue;
		if (meta.lifetime_ms != stores[i].lifetime_s * INT64_C(1000) || meta.status != rs.status)
			fault(stores[i].rfc, stores[i].what, "%d ms", (int)meta.lifetime_ms);
		struct verdict_lifetime life;
		verdict_lifetime(&rs, &at_once, &site, &life);
		if (strcmp(life.source, stores[i].source) != 0)
			fault(stores[i].rfc, stores[i].what, "by %s", life.source);
	}
	table_ends();
}

static void test_targeted(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(targeted); i++) {
		struct lines rq_lines, rs_lines;
		struct http_request rq = request_of(&rq_lines, METHOD_GET, targeted[i].request);
		struct http_response rs = response_of(&rs_lines, 200, targeted[i].response);
		struct conf_cache site = site_of(targeted[i].site);
		struct cache_meta meta;
		enum store_reason got = verdict_store(&rq, &rs, &at_once, &site, &meta);
		if (got != targeted[i].want) {
			fault(targeted[i].rfc, targeted[i].what, "%s", store_reason_text(got));
			continue;
		}
		if (got != STORE_YES)
			continue;
		struct verdict_lifetime life;
		verdict_lifetime(&rs, &at_once, &site, &life);
		if (meta.lifetime_ms != targeted[i].lifetime_s * INT64_C(1000) ||
		    life.ms != meta.lifetime_ms)
			fault(targeted[i].rfc, targeted[i].what, "%d ms", (int)meta.lifetime_ms);
		if (strcmp(life.source, targeted[i].source) != 0 ||
		    !view_eq(life.field, view_str(targeted[i].field)))
			fault(targeted[i].rfc, targeted[i].what, "by %s of %.*s", life.source,
			      VIEW_ARG(life.field));
	}
	table_ends();
}

/* --- cache deception ------------------------------------------------------------------------ */

#define HTML "Content-Type: text/html\n"

static const struct {
	const char *what, *path;
	int status;
	const char *response;
	unsigned site;
	enum store_reason want;
} deceptions[] = {
	{ "a page in place of a stylesheet, by a rule", "/account/x.css", 200, HTML, RULE_30,
	  STORE_DECEPTION },
	{ "by default_ttl", "/account/x.css", 200, HTML, DEFAULT_60, STORE_DECEPTION },
	{ "by the heuristic", "/account/x.css", 200, HTML "Last-Modified: " YEAR_AGO "\n", 0,
	  STORE_DECEPTION },
	{ "the origin gave a lifetime", "/account/x.css", 200, HTML FRESH, 0, STORE_YES },
	{ "which a rule replaced", "/account/x.css", 200, HTML FRESH, RULE_30, STORE_YES },
	{ "it said public", "/account/x.css", 200, HTML "Cache-Control: public\n", RULE_30, STORE_YES },
	{ "it said Expires", "/account/x.css", 200, HTML "Expires: " IN_A_MINUTE "\n", RULE_30,
	  STORE_YES },
	{ "a lifetime of 0 is no word for it", "/account/x.css", 200,
	  HTML "Cache-Control: max-age=0\n", RULE_30, STORE_DECEPTION },
	{ "nor is s-maxage=0 beside max-age", "/account/x.css", 200,
	  HTML "Cache-Control: s-maxage=0, max-age=60\n", RULE_30, STORE_DECEPTION },
	{ "nor an Expires that is over", "/account/x.css", 200, HTML "Expires: 0\n", RULE_30,
	  STORE_DECEPTION },
	{ "nor what the site ignores", "/account/x.css", 200, HTML FRESH, RULE_30 | IGNORE_CC,
	  STORE_DECEPTION },
	{ "switched off", "/account/x.css", 200, HTML, RULE_30 | NO_GUARD, STORE_YES },
	{ "a stylesheet", "/a/x.css", 200, "Content-Type: text/css; charset=utf-8\n", RULE_30, STORE_YES },
	{ "a page", "/a/x.html", 200, HTML, RULE_30, STORE_YES },
	{ "no extension", "/account", 200, HTML, RULE_30, STORE_YES },
	{ "a missing picture's page", "/x.png", 404, HTML, STATUSES, STORE_YES },
	{ "a redirection's", "/x.png", 301, HTML, RULE_30, STORE_YES },
	{ "a 203", "/x.png", 203, HTML, RULE_30, STORE_DECEPTION },
};

static void test_deceptions(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(deceptions); i++) {
		struct lines rq_lines, rs_lines;
		struct http_request rq = request_of(&rq_lines, METHOD_GET, NULL);
		struct http_response rs = response_of(&rs_lines, deceptions[i].status,
						      deceptions[i].response);
		struct conf_cache site = site_of(deceptions[i].site);
		struct cache_meta meta;
		rq.path = view_str(deceptions[i].path);
		enum store_reason got = verdict_store(&rq, &rs, &at_once, &site, &meta);
		if (got != deceptions[i].want)
			fault("choice", deceptions[i].what, "%s", store_reason_text(got));
	}
	table_ends();
}

/* --- who decided ---------------------------------------------------------------------------- */

static const struct {
	const char *what, *response;
	unsigned site;
	const char *source, *field, *clamp;
} lifetimes[] = {
	{ "Cache-Control", FRESH, 0, "max-age", "Cache-Control", NULL },
	{ "raised", FRESH, MIN_100, "max-age", "Cache-Control", "min_ttl" },
	{ "cut", FRESH, MAX_10, "max-age", "Cache-Control", "max_ttl" },
	{ "max_ttl has the last word", FRESH, MIN_100 | MAX_10, "max-age", "Cache-Control", "max_ttl" },
	{ "a rule beside it", FRESH, RULE_30, "rule", "Cache-Control", NULL },
	{ "nobody's directives", NULL, DEFAULT_60, "default_ttl", "", NULL },
	{ "ignored ones", FRESH, DEFAULT_60 | IGNORE_CC, "default_ttl", "", NULL },
	{ "an Age that can't be read", FRESH "Age: x\n", 0, "Age", "Cache-Control", NULL },
	{ "which min_ttl outweighs", FRESH "Age: x\n", MIN_100, "Age", "Cache-Control", "min_ttl" },
	{ "which a rule doesn't ask", FRESH "Age: x\n", RULE_30, "rule", "Cache-Control", NULL },
};

static void test_lifetimes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lifetimes); i++) {
		struct lines l;
		struct http_response rs = response_of(&l, 200, lifetimes[i].response);
		struct conf_cache site = site_of(lifetimes[i].site);
		struct verdict_lifetime got;
		verdict_lifetime(&rs, &at_once, &site, &got);
		if (strcmp(got.source, lifetimes[i].source) != 0 ||
		    !view_eq(got.field, view_str(lifetimes[i].field)) ||
		    (got.clamp == NULL) != (lifetimes[i].clamp == NULL) ||
		    (got.clamp != NULL && strcmp(got.clamp, lifetimes[i].clamp) != 0))
			fault("interface", lifetimes[i].what, "%s, %.*s, %s", got.source,
			      VIEW_ARG(got.field), got.clamp);
	}
	table_ends();
}

static void test_methods_that_are_not_stored(void **state)
{
	static const enum http_method methods[] = { METHOD_HEAD, METHOD_POST, METHOD_PUT,
						    METHOD_OPTIONS, METHOD_OTHER };
	struct lines rq_lines, rs_lines;
	struct http_response rs = response_of(&rs_lines, 200, FRESH);
	struct conf_cache site = site_of(0);
	struct cache_meta meta;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		struct http_request rq = request_of(&rq_lines, methods[i], NULL);
		assert_int_equal(verdict_store(&rq, &rs, &at_once, &site, &meta), STORE_METHOD);
	}
}

static void test_a_vary_that_is_too_long_is_not_stored(void **state)
{
	char text[CACHE_VARY_MAX + 64] = FRESH "Vary: ";
	size_t n = strlen(text);
	struct lines rq_lines, rs_lines;
	struct http_request rq = request_of(&rq_lines, METHOD_GET, NULL);
	struct conf_cache site = site_of(0);
	struct cache_meta meta;

	(void)state;
	memset(text + n, 'a', CACHE_VARY_MAX + 1);
	memcpy(text + n + CACHE_VARY_MAX + 1, "\n", 2);
	struct http_response rs = response_of(&rs_lines, 200, text);
	assert_int_equal(verdict_store(&rq, &rs, &at_once, &site, &meta), STORE_VARY_TOO_LONG);

	memcpy(text + n + CACHE_VARY_MAX, "\n", 2);
	rs = response_of(&rs_lines, 200, text);
	assert_int_equal(verdict_store(&rq, &rs, &at_once, &site, &meta), STORE_YES);
}

/* --- what is kept beside the lifetime ---------------------------------------------------------- */

static const struct {
	const char *rfc, *what, *response;
	unsigned site;
	uint32_t flags;
	unsigned swr_s, sie_s;
	const char *etag, *last_modified;
} metas[] = {
	{ "9111 §3", "nothing more", FRESH, 0, 0, 0, 0, "", "" },
	{ "9110 §8.8.3", "a strong tag", FRESH TAGGED, 0, META_HAS_VALIDATOR | META_ETAG_STRONG, 0,
	  0, "\"a\"", "" },
	{ "9110 §8.8.3", "a weak one", FRESH "ETag: W/\"a\"\n", 0, META_HAS_VALIDATOR, 0, 0,
	  "W/\"a\"", "" },
	{ "9110 §8.8.3", "one that is none", FRESH "ETag: a\n", 0, 0, 0, 0, "", "" },
	{ "9110 §8.8.2", "Last-Modified", FRESH "Last-Modified: " YEAR_AGO "\n", 0,
	  META_HAS_VALIDATOR, 0, 0, "", YEAR_AGO },
	{ "9110 §8.8.2", "no date", FRESH "Last-Modified: once\n", 0, 0, 0, 0, "", "" },
	{ "9111 §5.2.2.4", "no-cache", "Cache-Control: no-cache\n" TAGGED, 0,
	  META_NO_CACHE | META_HAS_VALIDATOR | META_ETAG_STRONG | META_BY_RULE, 0, 0, "\"a\"", "" },
	{ "9111 §5.2.2.4", "no-cache of a field", "Cache-Control: no-cache=\"x\", max-age=60\n" TAGGED,
	  0, META_HAS_VALIDATOR | META_ETAG_STRONG, 0, 0, "\"a\"", "" },
	{ "choice", "of one that the rest needs",
	  "Cache-Control: no-cache=\"content-type\", max-age=60\n" TAGGED, 0,
	  META_NO_CACHE | META_HAS_VALIDATOR | META_ETAG_STRONG, 0, 0, "\"a\"", "" },
	{ "9111 §5.2.2.10", "s-maxage with stale-while-revalidate: never stale",
	  "Cache-Control: s-maxage=60, stale-while-revalidate=5\n", 0,
	  META_MUST_REVALIDATE | META_SWR_GIVEN, 5, 0, "", "" },
	{ "9213 §2.2", "must-revalidate in Cache-Control, not in the targeted field",
	  "Cache-Control: must-revalidate\nCDN-Cache-Control: max-age=60\n", 0, 0, 0, 0, "", "" },
	{ "9213 §2.2", "in the targeted field",
	  "CDN-Cache-Control: max-age=60, must-revalidate, stale-if-error=3\n", 0,
	  META_MUST_REVALIDATE | META_SIE_GIVEN, 0, 3, "", "" },
	{ "5861 §3", "an enormous window",
	  "Cache-Control: max-age=60, stale-while-revalidate=99999999999\n", 0, META_SWR_GIVEN,
	  2147483648, 0, "", "" },
	{ "9110 §8.8.3", "of several tags the first", FRESH "ETag: \"a\"\nETag: \"b\"\n", 0,
	  META_HAS_VALIDATOR | META_ETAG_STRONG, 0, 0, "\"a\"", "" },
	{ "9110 §8.8.3", "an empty tag is one", FRESH "ETag: \"\"\n", 0,
	  META_HAS_VALIDATOR | META_ETAG_STRONG, 0, 0, "\"\"", "" },
	{ "9110 §8.8.3", "w/ is no mark", FRESH "ETag: w/\"a\"\n", 0, 0, 0, 0, "", "" },
	{ "9110 §8.8.2", "both", FRESH TAGGED "Last-Modified: " YEAR_AGO "\n", 0,
	  META_HAS_VALIDATOR | META_ETAG_STRONG, 0, 0, "\"a\"", YEAR_AGO },
	{ "9111 §5.2.2.2", "must-revalidate", "Cache-Control: max-age=60, must-revalidate\n", 0,
	  META_MUST_REVALIDATE, 0, 0, "", "" },
	{ "9111 §5.2.2.8", "proxy-revalidate", "Cache-Control: max-age=60, proxy-revalidate\n", 0,
	  META_MUST_REVALIDATE, 0, 0, "", "" },
	{ "9111 §5.2.2.10", "s-maxage", "Cache-Control: s-maxage=60\n", 0, META_MUST_REVALIDATE, 0,
	  0, "", "" },
	{ "interface", "s-maxage that a rule replaced", "Cache-Control: s-maxage=60\n", RULE_30,
	  META_BY_RULE, 0, 0, "", "" },
	{ "8246 §2", "immutable", "Cache-Control: max-age=60, immutable\n", 0, META_IMMUTABLE, 0, 0,
	  "", "" },
	{ "5861 §3", "stale-while-revalidate",
	  "Cache-Control: max-age=60, stale-while-revalidate=7\n", 0, META_SWR_GIVEN, 7, 0, "", "" },
	{ "5861 §4", "stale-if-error, even 0", "Cache-Control: max-age=60, stale-if-error=0\n", 0,
	  META_SIE_GIVEN, 0, 0, "", "" },
	{ "interface", "default_ttl", NULL, DEFAULT_60, META_BY_RULE, 0, 0, "", "" },
	{ "interface", "Cache-Control ignored",
	  "Cache-Control: must-revalidate, immutable, stale-if-error=5\n", IGNORE_CC | DEFAULT_60,
	  META_BY_RULE, 0, 0, "", "" },
};

static void test_metas(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(metas); i++) {
		struct lines rq_lines, rs_lines;
		struct http_request rq = request_of(&rq_lines, METHOD_GET, NULL);
		struct http_response rs = response_of(&rs_lines, 200, metas[i].response);
		struct conf_cache site = site_of(metas[i].site);
		struct cache_meta meta;
		assert_int_equal(verdict_store(&rq, &rs, &at_once, &site, &meta), STORE_YES);
		if (meta.flags != metas[i].flags)
			fault(metas[i].rfc, metas[i].what, "flags %#x", meta.flags);
		if (meta.stale_while_revalidate_s != metas[i].swr_s ||
		    meta.stale_if_error_s != metas[i].sie_s)
			fault(metas[i].rfc, metas[i].what, "stale %u, %u",
			      meta.stale_while_revalidate_s, meta.stale_if_error_s);
		if (!view_eq(meta.etag, view_str(metas[i].etag)) ||
		    !view_eq(meta.last_modified, view_str(metas[i].last_modified)))
			fault(metas[i].rfc, metas[i].what, "validators %.*s %.*s",
			      VIEW_ARG(meta.etag), VIEW_ARG(meta.last_modified));
	}
	table_ends();
}

/* --- age ----------------------------------------------------------------------------------- */

static const struct {
	const char *rfc, *what, *response;
	int delay_s; /* between request and response */
	int want_s;
} ages[] = {
	{ "9111 §4.2.3", "neither Date nor Age", NULL, 0, 0 },
	{ "9111 §4.2.3", "the response's delay counts", NULL, 3, 3 },
	{ "9111 §4.2.3", "apparent age", "Date: " MINUTE_AGO "\n", 0, 60 },
	{ "9111 §4.2.3", "Date in the future: none", "Date: " IN_AN_HOUR "\n", 0, 0 },
	{ "9111 §4.2.3", "Age and the delay", "Age: 10\n", 3, 13 },
	{ "9111 §4.2.3", "the greater: Age", "Age: 100\nDate: " MINUTE_AGO "\n", 3, 103 },
	{ "9111 §4.2.3", "the greater: Date", "Age: 10\nDate: " MINUTE_AGO "\n", 3, 60 },
	{ "9110 §6.6.1", "Date that is none", "Date: now\n", 0, 0 },
	{ "9110 §6.6.1", "two: the first valid one",
	  "Date: x\nDate: " MINUTE_AGO "\nDate: " NOW "\n", 0, 60 },
	{ "9110 §5.6.7", "RFC 850's form", "Date: Sunday, 31-Dec-23 23:59:00 GMT\n", 0, 60 },
	{ "9110 §5.6.7", "asctime's", "Date: Sun Dec 31 23:59:00 2023\n", 0, 60 },
	{ "9111 §5.1", "of a list the first", "Age: 10, 0\n", 0, 10 },
	{ "9111 §5.1", "even if it is the lesser", "Age: 0,10\n", 0, 0 },
	{ "9111 §5.1", "even if what follows is none", "Age: 10, x\n", 0, 10 },
	{ "9110 §5.6.1", "empty elements mean nothing", "Age: , 10\n", 0, 10 },
	{ "9111 §1.2.2", "leading zeros", "Age: 0010\n", 0, 10 },
	{ "choice", "one that can't be read makes stale, not old", "Age: x\n", 3, 3 },
	{ "choice", "but Date still tells an age", "Age: x\nDate: " MINUTE_AGO "\n", 3, 60 },
	{ "9111 §1.2.2", "an enormous one", "Age: 99999999999999999999\n", 0, INT32_MAX },
};

static void test_ages(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ages); i++) {
		struct lines rq_lines, rs_lines;
		struct http_request rq = request_of(&rq_lines, METHOD_GET, NULL);
		struct http_response rs = response_of(&rs_lines, 200, ages[i].response);
		struct conf_cache site = site_of(RULE_30 | SIE_20);
		struct exchange_times t = { { NOW_MS - ages[i].delay_s * 1000 }, { NOW_MS } };
		struct cache_meta meta;
		assert_int_equal(verdict_store(&rq, &rs, &t, &site, &meta), STORE_YES);
		int64_t want_ms = ages[i].want_s * INT64_C(1000);
		if (ages[i].want_s == INT32_MAX)
			want_ms = (INT64_C(1) << 31) * 1000;
		if (meta.initial_age_ms != want_ms || meta.received.ms != NOW_MS)
			fault(ages[i].rfc, ages[i].what, "%lld ms", (long long)meta.initial_age_ms);
	}
	table_ends();
}

/* With max-age=60: is it fresh at once? */
static const struct {
	const char *rfc, *what, *age;
	bool fresh;
} age_values[] = {
	{ "9111 §5.1", "none", NULL, true },
	{ "9111 §5.1", "0", "Age: 0\n", true },
	{ "9111 §4.2", "less than the lifetime", "Age: 59\n", true },
	{ "9111 §4.2", "the lifetime", "Age: 60\n", false },
	{ "9111 §1.2.2", "an enormous one", "Age: 99999999999999999999\n", false },
	{ "9111 §5.1", "of a list the first: young", "Age: 0,7200\n", true },
	{ "9111 §5.1", "of a list the first: old", "Age: 7200,0\n", false },
	{ "choice", "a negative one", "Age: -10\n", false },
	{ "choice", "a sign", "Age: +1\n", false },
	{ "choice", "a fraction", "Age: 1.0\n", false },
	{ "choice", "a word", "Age: young\n", false },
	{ "choice", "nothing", "Age:\n", false },
	{ "choice", "commas alone", "Age: ,\n", false },
	{ "choice", "a parameter", "Age: 1;a=b\n", false },
	{ "choice", "quotes", "Age: \"1\"\n", false },
	{ "choice", "a unit", "Age: 1s\n", false },
	{ "choice", "two words", "Age: 1 1\n", false },
	{ "choice", "two lines", "Age: 0\nAge: 7200\n", false },
	{ "choice", "two equal lines", "Age: 0\nAge: 0\n", false },
	{ "choice", "the same twice", "Age: 0, 0\n", false },
	{ "choice", "the first of a list is none", "Age: x, 1\n", false },
};

static void test_age_values(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(age_values); i++) {
		struct lines rq_lines, rs_lines;
		char text[256];
		struct http_request rq = request_of(&rq_lines, METHOD_GET, NULL);
		struct conf_cache site = site_of(0);
		struct cache_meta meta;
		(void)snprintf(text, sizeof(text), "%s%s", FRESH TAGGED "Date: " NOW "\n",
			       age_values[i].age != NULL ? age_values[i].age : "");
		struct http_response rs = response_of(&rs_lines, 200, text);
		assert_int_equal(verdict_store(&rq, &rs, &at_once, &site, &meta), STORE_YES);
		if ((meta.lifetime_ms > meta.initial_age_ms) != age_values[i].fresh)
			fault(age_values[i].rfc, age_values[i].what, "%d", !age_values[i].fresh);
	}
	table_ends();
}

static void test_age_grows_from_receipt(void **state)
{
	struct cache_meta m = { .received = { NOW_MS }, .initial_age_ms = 5000, .lifetime_ms = 60000 };
	struct use_times t;

	(void)state;
	verdict_age(&m, (struct wall){ NOW_MS + 10000 }, &t);
	assert_int_equal(t.age_ms, 15000);
	assert_int_equal(t.ttl_ms, 45000);
	verdict_age(&m, (struct wall){ NOW_MS + 100000 }, &t);
	assert_int_equal(t.ttl_ms, -45000);
}

static void test_a_clock_set_back_makes_nothing_younger(void **state)
{
	struct cache_meta m = { .received = { NOW_MS }, .initial_age_ms = 5000, .lifetime_ms = 60000 };
	struct use_times t;

	(void)state;
	verdict_age(&m, (struct wall){ NOW_MS - 3600000 }, &t);
	assert_int_equal(t.age_ms, 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_acme_challenges_are_left_alone),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_stores),
		cmocka_unit_test(test_targeted),
		cmocka_unit_test(test_deceptions),
		cmocka_unit_test(test_lifetimes),
		cmocka_unit_test(test_methods_that_are_not_stored),
		cmocka_unit_test(test_a_vary_that_is_too_long_is_not_stored),
		cmocka_unit_test(test_metas),
		cmocka_unit_test(test_ages),
		cmocka_unit_test(test_age_values),
		cmocka_unit_test(test_age_grows_from_receipt),
		cmocka_unit_test(test_a_clock_set_back_makes_nothing_younger),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
