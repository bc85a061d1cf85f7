/*
 * POST /v1/config/check: would a reload take this configuration? A candidate of 4 MiB takes seconds to build, so that a thread
 * does it, on a copy of the body; the keeper's loop goes on. One at a time: threads are also wanted for names and files.
 *
 *   under way   the thread has text, conf and faults; the loop leaves them alone
 *   finished    all is the loop's; the call takes lines and result
 *
 * The call may end first (its client leaves), and so may the admin API (the node ends): the job is then its own, and frees
 * itself when the thread is done.
 */
#include "edge/admin_check.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>

#include "edge/admin_call.h"

struct admin_check {
	struct work work;
	struct admin *admin;	 /* NULL: it is gone */
	struct admin_call *call; /* the same */
	struct conf *conf;	 /* in use: what is compared with; a reference */
	char *text;
	size_t text_bytes;
	struct conf_faults faults;
	char *lines;
	size_t lines_bytes;
	int result;
	bool finished;
};

/* --- in a thread ---------------------------------------------------------------------------------- */

/* What a reload would refuse, beside what is wrong in itself. */
static int build(struct admin_check *k)
{
	struct conf *candidate;
	int r = conf_build(view_of(k->text, k->text_bytes), k->conf->generation + 1, &k->faults,
			   &candidate);

	if (r != 0)
		return r;
	r = conf_reloadable(k->conf, candidate, &k->faults);
	conf_unref(candidate);
	return r;
}

static void run(struct work *w)
{
	struct admin_check *k = CONTAINER_OF(w, struct admin_check, work);

	k->faults.to = open_memstream(&k->lines, &k->lines_bytes);
	if (k->faults.to == NULL) {
		k->result = -ENOMEM;
		return;
	}
	k->result = build(k);
	if (fclose(k->faults.to) != 0)
		k->result = -ENOMEM;
}

/* --- in the loop ---------------------------------------------------------------------------------- */

static void free_check(struct admin_check *k)
{
	conf_unref(k->conf);
	conf_text_free(k->text); /* it may hold keys */
	free(k->lines);
	free(k);
}

static void done(struct work *w)
{
	struct admin_check *k = CONTAINER_OF(w, struct admin_check, work);

	k->finished = true;
	if (k->admin != NULL)
		k->admin->check = NULL;
	if (k->call != NULL)
		ready_post(&k->call->wake);
	else
		free_check(k);
}

void admin_check_forget(struct admin *a)
{
	if (a->check != NULL)
		a->check->admin = NULL;
	a->check = NULL;
}

static void drop(struct admin_call *c)
{
	struct admin_check *k = c->state;

	k->call = NULL;
	if (k->finished)
		free_check(k);
}

static enum admin_progress begin(struct admin_call *c)
{
	struct admin_check *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return admin_error(c, 503, "", "no memory");
	k->admin = c->admin;
	k->call = c;
	k->conf = conf_ref(c->conf);
	k->text = malloc(c->body.n + 1);
	k->text_bytes = c->body.n;
	if (k->text != NULL) { /* not a string before it is parsed: it may hold a NUL */
		memcpy(k->text, c->body.n > 0 ? c->body.p : "", c->body.n);
		k->text[c->body.n] = '\0';
	}
	if (k->text == NULL || work_submit(&k->work, c->admin->loop, run, done) != 0) {
		free_check(k);
		return admin_error(c, 503, "", "no memory");
	}
	c->admin->check = k;
	c->state = k;
	c->drop = drop;
	return ADMIN_WAIT;
}

/* --- the answer ------------------------------------------------------------------------------------ */

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

static enum admin_progress finish(struct admin_call *c, struct admin_check *k)
{
	cJSON *tree;

	if (k->result != 0 && k->faults.count > 0)
		return answer_faults(c, k->lines);
	if (k->result != 0)
		return admin_error(c, 503, "", "%s", strerror(-k->result));
	tree = cJSON_CreateObject();
	(void)cJSON_AddBoolToObject(tree, "ok", true);
	return admin_answer(c, tree);
}

enum admin_progress admin_config_check(struct admin_call *c)
{
	struct admin_check *k = c->state;

	if (k == NULL && c->admin->check != NULL)
		return admin_error(c, 503, "", "another configuration is being checked");
	if (k == NULL)
		return begin(c);
	return k->finished ? finish(c, k) : ADMIN_WAIT;
}
