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

/* Whatever holds a client's socket: an arrival, a connection of HTTP/1 or HTTP/2, a tunnel. */
struct worker_client {
	struct list link;
	const struct worker_client_ops *ops;
};

struct worker_client_ops {
	/* w->draining was set: idle ones end, busy ones end after their answer. */
	void (*drain)(struct worker_client *c);
	/* The deadline has passed: end in this turn. */
	void (*cut)(struct worker_client *c);
};

struct worker {
	uint32_t magic;
	unsigned slot;
	struct loop *loop;
	struct conf *conf;	/* the current snapshot; requests ref it */
	struct tls_server *tls; /* made of it; NULL: no listener speaks TLS */
	struct cache *cache;
	struct origin_pool *origins;
	struct pipe_pool pipes;
	struct pipe *fill_pipe;	    /* from an origin's socket to a file; empty between turns */
	struct mono refusal_told;   /* when it was last logged that a store takes no more */
	struct mono tls_fault_told; /* and that an origin's TLS failed */
	struct mono tags_told;	    /* and that an answer has too many tags */
	struct mono proxy_told;	    /* and that a PROXY header was bad */
	struct mono refused_told;   /* and that a client's certificate was refused */
	struct stats_worker *stats;
	struct access_log *access;
	struct list clients; /* of struct worker_client; connection_count of them */
	unsigned connection_count, request_count;
	unsigned transfer_count; /* fills under way, with or without a client */
	unsigned tunnel_count;
	unsigned background_waits; /* requests for nobody that wait for a claim */
	bool draining;		   /* no keep-alive from now on; done when connection_count is 0 */
	uint64_t boot_secret[2];   /* random, for request ids and hash seeds */
	uint64_t request_serial;   /* for request ids */
	/* Kept for the next connection or request; zeroed at first. */
	struct head_block *free_heads;
	struct request *free_requests;
	struct h2_stream *free_streams;
	struct h2_head *free_head;
	unsigned free_head_count, free_request_count, free_stream_count;
};

/* --- what worker.c calls ---------------------------------------------------------------------- */

/* Frees what was kept for reuse; all connections are gone (connection.c). */
void connections_free_kept(struct worker *w);
/* The same for requests (request.c). */
void requests_free_kept(struct worker *w);
/* And for streams of HTTP/2 (h2_session.c). */
void h2_free_kept(struct worker *w);

/* --- what whoever holds a socket calls (worker.c) ------------------------------------------------ */

void worker_client_add(struct worker *w, struct worker_client *c, const struct worker_client_ops *ops);
/* Its socket has gone over to another client of the worker, which was added before. */
void worker_client_replaced(struct worker *w, struct worker_client *c);
/* Counts a connection of this client. False: it has as many as limits.connections_per_client allows, and was told so. Where a
 * PROXY header says who the client is, that comes later than the socket. */
bool worker_client_admit(struct worker *w, const struct conf_listener *l, int fd,
			 const struct sock_addr *client) NODISCARD;
/* Its socket is closed: a draining worker may be done. The last call. c NULL: there was no memory for it. client NULL: it was
 * not counted. */
void worker_client_gone(struct worker *w, struct worker_client *c, const struct sock_addr *client);
/* The same of a transfer. */
void worker_transfer_gone(struct worker *w);

#endif
