/* What a snapshot holds: defaults, given values, layers of "defaults". */
#include "tests/unit/conf/testing.h"

static void has_the_interfaces_defaults(void **state)
{
	struct conf *c = build("{" LISTENERS ", " STORES ", " ORIGINS ", " SITES "}");
	const struct conf_cache *cache = &c->sites[0].cache;

	(void)state;
	assert_view(c->name, "brim");
	assert_in_range(c->workers, 1, CONF_WORKERS_MAX);
	assert_view(c->user, "brim");
	assert_int_equal(c->shutdown_timeout_ms, 30000);
	assert_int_equal(c->trusted_proxies.count + c->downstream.count, 0);
	assert_view(c->listeners[0].health_path, "");
	assert_int_equal(c->admin_listen.count, 1);
	assert_view(c->admin_listen.at[0], "unix:/run/brim/admin.sock");
	assert_int_equal(c->admin_socket_mode, 0660);
	assert_view(c->access_path, "");
	assert_false(c->access_combined);
	assert_view(c->error_path, "stderr");
	assert_int_equal(c->error_level, LOG_LEVEL_INFO);
	assert_view(c->request_id_header, "X-Request-ID");
	assert_int_equal(c->limits.header_bytes, 32768);
	assert_int_equal(c->limits.headers, 100);
	assert_int_equal(c->limits.header_timeout_ms, 10000);
	assert_int_equal(c->limits.body_timeout_ms, 30000);
	assert_int_equal(c->limits.send_timeout_ms, 60000);
	assert_int_equal(c->limits.idle_timeout_ms, 60000);
	assert_int_equal(c->limits.connections + c->limits.connections_per_client, 0);
	assert_int_equal(c->limits.tunnel_timeout_ms, 600000);
	assert_int_equal(c->limits.h2.streams, 128);
	assert_int_equal(c->limits.h2.resets_per_minute, 200);
	assert_int_equal(c->limits.h2.controls_per_minute, 1000);
	assert_true(c->listeners[0].http1 && !c->listeners[0].http2 && !c->listeners[0].tls);
	assert_int_equal(c->listeners[0].proxy_from.count, 0);
	assert_int_equal(c->metrics_listen.count + c->token_count + c->admin_hosts.count, 0);
	assert_int_equal(c->tls_directory_count + c->ticket_keys.count, 0);
	assert_int_equal(c->ticket_rotate_ms, 12 * 3600000);
	assert_true(c->origins[0].tls.verify);
	assert_view(c->origins[0].tls.ca, "");
	assert_int_equal(c->sites[0].tls.certificate_count, 0);
	assert_int_equal(c->sites[0].hsts.max_age_ms, -1);
	assert_false(c->sites[0].https_redirect || c->sites[0].tls.early_data ||
		     c->sites[0].tls.fallback);
	assert_int_equal(c->sites[0].upgrade.count, 1);
	assert_view(c->sites[0].upgrade.at[0], "websocket");
	assert_view(c->stores[0].name, "/srv/cache");
	assert_view(c->sites[0].name, "shop.example");
	assert_int_equal(c->sites[0].max_request_body, 1 << 30);
	assert_false(c->sites[0].purge_allowed);
	assert_int_equal(cache->default_ttl_ms + cache->min_ttl_ms, 0);
	assert_int_equal(cache->max_ttl_ms, 365LL * 86400000);
	assert_int_equal(cache->rule_ttl_ms, -1);
	assert_false(cache->bypass);
	assert_true(cache->heuristic);
	assert_false(cache->heuristic_all);
	assert_int_equal(cache->client_ttl_ms, -1);
	assert_int_equal(cache->targeted.count, 1);
	assert_view(cache->targeted.at[0], "CDN-Cache-Control");
	assert_true(cache->deception_guard && cache->normalise_accept_encoding && cache->no_vary_search);
	assert_int_equal(cache->accept_languages.count + cache->pass_headers.count, 0);
	assert_int_equal(cache->set_cookie, CONF_SET_COOKIE_PASS);
	assert_false(cache->honour_request_directives);
	assert_false(cache->ignore_cache_control || cache->ignore_expires || cache->ignore_set_cookie);
	assert_int_equal(cache->max_object_bytes, 0);
	assert_int_equal(cache->max_object_percent, 25);
	assert_int_equal(cache->max_variants, 64);
	assert_true(cache->key_host);
	assert_false(cache->key_scheme || cache->key_show || conf_query_changes(&cache->key_query));
	assert_int_equal(c->sites[0].query_count, 1);
	assert_false(c->sites[0].rules_on_answer);
	assert_int_equal(cache->tag_headers.count, 3);
	assert_view(cache->tag_headers.at[1], "Cache-Tag");
	assert_int_equal(cache->collapse_wait_ms, 30000);
	assert_true(cache->collapse_share);
	assert_int_equal(cache->fill_after_abort, CONF_ABORT_AUTO);
	conf_unref(c);
}

