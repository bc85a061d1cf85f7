/* GET /metrics: processes, reloads and stores, as the shared memory has them; then the statistics page. */
#include <stdatomic.h>
#include <stddef.h>

#include "edge/admin_call.h"
#include "edge/board.h"

/* --- processes and reloads ------------------------------------------------------------------------- */

static unsigned workers(const struct admin *a)
{
	return a->process->cache_conf.workers;
}

/* -1: the keeper. */
static const struct process_entry *entry(const struct admin *a, int slot)
{
	const struct process_board *b = a->process->board;

	return slot < 0 ? &b->keeper : &b->workers[slot];
}

static void write_process(const struct metrics *m, const char *name, int slot, unsigned value)
{
	if (slot < 0)
		(void)fprintf(m->to, "brim_%s{role=\"keeper\"} %u\n", name, value);
	else
		(void)fprintf(m->to, "brim_%s{role=\"worker\",slot=\"%d\"} %u\n", name, slot, value);
}

static void write_processes(const struct admin *a, const struct metrics *m)
{
	metrics_family(m, "start_time_seconds", "gauge", "seconds", "When the node started.");
	(void)fprintf(m->to, "brim_start_time_seconds %lld\n",
		      (long long)(a->process->board->started_ms / 1000));
	metrics_family(m, "draining", "gauge", NULL, "Whether the node takes no connections.");
	(void)fprintf(m->to, "brim_draining %u\n", atomic_load(&a->process->board->draining) != 0);
	metrics_family(m, "process_up", "gauge", NULL, "Whether the process is there.");
	for (int slot = -1; slot < (int)workers(a); slot++)
		write_process(m, "process_up", slot, atomic_load(&entry(a, slot)->pid) != 0);
	metrics_family(m, "restarts", "counter", NULL, "Times that the process was replaced.");
	for (int slot = -1; slot < (int)workers(a); slot++)
		write_process(m, "restarts_total", slot, atomic_load(&entry(a, slot)->restarts));
}

static void write_reloads(const struct admin *a, const struct metrics *m)
{
	struct board_reload r;

	board_read_reload(a->process->board, &r);
	metrics_family(m, "generation", "gauge", NULL, "Number of the configuration in use.");
	(void)fprintf(m->to, "brim_generation %u\n", r.generation);
	metrics_family(m, "reloads", "counter", NULL, "Reloads of the configuration, by result.");
	(void)fprintf(m->to, "brim_reloads_total{result=\"done\"} %u\nbrim_reloads_total{result=\"failed\"} %u\n",
		      r.done, r.failed);
	metrics_family(m, "reload_ok", "gauge", NULL,
		       "Whether the last reload succeeded, or none was tried.");
	(void)fprintf(m->to, "brim_reload_ok %d\n", r.result == 0);
	metrics_family(m, "reload_timestamp_seconds", "gauge", "seconds",
		       "When the last reload was tried; 0: never.");
	(void)fprintf(m->to, "brim_reload_timestamp_seconds %lld\n", (long long)(r.reloaded_ms / 1000));
	metrics_family(m, "claims", "gauge", NULL, "Claims that are held.");
	(void)fprintf(m->to, "brim_claims %u\n", cache_claims_held(a->process->cache_shared));
}

/* --- stores ------------------------------------------------------------------------------------------ */

#define FAMILY(member) offsetof(struct cache_store_status, member)
static const struct store_family {
	const char *name, *unit, *help;
	size_t offset;
	bool counter;
} families[] = {
	{ "store_size_bytes", "bytes", "Configured size.", FAMILY(size_bytes), false },
	{ "store_used_bytes", "bytes", "Bytes in use.", FAMILY(used_bytes), false },
	{ "store_dead_open_bytes", "bytes", "Bytes of removed files that are still read.",
	  FAMILY(dead_open_bytes), false },
	{ "store_unsynced_bytes", "bytes", "Bytes written but not yet synced.",
	  FAMILY(unsynced_bytes), false },
	{ "store_index_bytes", "bytes", "Size of the index.", FAMILY(index_bytes), false },
	{ "store_objects", NULL, "Stored objects.", FAMILY(objects), false },
	{ "store_segments", NULL, "Segments.", FAMILY(segments), false },
	{ "store_commits", NULL, "Committed objects.", FAMILY(commits), true },
	{ "store_evicted_objects", NULL, "Evicted objects.", FAMILY(evicted_objects), true },
	{ "store_evicted_segments", NULL, "Evicted segments.", FAMILY(evicted_segments), true },
	{ "store_evicted_variants", NULL, "Variants beyond their site's max_variants.",
	  FAMILY(evicted_variants), true },
	{ "store_reclaimed_objects", NULL, "Purged objects that were taken out.",
	  FAMILY(reclaimed_objects), true },
	{ "store_reclaimed_bytes", "bytes", "Bytes of purged objects that were taken out.",
	  FAMILY(reclaimed_bytes), true },
	{ "store_fills_refused", NULL, "Fills that found no room.", FAMILY(fills_refused), true },
};

static void write_store(const struct metrics *m, const char *name,
			const struct cache_store_status *s, uint64_t value)
{
	(void)fprintf(m->to, "brim_%s{", name);
	metrics_label(m, "store", s->name);
	(void)fprintf(m->to, "} %llu\n", (unsigned long long)value);
}

static void write_store_family(const struct admin *a, const struct metrics *m,
			       const struct store_family *f)
{
	struct cache_store_status s;
	char sample[64];

	metrics_family(m, f->name, f->counter ? "counter" : "gauge", f->unit, f->help);
	(void)snprintf(sample, sizeof(sample), "%s%s", f->name, f->counter ? "_total" : "");
	for (unsigned i = 0; i < a->process->cache_conf.store_count; i++) {
		if (cache_store_status(a->process->cache_shared, i, &s) == 0)
			write_store(m, sample, &s, *(const uint64_t *)((const char *)&s + f->offset));
	}
}

static void write_stores(const struct admin *a, const struct metrics *m)
{
	struct cache_store_status s;

	metrics_family(m, "store_in_service", "gauge", NULL,
		       "Whether the store serves and takes objects.");
	for (unsigned i = 0; i < a->process->cache_conf.store_count; i++) {
		if (cache_store_status(a->process->cache_shared, i, &s) == 0)
			write_store(m, "store_in_service", &s, admin_store_serves(&s));
	}
	for (size_t i = 0; i < ARRAY_LEN(families); i++)
		write_store_family(a, m, &families[i]);
}

/* --- the call ------------------------------------------------------------------------------------------ */

static int write_metrics(const struct admin_call *c, FILE *to)
{
	struct metrics m = { .to = to, .form = metrics_form_for(c->accept) };
	int r;

	write_processes(c->admin, &m);
	write_reloads(c->admin, &m);
	write_stores(c->admin, &m);
	r = stats_metrics(c->admin->process->stats, c->admin->conf, &m);
	metrics_end(&m);
	return r;
}

enum admin_progress admin_metrics(struct admin_call *c)
{
	return admin_answer_written(c, metrics_content_type(metrics_form_for(c->accept)), write_metrics);
}
