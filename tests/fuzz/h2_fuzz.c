/*
 * Connections of HTTP/2: whatever frames a client sends, and however it reads, the connection and all of its requests end,
 * and what it was sent are whole frames: bodies in order, nothing behind an end.
 *
 * Requests are stand-ins for those of request.c: what they do is in their path. The client's end of a socket pair is ours.
 * Input: one byte of flags, then frames: type, flags, stream, length of the payload, payload. Preface and SETTINGS go first.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edge/base/log.h"
#include "edge/h2.h"

enum { TURNS = 6, TURNS_AT_END = 400, BODY_MAX = 300 << 10, STREAMS = 256, SMALL_BUFFER = 4096 };

static struct worker worker;
static struct stats_worker *stats;
static unsigned requests, clients;
static char pattern[BODY_MAX];
static int file_fd = -1;

/* --- a stand-in for requests ---------------------------------------------------------------------- */

struct stand_in {
	struct machine m;
	struct exchange *x;
	struct answer answer;
	size_t length, sent, breaks_at;
	bool from_file, reads, head_sent;
};

static enum step_result step_answer(struct machine *m);
static const struct step steps[] = { { "answer", step_answer } };

static void stand_in_end(struct machine *m)
{
	struct stand_in *r = CONTAINER_OF(m, struct stand_in, m);

	requests--;
	r->x->ops->done(r->x);
	free(r);
}

static enum step_result broken(struct stand_in *r)
{
	r->x->ops->abort(r->x);
	return STEP_DONE;
}

/* The body comes first, where it is wanted. True: go on. */
static bool read_body(struct stand_in *r, enum step_result *out)
{
	struct view v;
	int e = 0;

	while (r->reads && (e = r->x->ops->read_body(r->x, &v)) == 1)
		r->x->ops->took_body(r->x, v.n > 100 ? 100 : v.n);
	if (!r->reads || e == -ENODATA)
		return true;
	*out = e == 0 ? STEP_PARK : broken(r);
	return false;
}

static int64_t send_piece(struct stand_in *r)
{
	size_t n = r->length - r->sent;

	if (r->from_file)
		return r->x->ops->send_file(r->x, file_fd, r->sent, n, true);
	return r->x->ops->send_memory(r->x, pattern + r->sent, n > 30000 ? 30000 : n, n <= 30000);
}

static enum step_result step_answer(struct machine *m)
{
	struct stand_in *r = CONTAINER_OF(m, struct stand_in, m);
	enum step_result out;
	int e;

	if (!read_body(r, &out))
		return out;
	if (!r->head_sent && r->x->ops->send_head(r->x, &r->answer) != 0)
		return broken(r);
	r->head_sent = true;
	while (r->sent < r->length && !r->answer.no_body) {
		int64_t n = r->sent >= r->breaks_at ? -1 : send_piece(r);

		if (n <= 0)
			return n == 0 ? STEP_PARK : broken(r);
		CHECK((size_t)n <= r->length - r->sent);
		r->sent += (size_t)n;
	}
	e = r->x->ops->finish(r->x, (struct view){ 0 });
	return e == -EAGAIN ? STEP_PARK : e != 0 ? broken(r) : STEP_DONE;
}

/* "/9fub": a length's digit, from a file, of unknown length, breaks off, reads the body first. */
static void read_wishes(struct stand_in *r, const struct http_request *rq)
{
	static const size_t lengths[] = { 0,	 1,	100,	9000,	16384,
					  16385, 70000, 100000, 200000, BODY_MAX };
	bool unknown = false;

	r->breaks_at = SIZE_MAX;
	for (size_t i = 0; rq != NULL && i < rq->path.n; i++) {
		char c = rq->path.p[i];

		if (c >= '0' && c <= '9')
			r->length = lengths[c - '0'];
		r->from_file |= c == 'f';
		r->reads |= c == 'b' && rq->framing != FRAMING_NONE;
		unknown |= c == 'u';
		if (c == 'x')
			r->breaks_at = 20000;
	}
	r->answer = (struct answer){ .status = 200,
				     .length = unknown ? -1 : (int64_t)r->length,
				     .no_body = rq != NULL && rq->method == METHOD_HEAD };
}

int request_begin(struct worker *w, struct exchange *x, const struct http_request *rq,
		  enum http_fault fault, const struct conf_listener *listener)
{
	struct stand_in *r = calloc(1, sizeof(*r));

	(void)fault;
	(void)listener;
	CHECK(r != NULL && machine_init(&r->m, w->loop, -1, steps, stand_in_end) == 0);
	r->x = x;
	x->request = &r->m;
	read_wishes(r, rq);
	requests++;
	machine_wake(&r->m);
	return 0;
}

/* So much that some are held, and some refused. */
size_t request_memory(struct machine *m)
{
	(void)m;
	return 100 << 10;
}

/* --- and for the worker ------------------------------------------------------------------------------- */

void worker_client_add(struct worker *w, struct worker_client *c, const struct worker_client_ops *ops)
{
	(void)w;
	c->ops = ops;
	clients++;
}

