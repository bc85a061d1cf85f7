/* The access log: what lines look like, when they leave, and what happens to files that fail. */
#include "edge/access_log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* --- a file to look at ------------------------------------------------------------------------ */

static char text[512 * 1024];

/* The test keeps one descriptor, the log owns the other. */
static int file_new(int *out_for_log)
{
	int fd = memfd_create("access", 0);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
	*out_for_log = dup(fd);
	return fd;
}

/* What is in it so far, with a NUL behind. */
static size_t read_text(int fd)
{
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	assert_true(n >= 0);
	text[n] = '\0';
	return (size_t)n;
}

static size_t count_lines(void)
{
	size_t lines = 0;

	for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
		lines++;
	return lines;
}

static struct access_entry entry(void)
{
	return (struct access_entry){
		.time = { INT64_C(1704067200007) },
		.request_id = VIEW("5f1"),
		.client = VIEW("192.0.2.1"),
		.site = VIEW("shop"),
		.method = VIEW("GET"),
		.host = VIEW("shop.example"),
		.path = VIEW("/a?b=c"),
		.protocol = VIEW("HTTP/1.1"),
		.status = 200,
		.bytes = 12345,
		.cache = VIEW("miss"),
		.ttfb_us = 1234,
		.duration_us = 5000000,
		.origin = VIEW("http://10.0.0.5:8080"),
		.origin_us = 42,
	};
}

