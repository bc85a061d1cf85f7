/* Opening and reopening log files; see logs.h. Appending, so that several processes write whole lines. */
#include "edge/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "conf/fault.h"

static int open_log(struct view path)
{
	int fd;

	if (view_eq(path, VIEW("stderr")))
		fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	else if (view_eq(path, VIEW("stdout")))
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		fd = open(path.p, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
	return fd < 0 ? -errno : fd;
}

static int fail(struct conf_faults *faults, const char *pointer, struct view path, int error)
{
	conf_fault(faults, pointer, "can't open %.*s: %s", VIEW_ARG(path), strerror(-error));
	return error;
}

int logs_open(const struct conf *c, struct conf_faults *faults, struct logs *out)
{
	struct logs l = LOGS_NONE;

	l.error_fd = open_log(c->error_path);
	if (l.error_fd < 0)
		return fail(faults, "/log/error/path", c->error_path, l.error_fd);
	if (c->access_path.n != 0) {
		l.access_fd = open_log(c->access_path);
		if (l.access_fd < 0) {
			int error = l.access_fd;

			logs_close(&l);
			return fail(faults, "/log/access/path", c->access_path, error);
		}
	}
	*out = l;
	return 0;
}

void logs_close(struct logs *l)
{
	if (l->access_fd >= 0)
		close(l->access_fd);
	if (l->error_fd >= 0)
		close(l->error_fd);
	*l = LOGS_NONE;
}

void logs_use(const struct logs *l, const struct conf *c)
{
	log_to(l->error_fd >= 0 ? l->error_fd : STDERR_FILENO, c->error_level);
}
