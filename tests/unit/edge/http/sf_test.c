/* Structured fields: what each type may look like, and that one fault voids the field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <errno.h>

#include "edge/http/sf.h"

static struct http_field at[10];
static struct http_fields fields = { .at = at, .capacity = 10 };

static void parse(const char *lines)
{
	assert_int_equal(http_fields_parse(&fields, lines, strlen(lines)), 0);
}

static void parse_value(const char *value)
{
	static char line[600]; /* views point into it */

	snprintf(line, sizeof(line), "F: %s\r\n", value);
	parse(line);
}

/* --- one Item */

static int item(const char *value, struct sf_item *out)
{
	parse_value(value);
	return sf_item(&fields, VIEW("f"), out);
}

static void test_numbers(void **state)
{
	(void)state;
	static const struct {
		const char *value;
		enum sf_type type;
		int64_t number;
	} cases[] = {
		{ "0", SF_INTEGER, 0 },
		{ "-0", SF_INTEGER, 0 },
		{ "007", SF_INTEGER, 7 },
		{ "-42", SF_INTEGER, -42 },
		{ "999999999999999", SF_INTEGER, INT64_C(999999999999999) },
		{ "-999999999999999", SF_INTEGER, -INT64_C(999999999999999) },
		{ "1.5", SF_DECIMAL, 1500 },
		{ "-1.05", SF_DECIMAL, -1050 },
		{ "0.001", SF_DECIMAL, 1 },
		{ "-0.1", SF_DECIMAL, -100 },
		{ "123456789012.125", SF_DECIMAL, INT64_C(123456789012125) },
		{ "?0", SF_BOOLEAN, 0 },
		{ "?1", SF_BOOLEAN, 1 },
		{ "@1659578233", SF_DATE, 1659578233 },
		{ "@-1", SF_DATE, -1 },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sf_item v;
		if (item(cases[i].value, &v) != 0 || v.type != cases[i].type ||
		    v.number != cases[i].number)
			fail_msg("%s", cases[i].value);
	}
}

