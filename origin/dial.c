/*
 * From a request to a connection: choose a server, take an idle connection of it or wait for its
 * address and for room, then connect (with TLS: and shake hands), going through its addresses. A server that can't be
 * reached is set aside and another is asked, as often as «retries» says. A handshake that fails counts as a
 * connect that fails: nothing of the request was sent.
 *
 * The step «choose» runs from readies and timers only (failures yield before they come back to
 * it): pool_take relies on that.
 */
#include <errno.h>

#include "edge/base/tls.h"
#include "origin/parts.h"
#include "origin/tls.h"

static enum step_result reach_server(struct fetch *f);
static enum step_result wait_in_line(struct fetch *f, enum fetch_error waits_for);
static bool may_go_on(const struct fetch *f);
static enum step_result waited_in_vain(struct fetch *f);
static enum step_result dial_next(struct fetch *f);
static enum step_result connected(struct fetch *f);
static enum step_result begin_handshake(struct fetch *f);
static enum step_result address_failed(struct fetch *f, enum fetch_error e);
static enum step_result server_failed(struct fetch *f, bool set_aside);
static void attach(struct fetch *f, struct origin_connection *c);
static bool ours_to_blame(int error);
static enum fetch_error connect_error(int error);

enum step_result fetch_step_choose(struct machine *m)
{
	struct fetch *f = fetch_of(m);
	struct choose_view view = pool_choose_view(f->pool);

	if (m->timed_out)
		return waited_in_vain(f);
	if (pool_line(f->pool, &f->waiter))
		return wait_in_line(f, FETCH_CONNECTION_LIMIT_REACHED);
	int place = choose_server(f->origin, &f->tried, &view, loop_now(m->loop));
	if (place == -EAGAIN)
		return wait_in_line(f, FETCH_CONNECTION_LIMIT_REACHED);
	if (place < 0)
		return fetch_fail(f, f->failed_servers > 0 ? f->connect_error
							   : FETCH_DESTINATION_UNAVAILABLE);
	f->server = &f->origin->servers[place];
	return reach_server(f);
}

static enum step_result reach_server(struct fetch *f)
{
	struct shared_addresses a;
	struct origin_connection *c = f->fresh_only ? NULL : pool_take(f->pool, f->origin, f->server);

	f->kept = c != NULL;
	if (c != NULL) {
		attach(f, c);
		machine_no_deadline(&f->machine);
		return machine_goto(&f->machine, FETCH_STEP_SEND);
	}
	shared_lookup(f->pool->shared, f->server, &a);
	if (a.state == SHARED_PENDING)
		return wait_in_line(f, FETCH_DNS_TIMEOUT);
	if (a.state != SHARED_RESOLVED) {
		f->connect_error = a.state == SHARED_NO_ANSWER ? FETCH_DNS_TIMEOUT : FETCH_DNS_ERROR;
		return server_failed(f, false);
	}
	f->address_tries = 0;
	return dial_next(f);
}

/* The deadline stands from when it joined the line; being woken for nothing doesn't move it. */
static enum step_result wait_in_line(struct fetch *f, enum fetch_error waits_for)
{
	bool newcomer = !list_linked(&f->waiter.link);

	if (pool_wait(f->pool, &f->waiter) != 0)
		return fetch_fail(f, FETCH_CONNECTION_LIMIT_REACHED);
	if (newcomer)
		machine_deadline(&f->machine, f->origin->connect_ms);
	f->waits_for = waits_for;
	f->machine.step = FETCH_STEP_CHOOSE;
	if (pool_line(f->pool, &f->waiter))
		return STEP_PARK;
	pool_ask(f->pool, &f->waiter);
	if (may_go_on(f))
		machine_wake(&f->machine);
	return STEP_PARK;
}

/* It may have come before we asked to be told. */
static bool may_go_on(const struct fetch *f)
{
	struct shared_addresses a;

	if (f->waits_for == FETCH_CONNECTION_LIMIT_REACHED)
		return pool_has_room(f->pool, &f->waiter);
	shared_lookup(f->pool->shared, f->server, &a);
	return a.state != SHARED_PENDING;
}

static enum step_result waited_in_vain(struct fetch *f)
{
	if (f->waits_for == FETCH_CONNECTION_LIMIT_REACHED)
		return fetch_fail(f, FETCH_CONNECTION_LIMIT_REACHED);
	f->connect_error = FETCH_DNS_TIMEOUT;
	return server_failed(f, false);
}

/* From the address that answered last time on: a dead first one would else cost each connect. They are looked up for each try: to keep
 * them would take more memory than all else of a fetch. */
