/*
 * mini PORT: the least that can be called an HTTP/1.1 server, the floor for the cost of a small hit.
 *
 * One epoll set, keep-alive, and for whatever looks like a whole request the same answer of 1 KiB
 * from memory, in one send: three system calls a request at most (epoll_wait is shared among those that are
 * ready together). What a server costs beyond this is its own: parsing, looking up, reading, telling.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char head[] = "HTTP/1.1 200 OK\r\n"
			   "Content-Type: application/octet-stream\r\n"
			   "Content-Length: 1024\r\n"
			   "Cache-Control: public, max-age=86400\r\n\r\n";
static char answer[sizeof(head) - 1 + 1024];

static int listen_on(int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 1024) != 0) {
		perror("mini: listen");
		exit(1);
	}
	return fd;
}

static void watch(int poller, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) != 0) {
		perror("mini: epoll_ctl");
		exit(1);
	}
}

static void accept_all(int poller, int listener)
{
	int fd, one = 1;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		watch(poller, fd);
	}
}

/* Our client sends a request in one piece and takes an answer of this size whole. */
static void serve(int fd)
{
	char request[4096];
	ssize_t n = recv(fd, request, sizeof(request), 0);

	if (n <= 0 || memmem(request, (size_t)n, "\r\n\r\n", 4) == NULL ||
	    send(fd, answer, sizeof(answer), MSG_NOSIGNAL) != (ssize_t)sizeof(answer))
		close(fd);
}

int main(int argc, char **argv)
{
	struct epoll_event events[64];
	int poller = epoll_create1(0), listener = listen_on(argc == 2 ? atoi(argv[1]) : 0);

	memset(answer, 'x', sizeof(answer));
	memcpy(answer, head, sizeof(head) - 1);
	watch(poller, listener);
	for (;;) {
		int n = epoll_wait(poller, events, 64, -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.fd == listener)
				accept_all(poller, listener);
			else
				serve(events[i].data.fd);
		}
	}
}
