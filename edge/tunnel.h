/* Upgraded connections: after the origin's 101 both sides are streams of bytes that are passed on to each other. */
#ifndef BRIM_EDGE_TUNNEL_H
#define BRIM_EDGE_TUNNEL_H

#include "edge/request.h"

/* The protocols of the request's Upgrade that its site lets through, "a, b"; empty: none, it is a request like others. */
struct view tunnel_offer(struct request *r);

/* The origin has changed the protocol: the client is told, then the tunnel stands. */
enum step_result tunnel_begin(struct request *r);

/* Idempotent. */
void tunnel_free(struct request *r);

#endif
