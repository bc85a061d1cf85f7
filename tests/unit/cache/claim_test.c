/*
 * Claims: one fetch for a key, across processes that die at any moment. Other workers are forked children that are
 * told by a pipe when to go on, so that every order of events is the one that the test means.
 */
#include "tests/unit/cache/world.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

/* --- other processes ------------------------------------------------------------------------------ */

struct other {
	pid_t pid;
	int to, from;
};

typedef void other_fn(struct world *w, struct other *self);

static void other_says(struct other *o)
{
	assert_int_equal(write(o->from, "x", 1), 1);
}

static void other_waits(struct other *o)
{
	char c;

	if (read(o->to, &c, 1) != 1)
		_exit(0);
}

/* Runs fn as the worker in «slot» of a new process. In fn, «from» is written and «to» is read. */
static struct other other_start(struct world *w, unsigned slot, other_fn *fn)
{
	int down[2], up[2];
	struct other o;

	assert_int_equal(pipe(down), 0);
	assert_int_equal(pipe(up), 0);
	o.pid = fork();
	assert_true(o.pid >= 0);
	if (o.pid == 0) {
		struct other self = { .to = down[0], .from = up[1] };
		struct world mine = *w;

		close(down[1]);
		close(up[0]);
		mine.loop = loop_new();
		ready_init(&mine.wake, mine.loop, world_woken);
		if (cache_attach(mine.shared, &mine.conf, mine.loop, slot, &mine.cache) != 0)
			_exit(1);
		fn(&mine, &self);
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	o.to = down[1];
	o.from = up[0];
	return o;
}

static void await(struct other *o)
{
	char c;

	assert_int_equal(read(o->from, &c, 1), 1);
}

static void go_on(struct other *o)
{
	assert_int_equal(write(o->to, "x", 1), 1);
}

static void end(struct other *o, bool killed)
{
	int status;

	if (killed)
		assert_int_equal(kill(o->pid, SIGKILL), 0);
	close(o->to);
	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
	close(o->from);
	assert_true(killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* --- one process ----------------------------------------------------------------------------------- */

static void test_one_owns_others_wait_and_are_woken(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_wait wait = { 0 };
	struct cache_claim *claim, *second = NULL;

	(void)state;
	world_open(&w);
	claim = world_own(&w, &key);
	assert_int_equal(cache_claims_held(w.shared), 1);
	assert_int_equal(world_claim(&w, &key, &wait, &second), CACHE_CLAIM_WAIT);
	assert_null(second);
	assert_true(list_linked(&wait.link));
	cache_claim_drop(&claim);
	assert_null(claim);
	world_wait(&w, 0);
	assert_int_equal(cache_claims_held(w.shared), 0);
	assert_int_equal(world_claim(&w, &key, &wait, &claim), CACHE_CLAIM_OWNED);
	cache_claim_drop(&claim);
	world_close(&w);
}

static void test_variants_have_claims_of_their_own(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a"), variant = key;
	struct cache_claim *a, *b;

	(void)state;
	world_open(&w);
	variant.secondary = 5;
	a = world_own(&w, &key);
	b = world_own(&w, &variant);
	assert_true(claim_known(w.shared, key.primary));
	cache_claim_drop(&a);
	assert_true(claim_known(w.shared, key.primary));
	cache_claim_drop(&b);
	assert_false(claim_known(w.shared, key.primary));
	world_close(&w);
}

static void test_a_cancelled_wait_is_not_woken(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_names names = world_names(&key);
	struct cache_wait wait = { 0 }, other = { 0 };
	struct cache_claim *claim, *none = NULL;
	struct ready never;

	(void)state;
	world_open(&w);
	claim = world_own(&w, &key);
	ready_init(&never, w.loop, world_woken);
	assert_int_equal(cache_claim_take(w.cache, &key, &names, &other, &never, &none),
			 CACHE_CLAIM_WAIT);
	assert_int_equal(world_claim(&w, &key, &wait, &none), CACHE_CLAIM_WAIT);
	cache_wait_cancel(w.cache, &other);
	cache_wait_cancel(w.cache, &other);
	cache_claim_drop(&claim);
	assert_false(list_linked(&never.link));
	world_wait(&w, 0);
	world_close(&w);
}

static uint32_t number_of(struct cache_claim *claim)
{
	return (uint32_t)(claim_slot(claim) - claim_cache(claim)->shared->claims);
}

/* Its followers stay, a new fetch begins, and what the old one brings is refused. */
static void test_a_purge_supersedes(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_scope scope = cache_scope_url(key.primary);
	struct cache_wait wait = { 0 };
	struct cache_claim *old, *fresh, *none = NULL;
	struct claim_view v;
	uint32_t number;

	(void)state;
	world_open(&w);
	old = world_own(&w, &key);
	number = number_of(old);
	assert_int_equal(world_claim(&w, &key, &wait, &none), CACHE_CLAIM_WAIT);
	purge_clock_raise(w.shared, &scope, true, 1);
	purge_clock_publish(w.shared, 1);
	fresh = world_own(&w, &key);
	assert_true(claim_is_superseded(old));
	assert_false(claim_is_superseded(fresh));
	assert_int_equal(cache_claim_birth(fresh), 1);
	claim_done(&old);
	assert_int_equal(claim_view(w.shared, number, &v), 0);
	assert_true(v.superseded);
	assert_int_equal(world_keep(&w), 0);
	world_wait(&w, 0);
	assert_int_equal(world_claim(&w, &key, &wait, &none), CACHE_CLAIM_WAIT); /* for the new one */
	cache_claim_drop(&fresh);
	assert_int_equal(cache_claims_held(w.shared), 0);
	world_close(&w);
}

static void test_a_full_stripe_passes(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a"), variant = key;
	struct cache_claim *claims[SHARED_STRIPE_CLAIMS], *none = NULL;
	struct cache_wait wait = { 0 };

	(void)state;
	world_open(&w);
	for (unsigned i = 0; i < SHARED_STRIPE_CLAIMS; i++) {
		variant.secondary = i;
		claims[i] = world_own(&w, &variant);
	}
	variant.secondary = 1000;
	assert_int_equal(world_claim(&w, &variant, &wait, &none), CACHE_CLAIM_PASS);
	for (unsigned i = 0; i < SHARED_STRIPE_CLAIMS; i++)
		cache_claim_drop(&claims[i]);
	assert_int_equal(cache_claims_held(w.shared), 0);
	world_close(&w);
}

static void test_nothing_is_claimed_where_nothing_can_be_stored(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_wait wait = { 0 };
	struct cache_claim *none = NULL;

	(void)state;
	world_open(&w);
	shared_keeper_gone(w.shared);
	assert_int_equal(world_claim(&w, &key, &wait, &none), CACHE_CLAIM_PASS);
	world_beat(&w);
	atomic_store(&w.store->state, STORE_OUT);
	assert_int_equal(world_claim(&w, &key, &wait, &none), CACHE_CLAIM_PASS);
	atomic_store(&w.store->state, STORE_OPEN);
	cache_stop_storing(w.cache);
	assert_int_equal(world_claim(&w, &key, &wait, &none), CACHE_CLAIM_PASS);
	world_close(&w);
}

/* A keeper that hangs commits nothing: who waits for a claim is sent on, and passes. */
static void test_nobody_waits_for_a_keeper_that_is_away(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_wait wait = { 0 };
	struct cache_claim *claim, *none = NULL;

	(void)state;
	world_open(&w);
	claim = world_own(&w, &key);
	assert_int_equal(world_claim(&w, &key, &wait, &none), CACHE_CLAIM_WAIT);
	claim_done(&claim);
	shared_keeper_gone(w.shared);
	world_wait(&w, 0);
	assert_int_equal(world_claim(&w, &key, &wait, &none), CACHE_CLAIM_PASS);
	world_close(&w);
}

static void test_what_was_drawn_comes_back(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	int64_t before;
	struct cache_fill *fill;
	char byte = 'x';

	(void)state;
	world_open(&w);
	before = atomic_load(&w.store->free_bytes);
	fill = world_begin(&w, &key, 2 << 20);
	assert_int_equal(cache_fill_write(fill, &byte, 1), 0);
	assert_int_equal(atomic_load(&w.store->free_bytes), before - w.store->chunk_bytes);
	cache_fill_abort(fill);
	assert_int_equal(cache_claims_held(w.shared), 1); /* the keeper unlinks first */
	assert_int_equal(world_keep(&w), 0);
	assert_int_equal(atomic_load(&w.store->free_bytes), before);
	assert_int_equal(cache_claims_held(w.shared), 0);
	cache_fill_free(fill);
	world_close(&w);
}

static void test_the_ring_names_what_is_done_and_says_when_it_was_lapped(void **state)
{
	struct world w;
	uint64_t cursor = 0;

	(void)state;
	world_open(&w);
	assert_int_equal(shared_ring_take(w.shared, &cursor), -EAGAIN);
	shared_ring_put(w.shared, 7);
	shared_ring_put(w.shared, 0);
	assert_int_equal(shared_ring_take(w.shared, &cursor), 7);
	assert_int_equal(shared_ring_take(w.shared, &cursor), 0);
	assert_int_equal(shared_ring_take(w.shared, &cursor), -EAGAIN);
	for (uint32_t i = 0; i < SHARED_RING + 10; i++)
		shared_ring_put(w.shared, i);
	assert_int_equal(shared_ring_take(w.shared, &cursor), -EOVERFLOW);
	assert_int_equal(shared_ring_take(w.shared, &cursor), 10);
	world_close(&w);
}

/* --- several processes -------------------------------------------------------------------------------- */

static void hold_a(struct world *w, struct other *self)
{
	struct cache_key key = world_key("/a");
	struct cache_claim *claim = world_own(w, &key);

	other_says(self);
	other_waits(self);
	cache_claim_drop(&claim);
	other_says(self);
}

static void test_another_worker_owns_it_and_wakes_us(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_wait wait = { 0 };
	struct cache_claim *claim = NULL;
	struct other o;

	(void)state;
	world_prepare(&w);
	o = other_start(&w, 1, hold_a);
	world_attach(&w, 0);
	await(&o);
	assert_int_equal(world_claim(&w, &key, &wait, &claim), CACHE_CLAIM_WAIT);
	go_on(&o);
	world_wait(&w, 0);
	assert_int_equal(world_claim(&w, &key, &wait, &claim), CACHE_CLAIM_OWNED);
	cache_claim_drop(&claim);
	await(&o);
	end(&o, false);
	world_close(&w);
}

/* kill -9 of an owner: the keeper sweeps by slot and generation, who waits is woken. */
static void test_a_killed_owner_is_swept(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_wait wait = { 0 };
	struct cache_claim *claim = NULL;
	struct other o;

	(void)state;
	world_prepare(&w);
	o = other_start(&w, 1, hold_a);
	world_attach(&w, 0);
	await(&o);
	assert_int_equal(world_claim(&w, &key, &wait, &claim), CACHE_CLAIM_WAIT);
	end(&o, true);
	shared_worker_gone(w.shared, 1, o.pid);
	assert_true(claim_sweep_worker(w.shared, 1));
	world_wait(&w, 0);
	assert_int_equal(world_keep(&w), 0);
	assert_int_equal(cache_claims_held(w.shared), 0);
	assert_int_equal(world_claim(&w, &key, &wait, &claim), CACHE_CLAIM_OWNED);
	cache_claim_drop(&claim);
	world_close(&w);
}

static void stop_with_mutexes(struct world *w, struct other *self)
{
	for (unsigned i = 0; i < SHARED_STRIPES; i++)
		assert_int_equal(pthread_mutex_lock(&w->shared->stripes[i].mutex), 0);
	other_says(self);
	raise(SIGSTOP);
	for (unsigned i = 0; i < SHARED_STRIPES; i++)
		pthread_mutex_unlock(&w->shared->stripes[i].mutex);
}

/* A sweep, and a worker that attaches, don't wait for a process that is stopped; what they leave is swept later. */
static void test_a_stopped_holder_keeps_nobody(void **state)
{
	struct other dead, stopped;
	struct world w;

	(void)state;
	world_prepare(&w);
	dead = other_start(&w, 1, hold_a);
	await(&dead);
	end(&dead, true);
	shared_worker_gone(w.shared, 1, dead.pid);
	stopped = other_start(&w, 2, stop_with_mutexes);
	await(&stopped);
	assert_int_equal(waitpid(stopped.pid, NULL, WUNTRACED), stopped.pid);
	assert_false(claim_sweep_worker(w.shared, 1));
	world_attach(&w, 0);
	assert_int_equal(cache_claims_held(w.shared), 1);
	kill(stopped.pid, SIGCONT);
	end(&stopped, false);
	assert_true(claim_sweep_worker(w.shared, 1));
	assert_int_equal(world_keep(&w), 0);
	assert_int_equal(cache_claims_held(w.shared), 0);
	world_close(&w);
}

/* Its successor in the slot sweeps too, and a late sweep by the keeper leaves the successor's claims alone. */
static void test_a_successor_sweeps_and_is_not_swept(void **state)
{
	struct world w;
	struct cache_key key = world_key("/b");
	struct cache_claim *claim;
	struct other o;

	(void)state;
	world_prepare(&w);
	o = other_start(&w, 0, hold_a);
	await(&o);
	end(&o, true);
	world_attach(&w, 0);
	claim = world_own(&w, &key);
	shared_worker_gone(w.shared, 0, o.pid);
	assert_true(claim_sweep_worker(w.shared, 0));
	assert_int_equal(world_keep(&w), 0);
	assert_int_equal(cache_claims_held(w.shared), 1);
	assert_int_equal(atomic_load(&claim_slot(claim)->state), CLAIM_FILLING);
	cache_claim_drop(&claim);
	world_close(&w);
}

static void die_with_mutexes(struct world *w, struct other *self)
{
	other_waits(self); /* until the first worker has attached: that sweeps, and waits for mutexes */
	for (unsigned i = 0; i < SHARED_STRIPES; i++) {
		assert_int_equal(pthread_mutex_lock(&w->shared->stripes[i].mutex), 0);
		/* As if killed in the middle of taking and freeing. */
		atomic_store(&w->shared->stripes[i].used, 0xff);
	}
	other_says(self);
	other_waits(self);
}

static void test_a_mutex_held_by_the_dead_is_repaired(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_wait wait = { 0 };
	struct cache_claim *claim = NULL, *second;
	struct other o;

	(void)state;
	world_prepare(&w);
	o = other_start(&w, 1, die_with_mutexes);
	world_attach(&w, 0);
	go_on(&o);
	await(&o);
	/* Held by the living: we pass instead of waiting. */
	assert_int_equal(world_claim(&w, &key, &wait, &claim), CACHE_CLAIM_PASS);
	end(&o, true);
	claim = world_own(&w, &key);
	assert_int_equal(world_claim(&w, &key, &wait, &second), CACHE_CLAIM_WAIT);
	cache_claim_drop(&claim);
	world_close(&w);
}

/* Takes and drops claims of few keys as fast as it can, until killed or told. */
static void storm(struct world *w, struct other *self)
{
	char path[16];

	for (unsigned i = 0;; i++) {
		struct cache_wait wait = { 0 };
		struct cache_claim *claim = NULL;
		struct cache_key key;

		if (i == 100)
			other_says(self);
		snprintf(path, sizeof(path), "/%u", i % 5);
		key = world_key(path);
		if (world_claim(w, &key, &wait, &claim) == CACHE_CLAIM_OWNED)
			cache_claim_drop(&claim);
		cache_wait_cancel(w->cache, &wait);
	}
}

/* Workers are killed in the middle of it again and again: nothing is left, no mutex is lost. */
static void test_a_storm_with_kills_leaves_nothing(void **state)
{
	struct world w;

	(void)state;
	world_prepare(&w);
	for (unsigned round = 0; round < 20; round++) {
		struct other a = other_start(&w, 1, storm), b = other_start(&w, 2, storm);

		await(&a);
		await(&b);
		world_beat(&w);
		end(&a, true);
		end(&b, true);
		shared_worker_gone(w.shared, 1, a.pid);
		assert_true(claim_sweep_worker(w.shared, 1));
		shared_worker_gone(w.shared, 2, b.pid);
		assert_true(claim_sweep_worker(w.shared, 2));
	}
	world_attach(&w, 0);
	for (unsigned i = 0; i < 5; i++) { /* repairs what nobody has touched since */
		char path[16];
		struct cache_key key;
		struct cache_claim *claim;

		snprintf(path, sizeof(path), "/%u", i);
		key = world_key(path);
		world_keep(&w);
		claim = world_own(&w, &key);
		cache_claim_drop(&claim);
	}
	assert_int_equal(cache_claims_held(w.shared), 0);
	world_close(&w);
}

struct freeing {
	struct cache_shared *shared;
	uint32_t slot;
};

static void *free_it(void *arg)
{
	const struct freeing *f = arg;

	(void)!claim_free(f->shared, f->slot);
	return NULL;
}

/* The keeper finds a claim that its owner is dropping, FAILED for a moment; when it has the mutex the slot is someone else's. */
static void test_a_slot_that_has_a_new_owner_is_not_freed(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");

	(void)state;
	world_open(&w);
	for (unsigned i = 0; i < 20; i++) {
		struct cache_claim *claim = world_own(&w, &key);
		struct freeing f = { .shared = w.shared, .slot = number_of(claim) };
		pthread_mutex_t *mutex = &w.shared->stripes[f.slot / SHARED_STRIPE_CLAIMS].mutex;
		struct shared_claim *at = claim_slot(claim);
		pthread_t keeper;

		assert_int_equal(pthread_mutex_lock(mutex), 0);
		atomic_store(&at->state, CLAIM_FAILED);
		assert_int_equal(pthread_create(&keeper, NULL, free_it, &f), 0);
		usleep(300);
		atomic_store(&at->state, CLAIM_FILLING);
		pthread_mutex_unlock(mutex);
		pthread_join(keeper, NULL);
		assert_int_equal(atomic_load(&at->state), CLAIM_FILLING);
		assert_int_equal(cache_claims_held(w.shared), 1);
		cache_claim_drop(&claim);
	}
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_owns_others_wait_and_are_woken),
		cmocka_unit_test(test_variants_have_claims_of_their_own),
		cmocka_unit_test(test_a_cancelled_wait_is_not_woken),
		cmocka_unit_test(test_a_purge_supersedes),
		cmocka_unit_test(test_a_full_stripe_passes),
		cmocka_unit_test(test_nothing_is_claimed_where_nothing_can_be_stored),
		cmocka_unit_test(test_nobody_waits_for_a_keeper_that_is_away),
		cmocka_unit_test(test_what_was_drawn_comes_back),
		cmocka_unit_test(test_the_ring_names_what_is_done_and_says_when_it_was_lapped),
		cmocka_unit_test(test_another_worker_owns_it_and_wakes_us),
		cmocka_unit_test(test_a_slot_that_has_a_new_owner_is_not_freed),
		cmocka_unit_test(test_a_killed_owner_is_swept),
		cmocka_unit_test(test_a_stopped_holder_keeps_nobody),
		cmocka_unit_test(test_a_successor_sweeps_and_is_not_swept),
		cmocka_unit_test(test_a_mutex_held_by_the_dead_is_repaired),
		cmocka_unit_test(test_a_storm_with_kills_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