void worker_client_gone(struct worker *w, struct worker_client *c, const struct sock_addr *peer)
{
	(void)w;
	(void)c;
	(void)peer;
	clients--;
}

/* --- and for the arrival, which had nothing to wait for --------------------------------------------------- */

int arrival_machine(struct arrival *a, struct machine *m, struct loop *l, const struct step *of,
		    void (*end)(struct machine *m))
{
	return machine_init(m, l, a->fd, of, end);
}

void arrival_close(struct arrival *a)
{
	close(a->fd);
}

struct turns {
	struct ready ready;
	unsigned left;
};

static void on_turn(struct ready *ready)
{
	struct turns *t = CONTAINER_OF(ready, struct turns, ready);

	if (--t->left == 0 || clients == 0)
		loop_stop(worker.loop);
	else
		ready_post(ready);
}

static void run(unsigned turns)
{
	struct turns t = { .left = turns };

	ready_init(&t.ready, worker.loop, on_turn);
	ready_post(&t.ready);
	loop_run(worker.loop);
}

/* --- what the client sees ------------------------------------------------------------------------------- */

struct seen {
	uint8_t buffer[1 << 20];
	size_t n;
	size_t bodies[STREAMS];
	bool ended[STREAMS];
};

static void check_frame(struct seen *s, const uint8_t *head, const uint8_t *payload, size_t n)
{
	uint32_t id = (uint32_t)(head[5] & 127) << 24 | (uint32_t)head[6] << 16 |
		      (uint32_t)head[7] << 8 | head[8];
	size_t *at = &s->bodies[id % STREAMS];

	CHECK(n <= 16384 && head[3] <= 9);
	if (head[3] > 1 || id >= STREAMS)
		return;
	CHECK(!s->ended[id]);
	if (head[3] == 0) {
		CHECK(*at + n <= BODY_MAX && memcmp(payload, pattern + *at, n) == 0);
		*at += n;
	}
	s->ended[id] = head[4] & 1;
}

static void receive(struct seen *s, int fd)
{
	ssize_t got = recv(fd, s->buffer + s->n, sizeof(s->buffer) - s->n, MSG_DONTWAIT);
	size_t at = 0;

	if (got > 0)
		s->n += (size_t)got;
	while (s->n - at >= 9) {
		const uint8_t *p = s->buffer + at;
		size_t n = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];

		if (s->n - at - 9 < n)
			break;
		check_frame(s, p, p + 9, n);
		at += 9 + n;
	}
	memmove(s->buffer, s->buffer + at, s->n - at);
	s->n -= at;
}

/* --- an input -------------------------------------------------------------------------------------------- */

static void put(int fd, const void *p, size_t n)
{
	(void)!send(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The next frame; what is left of the input. */
static size_t put_frame(int fd, const uint8_t *p, size_t n)
{
	size_t payload = p[3] < n - 4 ? p[3] : n - 4;
	const uint8_t head[9] = { 0, 0, (uint8_t)payload, p[0] % 18, p[1], 0, 0, 0, p[2] };

	put(fd, head, sizeof(head));
	put(fd, p + 4, payload);
	return 4 + payload;
}

static void begin_process(void)
{
	static struct conf conf;

	if (worker.loop != NULL)
		return;
	log_to(-1, LOG_LEVEL_ERROR);
	conf.limits = (struct conf_limits){ .header_bytes = 4096,
					    .headers = 20,
					    .header_timeout_ms = 60000,
					    .idle_timeout_ms = 60000,
					    .send_timeout_ms = 60000,
					    .h2 = { 10, 20, 50 } };
	worker.conf = &conf;
	stats = calloc(1, sizeof(*stats));
	worker.stats = stats;
	worker.loop = loop_new();
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (char)(i * 31 + (i >> 8) * 7);
	file_fd = memfd_create("body", 0);
	CHECK(stats != NULL && worker.loop != NULL &&
	      write(file_fd, pattern, sizeof(pattern)) == (ssize_t)sizeof(pattern));
}

static void open_connection(int fds[2], bool small)
{
	static const struct conf_listener listener;
	static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	struct arrival a = { .listener = &listener };
	int bytes = SMALL_BUFFER;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
	if (small)
		CHECK(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) == 0);
	a.fd = fds[0];
	h2_open(&worker, &a);
	put(fds[1], hello, sizeof(hello) - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct seen seen;
	int fds[2];

	if (n == 0)
		return 0;
	begin_process();
	seen.n = 0;
	memset(seen.bodies, 0, sizeof(seen.bodies));
	memset(seen.ended, 0, sizeof(seen.ended));
	open_connection(fds, data[0] & 1);
	for (size_t at = 1; n - at >= 4 && clients > 0; at += put_frame(fds[1], data + at, n - at)) {
		if (data[0] & 2)
			continue; /* all in one turn */
		run(TURNS);
		receive(&seen, fds[1]);
	}
	for (unsigned i = 0; i < 20 && clients > 0; i++) {
		run(TURNS);
		receive(&seen, fds[1]);
	}
	close(fds[1]);
	run(TURNS_AT_END);
	CHECK(clients == 0 && requests == 0);
	return 0;
}
