/* The admin API's paths and query parameters. */
#include "edge/admin_call.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static admin_call_fn *route(const char *path)
{
	struct view rest;
	const struct admin_route *r = admin_route(view_str(path), &rest);

	return r != NULL ? r->fn : NULL;
}

static void paths(void **state)
{
	(void)state;
	assert_ptr_equal(route("/"), admin_page);
	assert_ptr_equal(route("/v1/purge"), admin_purge);
	assert_ptr_equal(route("/v1/config/check"), admin_config_check);
	assert_null(route(""));
	assert_null(route("//"));
	assert_null(route("/v1/status/"));
	assert_null(route("/v1/statu"));
	assert_null(route("*"));
}

static void methods(void **state)
{
	struct view rest;
	const struct admin_route *get = admin_route(VIEW("/v1/status"), &rest),
				 *post = admin_route(VIEW("/v1/purge"), &rest);

	(void)state;
	assert_true(admin_route_takes(get, METHOD_GET) && admin_route_takes(get, METHOD_HEAD));
	assert_false(admin_route_takes(get, METHOD_POST) || admin_route_takes(get, METHOD_OPTIONS));
	assert_true(admin_route_takes(post, METHOD_POST));
	assert_false(admin_route_takes(post, METHOD_GET) || admin_route_takes(post, METHOD_HEAD));
}

/* What may be forgotten in a new line of the table: a lock on what changes something. */
static void every_change_needs_a_role(void **state)
{
	size_t count;
	const struct admin_route *all = admin_routes(&count);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		bool writes = all[i].need == ADMIN_NEED_PURGE || all[i].need == ADMIN_NEED_ADMIN;

		assert_int_equal(all[i].changes, writes);
		assert_false(all[i].changes && all[i].method != METHOD_POST);
		assert_false(all[i].body_bytes_max > 0 && all[i].method != METHOD_POST);
		assert_false(all[i].for_metrics && all[i].need > ADMIN_NEED_READ_WHOLE);
	}
}

static bool known(const char *path, const char *text, uint16_t *out_status)
{
	struct admin_call c = { .query = view_str(text) };
	bool is;

	c.route = admin_route(view_str(path), &c.rest);
	arena_init(&c.arena, 1 << 16);
	is = admin_query_known(&c);
	*out_status = c.status;
	arena_fini(&c.arena);
	return is;
}

static void unknown_parameters(void **state)
{
	uint16_t status;

	(void)state;
	assert_true(known("/v1/object", "", &status));
	assert_true(known("/v1/object", "url=a", &status));
	assert_false(known("/v1/object", "url=a&limit=3", &status));
	assert_int_equal(status, 400);
	assert_false(known("/v1/status", "x", &status));
	assert_false(known("/v1/status", "&", &status));
}

static int query(const char *text, const char *name, char out[64])
{
	struct admin_call c = { .query = view_str(text) };
	struct view value;
	int r;

	arena_init(&c.arena, 1 << 16);
	r = admin_query(&c, view_str(name), &value);
	if (r == 0)
		(void)snprintf(out, 64, "%.*s", VIEW_ARG(value));
	arena_fini(&c.arena);
	return r;
}

static void query_parameters(void **state)
{
	char out[64];

	(void)state;
	assert_int_equal(query("url=http://a/b", "url", out), 0);
	assert_string_equal(out, "http://a/b");
	assert_int_equal(query("x=1&url=a%2Fb%3fc&y", "url", out), 0);
	assert_string_equal(out, "a/b?c");
	assert_int_equal(query("url=a+b", "url", out), 0); /* a URL's "+" is a "+" */
	assert_string_equal(out, "a+b");
	assert_int_equal(query("", "url", out), -ENOENT);
	assert_int_equal(query("url", "url", out), -ENOENT);
	assert_int_equal(query("curl=a&urls=b", "url", out), -ENOENT);
	assert_int_equal(query("url=a&url=b", "url", out), -EINVAL);
	assert_int_equal(query("url=%4", "url", out), -EINVAL);
	assert_int_equal(query("url=%zz", "url", out), -EINVAL);
	assert_int_equal(query("url=a%00b", "url", out), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths),
		cmocka_unit_test(methods),
		cmocka_unit_test(every_change_needs_a_role),
		cmocka_unit_test(unknown_parameters),
		cmocka_unit_test(query_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
