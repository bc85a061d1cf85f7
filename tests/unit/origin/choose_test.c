/* Choosing a server: shares by weight, backups, servers set aside, full ones. */
#include "origin/choose.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SERVERS = 3 };

static struct choose_state states[SERVERS];
static bool full[SERVERS];
static struct conf_server servers[SERVERS];
static struct conf_origin origin = { .servers = servers, .server_count = SERVERS };
static struct choose_tried tried;

static struct choose_state *state_of(void *arg, const struct conf_server *server)
{
	(void)arg;
	return &states[server->slot];
}

static bool is_full(void *arg, const struct conf_server *server)
{
	(void)arg;
	return full[server->slot];
}

static const struct choose_view view = { .state = state_of, .full = is_full };

static int choose_at(int64_t ms)
{
	return choose_server(&origin, &tried, &view, (struct mono){ ms });
}

static int fresh(void **state)
{
	(void)state;
	memset(states, 0, sizeof(states));
	memset(full, 0, sizeof(full));
	memset(&tried, 0, sizeof(tried));
	for (uint16_t i = 0; i < SERVERS; i++)
		servers[i] = (struct conf_server){ .slot = i, .weight = 1 };
	return 0;
}

static void weights_share_smoothly(void **state)
{
	int counts[SERVERS] = { 0 }, in_a_row = 0, before = -1;

	(void)state;
	servers[0].weight = 5;
	for (int i = 0; i < 70; i++) {
		int place = choose_at(1);
		counts[place]++;
		in_a_row = place == before ? in_a_row + 1 : 1;
		before = place;
		assert_true(in_a_row <= 5);
	}
	assert_true(counts[0] == 50 && counts[1] == 10 && counts[2] == 10);
}

static void backups_wait_for_failures(void **state)
{
	(void)state;
	servers[0].backup = true;
	for (int i = 0; i < 10; i++)
		assert_int_not_equal(choose_at(1), 0);
	choose_failed(&states[1], (struct mono){ 1 });
	assert_int_equal(choose_at(2), 2);
	choose_failed(&states[2], (struct mono){ 1 });
	assert_int_equal(choose_at(2), 0);
	choose_succeeded(&states[1]);
	assert_int_equal(choose_at(2), 1);
}

static void set_aside_for_longer_each_time(void **state)
{
	static const int64_t expected[] = { 1000, 2000, 4000, 8000, 16000, 30000, 30000 };
	int64_t now = 100;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
		choose_failed(&states[0], (struct mono){ now });
		choose_failed(&states[0], (struct mono){ now + 1 }); /* failed together: counts once */
		assert_int_equal(states[0].aside_until.ms, now + expected[i]);
		assert_int_not_equal(choose_at(now + expected[i] - 1), 0);
		now += expected[i];
	}
	choose_succeeded(&states[0]);
	choose_failed(&states[0], (struct mono){ now });
	assert_int_equal(states[0].aside_until.ms, now + 1000);
}

static void all_set_aside_is_no_excuse(void **state)
{
	(void)state;
	choose_failed(&states[0], (struct mono){ 500 });
	choose_failed(&states[1], (struct mono){ 400 });
	choose_failed(&states[2], (struct mono){ 600 });
	assert_int_equal(choose_at(700), 1); /* back first */
	choose_mark_tried(&tried, 1);
	assert_int_equal(choose_at(700), 0);
	choose_mark_tried(&tried, 0);
	assert_int_equal(choose_at(700), 2);
	choose_mark_tried(&tried, 2);
	assert_int_equal(choose_at(700), -ENOENT);
}

static void full_servers_are_waited_for(void **state)
{
	(void)state;
	servers[2].backup = true;
	full[0] = true;
	for (int i = 0; i < 5; i++)
		assert_int_equal(choose_at(1), 1);
	full[1] = true;
	assert_int_equal(choose_at(1), -EAGAIN); /* a backup is not for load */
	choose_mark_tried(&tried, 0);
	choose_mark_tried(&tried, 1);
	assert_int_equal(choose_at(1), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(weights_share_smoothly, fresh),
		cmocka_unit_test_setup(backups_wait_for_failures, fresh),
		cmocka_unit_test_setup(set_aside_for_longer_each_time, fresh),
		cmocka_unit_test_setup(all_set_aside_is_no_excuse, fresh),
		cmocka_unit_test_setup(full_servers_are_waited_for, fresh),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
