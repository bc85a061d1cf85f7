/* «brim --origin URL»: the configuration behind the options. */
#include <unistd.h>

#include "tests/unit/conf/testing.h"

static void one_site_takes_all(void **state)
{
	const struct conf_quick q = { .origin = "http://127.0.0.1:9000" };
	char *text, here[512], path[600];
	struct told t;
	struct conf *c;

	(void)state;
	told_begin(&t);
	assert_int_equal(conf_quick_text(&q, &t.faults, &text), 0);
	assert_int_equal(conf_build(view_str(text), 1, &t.faults, &c), 0);
	assert_string_equal(told_text(&t), "");
	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(path, sizeof(path), "%s/brim-cache", here);
	assert_view(c->stores[0].path, path);
	assert_int_equal(c->stores[0].size_bytes, 1 << 30);
	snprintf(path, sizeof(path), "unix:%s/brim-cache/admin.sock", here);
	assert_view(c->admin_listen.at[0], path);
	assert_view(c->listeners[0].text, "127.0.0.1:8080");
	assert_view(c->user, geteuid() == 0 ? "nobody" : "");
	assert_ptr_equal(conf_site_for(c, VIEW("any.example")), &c->sites[0]);
	assert_view(c->sites[0].name, "*");
	assert_true(c->sites[0].purge_allowed);
	assert_int_equal(c->sites[0].purge_from.count, 2);
	assert_view(c->sites[0].origin->servers[0].authority, "127.0.0.1:9000");
	conf_unref(c);
	free(text);
	told_end(&t);
}

static void takes_every_option(void **state)
{
	const struct conf_quick q = { .origin = "http://o.example",
				      .listen = "[::1]:81",
				      .store = "/srv/x/",
				      .size = "2GiB",
				      .workers = "3",
				      .admin = "unix:/run/a" };
	char *text;
	struct told t;
	struct conf *c;

	(void)state;
	told_begin(&t);
	assert_int_equal(conf_quick_text(&q, &t.faults, &text), 0);
	assert_int_equal(conf_build(view_str(text), 1, &t.faults, &c), 0);
	assert_view(c->listeners[0].text, "[::1]:81");
	assert_view(c->stores[0].path, "/srv/x/");
	assert_int_equal(c->stores[0].size_bytes, 2LL << 30);
	assert_int_equal(c->workers, 3);
	assert_view(c->admin_listen.at[0], "unix:/run/a");
	conf_unref(c);
	free(text);
	told_end(&t);
}

static void faults_name_the_option(void **state)
{
	const struct conf_quick q = {
		.origin = "ftp://x", .listen = "80", .size = "1MiB", .workers = "many", .admin = "127.0.0.1:1"
	};
	char *text = NULL;
	struct told t;

	(void)state;
	told_begin(&t);
	assert_int_equal(conf_quick_text(&q, &t.faults, &text), -EINVAL);
	assert_string_equal(
		told_text(&t),
		"--workers: must be \"auto\" or a number from 1 to 64\n"
		"--listen: must be an address and a port like \"0.0.0.0:80\", \"[::]:80\", "
		"\"*:80\", or "
		"\"unix:/path\"\n"
		"--size: must be at least 64MiB\n"
		"--origin: must be a URL like \"http://10.0.0.5:8080\"\n"
		"--admin: anybody could call it: TCP needs a token in \"admin.tokens\"\n");
	assert_null(text);
	told_end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_site_takes_all),
		cmocka_unit_test(takes_every_option),
		cmocka_unit_test(faults_name_the_option),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
