/*
 * «brim --origin URL»: the same configuration as a file's, written from options. Places map its
 * parts back to the options, so that faults speak of what was typed.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "conf/parse.h"
#include "conf/read.h"

struct quick_text {
	char store[PATH_MAX], admin[PATH_MAX + 16];
};

/* Relative to where we are: the node may change its directory. */
static int absolute(const char *path, char out[PATH_MAX])
{
	char here[PATH_MAX];

	if (path[0] == '/')
		return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX ? 0 : -ENAMETOOLONG;
	if (getcwd(here, sizeof(here)) == NULL)
		return -errno;
	while (path[0] == '.' && path[1] == '/')
		path += 2;
	if (strcmp(path, ".") == 0)
		path = "";
	const char *between = *path == '\0' || strcmp(here, "/") == 0 ? "" : "/";

	if ((size_t)snprintf(out, PATH_MAX, "%s%s%s", here, between, path) >= PATH_MAX)
		return -ENAMETOOLONG;
	return 0;
}

/* Everything but the options' values. */
static const char *frame(void)
{
	return "{\"origins\": {\"origin\": {\"servers\": [{}]}},"
	       " \"sites\": [{\"name\": \"*\", \"hosts\": [\"*\"], \"origin\": \"origin\","
	       "              \"purge_from\": [\"127.0.0.0/8\", \"::1/128\"]}],"
	       " \"listeners\": [{}], \"stores\": [{}], \"admin\": {\"listen\": []}}";
}

static cJSON *first_of(const cJSON *object, const char *list)
{
	return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(object, list), 0);
}

static bool add_workers(cJSON *tree, const char *workers)
{
	char *end;
	long number = workers == NULL ? 0 : strtol(workers, &end, 10);

	if (workers == NULL || *workers == '\0' || *end != '\0')
		return cJSON_AddStringToObject(tree, "workers", workers == NULL ? "auto" : workers) !=
		       NULL;
	return cJSON_AddNumberToObject(tree, "workers", (double)number) != NULL;
}

static bool add_options(cJSON *tree, const struct conf_quick *q, const struct quick_text *text)
{
	cJSON *origin = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(tree, "origins"), "origin");
	cJSON *store = first_of(tree, "stores");
	cJSON *listen = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(tree, "admin"), "listen");
	cJSON *admin = cJSON_CreateString(q->admin != NULL ? q->admin : text->admin);

	if (admin == NULL || !cJSON_AddItemToArray(listen, admin)) {
		cJSON_Delete(admin);
		return false;
	}
	return cJSON_AddStringToObject(first_of(origin, "servers"), "url", q->origin) != NULL &&
	       cJSON_AddStringToObject(first_of(tree, "listeners"), "address",
				       q->listen != NULL ? q->listen : "127.0.0.1:8080") != NULL &&
	       cJSON_AddStringToObject(store, "path", text->store) != NULL &&
	       cJSON_AddStringToObject(store, "size", q->size != NULL ? q->size : "1GiB") != NULL &&
	       cJSON_AddStringToObject(tree, "user", geteuid() == 0 ? "nobody" : "") != NULL &&
	       add_workers(tree, q->workers);
}

static int add_places(struct conf_places *places)
{
	static const char *const options[][2] = {
		{ "", "brim" },
		{ "/origins", "--origin" },
		{ "/listeners", "--listen" },
		{ "/stores", "--store" },
		{ "/stores/0/size", "--size" },
		{ "/workers", "--workers" },
		{ "/admin/listen", "--admin" },
	};

	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		int err = conf_places_add(places, options[i][0], options[i][1], NULL);

		if (err < 0)
			return err;
	}
	return 0;
}

int conf_quick_text(const struct conf_quick *q, struct conf_faults *faults, char **out_text)
{
	struct conf_places places = { 0 };
	struct quick_text text;
	cJSON *tree;
	int err = absolute(q->store != NULL ? q->store : "brim-cache", text.store);

	if (err < 0) {
		conf_fault(faults, "--store", "%s", strerror(-err));
		return -EINVAL;
	}
	snprintf(text.admin, sizeof(text.admin), "unix:%s/admin.sock", text.store);
	tree = cJSON_Parse(frame());
	if (tree == NULL || !add_options(tree, q, &text) || add_places(&places) < 0)
		err = -ENOMEM;
	else
		err = conf_read_finish(tree, &(struct conf_finish){ 0 }, &places, faults, out_text);
	conf_places_fini(&places);
	cJSON_Delete(tree);
	return err;
}
