/*
 * Texts with keys in them: who gets which, and how they end. The keeper serves no TLS but the admin API's, so its
 * text has no other key: a fault in what reads an admin's request then betrays no site.
 *
 * Keys pass through cJSON's trees and the buffers that it prints into, which grow by copying. All memory that cJSON
 * gives back is overwritten, instead of what we'd remember to.
 */
#include <cjson/cJSON.h>
#include <malloc.h>
#include <stdlib.h>

#include "conf/files.h"
#include "conf/parse.h"

static void wipe_and_free(void *p)
{
	if (p != NULL)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

void conf_wipe_freed(void)
{
	cJSON_InitHooks(&(cJSON_Hooks){ .malloc_fn = malloc, .free_fn = wipe_and_free });
}

void conf_text_free(char *text)
{
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(text);
}

/* The path of the admin API's key; NULL: it has none. */
static const char *admin_key(const cJSON *tree)
{
	const cJSON *admin = cJSON_GetObjectItemCaseSensitive(tree, "admin");
	const cJSON *tls = cJSON_GetObjectItemCaseSensitive(admin, "tls");

	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tls, "key"));
}

static void drop_others(cJSON *secret, const char *path)
{
	cJSON *file = secret == NULL ? NULL : secret->child, *next;

	for (; file != NULL; file = next) {
		next = file->next;
		if (path == NULL || file->string == NULL || strcmp(file->string, path) != 0)
			cJSON_Delete(cJSON_DetachItemViaPointer(secret, file));
	}
}

char *conf_without_keys(struct view text)
{
	struct conf_faults unheard = { 0 };
	cJSON *tree, *files;
	char *out;

	/* It is a text that the master has made and built from. */
	if (conf_parse(text, "configuration", &unheard, &tree) < 0)
		return NULL;
	files = cJSON_GetObjectItemCaseSensitive(tree, CONF_FILES_MEMBER);
	drop_others(cJSON_GetObjectItemCaseSensitive(files, "secret"), admin_key(tree));
	out = cJSON_PrintUnformatted(tree);
	cJSON_Delete(tree);
	return out;
}
