/* A thread with a queue in front and a queue behind; see lane.h. */
#include "cache/lane.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { LANE_MAGIC = 0x6c616e65 };

struct lane {
	uint32_t magic;
	struct watch watch; /* on done_fd */
	int done_fd;
	pthread_t thread;
	pthread_mutex_t mutex; /* all below */
	pthread_cond_t more, idle;
	struct list waiting, done;
	bool running, closing;
};

static struct job *next_job(struct lane *lane)
{
	pthread_mutex_lock(&lane->mutex);
	while (list_empty(&lane->waiting) && !lane->closing)
		pthread_cond_wait(&lane->more, &lane->mutex);
	struct job *j = NULL;
	if (!list_empty(&lane->waiting)) {
		j = LIST_ENTRY(lane->waiting.next, struct job, link);
		list_remove(&j->link);
		lane->running = true;
	}
	pthread_mutex_unlock(&lane->mutex);
	return j;
}

static void job_ran(struct lane *lane, struct job *j)
{
	bool first;

	pthread_mutex_lock(&lane->mutex);
	lane->running = false;
	first = list_empty(&lane->done);
	list_append(&lane->done, &j->link);
	pthread_cond_signal(&lane->idle);
	pthread_mutex_unlock(&lane->mutex);
	if (first)
		CHECK(eventfd_write(lane->done_fd, 1) == 0);
}

static void *lane_main(void *arg)
{
	struct lane *lane = arg;
	struct job *j;

	while ((j = next_job(lane)) != NULL) {
		j->run(j);
		job_ran(lane, j);
	}
	return NULL;
}

/* done() of all that ran. It may submit. */
static void finish_done(struct lane *lane)
{
	struct list done;

	list_init(&done);
	pthread_mutex_lock(&lane->mutex);
	while (!list_empty(&lane->done)) {
		struct list *link = lane->done.next;

		list_remove(link);
		list_append(&done, link);
	}
	pthread_mutex_unlock(&lane->mutex);
	while (!list_empty(&done)) {
		struct job *j = LIST_ENTRY(done.next, struct job, link);

		list_remove(&j->link);
		j->done(j);
	}
}

static void on_done(struct watch *w, unsigned events)
{
	struct lane *lane = CONTAINER_OF(w, struct lane, watch);
	eventfd_t count;

	(void)events;
	CHECK_MAGIC(lane, LANE_MAGIC);
	(void)!eventfd_read(lane->done_fd, &count);
	finish_done(lane);
}

/* Signals are the loop's thread's, but for the faults that a thread commits itself: blocked, they would pass by who
 * catches them. */
static int start_thread(struct lane *lane)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };
	sigset_t all, before;
	int r;

	sigfillset(&all);
	for (size_t i = 0; i < ARRAY_LEN(faults); i++)
		sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&lane->thread, NULL, lane_main, lane);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

int lane_open(struct loop *l, struct lane **out)
{
	struct lane *lane = calloc(1, sizeof(*lane));
	int r;

	if (lane == NULL)
		return -ENOMEM;
	lane->magic = LANE_MAGIC;
	list_init(&lane->waiting);
	list_init(&lane->done);
	pthread_mutex_init(&lane->mutex, NULL);
	pthread_cond_init(&lane->more, NULL);
	pthread_cond_init(&lane->idle, NULL);
	lane->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = lane->done_fd < 0 ? -errno : watch_open(&lane->watch, l, lane->done_fd, on_done);
	if (r != 0)
		goto no_watch;
	watch_want(&lane->watch, WATCH_READ);
	r = start_thread(lane);
	if (r != 0)
		goto no_thread;
	*out = lane;
	return 0;

no_thread:
	watch_close(&lane->watch);
no_watch:
	if (lane->done_fd >= 0)
		close(lane->done_fd);
	free(lane);
	return r;
}

void lane_submit(struct lane *lane, struct job *j, job_fn *run, job_fn *done)
{
	CHECK_MAGIC(lane, LANE_MAGIC);
	j->run = run;
	j->done = done;
	pthread_mutex_lock(&lane->mutex);
	list_append(&lane->waiting, &j->link);
	pthread_cond_signal(&lane->more);
	pthread_mutex_unlock(&lane->mutex);
}

void lane_finish(struct lane *lane)
{
	bool more;

	do {
		pthread_mutex_lock(&lane->mutex);
		while (lane->running || !list_empty(&lane->waiting))
			pthread_cond_wait(&lane->idle, &lane->mutex);
		more = !list_empty(&lane->done);
		pthread_mutex_unlock(&lane->mutex);
		finish_done(lane);
	} while (more);
}

void lane_close(struct lane **plane)
{
	struct lane *lane = *plane;

	if (lane == NULL)
		return;
	*plane = NULL;
	CHECK_MAGIC(lane, LANE_MAGIC);
	lane_finish(lane);
	pthread_mutex_lock(&lane->mutex);
	lane->closing = true;
	pthread_cond_signal(&lane->more);
	pthread_mutex_unlock(&lane->mutex);
	pthread_join(lane->thread, NULL);
	watch_close(&lane->watch);
	close(lane->done_fd);
	pthread_cond_destroy(&lane->more);
	pthread_cond_destroy(&lane->idle);
	pthread_mutex_destroy(&lane->mutex);
	lane->magic = 0;
	free(lane);
}
