/*
 * The node's sockets, all opened by the master. Each worker slot has an SO_REUSEPORT socket of its own for
 * every listener, so that the kernel spreads connections and a replaced worker finds its queue as it was.
 */
#ifndef BRIM_EDGE_LISTEN_H
#define BRIM_EDGE_LISTEN_H

#include "conf/conf.h"
#include "edge/privileges.h"

enum {
	LISTEN_ADMIN_MAX = 8,
	LISTEN_BACKLOG = 4096, /* the kernel lowers it to net.core.somaxconn */
};

struct listen_sockets {
	int workers[CONF_WORKERS_MAX][CONF_LISTENERS_MAX]; /* -1: none */
	int admin[LISTEN_ADMIN_MAX], metrics[LISTEN_ADMIN_MAX];
};

void listen_init(struct listen_sockets *s);
/* Faults are told to «faults» with their pointers. 0 or a negative errno. */
int listen_open_traffic(struct listen_sockets *s, const struct conf *c, struct conf_faults *faults)
	NODISCARD;
int listen_open_admin(struct listen_sockets *s, const struct conf *c, const struct privileges *p,
		      struct conf_faults *faults) NODISCARD;
/* This process's copies, but for those of slot «keep» (-1: none). Idempotent. */
void listen_close_traffic(struct listen_sockets *s, int keep);
void listen_close_admin(struct listen_sockets *s);
/* Removes the files of the admin sockets that are open, when the node ends. */
void listen_remove_admin(const struct listen_sockets *s, const struct conf *c);

#endif
