/* Machines and the loop under them: steps, wakes, deadlines, and ends, over a real socket pair. */
#include "edge/base/machine.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct echo {
	struct machine m;
	int fd, other;
	int ended, woken, timeouts;
	char got[16];
	size_t got_bytes;
	struct echo *partner;
	struct timer later;
};

static struct echo *echo_of(struct machine *m)
{
	return CONTAINER_OF(m, struct echo, m);
}

static enum step_result step_read(struct machine *m)
{
	struct echo *e = echo_of(m);
	ssize_t n;

	if (m->timed_out) {
		e->timeouts++;
		return STEP_DONE;
	}
	n = recv(e->fd, e->got + e->got_bytes, sizeof(e->got) - e->got_bytes, 0);
	if (n < 0 && errno == EAGAIN)
		return STEP_READ;
	if (n <= 0)
		return STEP_DONE;
	e->got_bytes += (size_t)n;
	return STEP_NEXT;
}

static enum step_result step_parked(struct machine *m)
{
	struct echo *e = echo_of(m);

	if (m->broken)
		return STEP_DONE;
	e->woken++;
	return e->woken == 3 ? STEP_DONE : STEP_PARK;
}

static enum step_result step_guarded(struct machine *m)
{
	struct echo *e = echo_of(m);

	e->woken++;
	return m->broken ? STEP_DONE : STEP_GUARD;
}

/* Wakes itself while it runs: the wake must not be lost when it then parks. */
static enum step_result step_wakes_itself(struct machine *m)
{
	struct echo *e = echo_of(m);

	if (++e->woken == 2)
		return STEP_DONE;
	machine_wake(m);
	return STEP_PARK;
}

static enum step_result step_wakes_partner(struct machine *m)
{
	machine_wake(&echo_of(m)->partner->m);
	return STEP_DONE;
}

static enum step_result step_endless(struct machine *m)
{
	return ++echo_of(m)->woken > 1000 ? STEP_DONE : STEP_NEXT;
}

static const struct step reading[] = { { "read", step_read } };
static const struct step parking[] = { { "parked", step_parked } };
static const struct step guarding[] = { { "guarded", step_guarded } };
static const struct step self_waking[] = { { "self", step_wakes_itself } };
static const struct step waking[] = { { "waking", step_wakes_partner } };
static const struct step endless[] = { { "endless", step_endless } };

static int running;
static struct loop *loop;

static void ended(struct machine *m)
{
	echo_of(m)->ended++;
	if (--running == 0)
		loop_stop(loop);
}

static int set_up(void **state)
{
	(void)state;
	running = 0;
	loop = loop_new();
	return loop == NULL;
}

static int tear_down(void **state)
{
	(void)state;
	loop_free(loop);
	return 0;
}

static void start(struct echo *e, const struct step *steps, int fd)
{
	assert_int_equal(machine_init(&e->m, loop, fd, steps, ended), 0);
	e->fd = fd;
	running++;
	machine_wake(&e->m);
}

static void pair(struct echo *e)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	e->fd = fds[0];
	e->other = fds[1];
}

static void bytes_and_the_end_of_the_stream_reach_a_reading_step(void **state)
{
	struct echo e = { 0 };

	(void)state;
	pair(&e);
	start(&e, reading, e.fd);
	assert_int_equal(write(e.other, "hello", 5), 5);
	close(e.other);
	loop_run(loop);
	assert_int_equal(e.got_bytes, 5);
	assert_memory_equal(e.got, "hello", 5);
	assert_int_equal(e.ended, 1);
	close(e.fd);
}

static void a_deadline_that_moved_later_still_comes(void **state)
{
	struct echo e = { 0 };

	(void)state;
	pair(&e);
	start(&e, reading, e.fd);
	machine_deadline(&e.m, 1);
	machine_deadline(&e.m, 20);
	loop_run(loop);
	assert_int_equal(e.timeouts, 1);
	assert_int_equal(e.ended, 1);
	close(e.fd);
	close(e.other);
}

