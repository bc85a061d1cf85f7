/* Dropping root in children; see privileges.h. The order is groups, group, user: none can be left out. */
#include "edge/privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "edge/base/log.h"

int privileges_find(struct view user, struct privileges *out)
{
	struct privileges p = { .uid = geteuid(), .gid = getegid(), .group_count = PRIVILEGES_GROUPS_MAX };
	struct passwd entry, *found = NULL;
	char name[256], texts[4096];

	if (user.n == 0 || p.uid != 0) {
		*out = p;
		return 0;
	}
	(void)snprintf(name, sizeof(name), "%.*s", VIEW_ARG(user));
	if (getpwnam_r(name, &entry, texts, sizeof(texts), &found) != 0 || found == NULL)
		return -ENOENT;
	p.uid = entry.pw_uid;
	p.gid = entry.pw_gid;
	if (getgrouplist(name, p.gid, p.groups, &p.group_count) < 0)
		return -E2BIG;
	p.drop = p.uid != 0;
	*out = p;
	return 0;
}

int privileges_drop(const struct privileges *p)
{
	int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);

	/* Whatever runs in a child gains nothing from a set-user-id program. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 && errno != EINVAL)
		return -errno;
	if (!p->drop)
		return 0;
	if (setgroups((size_t)p->group_count, p->groups) != 0)
		return -errno;
	if (setresgid(p->gid, p->gid, p->gid) != 0 || setresuid(p->uid, p->uid, p->uid) != 0)
		return -errno;
	/* Changing the user took core dumps away: a child that dies should leave one where the system wants it,
	 * unless the master had keys, which are in the memory that it was forked with. */
	if (dumpable == 1)
		(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	return setuid(0) == 0 ? -EPERM : 0;
}

void privileges_hide(void)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		log_warn("dumps_not_forbidden", "error=%d", errno);
}
