/*
 * The admin API: HTTP/1.1 with JSON on the keeper's sockets, Unix and TCP.
 *
 *   admin.c             the server: sockets, connections, what the node is at the moment
 *   admin_connection.c  one connection: read a request, run its call, write the answer
 *   admin_access.c      who may make which call
 *   admin_call.c        a call and its answer; the table of paths
 *   admin_audit.c       the log's lines about changes and refusals
 *   admin_purge.c …     the calls themselves
 */
#ifndef BRIM_EDGE_ADMIN_H
#define BRIM_EDGE_ADMIN_H

#include "cache/keeper.h"
#include "edge/message.h"
#include "edge/process.h"

struct admin;

/* keeper NULL: the stores could not be opened; what needs them answers 503. */
int admin_new(const struct process *p, struct loop *l, struct keeper *keeper, struct admin **out)
	NODISCARD;
/* After the start and each reload. conf: a reference is taken; conf_fd: borrowed until the next call. */
void admin_use(struct admin *a, struct conf *conf, int conf_fd);
/* The outcome of a reload that a call asked for. */
void admin_reloaded(struct admin *a, const struct message_outcome *outcome);
/* Cuts all connections. */
void admin_free(struct admin **a);

#endif
