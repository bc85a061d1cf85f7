/*
 * brimctl config show|check|diff. A file is read and merged here, where its includes are, and what the files it names
 * hold stays here: keys and tokens are none of the node's that is asked.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "conf/conf.h"
#include "conf/fault.h"
#include "edge/admin_secrets.h"
#include "edge/brimctl_command.h"

#define FILE_DEFAULT "/etc/brim/brim.json"

/* NULL: told. */
static cJSON *read_file(const char *file)
{
	struct conf_faults faults = { .to = stderr };
	cJSON *tree;
	char *text;

	if (conf_read(file, &faults, &text) != 0)
		return NULL;
	tree = cJSON_Parse(text);
	conf_text_free(text);
	if (tree == NULL)
		(void)ctl_no_memory();
	admin_drop_notes(tree);
	return tree;
}

static int check(const struct ctl *c, const char *file)
{
	cJSON *tree = read_file(file);
	char *text;
	int r;

	if (tree == NULL)
		return CTL_FAILED;
	text = cJSON_PrintUnformatted(tree);
	cJSON_Delete(tree);
	if (text == NULL)
		return ctl_no_memory();
	r = ctl_call(c, "POST", "/v1/config/check", view_str(text), show_check);
	cJSON_free(text);
	return r;
}

/* --- diff ---------------------------------------------------------------------------------------------- */

struct diff {
	const struct ctl *ctl;
	unsigned count;
	cJSON *list; /* with --json */
	char pointer[CONF_POINTER_BYTES];
};

static void show_value(const char *mark, const cJSON *value)
{
	char *text = value != NULL ? cJSON_PrintUnformatted(value) : NULL;

	if (text == NULL)
		return;
	(void)printf("  %s ", mark);
	show_text(text, stdout);
	(void)putchar('\n');
	cJSON_free(text);
}

static void tell(struct diff *d, const cJSON *running, const cJSON *file)
{
	cJSON *to;

	d->count++;
	if (d->list == NULL) {
		show_text(d->pointer[0] != '\0' ? d->pointer : "/", stdout);
		(void)putchar('\n');
		show_value("-", running);
		show_value("+", file);
		return;
	}
	to = cJSON_CreateObject();
	(void)cJSON_AddStringToObject(to, "pointer", d->pointer);
	if (running != NULL)
		(void)cJSON_AddItemToObject(to, "running", cJSON_Duplicate(running, true));
	if (file != NULL)
		(void)cJSON_AddItemToObject(to, "file", cJSON_Duplicate(file, true));
	(void)cJSON_AddItemToArray(d->list, to);
}

static void compare(struct diff *d, const cJSON *running, const cJSON *file);

/* One step down, and back. */
static void compare_below(struct diff *d, const char *name, const cJSON *running, const cJSON *file)
{
	size_t n = strlen(d->pointer);

	conf_pointer_add(d->pointer, name);
	compare(d, running, file);
	d->pointer[n] = '\0';
}

static void compare_objects(struct diff *d, const cJSON *running, const cJSON *file)
{
	const cJSON *each;

	cJSON_ArrayForEach(each, running)
	{
		compare_below(d, each->string, each,
			      cJSON_GetObjectItemCaseSensitive(file, each->string));
	}
	cJSON_ArrayForEach(each, file)
	{
		if (cJSON_GetObjectItemCaseSensitive(running, each->string) == NULL)
			compare_below(d, each->string, NULL, each);
	}
}

static void compare_lists(struct diff *d, const cJSON *running, const cJSON *file)
{
	const cJSON *a = running->child, *b = file->child;
	char index[16];

	for (unsigned i = 0; a != NULL || b != NULL; i++) {
		(void)snprintf(index, sizeof(index), "%u", i);
		compare_below(d, index, a, b);
		a = a != NULL ? a->next : NULL;
		b = b != NULL ? b->next : NULL;
	}
}

static void compare(struct diff *d, const cJSON *running, const cJSON *file)
{
	if (cJSON_IsObject(running) && cJSON_IsObject(file))
		compare_objects(d, running, file);
	else if (cJSON_IsArray(running) && cJSON_IsArray(file))
		compare_lists(d, running, file);
	else if (running == NULL || file == NULL || !cJSON_Compare(running, file, true))
		tell(d, running, file);
}

static int finish(struct diff *d)
{
	char *text;

	if (d->list == NULL) {
		if (d->count == 0)
			(void)puts("the node runs what the file says");
		return ctl_flush(d->count == 0 ? CTL_DONE : CTL_FAILED);
	}
	text = cJSON_PrintUnformatted(d->list);
	(void)printf("%s\n", text != NULL ? text : "");
	cJSON_free(text);
	cJSON_Delete(d->list);
	return ctl_flush(d->count == 0 ? CTL_DONE : CTL_FAILED);
}

static int diff(const struct ctl *c, const char *name)
{
	struct diff d = { .ctl = c };
	cJSON *file = read_file(name), *running;

	if (file == NULL)
		return CTL_FAILED;
	admin_hide_secrets(file); /* as the node does */
	running = ctl_ask(c, "GET", "/v1/config", (struct view){ 0 });
	if (running == NULL) {
		cJSON_Delete(file);
		return CTL_FAILED;
	}
	d.list = c->json ? cJSON_CreateArray() : NULL;
	compare(&d, running, file);
	cJSON_Delete(file);
	cJSON_Delete(running);
	return finish(&d);
}

/* --- the command ----------------------------------------------------------------------------------------- */

int ctl_config(struct ctl *c)
{
	static const char wanted[] = "config wants show, check [FILE] or diff [FILE]";
	const char *verb = c->count > 0 ? c->words[0] : "";
	const char *file = c->count == 2 ? c->words[1] : FILE_DEFAULT;

	if (!ctl_words(c, c->count == 1 ? 1 : 2, wanted))
		return CTL_USAGE;
	if (strcmp(verb, "show") == 0 && c->count == 1)
		return ctl_call(c, "GET", "/v1/config", (struct view){ 0 }, show_config);
	if (strcmp(verb, "check") == 0)
		return check(c, file);
	if (strcmp(verb, "diff") == 0)
		return diff(c, file);
	return ctl_bad_usage(wanted, "");
}
