/*
 * POST /v1/purge and GET /v1/purge/SEQUENCE.
 *
 * A purge: its names are read some at a time; then the keeper purges or (dry_run) counts; the answer waits until the
 * keeper says that the purge is on disk in every store and that no worker will serve what it names. A client
 * that leaves while names are read has purged nothing; later it changes nothing about the purge.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>

#include "edge/admin_purge_names.h"
#include "edge/http/field.h"

/* Outlives the call if the client leaves while the keeper is at work. */
struct purge {
	struct admin_call *call; /* NULL: nobody waits */
	struct purge_names names;
	bool asked, done;
	int result;
	uint64_t sequence;
	uint64_t objects, bytes;
};

static void purge_free(struct purge *p)
{
	purge_names_fini(&p->names);
	free(p);
}

static void drop(struct admin_call *c)
{
	struct purge *p = c->state;

	c->state = NULL;
	if (p->asked && !p->done)
		p->call = NULL;
	else
		purge_free(p);
}

/* --- the keeper's word ------------------------------------------------------------------------------ */

static void ended(struct purge *p, int result)
{
	p->done = true;
	p->result = result;
	if (p->call != NULL)
		ready_post(&p->call->wake);
	else
		purge_free(p);
}

static void on_purged(void *arg, int result, uint64_t sequence)
{
	struct purge *p = arg;

	p->sequence = sequence;
	ended(p, result);
}

static void on_counted(void *arg, int result, uint64_t objects, uint64_t bytes)
{
	struct purge *p = arg;

	p->objects = objects;
	p->bytes = bytes;
	ended(p, result);
}

static int ask(struct purge *p)
{
	struct keeper *k = p->call->admin->keeper;

	if (p->names.dry_run)
		return keeper_purge_count(k, p->names.scopes, p->names.count, on_counted, p);
	return keeper_purge(k, p->names.scopes, p->names.count, p->names.soft, on_purged, p);
}

/* --- answers ------------------------------------------------------------------------------------------ */

static enum admin_progress answer(struct admin_call *c, const struct purge *p)
{
	cJSON *tree = cJSON_CreateObject();

	if (p->names.dry_run)
		(void)cJSON_AddBoolToObject(tree, "dry_run", true);
	else
		(void)cJSON_AddNumberToObject(tree, "purge", (double)p->sequence);
	(void)cJSON_AddBoolToObject(tree, "soft", p->names.soft);
	(void)cJSON_AddNumberToObject(tree, "items", p->names.items);
	if (p->names.dry_run) {
		(void)cJSON_AddNumberToObject(tree, "objects", (double)p->objects);
		(void)cJSON_AddNumberToObject(tree, "bytes", (double)p->bytes);
	}
	c->what = arena_printf(&c->arena, "purge=%llu %.*s", (unsigned long long)p->sequence,
			       VIEW_ARG(c->what));
	return admin_answer(c, tree);
}

static enum admin_progress bad_names(struct admin_call *c, const struct purge *p, int error)
{
	if (error == -ENOMEM)
		return admin_error(c, 503, "", "no memory");
	return admin_error(c, error == -EPERM ? 403 : 400, p->names.fault.pointer, "%s",
			   p->names.fault.message);
}

/* What went to a journal that then couldn't be synced may be found there by the next start. */
static enum admin_progress failed(struct admin_call *c, const struct purge *p)
{
	if (p->names.dry_run)
		return admin_error(c, 500, "", "the logs can't be read: %s", strerror(-p->result));
	return admin_error(c, 500, "",
			   "the purge can't be written: %s; it may or may not last: repeat it",
			   strerror(-p->result));
}

static enum admin_progress not_asked(struct admin_call *c, int error)
{
	if (error == -EBUSY)
		return admin_error(c, 503, "", "too many counts are under way");
	if (error == -EAGAIN)
		return admin_error(c, 503, "", "no store is open, or one is being rebuilt");
	return admin_error(c, 503, "", "nothing was purged, since it can't be written: %s",
			   strerror(-error));
}

/* What the log says, also where it fails or the client leaves. */
static void note(struct admin_call *c, const struct purge_names *n)
{
	struct view names = purge_names_told(n, &c->arena);

	c->what = arena_printf(&c->arena, "items=%u soft=%s dry_run=%s%.*s", n->items,
			       n->soft ? "true" : "false", n->dry_run ? "true" : "false",
			       VIEW_ARG(names));
}

static enum admin_progress go_on(struct admin_call *c, struct purge *p)
{
	int r;

	if (!p->asked) {
		r = purge_names_more(&p->names);
		if (r == -EAGAIN)
			ready_post(&c->wake);
		if (r != 0)
			return r == -EAGAIN ? ADMIN_WAIT : bad_names(c, p, r);
		note(c, &p->names);
		r = ask(p);
		if (r != 0)
			return not_asked(c, r);
		p->asked = true;
	}
	if (!p->done)
		return ADMIN_WAIT;
	if (p->result != 0)
		return failed(c, p);
	if (!p->names.dry_run)
		stats_purged(stats_keeper_purges(c->admin->process->stats), p->names.scopes,
			     p->names.count, p->names.soft);
	return answer(c, p);
}

enum admin_progress admin_purge(struct admin_call *c)
{
	struct purge *p = c->state;
	int r;

	if (c->admin->keeper == NULL)
		return admin_error(c, 503, "", "the stores are not open");
	if (p != NULL)
		return go_on(c, p);
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return admin_error(c, 503, "", "no memory");
	p->call = c;
	c->state = p;
	c->drop = drop;
	r = purge_names_begin(&p->names, c);
	return r != 0 ? bad_names(c, p, r) : go_on(c, p);
}

/* --- GET /v1/purge/SEQUENCE ------------------------------------------------------------------------------ */

enum admin_progress admin_purge_status(struct admin_call *c)
{
	struct keeper_reclaimed got;
	uint64_t sequence;
	cJSON *tree;

	if (c->admin->keeper == NULL)
		return admin_error(c, 503, "", "the stores are not open");
	if (http_decimal(c->rest, &sequence) != 0 ||
	    keeper_purge_reclaimed(c->admin->keeper, sequence, &got) != 0)
		return admin_error(c, 404, "", "no such purge, or none of those that are remembered");
	tree = cJSON_CreateObject();
	(void)cJSON_AddNumberToObject(tree, "purge", (double)sequence);
	(void)cJSON_AddBoolToObject(tree, "soft", got.soft);
	(void)cJSON_AddNumberToObject(tree, "objects", (double)got.objects);
	(void)cJSON_AddNumberToObject(tree, "bytes", (double)got.bytes);
	(void)cJSON_AddBoolToObject(tree, "complete", got.complete);
	return admin_answer(c, tree);
}
