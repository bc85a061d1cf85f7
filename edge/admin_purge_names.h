/*
 * What the body of a purge names, read into scopes. Some items at a time, since a call may name 10,000 and the
 * keeper's loop has others to serve.
 */
#ifndef BRIM_EDGE_ADMIN_PURGE_NAMES_H
#define BRIM_EDGE_ADMIN_PURGE_NAMES_H

#include "edge/admin_call.h"
#include "edge/admin_json.h"

enum { ADMIN_PURGE_ITEMS_MAX = 10000 };

/* Zero it first. */
struct purge_names {
	struct admin_call *call;
	struct cJSON *body;
	struct cache_scope *scopes;
	unsigned count, capacity;
	bool soft, dry_run, all;
	const struct conf_site *tags_of; /* NULL: of all sites */

	unsigned items; /* read so far */
	unsigned kind, index;
	const struct cJSON *next; /* of the list that is being read */
	struct admin_fault fault;
};

/* 0; -EINVAL, -EPERM (a site that the token may not touch): *n->fault says what; -ENOMEM. */
int purge_names_begin(struct purge_names *n, struct admin_call *c) NODISCARD;
/* 0: all is read; -EAGAIN: call again; else as above. */
int purge_names_more(struct purge_names *n) NODISCARD;
/* For the log, when all is read: how many of each kind, and the first of them without its query. */
struct view purge_names_told(const struct purge_names *n, struct arena *a);
void purge_names_fini(struct purge_names *n);

#endif
