/*
 * Freshness, as tables: a row is one case, with the section that it comes from and what it shows.
 * «9111» and the like are RFCs; «interface» is our own «Which lifetime»; «choice» is one of ours that
 * docs/decisions/lifetimes.md gives the reason for.
 *
 * Every exchange happens at NOW. Field lines end in "\n" here. A site is the default one, changed by a
 * few named settings.
 */
#include "cache/verdict.h"

#include "cache/cache.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define NOW "Mon, 01 Jan 2024 00:00:00 GMT"
#define NOW_MS INT64_C(1704067200000)
#define MINUTE_AGO "Sun, 31 Dec 2023 23:59:00 GMT"
#define TEN_MINUTES_AGO "Sun, 31 Dec 2023 23:50:00 GMT"
#define HOUR_AGO "Sun, 31 Dec 2023 23:00:00 GMT"
#define YEAR_AGO "Sun, 01 Jan 2023 00:00:00 GMT"
#define IN_A_MINUTE "Mon, 01 Jan 2024 00:01:00 GMT"
#define IN_AN_HOUR "Mon, 01 Jan 2024 01:00:00 GMT"

#define TAGGED "ETag: \"a\"\n"
#define FRESH "Cache-Control: max-age=60\n"

/* --- sites --------------------------------------------------------------------------------- */

enum {
	DEFAULT_60 = 1 << 0, /* "default_ttl": "60s" … */
	NO_HEURISTIC = 1 << 1,
	RULE_30 = 1 << 2, /* a rule's "ttl": "30s" */
	RULE_0 = 1 << 3,
	MIN_100 = 1 << 4,
	MAX_10 = 1 << 5,
	IGNORE_CC = 1 << 6,
	IGNORE_EXPIRES = 1 << 7,
	IGNORE_COOKIE = 1 << 8, /* "ignore_headers": ["set-cookie"] */
	COOKIE_STRIP = 1 << 9,
	COOKIE_STORE = 1 << 10,
	SWR_20 = 1 << 11,
	SIE_20 = 1 << 12,
	HONOUR = 1 << 13,
	STATUSES = 1 << 14, /* 410: 3 s, 4xx: 5 s, 404: 7 s, 5xx: 2 s, 302: 9 s */
	BYPASS = 1 << 15,
};

static struct conf_status_ttl statuses[] = {
	{ 410, 410, 3000 }, { 400, 499, 5000 }, { 404, 404, 7000 },
	{ 500, 599, 2000 }, { 302, 302, 9000 },
};

static struct conf_cache site_of(unsigned set)
{
	return (struct conf_cache){
		.default_ttl_ms = set & DEFAULT_60 ? 60000 : 0,
		.min_ttl_ms = set & MIN_100 ? 100000 : 0,
		.max_ttl_ms = set & MAX_10 ? 10000 : INT64_C(365) * 86400 * 1000,
		.rule_ttl_ms = set & RULE_30  ? 30000
			       : set & RULE_0 ? 0
					      : -1,
		.bypass = set & BYPASS,
		.heuristic = !(set & NO_HEURISTIC),
		.statuses = set & STATUSES ? statuses : NULL,
		.status_count = set & STATUSES ? ARRAY_LEN(statuses) : 0,
		.stale_while_revalidate_ms = set & SWR_20 ? 20000 : 0,
		.stale_if_error_ms = set & SIE_20 ? 20000 : 0,
		.set_cookie = set & COOKIE_STRIP   ? CONF_SET_COOKIE_STRIP
			      : set & COOKIE_STORE ? CONF_SET_COOKIE_STORE
						   : CONF_SET_COOKIE_PASS,
		.honour_request_directives = set & HONOUR,
		.ignore_cache_control = set & IGNORE_CC,
		.ignore_expires = set & IGNORE_EXPIRES,
		.ignore_set_cookie = set & IGNORE_COOKIE,
	};
}

/* --- messages ------------------------------------------------------------------------------ */

struct lines {
	char text[2048];
	struct http_field at[64];
	struct http_fields fields;
};

/* text may be NULL: no fields. */
static void parse(struct lines *l, const char *text)
{
	size_t n = 0;

	for (const char *p = text == NULL ? "" : text; *p != '\0'; p++) {
		assert_true(n + 2 < sizeof(l->text));
		if (*p == '\n')
			l->text[n++] = '\r';
		l->text[n++] = *p;
	}
	l->fields = (struct http_fields){ .at = l->at, .capacity = ARRAY_LEN(l->at) };
	assert_int_equal(http_fields_parse(&l->fields, l->text, n), 0);
}

