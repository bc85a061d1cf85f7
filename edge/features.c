/*
 * Each probe does the real thing once, on descriptors of its own: version numbers say little where kernels
 * are patched, and less inside gVisor, which accepts options that it then ignores.
 */
#include "edge/features.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SYS_CACHESTAT = 451 /* since 6.5; newer than many libc headers */ };

static void close_pair(int fds[2])
{
	close(fds[0]);
	close(fds[1]);
}

/* Two connected TCP sockets. kTLS can only be asked for on such. */
static bool tcp_pair(int out_fds[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int server = -1;

	if (listener >= 0 && client >= 0 && bind(listener, (struct sockaddr *)&a, len) == 0 &&
	    listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&a, &len) == 0 &&
	    connect(client, (struct sockaddr *)&a, len) == 0)
		server = accept4(listener, (struct sockaddr *)&a, &len, SOCK_CLOEXEC);
	if (listener >= 0)
		close(listener);
	if (server < 0) {
		if (client >= 0)
			close(client);
		return false;
	}
	out_fds[0] = client;
	out_fds[1] = server;
	return true;
}

/* gVisor accepts the option and does nothing: only what can be read back counts. */
static bool find_ktls(void)
{
	char name[16] = "";
	socklen_t len = sizeof(name);
	int fds[2];
	bool found;

	if (!tcp_pair(fds))
		return false;
	found = setsockopt(fds[0], IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) == 0 &&
		getsockopt(fds[0], IPPROTO_TCP, TCP_ULP, name, &len) == 0 &&
		strncmp(name, "tls", 3) == 0;
	close_pair(fds);
	return found;
}

static bool find_splice(void)
{
	int sockets[2], pipes[2];
	bool found;

	if (!tcp_pair(sockets))
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

	if (fd >= 0 && tcp_pair(fds)) {
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
		{ "kTLS", find_ktls(), "TLS is encrypted by the program" },
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
