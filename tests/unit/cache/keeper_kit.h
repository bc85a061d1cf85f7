/*
 * A node in small, for tests of the keeper: this process is worker 0 (with the real cache code), the keeper is a child
 * that can be stopped or killed. «Node start» means new shared memory over the same directory.
 */
#ifndef BRIM_TESTS_CACHE_KEEPER_KIT_H
#define BRIM_TESTS_CACHE_KEEPER_KIT_H

#include "tests/unit/cache/world.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "cache/keeper.h"
#include "cache/store.h"
#include "edge/base/log.h"
#include "tests/unit/cache/temp_dir.h"

enum { KIT_MIB = 1 << 20 };

/* What the test tells the keeper's process, in shared memory. */
struct kit_orders {
	_Atomic int dead_slot, dead_pid; /* SIGUSR1: this worker died */
};

struct kit {
	struct world w;
	struct temp_dir dir;
	struct kit_orders *orders;
	pid_t keeper_pid;
	struct timer turn;
};

/* --- the keeper's process -------------------------------------------------------------------- */

struct kit_keeper {
	struct loop *loop;
	struct keeper *keeper;
	struct kit_orders *orders;
	struct watch signals;
};

static inline void kit_on_signal(struct watch *w, unsigned events)
{
	struct kit_keeper *kk = CONTAINER_OF(w, struct kit_keeper, signals);
	struct signalfd_siginfo told;

	(void)events;
	while (read(w->fd, &told, sizeof(told)) == sizeof(told)) {
		if (told.ssi_signo == SIGTERM)
			loop_stop(kk->loop);
		else
			keeper_worker_died(kk->keeper, (unsigned)kk->orders->dead_slot,
					   kk->orders->dead_pid);
	}
}

static inline int kit_watch_signals(struct kit_keeper *kk)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int r = watch_open(&kk->signals, kk->loop, signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC),
			   kit_on_signal);
	if (r == 0)
		watch_want(&kk->signals, WATCH_READ);
	return r;
}

static inline void kit_be_keeper(struct kit *k)
{
	/* A test that fails leaves no process behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* A real keeper's parent has no worker's handlers: chained through both, a fault would go round for ever. */
	signal(SIGBUS, SIG_DFL);
	signal(SIGSEGV, SIG_DFL);
	struct kit_keeper kk = { .loop = loop_new(), .orders = k->orders };

	log_name("keeper");
	if (kk.loop == NULL || kit_watch_signals(&kk) != 0 ||
	    keeper_open(k->w.shared, &k->w.conf, kk.loop, &kk.keeper) != 0)
		_exit(1);
	loop_run(kk.loop);
	keeper_close(kk.keeper);
	_exit(0);
}

static inline void kit_start_keeper(struct kit *k)
{
	fflush(NULL);
	k->keeper_pid = fork();
	assert_true(k->keeper_pid >= 0);
	if (k->keeper_pid == 0)
		kit_be_keeper(k);
}

/* --- waiting ------------------------------------------------------------------------------------ */

static inline void kit_turned(struct timer *t)
{
	loop_stop(t->loop);
}

/* Lets the worker's loop run for a moment. */
static inline void kit_turn(struct kit *k)
{
	timer_set(&k->turn, 2);
	loop_run(k->w.loop);
}

