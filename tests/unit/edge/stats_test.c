/* The statistics page: counting across processes, buckets, and both forms of output. */
#include "edge/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Slots are not places in the file. */
static struct conf_site sites[] = {
	{ .name = { "shop", 4 }, .slot = 7 },
	{ .name = { "a\"b\\c", 5 }, .slot = 0 },
};
static const struct conf conf = { .sites = sites, .site_count = ARRAY_LEN(sites) };

/* --- counting --------------------------------------------------------------------------------- */

static void test_a_new_page_is_zero(void **state)
{
	struct stats *s = stats_new(2);
	struct stats_site site, zero_site = { 0 };
	struct stats_gauges gauges, zero_gauges = { 0 };

	(void)state;
	assert_int_equal(stats_workers(s), 2);
	stats_site_total(s, CONF_SITES_MAX - 1, &site);
	assert_memory_equal(&site, &zero_site, sizeof(site));
	stats_worker_get(s, 1, &gauges);
	assert_memory_equal(&gauges, &zero_gauges, sizeof(gauges));
	stats_free(s);
	stats_free(NULL);
}

static void test_slots_share_no_cache_line(void **state)
{
	struct stats *s = stats_new(2);
	struct stats_worker *w = stats_worker(s, 1);

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal((uintptr_t)stats_site(w, i) % 64, 0);
	assert_int_equal((uintptr_t)&w->gauges % 64, 0);
	stats_free(s);
}

static void test_a_request(void **state)
{
	struct stats *s = stats_new(1);
	struct stats_site *site = stats_site(stats_worker(s, 0), 7), total;

	(void)state;
	stats_request(site, 200, STATS_HIT, 100, 250, 900);
	stats_request(site, 404, STATS_PASS, 5, 2000, 4000);
	stats_request(site, 0, STATS_ERROR, 0, -1, 61000000); /* the client left before anything was sent */
	stats_site_total(s, 7, &total);
	assert_int_equal(total.answers[STATS_HIT][2], 1);
	assert_int_equal(total.answers[STATS_PASS][4], 1);
	assert_int_equal(total.answers[STATS_ERROR][0], 1);
	assert_int_equal(total.sent_bytes, 105);
	assert_int_equal(total.ttfb.sum_us, 2250);
	assert_int_equal(total.ttfb.count[1], 1);
	assert_int_equal(total.ttfb.count[3], 1);
	assert_int_equal(total.duration.sum_us, 61004900);
	assert_int_equal(total.duration.count[STATS_BUCKETS - 1], 1);
	stats_site_total(s, 6, &total);
	assert_int_equal(total.sent_bytes, 0);
	stats_free(s);
}

static void test_buckets(void **state)
{
	static const struct {
		int64_t us;
		unsigned bucket;
	} rows[] = {
		{ -5, 0 },	{ 0, 0 },	  { 100, 0 },	    { 101, 1 },
		{ 300, 1 },	{ 301, 2 },	  { 1000, 2 },	    { 999999, 8 },
		{ 1000001, 9 }, { 60000000, 12 }, { 60000001, 13 }, { INT64_MAX / 2, 13 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct stats_histogram h = { 0 };
		stats_observe(&h, rows[i].us);
		assert_int_equal(h.count[rows[i].bucket], 1);
		assert_int_equal(h.sum_us, rows[i].us > 0 ? rows[i].us : 0);
	}
}

static void child_counts(struct stats *s, unsigned worker)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		struct stats_worker *w = stats_worker(s, worker);
		for (int i = 0; i < 1000; i++)
			stats_add(&stats_site(w, 7)->origin_requests, worker + 1);
		stats_set(&w->gauges.connections, 4);
		stats_add(&w->gauges.accepted, 9);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_workers_add_up(void **state)
{
	struct stats *s = stats_new(3);
	struct stats_site total;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		child_counts(s, i);
	stats_site_total(s, 7, &total);
	assert_int_equal(total.origin_requests, 6000);
	stats_free(s);
}

static void test_a_successor_counts_on(void **state)
{
	struct stats *s = stats_new(1);
	struct stats_gauges gauges;
	struct stats_site total;

	(void)state;
	child_counts(s, 0);
	stats_worker_get(s, 0, &gauges);
	assert_int_equal(gauges.connections, 4);
	stats_add(&stats_site(stats_worker(s, 0), 7)->origin_requests, 1);
	stats_worker_get(s, 0, &gauges);
	assert_int_equal(gauges.connections, 0);
	assert_int_equal(gauges.accepted, 9);
	stats_site_total(s, 7, &total);
	assert_int_equal(total.origin_requests, 1001);
	stats_free(s);
}

static void test_loop_lag(void **state)
{
	struct stats *s = stats_new(1);
	struct stats_worker *w = stats_worker(s, 0);

	(void)state;
	stats_loop_lag(w, 500);
	stats_loop_lag(w, 20);
	assert_int_equal(w->gauges.loop_lag_us, 20);
	assert_int_equal(w->gauges.loop_lag_max_us, 500);
	stats_free(s);
}

/* --- output ----------------------------------------------------------------------------------- */

typedef void write_fn(const struct stats *s, const struct conf *conf, FILE *to);

static void open_metrics(const struct stats *s, const struct conf *c, FILE *to)
{
	struct metrics m = { .to = to, .form = METRICS_OPEN };

	assert_int_equal(stats_metrics(s, c, &m), 0);
	metrics_end(&m);
}

static char *written(const struct stats *s, write_fn *write_stats)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);

	assert_non_null(to);
	write_stats(s, &conf, to);
	assert_int_equal(fclose(to), 0);
	return text;
}

