/* Tags: what separates them, what counts, and how many there may be. */
#include "edge/tags.h"

#include "tests/unit/conf/testing.h"

#include <errno.h>

enum { SITE = 7 };

static struct arena arena;

static const struct view names[] = { { "Surrogate-Key", 13 }, { "xkey", 4 } };

static int read(const char *head, struct tags *out)
{
	const struct conf_list list = { .at = (struct view *)names, .count = ARRAY_LEN(names) };
	struct http_field at[64];
	struct http_fields fields = { .at = at, .capacity = ARRAY_LEN(at) };

	assert_int_equal(http_fields_parse(&fields, head, strlen(head)), 0);
	return tags_read(&fields, &list, SITE, &arena, out);
}

static bool has(const struct tags *t, const char *tag)
{
	uint64_t hash = cache_scope_tag(SITE, view_str(tag)).hash;

	for (unsigned i = 0; i < t->count; i++) {
		if (t->hashes[i] == hash)
			return true;
	}
	return false;
}

static void spaces_and_commas_separate(void **state)
{
	struct tags t;

	(void)state;
	assert_int_equal(read("Surrogate-Key: , red  green,\tblue ,\r\n", &t), 0);
	assert_true(t.given);
	assert_int_equal(t.count, 3);
	assert_true(has(&t, "red") && has(&t, "green") && has(&t, "blue"));
	assert_false(has(&t, "Red") || has(&t, ""));
}

static void all_fields_that_are_named_count(void **state)
{
	struct tags t;

	(void)state;
	assert_int_equal(read("XKEY: a\r\nCache-Tag: b\r\nsurrogate-key: c d\r\nxkey: a e\r\n", &t), 0);
	assert_int_equal(t.count, 4);
	assert_true(has(&t, "a") && has(&t, "c") && has(&t, "d") && has(&t, "e"));
	for (unsigned i = 1; i < t.count; i++)
		assert_true(t.hashes[i - 1] < t.hashes[i]);
}

static void none_and_empty_differ(void **state)
{
	struct tags t;

	(void)state;
	assert_int_equal(read("Cache-Tag: b\r\n", &t), 0);
	assert_false(t.given);
	assert_int_equal(read("xkey:\r\n", &t), 0);
	assert_true(t.given);
	assert_int_equal(t.count, 0);
}

static int read_many(unsigned count, unsigned bytes_of_last)
{
	static char head[32 << 10];
	struct tags t;
	char *at = head + snprintf(head, sizeof(head), "xkey:");

	for (unsigned i = 1; i < count; i++)
		at += snprintf(at, 16, " t%u", i);
	*at++ = ' ';
	memset(at, 'x', bytes_of_last);
	memcpy(at + bytes_of_last, "\r\n", 3);
	return read(head, &t);
}

static void there_is_a_limit(void **state)
{
	(void)state;
	assert_int_equal(read_many(TAGS_MAX, 1), 0);
	assert_int_equal(read_many(TAGS_MAX + 1, 1), -E2BIG);
	assert_int_equal(read_many(1, TAGS_BYTES_MAX), 0);
	assert_int_equal(read_many(1, TAGS_BYTES_MAX + 1), -E2BIG);
}

static int teardown(void **state)
{
	(void)state;
	arena_fini(&arena);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spaces_and_commas_separate),
		cmocka_unit_test(all_fields_that_are_named_count),
		cmocka_unit_test(none_and_empty_differ),
		cmocka_unit_test(there_is_a_limit),
	};

	arena_init(&arena, 1 << 22);
	return cmocka_run_group_tests(tests, NULL, teardown);
}