static void a_deadline_that_was_cleared_never_comes(void **state)
{
	struct echo e = { 0 }, other = { 0 };

	(void)state;
	pair(&e);
	pair(&other);
	start(&e, reading, e.fd);
	start(&other, reading, other.fd);
	machine_deadline(&e.m, 1);
	machine_no_deadline(&e.m);
	machine_deadline(&other.m, 10);
	running--; /* the loop ends with «other» */
	loop_run(loop);
	assert_int_equal(e.timeouts, 0);
	assert_int_equal(other.timeouts, 1);
	machine_fini(&e.m);
	close(e.fd);
	close(e.other);
	close(other.fd);
	close(other.other);
}

static void a_wake_during_a_step_is_not_lost(void **state)
{
	struct echo e = { 0 };

	(void)state;
	start(&e, self_waking, -1);
	loop_run(loop);
	assert_int_equal(e.woken, 2);
}

static void machines_wake_each_other_by_the_ready_list(void **state)
{
	struct echo parked = { .woken = 1 }, a = { .partner = &parked };

	(void)state;
	start(&parked, parking, -1); /* its own first run, then a's wake, which is its third */
	start(&a, waking, -1);
	loop_run(loop);
	assert_int_equal(parked.woken, 3);
	assert_int_equal(parked.ended, 1);
	assert_int_equal(a.ended, 1);
}

/* TCP, since only there a reset can be made. */
static void connected(struct echo *e)
{
	struct linger reset = { .l_onoff = 1 };
	struct sockaddr_storage address;
	socklen_t n = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	memset(&address, 0, sizeof(address));
	address.ss_family = AF_INET;
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &n), 0);
	e->other = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(e->other, (struct sockaddr *)&address, n), 0);
	e->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	setsockopt(e->other, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(listener);
}

static void a_broken_socket_reaches_a_parked_machine(void **state)
{
	struct echo e = { 0 };

	(void)state;
	connected(&e);
	start(&e, parking, e.fd);
	watch_want(&e.m.watch, WATCH_READ); /* armed, as after a head was read */
	close(e.other);
	loop_run(loop);
	assert_int_equal(e.ended, 1);
	assert_true(e.m.broken);
	close(e.fd);
}

static void send_then_reset(struct timer *t)
{
	struct echo *e = CONTAINER_OF(t, struct echo, later);

	if (e->got_bytes++ == 0) {
		assert_int_equal(write(e->other, "x", 1), 1);
		timer_set(t, 5);
		return;
	}
	close(e->other);
}

/* Nothing was ever armed, and bytes that nobody wants come first: they wake nobody. */
static void a_guard_sees_the_reset_and_nothing_else(void **state)
{
	struct echo e = { 0 };

	(void)state;
	connected(&e);
	start(&e, guarding, e.fd);
	assert_int_equal(timer_open(&e.later, loop, send_then_reset), 0);
	timer_set(&e.later, 5);
	loop_run(loop);
	assert_int_equal(e.woken, 2);
	assert_true(e.m.broken);
	timer_close(&e.later);
	close(e.fd);
}

static void steps_have_a_budget_and_others_run_between(void **state)
{
	struct echo busy = { 0 }, parked = { 0 }, a = { .partner = &parked };

	(void)state;
	start(&busy, endless, -1);
	start(&parked, parking, -1);
	start(&a, waking, -1);
	running--; /* parked never ends */
	loop_run(loop);
	assert_int_equal(busy.woken, 1001);
	assert_int_equal(parked.woken, 2);
	machine_fini(&parked.m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bytes_and_the_end_of_the_stream_reach_a_reading_step,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_deadline_that_moved_later_still_comes, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_deadline_that_was_cleared_never_comes, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_wake_during_a_step_is_not_lost, set_up, tear_down),
		cmocka_unit_test_setup_teardown(machines_wake_each_other_by_the_ready_list, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_broken_socket_reaches_a_parked_machine, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_guard_sees_the_reset_and_nothing_else, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(steps_have_a_budget_and_others_run_between, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
