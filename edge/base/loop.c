/*
 * The loop over libuv. Each public struct (watch, timer, work) is the owner's memory and has a small
 * handle block of ours beside it that libuv knows. Closing cuts the two apart at once: the owner's
 * memory may be freed in the same breath, and the handle frees itself when libuv lets go of it.
 *
 * The end of a turn: a uv_check handle runs the ready list after the poll phase. What is posted by
 * a ready itself runs in a second round, and so on for a few rounds; what is left then waits for the
 * next turn, which an idle handle keeps from sleeping. Rejected:
 * uv_async and zero timers for this, since each costs a system call or a heap operation.
 */
#include "edge/base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

enum { ROUNDS = 8 };

struct loop {
	uv_loop_t uv;
	uv_check_t check;
	uv_prepare_t prepare;
	uv_idle_t idle;
	struct list ready;
	int64_t turn_began_ms, lag_ms;
	uint64_t turn;
	int64_t now_us;	  /* 0: not asked for in this turn */
	struct wall wall; /* the same */
	bool awake;	  /* the idle handle is active */
};

struct watch_handle {
	uv_poll_t uv;
	struct watch *owner; /* NULL: closed */
};

struct timer_handle {
	uv_timer_t uv;
	struct timer *owner;
};

struct work_handle {
	uv_work_t uv;
	struct work *owner;
};

/* --- turns and readies -------------------------------------------------------------------- */

static void stay_awake(uv_idle_t *idle)
{
	(void)idle;
}

/* libuv polls without sleeping while an idle handle is active. */
static void idle_while_ready(struct loop *l)
{
	bool wanted = !list_empty(&l->ready);

	if (wanted == l->awake)
		return;
	l->awake = wanted;
	if (wanted)
		uv_idle_start(&l->idle, stay_awake);
	else
		uv_idle_stop(&l->idle);
}

/* Just before libuv polls: the turn that began when the last poll returned is over. */
static void turn_ends(uv_prepare_t *prepare)
{
	struct loop *l = prepare->data;
	int64_t took;

	uv_update_time(&l->uv);
	took = (int64_t)uv_now(&l->uv) - l->turn_began_ms;
	if (l->turn_began_ms != 0 && took > l->lag_ms)
		l->lag_ms = took;
	l->turn++;
	l->now_us = l->wall.ms = 0;
}

static void run_batch(struct loop *l)
{
	struct list batch = l->ready;

	batch.next->prev = batch.prev->next = &batch;
	list_init(&l->ready);
	while (!list_empty(&batch)) {
		struct ready *r = LIST_ENTRY(batch.next, struct ready, link);

		list_remove(&r->link);
		r->fn(r);
	}
}

static void run_readies(uv_check_t *check)
{
	struct loop *l = check->data;

	l->turn_began_ms = (int64_t)uv_now(&l->uv); /* when the poll returned */
	for (int round = 0; round < ROUNDS && !list_empty(&l->ready); round++)
		run_batch(l);
	idle_while_ready(l);
}

struct loop *loop_new(void)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	if (uv_loop_init(&l->uv) != 0) {
		free(l);
		return NULL;
	}
	list_init(&l->ready);
	uv_check_init(&l->uv, &l->check);
	uv_prepare_init(&l->uv, &l->prepare);
	uv_idle_init(&l->uv, &l->idle);
	l->check.data = l->prepare.data = l;
	uv_check_start(&l->check, run_readies);
	uv_prepare_start(&l->prepare, turn_ends);
	return l;
}

