/* Cache groups (RFC 9875). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <errno.h>

#include "edge/http/cache_groups.h"

static struct http_field at[4];
static struct http_fields fields = { .at = at, .capacity = 4 };

static int groups(const char *lines, struct sf_cursor *out)
{
	assert_int_equal(http_fields_parse(&fields, lines, strlen(lines)), 0);
	return http_groups(&fields, FIELD_CACHE_GROUPS, out);
}

static void assert_groups(const char *lines, const char *joined)
{
	char got[200] = "";
	size_t n = 0;
	struct sf_cursor c;
	struct view group;

	assert_int_equal(groups(lines, &c), 0);
	while (http_groups_next(&c, &group))
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%.*s|", VIEW_ARG(group));
	assert_string_equal(got, joined);
}

static void test_groups(void **state)
{
	(void)state;
	struct sf_cursor c;

	assert_groups("Cache-Groups: \"a\", \"A b,c\";revalidate\r\nCache-Groups: \"\\\"\"\r\n",
		      "a|A b,c|\\\"|");
	assert_groups("Cache-Groups: \"\"\r\n", "|");
	assert_groups("Cache-Groups:\r\n", "");
	assert_int_equal(groups("Cache-Groups: \"a\", b\r\n", &c), -EINVAL);
	assert_int_equal(groups("Cache-Groups: (\"a\")\r\n", &c), -EINVAL);
	assert_int_equal(groups("Cache-Groups: \"a\",\r\n", &c), -EINVAL);
	assert_int_equal(groups("Cache-Groups: 1\r\n", &c), -EINVAL);
	assert_int_equal(groups("Cache-Group-Invalidation: \"x\"\r\n", &c), -ENOENT);
	assert_int_equal(http_groups(&fields, FIELD_CACHE_GROUP_INVALIDATION, &c), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
