/*
 * Plain sockets as streams: each call is one system call. What TLS does with the same table is in tls.c.
 */
#include "edge/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "edge/base/loop.h"

/* A call failed: what that means to the stream. */
static int64_t failed(struct io *io, uint8_t wait)
{
	if (errno != EAGAIN && errno != EINTR)
		return -errno;
	io->wait = wait;
	return -EAGAIN;
}

int64_t io_socket_read(struct io *io, void *p, size_t n)
{
	ssize_t got = recv(io->fd, p, n, MSG_DONTWAIT);

	return got >= 0 ? got : failed(io, WATCH_READ);
}

int64_t io_socket_write(struct io *io, const struct iovec *v, int count, bool more)
{
	struct msghdr message = { .msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)count };
	ssize_t sent = sendmsg(io->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));

	if (sent < 0)
		return failed(io, WATCH_WRITE);
	io->corked = more;
	return sent;
}

int64_t io_socket_send_file(struct io *io, int fd, uint64_t offset, size_t n, bool more)
{
	off_t at = (off_t)offset;
	ssize_t sent = sendfile(io->fd, fd, &at, n);

	(void)more; /* sendfile can't say so */
	if (sent < 0)
		return failed(io, WATCH_WRITE);
	if (sent == 0)
		return -EIO;
	io->corked = false;
	return sent;
}

int64_t io_socket_send_pipe(struct io *io, int pipe_fd, size_t n, bool more)
{
	unsigned flags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK | (more ? SPLICE_F_MORE : 0);
	ssize_t sent = splice(pipe_fd, NULL, io->fd, NULL, n, flags);

	if (sent < 0)
		return failed(io, WATCH_WRITE);
	io->corked = more;
	return sent;
}

int64_t io_socket_untaken(const struct io *io)
{
	int bytes;

	return ioctl(io->fd, SIOCOUTQ, &bytes) == 0 ? bytes : -errno;
}

static bool plain_buffered(const struct io *io)
{
	(void)io;
	return false;
}

/* Setting NODELAY anew sends what the kernel keeps (it would for 200 ms). */
int io_socket_flush(struct io *io)
{
	int on = 1;

	if (io->corked)
		(void)setsockopt(io->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	io->corked = false;
	return 0;
}

static void plain_end(struct io *io)
{
	(void)shutdown(io->fd, SHUT_WR);
}

static void plain_free(struct io *io)
{
	(void)io;
}

static const struct io_ops plain_ops = {
	.read = io_socket_read,
	.write = io_socket_write,
	.send_file = io_socket_send_file,
	.send_pipe = io_socket_send_pipe,
	.buffered = plain_buffered,
	.flush = io_socket_flush,
	.untaken = io_socket_untaken,
	.end = plain_end,
	.free = plain_free,
};

void io_plain_init(struct io *io, int fd)
{
	*io = (struct io){ .ops = &plain_ops, .fd = fd, .splices_in = true, .splices_out = true };
}
