/*
 * Request heads of HTTP/2: fields as the session decodes them, one by one, become the head that HTTP/1 would have had,
 * which the one parser of requests (edge/http/request.c) then reads. So both are held to the same rules, and nothing behind
 * knows which it was. What RFC 9113 §8 asks beyond that is checked here, though the session checks most of it, too.
 *
 * Rejected: filling struct http_request field by field. A second set of rules is a second set of holes.
 *
 * Pure but for memory. While it is decoded, a head takes at most about three times the limit; of that a connection has one at a time. What
 * stays for a request is exactly what is needed, in one block.
 */
#ifndef BRIM_EDGE_H2_HEAD_H
#define BRIM_EDGE_H2_HEAD_H

#include "edge/http/head.h"

/* Bytes that grow; p may move. */
struct h2_bytes {
	char *p;
	size_t n, capacity;
};
int h2_bytes_add(struct h2_bytes *b, const void *p, size_t n) NODISCARD;
void h2_bytes_free(struct h2_bytes *b);

enum h2_pseudo { H2_METHOD, H2_SCHEME, H2_AUTHORITY, H2_PATH, H2_PSEUDOS };

struct h2_head {
	struct http_limits limits;
	struct h2_bytes text;	 /* start line and lines, as HTTP/1 has them */
	struct h2_bytes aside;	 /* pseudo fields and Host */
	struct h2_bytes cookies; /* joined */
	struct {
		uint32_t at, n; /* in aside */
		bool given;
	} pseudo[H2_PSEUDOS], host;
	uint64_t list_bytes; /* as SETTINGS_MAX_HEADER_LIST_SIZE counts */
	uint16_t count;	     /* of regular fields */
	bool began, too_large, has_cookie;
};

/* What a request's views point into: its fields, then the text. */
struct h2_block {
	char *p;
	size_t capacity;
};

/* Zeroed, or used before: memory is kept. */
void h2_head_begin(struct h2_head *h, const struct http_limits *limits);
void h2_head_free(struct h2_head *h);
/* -EPROTO: malformed, a stream error (RFC 9113 §8.1.1); -ENOMEM. One that is too large goes on, for its 431, and keeps nothing more. */
int h2_head_add(struct h2_head *h, struct view name, struct view value) NODISCARD;
/*
 * All are there. 0: *out_fault says whether *out is a request (HTTP_OK), whose views point into *block; -EPROTO: malformed; -ENOMEM.
 * A block that was used before is used again where it is large enough; it is the caller's, also on failure.
 * ended: no body follows. Without a Content-Length a body's framing is «chunked»: its end will be told.
 */
int h2_head_end(struct h2_head *h, bool ended, struct h2_block *block, struct http_request *out,
		enum http_fault *out_fault) NODISCARD;
void h2_block_free(struct h2_block *b);
/* What it holds in memory. */
size_t h2_head_bytes(const struct h2_head *h);

/* RFC 9218 §4: what a Priority field, or the value of a PRIORITY_UPDATE, says. What it doesn't say stays as it is. */
struct h2_priority {
	uint8_t urgency; /* 0 (first) … 7 */
	bool incremental;
};
enum { H2_URGENCIES = 8, H2_URGENCY_DEFAULT = 3 };
void h2_priority_read(struct view value, struct h2_priority *p);

#endif
