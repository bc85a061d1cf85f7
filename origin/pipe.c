/*
 * A pool of pipes. A new pipe asks for 1 MiB and takes less if the kernel refuses (a user's pipes
 * share pipe-user-pages-soft: beyond it sizes can't be raised); its real size is read back. Pipes
 * are kept when given back, since making one of 1 MiB anew costs more than moving a small body.
 */
#include "origin/pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { CAPACITY_WANTED = 1 << 20, CAPACITY_LEAST = 64 << 10 };

static struct pipe *pipe_new(void);
static void pipe_free(struct pipe_pool *p, struct pipe *pipe);
static void ask_for_capacity(struct pipe *pipe);

int pipe_pool_init(struct pipe_pool *p, unsigned limit)
{
	int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null_fd < 0)
		return -errno;
	*p = (struct pipe_pool){ .limit = limit, .null_fd = null_fd };
	list_init(&p->idle);
	return 0;
}

void pipe_pool_fini(struct pipe_pool *p)
{
	LIST_EACH (&p->idle, at, following)
		pipe_free(p, LIST_ENTRY(at, struct pipe, link));
	CHECK(p->open == 0); /* every pipe was given back */
	close(p->null_fd);
}

struct pipe *pipe_take(struct pipe_pool *p)
{
	struct pipe *pipe;

	if (!list_empty(&p->idle)) {
		pipe = LIST_ENTRY(p->idle.next, struct pipe, link);
		list_remove(&pipe->link);
		return pipe;
	}
	if (p->open == p->limit)
		return NULL;
	pipe = pipe_new();
	if (pipe != NULL)
		p->open++;
	return pipe;
}

void pipe_give(struct pipe_pool *p, struct pipe **taken)
{
	struct pipe *pipe = *taken;

	*taken = NULL;
	if (pipe == NULL)
		return;
	if (pipe_drop(p, pipe) != 0) {
		pipe_free(p, pipe);
		return;
	}
	list_prepend(&p->idle, &pipe->link); /* the one whose pages are warm goes first */
}

int pipe_drop(struct pipe_pool *p, struct pipe *pipe)
{
	while (pipe->held_bytes > 0) {
		ssize_t n = splice(pipe->read_fd, NULL, p->null_fd, NULL, pipe->held_bytes,
				   SPLICE_F_NONBLOCK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		pipe->held_bytes -= (size_t)n;
	}
	return 0;
}

static struct pipe *pipe_new(void)
{
	struct pipe *pipe = malloc(sizeof(*pipe));
	int fds[2];

	if (pipe == NULL)
		return NULL;
	if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0) {
		free(pipe);
		return NULL;
	}
	*pipe = (struct pipe){ .read_fd = fds[0], .write_fd = fds[1] };
	list_init(&pipe->link);
	ask_for_capacity(pipe);
	return pipe;
}

static void pipe_free(struct pipe_pool *p, struct pipe *pipe)
{
	list_remove(&pipe->link);
	close(pipe->read_fd);
	close(pipe->write_fd);
	free(pipe);
	p->open--;
}

static void ask_for_capacity(struct pipe *pipe)
{
	for (int wanted = CAPACITY_WANTED; wanted >= CAPACITY_LEAST; wanted /= 2) {
		if (fcntl(pipe->write_fd, F_SETPIPE_SZ, wanted) >= 0)
			break;
	}
	int got = fcntl(pipe->write_fd, F_GETPIPE_SZ);
	pipe->capacity_bytes = got > 0 ? (size_t)got : 4096;
}
