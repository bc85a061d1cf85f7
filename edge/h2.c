/*
 * The machine of a client's HTTP/2 connection; h2.h names its files.
 *
 * It runs for two reasons: the socket can be read or written, or a request has made something to send (output_due). What requests
 * make in a turn of the loop thus leaves at the turn's end, in one write. No input is kept: the session takes all that is read.
 *
 * Phases and what is legal in them:
 *   serve    requests come and go; a drain is announced (GOAWAY without a last stream), then said (GOAWAY), and the streams end
 *   linger   our last word is out; what the client still sends is thrown away, or our close would be a reset that overtakes it
 *   leave    the socket is of no use; requests are told and let go of their streams
 */
#include "edge/h2.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "edge/base/log.h"

enum {
	READ_BYTES = 16 << 10,
	READS_A_TURN = 4,
	PUT_OFF_MAX = 4,
	DRAIN_MS = 1000, /* for an answer to the announcement */
	LINGER_MS = 2000,
	LINGER_BYTES_MAX = 1 << 20,
};

static enum step_result step_serve(struct machine *m);
static enum step_result step_linger(struct machine *m);
static enum step_result step_leave(struct machine *m);

enum { STEP_SERVE, STEP_LINGER, STEP_LEAVE };
static const struct step steps[] = {
	[STEP_SERVE] = { "serve", step_serve }, /* header_timeout, idle_timeout, send_timeout, DRAIN_MS, LINGER_MS */
	[STEP_LINGER] = { "linger", step_linger }, /* LINGER_MS */
	[STEP_LEAVE] = { "leave", step_leave },
};

static void h2_end(struct machine *m);
static void drain(struct h2 *h);
static void feed(struct h2 *h, const void *p, size_t n);
static void h2_drain(struct worker_client *client);
static void h2_cut(struct worker_client *client);

static const struct worker_client_ops client_ops = { h2_drain, h2_cut };

struct h2 *h2_of(void *user)
{
	struct h2 *h = user;

	CHECK_MAGIC(h, H2_MAGIC);
	return h;
}

static struct h2 *of(struct machine *m)
{
	return h2_of(CONTAINER_OF(m, struct h2, m));
}

void h2_send_soon(struct h2 *h)
{
	h->output_due = true;
	machine_wake(&h->m);
}

/* --- opening ------------------------------------------------------------------------------------- */

static void take_stream(struct h2 *h, struct arrival *a)
{
	h->fd = a->fd;
	h->io = a->io;
	if (h->io == NULL) {
		io_plain_init(&h->plain, a->fd);
		h->io = &h->plain;
	}
}

static void close_stream(struct h2 *h)
{
	h->io->ops->free(h->io);
	close(h->fd);
}

static struct h2 *h2_new(struct worker *w, struct arrival *a)
{
	struct h2 *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->magic = H2_MAGIC;
	h->w = w;
	h->listener = a->listener;
	h->identity = a->identity;
	h->peer = a->peer;
	h->from = a->client;
	list_init(&h->streams);
	list_init(&h->waiting);
	for (unsigned u = 0; u < H2_URGENCIES; u++)
		list_init(&h->queues[u]);
	if (h2_session_open(h, &w->conf->limits) != 0 ||
	    arrival_machine(a, &h->m, w->loop, steps, h2_end) != 0) {
		nghttp2_session_del(h->session);
		free(h);
		return NULL;
	}
	return h;
}

void h2_open(struct worker *w, struct arrival *a)
{
	struct h2 *h = h2_new(w, a);

	if (h == NULL) {
		arrival_close(a);
		worker_client_gone(w, NULL, &a->client);
		return;
	}
	take_stream(h, a);
	worker_client_add(w, &h->client, &client_ops);
	h->deadline = H2_FIRST_FRAME;
	machine_deadline(&h->m, w->conf->limits.header_timeout_ms);
	feed(h, a->early, a->early_bytes);
	if (w->draining)
		drain(h);
	machine_wake(&h->m);
}

/* --- goodbyes ------------------------------------------------------------------------------------- */

