/*
 * A fetch against an origin that is a script: a thread that accepts, reads, says and hangs up, in
 * order, while the test runs the loop. Both sides wait for events, never for a time; what should
 * happen «only after» something is held back by a gate.
 */
#ifndef BRIM_TESTS_ORIGIN_TESTING_H
#define BRIM_TESTS_ORIGIN_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "origin/fetch.h"
#include "origin/pipe.h"

/* --- the origin ------------------------------------------------------------------------------- */

struct script {
	pthread_t thread;
	void (*run)(struct script *s);
	int listener;
	uint16_t port;
	sem_t gate;	  /* the test lets the origin go on */
	char heard[8192]; /* the last request, head and what came with it */
	size_t heard_bytes;
};

static inline void script_listen(struct script *s)
{
	struct sock_addr a;

	memset(s, 0, sizeof(*s));
	assert_int_equal(sock_addr_parse(VIEW("127.0.0.1:0"), &a), 0);
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listener, &a.any, a.len), 0);
	assert_int_equal(listen(s->listener, 64), 0);
	assert_int_equal(getsockname(s->listener, &a.any, &a.len), 0);
	s->port = ntohs(a.v4.sin_port);
	sem_init(&s->gate, 0, 0);
}

static inline void *script_thread(void *arg)
{
	struct script *s = arg;

	s->run(s);
	return NULL;
}

static inline void script_start(struct script *s, void (*run)(struct script *s))
{
	s->run = run;
	assert_int_equal(pthread_create(&s->thread, NULL, script_thread, s), 0);
}

static inline void script_join(struct script *s)
{
	if (s->run != NULL)
		pthread_join(s->thread, NULL);
	close(s->listener);
	sem_destroy(&s->gate);
}

static inline int hears_client(struct script *s)
{
	return accept(s->listener, NULL, NULL);
}

/* Reads until text has come. What was heard before stays until a first byte comes. */
static inline void hears_until(struct script *s, int fd, const char *text)
{
	size_t heard = 0;

	do {
		ssize_t n = read(fd, s->heard + heard, sizeof(s->heard) - 1 - heard);
		if (n <= 0)
			return;
		heard += (size_t)n;
		s->heard[heard] = '\0';
	} while (strstr(s->heard, text) == NULL && heard < sizeof(s->heard) - 1);
	s->heard_bytes = heard;
}

static inline void hears_head(struct script *s, int fd)
{
	hears_until(s, fd, "\r\n\r\n");
}

static inline void says(int fd, const char *text)
{
	size_t n = strlen(text);

	if (send(fd, text, n, MSG_NOSIGNAL) != (ssize_t)n)
		perror("says");
}

static inline void says_bytes(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
		if (sent <= 0)
			return;
		p += sent;
		n -= (size_t)sent;
	}
}

/* Until the client hangs up. */
static inline bool hears_end(int fd)
{
	char byte;
	ssize_t n = read(fd, &byte, 1);

	return n == 0 || (n < 0 && errno == ECONNRESET);
}