/* The line that an entry makes, in text. */
static size_t line_of(const struct access_entry *e, bool combined)
{
	int for_log, fd = file_new(&for_log);
	struct access_log *l = access_log_new(for_log, combined);

	assert_non_null(l);
	access_log_write(l, e);
	access_log_free(l);
	size_t n = read_text(fd);
	close(fd);
	return n;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void test_json(void **state)
{
	struct access_entry e = entry();

	(void)state;
	line_of(&e, false);
	assert_string_equal(text, "{\"time\":\"2024-01-01T00:00:00.007Z\",\"request_id\":\"5f1\","
				  "\"client\":\"192.0.2.1\",\"site\":\"shop\",\"method\":\"GET\","
				  "\"host\":\"shop.example\",\"path\":\"/a?b=c\","
				  "\"protocol\":\"HTTP/1.1\",\"status\":200,\"bytes\":12345,"
				  "\"cache\":\"miss\",\"ttfb_ms\":1.234,\"duration_ms\":5000.000,"
				  "\"origin\":\"http://10.0.0.5:8080\",\"origin_ms\":0.042,"
				  "\"tls\":\"\",\"error\":\"\"}\n");
}

static void test_json_of_almost_nothing(void **state)
{
	struct access_entry e = { .ttfb_us = -1, .origin_us = -1, .error = VIEW("a\"b") };

	(void)state;
	line_of(&e, false);
	assert_non_null(strstr(text, "\"status\":0,\"bytes\":0,\"cache\":\"\",\"ttfb_ms\":null,"
				     "\"duration_ms\":0.000,\"origin\":\"\",\"origin_ms\":null,"
				     "\"tls\":\"\",\"error\":\"a\\\"b\"}\n"));
}

static void test_json_escapes(void **state)
{
	struct access_entry e = entry();

	(void)state;
	e.path = VIEW("/\"\\\x01\xff\xc3\xa4");
	line_of(&e, false);
	assert_non_null(strstr(text, "\"path\":\"/\\\"\\\\\\u0001\\u00ff\xc3\xa4\","));
}

static void test_combined(void **state)
{
	struct access_entry e = entry();

	(void)state;
	e.referer = VIEW("http://a.example/\"x\"");
	e.user_agent = VIEW("curl/8\n\xff");
	line_of(&e, true);
	assert_string_equal(text, "192.0.2.1 - - [01/Jan/2024:00:00:00 +0000] "
				  "\"GET /a?b=c HTTP/1.1\" 200 12345 "
				  "\"http://a.example/\\\"x\\\"\" \"curl/8\\x0a\\xff\"\n");
}

static void test_combined_of_almost_nothing(void **state)
{
	struct access_entry e = { .status = 408 };

	(void)state;
	line_of(&e, true);
	assert_string_equal(text, "- - - [01/Jan/1970:00:00:00 +0000] \"  \" 408 0 \"-\" \"-\"\n");
}

static void test_a_long_path_is_cut(void **state)
{
	static char path[20000];
	struct access_entry e = entry();

	(void)state;
	memset(path, 'x', sizeof(path));
	e.path = view_of(path, sizeof(path));
	for (int combined = 0; combined <= 1; combined++) {
		size_t n = line_of(&e, combined);
		assert_true(n <= ACCESS_LINE_MAX && text[n - 1] == '\n');
		assert_non_null(strstr(text, combined ? "xxx... HTTP/1.1\"" : "xxx...\",\"protocol\""));
	}
}

/* Everything too long, of bytes that grow most when they are escaped. */
static void test_the_longest_line_fits(void **state)
{
	static char junk[40000];

	(void)state;
	memset(junk, 1, sizeof(junk));
	struct view v = view_of(junk, sizeof(junk));
	struct access_entry e = { .time = { INT64_C(253402300799999) },
				  .request_id = v,
				  .client = v,
				  .site = v,
				  .method = v,
				  .host = v,
				  .path = v,
				  .protocol = v,
				  .status = UINT16_MAX,
				  .bytes = UINT64_MAX,
				  .cache = v,
				  .ttfb_us = INT64_MAX,
				  .duration_us = INT64_MAX,
				  .origin = v,
				  .origin_us = INT64_MAX,
				  .tls = v,
				  .error = v,
				  .referer = v,
				  .user_agent = v };
	for (int combined = 0; combined <= 1; combined++) {
		size_t n = line_of(&e, combined);
		assert_true(n <= ACCESS_LINE_MAX);
		assert_int_equal(count_lines(), 1);
	}
}

static void test_each_second_has_its_time(void **state)
{
	int for_log, fd = file_new(&for_log);
	struct access_log *l = access_log_new(for_log, false);
	struct access_entry e = entry();

	(void)state;
	access_log_write(l, &e);
	e.time.ms += 1000;
	access_log_write(l, &e);
	access_log_use_format(l, true);
	access_log_write(l, &e);
	access_log_free(l);
	read_text(fd);
	close(fd);
	assert_non_null(strstr(text, "\"2024-01-01T00:00:00.007Z\""));
	assert_non_null(strstr(text, "\"2024-01-01T00:00:01.007Z\""));
	assert_non_null(strstr(text, "[01/Jan/2024:00:00:01 +0000]"));
}

/* --- buffer and files ------------------------------------------------------------------------- */

static void test_lines_gather(void **state)
{
	int for_log, fd = file_new(&for_log);
	struct access_log *l = access_log_new(for_log, false);
	struct access_entry e = entry();

	(void)state;
	access_log_write(l, &e);
	assert_int_equal(read_text(fd), 0);
	access_log_flush(l);
	read_text(fd);
	assert_int_equal(count_lines(), 1);
	access_log_flush(l);
	read_text(fd);
	assert_int_equal(count_lines(), 1);
	access_log_free(l);
	close(fd);
}

static void test_a_full_buffer_leaves_by_itself(void **state)
{
	int for_log, fd = file_new(&for_log);
	struct access_log *l = access_log_new(for_log, false);
	struct access_entry e = entry();

	(void)state;
	for (int i = 0; i < 1000; i++)
		access_log_write(l, &e);
	size_t n = read_text(fd);
	assert_true(n > 0 && text[n - 1] == '\n');
	access_log_free(l);
	read_text(fd);
	assert_int_equal(count_lines(), 1000);
	close(fd);
}

static void test_another_file(void **state)
{
	int first_for_log, first = file_new(&first_for_log);
	int second_for_log, second = file_new(&second_for_log);
	struct access_log *l = access_log_new(first_for_log, false);
	struct access_entry e = entry();

	(void)state;
	access_log_write(l, &e);
	access_log_use_fd(l, second_for_log);
	assert_int_equal(fcntl(first_for_log, F_GETFD), -1);
	access_log_write(l, &e);
	access_log_write(l, &e);
	access_log_free(l);
	assert_int_equal(fcntl(second_for_log, F_GETFD), -1);
	read_text(first);
	assert_int_equal(count_lines(), 1);
	read_text(second);
	assert_int_equal(count_lines(), 2);
	close(first);
	close(second);
}

static void test_no_log(void **state)
{
	struct access_log *l = access_log_new(-1, false);
	struct access_entry e = entry();
	int for_log, fd = file_new(&for_log);

	(void)state;
	assert_false(access_log_wanted(l));
	access_log_write(l, &e);
	access_log_flush(l);
	access_log_use_fd(l, for_log);
	assert_true(access_log_wanted(l));
	access_log_free(l);
	access_log_free(NULL);
	assert_int_equal(read_text(fd), 0);
	close(fd);
}

/* A pipe stands in for a disk that is full for a while: it takes 4 KiB, and half a line with them. */
static void test_after_a_full_disk_lines_are_whole_again(void **state)
{
	int fds[2];
	struct access_entry e = entry();

	(void)state;
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	assert_int_equal(fcntl(fds[1], F_SETPIPE_SZ, 4096), 4096);
	struct access_log *l = access_log_new(fds[1], false);
	for (int i = 0; i < 100; i++)
		access_log_write(l, &e);
	access_log_flush(l);
	assert_int_equal(read(fds[0], text, sizeof(text)), 4096);
	assert_true(text[4095] != '\n');

	access_log_write(l, &e);
	access_log_flush(l);
	ssize_t n = read(fds[0], text, sizeof(text) - 1);
	assert_true(n > 2);
	text[n] = '\0';
	assert_memory_equal(text, "\n{", 2);
	assert_int_equal(count_lines(), 2);

	access_log_write(l, &e);
	access_log_flush(l);
	assert_true(read(fds[0], text, sizeof(text)) > 0);
	assert_int_equal(text[0], '{');
	access_log_free(l);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_of_almost_nothing),
		cmocka_unit_test(test_json_escapes),
		cmocka_unit_test(test_combined),
		cmocka_unit_test(test_combined_of_almost_nothing),
		cmocka_unit_test(test_a_long_path_is_cut),
		cmocka_unit_test(test_the_longest_line_fits),
		cmocka_unit_test(test_each_second_has_its_time),
		cmocka_unit_test(test_lines_gather),
		cmocka_unit_test(test_a_full_buffer_leaves_by_itself),
		cmocka_unit_test(test_another_file),
		cmocka_unit_test(test_no_log),
		cmocka_unit_test(test_after_a_full_disk_lines_are_whole_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
