/* Who the client is, behind proxies that are trusted to say so. */
#ifndef BRIM_EDGE_CLIENT_H
#define BRIM_EDGE_CLIENT_H

#include "conf/conf.h"
#include "edge/base/sock.h"
#include "edge/http/head.h"

bool client_in(const struct conf_nets *nets, const struct sock_addr *a);
/* The peer's address; where the peer is a trusted proxy (or downstream cache), the right-most X-Forwarded-For
 * member that is not one. */
void client_address(const struct conf *c, const struct sock_addr *peer, const struct http_fields *f,
		    struct sock_addr *out);
/* Is the peer one whose X-Forwarded-* are believed? */
bool client_peer_trusted(const struct conf *c, const struct sock_addr *peer);

#endif
