/* Connections by client address. */
#include "edge/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct sock_addr address(const char *text)
{
	struct sock_addr a;

	assert_int_equal(sock_addr_parse(view_str(text), &a), 0);
	return a;
}

static void counts_over_all_workers(void **state)
{
	struct peers *p = peers_new(3);
	struct sock_addr a = address("10.0.0.1:1000"), same = address("10.0.0.1:2000"),
			 other = address("10.0.0.2:1000");

	(void)state;
	assert_non_null(p);
	assert_int_equal(peers_count(p, &a), 0);
	peers_add(p, 0, &a);
	peers_add(p, 2, &same);
	assert_int_equal(peers_count(p, &a), 2);
	assert_int_equal(peers_count(p, &other), 0);
	peers_remove(p, 0, &a);
	assert_int_equal(peers_count(p, &a), 1);
	peers_reset(p, 2);
	assert_int_equal(peers_count(p, &a), 0);
	peers_remove(p, 1, &a); /* nothing there: it stays at nothing */
	assert_int_equal(peers_count(p, &a), 0);
	peers_free(p);
}

static void what_one_client_is(void **state)
{
	struct peers *p = peers_new(1);
	struct sock_addr v4 = address("10.0.0.1:1"), mapped = address("[::ffff:10.0.0.1]:1");
	struct sock_addr v6 = address("[2001:db8::1]:1"), neighbour = address("[2001:db8::ffff:2]:1"),
			 far = address("[2001:db8:0:1::1]:1"), local = address("unix:/tmp/x");

	(void)state;
	peers_add(p, 0, &mapped);
	assert_int_equal(peers_count(p, &v4), 1);
	peers_add(p, 0, &v6);
	assert_int_equal(peers_count(p, &neighbour), 1);
	assert_int_equal(peers_count(p, &far), 0);
	peers_add(p, 0, &local);
	assert_int_equal(peers_count(p, &local), 0);
	peers_free(p);
}

static void never_too_low(void **state)
{
	struct peers *p = peers_new(1);
	unsigned too_high = 0;

	(void)state;
	for (unsigned n = 0; n < 20000; n++) {
		struct sock_addr a = address("10.0.0.1:1");

		a.v4.sin_addr.s_addr = htonl(0x0a000000u + n);
		peers_add(p, 0, &a);
	}
	for (unsigned n = 0; n < 20000; n++) {
		struct sock_addr a = address("10.0.0.1:1");

		a.v4.sin_addr.s_addr = htonl(0x0a000000u + n);
		assert_true(peers_count(p, &a) >= 1);
		too_high += peers_count(p, &a) > 1;
	}
	assert_true(too_high < 20000 / 5);
	peers_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_over_all_workers),
		cmocka_unit_test(what_one_client_is),
		cmocka_unit_test(never_too_low),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
