/*
 * The node: what the master opens once and every child, also one that comes later, is given. The
 * configuration in use and the log files are exchanged by reloads (reload.c); all else stays.
 *
 * Lifetime: node_open → (children are forked, reloads) → node_close. node_close is safe on a node that is
 * open only in part.
 */
#ifndef BRIM_EDGE_NODE_H
#define BRIM_EDGE_NODE_H

#include "edge/listen.h"
#include "edge/logs.h"
#include "edge/process.h"
#include "edge/tls_tickets.h"

struct node_options {
	const char *file; /* NULL: «quick» says it all */
	struct conf_quick quick;
};

/* A configuration in the forms that the master needs. */
struct node_conf {
	struct conf *conf;
	int fd;	       /* sealed memfd: its text with slots and the contents of files; -1: none */
	int keeper_fd; /* the same without keys, for the keeper; where there is fd */
};

struct node {
	const struct node_options *options;
	struct node_conf conf;
	struct privileges privileges;
	struct cache_conf cache_conf;
	struct arena arena; /* names of stores: they outlive the configuration that gave them */
	int lock_fds[CONF_STORES_MAX];
	bool follows_crash; /* the node before this one lost its master, and was still there */
	struct cache_shared *cache_shared;
	struct origin_shared *origin_shared;
	struct stats *stats;
	struct peers *peers;
	struct tls_tickets *tickets;
	struct process_board *board;
	struct listen_sockets sockets;
	struct logs logs;
};

/* Checked whole, with slots that keep those of «before» (NULL: none). */
int node_conf_read(const struct node_options *o, const struct conf *before, uint32_t generation,
		   struct conf_faults *faults, struct node_conf *out) NODISCARD;
void node_conf_close(struct node_conf *c);

/* What goes wrong is told to «faults», a line each. 0 or a negative errno. */
int node_open(struct node *n, const struct node_options *o, struct conf_faults *faults) NODISCARD;
void node_close(struct node *n);
/* The text for a process of this role. */
static inline int node_conf_fd(const struct node_conf *c, enum process_role role)
{
	return role == PROCESS_KEEPER ? c->keeper_fd : c->fd;
}

/* In a child: closes what belongs to the master or to other children. */
void node_keep_for(struct node *n, enum process_role role, unsigned slot);

#endif
