/*
 * From an accepted socket to a protocol: PROXY header, TLS handshake, ALPN or the first bytes.
 *
 * A plain HTTP/1 listener has nothing to find out: its sockets become connections at once. All others get a machine
 * here, with one deadline for everything (limits.header_timeout). Nothing is read that belongs to who
 * comes after, but for the few bytes that tell HTTP/2 from HTTP/1; those go along.
 */
#include "edge/arrival.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edge/base/log.h"
#include "edge/base/machine.h"
#include "edge/base/tls.h"
#include "edge/client.h"
#include "edge/proxy_header.h"
#include "edge/tls_server.h"
#include "edge/worker.h"

enum { ARRIVING_MAGIC = 0x61727276 };

static enum step_result step_proxy(struct machine *m);
static enum step_result step_handshake(struct machine *m);
static enum step_result step_protocol(struct machine *m);

enum { STEP_PROXY, STEP_HANDSHAKE, STEP_PROTOCOL };
static const struct step steps[] = {
	[STEP_PROXY] = { "proxy", step_proxy },
	[STEP_HANDSHAKE] = { "handshake", step_handshake },
	[STEP_PROTOCOL] = { "protocol", step_protocol },
};

struct arriving {
	uint32_t magic;
	struct machine m;
	struct worker *w;
	struct worker_client client;
	struct arrival a;
	bool passed, h2; /* passed: it goes on as a connection of HTTP/2 or HTTP/1 */
	bool admitted;	 /* counted among the client's connections */
	size_t header_bytes;
	char header[PROXY_HEADER_MAX];
};

static void arriving_end(struct machine *m);
static void arriving_drain(struct worker_client *client);
static void arriving_cut(struct worker_client *client);

static const struct worker_client_ops client_ops = { arriving_drain, arriving_cut };

static struct arriving *of(struct machine *m)
{
	struct arriving *r = CONTAINER_OF(m, struct arriving, m);

	CHECK_MAGIC(r, ARRIVING_MAGIC);
	return r;
}

/* --- opening ----------------------------------------------------------------------------------- */

static bool sends_proxy_header(const struct arrival *a)
{
	return client_in(&a->listener->proxy_from, &a->peer);
}

static bool is_simple(const struct arrival *a, bool proxied)
{
	return !a->listener->tls && !a->listener->http2 && !proxied;
}

static struct arriving *arriving_new(struct worker *w, const struct arrival *a)
{
	struct arriving *r = calloc(1, sizeof(*r));

	if (r == NULL || machine_init(&r->m, w->loop, a->fd, steps, arriving_end) != 0) {
		free(r);
		return NULL;
	}
	r->magic = ARRIVING_MAGIC;
	r->w = w;
	r->a = *a;
	return r;
}

void arrival_open(struct worker *w, int fd, const struct sock_addr *peer,
		  const struct conf_listener *listener)
{
	struct arrival a = { .fd = fd, .peer = *peer, .client = *peer, .listener = listener };
	bool proxied = sends_proxy_header(&a);
	struct arriving *r;

	if (!proxied && !worker_client_admit(w, listener, fd, peer)) {
		close(fd);
		return;
	}
	sock_tune(fd);
	if (is_simple(&a, proxied)) {
		connection_open(w, &a);
		return;
	}
	r = arriving_new(w, &a);
	if (r == NULL) {
		close(fd);
		worker_client_gone(w, NULL, proxied ? NULL : peer);
		return;
	}
	r->admitted = !proxied;
	worker_client_add(w, &r->client, &client_ops);
	machine_deadline(&r->m, w->conf->limits.header_timeout_ms);
	machine_goto(&r->m, proxied ? STEP_PROXY : STEP_HANDSHAKE);
	machine_wake(&r->m);
}

int arrival_machine(struct arrival *a, struct machine *m, struct loop *l, const struct step *those,
		    void (*end)(struct machine *m))
{
	bool watched = a->watch.handle != NULL;
	int r = machine_init(m, l, watched ? -1 : a->fd, those, end);

	if (r == 0 && watched)
		machine_adopt(m, &a->watch);
	return r;
}

void arrival_close(struct arrival *a)
{
	watch_close(&a->watch);
	if (a->io != NULL)
		a->io->ops->free(a->io);
	close(a->fd);
}

static bool is_late(const struct machine *m)
{
	return m->timed_out || m->broken;
}

/* --- step: proxy -------------------------------------------------------------------------------- */

static enum step_result bad_header(struct arriving *r)
{
	char peer[SOCK_ADDR_TEXT];

	stats_add(&r->w->stats->gauges.proxy_headers_bad, 1);
	/* The peer is listed, so one of the two is configured wrongly: that is for the operator to know. */
	log_write(log_due(&r->w->proxy_told) ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG, "proxy_header_bad",
		  "peer=%s bytes=%zu", sock_addr_text(&r->a.peer, peer), r->header_bytes);
	return STEP_DONE;
}

/* Takes n bytes that have been looked at off the socket. */
static bool take(struct arriving *r, size_t n)
{
	if (recv(r->a.fd, r->header + r->header_bytes, n, MSG_DONTWAIT) != (ssize_t)n)
		return false;
	r->header_bytes += n;
	return true;
}

/* What follows the header is for others to read: first one looks, then takes what is the header's. */
static enum step_result step_proxy(struct machine *m)
{
	struct arriving *r = of(m);
	struct proxy_header found;
	ssize_t n;