static inline void resets(int fd)
{
	struct linger now = { .l_onoff = 1 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

/* --- the worker ------------------------------------------------------------------------------- */

struct world {
	struct loop *loop;
	struct origin_shared *shared;
	struct origin_pool *pool;
	struct conf *conf;
	struct pipe_pool pipes;
};

/* «members» are the origin's, as JSON with ' for " (servers among them). */
static inline struct conf *world_conf(const char *members)
{
	char text[2048];
	struct conf_faults faults = { .to = stderr };
	struct conf *conf;
	char *with_slots;

	(void)snprintf(
		text, sizeof(text),
		"{'listeners': [{'address': '127.0.0.1:1'}], 'user': '',"
		" 'stores': [{'path': '/srv/cache', 'size': '1GiB'}], 'origins': {'o': {%s}},"
		" 'sites': [{'hosts': ['*'], 'origin': 'o'}]}",
		members);
	for (char *c = text; *c != '\0'; c++)
		*c = *c == '\'' ? '"' : *c;
	assert_int_equal(conf_assign_slots(view_str(text), NULL, &faults, &with_slots), 0);
	assert_int_equal(conf_build(view_str(with_slots), 1, &faults, &conf), 0);
	free(with_slots);
	return conf;
}

static inline void world_begin(struct world *w, const char *members)
{
	memset(w, 0, sizeof(*w));
	w->conf = world_conf(members);
	w->loop = loop_new();
	w->shared = origin_shared_new();
	assert_true(w->loop != NULL && w->shared != NULL);
	assert_int_equal(origin_pool_new(w->shared, w->loop, 0, &w->pool), 0);
	assert_int_equal(pipe_pool_init(&w->pipes, 4), 0);
}

/* Another worker, with a pool of its own, in the same process and loop. */
static inline void world_join(struct world *w, const struct world *first, unsigned slot)
{
	*w = (struct world){ .loop = first->loop, .shared = first->shared, .conf = first->conf };
	assert_int_equal(origin_pool_new(w->shared, w->loop, slot, &w->pool), 0);
	assert_int_equal(pipe_pool_init(&w->pipes, 4), 0);
}

static inline void world_leave(struct world *w)
{
	origin_pool_free(w->pool);
	pipe_pool_fini(&w->pipes);
}

static inline void world_end(struct world *w)
{
	origin_pool_free(w->pool);
	pipe_pool_fini(&w->pipes);
	loop_free(w->loop);
	origin_shared_free(w->shared);
	conf_unref(w->conf);
}

/* --- the owner of a fetch -------------------------------------------------------------------- */

enum { BODY_MAX = 4 << 20 };

struct owner {
	struct world *w;
	struct ready wake;
	struct fetch *fetch;
	bool by_read;	/* take the body by fetch_body_read in place of splice */
	bool head_only; /* stop when the head is there */
	struct pipe *pipe;
	char *body;
	size_t body_bytes, spliced_bytes;
	const char *upload;
	size_t upload_bytes;
	bool upload_ended;
	unsigned interims;
	char interim_field[64];
	enum fetch_state state;
	enum fetch_error error;
	uint16_t status;
};

static inline void owner_keep(struct owner *o, const char *p, size_t n)
{
	assert_true(o->body_bytes + n <= BODY_MAX);
	memcpy(o->body + o->body_bytes, p, n);
	o->body_bytes += n;
}

static inline int64_t owner_pull_socket(struct owner *o)
{
	char bytes[4096];

	if (o->by_read) {
		int64_t n = fetch_body_read(o->fetch, bytes, sizeof(bytes));
		if (n > 0)
			owner_keep(o, bytes, (size_t)n);
		return n;
	}
	if (o->pipe == NULL)
		o->pipe = pipe_take(&o->w->pipes);
	assert_non_null(o->pipe);
	int64_t n = fetch_body_splice(o->fetch, o->pipe->write_fd, 1 << 20);
	for (int64_t left = n; left > 0;) {
		ssize_t got = read(o->pipe->read_fd, bytes, sizeof(bytes));
		assert_true(got > 0);
		owner_keep(o, bytes, (size_t)got);
		left -= got;
		o->spliced_bytes += (size_t)got;
	}
	return n;
}

static inline void owner_pull(struct owner *o)
{
	struct view v;

	for (;;) {
		switch (fetch_body_next(o->fetch, &v)) {
		case FETCH_BODY_MEMORY:
			assert_true(v.n > 0);
			owner_keep(o, v.p, v.n);
			fetch_body_took(o->fetch, v.n);
			break;
		case FETCH_BODY_SOCKET:
			if (owner_pull_socket(o) == 0)
				return;
			break;
		case FETCH_BODY_AGAIN:
			return;
		case FETCH_BODY_END:
		case FETCH_BODY_FAILED:
			return;
		}
	}
}

static inline void owner_push(struct owner *o)
{
	while (o->upload_bytes > 0) {
		int64_t n = fetch_send(o->fetch, o->upload, o->upload_bytes);
		if (n <= 0)
			return;
		o->upload += n;
		o->upload_bytes -= (size_t)n;
	}
	if (o->upload != NULL && !o->upload_ended)
		o->upload_ended = fetch_send_end(o->fetch) == 0;
}

static inline void owner_wake(struct ready *r)
{
	struct owner *o = CONTAINER_OF(r, struct owner, wake);

	if (fetch_state(o->fetch) == FETCH_INTERIM) {
		const struct http_response *i = fetch_response(o->fetch);
		o->interims++;
		if (i->fields.count > 0)
			(void)snprintf(o->interim_field, sizeof(o->interim_field), "%u %.*s",
				       i->status, VIEW_ARG(i->fields.at[0].value));
		fetch_interim_done(o->fetch);
	}
	if (fetch_state(o->fetch) == FETCH_STARTING)
		owner_push(o);
	if (fetch_state(o->fetch) == FETCH_HEAD && !o->head_only)
		owner_pull(o);
	o->state = fetch_state(o->fetch);
	if (o->state != FETCH_STARTING && o->state != FETCH_INTERIM)
		o->status = o->state == FETCH_FAILED && fetch_received_at(o->fetch).ms == 0
				    ? 0
				    : fetch_response(o->fetch)->status;
	o->error = fetch_error(o->fetch);
	if (o->state == FETCH_ENDED || o->state == FETCH_FAILED || o->state == FETCH_SWITCHED ||
	    (o->state == FETCH_HEAD && o->head_only))
		loop_stop(o->w->loop);
}

static inline void owner_begin(struct owner *o, struct world *w, const struct fetch_request *changes)
{
	struct fetch_request r = *changes;

	o->w = w;
	ready_init(&o->wake, w->loop, owner_wake);
	o->body = malloc(BODY_MAX);
	assert_non_null(o->body);
	r.conf = w->conf;
	r.origin = &w->conf->origins[0];
	if (r.start.n == 0)
		r.start = VIEW("GET / HTTP/1.1\r\n");
	assert_int_equal(fetch_new(w->pool, &r, &o->wake, &o->fetch), 0);
	owner_push(o);
}

/* Until the fetch is over (or has its head). */
static inline void owner_run(struct owner *o)
{
	while (o->state != FETCH_ENDED && o->state != FETCH_FAILED &&
	       !(o->state == FETCH_HEAD && o->head_only))
		loop_run(o->w->loop);
}

static inline void owner_end(struct owner *o)
{
	fetch_free(&o->fetch);
	ready_cancel(&o->wake);
	pipe_give(&o->w->pipes, &o->pipe);
	free(o->body);
	*o = (struct owner){ 0 };
}

/* A GET from beginning to end. */
static inline void owner_get(struct owner *o, struct world *w)
{
	owner_begin(o, w, &(struct fetch_request){ .method = METHOD_GET });
	owner_run(o);
}

static inline void assert_body(const struct owner *o, const char *text)
{
	assert_int_equal(o->state, FETCH_ENDED);
	assert_int_equal(o->body_bytes, strlen(text));
	assert_memory_equal(o->body, text, o->body_bytes);
}

static inline void stop_loop(struct timer *t)
{
	loop_stop(t->loop);
}

static inline void run_for_ms(struct world *w, uint64_t ms)
{
	struct timer t = { 0 };

	assert_int_equal(timer_open(&t, w->loop, stop_loop), 0);
	timer_set(&t, ms);
	loop_run(w->loop);
	timer_close(&t);
}

/* Runs the loop until so many connections are idle: looks every millisecond. */
static inline void run_until_idle(struct world *w, unsigned wanted)
{
	unsigned idle, busy;

	for (origin_pool_counts(w->pool, &idle, &busy); idle != wanted;
	     origin_pool_counts(w->pool, &idle, &busy))
		run_for_ms(w, 1);
}

#endif
