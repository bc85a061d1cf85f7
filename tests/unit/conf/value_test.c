/* The written forms of values. */
#include "conf/value.h"

#include "tests/unit/conf/testing.h"

static int64_t duration(const char *text)
{
	int64_t ms = -7;
	int err = conf_value_duration(view_str(text), &ms);

	return err < 0 ? err : ms;
}

static int64_t size(const char *text)
{
	uint64_t bytes = 0;
	int err = conf_value_size(view_str(text), &bytes);

	return err < 0 ? err : (int64_t)bytes;
}

static void durations(void **state)
{
	(void)state;
	assert_int_equal(duration("250ms"), 250);
	assert_int_equal(duration("10s"), 10000);
	assert_int_equal(duration("5m"), 300000);
	assert_int_equal(duration("1h"), 3600000);
	assert_int_equal(duration("30d"), 2592000000);
	assert_int_equal(duration("0s"), 0);
	assert_int_equal(duration("106751991167d"), 106751991167 * 86400000);
	assert_int_equal(duration("106751991168d"), -ERANGE);
	assert_int_equal(duration("99999999999999999999s"), -ERANGE);
	static const char *const wrong[] = { "",     "s",   "10", "-1s", "+1s",
					     "1.5s", "1 s", "1S", "1s ", "1sm" };

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_int_equal(duration(wrong[i]), -EINVAL);
}

static void sizes(void **state)
{
	(void)state;
	assert_int_equal(size("0B"), 0);
	assert_int_equal(size("64KiB"), 65536);
	assert_int_equal(size("10GiB"), 10737418240);
	assert_int_equal(size("1GB"), 1000000000);
	assert_int_equal(size("1kB"), 1000);
	assert_int_equal(size("2TiB"), 2199023255552);
	assert_int_equal(size("8388607TiB"), 8388607LL << 40);
	assert_int_equal(size("8388608TiB"), -ERANGE);
	assert_int_equal(size("18446744073709551616B"), -ERANGE);
	assert_int_equal(size("1G"), -EINVAL);
	assert_int_equal(size("1gib"), -EINVAL);
	assert_int_equal(size("100"), -EINVAL);
}

static void percents_statuses_modes(void **state)
{
	uint8_t percent = 0;
	uint16_t from = 0, to = 0;
	uint32_t mode = 0;

	(void)state;
	assert_int_equal(conf_value_percent(VIEW("25%"), &percent), 0);
	assert_int_equal(percent, 25);
	assert_int_equal(conf_value_percent(VIEW("0%"), &percent), -ERANGE);
	assert_int_equal(conf_value_percent(VIEW("101%"), &percent), -ERANGE);
	assert_int_equal(conf_value_percent(VIEW("25"), &percent), -EINVAL);
	assert_int_equal(conf_value_status(VIEW("404"), &from, &to), 0);
	assert_int_equal(from, 404);
	assert_int_equal(to, 404);
	assert_int_equal(conf_value_status(VIEW("5xx"), &from, &to), 0);
	assert_int_equal(from, 500);
	assert_int_equal(to, 599);
	static const char *const statuses[] = { "", "1xx", "6xx", "40", "4040", "4x4", "40x", "4XX" };

	for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
		assert_int_equal(conf_value_status(view_str(statuses[i]), &from, &to), -EINVAL);
	assert_int_equal(conf_value_status_range(VIEW("404-499"), &from, &to), 0);
	assert_int_equal(from, 404);
	assert_int_equal(to, 499);
	assert_int_equal(conf_value_status_range(VIEW("4xx"), &from, &to), 0);
	assert_int_equal(from, 400);
	static const char *const ranges[] = { "",	 "400-",    "400-4xx", "4xx-499",
					      "499-400", "400 499", "400-600" };

	for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
		assert_int_equal(conf_value_status_range(view_str(ranges[i]), &from, &to), -EINVAL);
	assert_int_equal(conf_value_mode(VIEW("0660"), &mode), 0);
	assert_int_equal(mode, 0660);
	assert_int_equal(conf_value_mode(VIEW("1777"), &mode), -ERANGE);
	assert_int_equal(conf_value_mode(VIEW("0680"), &mode), -EINVAL);
}

static void domains(void **state)
{
	static const char *const good[] = { "a", "shop.example", "xn--bcher-kva.example", "_x.y",
					    "10.0.0.1" };
	static const char *const wrong[] = { "", ".", "a.", ".a", "a..b", "A", "a b", "*.a", "a/b" };
	char label[65];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(conf_value_domain(view_str(good[i])));
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_false(conf_value_domain(view_str(wrong[i])));
	memset(label, 'a', 64);
	assert_true(conf_value_domain(view_of(label, 63)));
	assert_false(conf_value_domain(view_of(label, 64)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations),
		cmocka_unit_test(sizes),
		cmocka_unit_test(percents_statuses_modes),
		cmocka_unit_test(domains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
