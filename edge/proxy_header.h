/*
 * The PROXY protocol's header, versions 1 (text) and 2 (binary), as a load balancer that doesn't speak TLS or HTTP
 * sends it before the client's bytes. Pure: bytes in, addresses out.
 */
#ifndef BRIM_EDGE_PROXY_HEADER_H
#define BRIM_EDGE_PROXY_HEADER_H

#include "edge/base/sock.h"

/* Longer ones are refused: addresses need 232 bytes, the rest are notes (TLV) that nobody here reads. */
enum { PROXY_HEADER_MAX = 2048 };

enum proxy_header_result {
	PROXY_HEADER_MORE, /* all bytes so far belong to the header, and it goes on */
	PROXY_HEADER_DONE,
	PROXY_HEADER_BAD,
};

struct proxy_header {
	size_t bytes; /* of the header */
	bool known;   /* false: LOCAL, UNKNOWN or a Unix socket: the peer itself is the client */
	struct sock_addr client; /* if known */
};

enum proxy_header_result proxy_header_parse(const char *p, size_t n, struct proxy_header *out) NODISCARD;

#endif