static enum step_result dial_next(struct fetch *f)
{
	struct pool_server *s = pool_server(f->pool, f->server);
	struct shared_addresses a;

	shared_lookup(f->pool->shared, f->server, &a);
	f->address_count = a.count;
	for (; f->address_tries < a.count; f->address_tries++) {
		uint32_t at = (s->good_address + f->address_tries) % a.count;
		struct origin_connection *c;
		int result = pool_dial(f->pool, f->origin, f->server, &a.at[at], &c);
		if (result == 0) {
			attach(f, c);
			if (f->machine.step == FETCH_STEP_CHOOSE)
				machine_deadline(&f->machine, f->origin->connect_ms);
			f->machine.step = FETCH_STEP_CONNECT;
			return STEP_WRITE;
		}
		if (result == -EUSERS) /* another worker was faster */
			return wait_in_line(f, FETCH_CONNECTION_LIMIT_REACHED);
		if (ours_to_blame(-result))
			return fetch_fail(f, FETCH_INTERNAL);
		f->connect_error = connect_error(-result);
	}
	return server_failed(f, true);
}

enum step_result fetch_step_connect(struct machine *m)
{
	struct fetch *f = fetch_of(m);
	int result = m->timed_out ? -ETIMEDOUT : sock_dial_result(m->watch.fd);

	if (result == 0 && !m->broken)
		return f->server->tls ? begin_handshake(f) : connected(f);
	return address_failed(f, connect_error(-result));
}

static enum step_result begin_handshake(struct fetch *f)
{
	if (origin_tls_begin(f->pool, f->connection, f->origin, f->server) != 0) {
		f->tls_fault = "what its «tls» names can't be used";
		return fetch_fail(f, FETCH_INTERNAL);
	}
	return machine_goto(&f->machine, FETCH_STEP_HANDSHAKE);
}

enum step_result fetch_step_handshake(struct machine *m)
{
	struct fetch *f = fetch_of(m);
	int result = m->timed_out ? -ETIMEDOUT : tls_handshake(fetch_io(f));

	if (result == -EAGAIN)
		return fetch_waits_for(fetch_io(f)->wait);
	if (result == 0) {
		origin_tls_done(f->pool, f->connection);
		return connected(f);
	}
	origin_tls_failed(f->pool, f->connection);
	if (m->timed_out)
		return address_failed(f, FETCH_CONNECTION_TIMEOUT);
	f->tls_fault = origin_tls_fault(f->connection);
	return address_failed(f, origin_tls_error(f->connection));
}

static enum step_result connected(struct fetch *f)
{
	struct pool_server *s = pool_server(f->pool, f->server);

	choose_succeeded(&s->choose);
	s->good_address = (s->good_address + f->address_tries) % f->address_count;
	machine_no_deadline(&f->machine);
	return machine_goto(&f->machine, FETCH_STEP_SEND);
}

static enum step_result address_failed(struct fetch *f, enum fetch_error e)
{
	f->connect_error = e;
	fetch_close_connection(f);
	if (f->machine.timed_out)
		return server_failed(f, true);
	f->address_tries++;
	return dial_next(f);
}

/* Yields: the next choice must not run in a watch's callback. */
static enum step_result server_failed(struct fetch *f, bool set_aside)
{
	if (set_aside)
		choose_failed(&pool_server(f->pool, f->server)->choose, loop_now(f->machine.loop));
	choose_mark_tried(&f->tried, (size_t)(f->server - f->origin->servers));
	if (f->failed_servers++ == f->origin->retries)
		return fetch_fail(f, f->connect_error);
	pool_leave(f->pool, &f->waiter);
	machine_no_deadline(&f->machine);
	f->machine.step = FETCH_STEP_CHOOSE;
	return STEP_YIELD;
}

static void attach(struct fetch *f, struct origin_connection *c)
{
	pool_leave(f->pool, &f->waiter);
	f->connection = c;
	machine_adopt(&f->machine, &c->watch);
}

/* We lack a descriptor, a port or memory: no other server would do better. */
static bool ours_to_blame(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ||
	       error == EADDRNOTAVAIL;
}

static enum fetch_error connect_error(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return FETCH_CONNECTION_REFUSED;
	case ETIMEDOUT:
		return FETCH_CONNECTION_TIMEOUT;
	case ENETUNREACH:
	case EHOSTUNREACH:
	case EAFNOSUPPORT:
		return FETCH_DESTINATION_UNAVAILABLE;
	default:
		return FETCH_CONNECTION_TERMINATED;
	}
}
