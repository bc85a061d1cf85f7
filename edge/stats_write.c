/*
 * The statistics page, written out: as metrics and as JSON. What there is to tell stands in tables (name, unit, help,
 * place in the struct), from which both forms are made, so that they can't drift apart.
 *
 * A label's values are bounded: of sites the first STATS_SITES_NAMED of the configuration have their own, the rest is summed up
 * as "other" (as is a site that is called so). Combinations that are many and mostly never happen (a cache result with
 * a status class, errors of an origin) appear with their first count, except for answers of 2xx.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "edge/base/json.h"
#include "edge/stats.h"

#define SITE(member) offsetof(struct stats_site, member)
#define GAUGE(member) offsetof(struct stats_gauges, member)

static const char *const results[STATS_RESULTS] = {
	[STATS_HIT] = "hit",	 [STATS_MISS] = "miss",
	[STATS_STALE] = "stale", [STATS_REVALIDATED] = "revalidated",
	[STATS_PASS] = "pass",	 [STATS_BYPASS] = "bypass",
	[STATS_ERROR] = "error",
};
static const char *const classes[STATS_CLASSES] = { "none", "1xx", "2xx", "3xx", "4xx", "5xx" };
static const char *const scopes[STATS_SCOPES] = {
	[CACHE_SCOPE_URL] = "url",
	[CACHE_SCOPE_PREFIX] = "prefix",
	[CACHE_SCOPE_TAG] = "tag",
	[CACHE_SCOPE_HOST] = "host",
	[CACHE_SCOPE_SITE] = "site",
	[CACHE_SCOPE_ALL] = "all",
	[CACHE_SCOPE_TAG_ANYWHERE] = "tag_of_all_sites",
};

/* Counters of a site. */
static const struct site_family {
	const char *name, *unit, *help;
	size_t offset;
} site_families[] = {
	{ "sent_bytes", "bytes", "Bodies sent to clients.", SITE(sent_bytes) },
	{ "origin_received_bytes", "bytes", "Bodies received from origins.", SITE(origin_bytes) },
	{ "request_body_bytes", "bytes", "Bodies received from clients.", SITE(request_body_bytes) },
	{ "origin_requests", NULL, "Requests sent to origins.", SITE(origin_requests) },
	{ "fills", NULL, "Objects whose writing to a store began.", SITE(fills) },
	{ "fills_broken", NULL, "Those of them that were not finished.", SITE(fills_broken) },
	{ "followers", NULL, "Requests that another's request to the origin answered.", SITE(followers) },
	{ "fill_waits", NULL, "Times that a request waited for another's to the same object.",
	  SITE(fill_waits) },
	{ "untaggable_responses", NULL,
	  "Responses not stored since they have more tags than can be kept.", SITE(untaggable) },
};

static const struct histogram_family {
	const char *name, *help;
	size_t offset;
} histograms[] = {
	{ "request_duration_seconds", "From a request's first byte to its answer's last.",
	  SITE(duration) },
	{ "time_to_first_byte_seconds", "From a request's first byte to its answer's first.",
	  SITE(ttfb) },
	{ "origin_time_to_first_byte_seconds", "From asking an origin to its answer's head.",
	  SITE(origin_ttfb) },
};

