/* The arena: alignment, limits, reset. */
#include "edge/base/arena.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void memory_is_aligned_and_apart(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 1 << 20);
	char *before = NULL;
	for (size_t n = 1; n < 200; n++) {
		char *p = arena_alloc(&a, n);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % alignof(max_align_t), 0);
		memset(p, (int)n, n);
		if (before != NULL)
			assert_int_equal(before[n - 2], (char)(n - 1));
		before = p;
	}
	arena_fini(&a);
}

static void limit_holds(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 10000);
	assert_null(arena_alloc(&a, 10001));
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_non_null(arena_alloc(&a, 9000));
	assert_null(arena_alloc(&a, 2000));
	assert_non_null(arena_alloc(&a, 500));
	assert_true(a.total_bytes <= 10000);
	arena_fini(&a);
}

static void reset_keeps_one_block(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 1 << 20);
	void *first = arena_alloc(&a, 100);
	assert_non_null(first);
	for (int i = 0; i < 100; i++)
		assert_non_null(arena_alloc(&a, 1000));
	arena_reset(&a);
	assert_int_equal(a.total_bytes, 1024);
	assert_ptr_equal(arena_alloc(&a, 100), first);
	arena_fini(&a);
	assert_int_equal(a.total_bytes, 0);
}

static void rewinds_to_a_mark(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 1 << 20);
	arena_rewind(&a, arena_mark(&a));
	struct arena_mark empty = arena_mark(&a);
	char *first = arena_alloc(&a, 100);
	assert_non_null(first);
	struct arena_mark mark = arena_mark(&a);
	char *second = arena_alloc(&a, 100);
	assert_non_null(second);
	for (int i = 0; i < 10; i++)
		assert_non_null(arena_alloc(&a, 1000));
	arena_rewind(&a, mark);
	assert_int_equal(a.total_bytes, 1024);
	assert_ptr_equal(arena_alloc(&a, 100), second);
	arena_rewind(&a, empty);
	assert_ptr_equal(arena_alloc(&a, 100), first);
	arena_fini(&a);
	assert_int_equal(a.total_bytes, 0);
}

static void copies_and_prints(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 4096);
	struct view v = arena_copy(&a, VIEW("abc"));
	assert_int_equal(v.n, 3);
	assert_string_equal(v.p, "abc");
	v = arena_copy(&a, view_of(NULL, 0));
	assert_string_equal(v.p, "");
	v = arena_printf(&a, "%s-%d", "x", 42);
	assert_int_equal(v.n, 4);
	assert_string_equal(v.p, "x-42");
	v = arena_printf(&a, "%8000d", 1);
	assert_null(v.p);
	const char *zeroed = arena_zalloc(&a, 16);
	assert_memory_equal(zeroed, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	arena_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_aligned_and_apart), cmocka_unit_test(limit_holds),
		cmocka_unit_test(reset_keeps_one_block),       cmocka_unit_test(rewinds_to_a_mark),
		cmocka_unit_test(copies_and_prints),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