static struct http_request request_of(struct lines *l, enum http_method method, const char *text)
{
	parse(l, text);
	return (struct http_request){ .method = method, .minor = 1, .fields = l->fields };
}

static struct http_response response_of(struct lines *l, int status, const char *text)
{
	parse(l, text);
	return (struct http_response){ .status = (uint16_t)status, .minor = 1, .fields = l->fields };
}

/* A table goes on after a row that fails, so that one run shows all of them. */
static unsigned faults;

__attribute__((format(printf, 3, 4))) static void fault(const char *rfc, const char *what,
							const char *format, ...)
{
	va_list arguments;

	faults++;
	print_error("%s, %s: ", rfc, what);
	va_start(arguments, format);
	vprint_error(format, arguments);
	va_end(arguments);
	print_error("\n");
}

static void table_ends(void)
{
	unsigned n = faults;

	faults = 0;
	assert_int_equal(n, 0);
}

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
};

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

	/* what forbids */
	{ "9111 §3", "no-store", NULL, 200, "Cache-Control: no-store, max-age=60\n", 0,
	  STORE_NO_STORE, 0, NULL },
	{ "9111 §3", "private", NULL, 200, "Cache-Control: private, max-age=60\n", 0, STORE_PRIVATE,
	  0, NULL },
	{ "9111 §5.2.2.7", "private beats public", NULL, 200,
	  "Cache-Control: public, private, max-age=60\n", 0, STORE_PRIVATE, 0, NULL },
	{ "choice", "private with fields is private", NULL, 200,
	  "Cache-Control: private=\"x-user\", max-age=60\n", 0, STORE_PRIVATE, 0, NULL },
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
	{ "choice", "no-cache with fields is no-cache", NULL, 200,
	  "Cache-Control: no-cache=\"x\", max-age=60\n", 0, STORE_NO_CACHE, 0, NULL },

	/* statuses */
	{ "9111 §3", "informational", NULL, 103, FRESH, 0, STORE_STATUS, 0, NULL },
	{ "9111 §3", "304 is no response of its own", NULL, 304, FRESH TAGGED, 0, STORE_STATUS, 0, NULL },
	{ "9110 §15.5.13", "412 is about the request's precondition", NULL, 412, FRESH, 0,
	  STORE_STATUS, 0, NULL },
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
		const char *source = verdict_lifetime_source(&rq, &rs, &at_once, &site);
		if (strcmp(source, stores[i].source) != 0)
			fault(stores[i].rfc, stores[i].what, "by %s", source);
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
	{ "choice", "no-cache of a field", "Cache-Control: no-cache=\"x\", max-age=60\n" TAGGED, 0,
	  META_NO_CACHE | META_HAS_VALIDATOR | META_ETAG_STRONG, 0, 0, "\"a\"", "" },
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
	{ "9111 §5.1", "a negative Age is ignored", "Age: -10\n", 0, 0 },
	{ "9111 §5.1", "a fraction", "Age: 10.0\n", 0, 0 },
	{ "9111 §5.1", "a word", "Age: old\n", 0, 0 },
	{ "9111 §5.1", "nothing", "Age:\n", 0, 0 },
	{ "9111 §5.1", "a parameter", "Age: 10;a=b\n", 0, 0 },
	{ "9111 §5.1", "of a list the first", "Age: 10, 0\n", 0, 10 },
	{ "9111 §5.1", "of two lines the first", "Age: 10\nAge: 0\n", 0, 10 },
	{ "9111 §5.1", "even if it is the lesser", "Age: 0\nAge: 10\n", 0, 0 },
	{ "choice", "the first that is valid", "Age: x\nAge: 10\n", 0, 10 },
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

/* --- conditional requests ------------------------------------------------------------------------ */

