/*
 * The event loop: libuv, with sockets as raw descriptors. This is the one file
 * that knows uv.h.
 *
 * A watch is interest in one descriptor. libuv 1.44 issues EPOLL_CTL_DEL on every
 * uv_poll_start, so the mask that the kernel has is remembered and changed only when
 * it must: a wish that is taken back stays armed until an event proves it wrong.
 *
 * Machines never call each other: they post a ready, which runs at the end of the turn.
 * A timer is lazy: moving its deadline later costs no heap operation.
 *
 * Lifetimes: *_close and *_cancel unlink at once (no callback comes after them, even in
 * this turn) and the memory may be freed right away; what libuv still needs lives in
 * small blocks of its own that are freed when libuv is done.
 */
#ifndef BRIM_BASE_LOOP_H
#define BRIM_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "edge/base/check.h"
#include "edge/base/clock.h"
#include "edge/base/list.h"

struct loop;

struct loop *loop_new(void) NODISCARD; /* NULL on failure */
void loop_free(struct loop *l);	       /* all watches, timers and works are closed before */
void loop_run(struct loop *l);	       /* until loop_stop */
void loop_stop(struct loop *l);
/* Monotonic time as of the beginning of this turn: cheap, for deadlines. */
struct mono loop_now(const struct loop *l);
/* The same on the clocks of edge/base/clock.h, as of when it was first asked for in this turn: for what happens in it (a request
 * that has come, an object's age), not for how long something takes. */
int64_t loop_now_us(struct loop *l);
struct wall loop_wall(struct loop *l);
/* Counts turns; grows just before each poll. What a ready sees of a turn that is over, the poll since then saw too. */
uint64_t loop_turn(const struct loop *l);
/* The longest turn since the last call, in microseconds (the loop's lag; measured in whole milliseconds). */
uint64_t loop_take_lag_us(struct loop *l);

enum { WATCH_READ = 1, WATCH_WRITE = 2, WATCH_ERROR = 4 };

struct watch;
/* events: WATCH_READ | WATCH_WRITE of those wanted; WATCH_ERROR when the socket is broken. */
typedef void watch_fn(struct watch *w, unsigned events);

struct watch_handle;
struct watch {
	struct watch_handle *handle; /* libuv's part; NULL: not open */
	watch_fn *fn;
	int fd;
	uint8_t wanted, armed;
};

int watch_open(struct watch *w, struct loop *l, int fd, watch_fn *fn) NODISCARD;
/* What the owner waits for from now on; 0: nothing (but errors are reported while READ or WRITE is armed);
 * WATCH_ERROR: nothing but errors. */
void watch_want(struct watch *w, unsigned events);
/* The watch gets another owner and function, without a system call; «to» wants nothing yet, «from» is closed. */
void watch_move(struct watch *from, struct watch *to, watch_fn *fn);
/* Stop watching; the descriptor is the caller's again and may be closed at once. Idempotent. */
void watch_close(struct watch *w);

struct timer;
typedef void timer_fn(struct timer *t);
struct timer_handle;
struct timer {
	struct timer_handle *handle;
	timer_fn *fn;
	struct loop *loop;
	struct mono deadline; /* ms 0: not set */
};

int timer_open(struct timer *t, struct loop *l, timer_fn *fn) NODISCARD;
void timer_set(struct timer *t, uint64_t in_ms);
void timer_clear(struct timer *t);
void timer_close(struct timer *t);

struct ready;
typedef void ready_fn(struct ready *r);
struct ready {
	struct list link;
	ready_fn *fn;
	struct loop *loop;
};

void ready_init(struct ready *r, struct loop *l, ready_fn *fn);
/* Runs fn once at the end of this turn (of the next where readies post readies without end); idempotent while pending. */
void ready_post(struct ready *r);
void ready_cancel(struct ready *r);

/* A job for the thread pool: run() off the loop, then done() in it. The owner may let go of
 * it with work_abandon: done() then runs all the same (it frees), with work->abandoned set. */
struct work;
typedef void work_fn(struct work *w);
struct work_handle;
struct work {
	struct work_handle *handle;
	work_fn *run, *done;
	bool abandoned;
};
int work_submit(struct work *w, struct loop *l, work_fn *run, work_fn *done) NODISCARD;

/* For «brim -V»: the version of libuv. */
const char *loop_library(void);

#endif
