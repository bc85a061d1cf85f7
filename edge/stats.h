/*
 * The statistics page: shared memory that the master makes before it forks. Each worker has a block of
 * its own, each site a slot in every block, on cache lines of its own; only the owning worker writes
 * there, so that adding is a plain load and store, without lock or locked instruction. Readers (the
 * keeper, for the admin API) sum over workers; what they see may lag by a moment, never be torn.
 *
 * A worker that dies leaves its counters to its successor in the slot. The rejected alternative, counters
 * sent to the keeper, would lose those of a dead worker and cost a message per request.
 */
#ifndef BRIM_EDGE_STATS_H
#define BRIM_EDGE_STATS_H

#include <stdint.h>
#include <stdio.h>

#include "conf/conf.h"
#include "edge/base/check.h"
#include "edge/h2_limit.h"
#include "edge/stats_tls.h"

/* How a request was answered. */
enum stats_result {
	STATS_HIT,
	STATS_MISS,	   /* fetched, and stored or meant to be */
	STATS_STALE,	   /* served stale */
	STATS_REVALIDATED, /* the origin said 304 */
	STATS_PASS,	   /* relayed: uncacheable, by its request or its answer */
	STATS_BYPASS,	   /* relayed: a rule says so */
	STATS_ERROR,	   /* an error that Brim itself made */
	STATS_RESULTS,
};

/* Upper bounds of the buckets, in microseconds; a last bucket has what is longer. */
#define STATS_BOUNDS_US                                                                         \
	{                                                                                       \
		100, 300, 1000, 3000, 10000, 30000, 100000, 300000, 1000000, 3000000, 10000000, \
			30000000, 60000000                                                      \
	}
enum { STATS_BUCKETS = 14, STATS_CLASSES = 5 /* 1xx to 5xx */ };

struct stats_histogram {
	uint64_t count[STATS_BUCKETS]; /* each bucket's own, not summed up */
	uint64_t sum_us;
};

/* A site's counters in a worker's block, or their total. */
struct stats_site {
	uint64_t responses[STATS_CLASSES];
	uint64_t results[STATS_RESULTS];
	uint64_t sent_bytes;	     /* bodies, to clients */
	uint64_t origin_bytes;	     /* bodies, from origins */
	uint64_t request_body_bytes; /* bodies, from clients */
	uint64_t origin_requests, origin_errors;
	uint64_t untaggable; /* answers that were not stored for their many tags */
	struct stats_histogram duration, ttfb;
} __attribute__((aligned(64)));

struct stats_gauges {
	uint64_t connections, requests;	   /* open now; active now */
	uint64_t accepted;		   /* since the node's start */
	uint64_t proxy_headers_bad;	   /* connections refused for it */
	uint64_t loop_lag_us;		   /* the longest turn of the last second */
	uint64_t loop_lag_max_us;	   /* the longest ever */
	uint64_t origin_idle, origin_busy; /* connections */
	/* With origins, since the node's start; those resumed are among the handshakes, those that failed are not. */
	uint64_t origin_tls_handshakes, origin_tls_resumed, origin_tls_failures;
	uint64_t fills, tunnels;       /* going on now */
	uint64_t h2_streams;	       /* begun */
	uint64_t h2_limits[H2_LIMITS]; /* connections ended for it */
} __attribute__((aligned(64)));

struct stats_worker {
	struct stats_gauges gauges;
	struct stats_tls tls __attribute__((aligned(64))); /* the type isn't: it lies on stacks, too */
	uint64_t certificate_expires_s[CONF_SITES_MAX];	   /* wall time; 0: the site has none */
	struct stats_site sites[CONF_SITES_MAX];
};

struct stats;

/* In the master. NULL: no memory. */
struct stats *stats_new(unsigned workers) NODISCARD;
void stats_free(struct stats *s);

/* --- in the worker that owns the slot -------------------------------------------------------- */

/* Its block; what a dead predecessor had open is no longer so. */
struct stats_worker *stats_worker(struct stats *s, unsigned worker) NODISCARD;

static inline struct stats_site *stats_site(struct stats_worker *w, unsigned site_slot)
{
	CHECK(site_slot < CONF_SITES_MAX);
	return &w->sites[site_slot];
}

static inline uint64_t stats_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static inline void stats_set(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

static inline void stats_add(uint64_t *counter, uint64_t n)
{
	stats_set(counter, stats_read(counter) + n);
}

static inline void stats_observe(struct stats_histogram *h, int64_t us)
{
	static const uint32_t bounds[STATS_BUCKETS - 1] = STATS_BOUNDS_US;
	uint64_t value = us > 0 ? (uint64_t)us : 0;
	unsigned bucket = 0;

	while (bucket < STATS_BUCKETS - 1 && value > bounds[bucket])
		bucket++;
	stats_add(&h->count[bucket], 1);
	stats_add(&h->sum_us, value);
}

/* A request is over. status 0: nothing was sent; ttfb_us negative: no byte was. */
static inline void stats_request(struct stats_site *s, uint16_t status, enum stats_result result,
				 uint64_t sent_bytes, int64_t ttfb_us, int64_t duration_us)
{
	if (status >= 100 && status < 600)
		stats_add(&s->responses[status / 100 - 1], 1);
	stats_add(&s->results[result], 1);
	stats_add(&s->sent_bytes, sent_bytes);
	if (ttfb_us >= 0)
		stats_observe(&s->ttfb, ttfb_us);
	stats_observe(&s->duration, duration_us);
}

/* Once a second, with loop_take_lag_us. */
static inline void stats_loop_lag(struct stats_worker *w, uint64_t us)
{
	stats_set(&w->gauges.loop_lag_us, us);
	if (us > stats_read(&w->gauges.loop_lag_max_us))
		stats_set(&w->gauges.loop_lag_max_us, us);
}

/* --- readers --------------------------------------------------------------------------------- */

unsigned stats_workers(const struct stats *s);
void stats_worker_get(const struct stats *s, unsigned worker, struct stats_gauges *out);
/* Over all workers. */
void stats_site_total(const struct stats *s, unsigned site_slot, struct stats_site *out);

void stats_tls_total(const struct stats *s, struct stats_tls *out);

/* OpenMetrics text, from the first family to "# EOF": write families of your own before it. */
void stats_openmetrics(const struct stats *s, const struct conf *conf, FILE *to);
/* {"sites": {NAME: {…}}, "workers": [{…}]} */
void stats_json(const struct stats *s, const struct conf *conf, FILE *to);

#endif