static const struct {
	const char *rfc, *what, *request;
	int status;
	const char *etag, *last_modified;
	bool want;
} conditions[] = {
	{ "9110 §13.1.2", "no condition", NULL, 200, "\"a\"", HOUR_AGO, false },
	{ "9110 §13.1.2", "its tag", "If-None-Match: \"a\"\n", 200, "\"a\"", "", true },
	{ "9110 §13.1.2", "another", "If-None-Match: \"b\"\n", 200, "\"a\"", "", false },
	{ "9110 §13.1.2", "among several", "If-None-Match: \"b\", \"a\"\n", 200, "\"a\"", "", true },
	{ "9110 §13.1.2", "on several lines", "If-None-Match: \"b\"\nIf-None-Match: \"a\"\n", 200,
	  "\"a\"", "", true },
	{ "9110 §13.1.2", "any", "If-None-Match: *\n", 200, "\"a\"", "", true },
	{ "9110 §13.1.2", "any, and it has none", "If-None-Match: *\n", 200, "", "", true },
	{ "9110 §13.1.2", "a tag, and it has none", "If-None-Match: \"a\"\n", 200, "", HOUR_AGO, false },
	{ "9110 §13.1.2", "rubbish, and it has none", "If-None-Match: \"\n", 200, "", "", false },
	{ "9110 §8.8.3.2", "weak and strong match", "If-None-Match: W/\"a\"\n", 200, "\"a\"", "", true },
	{ "9110 §8.8.3.2", "strong and weak", "If-None-Match: \"a\"\n", 200, "W/\"a\"", "", true },
	{ "9110 §8.8.3.2", "weak and weak", "If-None-Match: W/\"a\"\n", 200, "W/\"a\"", "", true },
	{ "9110 §8.8.3", "tags don't ignore case", "If-None-Match: \"A\"\n", 200, "\"a\"", "", false },
	{ "9110 §8.8.3", "a comma within", "If-None-Match: \"x,\"a\"\"\n", 200, "\"a\"", "", false },
	{ "9110 §8.8.3", "w/ is no W/", "If-None-Match: w/\"a\"\n", 200, "\"a\"", "", false },

	{ "9110 §13.1.3", "not modified since", "If-Modified-Since: " HOUR_AGO "\n", 200, "",
	  HOUR_AGO, true },
	{ "9110 §13.1.3", "since a later date", "If-Modified-Since: " NOW "\n", 200, "", HOUR_AGO, true },
	{ "9110 §13.1.3", "modified since", "If-Modified-Since: " YEAR_AGO "\n", 200, "", HOUR_AGO,
	  false },
	{ "9110 §13.1.3", "no date", "If-Modified-Since: yesterday\n", 200, "", HOUR_AGO, false },
	{ "9110 §13.1.3", "two of them", "If-Modified-Since: " NOW "\nIf-Modified-Since: " NOW "\n",
	  200, "", HOUR_AGO, false },
	{ "9110 §13.1.3", "it has no Last-Modified", "If-Modified-Since: " NOW "\n", 200, "\"a\"",
	  "", false },
	{ "9110 §13.1.3", "none that is a date", "If-Modified-Since: " NOW "\n", 200, "", "once", false },
	{ "9110 §13.2.2", "If-None-Match comes first: no match",
	  "If-None-Match: \"b\"\nIf-Modified-Since: " NOW "\n", 200, "\"a\"", HOUR_AGO, false },
	{ "9110 §13.2.2", "a match", "If-None-Match: \"a\"\nIf-Modified-Since: " YEAR_AGO "\n", 200,
	  "\"a\"", HOUR_AGO, true },
	{ "9110 §13.2.2", "even an invalid one", "If-None-Match: a\nIf-Modified-Since: " NOW "\n",
	  200, "\"a\"", HOUR_AGO, false },

	{ "9110 §13.2.1", "a stored 203", "If-None-Match: \"a\"\n", 203, "\"a\"", "", true },
	{ "9110 §13.2.1", "a stored 404", "If-None-Match: \"a\"\n", 404, "\"a\"", "", false },
	{ "9110 §13.2.1", "a stored 301", "If-Modified-Since: " NOW "\n", 301, "", HOUR_AGO, false },
	{ "9110 §13.2.1", "a stored 500", "If-None-Match: *\n", 500, "", "", false },
	{ "9111 §4.3.2", "If-Match is not for a cache", "If-Match: \"b\"\n", 200, "\"a\"", "", false },
};

static void test_conditions(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(conditions); i++) {
		struct lines l;
		struct http_request rq = request_of(&l, METHOD_GET, conditions[i].request);
		if (verdict_not_modified(&rq, (uint16_t)conditions[i].status,
					 view_str(conditions[i].etag),
					 view_str(conditions[i].last_modified)) != conditions[i].want)
			fault(conditions[i].rfc, conditions[i].what, "%d", !conditions[i].want);
		rq.method = METHOD_POST;
		assert_false(verdict_not_modified(&rq, (uint16_t)conditions[i].status,
						  view_str(conditions[i].etag),
						  view_str(conditions[i].last_modified)));
	}
	table_ends();
}

