/*
 * The worker's pipes. A user gets only 64 pipes of 1 MiB and pipes count packets, not bytes: sizes are asked for,
 * read back, never assumed. A pipe is held only while it holds bytes.
 */
#ifndef BRIM_ORIGIN_PIPE_H
#define BRIM_ORIGIN_PIPE_H

#include "edge/base/list.h"

struct pipe {
	struct list link;
	int read_fd, write_fd;
	size_t capacity_bytes; /* as read back */
	size_t held_bytes;     /* what we put in and haven't taken out */
};

struct pipe_pool {
	struct list idle;
	unsigned open, limit;
	int null_fd; /* where dropped bytes go */
};

int pipe_pool_init(struct pipe_pool *p, unsigned limit) NODISCARD;
void pipe_pool_fini(struct pipe_pool *p);
/* NULL: the limit is reached, or no descriptors. */
struct pipe *pipe_take(struct pipe_pool *p);
/* Gives an empty pipe back; one that still holds bytes is emptied into /dev/null first, or closed. */
void pipe_give(struct pipe_pool *p, struct pipe **pipe);
/* Drops what the pipe holds. */
int pipe_drop(struct pipe_pool *p, struct pipe *pipe) NODISCARD;

#endif
