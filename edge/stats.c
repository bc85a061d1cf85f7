/*
 * Reading the statistics page and writing it out. What there is to tell stands in tables (name, unit,
 * help, place in the struct), from which both forms are made, so that they can't drift apart.
 *
 * Totals are summed while writing, a counter at a time: a thousand sites and 64 workers make some
 * million loads, and nothing is allocated.
 */
#include "edge/stats.h"

#include "edge/base/json.h"

#include <stddef.h>
#include <sys/mman.h>

enum { STATS_MAGIC = 0x73746174 };

struct stats {
	uint32_t magic;
	unsigned workers;
	struct stats_worker at[];
};

/* Everything in these is a counter or a gauge of 64 bits: they are copied and summed as such. */
_Static_assert(sizeof(struct stats_site) % sizeof(uint64_t) == 0, "words");
_Static_assert(sizeof(struct stats_gauges) % sizeof(uint64_t) == 0, "words");
_Static_assert(sizeof(struct stats_tls) % sizeof(uint64_t) == 0, "words");

static size_t page_bytes(unsigned workers)
{
	return sizeof(struct stats) + workers * sizeof(struct stats_worker);
}

struct stats *stats_new(unsigned workers)
{
	CHECK(workers > 0 && workers <= CONF_WORKERS_MAX);
	/* Memory is taken as it is first written: a slot that no site has costs nothing. */
	struct stats *s = mmap(NULL, page_bytes(workers), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (s == MAP_FAILED)
		return NULL;
	s->magic = STATS_MAGIC;
	s->workers = workers;
	return s;
}

void stats_free(struct stats *s)
{
	if (s == NULL)
		return;
	CHECK_MAGIC(s, STATS_MAGIC);
	munmap(s, page_bytes(s->workers));
}

struct stats_worker *stats_worker(struct stats *s, unsigned worker)
{
	CHECK_MAGIC(s, STATS_MAGIC);
	CHECK(worker < s->workers);
	struct stats_gauges *g = &s->at[worker].gauges;
	uint64_t *open_things[] = { &g->connections, &g->requests, &g->loop_lag_us, &g->origin_idle,
				    &g->origin_busy, &g->fills,	   &g->tunnels };

	for (size_t i = 0; i < ARRAY_LEN(open_things); i++)
		stats_set(open_things[i], 0);
	return &s->at[worker];
}

/* --- reading ------------------------------------------------------------------------------- */

unsigned stats_workers(const struct stats *s)
{
	return s->workers;
}

static uint64_t word(const void *base, size_t offset)
{
	return stats_read((const uint64_t *)((const char *)base + offset));
}

static uint64_t site_total(const struct stats *s, unsigned site_slot, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->workers; i++)
		sum += word(&s->at[i].sites[site_slot], offset);
	return sum;
}

void stats_worker_get(const struct stats *s, unsigned worker, struct stats_gauges *out)
{
	CHECK(worker < s->workers);
	for (size_t at = 0; at < sizeof(*out); at += sizeof(uint64_t))
		*(uint64_t *)((char *)out + at) = word(&s->at[worker].gauges, at);
}

void stats_site_total(const struct stats *s, unsigned site_slot, struct stats_site *out)
{
	CHECK(site_slot < CONF_SITES_MAX);
	for (size_t at = 0; at < sizeof(*out); at += sizeof(uint64_t))
		*(uint64_t *)((char *)out + at) = site_total(s, site_slot, at);
}

/* --- what there is to tell ------------------------------------------------------------------- */

#define SITE(member) offsetof(struct stats_site, member)
#define GAUGE(member) offsetof(struct stats_gauges, member)