/* --- Vary ------------------------------------------------------------------------------------------ */

static const struct {
	const char *rfc, *what, *response, *want;
	int result;
} rules[] = {
	{ "9111 §4.1", "none", NULL, "", 0 },
	{ "9111 §4.1", "empty", "Vary:\n", "", 0 },
	{ "9111 §4.1", "one", "Vary: Accept-Encoding\n", "accept-encoding", 0 },
	{ "9111 §4.1", "sorted", "Vary: b, a, C\n", "a,b,c", 0 },
	{ "9111 §4.1", "from several lines", "Vary: b\nX: y\nVary: a,, \n", "a,b", 0 },
	{ "9111 §4.1", "each once, whatever its case", "Vary: A, b, a, B\nVary: a\n", "a,b", 0 },
	{ "9111 §4.1", "a shorter name is before a longer", "Vary: ab, a, abc\n", "a,ab,abc", 0 },
	{ "9111 §4.1", "everything", "Vary: *\n", NULL, -ENOENT },
	{ "9111 §4.1", "everything, among others", "Vary: a, *\n", NULL, -ENOENT },
	{ "choice", "no name", "Vary: \"a\"\n", NULL, -ENOENT },
	{ "choice", "too long", "Vary: aaaaaaaaaa, bbbbbbbbbbbb, cccccccccc\n", NULL, -E2BIG },
};

static void test_vary_rules(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		struct lines l;
		struct http_response rs = response_of(&l, 200, rules[i].response);
		char out[32];
		size_t n = 0;
		int got = verdict_vary_rule(&rs, out, sizeof(out), &n);
		if (got != rules[i].result)
			fault(rules[i].rfc, rules[i].what, "%d", got);
		else if (got == 0 && !view_eq(view_of(out, n), view_str(rules[i].want)))
			fault(rules[i].rfc, rules[i].what, "%.*s", (int)n, out);
	}
	table_ends();
}

static struct view vary_value(const char *text, const char *name, char out[VERDICT_VARY_VALUE_MIN])
{
	struct lines l;
	struct http_request rq = request_of(&l, METHOD_GET, text);

	return view_of(out, verdict_vary_value(&rq, view_str(name), out, VERDICT_VARY_VALUE_MIN));
}

#define EIGHTY "01234567890123456789012345678901234567890123456789012345678901234567890123456789"

static void test_vary_values(void **state)
{
	char out[VERDICT_VARY_VALUE_MIN], other[VERDICT_VARY_VALUE_MIN];

	(void)state;
	assert_true(view_eq(vary_value("Accept:  a/b \n", "accept", out), VIEW("a/b")));
	assert_true(view_eq(vary_value("X: a\nAccept: c\nx: b\n", "x", out), VIEW("a, b")));
	/* RFC 9111 §4.1: what is absent is like nothing else. */
	assert_int_equal(vary_value("X: a\n", "accept", out).n, 0);
	assert_int_not_equal(vary_value("Accept:\n", "accept", out).n, 0);
	assert_false(view_eq(vary_value("X: a\nX: b\n", "x", out), vary_value("X: a\n", "x", other)));
}

static void test_a_long_vary_value_is_hashed(void **state)
{
	char a[VERDICT_VARY_VALUE_MIN], b[VERDICT_VARY_VALUE_MIN];
	struct view hashed = vary_value("X: " EIGHTY "\n", "x", a);

	(void)state;
	assert_true(view_eq(hashed, vary_value("X: " EIGHTY "\n", "x", b)));
	assert_false(view_eq(hashed, vary_value("X: " EIGHTY "0\n", "x", b)));
	assert_false(view_eq(hashed, vary_value("X: " EIGHTY "\nX: a\n", "x", b)));
	/* No value can be made to equal a hash: values don't begin with a space. */
	assert_int_equal(hashed.p[0], ' ');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_stores),
		cmocka_unit_test(test_methods_that_are_not_stored),
		cmocka_unit_test(test_a_vary_that_is_too_long_is_not_stored),
		cmocka_unit_test(test_metas),
		cmocka_unit_test(test_ages),
		cmocka_unit_test(test_age_grows_from_receipt),
		cmocka_unit_test(test_a_clock_set_back_makes_nothing_younger),
		cmocka_unit_test(test_uses),
		cmocka_unit_test(test_stale_if_error),
		cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_vary_rules),
		cmocka_unit_test(test_vary_values),
		cmocka_unit_test(test_a_long_vary_value_is_hashed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
