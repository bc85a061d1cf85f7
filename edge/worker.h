/*
 * A worker: the process that serves traffic. Its context, passed to everything that runs in it.
 *
 * worker.c runs the process (ipc with the master, snapshots, accepting, draining, the 1 s tick);
 * connection.c, h1.c and request.c serve.
 */
#ifndef BRIM_EDGE_WORKER_H
#define BRIM_EDGE_WORKER_H

#include "cache/cache.h"
#include "conf/conf.h"
#include "edge/access_log.h"
#include "edge/base/list.h"
#include "edge/base/loop.h"
#include "edge/stats.h"
#include "origin/fetch.h"
#include "origin/pipe.h"

struct connection;

struct worker {
	uint32_t magic;
	unsigned slot;
	struct loop *loop;
	struct conf *conf; /* the current snapshot; requests ref it */
	struct cache *cache;
	struct origin_pool *origins;
	struct pipe_pool pipes;
	struct pipe *fill_pipe;	  /* from an origin's socket to a file; empty between turns */
	struct mono refusal_told; /* when it was last logged that a store takes no more */
	struct stats_worker *stats;
	struct access_log *access;
	struct list connections; /* of struct connection */
	unsigned connection_count, request_count;
	unsigned transfer_count;   /* fills under way, with or without a client */
	unsigned background_waits; /* requests for nobody that wait for a claim */
	bool draining;		   /* no keep-alive from now on; done when connection_count is 0 */
	uint64_t boot_secret[2];   /* random, for request ids and hash seeds */
	uint64_t request_serial;   /* for request ids */
	/* Kept for the next connection or request; zeroed at first. */
	struct head_block *free_heads;
	struct request *free_requests;
	unsigned free_head_count, free_request_count;
};

/* --- what worker.c calls (connection.c) ------------------------------------------------------- */

/* Takes the accepted socket (closes it on failure). The listener belongs to w->conf. */
void connection_open(struct worker *w, int fd, const struct sock_addr *peer,
		     const struct conf_listener *listener);
/* w->draining was set: idle connections close, busy ones close after their answer. */
void connections_drain(struct worker *w);
/* Deadline passed: close all, now. */
void connections_abort(struct worker *w);
/* Frees what was kept for reuse; all connections are gone. */
void connections_free_kept(struct worker *w);
/* The same for requests (request.c). */
void requests_free_kept(struct worker *w);

/* --- what connection.c calls back (worker.c) ---------------------------------------------------- */

/* A connection is gone (connection_count is already less): a draining worker may be done. */
void worker_connection_gone(struct worker *w, const struct sock_addr *peer);
/* The same of a transfer. */
void worker_transfer_gone(struct worker *w);

#endif
