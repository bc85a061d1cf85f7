/* The purge journal: replay, torn tail, damage in the middle, folding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "cache/cache.h"
#include "cache/journal.h"
#include "tests/unit/cache/temp_dir.h"

static const uint64_t store_id[2] = { 5, 6 };

struct fixture {
	struct temp_dir dir;
	struct journal journal;
	struct journal_set set;
};

static int setup(void **state)
{
	static struct fixture f;
	struct journal_set empty = { 0 };

	f = (struct fixture){ 0 };
	temp_dir_make(&f.dir);
	assert_int_equal(journal_rewrite(f.dir.fd, store_id, &empty), 0);
	assert_int_equal(journal_open(f.dir.fd, &f.journal), 0);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	journal_close(&f->journal);
	journal_set_fini(&f->set);
	temp_dir_remove(&f->dir);
	return 0;
}

static struct format_purge purge(uint64_t sequence, uint64_t hash)
{
	return (struct format_purge){ .sequence = sequence, .hash = hash, .kind = CACHE_SCOPE_URL };
}

static void append(struct fixture *f, uint64_t sequence, uint64_t hash)
{
	struct format_purge p = purge(sequence, hash);

	journal_seal(&p, 1);
	assert_int_equal(journal_append(&f->journal, &p, 1), 0);
}

static bool load(struct fixture *f)
{
	bool whole;

	journal_set_fini(&f->set);
	assert_int_equal(journal_load(f->dir.fd, store_id, &f->set, &whole), 0);
	return whole;
}

static bool has(const struct journal_set *set, uint64_t sequence, uint64_t hash, uint8_t kind)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->purges[i].sequence == sequence && set->purges[i].hash == hash &&
		    set->purges[i].kind == kind)
			return true;
	return false;
}

static void appended_purges_are_loaded(void **state)
{
	struct fixture *f = *state;

	append(f, 1, 100);
	append(f, 2, 200);
	assert_true(load(f));
	assert_int_equal(f->set.count, 2);
	assert_true(has(&f->set, 1, 100, CACHE_SCOPE_URL));
	assert_int_equal(journal_set_newest(&f->set), 2);
}

static void torn_tail_is_cut(void **state)
{
	struct fixture *f = *state;

	append(f, 1, 100);
	append(f, 2, 200);
	/* Whole, but for its seal. */
	assert_int_equal(ftruncate(f->journal.fd, (off_t)f->journal.bytes - 5), 0);
	assert_false(load(f));
	assert_int_equal(f->set.count, 2);
	assert_int_equal(ftruncate(f->journal.fd,
				   (off_t)(f->journal.bytes - sizeof(struct format_purge) - 5)),
			 0);
	assert_false(load(f));
	assert_int_equal(f->set.count, 1);
	assert_true(has(&f->set, 1, 100, CACHE_SCOPE_URL));
}

static void spoil(struct fixture *f, uint64_t at)
{
	assert_int_equal(pwrite(f->journal.fd, "x", 1, (off_t)at), 1);
}

/* It isn't taken for a torn tail, whether it was appended or written anew. */
static void damage_to_the_last_purges_everything(void **state)
{
	struct fixture *f = *state;
	uint64_t last;

	append(f, 1, 100);
	append(f, 2, 200);
	last = f->journal.bytes - 2 * sizeof(struct format_purge);
	spoil(f, last + 20);
	assert_false(load(f));
	assert_true(has(&f->set, 2, cache_scope_all().hash, CACHE_SCOPE_ALL));
	assert_int_equal(journal_compact(&f->journal, f->dir.fd, store_id, 0), 0);
	assert_true(load(f));
	spoil(f, f->journal.bytes - 2 * sizeof(struct format_purge) + 20);
	assert_false(load(f));
	assert_true(has(&f->set, 2, cache_scope_all().hash, CACHE_SCOPE_ALL));
}

static void damage_to_a_seal_costs_nothing(void **state)
{
	struct fixture *f = *state;

	append(f, 1, 100);
	spoil(f, f->journal.bytes - sizeof(struct format_purge) + 20);
	assert_false(load(f));
	assert_int_equal(f->set.count, 1);
	assert_true(has(&f->set, 1, 100, CACHE_SCOPE_URL));
}

static void damage_in_the_middle_purges_everything(void **state)
{
	struct fixture *f = *state;

	append(f, 1, 100);
	append(f, 2, 200);
	append(f, 3, 300);
	spoil(f, sizeof(struct format_journal) + 2 * sizeof(struct format_purge) + 20);
	assert_false(load(f));
	assert_true(has(&f->set, 3, cache_scope_all().hash, CACHE_SCOPE_ALL));
}

static void another_stores_journal_is_refused(void **state)
{
	struct fixture *f = *state;
	const uint64_t other[2] = { 5, 7 };
	bool whole;

	assert_int_equal(journal_load(f->dir.fd, other, &f->set, &whole), -EBADMSG);
	assert_int_equal(unlinkat(f->dir.fd, FORMAT_JOURNAL_PATH, 0), 0);
	assert_int_equal(journal_load(f->dir.fd, store_id, &f->set, &whole), -ENOENT);
}

static void folding_keeps_the_newest_of_each_scope(void **state)
{
	struct fixture *f = *state;

	for (uint64_t i = 1; i <= 100; i++) {
		struct format_purge p = purge(i, i % 10);

		assert_int_equal(journal_set_add(&f->set, &p), 0);
	}
	journal_set_fold(&f->set, 1000);
	assert_int_equal(f->set.count, 10);
	for (uint64_t i = 91; i <= 100; i++)
		assert_true(has(&f->set, i, i % 10, CACHE_SCOPE_URL));
}

static void folding_forgets_nothing(void **state)
{
	struct fixture *f = *state;

	for (uint64_t i = 1; i <= 100; i++) {
		struct format_purge p = purge(i, 1000 + i);

		assert_int_equal(journal_set_add(&f->set, &p), 0);
	}
	journal_set_fold(&f->set, 40);
	assert_int_equal(f->set.count, 40);
	/* 1 … 61 became one purge of everything. */
	assert_true(has(&f->set, 61, cache_scope_all().hash, CACHE_SCOPE_ALL));
	for (uint64_t i = 62; i <= 100; i++)
		assert_true(has(&f->set, i, 1000 + i, CACHE_SCOPE_URL));
}

static void compacting_goes_on(void **state)
{
	struct fixture *f = *state;
	uint64_t before;

	for (uint64_t i = 1; i <= 1000; i++)
		append(f, i, 7);
	before = f->journal.bytes;
	assert_int_equal(journal_compact(&f->journal, f->dir.fd, store_id, 7), 0);
	assert_true(f->journal.bytes < before / 50);
	append(f, 1001, 8);
	assert_true(load(f));
	assert_true(journal_runs_has(&f->set.runs, 7));
	assert_int_equal(f->set.count, 2);
	assert_true(has(&f->set, 1000, 7, CACHE_SCOPE_URL));
	assert_true(has(&f->set, 1001, 8, CACHE_SCOPE_URL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(appended_purges_are_loaded, setup, teardown),
		cmocka_unit_test_setup_teardown(torn_tail_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(damage_to_the_last_purges_everything, setup, teardown),
		cmocka_unit_test_setup_teardown(damage_to_a_seal_costs_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(damage_in_the_middle_purges_everything, setup, teardown),
		cmocka_unit_test_setup_teardown(another_stores_journal_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(folding_keeps_the_newest_of_each_scope, setup, teardown),
		cmocka_unit_test_setup_teardown(folding_forgets_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(compacting_goes_on, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