/* Counters of a site; with «label» a row of them, one for each value. */
static const struct site_family {
	const char *name, *unit, *help;
	size_t offset;
	const char *label, *values[STATS_RESULTS]; /* NULL behind the last */
} site_families[] = {
	{ "responses",
	  NULL,
	  "Responses sent, by class of status.",
	  SITE(responses),
	  "class",
	  { "1xx", "2xx", "3xx", "4xx", "5xx" } },
	{ "requests",
	  NULL,
	  "Requests answered, by what the cache had to do with it.",
	  SITE(results),
	  "cache",
	  { [STATS_HIT] = "hit",
	    [STATS_MISS] = "miss",
	    [STATS_STALE] = "stale",
	    [STATS_REVALIDATED] = "revalidated",
	    [STATS_PASS] = "pass",
	    [STATS_BYPASS] = "bypass",
	    [STATS_ERROR] = "error" } },
	{ "sent_bytes", "bytes", "Bodies sent to clients.", SITE(sent_bytes), NULL, { NULL } },
	{ "origin_received_bytes", "bytes", "Bodies received from origins.", SITE(origin_bytes), NULL, { NULL } },
	{ "request_body_bytes", "bytes", "Bodies received from clients.", SITE(request_body_bytes), NULL, { NULL } },
	{ "origin_requests", NULL, "Requests sent to origins.", SITE(origin_requests), NULL, { NULL } },
	{ "origin_errors", NULL, "Requests to origins that failed.", SITE(origin_errors), NULL, { NULL } },
	{ "untaggable_responses",
	  NULL,
	  "Responses not stored since they have more tags than can be kept.",
	  SITE(untaggable),
	  NULL,
	  { NULL } },
};

static const struct {
	const char *name, *help;
	size_t offset;
} histograms[] = {
	{ "request_duration_seconds", "From a request's first byte to its answer's last.",
	  SITE(duration) },
	{ "time_to_first_byte_seconds", "From a request's first byte to its answer's first.",
	  SITE(ttfb) },
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
	{ "worker_h2_streams", NULL, "Streams of HTTP/2 that clients began.", GAUGE(h2_streams), true },
	{ "worker_h2_limit_resets", NULL, "HTTP/2 connections ended: too many streams reset.",
	  GAUGE(h2_limits[H2_LIMIT_RESETS]), true },
	{ "worker_h2_limit_controls", NULL, "HTTP/2 connections ended: too many frames of no use.",
	  GAUGE(h2_limits[H2_LIMIT_CONTROLS]), true },
	{ "worker_h2_limit_acks", NULL, "HTTP/2 connections ended: acknowledgements not read.",
	  GAUGE(h2_limits[H2_LIMIT_ACKS]), true },
	{ "worker_h2_limit_continuations", NULL, "HTTP/2 connections ended: a head in too many frames.",
	  GAUGE(h2_limits[H2_LIMIT_CONTINUATIONS]), true },
	{ "worker_h2_limit_header_list", NULL, "HTTP/2 connections ended: a head far over the limit.",
	  GAUGE(h2_limits[H2_LIMIT_HEADER_LIST]), true },
};

/* The buckets' upper bounds, as both forms name them. */
static const char *const bounds_text[] = { "0.0001", "0.0003", "0.001", "0.003", "0.01",
					   "0.03",   "0.1",    "0.3",	"1.0",	 "3.0",
					   "10.0",   "30.0",   "60.0",	"+Inf" };
_Static_assert(ARRAY_LEN(bounds_text) == STATS_BUCKETS, "a name for each bucket");

/* Gauges whose unit is seconds are kept in microseconds. */
static void write_value(FILE *to, uint64_t value, const char *unit)
{
	if (unit != NULL && strcmp(unit, "seconds") == 0)
		fprintf(to, "%llu.%06llu", (unsigned long long)value / 1000000,
			(unsigned long long)value % 1000000);
	else
		fprintf(to, "%llu", (unsigned long long)value);
}

/* --- OpenMetrics ------------------------------------------------------------------------------ */

static void write_family(FILE *to, const char *name, const char *type, const char *unit, const char *help)
{
	fprintf(to, "# TYPE brim_%s %s\n", name, type);
	if (unit != NULL)
		fprintf(to, "# UNIT brim_%s %s\n", name, unit);
	fprintf(to, "# HELP brim_%s %s\n", name, help);
}

/* site="NAME", without braces. */
static void write_site_label(FILE *to, struct view name)
{
	fputs("site=\"", to);
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		if (c == '\\' || c == '"')
			putc('\\', to);
		if (c == '\n')
			fputs("\\n", to);
		else
			putc(c, to);
	}
	putc('"', to);
}

