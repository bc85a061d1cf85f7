/*
 * What master and children say to each other (edge/base/ipc.h), one struct per message.
 *
 * Reload: OFFER to every child → READY or REFUSED from each → COMMIT to all, or DROP to all. A child
 * acts on COMMIT only if it said READY to that generation, so a late message changes nothing.
 */
#ifndef BRIM_EDGE_MESSAGE_H
#define BRIM_EDGE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

enum message_type {
	/* from the master */
	MESSAGE_OFFER = 1,   /* struct message_logs; descriptors: the text, then those logs */
	MESSAGE_COMMIT,	     /* struct message_generation */
	MESSAGE_DROP,	     /* struct message_generation */
	MESSAGE_LOGS,	     /* struct message_logs; descriptors: those logs */
	MESSAGE_DRAIN,	     /* to a worker: struct message_drain */
	MESSAGE_STOP,	     /* end now */
	MESSAGE_WORKER_DIED, /* to the keeper: struct message_death */
	MESSAGE_RELOADED,    /* to the keeper, which asked: struct message_outcome */
	MESSAGE_ACCEPT, /* to a worker: struct message_accept; and from the keeper, which wishes it */
	/* from a child */
	MESSAGE_READY,	 /* struct message_generation */
	MESSAGE_REFUSED, /* struct message_outcome */
	MESSAGE_RELOAD,	 /* from the keeper: struct message_reload; as SIGHUP */
};

/* Which log files come along, in this order. */
struct message_logs {
	uint32_t generation; /* of an offer */
	uint8_t access, error;
};

struct message_generation {
	uint32_t generation;
};

struct message_drain {
	uint64_t timeout_ms;
};

struct message_death {
	uint32_t slot;
	int32_t pid;
};

/* Each has the next number. The outcome names the last one that came before the file was read. */
struct message_reload {
	uint32_t serial;
	uint32_t dry_run; /* says what would come of it, and changes nothing */
};

/* Take connections, or take none until told otherwise. */
struct message_accept {
	uint32_t accept;
};

enum { MESSAGE_FAULT_BYTES = 512 };

struct message_outcome {
	uint32_t generation;
	uint32_t serial; /* of a reload that the keeper asked for */
	uint32_t dry_run;
	int32_t result; /* 0 or a negative errno */
	char fault[MESSAGE_FAULT_BYTES];
};

#endif
