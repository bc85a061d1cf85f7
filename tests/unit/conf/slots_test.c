/* Slots across reloads, and what a reload can't change. */
#include "tests/unit/conf/testing.h"

static struct conf *assign(const char *text, const struct conf *before)
{
	char *json = quoted(text), *with_slots;
	struct told t;
	struct conf *c;

	told_begin(&t);
	assert_int_equal(conf_assign_slots(view_str(json), before, &t.faults, &with_slots), 0);
	assert_int_equal(conf_build(view_str(with_slots), 2, &t.faults, &c), 0);
	assert_string_equal(told_text(&t), "");
	told_end(&t);
	free(json);
	free(with_slots);
	return c;
}

#define WITH_SITES(list) \
	"{" BASE ", " ORIGINS ", 'defaults': {'site': {'origin': 'shop'}}, 'sites': [" list "]}"

static void sites_keep_theirs(void **state)
{
	struct conf *one = assign(WITH_SITES("{'hosts': 'a'}, {'hosts': 'b'}, {'hosts': 'c'}"), NULL);
	struct conf *two = assign(
		WITH_SITES("{'hosts': 'd'}, {'hosts': 'c'}, {'hosts': 'x', 'name': 'a'}"), one);
	struct conf *three = assign(WITH_SITES("{'hosts': 'e'}, {'hosts': 'b'}, {'hosts': 'd'}"), two);

	(void)state;
	assert_int_equal(one->sites[2].slot, 2);
	assert_int_equal(two->sites[0].slot, 3);
	assert_int_equal(two->sites[1].slot, 2);
	assert_int_equal(two->sites[2].slot, 0);
	/* b's old slot, 1, is free, but not so long that no request could still count there. */
	assert_int_equal(three->sites[0].slot, 4);
	assert_int_equal(three->sites[1].slot, 5);
	assert_int_equal(three->sites[2].slot, 3);
	conf_unref(one);
	conf_unref(two);
	conf_unref(three);
}

static void servers_are_known_by_origin_and_url(void **state)
{
	struct conf *one = assign("{" BASE
				  ", 'origins': {'a': {'servers': [{'url': 'http://x'}, {'url': "
				  "'http://y'}]}, 'b': {'servers': [{'url': 'http://x'}]}}}",
				  NULL);
	struct conf *two = assign(
		"{" BASE ", 'origins': {'b': {'servers': [{'url': 'http://y'}, {'url': "
		"'http://x'}]}, 'a': {'servers': [{'url': 'http://y', 'weight': 2}]}}}",
		one);

	(void)state;
	assert_int_equal(one->origins[1].servers[0].slot, 2);
	assert_int_equal(two->origins[0].servers[0].slot, 3);
	assert_int_equal(two->origins[0].servers[1].slot, 2);
	assert_int_equal(two->origins[1].servers[0].slot, 1);
	conf_unref(one);
	conf_unref(two);
}

static char *many_sites(unsigned from)
{
	char *text;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	fprintf(f, "{" BASE ", " ORIGINS ", 'defaults': {'site': {'origin': 'shop'}}, 'sites': [");
	for (unsigned i = 0; i < CONF_SITES_MAX; i++)
		fprintf(f, "%s{'hosts': 'h%u'}", i == 0 ? "" : ",", from + i);
	fprintf(f, "]}");
	fclose(f);
	return text;
}

static void a_full_table_reuses_what_went_away(void **state)
{
	char *first = many_sites(0), *second = many_sites(1);
	struct conf *one = assign(first, NULL), *two = assign(second, one);

	(void)state;
	assert_int_equal(two->sites[0].slot, 1);
	assert_int_equal(two->sites[CONF_SITES_MAX - 1].slot, 0);
	conf_unref(one);
	conf_unref(two);
	free(first);
	free(second);
}

static void foreign_slots_are_faults(void **state)
{
	static const char *const slots[] = {
		"{}",
		"{'sites': {'shop.example': 1000}, 'servers': {'shop http://10.0.0.5:8080': 0}, "
		"'next_site': 0, 'next_server': 0}",
		"{'sites': {'shop.example': 0}, 'servers': {'shop http://10.0.0.5:8080': -1}, "
		"'next_site': 0, 'next_server': 0}",
		"{'sites': {'shop.example': 0}, 'servers': {'shop http://10.0.0.5:8080': 256}, "
		"'next_site': 0, 'next_server': 0}",
		"{'sites': {'shop.example': 0}, 'servers': {'shop http://10.0.0.5:8080': 0}, "
		"'next_site': 0}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(slots); i++) {
		char *text;
		struct told t;

		assert_true(asprintf(&text, "{" BASE ", " ORIGINS ", " SITES ", 'x-slots': %s}",
				     slots[i]) > 0);
		told_begin(&t);
		assert_null(build_told(text, &t));
		told_end(&t);
		free(text);
	}
}

static void what_a_reload_can_change(void **state)
{
	struct conf *before = build(WITH_ROOT("'workers': 1"));
	struct conf *after = build(
		"{'user': '', 'workers': 1, 'listeners': [{'address': '127.0.0.1:8080', "
		"'health_path': '/h'}], " STORES ", 'limits': {'headers': 50}, 'name': 'x'}");
	struct told t;

	(void)state;
	told_begin(&t);
	assert_int_equal(conf_reloadable(before, after, &t.faults), 0);
	conf_unref(after);
	after = build("{'user': 'x', 'workers': 2, 'listeners': [{'address': '127.0.0.1:8081'}],"
		      " 'stores': [{'path': '/srv/cache', 'size': '2GiB'}],"
		      " 'admin': {'listen': [], 'socket_mode': '0600'}}");
	assert_int_equal(conf_reloadable(before, after, &t.faults), -EINVAL);
	assert_string_equal(told_text(&t),
			    "/listeners: a reload can't change it: restart the node\n"
			    "/workers: a reload can't change it: restart the node\n"
			    "/user: a reload can't change it: restart the node\n"
			    "/stores: a reload can't change it: restart the node\n"
			    "/admin/listen: a reload can't change it: restart the node\n"
			    "/admin/socket_mode: a reload can't change it: restart the node\n");
	told_end(&t);
	conf_unref(before);
	conf_unref(after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sites_keep_theirs),
		cmocka_unit_test(servers_are_known_by_origin_and_url),
		cmocka_unit_test(a_full_table_reuses_what_went_away),
		cmocka_unit_test(foreign_slots_are_faults),
		cmocka_unit_test(what_a_reload_can_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
