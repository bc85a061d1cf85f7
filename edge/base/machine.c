/*
 * The one driver of machines. It calls steps until one has to wait, at most BUDGET of them,
 * then yields to the other machines of this turn.
 */
#include "edge/base/machine.h"

enum { BUDGET = 64, MACHINE_MAGIC = 0x6d616368 };

static void over(struct machine *m)
{
	m->over = true;
	m->running = false;
	watch_close(&m->watch);
	timer_close(&m->timer);
	ready_cancel(&m->ready);
	m->end(m);
}

static void want(struct machine *m, unsigned events)
{
	if (m->watch.handle != NULL)
		watch_want(&m->watch, events);
}

/* A wake that came while the step ran must not be lost when the step then waits. */
static void wait_for(struct machine *m, unsigned events)
{
	want(m, events);
	if (m->wake_pending)
		ready_post(&m->ready);
}

/* The step has run, and the machine doesn't go on at once. */
static void rest(struct machine *m, enum step_result r)
{
	switch (r) {
	case STEP_READ:
		wait_for(m, WATCH_READ);
		break;
	case STEP_WRITE:
		wait_for(m, WATCH_WRITE);
		break;
	case STEP_BOTH:
		wait_for(m, WATCH_READ | WATCH_WRITE);
		break;
	case STEP_PARK:
		wait_for(m, 0);
		break;
	case STEP_GUARD:
		wait_for(m, WATCH_ERROR);
		break;
	case STEP_YIELD:
		want(m, 0);
		ready_post(&m->ready);
		break;
	case STEP_NEXT: /* the budget is used up */
		ready_post(&m->ready);
		break;
	case STEP_DONE:
		over(m);
		return;
	}
	m->running = false;
}

static void machine_run(struct machine *m)
{
	enum step_result r = STEP_NEXT;

	CHECK_MAGIC(m, MACHINE_MAGIC);
	CHECK(!m->running && !m->over);
	m->running = true;
	ready_cancel(&m->ready);
	m->wake_pending = false;
	for (int budget = BUDGET; budget > 0 && r == STEP_NEXT; budget--)
		r = m->steps[m->step].run(m);
	rest(m, r);
}

static void on_watch(struct watch *w, unsigned events)
{
	struct machine *m = CONTAINER_OF(w, struct machine, watch);

	if (events & WATCH_ERROR)
		m->broken = true;
	machine_run(m);
}

static void on_timeout(struct timer *t)
{
	struct machine *m = CONTAINER_OF(t, struct machine, timer);

	m->timed_out = true;
	machine_run(m);
}

static void on_ready(struct ready *r)
{
	machine_run(CONTAINER_OF(r, struct machine, ready));
}

int machine_init(struct machine *m, struct loop *l, int fd, const struct step *steps,
		 void (*end)(struct machine *m))
{
	int r;

	*m = (struct machine){ .magic = MACHINE_MAGIC, .steps = steps, .end = end, .loop = l };
	ready_init(&m->ready, l, on_ready);
	if (fd < 0)
		return 0;
	r = watch_open(&m->watch, l, fd, on_watch);
	if (r != 0)
		*m = (struct machine){ 0 };
	return r;
}

void machine_adopt(struct machine *m, struct watch *from)
{
	m->broken = false;
	watch_move(from, &m->watch, on_watch);
}

void machine_release(struct machine *m, struct watch *to, watch_fn *fn)
{
	watch_move(&m->watch, to, fn);
}

void machine_wake(struct machine *m)
{
	if (m->over)
		return;
	if (m->running)
		m->wake_pending = true;
	else
		ready_post(&m->ready);
}

void machine_deadline(struct machine *m, uint64_t in_ms)
{
	m->timed_out = false;
	if (m->timer.handle == NULL && timer_open(&m->timer, m->loop, on_timeout) != 0)
		return; /* no memory for a timer: the peer is not timed out */
	timer_set(&m->timer, in_ms);
}

void machine_no_deadline(struct machine *m)
{
	m->timed_out = false;
	if (m->timer.handle != NULL)
		timer_clear(&m->timer);
}

void machine_fini(struct machine *m)
{
	if (m->magic == 0)
		return;
	watch_close(&m->watch);
	if (m->timer.handle != NULL)
		timer_close(&m->timer);
	ready_cancel(&m->ready);
	m->over = true;
}