static const struct gauge_family {
	const char *name, *unit, *help;
	size_t offset;
	bool counter;
} gauge_families[] = {
	{ "worker_connections", NULL, "Client connections open.", GAUGE(connections), false },
	{ "worker_requests", NULL, "Requests being served.", GAUGE(requests), false },
	{ "worker_accepted_connections", NULL, "Client connections accepted.", GAUGE(accepted), true },
	{ "worker_bad_proxy_headers", NULL,
	  "Connections closed for the lack of a valid PROXY header.", GAUGE(proxy_headers_bad), true },
	{ "worker_loop_lag_seconds", "seconds", "The event loop's longest turn in the last second.",
	  GAUGE(loop_lag_us), false },
	{ "worker_loop_lag_max_seconds", "seconds", "Its longest turn ever.",
	  GAUGE(loop_lag_max_us), false },
	{ "worker_origin_idle_connections", NULL, "Connections to origins kept for reuse.",
	  GAUGE(origin_idle), false },
	{ "worker_origin_busy_connections", NULL, "Connections to origins in use.",
	  GAUGE(origin_busy), false },
	{ "worker_origin_tls_handshakes", NULL, "TLS handshakes made with origins.",
	  GAUGE(origin_tls_handshakes), true },
	{ "worker_origin_tls_resumed", NULL, "Those of them that resumed a session.",
	  GAUGE(origin_tls_resumed), true },
	{ "worker_origin_tls_failures", NULL, "TLS handshakes with origins that failed.",
	  GAUGE(origin_tls_failures), true },
	{ "worker_fills", NULL, "Objects being written to a store.", GAUGE(fills), false },
	{ "worker_tunnels", NULL, "Connections that have changed to another protocol (WebSocket).",
	  GAUGE(tunnels), false },
	{ "worker_send_timeouts", NULL,
	  "Answers given up since their client took nothing for send_timeout.",
	  GAUGE(send_timeouts), true },
	{ "worker_hot_hits", NULL,
	  "Objects served from the worker's memory, without reading a file.", GAUGE(hot_hits), true },
	{ "worker_hot_bytes", "bytes", "Memory that objects asked for often take.",
	  GAUGE(hot_bytes), false },
	{ "worker_h2_streams", NULL, "Streams of HTTP/2 that clients began.", GAUGE(h2_streams), true },
};

/* The buckets' upper bounds, as both forms name them. */
static const char *const bounds_text[] = { "0.0001", "0.0003", "0.001", "0.003", "0.01",
					   "0.03",   "0.1",    "0.3",	"1.0",	 "3.0",
					   "10.0",   "30.0",   "60.0",	"+Inf" };
_Static_assert(ARRAY_LEN(bounds_text) == STATS_BUCKETS, "a name for each bucket");

static const char *origin_error(size_t e)
{
	return e == FETCH_OK ? "other" : fetch_error_type((enum fetch_error)e);
}

static uint64_t number(const struct stats_site *total, size_t offset)
{
	return *(const uint64_t *)((const char *)total + offset);
}

static const struct stats_histogram *histogram(const struct stats_site *total, size_t offset)
{
	return (const struct stats_histogram *)((const char *)total + offset);
}

static bool is_seconds(const char *unit)
{
	return unit != NULL && strcmp(unit, "seconds") == 0;
}

/* --- metrics: rows of sites -------------------------------------------------------------------- */

struct row {
	struct view site;
	struct stats_site total;
	uint64_t certificate_expiry_s; /* 0: none */
};

struct rows {
	size_t count;
	struct row at[STATS_SITES_NAMED + 1];
};

static void add_words(uint64_t *to, const uint64_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		to[i] += from[i];
}

static void take_site(struct row *row, const struct stats *s, unsigned slot)
{
	uint64_t expiry = stats_certificate_expiry_s(s, slot);
	struct stats_site total;

	stats_site_total(s, slot, &total);
	add_words((uint64_t *)&row->total, (const uint64_t *)&total, sizeof(total));
	if (expiry != 0 && (row->certificate_expiry_s == 0 || expiry < row->certificate_expiry_s))
		row->certificate_expiry_s = expiry; /* the first to end */
}

static void take_sites(struct rows *rows, const struct stats *s, const struct conf *conf)
{
	const struct view other = VIEW("other");
	struct row *rest = &rows->at[STATS_SITES_NAMED];
	size_t named = 0;

	memset(rows, 0, sizeof(*rows));
	for (size_t i = 0; i < conf->site_count; i++) {
		const struct conf_site *site = &conf->sites[i];
		bool own = named < STATS_SITES_NAMED && !view_eq(site->name, other);
		struct row *row = own ? &rows->at[named++] : rest;

		row->site = own ? site->name : other;
		take_site(row, s, site->slot);
	}
	rows->count = named;
	if (rest->site.n > 0) {
		if (named < STATS_SITES_NAMED)
			rows->at[named] = *rest;
		rows->count++;
	}
}

