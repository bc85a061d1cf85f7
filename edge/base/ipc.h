/*
 * Messages between the master and its children: one SOCK_SEQPACKET packet each, with
 * at most 16 descriptors. The peer's death reads as an end of file.
 */
#ifndef BRIM_BASE_IPC_H
#define BRIM_BASE_IPC_H

#include <stddef.h>
#include <stdint.h>

#include "edge/base/check.h"

enum { IPC_FDS_MAX = 16, IPC_BODY_MAX = 4096 };

struct ipc_message {
	uint32_t type;
	uint32_t body_bytes;
	int fd_count;
	int fds[IPC_FDS_MAX]; /* the receiver owns them */
	char body[IPC_BODY_MAX];
};

/* Both ends non-blocking and close-on-exec. 0 or a negative errno. */
int ipc_pair(int out_fds[2]) NODISCARD;
/* 0, -EAGAIN, or another negative errno. Descriptors stay the sender's. */
int ipc_send(int fd, uint32_t type, const void *body, size_t body_bytes, const int *fds, int fd_count)
	NODISCARD;
/* 1 a message, 0 the peer is gone, -EAGAIN none now, or another negative errno. */
int ipc_receive(int fd, struct ipc_message *out) NODISCARD;

#endif
