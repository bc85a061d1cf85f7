/* Syntax: what is refused, and where the fault is said to be. */
#include "conf/parse.h"

#include <cjson/cJSON.h>

#include "tests/unit/conf/testing.h"

static const struct {
	const char *text, *fault;
} bad[] = {
	{ "", "f:1:1: a value is missing here\n" },
	{ "{\"a\": 1,\n }", "f:2:2: take away the comma before this }\n" },
	{ "[1,]", "f:1:4: take away the comma before this ]\n" },
	{ "{\"a\": 1", "f:1:8: the text ends too early: a } or ] is missing\n" },
	{ "{\"a\" 1}", "f:1:6: a colon is missing here\n" },
	{ "{\"a\": 1 \"b\": 2}", "f:1:9: a comma is missing here\n" },
	{ "{\"a\": [1}}", "f:1:9: this } ends a list: ] is missing\n" },
	{ "{a: 1}", "f:1:2: strings and keys stand in double quotes\n" },
	{ "{'a': 1}", "f:1:2: strings stand in double quotes, not single ones\n" },
	{ "{\"a\": tru}", "f:1:7: strings and keys stand in double quotes\n" },
	{ "{\"a\":,}", "f:1:6: a value is missing here\n" },
	{ "{} {}", "f:1:4: the text goes on after its end\n" },
	{ "{1: 2}", "f:1:2: a key in double quotes or } is missing here\n" },
	{ "// a\n/* b", "f:2:1: this comment has no end (*/)\n" },
	{ "/", "f:1:1: a comment begins with // or /*\n" },
	{ "\"\xc3\xa9\xc3\xa9\" x", "f:1:6: the text goes on after its end\n" },
	{ "\"\xc3\x28\"", "f:1:2: this is not UTF-8\n" },
	{ "\"\xed\xa0\x80\"", "f:1:2: this is not UTF-8\n" },
	{ "\"\xc0\x80\"", "f:1:2: this is not UTF-8\n" },
	{ "\"a", "f:1:3: this string has no end (\")\n" },
	{ "\"a\n\"", "f:1:3: a string ends in its line: a \" is missing\n" },
	{ "\"\t\"", "f:1:2: a control character in a string must be escaped\n" },
	{ "\"\\x\"", "f:1:2: this is not an escape of JSON\n" },
	{ "\"\\u00g0\"", "f:1:2: this is not an escape of JSON\n" },
	{ "\"\\u0000\"", "f:1:2: a string can't hold a NUL\n" },
	{ "\"\\udEf9\"", "f:1:2: this is half of a character: \\uD800 to \\uDFFF come in pairs\n" },
	{ "\"\\uD83D\"", "f:1:2: this is half of a character: \\uD800 to \\uDFFF come in pairs\n" },
	{ "\"\\uD83D\\u0041\"",
	  "f:1:2: this is half of a character: \\uD800 to \\uDFFF come in pairs\n" },
	{ "]", "f:1:1: a value is missing here\n" },
	{ "[[[[[[[[[[[[[[[[[[[[[[[[[", "f:1:25: nested too deep\n" },
};

static void tells_where(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct told t;
		cJSON *tree = NULL;

		told_begin(&t);
		assert_int_equal(conf_parse(view_str(bad[i].text), "f", &t.faults, &tree), -EINVAL);
		assert_string_equal(told_text(&t), bad[i].fault);
		assert_null(tree);
		told_end(&t);
	}
}

static void refuses_lenient_numbers(void **state)
{
	static const char *const numbers[] = { "01",   "1.", "-",     "1e",  "1e+", "+1",  ".5",
					       "0x10", "1s", "1.2.3", "NaN", "- 1", "--1", "1_000" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		struct told t;
		cJSON *tree = NULL;

		told_begin(&t);
		assert_int_equal(conf_parse(view_str(numbers[i]), "f", &t.faults, &tree), -EINVAL);
		told_end(&t);
	}
}

static void takes_comments_and_all_of_json(void **state)
{
	const char *text =
		"// first\n{ /* a \" { */ \"a\": [-0.5e+1, 0, true, false, null, \"\\u00e9/*\"],"
		" // end\n\"b\": {}, \"c\": [\"\\uD83D\\ude00\"]}\n// last";
	struct told t;
	cJSON *tree;

	(void)state;
	told_begin(&t);
	assert_int_equal(conf_parse(view_str(text), "f", &t.faults, &tree), 0);
	const cJSON *a = cJSON_GetObjectItemCaseSensitive(tree, "a");

	assert_true(cJSON_GetArrayItem(a, 0)->valuedouble == -5);
	assert_string_equal(cJSON_GetArrayItem(a, 5)->valuestring, "\xc3\xa9/*");
	cJSON_Delete(tree);
	told_end(&t);
}

static void tells_each_duplicate_once(void **state)
{
	const char *text =
		"{\"a\": {\"x\": 1, \"y\": 2, \"x\": 3, \"x\": 4}, \"b/c\": [{\"d\": 1, \"d\": 1}],"
		" \"A\": 1}";
	struct told t;
	cJSON *tree;

	(void)state;
	told_begin(&t);
	assert_int_equal(conf_parse(view_str(text), "f", &t.faults, &tree), -EINVAL);
	assert_string_equal(told_text(&t), "f: /a/x: is there twice: keep one of them\n"
					   "f: /b~1c/0/d: is there twice: keep one of them\n");
	told_end(&t);
}

static void nul_bytes_end_nothing(void **state)
{
	struct told t;
	cJSON *tree;

	(void)state;
	told_begin(&t);
	assert_int_equal(conf_parse(view_of("{}\0 garbage", 11), "f", &t.faults, &tree), -EINVAL);
	assert_int_equal(conf_parse(view_of("{\"a\0\": 1}", 9), "f", &t.faults, &tree), -EINVAL);
	assert_int_equal(t.faults.count, 2);
	told_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_where),
		cmocka_unit_test(refuses_lenient_numbers),
		cmocka_unit_test(takes_comments_and_all_of_json),
		cmocka_unit_test(tells_each_duplicate_once),
		cmocka_unit_test(nul_bytes_end_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
