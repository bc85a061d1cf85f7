/*
 * A child's snapshots: the one in use and the one on offer, exchanged as the master says (edge/message.h).
 * Workers and the keeper share this; what a new snapshot means to each is theirs.
 */
#ifndef BRIM_EDGE_SNAPSHOT_H
#define BRIM_EDGE_SNAPSHOT_H

#include "edge/base/ipc.h"
#include "edge/logs.h"
#include "edge/process.h"

struct snapshot {
	int ipc_fd;
	struct conf *conf;    /* in use; this struct's reference */
	struct conf *offered; /* NULL: nothing is on offer */
	int conf_fd;	      /* the text of the one in use; the keeper shows it */
	int offered_fd;
	struct logs offered_logs;
	/* New log files after logs_changed; the one who asks takes them (-1: taken or none). */
	struct logs logs;
};

/* What its process does about the master's word. */
struct snapshot_user {
	/* What else is made of s->offered before it is READY. 0: nothing, or it is made; -EAGAIN: snapshot_built says so later;
	 * any other negative errno: refused. */
	int (*offer_came)(struct snapshot *s);
	/* It is not to be: what was made is dropped. Also where nothing was. */
	void (*offer_dropped)(struct snapshot *s);
	void (*conf_changed)(struct snapshot *s); /* conf is another one; logs_changed follows */
	void (*logs_changed)(struct snapshot *s);
	void (*order)(struct snapshot *s, const struct ipc_message *m); /* all messages but a snapshot's own */
};

/* Builds the snapshot that the process starts with. 0, or a negative errno with the fault in the log. */
int snapshot_open(struct snapshot *s, const struct process *p) NODISCARD;
void snapshot_close(struct snapshot *s);
/* Deals with all messages that have come. 0, or a negative errno: the master is gone. */
int snapshot_receive(struct snapshot *s, const struct snapshot_user *user) NODISCARD;
/* For offer_came's -EAGAIN, outside of snapshot_receive: 0, or why it is refused. */
void snapshot_built(struct snapshot *s, int result);
/* The error log of this process from now on; s->logs.error_fd is taken. The old one is closed. */
void snapshot_use_error_log(struct snapshot *s, int *error_fd);

#endif