	if (is_late(m))
		return bad_header(r);
	n = recv(r->a.fd, r->header + r->header_bytes, sizeof(r->header) - r->header_bytes,
		 MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return STEP_READ;
	if (n <= 0)
		return bad_header(r);
	switch (proxy_header_parse(r->header, r->header_bytes + (size_t)n, &found)) {
	case PROXY_HEADER_MORE:
		return take(r, (size_t)n) && r->header_bytes < sizeof(r->header) ? STEP_READ
										 : bad_header(r);
	case PROXY_HEADER_BAD:
		return bad_header(r);
	case PROXY_HEADER_DONE:
		break;
	}
	if (!take(r, found.bytes - r->header_bytes))
		return bad_header(r);
	if (found.known)
		r->a.client = found.client;
	r->admitted = worker_client_admit(r->w, r->a.listener, r->a.fd, &r->a.client);
	return r->admitted ? machine_goto(m, STEP_HANDSHAKE) : STEP_DONE;
}

/* --- step: handshake ------------------------------------------------------------------------------ */

static enum step_result pass(struct arriving *r, bool h2)
{
	r->passed = true;
	r->h2 = h2;
	machine_release(&r->m, &r->a.watch, NULL);
	return STEP_DONE;
}

/* The client's certificate was not good enough. Faults that begin with "alert_" are what it thinks of ours. */
static bool is_refusal(struct view reason)
{
	return view_eq(reason, VIEW("no_client_certificate")) ||
	       view_eq(reason, VIEW("unknown_ca")) || view_starts(reason, VIEW("certificate"));
}

/* Anybody can make handshakes fail: told are those alone that an operator is asked about. */
static enum step_result handshake_failed(struct arriving *r, const char *reason)
{
	bool told = is_refusal(view_str(reason)) && log_due(&r->w->refused_told);
	struct view site = r->a.io != NULL ? tls_server_asked(r->a.io) : (struct view){ 0 };
	char peer[SOCK_ADDR_TEXT];

	stats_tls_failed(&r->w->stats->tls, reason);
	log_write(told ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "handshake_failed",
		  "peer=%s site=%.*s reason=%s", sock_addr_text(&r->a.peer, peer), VIEW_ARG(site),
		  reason);
	return STEP_DONE;
}

static enum step_result handshake_done(struct arriving *r)
{
	struct io *io = r->a.io;

	r->a.identity = tls_server_identity(io);
	tls_server_count(io, &r->w->stats->tls);
	return pass(r, tls_server_is_h2(io));
}

static enum step_result step_handshake(struct machine *m)
{
	struct arriving *r = of(m);
	int e = 0;

	if (!r->a.listener->tls)
		return machine_goto(m, STEP_PROTOCOL);
	if (m->timed_out)
		return handshake_failed(r, "timeout");
	if (r->a.io == NULL)
		e = tls_server_stream(r->w->tls, r->a.listener, r->a.fd, &r->a.io);
	if (e != 0)
		return handshake_failed(r, "memory");
	e = tls_handshake(r->a.io);
	/* Who doesn't believe our certificate says so and goes: the alert is there to be read, though the socket is broken. */
	if (m->broken && (e == 0 || e == -EAGAIN))
		return handshake_failed(r, "closed");
	if (e == 0)
		return handshake_done(r);
	if (e != -EAGAIN)
		return handshake_failed(r, tls_fault(r->a.io));
	if (r->a.io->wait == (WATCH_READ | WATCH_WRITE))
		return STEP_BOTH;
	return r->a.io->wait == WATCH_WRITE ? STEP_WRITE : STEP_READ;
}

/* --- step: protocol ------------------------------------------------------------------------------- */

static enum step_result step_protocol(struct machine *m)
{
	static const struct view preface = { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24 };
	struct arriving *r = of(m);
	struct arrival *a = &r->a;
	ssize_t n;

	if (is_late(m))
		return STEP_DONE;
	if (!a->listener->http1 || !a->listener->http2)
		return pass(r, a->listener->http2);
	n = recv(a->fd, a->early + a->early_bytes, sizeof(a->early) - a->early_bytes, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return STEP_READ;
	if (n <= 0)
		return STEP_DONE;
	a->early_bytes += (size_t)n;
	if (a->early_bytes >= preface.n)
		return pass(r, memcmp(a->early, preface.p, preface.n) == 0);
	return memcmp(a->early, preface.p, a->early_bytes) == 0 ? STEP_READ : pass(r, false);
}

/* --- the end --------------------------------------------------------------------------------------- */

static void arriving_end(struct machine *m)
{
	struct arriving *r = of(m);
	struct worker *w = r->w;

	if (!r->passed) {
		arrival_close(&r->a);
		worker_client_gone(w, &r->client, r->admitted ? &r->a.client : NULL);
	} else {
		worker_client_replaced(w, &r->client);
		if (r->h2)
			h2_open(w, &r->a);
		else
			connection_open(w, &r->a);
	}
	r->magic = 0;
	free(r);
}

static struct arriving *of_client(struct worker_client *client)
{
	struct arriving *r = CONTAINER_OF(client, struct arriving, client);

	CHECK_MAGIC(r, ARRIVING_MAGIC);
	return r;
}

/* It came before the drain: it may ask for one thing more. */
static void arriving_drain(struct worker_client *client)
{
	(void)client;
}

static void arriving_cut(struct worker_client *client)
{
	struct arriving *r = of_client(client);

	r->m.broken = true;
	machine_wake(&r->m);
}
