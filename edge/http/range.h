/*
 * Ranges (RFC 9110 §14) and parts (§14.6, §15.3.7.2). Bytes are the one unit that Brim knows. In
 * order: what a request asks for; what that means for a representation's length; the text of a
 * multipart body.
 */
#ifndef BRIM_HTTP_RANGE_H
#define BRIM_HTTP_RANGE_H

#include "edge/http/head.h"

enum { HTTP_RANGES_MAX = 16 };

/* Both bytes are in it. */
struct http_range {
	uint64_t first, last;
};

/* As asked for, before a length is known. */
struct http_ranges {
	uint16_t count;
	struct {
		uint64_t first, last; /* last: UINT64_MAX where it is left open; of a suffix its length */
		bool suffix;
	} at[HTTP_RANGES_MAX];
};
/* -ENOENT: no Range; -EINVAL: another unit, broken, or several lines; -E2BIG: more ranges than
 * that. In each case the answer is the whole representation (§14.2). The caller has seen that the
 * method is GET, that the answer would be a 200, and has asked http_if_range. */
int http_ranges_parse(const struct http_fields *request, struct http_ranges *out) NODISCARD;

/* What to send, in the order that was asked for, without overlaps: what is near was made one. */
struct http_parts {
	uint16_t count;
	struct http_range at[HTTP_RANGES_MAX];
	uint64_t length; /* of the whole representation */
};
enum http_range_answer {
	RANGE_WHOLE,   /* absurd (more than two that overlap), or nothing to take a part of: 200 */
	RANGE_PARTIAL, /* *out is set; with one part a plain 206, never multipart */
	RANGE_UNSATISFIABLE, /* 416 with a Content-Range that says unsatisfied */
};
enum http_range_answer http_ranges_resolve(const struct http_ranges *asked, uint64_t length,
					   struct http_parts *out) NODISCARD;

/* Content-Range (§14.4), of a representation whose length is known. */
struct http_content_range {
	struct http_range range; /* not set where unsatisfied */
	uint64_t length;
	bool unsatisfied;
};
/* -EINVAL: broken, contradicting itself, of another unit, or of an unknown length: it can't be used as a part. */
int http_content_range_parse(struct view v, struct http_content_range *out) NODISCARD;
enum { HTTP_CONTENT_RANGE_MAX = 68 };
/* Returns the length of what it wrote. */
size_t http_content_range_format(const struct http_content_range *c, char out[HTTP_CONTENT_RANGE_MAX]);

/* multipart/byteranges. The boundary is up to 70 letters and digits that the body can't be
 * expected to hold: take random ones. content_type is the representation's; empty: it has none. */
struct http_multipart {
	const struct http_parts *parts;
	struct view boundary, content_type;
};
/* What stands before part i, or, for i = count, behind the last one. Returns its length; it is
 * written only where it fits into room. */
size_t http_part_head(const struct http_multipart *m, uint16_t i, char *out, size_t room);
/* The length of the whole body. */
uint64_t http_multipart_bytes(const struct http_multipart *m);

#endif
