/* A connection to the admin API. */
#ifndef BRIM_EDGE_ADMIN_CONNECTION_H
#define BRIM_EDGE_ADMIN_CONNECTION_H

#include "edge/admin_call.h"

/* Takes the socket (closes it on failure). */
void admin_connection_open(struct admin *a, int fd, const struct admin_peer *peer);
/* Cuts all of them. */
void admin_connections_close(struct admin *a);

#endif