static void write_site_sample(FILE *to, const struct stats *s, const struct conf_site *site,
			      const struct site_family *f, size_t which)
{
	fprintf(to, "brim_%s_total{", f->name);
	write_site_label(to, site->name);
	if (f->label != NULL)
		fprintf(to, ",%s=\"%s\"", f->label, f->values[which]);
	fprintf(to, "} %llu\n",
		(unsigned long long)site_total(s, site->slot, f->offset + which * sizeof(uint64_t)));
}

static size_t value_count(const struct site_family *f)
{
	size_t n = 0;

	while (n < ARRAY_LEN(f->values) && f->values[n] != NULL)
		n++;
	return f->label == NULL ? 1 : n;
}

static void write_site_family(FILE *to, const struct stats *s, const struct conf *conf,
			      const struct site_family *f)
{
	write_family(to, f->name, "counter", f->unit, f->help);
	for (size_t i = 0; i < conf->site_count; i++)
		for (size_t k = 0; k < value_count(f); k++)
			write_site_sample(to, s, &conf->sites[i], f, k);
}

static void read_histogram(const struct stats *s, unsigned site_slot, size_t offset,
			   struct stats_histogram *out)
{
	for (size_t at = 0; at < sizeof(*out); at += sizeof(uint64_t))
		*(uint64_t *)((char *)out + at) = site_total(s, site_slot, offset + at);
}

static void write_histogram(FILE *to, const struct stats_histogram *h, const char *name, struct view site)
{
	uint64_t below = 0;

	for (size_t i = 0; i < STATS_BUCKETS; i++) {
		below += h->count[i];
		fprintf(to, "brim_%s_bucket{", name);
		write_site_label(to, site);
		fprintf(to, ",le=\"%s\"} %llu\n", bounds_text[i], (unsigned long long)below);
	}
	fprintf(to, "brim_%s_count{", name);
	write_site_label(to, site);
	fprintf(to, "} %llu\nbrim_%s_sum{", (unsigned long long)below, name);
	write_site_label(to, site);
	fputs("} ", to);
	write_value(to, h->sum_us, "seconds");
	putc('\n', to);
}

static void write_histograms(FILE *to, const struct stats *s, const struct conf *conf)
{
	for (size_t i = 0; i < ARRAY_LEN(histograms); i++) {
		write_family(to, histograms[i].name, "histogram", "seconds", histograms[i].help);
		for (size_t k = 0; k < conf->site_count; k++) {
			struct stats_histogram h;
			read_histogram(s, conf->sites[k].slot, histograms[i].offset, &h);
			write_histogram(to, &h, histograms[i].name, conf->sites[k].name);
		}
	}
}

static void write_gauge_family(FILE *to, const struct stats *s, const struct gauge_family *f)
{
	write_family(to, f->name, f->counter ? "counter" : "gauge", f->unit, f->help);
	for (unsigned i = 0; i < s->workers; i++) {
		fprintf(to, "brim_%s%s{worker=\"%u\"} ", f->name, f->counter ? "_total" : "", i);
		write_value(to, word(&s->at[i].gauges, f->offset), f->unit);
		putc('\n', to);
	}
}

/* All workers say the same; one that has died may say what was. */
static uint64_t expiry(const struct stats *s, unsigned site_slot)
{
	uint64_t latest = 0;

	for (unsigned i = 0; i < s->workers; i++) {
		uint64_t at = stats_read(&s->at[i].certificate_expires_s[site_slot]);

		latest = at > latest ? at : latest;
	}
	return latest;
}

static void write_expiry(FILE *to, const struct stats *s, const struct conf *conf)
{
	write_family(to, "tls_certificate_expiry_timestamp_seconds", "gauge", "seconds",
		     "When the first of a site's certificates ends.");
	for (size_t i = 0; i < conf->site_count; i++) {
		uint64_t at = expiry(s, conf->sites[i].slot);

		if (at == 0)
			continue;
		fputs("brim_tls_certificate_expiry_timestamp_seconds{", to);
		write_site_label(to, conf->sites[i].name);
		fprintf(to, "} %llu\n", (unsigned long long)at);
	}
}

