/* The admin API's strict JSON. */
#include "edge/admin_json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct admin_fault fault;

static int parse(struct view text)
{
	cJSON *tree = NULL;
	int r;

	fault = (struct admin_fault){ { 0 }, { 0 } };
	r = admin_json_parse(text, &tree, &fault);
	cJSON_Delete(tree);
	return r;
}

static void one_object_and_nothing_else(void **state)
{
	(void)state;
	assert_int_equal(parse(VIEW("{}")), 0);
	assert_int_equal(parse(VIEW(" {\"a\": [1, true, \"x\"]} \r\n")), 0);
	assert_int_equal(parse(VIEW("")), -EINVAL);
	assert_int_equal(parse(VIEW("[]")), -EINVAL);
	assert_int_equal(parse(VIEW("\"a\"")), -EINVAL);
	assert_int_equal(parse(VIEW("{} {}")), -EINVAL);
	assert_int_equal(parse(VIEW("{}x")), -EINVAL);
	assert_int_equal(parse(VIEW("{\"a\":")), -EINVAL);
	assert_int_equal(parse(VIEW("{}\0")), -EINVAL);
}

static void no_key_twice(void **state)
{
	(void)state;
	assert_int_equal(parse(VIEW("{\"a\": 1, \"b\": 2, \"a\": 3}")), -EINVAL);
	assert_string_equal(fault.pointer, "/a");
	assert_int_equal(parse(VIEW("{\"a~/\": 1, \"a~/\": 3}")), -EINVAL);
	assert_string_equal(fault.pointer, "/a~0~1");
}

static void utf8_only(void **state)
{
	(void)state;
	assert_int_equal(parse(VIEW("{\"a\": \"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"}")), 0);
	assert_int_equal(parse(VIEW("{\"a\": \"\xff\"}")), -EINVAL);
	assert_int_equal(parse(VIEW("{\"a\": \"\xc0\xaf\"}")), -EINVAL);	 /* overlong */
	assert_int_equal(parse(VIEW("{\"a\": \"\xed\xa0\x80\"}")), -EINVAL);	 /* surrogate */
	assert_int_equal(parse(VIEW("{\"a\": \"\xf4\x90\x80\x80\"}")), -EINVAL); /* too high */
	assert_int_equal(parse(VIEW("{\"a\": \"\xe2\x82")), -EINVAL);		 /* cut off */
}

/* Two bytes of text each, and a hundred of a tree. */
static void no_more_values_than_a_call_can_need(void **state)
{
	static char text[1 << 18] = "{\"a\": [";
	size_t n = strlen(text), end;

	(void)state;
	for (unsigned i = 0; i < 60000; i++, n += 2)
		memcpy(text + n, "0,", 2);
	memcpy(text + n, "\",[{\"]}", 7);
	assert_int_equal(parse(view_of(text, n + 7)), 0);
	for (end = n + 20000; n < end; n += 2)
		memcpy(text + n, "0,", 2);
	memcpy(text + n, "0]}", 3);
	assert_int_equal(parse(view_of(text, n + 3)), -EINVAL);
	assert_string_equal(fault.message, "has more than 65536 values");
}

static void known_keys_and_types(void **state)
{
	static const char *const known[] = { "urls", "soft", NULL };
	cJSON *tree = cJSON_Parse("{\"urls\": [\"a\", 2], \"soft\": 1}");
	cJSON *good = cJSON_Parse("{\"urls\": [\"a\"], \"soft\": true}");
	cJSON *other = cJSON_Parse("{\"url\": \"a\"}");
	const cJSON *list = NULL;
	bool soft = false;

	(void)state;
	assert_int_equal(admin_json_only(tree, known, &fault), 0);
	assert_int_equal(admin_json_only(other, known, &fault), -EINVAL);
	assert_string_equal(fault.pointer, "/url");
	assert_int_equal(admin_json_strings(tree, "urls", &list, &fault), -EINVAL);
	assert_string_equal(fault.pointer, "/urls/1");
	assert_int_equal(admin_json_bool(tree, "soft", &soft, &fault), -EINVAL);
	assert_string_equal(fault.pointer, "/soft");
	assert_int_equal(admin_json_strings(good, "urls", &list, &fault), 0);
	assert_int_equal(cJSON_GetArraySize(list), 1);
	assert_int_equal(admin_json_bool(good, "soft", &soft, &fault), 0);
	assert_true(soft);
	assert_int_equal(admin_json_bool(other, "soft", &soft, &fault), 0);
	assert_false(soft);
	cJSON_Delete(tree);
	cJSON_Delete(good);
	cJSON_Delete(other);
}

static void any_bytes_become_text(void **state)
{
	struct arena a;

	(void)state;
	arena_init(&a, 1 << 16);
	assert_string_equal(admin_json_text(VIEW("caf\xc3\xa9"), &a), "caf\xc3\xa9");
	assert_string_equal(admin_json_text(VIEW("caf\xe9"), &a), "caf\xc3\xa9");
	assert_string_equal(admin_json_text(VIEW(""), &a), "");
	arena_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_object_and_nothing_else),
		cmocka_unit_test(no_key_twice),
		cmocka_unit_test(utf8_only),
		cmocka_unit_test(no_more_values_than_a_call_can_need),
		cmocka_unit_test(known_keys_and_types),
		cmocka_unit_test(any_bytes_become_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
