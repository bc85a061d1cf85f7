/* Addresses and networks as text; listening and dialling; a stale Unix socket. */
#include "edge/base/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static struct sock_addr address(const char *text)
{
	struct sock_addr a;

	assert_int_equal(sock_addr_parse(view_str(text), &a), 0);
	return a;
}

static struct sock_net network(const char *text)
{
	struct sock_net n;

	assert_int_equal(sock_net_parse(view_str(text), &n), 0);
	return n;
}

static void addresses_print_as_parsed(void **state)
{
	static const char *const same[] = { "1.2.3.4:80", "[::1]:8080", "unix:/run/x.sock" };
	char text[SOCK_ADDR_TEXT];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		struct sock_addr a = address(same[i]);
		assert_string_equal(sock_addr_text(&a, text), same[i]);
	}
	struct sock_addr any = address("*:80");
	assert_string_equal(sock_addr_text(&any, text), "[::]:80");
	assert_string_equal(sock_addr_host(&any, text), "::");
	struct sock_addr mapped = address("[::ffff:1.2.3.4]:80");
	assert_string_equal(sock_addr_text(&mapped, text), "1.2.3.4:80");
	struct sock_addr local = address("unix:/x");
	assert_string_equal(sock_addr_host(&local, text), "unix");
}

static void bad_addresses(void **state)
{
	static const char *const bad[] = { "",
					   "1.2.3.4",
					   "1.2.3.4:",
					   "1.2.3.4:70000",
					   ":80",
					   "host:80",
					   "::1:80",
					   "[::1]",
					   "[1.2.3.4]:80",
					   "1.2.3:80",
					   "1.2.3.4:+80",
					   "unix:",
					   "1.2.3.4:080000",
					   "[::1]x:80" };
	struct sock_addr a;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(sock_addr_parse(view_str(bad[i]), &a), -EINVAL);
	char path[200] = "unix:";
	memset(path + 5, 'x', 190);
	assert_int_equal(sock_addr_parse(view_str(path), &a), -EINVAL);
}

static void networks_hold_addresses(void **state)
{
	(void)state;
	struct sock_addr a = address("10.1.2.3:1"), mapped = address("[::ffff:10.1.2.3]:1");
	struct sock_addr b = address("11.1.2.3:1"), v6 = address("[2001:db8::1]:1");
	struct sock_addr local = address("unix:/x");
	struct sock_net eight = network("10.0.0.0/8"), odd = network("10.1.0.0/17");
	struct sock_net one = network("10.1.2.3"), all = network("0.0.0.0/0");
	struct sock_net six = network("2001:db8::/33"), within = network("::ffff:10.0.0.0/104");

	assert_true(sock_net_holds(&eight, &a) && sock_net_holds(&eight, &mapped));
	assert_true(sock_net_holds(&odd, &a) && sock_net_holds(&one, &mapped));
	assert_true(sock_net_holds(&within, &a) && sock_net_holds(&all, &b));
	assert_true(sock_net_holds(&six, &v6));
	assert_false(sock_net_holds(&eight, &b) || sock_net_holds(&one, &b));
	assert_false(sock_net_holds(&all, &v6) || sock_net_holds(&six, &a));
	assert_false(sock_net_holds(&all, &local));
}

static void bad_networks(void **state)
{
	static const char *const bad[] = {
		"",	     "unix", "10.0.0.1/8", "10.0.0.0/33", "::1/64",	      "::/129",
		"10.0.0.0/", "/8",   "host",	   "10.0.0.0/x",  "::ffff:0.0.0.0/95"
	};
	struct sock_net n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(sock_net_parse(view_str(bad[i]), &n), -EINVAL);
}

static int dial_and_wait(const struct sock_addr *a)
{
	int fd = sock_dial(a);

	if (fd < 0)
		return fd;
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	assert_int_equal(poll(&p, 1, 30000), 1);
	int result = sock_dial_result(fd);
	close(fd);
	return result;
}

static void listening_and_dialling(void **state)
{
	struct sock_addr a = address("127.0.0.1:0");

	(void)state;
	int fd = sock_listen(&a, 16, true);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC && fcntl(fd, F_GETFL) & O_NONBLOCK);
	a.len = sizeof(a.v4);
	assert_int_equal(getsockname(fd, &a.any, &a.len), 0);
	assert_int_equal(dial_and_wait(&a), 0);
	int second = sock_listen(&a, 16, true);
	assert_true(second >= 0);
	close(second);
	assert_int_equal(sock_listen(&a, 16, false), -EADDRINUSE);
	close(fd);
	assert_int_equal(dial_and_wait(&a), -ECONNREFUSED);
}

static void a_stale_unix_socket_is_replaced(void **state)
{
	char folder[] = "/tmp/sock_test.XXXXXX", text[64];

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(text, sizeof(text), "unix:%s/s", folder);
	struct sock_addr a = address(text);
	int fd = sock_listen(&a, 16, true);
	assert_true(fd >= 0);
	assert_int_equal(sock_listen(&a, 16, true), -EADDRINUSE); /* someone listens */
	close(fd);
	fd = sock_listen(&a, 16, true);
	assert_true(fd >= 0);
	close(fd);
	unlink(a.local.sun_path);
	close(open(a.local.sun_path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(sock_listen(&a, 16, true), -EADDRINUSE); /* not ours to remove */
	unlink(a.local.sun_path);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_print_as_parsed),
		cmocka_unit_test(bad_addresses),
		cmocka_unit_test(networks_hold_addresses),
		cmocka_unit_test(bad_networks),
		cmocka_unit_test(listening_and_dialling),
		cmocka_unit_test(a_stale_unix_socket_is_replaced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