static void reads_origins(void **state)
{
	struct conf *c = build(
		"{" BASE ", 'sites': [], 'origins': {'a': {'servers': ["
		"{'url': 'http://10.0.0.5:8080', 'weight': 3, 'max_connections': 10},"
		"{'url': 'http://[::1]:81/', 'backup': true}, {'url': 'http://Web.Example'}],"
		"'host': 'www.example', 'retries': 0, 'timeouts': {'connect': 0.25}},"
		"'b': {'servers': [{'url': 'http://[::1]'}], 'host': 'server'}}}");
	const struct conf_origin *a = &c->origins[0], *b = &c->origins[1];

	(void)state;
	assert_int_equal(c->origin_count, 2);
	assert_int_equal(a->server_count, 3);
	assert_true(a->servers[0].literal);
	assert_int_equal(ntohs(a->servers[0].address.v4.sin_port), 8080);
	assert_view(a->servers[0].authority, "10.0.0.5:8080");
	assert_int_equal(a->servers[0].weight, 3);
	assert_int_equal(a->servers[0].max_connections, 10);
	assert_view(a->servers[1].host, "::1");
	assert_view(a->servers[1].authority, "[::1]:81");
	assert_true(a->servers[1].backup && a->servers[1].literal);
	assert_false(a->servers[2].literal);
	assert_view(a->servers[2].host, "web.example");
	assert_view(a->servers[2].authority, "web.example");
	assert_int_equal(a->servers[2].port, 80);
	assert_int_equal(a->servers[2].slot, 2);
	assert_view(a->host, "www.example");
	assert_false(a->host_client);
	assert_int_equal(a->retries, 0);
	assert_int_equal(a->connect_ms, 250);
	assert_int_equal(a->first_byte_ms, 30000);
	assert_view(b->host, "");
	assert_false(b->host_client);
	assert_view(b->servers[0].authority, "[::1]");
	conf_unref(c);
}

static void reads_cache(void **state)
{
	struct conf *c = build(WITH_CACHE(
		"'default_ttl': '5m', 'statuses': {'404': '10s', '5xx': 1}, 'set_cookie': 'store',"
		"'request_directives': 'honour', 'ignore_headers': ['Cache-Control', 'set-cookie'],"
		"'max_object_size': '10MiB', 'key': {'query': 'none', 'headers': ['X-A'], 'host': "
		"false, 'show': true}, 'client_ttl': '1h', 'targeted': ['A-CDN', "
		"'CDN-Cache-Control'],"
		"'normalise': {'accept_encoding': false, 'accept_language': ['en', 'pt-BR']},"
		"'pass_headers': 'x-rewrite-url', 'deception_guard': false, 'no_vary_search': "
		"false, 'heuristic': 'all',"
		"'collapse': {'on_failure': 'retry'}, 'fill_after_abort': 'never', 'tag_headers': "
		"[]"));
	const struct conf_cache *cache = &c->sites[0].cache;

	(void)state;
	assert_int_equal(cache->default_ttl_ms, 300000);
	assert_int_equal(cache->status_count, 2);
	assert_int_equal(cache->statuses[0].from, 404);
	assert_int_equal(cache->statuses[1].to, 599);
	assert_int_equal(cache->statuses[1].ttl_ms, 1000);
	assert_int_equal(cache->set_cookie, CONF_SET_COOKIE_STORE);
	assert_true(cache->honour_request_directives);
	assert_true(cache->ignore_cache_control && cache->ignore_set_cookie);
	assert_false(cache->ignore_expires);
	assert_int_equal(cache->max_object_bytes, 10 << 20);
	assert_int_equal(cache->max_object_percent, 0);
	assert_int_equal(cache->key_query.kind, CONF_QUERY_NONE);
	assert_true(cache->key_show && cache->heuristic && cache->heuristic_all);
	assert_int_equal(cache->client_ttl_ms, 3600000);
	assert_int_equal(cache->targeted.count, 2);
	assert_false(cache->normalise_accept_encoding || cache->deception_guard ||
		     cache->no_vary_search);
	assert_view(cache->accept_languages.at[1], "pt-BR");
	assert_view(cache->pass_headers.at[0], "x-rewrite-url");
	assert_false(cache->key_host || cache->collapse_share);
	assert_view(cache->key_headers.at[0], "X-A");
	assert_int_equal(cache->fill_after_abort, CONF_ABORT_NEVER);
	assert_int_equal(cache->tag_headers.count, 0);
	conf_unref(c);
}

