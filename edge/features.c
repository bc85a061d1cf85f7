/*
 * Each probe does the real thing once, on descriptors of its own: version numbers say little where kernels
 * are patched, and less inside gVisor, which accepts options that it then ignores.
 */
#include "edge/features.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "edge/base/sock.h"
#include "edge/base/tls.h"

enum { SYS_CACHESTAT = 451 /* since 6.5; newer than many libc headers */ };

static void close_pair(int fds[2])
{
	close(fds[0]);
	close(fds[1]);
}

static bool find_splice(void)
{
	int sockets[2], pipes[2];
	bool found;

	if (sock_pair(sockets) != 0)
		return false;
	if (pipe2(pipes, O_CLOEXEC) != 0) {
		close_pair(sockets);
		return false;
	}
	found = send(sockets[0], "x", 1, MSG_NOSIGNAL) == 1 &&
		splice(sockets[1], NULL, pipes[1], NULL, 1, SPLICE_F_MOVE) == 1;
	close_pair(pipes);
	close_pair(sockets);
	return found;
}

static bool find_tee(void)
{
	int from[2], to[2];
	bool found;

	if (pipe2(from, O_CLOEXEC) != 0)
		return false;
	if (pipe2(to, O_CLOEXEC) != 0) {
		close_pair(from);
		return false;
	}
	found = write(from[1], "x", 1) == 1 && tee(from[0], to[1], 1, 0) == 1;
	close_pair(from);
	close_pair(to);
	return found;
}

/* A file in memory with one byte in it; -1: none. */
static int byte_file(void)
{
	int fd = memfd_create("brim-feature", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && write(fd, "x", 1) != 1) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool find_sendfile(void)
{
	int fd = byte_file(), fds[2];
	off_t offset = 0;
	bool found = false;

	if (fd >= 0 && sock_pair(fds) == 0) {
		found = sendfile(fds[0], fd, &offset, 1) == 1;
		close_pair(fds);
	}
	if (fd >= 0)
		close(fd);
	return found;
}

static bool find_seals(void)
{
	int fd = byte_file();
	bool found = fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0;

	if (fd >= 0)
		close(fd);
	return found;
}

/* On a file of a disk: memory's own file system never had it. */
static bool find_nowait(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char byte;
	struct iovec iov = { &byte, 1 };
	bool found = fd >= 0 && (preadv2(fd, &iov, 1, 0, RWF_NOWAIT) == 1 || errno == EAGAIN);

	if (fd >= 0)
		close(fd);
	return found;
}

static bool find_cachestat(void)
{
	int fd = byte_file();
	uint64_t range[2] = { 0, 1 }, counts[5];
	bool found = fd >= 0 && syscall(SYS_CACHESTAT, fd, range, counts, 0) == 0;

	if (fd >= 0)
		close(fd);
	return found;
}

static bool find_reuseport(void)
{
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool found = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0;

	if (fd >= 0)
		close(fd);
	return found;
}

size_t features_find(struct feature out[FEATURES_MAX])
{
	const struct feature found[] = {
		{ "kTLS", tls_probe(),
		  "TLS is encrypted by the program (has the kernel its module \"tls\"?)" },
		{ "splice", find_splice(), "bodies are copied" },
		{ "tee", find_tee(), "stored misses are sent from the file" },
		{ "sendfile", find_sendfile(), "bodies are copied" },
		{ "cachestat", find_cachestat(), "the page cache is probed by reading" },
		{ "RWF_NOWAIT", find_nowait(), "entries are read by threads" },
		{ "file seals", find_seals(), "the node can't start" },
		{ "SO_REUSEPORT", find_reuseport(), "the node can't start" },
	};

	_Static_assert(ARRAY_LEN(found) <= FEATURES_MAX, "room for all");
	memcpy(out, found, sizeof(found));
	return ARRAY_LEN(found);
}