void h2_terminate(struct h2 *h, uint32_t code)
{
	if (h->terminated)
		return;
	h->terminated = true;
	(void)nghttp2_session_terminate_session(h->session, code);
	h2_session_lost(h);
	h2_send_soon(h);
}

static void say_exceeded(struct h2 *h)
{
	char client[SOCK_ADDR_TEXT];

	if (h->terminated)
		return;
	stats_add(&h->w->stats->gauges.h2_limits[h->limit], 1);
	log_warn("h2_limit", "limit=%s client=%s streams=%u", h2_limit_name(h->limit),
		 sock_addr_host(&h->from, client), h->stream_count);
	h2_terminate(h, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void feed(struct h2 *h, const void *p, size_t n)
{
	int r = h2_session_feed(h, p, n);

	if (h->exceeded)
		say_exceeded(h);
	else if (r != 0)
		h2_terminate(h, NGHTTP2_PROTOCOL_ERROR);
}

/* RFC 9113 §6.8: first it is only announced, since requests may be on their way; a PING tells when the client knows. */
static void drain(struct h2 *h)
{
	if (h->draining || h->terminated)
		return;
	h->draining = true;
	(void)nghttp2_submit_shutdown_notice(h->session);
	(void)nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, (const uint8_t *)"draining");
	h2_send_soon(h);
}

void h2_drained(struct h2 *h)
{
	if (!h->draining || h->drained || h->terminated)
		return;
	h->drained = true;
	(void)nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
				    nghttp2_session_get_last_proc_stream_id(h->session),
				    NGHTTP2_NO_ERROR, NULL, 0);
	h2_send_soon(h);
}

/* --- step: serve ------------------------------------------------------------------------------------ */

static void timed_out(struct h2 *h)
{
	h->m.timed_out = false;
	switch (h->deadline) {
	case H2_DRAIN:
		h2_drained(h);
		break;
	case H2_LINGER:
		h2_exchange_linger_end(h);
		break;
	case H2_SEND:
		h->m.broken = true;
		break;
	case H2_FIRST_FRAME:
	case H2_IDLE:
	case H2_HEAD:
	case H2_NO_DEADLINE:
		h2_terminate(h, NGHTTP2_NO_ERROR);
		break;
	}
	h->deadline = H2_NO_DEADLINE;
}

/* 0; negative: the client is gone. */
static int receive(struct h2 *h)
{
	char in[READ_BYTES];

	for (unsigned i = 0; i < READS_A_TURN; i++) {
		int64_t n = h->io->ops->read(h->io, in, sizeof(in));

		if (n == -EAGAIN) {
			h->wait |= h->io->wait;
			return 0;
		}
		if (n <= 0)
			return -ECONNRESET;
		feed(h, in, (size_t)n);
		if (h->terminated || ((size_t)n < sizeof(in) && !h->io->ops->buffered(h->io)))
			return 0;
	}
	h->more_input = true;
	return 0;
}

/* Of streams whose request is over only frames are left: nobody but us watches how long those wait. */
static bool has_requests(const struct h2 *h)
{
	LIST_EACH (&h->streams, at, next)
		if (!LIST_ENTRY(at, struct h2_stream, link)->over)
			return true;
	return false;
}

static enum h2_deadline deadline_now(const struct h2 *h)
{
	if (h->terminated)
		return H2_SEND;
	if (!h->began)
		return H2_FIRST_FRAME;
	if (h->head != NULL)
		return H2_HEAD;
	if (h->blocked && !has_requests(h))
		return H2_SEND;
	if (h->lingering > 0)
		return H2_LINGER;
	if (h->stream_count > 0)
		return H2_NO_DEADLINE; /* requests have theirs */
	return h->draining && !h->drained ? H2_DRAIN : H2_IDLE;
}

static uint64_t deadline_ms(const struct h2 *h, enum h2_deadline d)
{
	const struct conf_limits *l = &h->w->conf->limits;

	switch (d) {
	case H2_FIRST_FRAME:
	case H2_HEAD:
		return l->header_timeout_ms;
	case H2_SEND:
		return l->send_timeout_ms;
	case H2_DRAIN:
		return DRAIN_MS;
	case H2_LINGER:
		return LINGER_MS;
	case H2_IDLE:
	case H2_NO_DEADLINE:
		break;
	}
	return l->idle_timeout_ms;
}

