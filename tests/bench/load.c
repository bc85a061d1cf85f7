/*
 * load: drives one server over a few keep-alive connections and prints what it saw as one JSON object.
 *
 *	load [-c CONNECTIONS] [-n REQUESTS | -t SECONDS] [-s FIRST] [-m TEXT] [-w SECONDS] [-S|-F|-R] PORT TARGET
 *
 * A «%» in TARGET becomes FIRST, FIRST + 1, …: the way to ask for URLs that nobody has asked for yet.
 * -m counts the answers whose head contains TEXT (in any case): «; hit». -w gives up after so long.
 * -S speaks TLS 1.3 with AES-128-GCM, whatever the certificate. With -F each request has a connection of its own
 * and so a full handshake, with -R one that takes up the session of the first.
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
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
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
	int fd;	  /* -1: finished or failed */
	SSL *tls; /* NULL: plain */
	bool in_body, in_handshake;
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
	bool tls, connect_always, resume;
} ask = { .connections = 1, .give_up_after = 60, .match = "" };

static struct connection connections[CONNECTIONS_MAX];
static long begun, done, errors, matched, handshakes, resumed;
static int64_t bytes;
static int live, poller;
static SSL_CTX *context;
static SSL_SESSION *session; /* what the first handshake left, for -R */
static double started_at;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* No notice of the end: servers are measured, and the connection is idle. */
static void finish(struct connection *c)
{
	if (c->tls != NULL) {
		SSL_set_shutdown(c->tls, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
		SSL_free(c->tls);
		c->tls = NULL;
	}
	close(c->fd);
	c->fd = -1;
	live--;
}

/* A failed connection isn't replaced: a run with errors is no measurement anyway. */
static void fail(struct connection *c, const char *why)
{
	if (errors++ == 0)
		fprintf(stderr, "load: %s (%s; %s) after %ld answers, head: %.*s\n", why,
			strerror(errno), ERR_reason_error_string(ERR_peek_error()), done,
			(int)c->head_length, c->head);
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
	if ((c->tls != NULL ? SSL_write(c->tls, text, n)
			    : (int)send(c->fd, text, (size_t)n, MSG_NOSIGNAL)) != n)
		fail(c, "send");
}

/* A step of the handshake; a full socket buffer can't be its trouble. False: bytes must come first. */
static bool shake_hands(struct connection *c)
{
	int result = SSL_do_handshake(c->tls);

	if (result != 1 && SSL_get_error(c->tls, result) == SSL_ERROR_WANT_READ)
		return false;
	if (result != 1) {
		fail(c, "handshake");
		return false;
	}
	handshakes++;
	resumed += SSL_session_reused(c->tls);
	c->in_handshake = false;
	begin_request(c);
	return c->fd >= 0;
}

static void begin_tls(struct connection *c)
{
	SSL_SESSION *copy = session != NULL ? SSL_SESSION_dup(session) : NULL;

	/* A copy each, since libssl takes a session of TLS 1.3 once. */
	c->tls = SSL_new(context);
	SSL_set_fd(c->tls, c->fd);
	SSL_set_tlsext_host_name(c->tls, "bench.test");
	if (copy != NULL)
		SSL_set_session(c->tls, copy);
	SSL_SESSION_free(copy);
	SSL_set_connect_state(c->tls);
	c->in_handshake = true;
	shake_hands(c);
}

static int keep_session(SSL *tls, SSL_SESSION *fresh)
{
	(void)tls;
	if (!ask.resume || session != NULL)
		return 0;
	session = fresh;
	return 1;
}

static void make_context(void)
{
	context = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
	SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
	SSL_CTX_set1_groups_list(context, "X25519");
	SSL_CTX_set_read_ahead(context, 1);
	SSL_CTX_set_default_read_buffer_len(context, 65536);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(context, keep_session);
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
	if (ask.tls && fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0)
		perror("load: fcntl");
	if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event) != 0) {
		perror("load: epoll_ctl");
		exit(1);
	}
	live++;
}

/* The first request of a new connection. */
static void begin(struct connection *c)
{
	if (ask.tls)
		begin_tls(c);
	else
		begin_request(c);
}

static void end_answer(struct connection *c)
{
	done++;
	if (!may_begin()) {
		finish(c);
	} else if (ask.connect_always) {
		finish(c);
		open_connection(c);
		begin(c);
	} else {
		begin_request(c);
	}
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

/* As recv, of payload. */
static ssize_t receive(struct connection *c, void *p, size_t n)
{
	int got;

	if (c->tls == NULL)
		return recv(c->fd, p, n, MSG_DONTWAIT);
	got = SSL_read(c->tls, p, (int)n);
	if (got <= 0 && SSL_get_error(c->tls, got) == SSL_ERROR_WANT_READ) {
		errno = EAGAIN;
		return -1;
	}
	return got > 0 ? got : 0;
}

/* This one and drop_body: false where bytes must come first. */
static bool read_head(struct connection *c)
{
	ssize_t n = receive(c, c->head + c->head_length, HEAD_MAX - c->head_length);
	int whole;

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		fail(c, "the connection ended within a head");
		return false;
	}
	c->head_length += (size_t)n;
	whole = parse_head(c);
	if (whole < 0)
		fail(c, "not a 200 with a length");
	else if (whole > 0 && c->body_left == 0)
		end_answer(c);
	return true;
}

static bool drop_body(struct connection *c)
{
	static char dropped[BODY_STEP];
	int64_t want = c->body_left < BODY_STEP ? c->body_left : BODY_STEP;
	ssize_t n = c->tls != NULL ? receive(c, dropped, (size_t)want)
				   : recv(c->fd, NULL, (size_t)want, MSG_TRUNC | MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		fail(c, "the connection ended within a body");
		return false;
	}
	bytes += n;
	c->body_left -= n;
	if (c->body_left == 0)
		end_answer(c);
	return true;
}

/* What the event is good for: with TLS all that has come, since no other event tells of what OpenSSL has buffered. */
static void go_on(struct connection *c)
{
	bool more = true;

	while (more && c->fd >= 0) {
		SSL *tls = c->tls;

		if (c->in_handshake)
			more = shake_hands(c);
		else if (c->in_body)
			more = drop_body(c);
		else
			more = read_head(c);
		more = more && tls != NULL && tls == c->tls;
	}
}

static void run(void)
{
	struct epoll_event events[64];

	for (int i = 0; i < ask.connections; i++)
		open_connection(&connections[i]);
	started_at = now();
	for (int i = 0; i < ask.connections; i++)
		begin(&connections[i]);
	while (live > 0) {
		int n = epoll_wait(poller, events, 64, 1000);

		for (int i = 0; i < n; i++) {
			struct connection *c = events[i].data.ptr;

			if (c->fd >= 0)
				go_on(c);
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

	while ((option = getopt(argc, argv, "c:n:t:s:m:w:SFR")) != -1) {
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
		case 'S':
			ask.tls = true;
			break;
		case 'F':
			ask.tls = ask.connect_always = true;
			break;
		case 'R':
			ask.tls = ask.connect_always = ask.resume = true;
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
	if (ask.tls)
		make_context();
	run();
	printf("{\"requests\": %ld, \"bytes\": %lld, \"errors\": %ld, \"matched\": %ld, "
	       "\"handshakes\": %ld, \"resumed\": %ld, \"seconds\": %.6f}\n",
	       done, (long long)bytes, errors, matched, handshakes, resumed, now() - started_at);
	return errors == 0 ? 0 : 1;
}
