/*
 * Conditional requests (RFC 9110 §13, RFC 9111 §4.3.2): what a request's preconditions come to
 * for the representation that would answer it, in the order of §13.2.2; and If-Range, which is
 * asked last.
 */
#ifndef BRIM_HTTP_CONDITION_H
#define BRIM_HTTP_CONDITION_H

#include "edge/base/clock.h"
#include "edge/http/head.h"

/* The response that was chosen; fields that it lacks are empty. */
struct http_selected {
	uint16_t status;
	struct view etag, last_modified, date;
	struct wall received;
};

enum http_condition {
	CONDITION_PROCEED,
	CONDITION_NOT_MODIFIED, /* 304 */
	CONDITION_FAILED,	/* 412 */
};
/*
 * A cache leaves If-Match and If-Unmodified-Since to the origin (§13.2.2 steps 1 and 2, RFC 9111
 * §4.3.2): they count where «origin», that is, where the answer is our own. Where the status is
 * not 2xx nothing does (§13.2.1).
 */
enum http_condition http_preconditions(enum http_method method, const struct http_fields *request,
				       const struct http_selected *s, bool origin) NODISCARD;

/* May a Range be honoured (§13.1.5)? Yes, where there is no If-Range. Else by a strong entity
 * tag, or by exactly the date of a Last-Modified that is a strong validator (§8.8.2.2): at least
 * a second before Date. */
bool http_if_range(const struct http_fields *request, const struct http_selected *s) NODISCARD;

#endif