static void test_texts(void **state)
{
	(void)state;
	static const struct {
		const char *value;
		enum sf_type type;
		const char *text;
	} cases[] = {
		{ "\"\"", SF_STRING, "" },
		{ "\"a, b;c=(d)\"", SF_STRING, "a, b;c=(d)" },
		{ "\"a\\\"b\\\\\"", SF_STRING, "a\\\"b\\\\" },
		{ "a", SF_TOKEN, "a" },
		{ "*", SF_TOKEN, "*" },
		{ "A/b:c!#$%&'*+-.^_`|~9", SF_TOKEN, "A/b:c!#$%&'*+-.^_`|~9" },
		{ "::", SF_BYTES, "" },
		{ ":aGVsbG8=:", SF_BYTES, "aGVsbG8=" },
		{ ":aGVsbG8:", SF_BYTES, "aGVsbG8" },
		{ ":iZ==:", SF_BYTES, "iZ==" },
		{ ":/+Ah:", SF_BYTES, "/+Ah" },
		{ "%\"\"", SF_DISPLAY_STRING, "" },
		{ "%\"f%c3%bc %f0%9f%98%80\"", SF_DISPLAY_STRING, "f%c3%bc %f0%9f%98%80" },
		{ "%\"a\\b\"", SF_DISPLAY_STRING, "a\\b" },
		{ "%\"%22%25\"", SF_DISPLAY_STRING, "%22%25" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sf_item v;
		if (item(cases[i].value, &v) != 0 || v.type != cases[i].type ||
		    !view_eq(v.text, view_str(cases[i].text)))
			fail_msg("%s", cases[i].value);
	}
}

static void test_broken_items(void **state)
{
	(void)state;
	static const char *const cases[] = {
		"",
		"-",
		"--1",
		"+1",
		"1000000000000000",
		"1.",
		".1",
		"1.2345",
		"1234567890123.1",
		"1.2.3",
		"1e3",
		"1 2",
		"1,2",
		"0x1",
		"\"",
		"\"a",
		"\"a\\",
		"\"\\a\"",
		"\"a\tb\"",
		"\"\xc3\xbc\"",
		"'a'",
		"\"a\"b",
		":",
		":a:",
		":aGVsbG8",
		":=aGVsbG8=:",
		":aGV=sbG8:",
		":aGVsbG8==:",
		":YQ=:",
		":a-_b:",
		":a b:",
		":YQ===:",
		"?",
		"?2",
		"?true",
		"@",
		"@1.5",
		"@a",
		"%",
		"%a\"",
		"%\"a",
		"%\"%C3%BC\"",
		"%\"%c3\"",
		"%\"%c3x\"",
		"%\"%fc\"",
		"%\"%c0%80\"",
		"%\"%ed%a0%80\"",
		"%\"%e0%80%80\"",
		"%\"%f0%80%80%80\"",
		"%\"%f4%90%80%80\"",
		"%\"%f5%80%80%80\"",
		"%\"%4\"",
		"%\"%gg\"",
		"%\"\xc3\xbc\"",
		"%\"a\tb\"",
		"a b",
		"a;",
		"a;B",
		"a;1=2",
		"a;b=",
		"a; ;b",
		"a ;b",
		"a;b =c",
		"a;b= c",
		"a;b=(c)",
		"(a)",
		"\xc3\xbc",
		"!a",
		"a\"b",
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sf_item v = { .number = 7 };
		if (item(cases[i], &v) != -EINVAL || v.number != 7)
			fail_msg("%s", cases[i]);
	}
	struct sf_item v;
	parse("G: 1\r\n");
	assert_int_equal(sf_item(&fields, VIEW("F"), &v), -ENOENT);
	parse("F: 1\r\nF: 2\r\n");
	assert_int_equal(sf_item(&fields, VIEW("F"), &v), -EINVAL);
	parse("F: 1\r\nConnection: f\r\n");
	assert_int_equal(sf_item(&fields, VIEW("F"), &v), 0);
}

static void test_parameters(void **state)
{
	(void)state;
	struct sf_item v;
	struct sf_member m;

	assert_int_equal(item("a;b=1;  c=\"x;y\";*d-_.9;b=?0;e=%\"z\"", &v), 0);
	assert_true(view_eq(v.parameters, VIEW(";b=1;  c=\"x;y\";*d-_.9;b=?0;e=%\"z\"")));
	struct view rest = v.parameters;
	unsigned n = 0;
	while (sf_parameter_next(&rest, &m)) {
		if (n == 1)
			assert_true(m.value.type == SF_STRING &&
				    view_eq(m.value.text, VIEW("x;y")));
		if (n == 2)
			assert_true(view_eq(m.key, VIEW("*d-_.9")) && m.value.number == 1);
		n++;
	}
	assert_true(n == 5 && rest.n == 0 && view_eq(m.key, VIEW("e")));
}

/* --- containers */

static void assert_members(const char *lines, bool keyed, const char *joined)
{
	char got[200] = "";
	size_t n = 0;
	struct sf_cursor c;
	struct sf_member m;

	parse(lines);
	int rc = keyed ? sf_dictionary(&fields, VIEW("F"), &c) : sf_list(&fields, VIEW("F"), &c);
	if (rc < 0) {
		if (joined != NULL || rc != -EINVAL)
			fail_msg("%d for %s", rc, lines);
		return;
	}
	while (sf_next(&c, &m))
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%.*s=%d:%.*s%.*s|",
				      VIEW_ARG(m.key), (int)m.value.type, VIEW_ARG(m.value.text),
				      VIEW_ARG(m.value.parameters));
	assert_non_null(joined);
	assert_string_equal(got, joined);
	assert_false(sf_next(&c, &m));
}

