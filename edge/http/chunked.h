/*
 * The chunked coding (RFC 9112 §7.1) as a state machine over bytes: it never buffers and never
 * sees payload it needn't. Strict: hexadecimal size without sign or space before it, CRLF only,
 * extensions skipped within a limit, no size over 2^60, trailers within a limit.
 */
#ifndef BRIM_HTTP_CHUNKED_H
#define BRIM_HTTP_CHUNKED_H

#include "edge/http/head.h"

struct http_chunked {
	uint64_t payload_left; /* of the current chunk; 0 while its size is still being read */
	uint64_t size;	       /* as read so far */
	uint8_t state;
	uint8_t digits;
	uint32_t line_bytes;   /* of the current size line or of the trailers, against limits */
	enum http_fault fault; /* after CHUNKED_BAD */
};

void http_chunked_init(struct http_chunked *c);

enum http_chunked_event {
	CHUNKED_MORE,	 /* all n bytes were framing and are consumed: feed more */
	CHUNKED_PAYLOAD, /* *out_consumed bytes of framing, then payload begins: payload_left bytes */
	CHUNKED_END,	 /* the last chunk and its trailers are consumed */
	CHUNKED_BAD,
};
/*
 * Feed n bytes that are not yet consumed. In payload (payload_left > 0) it returns CHUNKED_PAYLOAD with
 * *out_consumed 0: take bytes from the stream by any means (splice), then tell with http_chunked_took.
 */
enum http_chunked_event http_chunked_feed(struct http_chunked *c, const char *p, size_t n,
					  size_t *out_consumed) NODISCARD;
void http_chunked_took(struct http_chunked *c, uint64_t payload_bytes);

/* A size line, "1f4\r\n", for a chunk that we send. Returns its length. */
enum { HTTP_CHUNK_LINE_MAX = 20 };
size_t http_chunked_line(char out[HTTP_CHUNK_LINE_MAX], uint64_t payload_bytes);

#endif