/* The opening of a sample that has labels besides the site's. */
static void begin_sample(const struct metrics *m, const char *name, const char *suffix,
			 const struct row *row)
{
	fprintf(m->to, "brim_%s%s{", name, suffix);
	metrics_label(m, "site", row->site);
}

static void end_sample(const struct metrics *m, uint64_t value)
{
	fprintf(m->to, "} %llu\n", (unsigned long long)value);
}

static void write_site_family(const struct metrics *m, const struct rows *rows,
			      const struct site_family *f)
{
	metrics_family(m, f->name, "counter", f->unit, f->help);
	for (size_t i = 0; i < rows->count; i++) {
		begin_sample(m, f->name, "_total", &rows->at[i]);
		end_sample(m, number(&rows->at[i].total, f->offset));
	}
}

static void write_answers(const struct metrics *m, const struct row *row)
{
	for (size_t r = 0; r < STATS_RESULTS; r++) {
		for (size_t c = 0; c < STATS_CLASSES; c++) {
			uint64_t n = row->total.answers[r][c];

			if (n == 0 && c != 2)
				continue;
			begin_sample(m, "requests", "_total", row);
			fprintf(m->to, ",cache=\"%s\",class=\"%s\"", results[r], classes[c]);
			end_sample(m, n);
		}
	}
}

static void write_origin_errors(const struct metrics *m, const struct row *row)
{
	for (size_t e = 0; e < STATS_ORIGIN_ERRORS; e++) {
		if (row->total.origin_errors[e] == 0)
			continue;
		begin_sample(m, "origin_errors", "_total", row);
		fprintf(m->to, ",type=\"%s\"", origin_error(e));
		end_sample(m, row->total.origin_errors[e]);
	}
}

static void write_histogram(const struct metrics *m, const struct row *row,
			    const struct histogram_family *f)
{
	const struct stats_histogram *h = histogram(&row->total, f->offset);
	uint64_t below = 0;

	for (size_t i = 0; i < STATS_BUCKETS; i++) {
		below += h->count[i];
		begin_sample(m, f->name, "_bucket", row);
		fprintf(m->to, ",le=\"%s\"", bounds_text[i]);
		end_sample(m, below);
	}
	begin_sample(m, f->name, "_count", row);
	end_sample(m, below);
	begin_sample(m, f->name, "_sum", row);
	fputs("} ", m->to);
	metrics_seconds(m, h->sum_us);
	putc('\n', m->to);
}

static void write_expiry(const struct metrics *m, const struct rows *rows)
{
	metrics_family(m, "tls_certificate_expiry_timestamp_seconds", "gauge", "seconds",
		       "When the first of a site's certificates ends.");
	for (size_t i = 0; i < rows->count; i++) {
		if (rows->at[i].certificate_expiry_s == 0)
			continue;
		begin_sample(m, "tls_certificate_expiry_timestamp_seconds", "", &rows->at[i]);
		end_sample(m, rows->at[i].certificate_expiry_s);
	}
}

static void write_sites(const struct metrics *m, const struct rows *rows)
{
	metrics_family(
		m, "requests", "counter", NULL,
		"Requests answered, by what the cache had to do with it and the status sent.");
	for (size_t i = 0; i < rows->count; i++)
		write_answers(m, &rows->at[i]);
	for (size_t f = 0; f < ARRAY_LEN(site_families); f++)
		write_site_family(m, rows, &site_families[f]);
	metrics_family(m, "origin_errors", "counter", NULL,
		       "Requests to origins that failed, by RFC 9209's type of error.");
	for (size_t i = 0; i < rows->count; i++)
		write_origin_errors(m, &rows->at[i]);
	for (size_t f = 0; f < ARRAY_LEN(histograms); f++) {
		metrics_family(m, histograms[f].name, "histogram", "seconds", histograms[f].help);
		for (size_t i = 0; i < rows->count; i++)
			write_histogram(m, &rows->at[i], &histograms[f]);
	}
	write_expiry(m, rows);
}

/* --- metrics: workers, and the node ------------------------------------------------------------ */