static void test_lists(void **state)
{
	(void)state;
	struct sf_cursor c;

	assert_members("F:\r\n", false, "");
	assert_members("F: a\r\n", false, "=3:a|");
	assert_members("F: a,b\t,\t c;x=1 , \"d,e\"\r\n", false, "=3:a|=3:b|=3:c;x=1|=2:d,e|");
	assert_members("F: a\r\nG: x\r\nf: b, c\r\n", false, "=3:a|=3:b|=3:c|");
	assert_members("F: ()\r\n", false, "=8:|");
	assert_members("F: (a  \"b)\";p );q=1, c\r\n", false, "=8:a  \"b)\";p ;q=1|=3:c|");
	static const char *const broken[] = {
		"F: ,\r\n",	      "F: a,\r\n",	   "F: ,a\r\n",
		"F: a,,b\r\n",	      "F: a b\r\n",	   "F: a;,b\r\n",
		"F: (a\r\n",	      "F: a)\r\n",	   "F: ((a))\r\n",
		"F: (a,b)\r\n",	      "F: (a\tb)\r\n",	   "F: (\"a\"\"b\")\r\n",
		"F: a, !\r\n",	      "F: a\r\nF:\r\n",	   "F:\r\nF: a\r\n",
		"F:\r\nF:\r\n",	      "F: a,\r\nF: b\r\n", "F: \"a\r\nF: b\"\r\n",
		"F: (a\r\nF: b)\r\n", "F: a;\r\nF: b\r\n", "F: a=1\r\n",
		"F: a\r\nF: b,!\r\n",
	};
	for (size_t i = 0; i < ARRAY_LEN(broken); i++)
		assert_members(broken[i], false, NULL);
	assert_int_equal(sf_list(&fields, VIEW("G"), &c), -ENOENT);
}

static void test_dictionaries(void **state)
{
	(void)state;
	assert_members("F:\r\n", true, "");
	assert_members("F: a, b=x;p, c;q=1, d=(e f);r\r\n", true, "a=5:|b=3:x;p|c=5:;q=1|d=8:e f;r|");
	assert_members("F: a=1,b=2\r\nF: a=?0\r\n", true, "a=0:|b=0:|a=5:|");
	assert_members("F: *a_-.9=\"\"\r\n", true, "*a_-.9=2:|");
	static const char *const broken[] = {
		"F: A\r\n",	  "F: a=\r\n",	       "F: a =1\r\n",	 "F: a= 1\r\n",
		"F: a=1 b=2\r\n", "F: a=1,\r\n",       "F: =1\r\n",	 "F: 1\r\n",
		"F: a=1;B\r\n",	  "F: a=(1\r\n",       "F: a\r\nF:\r\n", "F: a=\r\nF: b\r\n",
		"F: -a\r\n",	  "F: a=1, &&&&&\r\n", "F: \"a\"\r\n",
	};
	for (size_t i = 0; i < ARRAY_LEN(broken); i++)
		assert_members(broken[i], true, NULL);
}

static void test_inner_lists(void **state)
{
	(void)state;
	struct sf_cursor c;
	struct sf_member m;
	struct sf_item v;

	parse_value("( \"a b\";x 1.5   c );y");
	assert_int_equal(sf_list(&fields, VIEW("f"), &c), 0);
	assert_true(sf_next(&c, &m) && m.value.type == SF_INNER_LIST);
	assert_true(view_eq(m.value.parameters, VIEW(";y")));
	struct view rest = m.value.text;
	assert_true(sf_inner_next(&rest, &v) && view_eq(v.text, VIEW("a b")));
	assert_true(view_eq(v.parameters, VIEW(";x")));
	assert_true(sf_inner_next(&rest, &v) && v.type == SF_DECIMAL && v.number == 1500);
	assert_true(sf_inner_next(&rest, &v) && v.type == SF_TOKEN);
	assert_false(sf_inner_next(&rest, &v));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),	     cmocka_unit_test(test_texts),
		cmocka_unit_test(test_broken_items), cmocka_unit_test(test_parameters),
		cmocka_unit_test(test_lists),	     cmocka_unit_test(test_dictionaries),
		cmocka_unit_test(test_inner_lists),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
