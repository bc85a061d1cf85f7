/* GET /v1/status, /v1/stats, /healthz, /readyz: what the shared memory says about the node. For metrics see admin_metrics.c. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "edge/admin_call.h"
#include "edge/base/tls.h"
#include "edge/board.h"
#include "origin/shared.h"

/* --- status ------------------------------------------------------------------------------------- */

static void add_process(cJSON *list, const char *role, int slot, int pid, unsigned restarts,
			int64_t started_ms)
{
	cJSON *p = cJSON_CreateObject();

	(void)cJSON_AddStringToObject(p, "role", role);
	if (slot >= 0)
		(void)cJSON_AddNumberToObject(p, "slot", slot);
	(void)cJSON_AddNumberToObject(p, "pid", pid);
	(void)cJSON_AddNumberToObject(p, "restarts", restarts);
	(void)cJSON_AddNumberToObject(p, "uptime", (double)((clock_wall().ms - started_ms) / 1000));
	(void)cJSON_AddItemToArray(list, p);
}

static void add_child(cJSON *list, const char *role, int slot, const struct process_entry *e)
{
	add_process(list, role, slot, atomic_load(&e->pid), atomic_load(&e->restarts),
		    atomic_load(&e->started_ms));
}

static void add_processes(cJSON *tree, const struct admin *a)
{
	const struct process_board *b = a->process->board;
	cJSON *list = cJSON_AddArrayToObject(tree, "processes");

	add_process(list, "master", -1, atomic_load(&b->master_pid), 0, b->started_ms);
	add_child(list, "keeper", -1, &b->keeper);
	for (unsigned i = 0; i < a->process->cache_conf.workers; i++)
		add_child(list, "worker", (int)i, &b->workers[i]);
}

/* The fault may be of any site's part of the configuration. */
static void add_reload(cJSON *tree, const struct admin *a, bool whole)
{
	struct board_reload r;
	cJSON *last;

	board_read_reload(a->process->board, &r);
	(void)cJSON_AddNumberToObject(tree, "generation", r.generation);
	if (r.reloaded_ms == 0) {
		(void)cJSON_AddNullToObject(tree, "reload");
		return;
	}
	last = cJSON_AddObjectToObject(tree, "reload");
	(void)cJSON_AddNumberToObject(last, "time", (double)(r.reloaded_ms / 1000));
	(void)cJSON_AddBoolToObject(last, "ok", r.result == 0);
	if (r.result != 0 && whole)
		(void)cJSON_AddStringToObject(last, "fault", r.fault);
}

static void add_store(cJSON *list, const struct cache_store_status *s)
{
	cJSON *to = cJSON_CreateObject();
	char name[65];

	(void)snprintf(name, sizeof(name), "%.*s", VIEW_ARG(s->name));
	(void)cJSON_AddStringToObject(to, "name", name);
	(void)cJSON_AddStringToObject(to, "state", s->state);
	(void)cJSON_AddNumberToObject(to, "size_bytes", (double)s->size_bytes);
	(void)cJSON_AddNumberToObject(to, "used_bytes", (double)s->used_bytes);
	(void)cJSON_AddNumberToObject(to, "dead_open_bytes", (double)s->dead_open_bytes);
	(void)cJSON_AddNumberToObject(to, "unsynced_bytes", (double)s->unsynced_bytes);
	(void)cJSON_AddNumberToObject(to, "index_bytes", (double)s->index_bytes);
	(void)cJSON_AddNumberToObject(to, "objects", (double)s->objects);
	(void)cJSON_AddNumberToObject(to, "segments", (double)s->segments);
	(void)cJSON_AddNumberToObject(to, "commits", (double)s->commits);
	(void)cJSON_AddNumberToObject(to, "evicted_objects", (double)s->evicted_objects);
	(void)cJSON_AddNumberToObject(to, "evicted_segments", (double)s->evicted_segments);
	(void)cJSON_AddNumberToObject(to, "evicted_variants", (double)s->evicted_variants);
	(void)cJSON_AddNumberToObject(to, "fills_refused", (double)s->fills_refused);
	(void)cJSON_AddItemToArray(list, to);
}

