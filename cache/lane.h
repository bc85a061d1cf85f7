/*
 * A lane: one thread that does the keeper's file I/O in order, for one store and one purpose.
 *
 * The keeper's loop only steers: it hands a job to a lane and goes on; the job's run() may block for
 * as long as the disk likes; then done() is called in the loop. Jobs of one lane never overlap and
 * end in the order in which they came, so that what they touch (a log's end, LMDB's write transaction)
 * needs no lock.
 *
 * Rejected: the loop's shared thread pool. One slow disk would fill it, and name resolution, the other stores and
 * the journal would wait; and a pool can't be waited for when the keeper closes.
 */
#ifndef BRIM_CACHE_LANE_H
#define BRIM_CACHE_LANE_H

#include "edge/base/list.h"
#include "edge/base/loop.h"

struct lane;
struct job;
typedef void job_fn(struct job *j);

/* Embedded in what it works for; the memory is the owner's again from done() on. */
struct job {
	struct list link;
	job_fn *run;  /* in the lane's thread */
	job_fn *done; /* in the loop */
};

int lane_open(struct loop *l, struct lane **out) NODISCARD;
void lane_submit(struct lane *lane, struct job *j, job_fn *run, job_fn *done);
/* Runs everything submitted so far, and what done() submits, to its end; blocks. */
void lane_finish(struct lane *lane);
/* Finishes and frees. */
void lane_close(struct lane **lane);

#endif