/* A deadline runs on as long as its reason stays; requests between begin it anew. */
static void set_deadline(struct h2 *h)
{
	enum h2_deadline d = deadline_now(h);

	if (d == h->deadline && (d != H2_IDLE || h->served == h->deadline_served))
		return;
	h->deadline = d;
	h->deadline_served = h->served;
	if (d == H2_NO_DEADLINE)
		machine_no_deadline(&h->m);
	else
		machine_deadline(&h->m, deadline_ms(h, d));
}

/* Neither side has anything more to say. */
static bool is_over(const struct h2 *h)
{
	if (h2_send_pending(h))
		return false;
	return h->terminated || !nghttp2_session_want_read(h->session);
}

static enum step_result leave(struct h2 *h)
{
	h2_session_lost(h);
	machine_no_deadline(&h->m);
	return machine_goto(&h->m, STEP_LEAVE);
}

static enum step_result wait_for_more(struct h2 *h)
{
	if (is_over(h)) {
		h2_session_lost(h);
		h->io->ops->end(h->io);
		machine_deadline(&h->m, LINGER_MS);
		return machine_goto(&h->m, STEP_LINGER);
	}
	set_deadline(h);
	if (h->terminated)
		return STEP_WRITE; /* its last word alone is of interest */
	if (h->more_input && !h->output_due)
		return STEP_YIELD;
	return h->blocked || (h->wait & WATCH_WRITE) ? STEP_BOTH : STEP_READ;
}

/* What was received may make requests send in this turn: then all leaves together. */
static enum step_result step_serve(struct machine *m)
{
	struct h2 *h = of(m);
	bool due = h->output_due;

	h->output_due = false;
	if (m->timed_out)
		timed_out(h);
	if (!m->broken && (!due || h->put_off++ >= PUT_OFF_MAX)) {
		h->put_off = 0;
		h->blocked = h->more_input = false;
		h->wait = 0;
		if (!h->terminated && receive(h) != 0)
			m->broken = true;
		h2_send_soon(h);
	} else if (!m->broken && h2_send_all(h) != 0) {
		m->broken = true;
	}
	if (h->exceeded)
		say_exceeded(h);
	if (h->io->closing)
		drain(h);
	if (m->broken)
		return leave(h);
	h2_session_begin_held(h);
	if (due)
		h2_send_next(h);
	return wait_for_more(h);
}

/* --- steps: linger, leave ------------------------------------------------------------------------------ */

static enum step_result step_linger(struct machine *m)
{
	struct h2 *h = of(m);
	char waste[4096];
	int64_t n;

	if (m->broken || m->timed_out)
		return machine_goto(m, STEP_LEAVE);
	n = h->io->ops->read(h->io, waste, sizeof(waste));
	if (n == -EAGAIN)
		return STEP_READ;
	if (n <= 0)
		return machine_goto(m, STEP_LEAVE);
	h->waste_bytes += (uint64_t)n;
	return h->waste_bytes > LINGER_BYTES_MAX ? machine_goto(m, STEP_LEAVE) : STEP_NEXT;
}

/* Requests let go of their streams one by one (done), which wakes this. */
static enum step_result step_leave(struct machine *m)
{
	return list_empty(&of(m)->streams) ? STEP_DONE : STEP_PARK;
}

/* --- the end ------------------------------------------------------------------------------------------- */

static void h2_end(struct machine *m)
{
	struct h2 *h = of(m);
	struct worker *w = h->w;
	struct sock_addr client = h->from;

	nghttp2_session_del(h->session);
	h2_session_head_over(h);
	free(h->out);
	close_stream(h);
	worker_client_gone(w, &h->client, &client);
	h->magic = 0;
	free(h);
}

static struct h2 *of_client(struct worker_client *client)
{
	return h2_of(CONTAINER_OF(client, struct h2, client));
}

static void h2_drain(struct worker_client *client)
{
	drain(of_client(client));
}

static void h2_cut(struct worker_client *client)
{
	struct h2 *h = of_client(client);

	h->m.broken = true;
	machine_wake(&h->m);
}
