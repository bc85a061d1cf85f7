/*
 * Who the children are. The user is looked up once, by the master, before anything is forked; a child only
 * makes three system calls and never reads the user database.
 */
#ifndef BRIM_EDGE_PRIVILEGES_H
#define BRIM_EDGE_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

#include "edge/base/check.h"
#include "edge/base/view.h"

enum { PRIVILEGES_GROUPS_MAX = 256 };

struct privileges {
	bool drop; /* started as root and a user is named: children become that user */
	uid_t uid; /* else: who we are */
	gid_t gid;
	gid_t groups[PRIVILEGES_GROUPS_MAX];
	int group_count;
};

/* user empty: nothing is dropped. Not root: neither. -ENOENT: no such user; -E2BIG: in too many groups. */
int privileges_find(struct view user, struct privileges *out) NODISCARD;
/* In a child: for good. Checked by trying to go back. */
int privileges_drop(const struct privileges *p) NODISCARD;
/* For processes that hold keys: no core dump, no debugger, no look through /proc by others of the same user. */
void privileges_hide(void);

#endif
