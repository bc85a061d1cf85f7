/*
 * Accept-Encoding and Accept-Language (RFC 9110 §12.5.3, §12.5.4) reduced to what an origin can
 * tell apart, so that a response that varies by them has few variants. The reduced form is what
 * must be keyed and what must be sent to the origin: only then did the origin see what the key
 * says.
 */
#ifndef BRIM_HTTP_ACCEPT_H
#define BRIM_HTTP_ACCEPT_H

#include "edge/http/head.h"

enum {
	CODING_BR = 1 << 0,
	CODING_GZIP = 1 << 1, /* x-gzip is the same (§8.4.1.3) */
	CODING_ZSTD = 1 << 2,
	CODING_NOT_IDENTITY = 1 << 3, /* identity;q=0, or *;q=0 and no better word for it */
};
/* What the client takes, whatever it likes best: a set of CODING_…; other codings are left out.
 * -ENOENT: no Accept-Encoding, which is not the same as an empty one (§12.5.3). */
int http_accept_encoding(const struct http_fields *request, unsigned *out_codings) NODISCARD;
/* "br, gzip, zstd, identity;q=0", or what of that holds; "identity" where nothing does. Returns
 * its length. */
enum { HTTP_ACCEPT_ENCODING_MAX = 32 };
size_t http_accept_encoding_format(unsigned codings, char out[HTTP_ACCEPT_ENCODING_MAX]);

/*
 * Which of a site's languages (tags of RFC 5646, in the site's order) a request gets: of the best
 * range that has any, the one that lookup finds (RFC 4647 §3.4), else the first that lies within
 * the range (§3.3.1: "en" takes "en-GB"). -1: none, or no Accept-Language: the site's default. At
 * most the first 32 ranges are read.
 */
int http_accept_language(const struct http_fields *request, const struct view *languages, int count);

#endif
