/*
 * mini PORT DIRECTORY: the least that can be called an HTTP/1.1 server, the floor for the cost of hits.
 *
 * One epoll set and keep-alive. The target's second part names what is wanted («/hit/10m/warm»: 10m). 1k is
 * answered from memory, in one send: recv and send are all that a request costs, since epoll_wait is
 * shared among those that are ready together. All else is the bare sendfile loop: a head, then as much of
 * DIRECTORY/NAME as the socket takes, and more when it takes more. What a server costs beyond this is its
 * own: parsing, looking up, checking, telling. (The blocking processes of floor.c won't do here:
 * with 64 connections, switching between them costs more than 100 KiB do.)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DESCRIPTORS_MAX = 4096, FILES_MAX = 8, NAME_MAX_LENGTH = 15 };

struct file {
	char name[NAME_MAX_LENGTH + 1];
	int fd;
	size_t length;
	char head[128];
	size_t head_length;
};

/* What a connection (by its descriptor) still has to send. */
struct rest {
	int file;
	off_t at;
	size_t left; /* 0: nothing, it waits for a request */
};

static const char head[] = "HTTP/1.1 200 OK\r\n"
			   "Content-Type: application/octet-stream\r\n"
			   "Content-Length: 1024\r\n"
			   "Cache-Control: public, max-age=86400\r\n\r\n";
static char answer[sizeof(head) - 1 + 1024];
static struct file files[FILES_MAX];
static struct rest rests[DESCRIPTORS_MAX];
static const char *directory;
static int poller;

static void die(const char *what)
{
	fprintf(stderr, "mini: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int listen_on(int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 1024) != 0)
		die("listen");
	return fd;
}

static void watch(int operation, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	if (epoll_ctl(poller, operation, fd, &event) != 0)
		die("epoll_ctl");
}

static void accept_all(int listener)
{
	int fd, one = 1;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
		if (fd >= DESCRIPTORS_MAX)
			die("too many connections");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		rests[fd].left = 0;
		watch(EPOLL_CTL_ADD, fd, EPOLLIN);
	}
}

/* --- files: opened once */

static void open_file(struct file *f, const char *name)
{
	struct stat status;
	char path[512];

	snprintf(f->name, sizeof(f->name), "%s", name);
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	f->fd = open(path, O_RDONLY);
	if (f->fd < 0 || fstat(f->fd, &status) != 0)
		die(path);
	f->length = (size_t)status.st_size;
	f->head_length = (size_t)snprintf(f->head, sizeof(f->head),
					  "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", f->length);
}

static const struct file *find_file(const char *name)
{
	for (int i = 0; i < FILES_MAX; i++) {
		if (files[i].head_length == 0)
			open_file(&files[i], name);
		if (strcmp(files[i].name, name) == 0)
			return &files[i];
	}
	die("too many files");
	return NULL;
}

/* --- answers */

static void send_rest(int fd)
{
	struct rest *r = &rests[fd];

	while (r->left > 0) {
		ssize_t n = sendfile(fd, r->file, &r->at, r->left);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			close(fd);
			return;
		}
		r->left -= (size_t)n;
	}
}

static void answer_file(int fd, const char *name)
{
	const struct file *f = find_file(name);

	if (send(fd, f->head, f->head_length, MSG_NOSIGNAL | MSG_MORE) != (ssize_t)f->head_length) {
		close(fd);
		return;
	}
	rests[fd] = (struct rest){ .file = f->fd, .left = f->length };
	send_rest(fd);
	if (rests[fd].left > 0)
		watch(EPOLL_CTL_MOD, fd, EPOLLOUT);
}

/* Our client sends a request in one piece, and takes a small answer whole. */
static void serve(int fd)
{
	char request[4096], name[NAME_MAX_LENGTH + 1];
	ssize_t n = recv(fd, request, sizeof(request) - 1, 0);

	if (n <= 0) {
		close(fd);
		return;
	}
	request[n] = '\0';
	if (strncmp(request, "GET /hit/1k/", 12) == 0) {
		if (send(fd, answer, sizeof(answer), MSG_NOSIGNAL) != (ssize_t)sizeof(answer))
			close(fd);
	} else if (sscanf(request, "GET /%*[^/]/%15[^/]/", name) == 1)
		answer_file(fd, name);
	else
		close(fd);
}

static void go_on(int fd)
{
	send_rest(fd);
	if (rests[fd].left == 0)
		watch(EPOLL_CTL_MOD, fd, EPOLLIN);
}

int main(int argc, char **argv)
{
	struct epoll_event events[64];
	int listener;

	if (argc != 3) {
		fprintf(stderr, "usage: mini PORT DIRECTORY\n");
		return 2;
	}
	directory = argv[2];
	poller = epoll_create1(0);
	listener = listen_on(atoi(argv[1]));
	memset(answer, 'x', sizeof(answer));
	memcpy(answer, head, sizeof(head) - 1);
	watch(EPOLL_CTL_ADD, listener, EPOLLIN);
	for (;;) {
		int n = epoll_wait(poller, events, 64, -1);

		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd == listener)
				accept_all(listener);
			else if (rests[fd].left > 0)
				go_on(fd);
			else
				serve(fd);
		}
	}
}