static void close_left_over(uv_handle_t *h, void *arg)
{
	(void)arg;
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

void loop_free(struct loop *l)
{
	if (l == NULL)
		return;
	uv_walk(&l->uv, close_left_over, NULL);
	uv_run(&l->uv, UV_RUN_DEFAULT);
	CHECK(uv_loop_close(&l->uv) == 0);
	free(l);
}

void loop_run(struct loop *l)
{
	uv_run(&l->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *l)
{
	uv_stop(&l->uv);
}

struct mono loop_now(const struct loop *l)
{
	return (struct mono){ (int64_t)uv_now(&l->uv) }; /* libuv's clock is CLOCK_MONOTONIC, too */
}

int64_t loop_now_us(struct loop *l)
{
	if (l->now_us == 0)
		l->now_us = clock_mono_us();
	return l->now_us;
}

struct wall loop_wall(struct loop *l)
{
	if (l->wall.ms == 0)
		l->wall = clock_wall();
	return l->wall;
}

uint64_t loop_turn(const struct loop *l)
{
	return l->turn;
}

uint64_t loop_take_lag_us(struct loop *l)
{
	uint64_t lag = (uint64_t)l->lag_ms * 1000;

	l->lag_ms = 0;
	return lag;
}

void ready_init(struct ready *r, struct loop *l, ready_fn *fn)
{
	list_init(&r->link);
	r->fn = fn;
	r->loop = l;
}

void ready_post(struct ready *r)
{
	if (list_linked(&r->link))
		return;
	list_append(&r->loop->ready, &r->link);
	idle_while_ready(r->loop);
}

void ready_cancel(struct ready *r)
{
	if (r->loop != NULL)
		list_remove(&r->link);
}

/* --- descriptors --------------------------------------------------------------------------- */

static void free_watch(uv_handle_t *h)
{
	free(CONTAINER_OF(h, struct watch_handle, uv));
}

static void on_poll(uv_poll_t *uv, int status, int uv_events);

static void arm(struct watch *w, unsigned events)
{
	int uv_events = 0;

	w->armed = (uint8_t)events;
	if (events == 0) {
		uv_poll_stop(&w->handle->uv);
		return;
	}
	if (events & WATCH_READ)
		uv_events |= UV_READABLE;
	if (events & WATCH_WRITE)
		uv_events |= UV_WRITABLE;
	if (events == WATCH_ERROR)
		uv_events = UV_PRIORITIZED; /* errors are told with anything; nobody sends urgent data */
	CHECK(uv_poll_start(&w->handle->uv, uv_events, on_poll) == 0);
}

static void on_poll(uv_poll_t *uv, int status, int uv_events)
{
	struct watch *w = CONTAINER_OF(uv, struct watch_handle, uv)->owner;
	unsigned events = 0;

	if (w == NULL)
		return;
	if (status < 0) { /* libuv has stopped the poll */
		w->armed = 0;
		w->fn(w, WATCH_ERROR);
		return;
	}
	if (uv_events & UV_READABLE)
		events |= WATCH_READ;
	if (uv_events & UV_WRITABLE)
		events |= WATCH_WRITE;
	if (uv_events & UV_PRIORITIZED) /* somebody does */
		arm(w, w->wanted & ~(unsigned)WATCH_ERROR);
	if (events & ~w->wanted)
		arm(w, w->wanted); /* a wish that was taken back: now it costs something */
	if (events & w->wanted)
		w->fn(w, events & w->wanted);
}

int watch_open(struct watch *w, struct loop *l, int fd, watch_fn *fn)
{
	struct watch_handle *h = calloc(1, sizeof(*h));
	int r;

	if (h == NULL)
		return -ENOMEM;
	r = uv_poll_init(&l->uv, &h->uv, fd);
	if (r != 0) {
		free(h);
		return r;
	}
	h->owner = w;
	*w = (struct watch){ .handle = h, .fn = fn, .fd = fd };
	return 0;
}

void watch_want(struct watch *w, unsigned events)
{
	w->wanted = (uint8_t)events;
	/* What is armed tells of errors, too; and reading is what is wanted next. */
	if (events == WATCH_ERROR)
		events = w->armed != 0 ? 0 : WATCH_READ;
	if (events & ~(unsigned)w->armed)
		arm(w, events);
}

void watch_move(struct watch *from, struct watch *to, watch_fn *fn)
{
	*to = *from;
	to->fn = fn;
	to->wanted = 0;
	to->handle->owner = to;
	*from = (struct watch){ .fd = -1 };
}

void watch_close(struct watch *w)
{
	struct watch_handle *h = w->handle;

	if (h == NULL)
		return;
	w->handle = NULL;
	w->wanted = w->armed = 0;
	h->owner = NULL;
	uv_close((uv_handle_t *)&h->uv, free_watch);
}

/* --- timers --------------------------------------------------------------------------------- */

static void free_timer(uv_handle_t *h)
{
	free(CONTAINER_OF(h, struct timer_handle, uv));
}

static void on_timer(uv_timer_t *uv)
{
	struct timer *t = CONTAINER_OF(uv, struct timer_handle, uv)->owner;
	int64_t left;

	if (t == NULL || t->deadline.ms == 0)
		return;
	left = t->deadline.ms - loop_now(t->loop).ms;
	if (left > 0) { /* the deadline has moved since the heap saw it */
		uv_timer_start(uv, on_timer, (uint64_t)left, 0);
		return;
	}
	t->deadline.ms = 0;
	t->fn(t);
}

int timer_open(struct timer *t, struct loop *l, timer_fn *fn)
{
	struct timer_handle *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return -ENOMEM;
	uv_timer_init(&l->uv, &h->uv);
	h->owner = t;
	*t = (struct timer){ .handle = h, .fn = fn, .loop = l };
	return 0;
}

void timer_set(struct timer *t, uint64_t in_ms)
{
	uv_timer_t *uv = &t->handle->uv;

	t->deadline.ms = loop_now(t->loop).ms + (int64_t)in_ms;
	/* Later than what the heap waits for: on_timer will find out. */
	if (uv_is_active((uv_handle_t *)uv) && uv_timer_get_due_in(uv) <= in_ms)
		return;
	uv_update_time(&t->loop->uv);
	uv_timer_start(uv, on_timer, in_ms, 0);
}

void timer_clear(struct timer *t)
{
	t->deadline.ms = 0;
}

void timer_close(struct timer *t)
{
	struct timer_handle *h = t->handle;

	if (h == NULL)
		return;
	t->handle = NULL;
	t->deadline.ms = 0;
	h->owner = NULL;
	uv_close((uv_handle_t *)&h->uv, free_timer);
}

/* --- jobs for threads ----------------------------------------------------------------------- */

static void run_work(uv_work_t *uv)
{
	struct work *w = CONTAINER_OF(uv, struct work_handle, uv)->owner;

	w->run(w);
}

static void work_done(uv_work_t *uv, int status)
{
	struct work_handle *h = CONTAINER_OF(uv, struct work_handle, uv);
	struct work *w = h->owner;

	(void)status;
	free(h);
	w->handle = NULL;
	w->done(w);
}

int work_submit(struct work *w, struct loop *l, work_fn *run, work_fn *done)
{
	struct work_handle *h = calloc(1, sizeof(*h));
	int r;

	if (h == NULL)
		return -ENOMEM;
	h->owner = w;
	*w = (struct work){ .handle = h, .run = run, .done = done };
	r = uv_queue_work(&l->uv, &h->uv, run_work, work_done);
	if (r != 0) {
		free(h);
		w->handle = NULL;
	}
	return r;
}

const char *loop_library(void)
{
	return uv_version_string();
}
