/*
 * A stream of bytes over a socket: plain, TLS in the kernel (kTLS) or TLS in user space, behind one small table, so
 * that nothing above depends on which.
 *
 * No call blocks. What is common to them: >0 payload bytes; -EAGAIN not now, io->wait then says for which events
 * (TLS may have to write before it can read); any other negative value: broken, nothing more comes or goes.
 * Payload that was taken belongs to the stream: with TLS in user space it may still wait in its buffer (io_flush).
 */
#ifndef BRIM_BASE_IO_H
#define BRIM_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "edge/base/check.h"

struct io;

struct io_ops {
	/* 0: the peer has ended its stream (plain: FIN; TLS: close_notify). A TLS stream that ends without is -EPIPE. */
	int64_t (*read)(struct io *io, void *p, size_t n);
	/* As many as go at once; more: the kernel may keep them back for what follows. */
	int64_t (*write)(struct io *io, const struct iovec *v, int count, bool more);
	/* -EIO: the file ends before offset + n. */
	int64_t (*send_file)(struct io *io, int fd, uint64_t offset, size_t n, bool more);
	/* At most n bytes that the pipe holds. */
	int64_t (*send_pipe)(struct io *io, int pipe_fd, size_t n, bool more);
	/* Is payload buffered that no event of the socket will tell of? */
	bool (*buffered)(const struct io *io);
	/* What was taken leaves: from our buffer to the socket, and what the kernel keeps back since more was promised to
	 * the network. 0 all; -EAGAIN; else broken. */
	int (*flush)(struct io *io);
	/* Bytes taken that the peer's kernel has not acknowledged: in our buffer and in the socket's. Negative: unknown. */
	int64_t (*untaken)(const struct io *io);
	/* «Nothing more from us»: close_notify where that is the coding, then FIN. Best effort, once. */
	void (*end)(struct io *io);
	/* Frees what the stream holds; the descriptor stays the caller's. */
	void (*free)(struct io *io);
};

struct io {
	const struct io_ops *ops;
	int fd;
	uint8_t wait;	  /* WATCH_READ | WATCH_WRITE, after -EAGAIN */
	bool splices_in;  /* splice out of the descriptor gives payload */
	bool splices_out; /* send_file and send_pipe pass through no memory of ours */
	bool corked;	  /* the kernel was promised more: it may keep back what it has */
	bool holds; /* bytes that were taken wait in our buffer: until flush has sent them, nothing more is taken */
	bool early; /* what is read was sent before the handshake is done: it may be a repetition (RFC 8470) */
	bool closing; /* no new answer may begin: the stream will not be able to go on */
};

/* A plain socket; free does nothing. */
void io_plain_init(struct io *io, int fd);

/* The socket itself, past what is above it: for plain streams, and where the kernel does the TLS. */
int64_t io_socket_read(struct io *io, void *p, size_t n);
int64_t io_socket_write(struct io *io, const struct iovec *v, int count, bool more);
int64_t io_socket_send_file(struct io *io, int fd, uint64_t offset, size_t n, bool more);
int64_t io_socket_send_pipe(struct io *io, int pipe_fd, size_t n, bool more);
int64_t io_socket_untaken(const struct io *io);
int io_socket_flush(struct io *io);

#endif