#define KIT_WAIT(k, condition)                                                      \
	for (int64_t wait_end = clock_mono().ms + 60000; !(condition); kit_turn(k)) \
		if (clock_mono().ms > wait_end)                                     \
	fail_msg("waited for %s", #condition)

static inline bool kit_is(struct kit *k, enum shared_store_state state)
{
	return atomic_load(&k->w.store->state) == state;
}

static inline void kit_end_keeper(struct kit *k, int signal_number)
{
	int status;

	if (k->keeper_pid == 0)
		return;
	/* From its first beat on it knows the signals. */
	KIT_WAIT(k, atomic_load(&k->w.shared->keeper_pid) == k->keeper_pid);
	kill(k->keeper_pid, signal_number);
	assert_int_equal(waitpid(k->keeper_pid, &status, 0), k->keeper_pid);
	if (signal_number == SIGTERM)
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	k->keeper_pid = 0;
}

/* --- the node ------------------------------------------------------------------------------------- */

static inline void kit_start_node(struct kit *k)
{
	k->w.shared = cache_shared_new(&k->w.conf);
	assert_non_null(k->w.shared);
	k->w.store = &k->w.shared->stores[0];
	k->w.loop = loop_new();
	assert_non_null(k->w.loop);
	ready_init(&k->w.wake, k->w.loop, world_woken);
	assert_int_equal(timer_open(&k->w.alarm, k->w.loop, world_alarm), 0);
	assert_int_equal(timer_open(&k->turn, k->w.loop, kit_turned), 0);
	kit_start_keeper(k);
	assert_int_equal(cache_attach(k->w.shared, &k->w.conf, k->w.loop, 0, &k->w.cache), 0);
}

/* SIGTERM: in order; SIGKILL: keeper and worker die at once. */
static inline void kit_end_node(struct kit *k, int signal_number)
{
	if (signal_number == SIGTERM)
		cache_detach(k->w.cache);
	kit_end_keeper(k, signal_number);
	if (signal_number != SIGTERM)
		cache_detach(k->w.cache);
	timer_close(&k->w.alarm);
	timer_close(&k->turn);
	loop_free(k->w.loop);
	cache_shared_free(k->w.shared);
}

static inline void kit_open(struct kit *k, uint64_t bytes)
{
	memset(k, 0, sizeof(*k));
	temp_dir_make(&k->dir);
	k->orders = mmap(NULL, sizeof(*k->orders), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(k->orders != MAP_FAILED);
	k->w.conf.store_count = 1;
	k->w.conf.workers = 4;
	k->w.conf.stores[0].name = VIEW("main");
	k->w.conf.stores[0].size_bytes = bytes;
	k->w.conf.stores[0].dir_fd = k->dir.fd;
	kit_start_node(k);
	KIT_WAIT(k, kit_is(k, STORE_OPEN));
}

static inline void kit_close(struct kit *k)
{
	kit_end_node(k, SIGTERM);
	munmap(k->orders, sizeof(*k->orders));
	temp_dir_remove(&k->dir);
}

static inline void kit_restart(struct kit *k, int signal_number)
{
	kit_end_node(k, signal_number);
	kit_start_node(k);
	KIT_WAIT(k, kit_is(k, STORE_OPEN));
}

/* --- objects ----------------------------------------------------------------------------------------- */

static inline struct cache_key kit_key(unsigned n)
{
	char path[32];

	snprintf(path, sizeof(path), "/object/%u", n);
	return world_key(path);
}

/* A body that no other object has; version tells fills of one key apart. */
static inline char *kit_body(unsigned n, unsigned version, size_t bytes)
{
	char *body = malloc(bytes + 8);
	uint64_t x = n * 0x9e3779b97f4a7c15u + version;

	assert_non_null(body);
	for (size_t i = 0; i < bytes; i += 8) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		memcpy(body + i, &x, 8);
	}
	return body;
}

/* Fills and hands over. 0, or why it was refused. */
static inline int kit_fill(struct kit *k, unsigned n, unsigned version, size_t bytes)
{
	struct cache_key key = kit_key(n);
	struct cache_wait wait = { .slot = 0 };
	struct cache_claim *claim;
	struct cache_meta meta;
	struct cache_fill *fill;
	char *body;
	int r;

	if (world_claim(&k->w, &key, &wait, &claim) != CACHE_CLAIM_OWNED) {
		cache_wait_cancel(k->w.cache, &wait);
		return -EBUSY;
	}
	meta = world_meta(claim);
	r = cache_fill_begin(&claim, &key, &meta, VIEW(""), WORLD_HEAD, (int64_t)bytes, &fill);
	if (r != 0)
		return r;
	body = kit_body(n, version, bytes);
	for (size_t at = 0; at < bytes && r == 0;) {
		int64_t room = cache_fill_room(fill, &k->w.wake);
		size_t step = bytes - at < 256 << 10 ? bytes - at : 256 << 10;

		if (room < 0) {
			r = (int)room;
		} else if (room == 0) {
			kit_turn(k);
		} else {
			step = step < (size_t)room ? step : (size_t)room;
			r = cache_fill_write(fill, body + at, step);
			at += step;
		}
	}
	if (r == 0)
		r = cache_fill_finish(fill);
	else
		cache_fill_abort(fill);
	cache_fill_free(fill);
	free(body);
	return r;
}

static inline int kit_find(struct kit *k, unsigned n, struct cache_record *out)
{
	struct cache_key key = kit_key(n);

	return cache_find(k->w.cache, &key, out);
}

/* Fills and waits until it is committed. */
static inline void kit_store(struct kit *k, unsigned n, unsigned version, size_t bytes)
{
	uint64_t commits = atomic_load(&k->w.store->commits);

	KIT_WAIT(k, kit_fill(k, n, version, bytes) == 0);
	KIT_WAIT(k, atomic_load(&k->w.store->commits) > commits);
}

/* The object is there, whole, and this version. */
static inline void kit_check(struct kit *k, unsigned n, unsigned version, size_t bytes)
{
	struct cache_key key = kit_key(n);
	char *body = kit_body(n, version, bytes);

	world_check(&k->w, &key, body, bytes);
	free(body);
}

static inline bool kit_has(struct kit *k, unsigned n)
{
	struct cache_record r;

	return kit_find(k, n, &r) == 0;
}

/* Purges a URL, answered. */
static inline void kit_purge(struct kit *k, unsigned n, bool soft)
{
	struct cache_key key = kit_key(n);
	struct cache_scope scope = cache_scope_url(key.primary);
	struct cache_purge_ask ask = { .slot = 0 };
	uint64_t sequence;
	int r;

	KIT_WAIT(k, (r = cache_purge_ask(k->w.cache, &ask, &scope, 1, soft, &k->w.wake, &sequence)) !=
			    -EINPROGRESS);
	assert_int_equal(r, 0);
	assert_true(sequence != 0);
}

static inline enum cache_purged kit_purged(struct kit *k, unsigned n)
{
	struct cache_key key = kit_key(n);
	const struct cache_object *o;
	enum cache_purged purged;

	assert_int_equal(world_open_object(&k->w, &key, &o), 0);
	purged = cache_object_purged(o, 1);
	cache_object_unref(o);
	return purged;
}

/* What the store's files take. */
static inline uint64_t kit_disk_bytes_at(const char *path)
{
	static uint64_t total;
	char command[300];
	FILE *du;

	snprintf(command, sizeof(command), "du -s -B1 %s 2>/dev/null", path);
	du = popen(command, "r");
	assert_non_null(du);
	if (fscanf(du, "%lu", &total) != 1)
		total = UINT64_MAX;
	pclose(du);
	return total;
}

#endif
