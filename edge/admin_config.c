/* GET /v1/config, POST /v1/reload. For POST /v1/config/check see admin_check.c. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>

#include "edge/admin.h"
#include "edge/admin_call.h"
#include "edge/admin_json.h"
#include "edge/admin_secrets.h"
#include "edge/base/ipc.h"
#include "edge/sealed.h"

/* --- the running configuration ------------------------------------------------------------------- */

enum admin_progress admin_config(struct admin_call *c)
{
	char *text;
	size_t bytes;
	int r = sealed_read(c->admin->conf_fd, &text, &bytes);
	cJSON *tree;

	if (r != 0)
		return admin_error(c, 500, "", "the configuration can't be read: %s", strerror(-r));
	tree = cJSON_ParseWithLength(text, bytes);
	conf_text_free(text); /* it has the admin's own key */
	admin_drop_notes(tree);
	admin_hide_secrets(tree);
	return admin_answer(c, tree);
}

/* --- reload --------------------------------------------------------------------------------------- */

struct reload_call {
	uint32_t serial;
	bool dry_run, done;
	struct message_outcome outcome;
};

/* "/sites/0/hosts: what is wrong", perhaps with a file's name and ": " before it: the pointer apart. */
static enum admin_progress refuse(struct admin_call *c, const char *fault)
{
	const char *pointer = fault, *file_end = strstr(fault, ": /"), *end;
	char text[ADMIN_POINTER_MAX];

	if (file_end != NULL)
		pointer = file_end + 2;
	end = *pointer == '/' ? strstr(pointer, ": ") : NULL;
	if (end == NULL || (size_t)(end - pointer) >= sizeof(text))
		return admin_error(c, 400, "", "%s", fault);
	(void)snprintf(text, sizeof(text), "%.*s", (int)(end - pointer), pointer);
	return admin_error(c, 400, text, "%.*s%s", (int)(pointer - fault), fault, end + 2);
}

static enum admin_progress finish(struct admin_call *c, const struct reload_call *r)
{
	cJSON *tree;

	if (!r->done)
		return ADMIN_WAIT;
	if (r->outcome.result == -ESHUTDOWN)
		return admin_error(c, 503, "", "%s", r->outcome.fault);
	if (r->outcome.result != 0)
		return refuse(c, r->outcome.fault);
	c->what = arena_printf(&c->arena, "generation=%u dry_run=%d", r->outcome.generation, r->dry_run);
	tree = cJSON_CreateObject();
	(void)cJSON_AddNumberToObject(tree, "generation", r->outcome.generation);
	(void)cJSON_AddBoolToObject(tree, "dry_run", r->dry_run);
	return admin_answer(c, tree);
}

static enum admin_progress ask_master(struct admin_call *c, bool dry_run)
{
	struct message_reload body = { .serial = c->admin->reload_serial + 1, .dry_run = dry_run };
	struct reload_call *r = arena_zalloc(&c->arena, sizeof(*r));

	if (r == NULL)
		return admin_error(c, 503, "", "no memory");
	if (ipc_send(c->admin->process->ipc_fd, MESSAGE_RELOAD, &body, sizeof(body), NULL, 0) != 0)
		return admin_error(c, 503, "", "the master doesn't listen");
	r->serial = c->admin->reload_serial = body.serial;
	r->dry_run = dry_run;
	c->state = r;
	list_append(&c->admin->reloads, &c->link);
	return ADMIN_WAIT;
}

enum admin_progress admin_reload(struct admin_call *c)
{
	bool dry_run;
	int r;

	if (c->state != NULL)
		return finish(c, c->state);
	r = admin_query_flag(c, "dry_run", &dry_run);
	if (r != 0)
		return admin_query_error(c, r, "dry_run");
	return ask_master(c, dry_run);
}

/* Whoever asked before the file was read: reloads that come together are one. A dry run is answered by its own outcome
 * alone. */
void admin_reloaded(struct admin *a, const struct message_outcome *outcome)
{
	LIST_EACH (&a->reloads, at, next) {
		struct admin_call *c = LIST_ENTRY(at, struct admin_call, link);
		struct reload_call *r = c->state;

		if (r->dry_run != (outcome->dry_run != 0) || (int32_t)(r->serial - outcome->serial) > 0)
			continue;
		list_remove(&c->link);
		r->outcome = *outcome;
		r->outcome.fault[sizeof(r->outcome.fault) - 1] = '\0';
		r->done = true;
		ready_post(&c->wake);
	}
}