static cJSON *stores(const struct admin *a)
{
	cJSON *list = cJSON_CreateArray();

	for (unsigned i = 0; i < a->process->cache_conf.store_count; i++) {
		struct cache_store_status s;

		if (cache_store_status(a->process->cache_shared, i, &s) == 0)
			add_store(list, &s);
	}
	return list;
}

bool admin_store_serves(const struct cache_store_status *s)
{
	return strcmp(s->state, "open") == 0 || strcmp(s->state, "rebuilding") == 0;
}

static unsigned stores_in_service(const struct admin *a)
{
	unsigned count = 0;

	for (unsigned i = 0; i < a->process->cache_conf.store_count; i++) {
		struct cache_store_status s;

		if (cache_store_status(a->process->cache_shared, i, &s) == 0 && admin_store_serves(&s))
			count++;
	}
	return count;
}

static void add_server(cJSON *list, const struct admin *a, const struct conf_server *s,
		       struct arena *arena)
{
	static const char *const states[] = {
		[SHARED_PENDING] = "not resolved yet",
		[SHARED_RESOLVED] = "resolved",
		[SHARED_NO_SUCH_NAME] = "no such name",
		[SHARED_NO_ANSWER] = "no answer from DNS",
	};
	struct shared_addresses addresses;
	struct view url = arena_copy(arena, s->url);
	cJSON *to = cJSON_CreateObject();
	unsigned open = 0;

	shared_lookup(a->process->origin_shared, s, &addresses);
	for (unsigned i = 0; i < a->process->cache_conf.workers; i++)
		open += shared_open_count(a->process->origin_shared, s->slot, i);
	(void)cJSON_AddStringToObject(to, "url", url.p != NULL ? url.p : "");
	(void)cJSON_AddStringToObject(to, "name_state", states[addresses.state]);
	(void)cJSON_AddNumberToObject(to, "addresses", addresses.count);
	(void)cJSON_AddNumberToObject(to, "connections", open);
	(void)cJSON_AddItemToArray(list, to);
}

static void add_origins(cJSON *tree, struct admin_call *c)
{
	cJSON *list = cJSON_AddArrayToObject(tree, "origins");

	for (size_t i = 0; i < c->conf->origin_count; i++) {
		const struct conf_origin *o = &c->conf->origins[i];
		struct view name = arena_copy(&c->arena, o->name);
		cJSON *to = cJSON_CreateObject(), *servers;

		(void)cJSON_AddStringToObject(to, "name", name.p != NULL ? name.p : "");
		servers = cJSON_AddArrayToObject(to, "servers");
		for (size_t s = 0; s < o->server_count; s++)
			add_server(servers, c->admin, &o->servers[s], &c->arena);
		(void)cJSON_AddItemToArray(list, to);
	}
}

static void add_sealed(cJSON *to, double kernel, double program)
{
	(void)cJSON_AddNumberToObject(to, "kernel", kernel);
	(void)cJSON_AddNumberToObject(to, "program", program);
}

/* Whether the kernel can do it, and how many connections it did it for. */
static void add_tls(cJSON *tree, const struct admin *a)
{
	cJSON *to = cJSON_AddObjectToObject(tree, "tls"), *by_cipher;
	struct stats_tls total;

	stats_tls_total(a->process->stats, &total);
	(void)cJSON_AddBoolToObject(to, "ktls", tls_probe());
	add_sealed(cJSON_AddObjectToObject(to, "connections"),
		   (double)stats_tls_connections(&total, true),
		   (double)stats_tls_connections(&total, false));
	by_cipher = cJSON_AddObjectToObject(to, "ciphers");
	for (unsigned i = 0; i < STATS_TLS_CIPHERS; i++) {
		const uint64_t *row = total.connections[i];

		if (row[0] + row[1] > 0)
			add_sealed(cJSON_AddObjectToObject(by_cipher, stats_tls_cipher(i)),
				   (double)row[1], (double)row[0]);
	}
}

