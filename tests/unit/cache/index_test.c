/* The index: records come back as they were, transactions are whole, readers in other processes see commits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "cache/index.h"
#include "tests/unit/cache/temp_dir.h"

static const uint64_t store_id[2] = { 1, 2 };

struct fixture {
	struct temp_dir dir;
	struct index *index;
};

static int setup(void **state)
{
	static struct fixture f;
	bool complete;

	temp_dir_make(&f.dir);
	assert_int_equal(index_open(f.dir.fd, store_id, &f.index, &complete), 0);
	assert_false(complete);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	index_close(&f->index);
	temp_dir_remove(&f->dir);
	return 0;
}

static struct cache_key key_of(uint8_t n, uint64_t secondary)
{
	return (struct cache_key){ .primary = { n, 1, 2, 3 }, .secondary = secondary };
}

static struct cache_record object_of(uint64_t object_id)
{
	return (struct cache_record){
		.kind = CACHE_RECORD_OBJECT,
		.status = 200,
		.flags = 5,
		.object_id = object_id,
		.body_id = object_id - 1,
		.birth = 9,
		.head_segment = 1,
		.head_offset = 64,
		.head_bytes = 300,
		.body_segment = 2,
		.body_offset = 4096,
		.body_bytes = 100000,
		.received = { 1796054400123 },
		.initial_age_ms = 1500,
		.lifetime_ms = -1,
		.stale_while_revalidate_s = 30,
		.stale_if_error_s = 60,
	};
}

static void put(struct fixture *f, uint8_t n, uint64_t secondary, uint64_t object_id)
{
	struct cache_key key = key_of(n, secondary);
	struct cache_record r = object_of(object_id);

	index_begin(f->index);
	index_put(f->index, &key, &r);
	assert_int_equal(index_commit(f->index), 0);
}

static void assert_same_object(const struct cache_record *a, const struct cache_record *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->status, b->status);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->object_id, b->object_id);
	assert_int_equal(a->body_id, b->body_id);
	assert_int_equal(a->birth, b->birth);
	assert_int_equal(a->head_segment, b->head_segment);
	assert_int_equal(a->head_offset, b->head_offset);
	assert_int_equal(a->head_bytes, b->head_bytes);
	assert_int_equal(a->body_segment, b->body_segment);
	assert_int_equal(a->body_offset, b->body_offset);
	assert_int_equal(a->body_bytes, b->body_bytes);
	assert_int_equal(a->received.ms, b->received.ms);
	assert_int_equal(a->initial_age_ms, b->initial_age_ms);
	assert_int_equal(a->lifetime_ms, b->lifetime_ms);
	assert_int_equal(a->stale_while_revalidate_s, b->stale_while_revalidate_s);
	assert_int_equal(a->stale_if_error_s, b->stale_if_error_s);
}

static void records_come_back(void **state)
{
	struct fixture *f = *state;
	struct cache_key key = key_of(1, 0);
	struct cache_record expected = object_of(77), r;

	put(f, 1, 0, 77);
	assert_int_equal(index_find(f->index, &key, &r), 0);
	assert_same_object(&r, &expected);
	key.secondary = 1;
	assert_int_equal(index_find(f->index, &key, &r), -ENOENT);
}

static void vary_rules_come_back(void **state)
{
	struct fixture *f = *state;
	struct cache_key key = key_of(1, 0);
	struct cache_record rule = {
		.kind = CACHE_RECORD_VARY, .object_id = 5, .birth = 3, .vary_bytes = CACHE_VARY_MAX
	};
	struct cache_record r;

	memset(rule.vary, 'v', CACHE_VARY_MAX);
	index_begin(f->index);
	index_put(f->index, &key, &rule);
	assert_int_equal(index_commit(f->index), 0);
	assert_int_equal(index_find(f->index, &key, &r), 0);
	assert_int_equal(r.kind, CACHE_RECORD_VARY);
	assert_int_equal(r.vary_bytes, CACHE_VARY_MAX);
	assert_memory_equal(r.vary, rule.vary, CACHE_VARY_MAX);
}

static void count_variant(void *arg, const struct cache_key *key, const struct cache_record *r)
{
	uint64_t *sum = arg;

	assert_int_equal(r->object_id, 100 + key->secondary);
	*sum += key->secondary;
}

static void variants_are_neighbours(void **state)
{
	struct fixture *f = *state;
	struct cache_key key = key_of(2, 0);
	uint64_t sum = 0;

	put(f, 1, UINT64_MAX, 1);
	put(f, 2, 7, 107);
	put(f, 2, 0x100, 100 + 0x100);
	put(f, 3, 0, 3);
	assert_int_equal(index_each(f->index, key.primary, count_variant, &sum), 2);
	assert_int_equal(sum, 7 + 0x100);
	assert_true(index_known(f->index, key.primary));
	key.primary[0] = 9;
	assert_false(index_known(f->index, key.primary));
}

static void aborted_changes_leave_nothing(void **state)
{
	struct fixture *f = *state;
	struct cache_key key = key_of(1, 0);
	struct cache_record r = object_of(50);

	put(f, 1, 0, 40);
	index_begin(f->index);
	index_put(f->index, &key, &r);
	index_add_chunk_bytes(f->index, 4096);
	index_set_applied(f->index, 3, 1000);
	index_abort(f->index);
	assert_int_equal(index_find(f->index, &key, &r), 0);
	assert_int_equal(r.object_id, 40);
	assert_int_equal(index_totals(f->index).chunk_bytes, 0);
	index_begin(f->index);
	assert_int_equal(index_applied(f->index, 3), 0);
	assert_int_equal(index_commit(f->index), 0);
}

static void totals_are_kept(void **state)
{
	struct fixture *f = *state;
	struct cache_key key = key_of(1, 0);
	struct cache_record vary = { .kind = CACHE_RECORD_VARY };
	bool complete;

	put(f, 1, 0, 1);
	put(f, 1, 0, 2);
	put(f, 2, 0, 3);
	put(f, 3, 0, 4);
	assert_int_equal(index_totals(f->index).objects, 3);
	index_begin(f->index);
	index_delete(f->index, &key);
	key.primary[0] = 2;
	index_put(f->index, &key, &vary);
	index_add_chunk_bytes(f->index, 8192);
	index_set_applied(f->index, 7, 12345);
	index_set_complete(f->index);
	assert_int_equal(index_commit(f->index), 0);
	index_close(&f->index);
	assert_int_equal(index_open(f->dir.fd, store_id, &f->index, &complete), 0);
	assert_true(complete);
	assert_int_equal(index_totals(f->index).objects, 1);
	assert_int_equal(index_totals(f->index).chunk_bytes, 8192);
	index_begin(f->index);
	assert_int_equal(index_applied(f->index, 7), 12345);
	index_forget_applied(f->index, 7);
	assert_int_equal(index_applied(f->index, 7), 0);
	assert_int_equal(index_commit(f->index), 0);
}

static void another_stores_index_is_refused(void **state)
{
	struct fixture *f = *state;
	const uint64_t other[2] = { 1, 3 };
	bool complete;

	index_close(&f->index);
	assert_int_equal(index_open(f->dir.fd, other, &f->index, &complete), -EXDEV);
	assert_int_equal(index_wipe(f->dir.fd), 0);
	assert_int_equal(index_open(f->dir.fd, other, &f->index, &complete), 0);
	assert_false(complete);
}

static void garbage_is_refused(void **state)
{
	struct fixture *f = *state;
	char garbage[32768];
	bool complete;
	int fd;

	memset(garbage, 0x5a, sizeof(garbage));
	index_close(&f->index);
	fd = openat(f->dir.fd, FORMAT_INDEX_PATH, O_WRONLY);
	assert_int_equal(pwrite(fd, garbage, sizeof(garbage), 0), sizeof(garbage));
	close(fd);
	assert_int_equal(index_open(f->dir.fd, store_id, &f->index, &complete), -EBADMSG);
}

/* What a reader in another process does; its exit status is the result. */
static int read_elsewhere(int dir_fd, int go_fd, int went_fd)
{
	struct cache_key key = key_of(1, 0);
	struct cache_record r;
	struct index *reader;
	char c;

	if (index_open_reader(dir_fd, &reader) != 0)
		return 1;
	if (index_find(reader, &key, &r) != -ENOENT)
		return 2;
	if (write(went_fd, "x", 1) != 1 || read(go_fd, &c, 1) != 1)
		return 3;
	if (index_find(reader, &key, &r) != 0 || r.object_id != 8)
		return 4;
	/* Dies with its reader's slot taken. */
	return 0;
}

static void readers_elsewhere_see_commits(void **state)
{
	struct fixture *f = *state;
	int go[2], went[2], status;
	char c;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(went), 0);
	pid_t pid = fork();

	if (pid == 0)
		_exit(read_elsewhere(f->dir.fd, go[0], went[1]));
	assert_int_equal(read(went[0], &c, 1), 1);
	put(f, 1, 0, 8);
	assert_int_equal(write(go[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
	index_check_readers(f->index);
	for (unsigned i = 0; i < 2; i++) {
		close(go[i]);
		close(went[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(records_come_back, setup, teardown),
		cmocka_unit_test_setup_teardown(vary_rules_come_back, setup, teardown),
		cmocka_unit_test_setup_teardown(variants_are_neighbours, setup, teardown),
		cmocka_unit_test_setup_teardown(aborted_changes_leave_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(totals_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(another_stores_index_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(garbage_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(readers_elsewhere_see_commits, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
