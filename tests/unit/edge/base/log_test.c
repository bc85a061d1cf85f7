/* The error log: one line an event, levels, quoting, cutting; and what a broken assertion leaves. */
#include "edge/base/log.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int from_log;

static size_t take_line(char *out, size_t n)
{
	ssize_t got = read(from_log, out, n - 1);

	assert_true(got > 0);
	out[got] = '\0';
	return (size_t)got;
}

static void a_line_has_its_parts(void **state)
{
	char line[256];

	(void)state;
	log_warn("store_failed", "store=%s error=%d", "nvme0", 5);
	take_line(line, sizeof(line));
	assert_int_equal(strspn(line, "0123456789-T:.Z"), 24);
	assert_string_equal(line + 24, " warn worker/3 store_failed store=nvme0 error=5\n");
}

static void levels_hold(void **state)
{
	char line[256];

	(void)state;
	log_debug("unseen", "a=%d", 1);
	log_level_set(LOG_LEVEL_DEBUG);
	log_debug("seen", "a=%d", 2);
	log_level_set(LOG_LEVEL_INFO);
	take_line(line, sizeof(line));
	assert_non_null(strstr(line, " debug worker/3 seen a=2\n"));
}

static void long_lines_are_cut(void **state)
{
	char text[5000], line[8192];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_error("long", "text=%s", text);
	size_t n = take_line(line, sizeof(line));
	assert_int_equal(n, 2048);
	assert_int_equal(line[n - 1], '\n');
	assert_ptr_equal(strchr(line, '\n'), line + n - 1);
}

static void quoting(void **state)
{
	char out[12];

	(void)state;
	assert_string_equal(log_quote("a b", 3, out, sizeof(out)), "\"a b\"");
	assert_string_equal(log_quote("a\"\\\n", 4, out, sizeof(out)), "\"a\\\"\\\\\\x0a\"");
	assert_string_equal(log_quote("0123456789", 10, out, sizeof(out)), "\"012345678\"");
	assert_string_equal(log_quote("01234567\n", 9, out, sizeof(out)), "\"01234567\"");
	assert_string_equal(log_quote("x", 1, out, 3), "\"\"");
}

static void what_peers_can_repeat_is_told_once(void **state)
{
	struct mono told = { 0 };

	(void)state;
	assert_true(log_due(&told));
	assert_false(log_due(&told));
	told.ms -= 60000;
	assert_true(log_due(&told));
}

static void a_broken_assertion_logs_and_aborts(void **state)
{
	char line[256];
	int status;

	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		CHECK(from_log < 0);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	take_line(line, sizeof(line));
	assert_non_null(strstr(line, " error worker/3 check_failed at="));
	assert_non_null(strstr(line, "what=\"from_log < 0\"\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_its_parts),
		cmocka_unit_test(levels_hold),
		cmocka_unit_test(long_lines_are_cut),
		cmocka_unit_test(quoting),
		cmocka_unit_test(what_peers_can_repeat_is_told_once),
		cmocka_unit_test(a_broken_assertion_logs_and_aborts),
	};
	int fds[2];

	if (pipe(fds) != 0)
		return 2;
	from_log = fds[0];
	log_to(fds[1], LOG_LEVEL_INFO);
	log_name("worker/3");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
