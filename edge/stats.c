/*
 * Making and reading the statistics page; stats_write.c tells what is in it.
 *
 * Totals are summed while they are asked for: a thousand sites and 64 workers make some million loads, and nothing is
 * allocated.
 */
#include "edge/stats.h"

#include <stddef.h>
#include <sys/mman.h>

enum { STATS_MAGIC = 0x73746174 };

struct stats {
	uint32_t magic;
	unsigned workers;
	struct stats_purges keeper_purges;
	struct stats_worker at[];
};

/* Everything in these is a counter or a gauge of 64 bits: they are copied and summed as such. */
_Static_assert(sizeof(struct stats_site) % sizeof(uint64_t) == 0, "words");
_Static_assert(sizeof(struct stats_gauges) % sizeof(uint64_t) == 0, "words");
_Static_assert(sizeof(struct stats_tls) % sizeof(uint64_t) == 0, "words");
_Static_assert(sizeof(struct stats_purges) % sizeof(uint64_t) == 0, "words");

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
				    &g->origin_busy, &g->fills,	   &g->tunnels,	    &g->hot_bytes };

	for (size_t i = 0; i < ARRAY_LEN(open_things); i++)
		stats_set(open_things[i], 0);
	return &s->at[worker];
}

struct stats_purges *stats_keeper_purges(struct stats *s)
{
	CHECK_MAGIC(s, STATS_MAGIC);
	return &s->keeper_purges;
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

/* Adds up a block of words that each worker has; first: that of the first. */
static void add_up(const struct stats *s, const void *first, size_t bytes, void *out)
{
	for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
		uint64_t *sum = (uint64_t *)((char *)out + at);

		for (unsigned i = 0; i < s->workers; i++)
			*sum += word(first, i * sizeof(struct stats_worker) + at);
	}
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
	const struct stats_site_slot *slot = s->at[0].sites + site_slot;

	*out = (struct stats_site){ 0 };
	add_up(s, &slot->counts, sizeof(*out), out);
}

void stats_tls_total(const struct stats *s, struct stats_tls *out)
{
	*out = (struct stats_tls){ 0 };
	add_up(s, &s->at[0].tls, sizeof(*out), out);
}

void stats_purges_total(const struct stats *s, struct stats_purges *out)
{
	for (size_t at = 0; at < sizeof(*out); at += sizeof(uint64_t))
		*(uint64_t *)((char *)out + at) = word(&s->keeper_purges, at);
	add_up(s, &s->at[0].purges, sizeof(*out), out);
}

/* All workers say the same; one that has died may say what was. */
uint64_t stats_certificate_expiry_s(const struct stats *s, unsigned site_slot)
{
	uint64_t latest = 0;

	CHECK(site_slot < CONF_SITES_MAX);
	for (unsigned i = 0; i < s->workers; i++) {
		uint64_t at = stats_read(&s->at[i].certificate_expires_s[site_slot]);

		latest = at > latest ? at : latest;
	}
	return latest;
}