void stats_tls_total(const struct stats *s, struct stats_tls *out)
{
	for (size_t at = 0; at < sizeof(*out); at += sizeof(uint64_t)) {
		uint64_t sum = 0;

		for (unsigned i = 0; i < s->workers; i++)
			sum += word(&s->at[i].tls, at);
		*(uint64_t *)((char *)out + at) = sum;
	}
}

void stats_openmetrics(const struct stats *s, const struct conf *conf, FILE *to)
{
	struct stats_tls tls;

	write_family(to, "build", "info", NULL, "This node's version.");
	fputs("brim_build_info{version=\"" BRIM_VERSION "\"} 1\n", to);
	for (size_t i = 0; i < ARRAY_LEN(site_families); i++)
		write_site_family(to, s, conf, &site_families[i]);
	write_histograms(to, s, conf);
	for (size_t i = 0; i < ARRAY_LEN(gauge_families); i++)
		write_gauge_family(to, s, &gauge_families[i]);
	stats_tls_total(s, &tls);
	stats_tls_openmetrics(&tls, to);
	write_expiry(to, s, conf);
	fputs("# EOF\n", to);
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

static void json_site_family(FILE *to, const struct stats *s, unsigned site_slot,
			     const struct site_family *f)
{
	fprintf(to, "\"%s\":", f->name);
	if (f->label == NULL) {
		write_value(to, site_total(s, site_slot, f->offset), f->unit);
		return;
	}
	for (size_t i = 0; i < value_count(f); i++)
		fprintf(to, "%s\"%s\":%llu", i == 0 ? "{" : ",", f->values[i],
			(unsigned long long)site_total(s, site_slot, f->offset + i * sizeof(uint64_t)));
	putc('}', to);
}

/* Buckets are cumulative, as in the metrics: requests that took no longer. */
static void json_histogram(FILE *to, const struct stats_histogram *h, const char *name)
{
	uint64_t below = 0;

	fprintf(to, "\"%s\":{\"buckets\":{", name);
	for (size_t i = 0; i < STATS_BUCKETS; i++) {
		below += h->count[i];
		fprintf(to, "%s\"%s\":%llu", i == 0 ? "" : ",", bounds_text[i],
			(unsigned long long)below);
	}
	fprintf(to, "},\"count\":%llu,\"sum\":", (unsigned long long)below);
	write_value(to, h->sum_us, "seconds");
	putc('}', to);
}

static void json_site(FILE *to, const struct stats *s, const struct conf_site *site)
{
	write_json_string(to, site->name);
	putc(':', to);
	for (size_t i = 0; i < ARRAY_LEN(site_families); i++) {
		putc(i == 0 ? '{' : ',', to);
		json_site_family(to, s, site->slot, &site_families[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(histograms); i++) {
		struct stats_histogram h;
		read_histogram(s, site->slot, histograms[i].offset, &h);
		putc(',', to);
		json_histogram(to, &h, histograms[i].name);
	}
	fprintf(to, ",\"certificate_expires\":%llu", (unsigned long long)expiry(s, site->slot));
	putc('}', to);
}

static void json_worker(FILE *to, const struct stats *s, unsigned worker)
{
	for (size_t i = 0; i < ARRAY_LEN(gauge_families); i++) {
		const struct gauge_family *f = &gauge_families[i];
		fprintf(to, "%s\"%s\":", i == 0 ? "{" : ",", f->name + strlen("worker_"));
		write_value(to, word(&s->at[worker].gauges, f->offset), f->unit);
	}
	putc('}', to);
}

void stats_json(const struct stats *s, const struct conf *conf, FILE *to)
{
	struct stats_tls tls;

	stats_tls_total(s, &tls);
	fputs("{\"sites\":{", to);
	for (size_t i = 0; i < conf->site_count; i++) {
		if (i > 0)
			putc(',', to);
		json_site(to, s, &conf->sites[i]);
	}
	fputs("},\"workers\":[", to);
	for (unsigned i = 0; i < s->workers; i++) {
		if (i > 0)
			putc(',', to);
		json_worker(to, s, i);
	}
	fputs("],\"tls\":{", to);
	stats_tls_json(&tls, to);
	fputs("}}", to);
}
