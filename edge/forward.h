/* The request that goes to the origin: which fields pass, which are replaced, which are ours. */
#ifndef BRIM_EDGE_FORWARD_H
#define BRIM_EDGE_FORWARD_H

#include <sys/types.h>

#include "edge/request.h"

enum {
	FORWARD_WHOLE = 1, /* the answer may be stored: no conditions, no range of this client */
};
/* start: "GET /x HTTP/1.1 CRLF"; fields: lines. validators of r->object are added where r->validating. 0 or -ENOMEM. */
int forward_build(struct request *r, unsigned flags, struct view *out_start, struct view *out_fields)
	NODISCARD;
/* The value of a field as the origin gets it, for keys: as verdict_vary_value (cache/verdict.h). -EINVAL: each request has its own. */
ssize_t forward_value(const struct request *r, struct view name, char *out, size_t capacity) NODISCARD;
/* The node's own name is in CDN-Loop (RFC 8586). */
bool forward_loops(const struct request *r);

#endif
