/* Who may make which call. */
#include "edge/admin_access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "edge/base/hash.h"

enum { TOKENS = 3 };

static struct conf_token tokens[TOKENS];
static struct view names[] = { VIEW("admin.example") }, sites[] = { VIEW("a"), VIEW("b") };
static struct conf conf;

static int set_up(void **state)
{
	static const char *const texts[TOKENS] = { "reader", "purger", "ruler" };
	static const enum conf_role roles[TOKENS] = { CONF_ROLE_READ, CONF_ROLE_PURGE, CONF_ROLE_ADMIN };

	(void)state;
	for (int i = 0; i < TOKENS; i++) {
		tokens[i] = (struct conf_token){ .name = view_str(texts[i]), .role = roles[i] };
		hash_sha256(view_str(texts[i]), tokens[i].sha256);
	}
	conf.tokens = tokens;
	conf.token_count = TOKENS;
	conf.admin_hosts = (struct conf_list){ names, ARRAY_LEN(names) };
	return 0;
}

/* --- Host, Origin --- */

static uint16_t host(const char *authority, const char *origin)
{
	struct http_field at = { VIEW("Origin"), view_str(origin != NULL ? origin : ""),
				 FIELD_OTHER, false };
	struct http_request rq = { .authority = view_str(authority),
				   .fields = { &at, origin != NULL, 1, 0 } };

	return admin_access_host(&conf, &rq).status;
}

static void hosts(void **state)
{
	(void)state;
	assert_int_equal(host("localhost", NULL), 0);
	assert_int_equal(host("LocalHost:9000", NULL), 0);
	assert_int_equal(host("127.0.0.1:9000", NULL), 0);
	assert_int_equal(host("[::1]", NULL), 0);
	assert_int_equal(host("[::1]:9000", NULL), 0);
	assert_int_equal(host("Admin.Example:9000", NULL), 0);
	assert_int_equal(host("", NULL), 0);
	assert_int_equal(host("evil.example", NULL), 421);
	assert_int_equal(host("localhost.evil.example", NULL), 421);
	assert_int_equal(host("127.0.0.1.evil.example", NULL), 421);
	assert_int_equal(host("::1", NULL), 421);
	assert_int_equal(host("localhost:x", NULL), 421);
}

static void origins(void **state)
{
	(void)state;
	assert_int_equal(host("127.0.0.1:9000", "http://127.0.0.1:9000"), 0);
	assert_int_equal(host("Admin.example", "https://admin.example"), 0);
	assert_int_equal(host("127.0.0.1:9000", "http://127.0.0.1"), 403);
	assert_int_equal(host("127.0.0.1:9000", "http://evil.example"), 403);
	assert_int_equal(host("127.0.0.1:9000", "null"), 403);
	assert_int_equal(host("127.0.0.1:9000", ""), 403);
	assert_int_equal(host("", "http://"), 403);
}

/* --- tokens --- */

static const struct conf_token *bearer(const char *value)
{
	struct http_field at = { VIEW("Authorization"), view_str(value), FIELD_AUTHORIZATION, false };
	struct http_request rq = { .fields = { &at, 1, 1, UINT64_C(1) << FIELD_AUTHORIZATION } };

	return admin_access_token(&conf, &rq);
}

static void bearers(void **state)
{
	struct http_field at[2] = {
		{ VIEW("Authorization"), VIEW("Bearer ruler"), FIELD_AUTHORIZATION, false },
		{ VIEW("Authorization"), VIEW("Bearer reader"), FIELD_AUTHORIZATION, false },
	};
	struct http_request twice = { .fields = { at, 2, 2, UINT64_C(1) << FIELD_AUTHORIZATION } },
			    none = { 0 };

	(void)state;
	assert_ptr_equal(bearer("Bearer reader"), &tokens[0]);
	assert_ptr_equal(bearer("bearer  ruler"), &tokens[2]);
	assert_null(bearer("Bearer"));
	assert_null(bearer("Bearer "));
	assert_null(bearer("Bearer Reader"));
	assert_null(bearer("Bearer reader x"));
	assert_null(bearer("Basic reader"));
	assert_null(bearer("reader"));
	assert_null(admin_access_token(&conf, &twice));
	assert_null(admin_access_token(&conf, &none));
}

static uint16_t tcp(const struct conf_token *token, enum admin_need need)
{
	return admin_access_check(ADMIN_DOOR_TCP, token, need).status;
}

static void roles(void **state)
{
	static const uint16_t wanted[ADMIN_NEED_ADMIN + 1][1 + TOKENS] = {
		[ADMIN_NEED_NOTHING] = { 0, 0, 0, 0 },	    [ADMIN_NEED_READ] = { 401, 0, 0, 0 },
		[ADMIN_NEED_READ_WHOLE] = { 401, 0, 0, 0 }, [ADMIN_NEED_PURGE] = { 401, 403, 0, 0 },
		[ADMIN_NEED_ADMIN] = { 401, 403, 403, 0 },
	};

	(void)state;
	for (int need = 0; need <= ADMIN_NEED_ADMIN; need++) {
		for (int t = 0; t <= TOKENS; t++)
			assert_int_equal(tcp(t == 0 ? NULL : &tokens[t - 1], need), wanted[need][t]);
		assert_int_equal(admin_access_check(ADMIN_DOOR_LOCAL, NULL, need).status, 0);
	}
}

static void tokens_of_sites(void **state)
{
	struct conf_token few = { .role = CONF_ROLE_ADMIN, .sites = { sites, ARRAY_LEN(sites) } };

	(void)state;
	assert_int_equal(tcp(&few, ADMIN_NEED_READ), 0);
	assert_int_equal(tcp(&few, ADMIN_NEED_PURGE), 0);
	assert_int_equal(tcp(&few, ADMIN_NEED_READ_WHOLE), 403);
	assert_int_equal(tcp(&few, ADMIN_NEED_ADMIN), 403);
	assert_true(admin_access_site(&few, VIEW("b")));
	assert_false(admin_access_site(&few, VIEW("c")));
	assert_true(admin_access_site(&tokens[0], VIEW("c")));
	assert_true(admin_access_site(NULL, VIEW("c")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts),	   cmocka_unit_test(origins),
		cmocka_unit_test(bearers),	   cmocka_unit_test(roles),
		cmocka_unit_test(tokens_of_sites),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
