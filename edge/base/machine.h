/*
 * A machine is a sequence of steps around one descriptor (a connection, a fetch) or
 * none (a request). A step does what it can without blocking and says how to go on;
 * one driver calls steps, with a budget, then yields, so that no machine starves others.
 *
 * A file that holds a machine opens with its table of steps, in running order.
 */
#ifndef BRIM_BASE_MACHINE_H
#define BRIM_BASE_MACHINE_H

#include <stdint.h>

#include "edge/base/loop.h"

enum step_result {
	STEP_NEXT,  /* call the (new) step at once */
	STEP_READ,  /* call again when the descriptor can be read */
	STEP_WRITE, /* call again when it can be written */
	STEP_BOTH,  /* either */
	STEP_PARK,  /* call again when someone wakes the machine */
	STEP_GUARD, /* as PARK, and when the peer is found to be gone (broken) */
	STEP_YIELD, /* call again in the next turn of the loop */
	STEP_DONE,  /* the machine is over: its end function frees it */
};

struct machine;

struct step {
	const char *name;
	enum step_result (*run)(struct machine *m);
};

struct machine {
	uint32_t magic;
	uint16_t step;			       /* index into steps */
	bool running, over, timed_out, broken; /* broken: the descriptor reported an error */
	bool wake_pending;
	const struct step *steps;
	void (*end)(struct machine *m); /* called once, from the driver, after STEP_DONE */
	struct loop *loop;
	struct watch watch; /* closed: a machine without descriptor */
	struct timer timer;
	struct ready ready;
};

/* fd -1: none. The watch is opened, nothing is wanted; the first step runs on machine_wake. */
int machine_init(struct machine *m, struct loop *l, int fd, const struct step *steps,
		 void (*end)(struct machine *m)) NODISCARD;
/* Gives a machine a watch and takes it away again, without system calls: for a descriptor that outlives the machine. */
void machine_adopt(struct machine *m, struct watch *from);
void machine_release(struct machine *m, struct watch *to, watch_fn *fn);

/* From within a step: which step is next. */
static inline enum step_result machine_goto(struct machine *m, unsigned step)
{
	m->step = (uint16_t)step;
	return STEP_NEXT;
}

/* Run the current step at the end of this turn, whatever it waited for. */
void machine_wake(struct machine *m);
/* The step sees m->timed_out once when this passes; each call replaces the deadline. */
void machine_deadline(struct machine *m, uint64_t in_ms);
void machine_no_deadline(struct machine *m);
/* Unlink everything (watch, timer, ready). Idempotent; safe on a zeroed machine. Does not close the descriptor. */
void machine_fini(struct machine *m);

#endif
