/*
 * A packet is the type (4 bytes) and the body, so that it is never empty and a read of 0 bytes can
 * only be the peer's death. SOCK_SEQPACKET keeps packets whole: there is no partial send or
 * receive to handle. What is malformed is dropped with its descriptors closed.
 */
#include "edge/base/ipc.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control { /* aligned as the kernel wants it */
	struct cmsghdr header;
	char bytes[CMSG_SPACE(IPC_FDS_MAX * sizeof(int))];
};

static void take_fds(struct msghdr *m, struct ipc_message *out);

int ipc_pair(int out_fds[2])
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
		return -errno;
	out_fds[0] = fds[0];
	out_fds[1] = fds[1];
	return 0;
}

int ipc_send(int fd, uint32_t type, const void *body, size_t body_bytes, const int *fds, int fd_count)
{
	CHECK(body_bytes <= IPC_BODY_MAX && fd_count >= 0 && fd_count <= IPC_FDS_MAX);
	struct iovec iov[2] = { { &type, sizeof(type) }, { (void *)body, body_bytes } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	union control control;
	size_t fd_bytes = (size_t)fd_count * sizeof(int);
	ssize_t n;

	if (fd_count > 0) {
		memset(&control, 0, sizeof(control));
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(fd_bytes);
		control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(fd_bytes),
						   .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.header), fds, fd_bytes);
	}
	do {
		n = sendmsg(fd, &m, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int ipc_receive(int fd, struct ipc_message *out)
{
	struct iovec iov[2] = { { &out->type, sizeof(out->type) }, { out->body, IPC_BODY_MAX } };
	union control control;
	struct msghdr m = { .msg_iov = iov,
			    .msg_iovlen = 2,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	ssize_t n;

	do {
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == 0)
		return 0;
	take_fds(&m, out);
	if ((size_t)n < sizeof(out->type) || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		for (int i = 0; i < out->fd_count; i++)
			close(out->fds[i]);
		out->fd_count = 0;
		return -EPROTO;
	}
	out->body_bytes = (uint32_t)((size_t)n - sizeof(out->type));
	return 1;
}

static void take_fds(struct msghdr *m, struct ipc_message *out)
{
	out->fd_count = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t bytes = c->cmsg_len - CMSG_LEN(0);
		memcpy(out->fds, CMSG_DATA(c), bytes); /* the control buffer holds no more */
		out->fd_count = (int)(bytes / sizeof(int));
	}
}