static void reads_query_filters(void **state)
{
	static const struct {
		const char *text;
		enum conf_query_kind kind;
		bool sort;
		size_t names;
	} cases[] = {
		{ WITH_CACHE("'key': {'query': 'all'}"), CONF_QUERY_ALL, false, 0 },
		{ WITH_CACHE("'key': {'query': {}}"), CONF_QUERY_ALL, false, 0 },
		{ WITH_CACHE("'key': {'query': {'sort': true}}"), CONF_QUERY_ALL, true, 0 },
		{ WITH_CACHE("'key': {'query': {'only': 'id'}}"), CONF_QUERY_ONLY, false, 1 },
		{ WITH_CACHE("'key': {'query': {'except': ['utm_*', 'fbclid'], 'sort': true}}"),
		  CONF_QUERY_EXCEPT, true, 2 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct conf *c = build(cases[i].text);
		const struct conf_query *q = &c->sites[0].cache.key_query;

		assert_int_equal(q->kind, cases[i].kind);
		assert_int_equal(q->sort, cases[i].sort);
		assert_int_equal(q->names.count, cases[i].names);
		conf_unref(c);
	}
}

/* A rule may take back what its site says. */
static void null_takes_a_client_ttl_back(void **state)
{
	struct conf *c = build(WITH_SITE(
		"'cache': {'client_ttl': 0}, 'rules': [{'cache': {'client_ttl': null}}]"));

	(void)state;
	assert_int_equal(c->sites[0].cache.client_ttl_ms, 0);
	assert_int_equal(c->sites[0].rules[0].cache.client_ttl_ms, -1);
	conf_unref(c);
}

static void defaults_lie_under_sites_and_origins(void **state)
{
	struct conf *c = build(
		"{" BASE ", 'defaults': {'origin': {'retries': 3, 'timeouts': {'connect': '1s'}},"
		"'site': {'origin': 'a', 'purge_from': ['::1'], 'max_request_body': 5,"
		"  'cache': {'default_ttl': '1m', 'key': {'scheme': true}, 'statuses': {'404': "
		"1}}}},"
		"'origins': {'a': {'servers': [{'url': 'http://a'}], 'timeouts': {'first_byte': "
		"1}},"
		"           'b': {'servers': [{'url': 'http://b'}], 'retries': 0}},"
		"'sites': [{'hosts': 'x'}, {'hosts': 'y', 'origin': 'b', 'purge_from': [],"
		"  'cache': {'min_ttl': '1s', 'default_ttl': 0, 'statuses': {'500': 2}}}]}");

	(void)state;
	assert_int_equal(c->origins[0].retries, 3);
	assert_int_equal(c->origins[0].connect_ms, 1000);
	assert_int_equal(c->origins[0].first_byte_ms, 1000);
	assert_int_equal(c->origins[1].retries, 0);
	assert_ptr_equal(c->sites[0].origin, &c->origins[0]);
	assert_int_equal(c->sites[0].cache.default_ttl_ms, 60000);
	assert_true(c->sites[0].purge_allowed);
	assert_int_equal(c->sites[1].max_request_body, 5);
	assert_ptr_equal(c->sites[1].origin, &c->origins[1]);
	assert_false(c->sites[1].purge_allowed);
	assert_int_equal(c->sites[1].cache.default_ttl_ms, 0);
	assert_true(c->sites[1].cache.key_scheme);
	assert_int_equal(c->sites[1].cache.status_count, 1);
	assert_int_equal(c->sites[1].cache.statuses[0].from, 500);
	conf_unref(c);
}

static void null_is_none_where_there_may_be_none(void **state)
{
	struct conf *c = build(WITH_ROOT(
		"'log': {'access': {'path': null, 'format': 'combined'}, 'request_id': null}"));

	(void)state;
	assert_view(c->request_id_header, "");
	assert_view(c->access_path, "");
	assert_true(c->access_combined);
	conf_unref(c);
}

static void references_are_counted(void **state)
{
	struct conf *c = build(WITH_SITE("'name': 's'"));

	(void)state;
	assert_ptr_equal(conf_ref(c), c);
	conf_unref(c);
	assert_view(c->sites[0].name, "s");
	assert_int_equal(c->generation, 1);
	conf_unref(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(has_the_interfaces_defaults),
		cmocka_unit_test(reads_origins),
		cmocka_unit_test(reads_cache),
		cmocka_unit_test(reads_query_filters),
		cmocka_unit_test(null_takes_a_client_ttl_back),
		cmocka_unit_test(defaults_lie_under_sites_and_origins),
		cmocka_unit_test(null_is_none_where_there_may_be_none),
		cmocka_unit_test(references_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
