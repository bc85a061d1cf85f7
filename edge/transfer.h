/*
 * A transfer joins a fetch to a fill: the one place where cache and origin meet. It runs at the origin's
 * speed and belongs to no client; the request that began it follows the fill like anybody else and may leave.
 */
#ifndef BRIM_EDGE_TRANSFER_H
#define BRIM_EDGE_TRANSFER_H

#include "edge/request.h"

/* Takes r's fetch and the fill; r follows it, from r->offset up to r->until. length: of the body, or -1. On failure both stay the caller's. */
int transfer_begin(struct request *r, struct cache_fill *fill, int64_t length, uint64_t max_bytes)
	NODISCARD;
/* The fill's last bytes, behind what the fetch brings: tail, in «bytes», which malloc made and the transfer frees. They count in
 * its length. Call it at once after transfer_begin. */
void transfer_end_with(struct request *r, char *bytes, struct view tail);
/* r follows no longer. Safe where it never did. */
void transfer_leave(struct request *r);

#endif
