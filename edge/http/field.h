/* Field values: lists, parameters, Cache-Control, dates, entity tags, numbers. Pure. */
#ifndef BRIM_HTTP_FIELD_H
#define BRIM_HTTP_FIELD_H

#include "edge/base/clock.h"
#include "edge/http/head.h"

bool http_token(struct view v);	      /* RFC 9110 §5.6.2, at least one character */
struct view http_trim(struct view v); /* without SP and HTAB at both ends */
/* The length of the quoted string (RFC 9110 §5.6.4) that v begins with, quotes included; 0: none, or it isn't closed. */
size_t http_quoted_length(struct view v);

/* The next element of a comma-separated list (RFC 9110 §5.6.1; commas in quoted strings don't separate, but a quote
 * that is never closed is an ordinary character; empty elements are skipped). *rest is moved. False: none left. */
bool http_list_next(struct view *rest, struct view *out_element);
/* Does any field line with this id, dropped ones too, have this token as a list element? ASCII case ignored. */
bool http_list_has(const struct http_fields *f, enum http_field_id id, struct view token);

/* RFC 9110 §5.6.7: IMF-fixdate, RFC 850 (its century by the clock), asctime. Case is ignored (RFC 9111 §4.2),
 * nothing else is. -EINVAL. */
int http_date_parse(struct view v, struct wall *out) NODISCARD;
enum { HTTP_DATE_BYTES = 29 };
void http_date_format(struct wall t, char out[HTTP_DATE_BYTES]);

/* delta-seconds (RFC 9111 §1.2.2): digits only; overflow gives 2^31. -EINVAL. */
int http_delta_seconds(struct view v, int64_t *out) NODISCARD;
/* 1*DIGIT that fits; -EINVAL. */
int http_decimal(struct view v, uint64_t *out) NODISCARD;

/* Cache-Control as RFC 9111 §5.2 reads it; from several field lines. */
enum {
	CC_NO_STORE = 1 << 0,
	CC_NO_CACHE = 1 << 1 /* without field list */,
	CC_PRIVATE = 1 << 2 /* without */,
	CC_PUBLIC = 1 << 3,
	CC_MUST_REVALIDATE = 1 << 4,
	CC_PROXY_REVALIDATE = 1 << 5,
	CC_MUST_UNDERSTAND = 1 << 6,
	CC_IMMUTABLE = 1 << 7,
	CC_NO_TRANSFORM = 1 << 8,
	CC_ONLY_IF_CACHED = 1 << 9,
	CC_NO_CACHE_FIELDS = 1 << 10,
	CC_PRIVATE_FIELDS = 1 << 11,
	CC_MAX_STALE_ANY = 1 << 12, /* max-stale without a value */
};
struct http_cache_control {
	uint32_t flags;
	/* Milliseconds; -1: absent. One that is invalid or conflicts with another counts as 0 (stale). */
	int64_t max_age_ms, s_maxage_ms, stale_while_revalidate_ms, stale_if_error_ms, max_stale_ms,
		min_fresh_ms;
};
/* Reads all fields with this id (FIELD_CACHE_CONTROL, FIELD_CDN_CACHE_CONTROL …). */
void http_cache_control(const struct http_fields *f, enum http_field_id id,
			struct http_cache_control *out);

/*
 * A targeted field (RFC 9213), by name: CDN-Cache-Control and its like, a Dictionary. -ENOENT: there is none;
 * -EINVAL: it is no Dictionary, is empty, or gives no usable lifetime where it means to give one; both mean «look
 * at the next field of the site's list, and in the end at Cache-Control». Else it replaces Cache-Control and
 * Expires. A directive of the wrong type is not used (§2.1), but what forbids does so whatever its type (only ?0
 * takes it back), and a field that forbids is never ignored for what else is broken in it.
 */
int http_targeted_cache_control(const struct http_fields *f, struct view name,
				struct http_cache_control *out) NODISCARD;

/* The field names that no-cache="a, b" or private="a" list: flag is CC_NO_CACHE_FIELDS or CC_PRIVATE_FIELDS,
 * and where it is not set there are none. A name may come twice. */
struct http_names {
	const struct http_fields *fields;
	const struct http_field *line;
	struct view elements, names; /* what is left of the line, and of the directive */
	uint32_t flag;
};
void http_cache_control_names(const struct http_fields *f, enum http_field_id id, uint32_t flag,
			      struct http_names *out);
void http_targeted_names(const struct http_fields *f, struct view name, uint32_t flag,
			 struct http_names *out);
bool http_names_next(struct http_names *n, struct view *out_name);

/* Entity tags (RFC 9110 §8.8.3). */
struct http_etag {
	struct view opaque; /* with its quotes */
	bool weak;
};
int http_etag_parse(struct view v, struct http_etag *out) NODISCARD;
/* If-None-Match / If-Match: does a list (of any field lines with this id) name it? "*" names all.
 * weak: compare weakly (If-None-Match); else both must be strong. */
bool http_etag_listed(const struct http_fields *f, enum http_field_id id,
		      const struct http_etag *tag, bool weak);

#endif