enum admin_progress admin_status(struct admin_call *c)
{
	const struct admin *a = c->admin;
	const struct process_board *b = a->process->board;
	cJSON *tree = cJSON_CreateObject();
	struct view name = arena_copy(&c->arena, a->conf->name);

	(void)cJSON_AddStringToObject(tree, "version", BRIM_VERSION);
	(void)cJSON_AddStringToObject(tree, "name", name.p != NULL ? name.p : "");
	(void)cJSON_AddNumberToObject(tree, "uptime",
				      (double)((clock_wall().ms - b->started_ms) / 1000));
	(void)cJSON_AddBoolToObject(tree, "draining", atomic_load(&b->draining) != 0);
	add_processes(tree, a);
	add_reload(tree, a, admin_call_whole(c));
	(void)cJSON_AddItemToObject(tree, "stores", stores(a));
	if (admin_call_whole(c)) /* origins are of sites, and a token of some sees no other's */
		add_origins(tree, c);
	add_tls(tree, a);
	(void)cJSON_AddNumberToObject(tree, "claims", cache_claims_held(a->process->cache_shared));
	return admin_answer(c, tree);
}

/* --- stats ---------------------------------------------------------------------------------------- */

/* The statistics page's own object, and the stores as one more member of it. */
static int write_stats(const struct admin_call *c, FILE *to)
{
	const struct admin *a = c->admin;
	cJSON *list = stores(a);
	char *members = cJSON_PrintUnformatted(list), *text = NULL;
	size_t bytes = 0;
	FILE *object = open_memstream(&text, &bytes);

	cJSON_Delete(list);
	if (object != NULL) {
		stats_json(a->process->stats, a->conf, object);
		if (fclose(object) == 0) {
			while (bytes > 0 && text[bytes - 1] != '}')
				bytes--;
			if (bytes > 0)
				(void)fwrite(text, 1, bytes - 1, to);
		}
	}
	(void)fprintf(to, ",\"stores\":%s}\n", members != NULL ? members : "[]");
	cJSON_free(members);
	free(text);
	return object != NULL && members != NULL ? 0 : -ENOMEM;
}

/* For a token of sites. */
static enum admin_progress leave_its_sites(struct admin_call *c)
{
	cJSON *tree = cJSON_ParseWithLength(c->answer.p, c->answer.n);
	cJSON *sites = cJSON_GetObjectItemCaseSensitive(tree, "sites"), *next;

	for (cJSON *site = sites != NULL ? sites->child : NULL; site != NULL; site = next) {
		next = site->next;
		if (!admin_call_site(c, view_str(site->string)))
			cJSON_Delete(cJSON_DetachItemViaPointer(sites, site));
	}
	return admin_answer(c, tree);
}

enum admin_progress admin_stats(struct admin_call *c)
{
	(void)admin_answer_written(c, "application/json", write_stats);
	return c->status == 200 && !admin_call_whole(c) ? leave_its_sites(c) : ADMIN_DONE;
}

/* --- health --------------------------------------------------------------------------------------- */

enum admin_progress admin_healthz(struct admin_call *c)
{
	return admin_answer_text(c, 200, "text/plain", VIEW("ok\n"));
}

static const char *not_ready(const struct admin *a)
{
	const struct process_board *b = a->process->board;

	if (atomic_load(&b->draining) != 0)
		return "draining\n";
	for (unsigned i = 0; i < a->process->cache_conf.workers; i++) {
		if (atomic_load(&b->workers[i].pid) == 0)
			return "a worker is missing\n";
	}
	if (a->process->cache_conf.store_count > 0 && stores_in_service(a) == 0)
		return "no store is in service\n";
	return NULL;
}

enum admin_progress admin_readyz(struct admin_call *c)
{
	const char *why = not_ready(c->admin);

	if (why != NULL)
		return admin_answer_text(c, 503, "text/plain", view_str(why));
	return admin_answer_text(c, 200, "text/plain", VIEW("ready\n"));
}