static void write_gauge_family(const struct metrics *m, const struct stats *s,
			       const struct gauge_family *f)
{
	metrics_family(m, f->name, f->counter ? "counter" : "gauge", f->unit, f->help);
	for (unsigned i = 0; i < stats_workers(s); i++) {
		struct stats_gauges g;

		stats_worker_get(s, i, &g);
		uint64_t value = *(const uint64_t *)((const char *)&g + f->offset);
		fprintf(m->to, "brim_%s%s{worker=\"%u\"} ", f->name, f->counter ? "_total" : "", i);
		if (is_seconds(f->unit))
			metrics_seconds(m, value);
		else
			fprintf(m->to, "%llu", (unsigned long long)value);
		putc('\n', m->to);
	}
}

static void write_h2_limits(const struct metrics *m, const struct stats *s)
{
	metrics_family(m, "worker_h2_limited_connections", "counter", NULL,
		       "HTTP/2 connections ended, by the limit that they went over.");
	for (unsigned i = 0; i < stats_workers(s); i++) {
		struct stats_gauges g;

		stats_worker_get(s, i, &g);
		for (unsigned l = 0; l < H2_LIMITS; l++)
			fprintf(m->to, "brim_worker_h2_limited_connections_total{worker=\"%u\",limit=\"%s\"} %llu\n",
				i, h2_limit_name((enum h2_limit)l), (unsigned long long)g.h2_limits[l]);
	}
}

static void write_purges(const struct metrics *m, const struct stats *s)
{
	struct stats_purges total;

	metrics_family(
		m, "purged_scopes", "counter", NULL,
		"Scopes purged by the admin API, PURGE and unsafe methods. A URL may be several.");
	stats_purges_total(s, &total);
	for (size_t k = 0; k < STATS_SCOPES; k++)
		for (size_t soft = 0; soft < 2; soft++)
			fprintf(m->to, "brim_purged_scopes_total{scope=\"%s\",mode=\"%s\"} %llu\n",
				scopes[k], soft ? "soft" : "hard",
				(unsigned long long)total.scopes[k][soft]);
}

int stats_metrics(const struct stats *s, const struct conf *conf, const struct metrics *m)
{
	struct rows *rows = aligned_alloc(_Alignof(struct rows), sizeof(*rows));
	struct stats_tls tls;

	if (rows == NULL)
		return -ENOMEM;
	metrics_family(m, "build", "info", NULL, "This node's version.");
	fputs("brim_build_info{version=\"" BRIM_VERSION "\"} 1\n", m->to);
	take_sites(rows, s, conf);
	write_sites(m, rows);
	free(rows);
	for (size_t i = 0; i < ARRAY_LEN(gauge_families); i++)
		write_gauge_family(m, s, &gauge_families[i]);
	write_h2_limits(m, s);
	stats_tls_total(s, &tls);
	stats_tls_metrics(&tls, m);
	write_purges(m, s);
	return 0;
}

/* --- JSON ----------------------------------------------------------------------------------- */

static void write_json_string(FILE *to, struct view v)
{
	char escaped[256];

	putc('"', to);
	while (v.n > 0) {
		size_t taken, n = json_escape(v, escaped, sizeof(escaped), &taken);
		fwrite(escaped, 1, n, to);
		v = view_skip(v, taken);
	}
	putc('"', to);
}

static void json_number(FILE *to, bool first, const char *name, uint64_t value)
{
	fprintf(to, "%s\"%s\":%llu", first ? "" : ",", name, (unsigned long long)value);
}

/* By class, then by result. */
static void json_answers(FILE *to, const struct stats_site *t)
{
	fputs("\"responses\":{", to);
	for (size_t c = 1; c < STATS_CLASSES; c++) {
		uint64_t sum = 0;

		for (size_t r = 0; r < STATS_RESULTS; r++)
			sum += t->answers[r][c];
		json_number(to, c == 1, classes[c], sum);
	}
	fputs("},\"requests\":{", to);
	for (size_t r = 0; r < STATS_RESULTS; r++) {
		uint64_t sum = 0;

		for (size_t c = 0; c < STATS_CLASSES; c++)
			sum += t->answers[r][c];
		json_number(to, r == 0, results[r], sum);
	}
	putc('}', to);
}

