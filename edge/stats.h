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

#include "cache/cache.h"
#include "conf/conf.h"
#include "edge/base/check.h"
#include "edge/h2_limit.h"
#include "edge/metrics.h"
#include "edge/stats_tls.h"
#include "origin/fetch.h"

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
enum {
	STATS_BUCKETS = 14,
	STATS_CLASSES = 6, /* nothing was sent; 1xx to 5xx */
	STATS_ORIGIN_ERRORS = FETCH_TLS_ALERT_RECEIVED + 1,
	STATS_SCOPES = CACHE_SCOPE_TAG_ANYWHERE + 1,
	STATS_SITES_NAMED = 100, /* have a label of their own in the metrics; the rest is "other" */
};

struct stats_histogram {
	uint64_t count[STATS_BUCKETS]; /* each bucket's own, not summed up */
	uint64_t sum_us;
};

/* A site's counters in a worker's block, or their total. */
struct stats_site {
	uint64_t answers[STATS_RESULTS][STATS_CLASSES];
	uint64_t sent_bytes;	     /* bodies, to clients */
	uint64_t origin_bytes;	     /* bodies, from origins */
	uint64_t request_body_bytes; /* bodies, from clients */
	uint64_t origin_requests;
	uint64_t origin_errors[STATS_ORIGIN_ERRORS];
	uint64_t fills, fills_broken; /* begun; not finished */
	uint64_t followers;	      /* requests served from another's fill or its outcome */
	uint64_t fill_waits;	      /* how often a request waited for another's answer to begin */
	uint64_t untaggable;	      /* answers that were not stored for their many tags */
	struct stats_histogram duration, ttfb;
	struct stats_histogram origin_ttfb; /* from asking an origin to its answer's head */
};

struct stats_gauges {
	uint64_t connections, requests;	   /* open now; active now */
	uint64_t accepted;		   /* since the node's start */
	uint64_t proxy_headers_bad;	   /* connections refused for it */
	uint64_t loop_lag_us;		   /* the longest turn of the last second */
	uint64_t loop_lag_max_us;	   /* the longest ever */
	uint64_t origin_idle, origin_busy; /* connections */
	/* With origins, since the node's start; those resumed are among the handshakes, those that failed are not. */
	uint64_t origin_tls_handshakes, origin_tls_resumed, origin_tls_failures;
	uint64_t fills, tunnels; /* going on now */
	uint64_t send_timeouts;	 /* answers given up since their client took nothing */
	uint64_t hot_hits;	 /* objects found in the worker's memory, since the node's start */
	uint64_t hot_bytes;	 /* what all of these take now */
	uint64_t h2_streams;	 /* begun */
	uint64_t h2_limits[H2_LIMITS]; /* connections ended for it */
};

/* Scopes purged, by enum cache_scope_kind; hard, soft. */
struct stats_purges {
	uint64_t scopes[STATS_SCOPES][2];
};

/* The types above aren't aligned themselves, since they lie on stacks, too. */
struct stats_site_slot {
	struct stats_site counts;
} __attribute__((aligned(64)));

struct stats_worker {
	struct stats_gauges gauges __attribute__((aligned(64)));
	struct stats_purges purges __attribute__((aligned(64))); /* asked for on traffic listeners */
	struct stats_tls tls __attribute__((aligned(64)));
	uint64_t certificate_expires_s[CONF_SITES_MAX]; /* wall time; 0: the site has none */
	struct stats_site_slot sites[CONF_SITES_MAX];
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
	struct stats_site_slot *slot = w->sites + site_slot;

	CHECK(site_slot < CONF_SITES_MAX);
	return &slot->counts;
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
	unsigned class = status >= 100 && status < 600 ? status / 100 : 0;

	stats_add(&s->answers[result][class], 1);
	stats_add(&s->sent_bytes, sent_bytes);
	if (ttfb_us >= 0)
		stats_observe(&s->ttfb, ttfb_us);
	stats_observe(&s->duration, duration_us);
}

static inline void stats_origin_error(struct stats_site *s, enum fetch_error e)
{
	CHECK((unsigned)e < STATS_ORIGIN_ERRORS);
	stats_add(&s->origin_errors[e], 1);
}

static inline void stats_purged(struct stats_purges *p, const struct cache_scope *scopes,
				unsigned count, bool soft)
{
	for (unsigned i = 0; i < count; i++) {
		if (scopes[i].kind >= STATS_SCOPES) /* what nobody asks for by name */
			continue;
		stats_add(&p->scopes[scopes[i].kind][soft], 1);
	}
}

/* Once a second, with loop_take_lag_us. */
static inline void stats_loop_lag(struct stats_worker *w, uint64_t us)
{
	stats_set(&w->gauges.loop_lag_us, us);
	if (us > stats_read(&w->gauges.loop_lag_max_us))
		stats_set(&w->gauges.loop_lag_max_us, us);
}

/* The keeper's own, for what the admin API purges; it alone writes there. */
struct stats_purges *stats_keeper_purges(struct stats *s) NODISCARD;

/* --- readers --------------------------------------------------------------------------------- */

unsigned stats_workers(const struct stats *s);
void stats_worker_get(const struct stats *s, unsigned worker, struct stats_gauges *out);
/* Over all workers. */
void stats_site_total(const struct stats *s, unsigned site_slot, struct stats_site *out);
void stats_tls_total(const struct stats *s, struct stats_tls *out);
void stats_purges_total(const struct stats *s, struct stats_purges *out); /* the keeper's, too */
/* When the first of the site's certificates ends, wall time; 0: it has none. */
uint64_t stats_certificate_expiry_s(const struct stats *s, unsigned site_slot);

/* All families of the page. 0 or -ENOMEM (some of them may be written). */
int stats_metrics(const struct stats *s, const struct conf *conf, const struct metrics *m) NODISCARD;
/* {"sites": {NAME: {…}}, "workers": [{…}], …} */
void stats_json(const struct stats *s, const struct conf *conf, FILE *to);

#endif
