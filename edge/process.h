/*
 * What the master gives to its children, and the messages between them.
 *
 * The master creates everything shared before the first fork; a child that replaces a dead one finds it the
 * same way. See docs/ARCHITECTURE.md, «Processes».
 */
#ifndef BRIM_EDGE_PROCESS_H
#define BRIM_EDGE_PROCESS_H

#include "cache/cache.h"
#include "conf/conf.h"
#include "edge/peers.h"
#include "edge/stats.h"
#include "origin/fetch.h"

struct tls_tickets;

enum process_role { PROCESS_MASTER, PROCESS_WORKER, PROCESS_KEEPER };

/* One per child, in shared memory: written by the master, read by the keeper for status. */
struct process_entry {
	_Atomic int32_t pid;
	_Atomic uint32_t restarts;
	_Atomic int64_t started_ms; /* wall */
	_Atomic uint32_t accepting; /* a worker takes connections: written by itself */
};

/* The outcome of the last reload, in shared memory: written by the master. */
struct process_board {
	_Atomic uint32_t version; /* odd while being written */
	uint32_t generation;
	int64_t reloaded_ms;   /* 0: never */
	int32_t reload_result; /* 0 or -EINVAL */
	uint32_t reloads_done, reloads_failed;
	char reload_fault[512];
	int64_t started_ms;
	_Atomic int32_t master_pid;
	_Atomic uint32_t draining;
	struct process_entry keeper, workers[CONF_WORKERS_MAX];
};

struct process {
	enum process_role role;
	unsigned slot; /* of a worker */
	int ipc_fd;    /* to the master */
	struct process_board *board;
	struct cache_shared *cache_shared;
	struct cache_conf cache_conf;
	struct origin_shared *origin_shared;
	struct stats *stats;
	struct peers *peers;
	struct tls_tickets *tickets;
	int *listen_fds; /* a worker's own SO_REUSEPORT sockets, in the order of conf->listeners */
	int *admin_fds; /* the keeper's, in the order of conf->admin_listen, and of conf->metrics_listen; */
	int *metrics_fds; /* both end with -1 or after LISTEN_ADMIN_MAX (edge/listen.h) */
	int conf_fd;	  /* sealed memfd: the committed snapshot's text */
	uint32_t generation;
	int access_fd, error_fd; /* -1: none */
};

/* Each runs its process until it is told to end; returns its exit code. */
int worker_run(const struct process *p);
int keeper_run(const struct process *p);

#endif
