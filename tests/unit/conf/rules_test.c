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
	struct conf_ruling ruling;
	struct outcome o;

	assert_int_equal(http_fields_parse(&fields, head, strlen(head)), 0);
	r.fields = &fields;
	conf_request_rules(&c->sites[0], &r, &o.cache, &ruling);
	o.origin = ruling.origin;
	o.rule = ruling.rule;
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
	assert_int_equal(o.cache.key_query.kind, CONF_QUERY_NONE);
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

/* One rule's match, a request, and whether they fit. Where the answer decides: «status». */
static void matches_what_a_request_says(void **state)
{
	static const struct {
		const char *match, *path, *query, *host, *head;
		bool fits;
	} cases[] = {
		{ "'host': '*.Shop.example'", "/", "", "www.shop.example", "", true },
		{ "'host': '*.shop.example'", "/", "", "shop.example", "", false },
		{ "'query': 'utm_*'", "/", "?a=1&utm_source=x", "", "", true },
		{ "'query': 'utm_*'", "/", "?a=utm_x", "", "", false },
		{ "'query': 'utm_*'", "/", "", "", "", false },
		{ "'query': '*'", "/", "", "", "", false },
		{ "'query': '*'", "/", "?", "", "", true },
		{ "'header': ['x-a*', 'X-B']", "/", "", "", "x-b: 1\r\n", true },
		{ "'header': 'x-a*'", "/", "", "", "X-ABC: 1\r\n", true },
		{ "'header': 'x-a*'", "/", "", "", "X-B: x-a\r\n", false },
		{ "'client': '10.0.0.0/8'", "/", "", "", "", true },
		{ "'client': ['192.0.2.1', '::1']", "/", "", "", "", false },
		{ "'not': {'path': '/a*'}", "/b", "", "", "", true },
		{ "'not': {'path': '/a*'}", "/a", "", "", "", false },
		{ "'path': '/a*', 'not': {'path': '*.png'}", "/a.css", "", "", "", true },
		{ "'path': '/a*', 'not': {'path': '*.png'}", "/a.png", "", "", "", false },
		{ "'not': {'path': '/a', 'query': 'x'}", "/a", "", "", "", true },
		{ "'not': {'path': '/a', 'query': 'x'}", "/a", "?x", "", "", false },
		{ "'not': {'client': '10.0.0.0/8'}", "/", "", "", "", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[1024];
		struct sock_addr client;

		snprintf(text, sizeof(text), WITH_RULE("'match': {%s}, 'cache': {'ttl': 1}"),
			 cases[i].match);
		assert_int_equal(sock_addr_literal(VIEW("10.1.2.3"), 1, &client), 0);
		struct conf *c = build(text);
		struct conf_request r = { .path = view_str(cases[i].path),
					  .query = view_str(cases[i].query),
					  .host = view_str(cases[i].host),
					  .client = &client };

		if (ask(c, r, cases[i].head).rule != (cases[i].fits ? 0 : -1))
			fail_msg("case %zu: %s", i, cases[i].match);
		conf_unref(c);
	}
}

/* The same, once there is an answer. */
static void matches_what_an_answer_says(void **state)
{
	static const struct {
		const char *match, *path;
		uint16_t status;
		const char *type;
		bool fits;
	} cases[] = {
		{ "'status': 404", "/", 404, "", true },
		{ "'status': 404", "/", 403, "", false },
		{ "'status': ['5xx', '400-403']", "/", 403, "", true },
		{ "'status': ['5xx', '400-403']", "/", 599, "", true },
		{ "'status': ['5xx', '400-403']", "/", 404, "", false },
		{ "'status': 404, 'path': '/a*'", "/b", 404, "", false },
		{ "'content_type': 'text/*'", "/", 200, "Text/HTML ; charset=utf-8", true },
		{ "'content_type': 'text/html'", "/", 200, "text/htmlx", false },
		{ "'content_type': '*'", "/", 200, "", false },
		{ "'not': {'content_type': 'text/*'}", "/", 200, "", true },
		{ "'not': {'content_type': 'text/*'}", "/", 200, "text/css", false },
		{ "'not': {'path': '/a*', 'status': 404}", "/a", 404, "", false },
		{ "'not': {'path': '/a*', 'status': 404}", "/b", 404, "", true },
		{ "'not': {'path': '/a*', 'status': 404}", "/a", 200, "", true },
		{ "'status': '2xx', 'not': {'path': '/a*'}", "/a", 200, "", false },
		{ "'status': '2xx', 'not': {'status': 206}", "/", 206, "", false },
		{ "'status': '2xx', 'not': {'status': 206}", "/", 200, "", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct http_fields none = { 0 };
		char text[1024];
		struct conf_cache cache;
		struct conf_ruling ruling;

		snprintf(text, sizeof(text), WITH_RULE("'match': {%s}, 'cache': {'ttl': 1}"),
			 cases[i].match);
		struct conf *c = build(text);
		struct conf_request r = { .path = view_str(cases[i].path), .fields = &none };

		conf_request_rules(&c->sites[0], &r, &cache, &ruling);
		conf_response_rules(&c->sites[0], cases[i].status, view_str(cases[i].type), &cache,
				    &ruling);
		if (cache.rule_ttl_ms != (cases[i].fits ? 1000 : -1) ||
		    ruling.rule != (cases[i].fits ? 0 : -1))
			fail_msg("case %zu: %s", i, cases[i].match);
		conf_unref(c);
	}
}

/* A rule that waits for the answer stands where it is written; another answer is judged anew. */
static void late_rules_keep_their_place(void **state)
{
	const struct http_fields none = { 0 };
	struct conf *c = build(WITH_SITE(
		"'rules': [{'match': {'status': 404}, 'cache': {'ttl': 1, 'max_variants': 7}},"
		"{'match': {'path': '/a*'}, 'cache': {'ttl': 2}},"
		"{'match': {'status': 404, 'path': '/ab'}, 'cache': {'bypass': true}}]"));
	struct conf_request r = { .path = VIEW("/a"), .fields = &none };
	struct conf_cache cache;
	struct conf_ruling ruling;

	(void)state;
	assert_true(c->sites[0].rules_on_answer);
	conf_request_rules(&c->sites[0], &r, &cache, &ruling);
	assert_int_equal(cache.rule_ttl_ms, 2000);
	assert_int_equal(ruling.rule, 1);
	conf_response_rules(&c->sites[0], 404, VIEW(""), &cache, &ruling);
	assert_int_equal(cache.rule_ttl_ms, 2000);
	assert_int_equal(cache.max_variants, 7);
	assert_int_equal(ruling.rule, 1);
	conf_response_rules(&c->sites[0], 200, VIEW(""), &cache, &ruling);
	assert_int_equal(cache.max_variants, 64);
	r.path = VIEW("/ab");
	conf_request_rules(&c->sites[0], &r, &cache, &ruling);
	conf_response_rules(&c->sites[0], 404, VIEW(""), &cache, &ruling);
	assert_true(cache.bypass);
	assert_int_equal(ruling.rule, 2);
	conf_unref(c);
}

static void the_last_answer_wins(void **state)
{
	const struct http_fields none = { 0 };
	struct conf *c = build(WITH_SITE(
		"'rules': [{'match': {'path': '/a*'}, 'respond': {'status': 403, 'body': 'no'}},"
		"{'match': {'path': '/ab*'}, 'redirect': '/c'},"
		"{'match': {'path': '/abc*'}, 'respond': {'headers': {'content-type': 'a/b'}, "
		"'body': 'x'}}]"));
	struct conf_request r = { .path = VIEW("/"), .fields = &none };
	struct conf_cache cache;
	struct conf_ruling ruling;

	(void)state;
	conf_request_rules(&c->sites[0], &r, &cache, &ruling);
	assert_null(ruling.respond);
	r.path = VIEW("/a");
	conf_request_rules(&c->sites[0], &r, &cache, &ruling);
	assert_int_equal(ruling.respond->status, 403);
	assert_view(ruling.respond->body, "no");
	assert_int_equal(ruling.respond->headers.count, 1);
	assert_view(ruling.respond->headers.at[0].value, "text/plain; charset=utf-8");
	r.path = VIEW("/ab");
	conf_request_rules(&c->sites[0], &r, &cache, &ruling);
	assert_int_equal(ruling.respond->status, 302);
	assert_view(ruling.respond->location, "/c");
	r.path = VIEW("/abc");
	conf_request_rules(&c->sites[0], &r, &cache, &ruling);
	assert_int_equal(ruling.respond->status, 200);
	assert_int_equal(ruling.respond->headers.count, 1);
	conf_unref(c);
}

/* Which rules a purge must think of. */
static void knows_what_a_url_says_of_a_rule(void **state)
{
	static const struct {
		const char *match;
		enum conf_likely likely;
	} cases[] = {
		{ "", CONF_YES },
		{ "'path': '/a', 'host': 'a.test', 'query': 'q'", CONF_YES },
		{ "'path': '/b'", CONF_NO },
		{ "'query': 'z'", CONF_NO },
		{ "'host': 'b.test'", CONF_NO },
		{ "'path': '/b', 'method': 'GET'", CONF_NO },
		{ "'path': '/a', 'method': 'GET'", CONF_MAYBE },
		{ "'header': '*'", CONF_MAYBE },
		{ "'cookie': '*'", CONF_MAYBE },
		{ "'client': '::1'", CONF_MAYBE },
		{ "'not': {'path': '/a'}", CONF_NO },
		{ "'not': {'path': '/b'}", CONF_YES },
		{ "'not': {'path': '/b', 'cookie': 'c'}", CONF_YES },
		{ "'not': {'path': '/a', 'cookie': 'c'}", CONF_MAYBE },
		{ "'method': 'MKCOL', 'not': {'path': '/b'}", CONF_MAYBE },
	};
	const struct conf_request r = { .path = VIEW("/a"), .query = VIEW("?q"), .host = VIEW("a.test") };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[1024];

		snprintf(text, sizeof(text), WITH_RULE("'match': {%s}, 'cache': {'ttl': 1}"),
			 cases[i].match);
		struct conf *c = build(text);

		if (conf_rule_for_url(&c->sites[0].rules[0], &r) != cases[i].likely)
			fail_msg("%s", cases[i].match);
		conf_unref(c);
	}
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
		cmocka_unit_test(matches_what_a_request_says),
		cmocka_unit_test(matches_what_an_answer_says),
		cmocka_unit_test(late_rules_keep_their_place),
		cmocka_unit_test(the_last_answer_wins),
		cmocka_unit_test(knows_what_a_url_says_of_a_rule),
		cmocka_unit_test(each_key_has_bytes_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