static struct stats *example(void)
{
	const struct cache_scope host = { .kind = CACHE_SCOPE_HOST };
	struct stats *s = stats_new(2);

	for (unsigned i = 0; i < 2; i++) {
		struct stats_worker *w = stats_worker(s, i);
		stats_request(stats_site(w, 7), 200, STATS_HIT, 50, 250, 900);
		stats_set(&w->gauges.connections, 3 + i);
		stats_loop_lag(w, 1500);
	}
	stats_request(stats_site(stats_worker(s, 1), 0), 503, STATS_ERROR, 0, 100, 2000000);
	stats_origin_error(stats_site(stats_worker(s, 1), 7), FETCH_CONNECTION_REFUSED);
	stats_purged(stats_keeper_purges(s), (struct cache_scope[]){ host, host }, 2, true);
	stats_purged(&stats_worker(s, 1)->purges, &host, 1, true);
	return s;
}

static void assert_has(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		fail_msg("«%s» is not in:\n%s", part, text);
}

static void test_openmetrics(void **state)
{
	struct stats *s = example();
	char *text = written(s, open_metrics);

	(void)state;
	assert_has(text, "# TYPE brim_build info\n");
	assert_has(text, "# TYPE brim_requests counter\n# HELP brim_requests ");
	assert_has(text, "\nbrim_requests_total{site=\"shop\",cache=\"hit\",class=\"2xx\"} 2\n");
	assert_has(text, "\nbrim_requests_total{site=\"shop\",cache=\"miss\",class=\"2xx\"} 0\n");
	assert_null(strstr(text, "{site=\"shop\",cache=\"miss\",class=\"5xx\"}"));
	assert_has(text,
		   "\nbrim_requests_total{site=\"a\\\"b\\\\c\",cache=\"error\",class=\"5xx\"} 1\n");
	assert_has(text,
		   "\nbrim_origin_errors_total{site=\"shop\",type=\"connection_refused\"} 1\n");
	assert_has(text, "\nbrim_purged_scopes_total{scope=\"host\",mode=\"soft\"} 3\n");
	assert_has(text, "# TYPE brim_sent_bytes counter\n# UNIT brim_sent_bytes bytes\n");
	assert_has(text, "\nbrim_sent_bytes_total{site=\"shop\"} 100\n");
	assert_has(text, "# TYPE brim_request_duration_seconds histogram\n"
			 "# UNIT brim_request_duration_seconds seconds\n");
	assert_has(text, "\nbrim_request_duration_seconds_bucket{site=\"shop\",le=\"0.0003\"} 0\n"
			 "brim_request_duration_seconds_bucket{site=\"shop\",le=\"0.001\"} 2\n");
	assert_has(text, ",le=\"60.0\"} 2\n"
			 "brim_request_duration_seconds_bucket{site=\"shop\",le=\"+Inf\"} 2\n"
			 "brim_request_duration_seconds_count{site=\"shop\"} 2\n"
			 "brim_request_duration_seconds_sum{site=\"shop\"} 0.001800\n");
	assert_has(text, "\nbrim_worker_connections{worker=\"0\"} 3\n");
	assert_has(text, "\nbrim_worker_loop_lag_seconds{worker=\"0\"} 0.001500\n");
	assert_has(text, "\nbrim_worker_accepted_connections_total{worker=\"1\"} 0\n");
	free(text);
	stats_free(s);
}

