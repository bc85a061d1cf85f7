/* The query as a key has it. */
#include "tests/unit/conf/testing.h"

static struct view globs[2];

static struct conf_query filter(enum conf_query_kind kind, bool sort, const char *a, const char *b)
{
	globs[0] = view_str(a);
	globs[1] = view_str(b);
	return (struct conf_query){ .kind = kind, .sort = sort, .names = { globs, 2 } };
}

static void check(const struct conf_query *q, const char *query, const char *expected)
{
	struct view in = view_str(query);
	char *out = malloc(in.n + 1); /* so that a byte too many is seen */
	size_t n = conf_key_query(q, in, out);

	assert_view(view_of(out, n), expected);
	free(out);
}

static void without_a_filter_all_of_it(void **state)
{
	const struct conf_query all = { .kind = CONF_QUERY_ALL }, none = { .kind = CONF_QUERY_NONE };

	(void)state;
	assert_false(conf_query_changes(&all));
	assert_true(conf_query_changes(&none));
	check(&all, "?b=1&&a=%3D&", "?b=1&&a=%3D&");
	check(&all, "", "");
	check(&none, "?a", "");
}

static void keeps_or_drops_by_name(void **state)
{
	struct conf_query q = filter(CONF_QUERY_ONLY, false, "id", "p*");

	(void)state;
	check(&q, "?id=1&x=id&page=2&ID=3&id=4", "?id=1&page=2&id=4");
	check(&q, "?x=1", "");
	check(&q, "?", "");
	check(&q, "", "");
	check(&q, "?id", "?id");
	check(&q, "?id%20=1", "");
	q = filter(CONF_QUERY_EXCEPT, false, "utm_*", "fbclid");
	check(&q, "?a=1&utm_source=x&b=2&fbclid=y", "?a=1&b=2");
	check(&q, "?utm_source=x", "");
	check(&q, "?fbclid=a=b&fbclidx=1", "?fbclidx=1");
}

/* «/a?» and «/a», «?a» and «?a&» are different URLs. */
static void empty_parameters_count(void **state)
{
	struct conf_query q = filter(CONF_QUERY_EXCEPT, false, "x", "y");

	(void)state;
	check(&q, "?", "?");
	check(&q, "?a&", "?a&");
	check(&q, "?&a", "?&a");
	check(&q, "?x&a", "?a");
	check(&q, "?x&", "?");
	q = filter(CONF_QUERY_EXCEPT, false, "*", "*");
	check(&q, "?&&a", "");
}

static void sorts_by_name_and_leaves_equal_ones_alone(void **state)
{
	struct conf_query q = { .kind = CONF_QUERY_ALL, .sort = true };

	(void)state;
	check(&q, "?b=1&a=2&b=0&a=1", "?a=2&a=1&b=1&b=0");
	check(&q, "?ab=1&a=2&A=3&a-=4", "?A=3&a=2&a-=4&ab=1");
	check(&q, "?b&&a&", "?&&a&b");
	check(&q, "?", "?");
	check(&q, "", "");
	q = filter(CONF_QUERY_ONLY, true, "a", "b");
	check(&q, "?c&b&a", "?a&b");
}

static void too_many_stay_as_they_are(void **state)
{
	struct conf_query q = { .kind = CONF_QUERY_ALL, .sort = true };
	char many[2 * 129 + 1], fewer[2 * 128 + 1];

	(void)state;
	for (size_t i = 0; i < 129; i++) {
		many[2 * i] = '&';
		many[2 * i + 1] = i == 0 ? 'b' : 'a';
	}
	many[0] = '?';
	many[2 * 129] = '\0';
	check(&q, many, many);
	memcpy(fewer, many, 2 * 128);
	fewer[2 * 128] = '\0';
	char *out = malloc(strlen(fewer));

	assert_int_equal(conf_key_query(&q, view_str(fewer), out), strlen(fewer));
	assert_memory_equal(out, "?a&a", 4);
	assert_memory_equal(out + strlen(fewer) - 2, "&b", 2);
	free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_filter_all_of_it),
		cmocka_unit_test(keeps_or_drops_by_name),
		cmocka_unit_test(empty_parameters_count),
		cmocka_unit_test(sorts_by_name_and_leaves_equal_ones_alone),
		cmocka_unit_test(too_many_stay_as_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
