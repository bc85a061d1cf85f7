/* Which site a host belongs to. */
#include "tests/unit/conf/testing.h"

static const char *site_of(const struct conf *c, const char *host)
{
	const struct conf_site *site = conf_site_for(c, view_str(host));

	return site == NULL ? "none" : site->name.p;
}

static void exact_before_longest_wildcard_before_any(void **state)
{
	struct conf *c = build(
		"{" BASE ", " ORIGINS ", 'defaults': {'site': {'origin': 'shop'}}, 'sites': ["
		"{'name': 'any', 'hosts': '*'}, {'name': 'wild', 'hosts': ['*.shop.example']},"
		"{'name': 'deep', 'hosts': '*.b.shop.example'}, {'name': 'exact', 'hosts': "
		"['a.shop.example', '[::1]', '10.0.0.1']}]}");

	(void)state;
	assert_string_equal(site_of(c, "a.shop.example"), "exact");
	assert_string_equal(site_of(c, "b.shop.example"), "wild");
	assert_string_equal(site_of(c, "a.a.shop.example"), "wild");
	assert_string_equal(site_of(c, "a.b.shop.example"), "deep");
	assert_string_equal(site_of(c, "x.y.b.shop.example"), "deep");
	assert_string_equal(site_of(c, "shop.example"), "any");
	assert_string_equal(site_of(c, ".shop.example"), "any");
	assert_string_equal(site_of(c, "xshop.example"), "any");
	assert_string_equal(site_of(c, "[::1]"), "exact");
	assert_string_equal(site_of(c, "10.0.0.1"), "exact");
	assert_string_equal(site_of(c, ""), "any");
	assert_view(conf_site_named(c, VIEW("deep"))->hosts.at[0], "*.b.shop.example");
	assert_null(conf_site_named(c, VIEW("dee")));
	conf_unref(c);
}

static void without_a_catch_all_an_unknown_host_has_none(void **state)
{
	struct conf *c = build(WITH_SITE("'name': 's'"));

	(void)state;
	assert_string_equal(site_of(c, "shop.example"), "s");
	assert_string_equal(site_of(c, "other.example"), "none");
	assert_string_equal(site_of(c, "*"), "none");
	assert_string_equal(site_of(c, "."), "none");
	conf_unref(c);
}

static void finds_each_of_many(void **state)
{
	char *text, host[32];
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	(void)state;
	fprintf(f, "{" BASE ", " ORIGINS ", 'defaults': {'site': {'origin': 'shop'}}, 'sites': [");
	for (unsigned i = 0; i < CONF_SITES_MAX; i++)
		fprintf(f, "%s{'hosts': ['h%u.example', '*.w%u.example']}", i == 0 ? "" : ",", i, i);
	fprintf(f, "]}");
	fclose(f);
	struct conf *c = build(text);

	for (unsigned i = 0; i < CONF_SITES_MAX; i++) {
		snprintf(host, sizeof(host), "h%u.example", i);
		assert_ptr_equal(conf_site_for(c, view_str(host)), &c->sites[i]);
		snprintf(host, sizeof(host), "a.w%u.example", i);
		assert_ptr_equal(conf_site_for(c, view_str(host)), &c->sites[i]);
		assert_int_equal(c->sites[i].slot, i);
	}
	conf_unref(c);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_before_longest_wildcard_before_any),
		cmocka_unit_test(without_a_catch_all_an_unknown_host_has_none),
		cmocka_unit_test(finds_each_of_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