/* Every sample stands below its own family's TYPE, no family comes twice, EOF is the end. */
static void test_openmetrics_is_in_order(void **state)
{
	struct stats *s = example();
	char *text = written(s, open_metrics), *rest = NULL;
	char family[128] = "";
	unsigned families = 0;

	(void)state;
	size_t n = strlen(text);
	assert_true(n > 6 && strcmp(text + n - 6, "# EOF\n") == 0);
	for (char *line = strtok_r(text, "\n", &rest); line != NULL;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (sscanf(line, "# TYPE %127s", family) == 1) {
			char again[160];
			snprintf(again, sizeof(again), "# TYPE %s ", family);
			assert_null(rest != NULL ? strstr(rest, again) : NULL);
			families++;
		} else if (line[0] != '#') {
			assert_int_equal(strncmp(line, family, strlen(family)), 0);
		}
	}
	assert_true(families >= 1 + 7 + 2 + 8);
	free(text);
	stats_free(s);
}

/* The first hundred sites have labels of their own, and one of that name has not. */
static void test_many_sites(void **state)
{
	enum { SITES = STATS_SITES_NAMED + 5 };
	struct conf_site many[SITES] = { { .name = { "other", 5 } } };
	char names[SITES][8];
	const struct conf big = { .sites = many, .site_count = SITES };
	struct stats *s = stats_new(1);
	char *text = NULL;
	size_t n = 0;

	(void)state;
	for (unsigned i = 0; i < SITES; i++) {
		if (i > 0)
			many[i].name = view_of(
				names[i], (size_t)snprintf(names[i], sizeof(names[i]), "s%u", i));
		many[i].slot = (uint16_t)i;
		stats_add(&stats_site(stats_worker(s, 0), i)->fills, 10);
	}
	FILE *to = open_memstream(&text, &n);
	open_metrics(s, &big, to);
	assert_int_equal(fclose(to), 0);
	assert_has(text, "brim_fills_total{site=\"s100\"} 10\n");
	assert_null(strstr(text, "site=\"s101\""));
	assert_has(text, "brim_fills_total{site=\"other\"} 50\n");
	free(text);
	stats_free(s);
}

static void test_json(void **state)
{
	struct stats *s = example();
	char *text = written(s, stats_json);

	(void)state;
	assert_has(text, "{\"sites\":{\"shop\":{\"responses\":{\"1xx\":0,\"2xx\":2,");
	assert_has(text, ",\"requests\":{\"hit\":2,\"miss\":0,");
	assert_has(text, ",\"sent_bytes\":100,");
	assert_has(text, ",\"request_duration_seconds\":{\"buckets\":{\"0.0001\":0,\"0.0003\":0,"
			 "\"0.001\":2,");
	assert_has(text, "\"+Inf\":2},\"count\":2,\"sum\":0.001800}");
	assert_has(text, "\"a\\\"b\\\\c\":{\"responses\"");
	assert_has(text, "},\"workers\":[{\"connections\":3,");
	assert_has(text, ",\"loop_lag_seconds\":0.001500,");
	int depth = 0;
	for (const char *p = text; *p != '\0'; p++)
		depth += *p == '{' || *p == '[' ? 1 : *p == '}' || *p == ']' ? -1 : 0;
	assert_int_equal(depth, 0);
	free(text);
	stats_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_new_page_is_zero),
		cmocka_unit_test(test_slots_share_no_cache_line),
		cmocka_unit_test(test_a_request),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_workers_add_up),
		cmocka_unit_test(test_a_successor_counts_on),
		cmocka_unit_test(test_loop_lag),
		cmocka_unit_test(test_openmetrics),
		cmocka_unit_test(test_openmetrics_is_in_order),
		cmocka_unit_test(test_many_sites),
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
