/* Faults: lines, places, distances. */
#include "conf/fault.h"

#include "tests/unit/conf/testing.h"

static void distances(void **state)
{
	(void)state;
	assert_int_equal(conf_distance(VIEW("origins"), VIEW("origins"), 3), 0);
	assert_int_equal(conf_distance(VIEW("orgins"), VIEW("origins"), 3), 1);
	assert_int_equal(conf_distance(VIEW("deafult"), VIEW("default"), 3), 1);
	assert_int_equal(conf_distance(VIEW("abc"), VIEW("abd"), 3), 1);
	assert_int_equal(conf_distance(VIEW("kitten"), VIEW("sitting"), 9), 3);
	assert_int_equal(conf_distance(VIEW("kitten"), VIEW("sitting"), 1), 2);
	assert_int_equal(conf_distance(VIEW(""), VIEW("ab"), 3), 2);
}

static void the_innermost_place_is_told(void **state)
{
	struct conf_places places = { 0 };
	struct told t;

	(void)state;
	told_begin(&t);
	assert_int_equal(conf_places_add(&places, "", "main.json", ""), 0);
	assert_int_equal(conf_places_add(&places, "/sites/1", "b.json", "/sites/0"), 0);
	assert_int_equal(conf_places_add(&places, "/workers", "--workers", NULL), 0);
	conf_fault_at(&t.faults, &places, "/sites/1/hosts", "one");
	conf_fault_at(&t.faults, &places, "/sites/12/hosts", "two");
	conf_fault_at(&t.faults, &places, "/workers", "three");
	conf_fault_at(&t.faults, &places, "", "four");
	conf_fault_at(&t.faults, NULL, "/x", "five %d\n\033[31m", 5);
	assert_string_equal(told_text(&t), "b.json: /sites/0/hosts: one\n"
					   "main.json: /sites/12/hosts: two\n"
					   "--workers: three\n"
					   "main.json: four\n"
					   "/x: five 5??[31m\n");
	assert_int_equal(t.faults.count, 5);
	assert_string_equal(t.faults.first, "b.json: /sites/0/hosts: one");
	conf_places_fini(&places);
	told_end(&t);
}

static void pointers_are_escaped_and_bounded(void **state)
{
	char pointer[CONF_POINTER_BYTES] = "";

	(void)state;
	conf_pointer_add(pointer, "a/b~c");
	assert_string_equal(pointer, "/a~1b~0c");
	for (unsigned i = 0; i < 200; i++)
		conf_pointer_add(pointer, "~~~~");
	assert_true(strlen(pointer) < CONF_POINTER_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(distances),
		cmocka_unit_test(the_innermost_place_is_told),
		cmocka_unit_test(pointers_are_escaped_and_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