static void json_origin_errors(FILE *to, const struct stats_site *t)
{
	bool first = true;

	fputs(",\"origin_errors\":{", to);
	for (size_t e = 0; e < STATS_ORIGIN_ERRORS; e++) {
		if (t->origin_errors[e] == 0)
			continue;
		json_number(to, first, origin_error(e), t->origin_errors[e]);
		first = false;
	}
	putc('}', to);
}

/* Buckets are cumulative, as in the metrics: requests that took no longer. */
static void json_histogram(FILE *to, const struct stats_histogram *h, const char *name)
{
	struct metrics as_number = { .to = to };
	uint64_t below = 0;

	fprintf(to, ",\"%s\":{\"buckets\":{", name);
	for (size_t i = 0; i < STATS_BUCKETS; i++) {
		below += h->count[i];
		json_number(to, i == 0, bounds_text[i], below);
	}
	fprintf(to, "},\"count\":%llu,\"sum\":", (unsigned long long)below);
	metrics_seconds(&as_number, h->sum_us);
	putc('}', to);
}

static void json_site(FILE *to, const struct stats *s, const struct conf_site *site)
{
	struct stats_site t;

	stats_site_total(s, site->slot, &t);
	write_json_string(to, site->name);
	fputs(":{", to);
	json_answers(to, &t);
	for (size_t i = 0; i < ARRAY_LEN(site_families); i++)
		json_number(to, false, site_families[i].name, number(&t, site_families[i].offset));
	json_origin_errors(to, &t);
	for (size_t i = 0; i < ARRAY_LEN(histograms); i++)
		json_histogram(to, histogram(&t, histograms[i].offset), histograms[i].name);
	json_number(to, false, "certificate_expires", stats_certificate_expiry_s(s, site->slot));
	putc('}', to);
}

static void json_worker(FILE *to, const struct stats *s, unsigned worker)
{
	struct metrics as_number = { .to = to };
	struct stats_gauges g;

	stats_worker_get(s, worker, &g);
	for (size_t i = 0; i < ARRAY_LEN(gauge_families); i++) {
		const struct gauge_family *f = &gauge_families[i];
		uint64_t value = *(const uint64_t *)((const char *)&g + f->offset);

		fprintf(to, "%s\"%s\":", i == 0 ? "{" : ",", f->name + strlen("worker_"));
		if (is_seconds(f->unit))
			metrics_seconds(&as_number, value);
		else
			fprintf(to, "%llu", (unsigned long long)value);
	}
	fputs(",\"h2_limited_connections\":{", to);
	for (unsigned l = 0; l < H2_LIMITS; l++)
		json_number(to, l == 0, h2_limit_name((enum h2_limit)l), g.h2_limits[l]);
	fputs("}}", to);
}

static void json_purges(FILE *to, const struct stats *s)
{
	struct stats_purges total;

	stats_purges_total(s, &total);
	for (size_t k = 0; k < STATS_SCOPES; k++) {
		fprintf(to, "%s\"%s\":{", k == 0 ? "" : ",", scopes[k]);
		json_number(to, true, "hard", total.scopes[k][0]);
		json_number(to, false, "soft", total.scopes[k][1]);
		putc('}', to);
	}
}

void stats_json(const struct stats *s, const struct conf *conf, FILE *to)
{
	struct stats_tls tls;

	fputs("{\"sites\":{", to);
	for (size_t i = 0; i < conf->site_count; i++) {
		if (i > 0)
			putc(',', to);
		json_site(to, s, &conf->sites[i]);
	}
	fputs("},\"workers\":[", to);
	for (unsigned i = 0; i < stats_workers(s); i++) {
		if (i > 0)
			putc(',', to);
		json_worker(to, s, i);
	}
	fputs("],\"purged_scopes\":{", to);
	json_purges(to, s);
	fputs("},\"tls\":{", to);
	stats_tls_total(s, &tls);
	stats_tls_json(&tls, to);
	fputs("}}", to);
}
