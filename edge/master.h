/*
 * The master: opens what is shared, forks the children, replaces those that die, reloads, ends the node. It
 * reads files and its children's messages, and never a byte from the network.
 *
 *   master.c     its loop: signals, messages, deadlines; how a node ends
 *   children.c   forking, reaping, reviving
 *   reload.c     a new configuration, all or nothing
 *   node.c       what is opened once
 */
#ifndef BRIM_EDGE_MASTER_H
#define BRIM_EDGE_MASTER_H

#include "edge/base/ipc.h"
#include "edge/message.h"
#include "edge/node.h"

enum { MASTER_MAGIC = 0x6d617374, MASTER_CHILDREN_MAX = 1 + CONF_WORKERS_MAX };

enum master_phase {
	MASTER_RUNNING,
	MASTER_DRAINING, /* workers finish what they have; the keeper still commits it */
	MASTER_STOPPING, /* workers were told to end now */
	MASTER_CLOSING,	 /* workers are gone, the keeper closes the store */
	MASTER_OVER,
};

enum child_answer { CHILD_NOT_ASKED, CHILD_ASKED, CHILD_READY };

/* A child's place. The process in it may be replaced; pid 0: there is none at the moment. */
struct child {
	enum process_role role;
	unsigned slot;
	int pid, ipc_fd; /* -1: closed */
	struct process_entry *entry;
	unsigned restarts, early_deaths;
	struct mono started, start_at; /* start_at ms 0: it is not to be started */
	enum child_answer answer;      /* to the offer that is pending */
};

struct reload {
	bool pending;	       /* an offer is out */
	bool again;	       /* asked for meanwhile */
	uint32_t serial;       /* of the keeper's last request before this one began; 0: none */
	uint32_t again_serial; /* the same for the next one */
	struct node_conf conf;
	struct logs logs;
	struct mono deadline;
};

struct master {
	uint32_t magic;
	enum master_phase phase;
	struct node node;
	struct child children[MASTER_CHILDREN_MAX]; /* the keeper first */
	unsigned child_count;
	struct reload reload;
	struct mono deadline; /* of the phase; ms 0: none */
	struct mono ticket_key_due;
	int signal_fd;
};

/* Runs a node to its end; returns the program's exit code. */
int master_run(const struct node_options *o);

/* --- children.c ------------------------------------------------------------------------------- */

void children_init(struct master *m);
/* Starts all whose time has come. */
void children_start_due(struct master *m);
/* The next start, ms 0: none is due. */
struct mono children_next_start(const struct master *m);
/* After SIGCHLD: takes leave of those that ended and plans who follows them. */
void children_reap(struct master *m);
/* How many processes of this role there are. */
unsigned children_alive(const struct master *m, enum process_role role);
/* To every living child of a role; PROCESS_MASTER: to all. What can't be sent is logged. */
void children_tell(struct master *m, enum process_role role, uint32_t type, const void *body,
		   size_t body_bytes);
void children_kill(struct master *m, enum process_role role);
/* No child of this role is started from now on. */
void children_retire(struct master *m, enum process_role role);
int child_send(struct child *c, uint32_t type, const void *body, size_t body_bytes, const int *fds,
	       int fd_count) NODISCARD;

#define EACH_CHILD(m, c) \
	for (struct child *c = (m)->children; c < (m)->children + (m)->child_count; c++)

/* --- reload.c ----------------------------------------------------------------------------------- */

/* Reads the configuration again and offers it. serial: of the keeper's request; 0: it didn't ask. */
void reload_begin(struct master *m, uint32_t serial);
/* Reads it and tells the keeper what would come of it. */
void reload_try(struct master *m, uint32_t serial);
/* A child answered, came or went, or time passed: decide if it can be decided. */
void reload_advance(struct master *m);
void reload_answered(struct master *m, struct child *c, const struct ipc_message *answer);
/* The offer that is pending, to a child that has just been started. */
void reload_offer(struct master *m, struct child *c);
/* No reload any more: the node ends. */
void reload_abandon(struct master *m);

#endif
