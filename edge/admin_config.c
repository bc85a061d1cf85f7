/* GET /v1/config, POST /v1/config/check, POST /v1/reload. */
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

/* --- a candidate ---------------------------------------------------------------------------------- */

/* "/sites/0/hosts: what is wrong" → pointer and message; a syntax fault has a place instead of a pointer. */
static void add_fault(cJSON *list, const char *line)
{
	cJSON *fault = cJSON_CreateObject();
	const char *mark = line[0] == '/' || line[0] == ':' ? strstr(line, ": ") : NULL;

	if (mark != NULL) {
		char pointer[512];

		(void)snprintf(pointer, sizeof(pointer), "%.*s", (int)(mark - line), line);
		(void)cJSON_AddStringToObject(fault, "pointer", pointer);
		line = mark + 2;
	} else {
		(void)cJSON_AddStringToObject(fault, "pointer", "");
	}
	(void)cJSON_AddStringToObject(fault, "message", line);
	(void)cJSON_AddItemToArray(list, fault);
}

static enum admin_progress answer_faults(struct admin_call *c, char *lines)
{
	cJSON *tree = cJSON_CreateObject(), *list = cJSON_CreateArray();
	char *rest = lines, *line;
	enum admin_progress done;

	while ((line = strsep(&rest, "\n")) != NULL) {
		if (*line != '\0')
			add_fault(list, line);
	}
	(void)cJSON_AddItemReferenceToObject(tree, "error", cJSON_GetArrayItem(list, 0));
	(void)cJSON_AddItemToObject(tree, "faults", list);
	done = admin_answer(c, tree);
	if (c->status == 200)
		c->status = 400;
	return done;
}

/* What a reload would refuse, beside what is wrong in itself. */
static int check(struct admin_call *c, struct conf_faults *faults)
{
	struct conf *candidate;
	int r = conf_build(c->body, c->admin->conf->generation + 1, faults, &candidate);

	if (r != 0)
		return r;
	r = conf_reloadable(c->admin->conf, candidate, faults);
	conf_unref(candidate);
	return r;
}

enum admin_progress admin_config_check(struct admin_call *c)
{
	struct conf_faults faults = { 0 };
	enum admin_progress done;
	char *lines = NULL;
	size_t bytes = 0;
	cJSON *tree;
	int r;

	faults.to = open_memstream(&lines, &bytes);
	if (faults.to == NULL)
		return admin_error(c, 503, "", "no memory");
	r = check(c, &faults);
	if (fclose(faults.to) != 0)
		r = -ENOMEM;
	if (r == 0) {
		free(lines);
		tree = cJSON_CreateObject();
		(void)cJSON_AddBoolToObject(tree, "ok", true);
		return admin_answer(c, tree);
	}
	done = faults.count > 0 ? answer_faults(c, lines)
				: admin_error(c, 503, "", "%s", strerror(-r));
	free(lines);
	return done;
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
