/* Rules at request time: which match, and what is left after all that do. */
#include "conf/keys.h"

#include "tests/unit/conf/testing.h"

struct outcome {
	struct conf_cache cache;
	struct conf_origin *origin;
	int rule;
};

/* head: field lines, each with CRLF. */
static struct outcome ask(const struct conf *c, struct conf_request r, const char *head)
{
	struct http_field at[8];
	struct http_fields fields = { .at = at, .capacity = 8 };
	struct outcome o;

	assert_int_equal(http_fields_parse(&fields, head, strlen(head)), 0);
	r.fields = &fields;
	conf_cache_for(&c->sites[0], &r, &o.cache, &o.origin, &o.rule);
	return o;
}

static struct outcome get(const struct conf *c, const char *path)
{
	return ask(c, (struct conf_request){ .path = view_str(path), .method = METHOD_GET }, "");
}

static void without_rules_it_is_the_site(void **state)
{
	struct conf *c = build(WITH_CACHE("'default_ttl': 5"));
	struct outcome o = get(c, "/");

	(void)state;
	assert_memory_equal(&o.cache, &c->sites[0].cache, sizeof(o.cache));
	assert_ptr_equal(o.origin, &c->origins[0]);
	assert_int_equal(o.rule, -1);
	conf_unref(c);
}

static void later_rules_win_key_by_key(void **state)
{
	struct conf *c = build(
		"{" BASE
		", 'origins': {'shop': {'servers': [{'url': 'http://a'}]}, 'media': {'servers': "
		"[{'url': 'http://b'}]}}, 'sites': [{'hosts': 'x', 'origin': 'shop', 'rules': ["
		"{'match': {'path': '/static/*'}, 'cache': {'ttl': '1d', 'max_variants': 2}},"
		"{'match': {'path': ['*.png', '*.jpg']}, 'origin': 'media', 'cache': "
		"{'max_variants': 9}},"
		"{'match': {'path': '/static/no/*'}, 'cache': {'bypass': true}},"
		"{'match': {'path': '/static/no/yes*'}, 'cache': {'bypass': false, 'key': "
		"{'query': "
		"'none'}}}]}]}");

	(void)state;
	struct outcome o = get(c, "/static/a.css");

	assert_int_equal(o.cache.rule_ttl_ms, 86400000);
	assert_int_equal(o.cache.max_variants, 2);
	assert_ptr_equal(o.origin, &c->origins[0]);
	assert_int_equal(o.rule, 0);
	o = get(c, "/static/a.png");
	assert_int_equal(o.cache.rule_ttl_ms, 86400000);
	assert_int_equal(o.cache.max_variants, 9);
	assert_ptr_equal(o.origin, &c->origins[1]);
	assert_int_equal(o.rule, 0);
	o = get(c, "/static/no/a");
	assert_true(o.cache.bypass);
	assert_int_equal(o.rule, 2);
	o = get(c, "/static/no/yes");
	assert_false(o.cache.bypass);
	assert_true(o.cache.key_query_none);
	assert_int_equal(o.rule, 3);
	o = get(c, "/x.png");
	assert_int_equal(o.cache.rule_ttl_ms, -1);
	assert_int_equal(o.rule, -1);
	conf_unref(c);
}

static void an_odd_path_gets_no_ttl(void **state)
{
	struct conf *c = build(
		WITH_RULE("'match': {'path': '*'}, 'cache': {'ttl': 1, 'max_variants': 3}"));
	struct outcome o = ask(c, (struct conf_request){ .path = VIEW("/a%2Fb"), .odd_path = true }, "");

	(void)state;
	assert_int_equal(o.cache.rule_ttl_ms, -1);
	assert_int_equal(o.cache.max_variants, 3);
	assert_int_equal(o.rule, -1);
	conf_unref(c);
}

static void matches_cookies_by_name(void **state)
{
	static const struct {
		const char *head;
		bool match;
	} cases[] = {
		{ "", false },
		{ "Cookie: session=1\r\n", true },
		{ "Cookie: a=session; sessionid=2\r\n", true },
		{ "Cookie: a=1;session_x\r\n", true },
		{ "Cookie: a=session\r\n", false },
		{ "Cookie: xsession=1\r\n", false },
		{ "Cookie: a=1\r\nCookie: b=2; session=1\r\n", true },
		{ "Cookie: ;; =session;\r\n", false },
		{ "X-Cookie: session=1\r\n", false },
	};
	struct conf *c = build(
		WITH_RULE("'match': {'cookie': ['wp_*', 'session*']}, 'cache': {'bypass': true}"));

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct outcome o = ask(c, (struct conf_request){ .path = VIEW("/") }, cases[i].head);

		assert_int_equal(o.cache.bypass, cases[i].match);
	}
	conf_unref(c);
}

static void matches_methods(void **state)
{
	struct conf *c = build(
		WITH_RULE("'match': {'method': ['GET', 'MKCOL', 'PATCH']}, 'cache': {'ttl': 1}"));
	struct conf_request r = { .path = VIEW("/"), .method = METHOD_GET };

	(void)state;
	assert_int_equal(ask(c, r, "").rule, 0);
	r.method = METHOD_HEAD;
	assert_int_equal(ask(c, r, "").rule, -1);
	r.method = METHOD_PATCH;
	assert_int_equal(ask(c, r, "").rule, 0);
	r.method = METHOD_OTHER;
	r.method_text = VIEW("MKCOL");
	assert_int_equal(ask(c, r, "").rule, 0);
	r.method_text = VIEW("LOCK");
	assert_int_equal(ask(c, r, "").rule, -1);
	conf_unref(c);
}

static void match_keys_are_anded(void **state)
{
	struct conf *c = build(WITH_RULE(
		"'match': {'path': '/a*', 'method': 'POST', 'cookie': 'c'}, 'cache': {'ttl': 1}"));
	struct conf_request r = { .path = VIEW("/ab"), .method = METHOD_POST };

	(void)state;
	assert_int_equal(ask(c, r, "Cookie: c=1\r\n").rule, 0);
	assert_int_equal(ask(c, r, "Cookie: d=1\r\n").rule, -1);
	r.path = VIEW("/b");
	assert_int_equal(ask(c, r, "Cookie: c=1\r\n").rule, -1);
	conf_unref(c);
}

/* A rule that sets one key changes no byte of what belongs to other keys. */
static void each_key_has_bytes_of_its_own(void **state)
{
	uint8_t owned[sizeof(struct conf_cache)] = { 0 };

	(void)state;
	for (size_t i = 0; i < CONF_RULE_COUNT; i++) {
		const struct conf_key *key = &conf_scope_cache.keys[i];

		assert_true(key->bytes > 0);
		for (size_t j = 0; j < key->bytes; j++)
			assert_int_equal(owned[key->offset + j]++, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_rules_it_is_the_site),
		cmocka_unit_test(later_rules_win_key_by_key),
		cmocka_unit_test(an_odd_path_gets_no_ttl),
		cmocka_unit_test(matches_cookies_by_name),
		cmocka_unit_test(matches_methods),
		cmocka_unit_test(match_keys_are_anded),
		cmocka_unit_test(each_key_has_bytes_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
