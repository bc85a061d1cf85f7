/*
 * floor: the bare loops that move large bodies from an origin, the floors for stored misses and relays.
 *
 *	floor tee PORT ORIGIN DIRECTORY		a stored miss: origin → pipe, tee → second pipe → file, pipe → client
 *	floor file PORT ORIGIN DIRECTORY	a stored miss: origin → pipe → file, then sendfile to the client
 *	floor splice PORT ORIGIN		a relay: origin → pipe → client
 *
 * Each connection has a process of its own with blocking calls, which leaves nothing but the calls to
 * pay for: no loop, no parsing beyond the end of the head and a length, no timeouts, no cache. What is stored
 * stays in DIRECTORY, as a cache's would: a file that is unlinked at once gives its pages, still in
 * the processor's cache, to the next.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIPE_BYTES = 1 << 20, HEAD_MAX = 4096 };

struct exchange {
	int client, origin;
	int pipe[2], copy[2]; /* read, write */
	int file;
	char request[HEAD_MAX + 1];
	size_t request_length;
};

static const char *directory;

static void die(const char *what)
{
	fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Between processes that go away at any time, an end of a connection ends this one's process. */
static size_t must(ssize_t n)
{
	if (n <= 0)
		exit(0);
	return (size_t)n;
}

static struct sockaddr_in loopback(const char *port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons((uint16_t)atoi(port)),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static void no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* --- heads */

static void read_request(struct exchange *x)
{
	x->request_length = 0;
	do {
		x->request_length += must(recv(x->client, x->request + x->request_length,
					       HEAD_MAX - x->request_length, 0));
		x->request[x->request_length] = '\0';
	} while (strstr(x->request, "\r\n\r\n") == NULL);
}

/* Peeks, so that what follows the head stays in the socket for splice. */
static size_t pass_head(struct exchange *x)
{
	char head[HEAD_MAX + 1], *end, *length;
	size_t n;

	must(send(x->origin, x->request, x->request_length, MSG_NOSIGNAL));
	do {
		n = must(recv(x->origin, head, HEAD_MAX, MSG_PEEK));
		head[n] = '\0';
		end = strstr(head, "\r\n\r\n");
	} while (end == NULL);
	n = (size_t)(end + 4 - head);
	must(recv(x->origin, head, n, 0));
	head[n] = '\0';
	length = strcasestr(head, "\r\ncontent-length:");
	if (length == NULL)
		die("no length from the origin");
	must(send(x->client, head, n, MSG_NOSIGNAL | MSG_MORE));
	return strtoull(length + 17, NULL, 10);
}

/* --- bodies */

/* What splice may block for is the peer; a pipe it fills or empties is ours alone. */
static size_t move(int from, int to, size_t n)
{
	return must(splice(from, NULL, to, NULL, n, SPLICE_F_MOVE));
}

static void move_all(int from, int to, size_t n)
{
	while (n > 0)
		n -= move(from, to, n);
}

static void send_file(int client, int file, off_t from, size_t n)
{
	while (n > 0)
		n -= must(sendfile(client, file, &from, n));
}

static int open_next(void)
{
	static unsigned number;
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%d-%u", directory, (int)getpid(), number++);
	fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
	if (fd < 0)
		die(path);
	return fd;
}

static void answer_by_splice(struct exchange *x)
{
	for (size_t left = pass_head(x); left > 0;) {
		size_t n = move(x->origin, x->pipe[1], left);

		move_all(x->pipe[0], x->client, n);
		left -= n;
	}
}

static void answer_by_tee(struct exchange *x)
{
	x->file = open_next();
	for (size_t left = pass_head(x); left > 0;) {
		size_t n = move(x->origin, x->pipe[1], left), copied;

		left -= n;
		for (; n > 0; n -= copied) {
			copied = must(tee(x->pipe[0], x->copy[1], n, 0));
			move_all(x->pipe[0], x->client, copied);
			move_all(x->copy[0], x->file, copied);
		}
	}
	close(x->file);
}

static void answer_by_file(struct exchange *x)
{
	off_t at = 0;

	x->file = open_next();
	for (size_t left = pass_head(x); left > 0;) {
		size_t n = move(x->origin, x->pipe[1], left);

		move_all(x->pipe[0], x->file, n);
		send_file(x->client, x->file, at, n);
		at += (off_t)n;
		left -= n;
	}
	close(x->file);
}

/* --- processes */

static const struct way {
	const char *name;
	void (*answer)(struct exchange *x);
} ways[] = {
	{ "tee", answer_by_tee },
	{ "file", answer_by_file },
	{ "splice", answer_by_splice },
};

static void open_pipe(int out_pipe[2])
{
	if (pipe(out_pipe) != 0 || fcntl(out_pipe[1], F_SETPIPE_SZ, PIPE_BYTES) < PIPE_BYTES)
		die("pipe");
}

static void serve(const struct way *way, int client, const char *origin_port)
{
	static struct exchange x;
	struct sockaddr_in to = loopback(origin_port);

	x.client = client;
	no_delay(client);
	x.origin = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(x.origin, (struct sockaddr *)&to, sizeof(to)) != 0)
		die("connect");
	no_delay(x.origin);
	open_pipe(x.pipe);
	open_pipe(x.copy);
	for (;;) {
		read_request(&x);
		way->answer(&x);
	}
}

/* Waited for, so that their CPU time counts as this process's children's. */
static void reap(int number)
{
	(void)number;
	while (waitpid(-1, NULL, WNOHANG) > 0) {
	}
}

static void accept_all(const struct way *way, const char *port, const char *origin_port)
{
	struct sockaddr_in at = loopback(port);
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, client;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(listener, 1024) != 0)
		die("listen");
	while ((client = accept(listener, NULL, NULL)) >= 0) {
		if (fork() == 0) {
			close(listener);
			serve(way, client, origin_port);
		}
		close(client);
	}
	die("accept");
}

int main(int argc, char **argv)
{
	signal(SIGCHLD, reap);
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (argc < 4 || strcmp(argv[1], ways[i].name) != 0)
			continue;
		directory = argv[argc - 1];
		accept_all(&ways[i], argv[2], argv[3]);
	}
	fprintf(stderr, "floor: bad arguments; its source begins with them\n");
	return 2;
}
