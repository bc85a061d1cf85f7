/*
 * What the verdict's tests share: a site, messages from text, and tables that go on after a row that
 * fails, so that one run shows all of them.
 *
 * A row is one case, with the section that it comes from and what it shows. «9111» and the like are RFCs;
 * «interface» is our own «Which lifetime»; «choice» is one of ours that docs/decisions/lifetimes.md gives
 * the reason for. Every exchange happens at NOW. Field lines end in "\n" here. A site is the default one, changed
 * by a few named settings.
 */
#ifndef BRIM_TESTS_VERDICT_TABLE_H
#define BRIM_TESTS_VERDICT_TABLE_H

#include "cache/cache.h"
#include "cache/verdict.h"

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
	HEURISTIC_ALL = 1 << 16,
	TARGETS = 1 << 17, /* "targeted": ["Edge-Cache-Control", "CDN-Cache-Control", "Surrogate-Control"] */
	NO_TARGETS = 1 << 18, /* … [] */
	NO_GUARD = 1 << 19,
	CLIENT_30 = 1 << 20, /* "client_ttl": "30s" */
	LANGUAGES = 1 << 21, /* "normalise": {"accept_language": ["de", "en"]} */
	AS_SENT = 1 << 22,   /* … {"accept_encoding": false} */
};

static struct conf_status_ttl statuses[] = {
	{ 410, 410, 3000 }, { 400, 499, 5000 }, { 404, 404, 7000 },
	{ 500, 599, 2000 }, { 302, 302, 9000 },
};

static struct view targets[] = { VIEW("Edge-Cache-Control"), VIEW("CDN-Cache-Control"),
				 VIEW("Surrogate-Control") };
static struct view languages[] = { VIEW("de"), VIEW("en") };

static inline struct conf_list targets_of(unsigned set)
{
	if (set & NO_TARGETS)
		return (struct conf_list){ NULL, 0 };
	if (set & TARGETS)
		return (struct conf_list){ targets, ARRAY_LEN(targets) };
	return (struct conf_list){ targets + 1, 1 };
}

static inline struct conf_cache site_of(unsigned set)
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
		.heuristic_all = set & HEURISTIC_ALL,
		.targeted = targets_of(set),
		.deception_guard = !(set & NO_GUARD),
		.client_ttl_ms = set & CLIENT_30 ? 30000 : -1,
		.normalise_accept_encoding = !(set & AS_SENT),
		.accept_languages = { languages, set & LANGUAGES ? ARRAY_LEN(languages) : 0 },
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
static inline void parse(struct lines *l, const char *text)
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

static inline struct http_request request_of(struct lines *l, enum http_method method, const char *text)
{
	parse(l, text);
	return (struct http_request){ .method = method, .minor = 1, .fields = l->fields };
}

static inline struct http_response response_of(struct lines *l, int status, const char *text)
{
	parse(l, text);
	return (struct http_response){ .status = (uint16_t)status, .minor = 1, .fields = l->fields };
}

/* A table goes on after a row that fails, so that one run shows all of them. */
static unsigned faults;

__attribute__((format(printf, 3, 4), unused)) static void fault(const char *rfc, const char *what,
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

static inline void table_ends(void)
{
	unsigned n = faults;

	faults = 0;
	assert_int_equal(n, 0);
}

#endif
