/* The admin API's paths and query parameters. */
#include "edge/admin_call.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const char *allow;

static admin_call_fn *route(enum http_method method, const char *path)
{
	allow = NULL;
	return admin_route(method, view_str(path), &allow);
}

static void paths(void **state)
{
	(void)state;
	assert_ptr_equal(route(METHOD_POST, "/v1/purge"), admin_purge);
	assert_ptr_equal(route(METHOD_GET, "/v1/status"), admin_status);
	assert_ptr_equal(route(METHOD_HEAD, "/healthz"), admin_healthz);
	assert_ptr_equal(route(METHOD_POST, "/v1/config/check"), admin_config_check);
}

static uint16_t answered(admin_call_fn *fn, enum http_method method)
{
	struct admin_call c = { .method = method, .allow = allow };
	uint16_t status;

	arena_init(&c.arena, ADMIN_ARENA_MAX);
	assert_int_equal(fn(&c), ADMIN_DONE);
	status = c.status;
	assert_non_null(memmem(c.answer.p, c.answer.n, "\"pointer\":\"\"", 12));
	arena_fini(&c.arena);
	return status;
}

static void unknown_paths_and_wrong_methods(void **state)
{
	(void)state;
	assert_int_equal(answered(route(METHOD_GET, "/"), METHOD_GET), 404);
	assert_int_equal(answered(route(METHOD_GET, "/v1/status/"), METHOD_GET), 404);
	assert_int_equal(answered(route(METHOD_GET, "/v1/purge"), METHOD_GET), 405);
	assert_string_equal(allow, "POST");
	assert_int_equal(answered(route(METHOD_DELETE, "/v1/status"), METHOD_DELETE), 405);
	assert_string_equal(allow, "GET, HEAD");
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
		cmocka_unit_test(unknown_paths_and_wrong_methods),
		cmocka_unit_test(query_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
