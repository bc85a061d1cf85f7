/*
 * load: drives one server over a few keep-alive connections and prints what it saw as one JSON object.
 *
 *	load [-c CONNECTIONS] [-n REQUESTS | -t SECONDS] [-s FIRST] [-m TEXT] [-w SECONDS] PORT TARGET
 *
 * A «%» in TARGET becomes FIRST, FIRST + 1, …: the way to ask for URLs that nobody has asked for yet.
 * -m counts the answers whose head contains TEXT (in any case): «; hit». -w gives up after so long.
 *
 * It has to cost little, since it shares its core with the origin, so it is one thread and one epoll
 * set, asks for one thing at a time on each connection, and has bodies dropped within the kernel
 * (MSG_TRUNC to a TCP socket copies nothing). It understands just enough of HTTP/1.1 for its purpose:
 * status 200 and a Content-Length; anything else is an error. When the time is up no request is begun any
 * more, but those under way are finished: what the server spent and what is counted are then the same
 * requests. (wrk and ab copy every body, and can't ask for distinct URLs without a script.)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 1024, HEAD_MAX = 8192, BODY_STEP = 1 << 20 };

struct connection {
	int fd; /* -1: finished or failed */
	bool in_body;
	size_t head_length;
	int64_t body_left;
	char head[HEAD_MAX + 1];
};

static struct {
	int connections;
	long requests; /* 0: as many as fit in seconds */
	double seconds;
	double give_up_after;
	long first;
	const char *match;
	int port;
	const char *before, *after; /* of the target's «%» */
	bool numbered;
} ask = { .connections = 1, .give_up_after = 60, .match = "" };

static struct connection connections[CONNECTIONS_MAX];
static long begun, done, errors, matched;
static int64_t bytes;
static int live, poller;
static double started_at;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void finish(struct connection *c)
{
	close(c->fd);
	c->fd = -1;
	live--;
}

/* A failed connection isn't replaced: a run with errors is no measurement anyway. */
static void fail(struct connection *c, const char *why)
{
	if (errors++ == 0)
		fprintf(stderr, "load: %s (%s) after %ld answers, head: %.*s\n", why,
			strerror(errno), done, (int)c->head_length, c->head);
	finish(c);
}

static bool may_begin(void)
{
	return ask.requests != 0 ? begun < ask.requests : now() - started_at < ask.seconds;
}

/* Requests are small and the connection idle, so that one send takes all. */
static void begin_request(struct connection *c)
{
	char text[2048];
	char number[24] = "";
	int n;

	if (ask.numbered)
		snprintf(number, sizeof(number), "%ld", ask.first + begun);
	n = snprintf(text, sizeof(text), "GET %s%s%s HTTP/1.1\r\nHost: bench.test\r\n\r\n",
		     ask.before, number, ask.after);
	begun++;
	c->in_body = false;
	c->head_length = 0;
	if (send(c->fd, text, (size_t)n, MSG_NOSIGNAL) != n)
		fail(c, "send");
}

static void open_connection(struct connection *c)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)ask.port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
	int one = 1;

	c->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
		perror("load: connect");
		exit(1);
	}
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event) != 0) {
		perror("load: epoll_ctl");
		exit(1);
	}
	live++;
}

static void end_answer(struct connection *c)
{
	done++;
	if (may_begin())
		begin_request(c);
	else
		finish(c);
}

/* 0 where more of the head is needed, 1 where it is whole, -1 where it isn't what we asked for. */
static int parse_head(struct connection *c)
{
	char *end, *length;
	int64_t surplus;

	c->head[c->head_length] = '\0';
	end = strstr(c->head, "\r\n\r\n");
	if (end == NULL)
		return c->head_length < HEAD_MAX ? 0 : -1;
	*end = '\0';
	length = strcasestr(c->head, "\r\ncontent-length:");
	if (length == NULL || strncmp(c->head, "HTTP/1.1 200 ", 13) != 0)
		return -1;
	if (*ask.match != '\0' && strcasestr(c->head, ask.match) != NULL)
		matched++;
	surplus = (int64_t)c->head_length - (end + 4 - c->head);
	c->body_left = strtoll(length + 17, NULL, 10) - surplus;
	c->in_body = true;
	bytes += surplus;
	return c->body_left >= 0 ? 1 : -1;
}

static void read_head(struct connection *c)
{
	ssize_t n = recv(c->fd, c->head + c->head_length, HEAD_MAX - c->head_length, MSG_DONTWAIT);
	int whole;

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		fail(c, "the connection ended within a head");
		return;
	}
	c->head_length += (size_t)n;
	whole = parse_head(c);
	if (whole < 0)
		fail(c, "not a 200 with a length");
	else if (whole > 0 && c->body_left == 0)
		end_answer(c);
}

static void drop_body(struct connection *c)
{
	int64_t want = c->body_left < BODY_STEP ? c->body_left : BODY_STEP;
	ssize_t n = recv(c->fd, NULL, (size_t)want, MSG_TRUNC | MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		fail(c, "the connection ended within a body");
		return;
	}
	bytes += n;
	c->body_left -= n;
	if (c->body_left == 0)
		end_answer(c);
}

static void run(void)
{
	struct epoll_event events[64];

	for (int i = 0; i < ask.connections; i++)
		open_connection(&connections[i]);
	started_at = now();
	for (int i = 0; i < ask.connections; i++)
		begin_request(&connections[i]);
	while (live > 0) {
		int n = epoll_wait(poller, events, 64, 1000);

		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (c->in_body)
				drop_body(c);
			else
				read_head(c);
		}
		if (now() - started_at > ask.give_up_after) {
			fprintf(stderr, "load: gave up after %.0f s with %d connections busy\n",
				ask.give_up_after, live);
			errors += live;
			return;
		}
	}
}

static void parse_arguments(int argc, char **argv)
{
	int option;
	char *mark;

	while ((option = getopt(argc, argv, "c:n:t:s:m:w:")) != -1) {
		switch (option) {
		case 'c':
			ask.connections = atoi(optarg);
			break;
		case 'n':
			ask.requests = atol(optarg);
			break;
		case 't':
			ask.seconds = atof(optarg);
			break;
		case 's':
			ask.first = atol(optarg);
			break;
		case 'm':
			ask.match = optarg;
			break;
		case 'w':
			ask.give_up_after = atof(optarg);
			break;
		default:
			exit(2);
		}
	}
	if (optind + 2 != argc || ask.connections < 1 || ask.connections > CONNECTIONS_MAX ||
	    (ask.requests == 0 && ask.seconds <= 0)) {
		fprintf(stderr, "load: bad arguments; its source begins with them\n");
		exit(2);
	}
	if (ask.requests != 0 && ask.connections > ask.requests)
		ask.connections = (int)ask.requests;
	ask.port = atoi(argv[optind]);
	ask.before = argv[optind + 1];
	mark = strchr(argv[optind + 1], '%');
	ask.numbered = mark != NULL;
	ask.after = mark != NULL ? mark + 1 : "";
	if (mark != NULL)
		*mark = '\0';
}

int main(int argc, char **argv)
{
	parse_arguments(argc, argv);
	poller = epoll_create1(0);
	run();
	printf("{\"requests\": %ld, \"bytes\": %lld, \"errors\": %ld, \"matched\": %ld, "
	       "\"seconds\": %.6f}\n",
	       done, (long long)bytes, errors, matched, now() - started_at);
	return errors == 0 ? 0 : 1;
}
