/*
 * What requests and responses have in common, for request.c and response.c alone: finding the end
 * of a head, its field lines, and what Connection, Content-Length and Transfer-Encoding say.
 */
#ifndef BRIM_HTTP_PARTS_H
#define BRIM_HTTP_PARTS_H

#include "edge/http/head.h"

static inline uint64_t field_bit(enum http_field_id id)
{
	return UINT64_C(1) << id;
}

enum http_method http_method_of(struct view name);

/* Who is held to which rules: requests to the letter, responses with the repairs of RFC 9112 §5. */
enum http_message { MESSAGE_REQUEST, MESSAGE_RESPONSE };

/*
 * Look for the end of a head, on from s->scanned. PARSE_DONE: s->head_bytes is set, and the head
 * holds no control character but HTAB and whole CRLFs. PARSE_BAD: s->fault is set.
 */
enum http_parse http_head_scan(struct http_scan *s, const char *buf, size_t n,
			       const struct http_limits *limits, enum http_message m) NODISCARD;

/* «HTTP/1.x» at p, which has 8 readable bytes; minor versions over 1 count as 1. */
enum http_fault http_version(const char *p, uint8_t *out_minor) NODISCARD;

/*
 * Field lines from p up to end, where each line ends in CRLF, the last one too. «writable» is NULL
 * (strict) or the same bytes as p, to be repaired in place. scanned: http_head_scan has seen them.
 * Fields that are always hop-by-hop are marked dropped. out_all has a bit for every id that occurs, those too.
 */
enum http_fault http_lines_parse(struct http_fields *f, const char *p, const char *end, char *writable,
				 bool scanned, uint16_t most, uint64_t *out_all) NODISCARD;

struct http_connection {
	bool close, keep_alive, upgrade;
};
/* Reads all Connection fields and marks what they name as dropped. */
enum http_fault http_connection(struct http_fields *f, enum http_message m,
				struct http_connection *out) NODISCARD;
/* RFC 9112 §9.3. */
bool http_persistent(const struct http_connection *c, uint8_t minor);

/* Content-Length, which must occur. */
enum http_fault http_length(const struct http_fields *f, enum http_message m, uint64_t *out) NODISCARD;
/* HTTP_OK: Transfer-Encoding (which must occur) is «chunked» and nothing else. */
enum http_fault http_chunked_alone(const struct http_fields *f) NODISCARD;

#endif
