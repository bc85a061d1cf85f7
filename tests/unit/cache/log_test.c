/* Segment logs: torn tails, going on behind them, and how far a log is trusted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "cache/log.h"
#include "tests/unit/cache/temp_dir.h"

static const uint64_t store_id[2] = { 11, 22 };

static int setup(void **state)
{
	static struct temp_dir dir;

	temp_dir_make(&dir);
	assert_int_equal(store_make_dirs(dir.fd), 0);
	*state = &dir;
	return 0;
}

static int teardown(void **state)
{
	temp_dir_remove(*state);
	return 0;
}

static void add_commit(struct log *log, uint64_t object_id)
{
	struct format_object o = { .object_id = object_id, .body_id = object_id, .head_segment = 1 };
	struct format_texts t = { .url = VIEW("http://h/path") };

	log_add_object(log, FORMAT_LOG_COMMIT, &o, &t);
}

/* Counts the records, checks that commits are numbered 1, 2, …; returns where the log ends. */
static uint64_t read_all(int dir_fd, uint64_t from, unsigned *out_commits)
{
	struct log_reader *reader;
	struct format_log_view v;
	uint64_t end;
	int r;

	*out_commits = 0;
	assert_int_equal(log_reader_open(dir_fd, store_id, 1, from, &reader), 0);
	while ((r = log_read(reader, &v)) == 0)
		if (v.type == FORMAT_LOG_COMMIT)
			assert_int_equal(v.object->object_id, ++*out_commits);
	assert_int_equal(r, -ENODATA);
	end = log_reader_offset(reader);
	log_reader_close(&reader);
	return end;
}

static void written_records_are_read(void **state)
{
	struct temp_dir *dir = *state;
	struct log log;
	unsigned commits;

	assert_int_equal(log_create(dir->fd, store_id, 1, &log), 0);
	assert_int_equal(log_create(dir->fd, store_id, 1, &log), -EEXIST);
	for (uint64_t i = 1; i <= 5000; i++) {
		add_commit(&log, i);
		if (i % 700 == 0)
			assert_int_equal(log_flush(&log), 0);
	}
	assert_int_equal(log_flush(&log), 0);
	assert_int_equal(read_all(dir->fd, 0, &commits), log.bytes);
	assert_int_equal(commits, 5000);
	log_close(&log);
}

static void torn_tail_is_the_end(void **state)
{
	struct temp_dir *dir = *state;
	struct log log;
	unsigned commits;
	uint64_t whole, end;

	assert_int_equal(log_create(dir->fd, store_id, 1, &log), 0);
	add_commit(&log, 1);
	assert_int_equal(log_flush(&log), 0);
	whole = log.bytes;
	add_commit(&log, 2);
	assert_int_equal(log_flush(&log), 0);
	end = log.bytes;
	/* Every way in which the last record can be cut. */
	for (uint64_t cut = end - 1; cut >= whole; cut--) {
		assert_int_equal(ftruncate(log.fd, (off_t)cut), 0);
		assert_int_equal(read_all(dir->fd, 0, &commits), whole);
		assert_int_equal(commits, 1);
	}
	log_close(&log);
	/* What is written next goes over the torn record. */
	assert_int_equal(log_open(dir->fd, 1, whole, &log), 0);
	add_commit(&log, 2);
	add_commit(&log, 3);
	assert_int_equal(log_flush(&log), 0);
	assert_int_equal(read_all(dir->fd, 0, &commits), log.bytes);
	assert_int_equal(commits, 3);
	log_close(&log);
}

static void zeros_are_the_end(void **state)
{
	struct temp_dir *dir = *state;
	struct log log;
	unsigned commits;

	assert_int_equal(log_create(dir->fd, store_id, 1, &log), 0);
	add_commit(&log, 1);
	assert_int_equal(log_flush(&log), 0);
	assert_int_equal(ftruncate(log.fd, (off_t)log.bytes + 100000), 0);
	assert_int_equal(read_all(dir->fd, 0, &commits), log.bytes);
	assert_int_equal(commits, 1);
	log_close(&log);
}

static void trusted_to_the_last_mark(void **state)
{
	struct temp_dir *dir = *state;
	struct format_synced mark;
	struct log log;
	uint64_t trusted;

	assert_int_equal(log_create(dir->fd, store_id, 1, &log), 0);
	assert_int_equal(log_trusted(dir->fd, store_id, 1, &trusted), 0);
	assert_int_equal(trusted, sizeof(struct format_log));
	add_commit(&log, 1);
	assert_int_equal(log_flush(&log), 0);
	mark.offset = log.bytes;
	add_commit(&log, 2);
	log_add(&log, FORMAT_LOG_SYNCED, &mark, sizeof(mark));
	add_commit(&log, 3);
	assert_int_equal(log_flush(&log), 0);
	assert_int_equal(log_trusted(dir->fd, store_id, 1, &trusted), 0);
	assert_int_equal(trusted, mark.offset);
	/* A mark that promises what lies behind it is none. */
	mark.offset = log.bytes + 1000;
	log_add(&log, FORMAT_LOG_SYNCED, &mark, sizeof(mark));
	assert_int_equal(log_flush(&log), 0);
	assert_int_equal(log_trusted(dir->fd, store_id, 1, &trusted), 0);
	assert_int_not_equal(trusted, mark.offset);
	log_close(&log);
}

static void another_stores_log_is_refused(void **state)
{
	struct temp_dir *dir = *state;
	const uint64_t other[2] = { 11, 23 };
	struct log_reader *reader;
	struct log log;

	assert_int_equal(log_create(dir->fd, store_id, 1, &log), 0);
	assert_int_equal(log_reader_open(dir->fd, other, 1, 0, &reader), -EBADMSG);
	assert_int_equal(log_reader_open(dir->fd, store_id, 2, 0, &reader), -ENOENT);
	log_close(&log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(written_records_are_read, setup, teardown),
		cmocka_unit_test_setup_teardown(torn_tail_is_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(zeros_are_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(trusted_to_the_last_mark, setup, teardown),
		cmocka_unit_test_setup_teardown(another_stores_log_is_refused, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
