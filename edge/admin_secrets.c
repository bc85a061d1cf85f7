/*
 * See admin_secrets.h. Keys and tokens are in files that are not shown at all; what is left are credentials that rules
 * write into heads ("Authorization", "X-Api-Key"), and users in URLs. Better hide a harmless value than show the other.
 */
#include "edge/admin_secrets.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "edge/base/check.h"

void admin_drop_notes(cJSON *configuration)
{
	cJSON *next;

	for (cJSON *at = configuration != NULL ? configuration->child : NULL; at != NULL; at = next) {
		next = at->next;
		if (at->string != NULL && strncmp(at->string, "x-", 2) == 0)
			cJSON_Delete(cJSON_DetachItemViaPointer(configuration, at));
	}
}

/* A member's name says that its value is one. «key» and «token» alone are ours: cache keys, lists of tokens. */
static bool names_secret(const char *name)
{
	static const char *const words[] = { "authorization", "cookie", "password", "secret",
					     "api-key",	      "apikey", "-token",   "-key" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcasestr(name, words[i]) != NULL)
			return true;
	}
	return false;
}

/* "redis://user:password@host" */
static bool holds_user(const char *text)
{
	const char *mark = strstr(text, "://");

	return mark != NULL && memchr(mark + 3, '@', strcspn(mark + 3, "/?#")) != NULL;
}

static void hide(cJSON *value)
{
	cJSON *each;

	if (cJSON_IsString(value))
		(void)cJSON_SetValuestring(value, ADMIN_HIDDEN);
	cJSON_ArrayForEach(each, value)
	{
		hide(each);
	}
}

/* Fields stand in objects {"set": {NAME: value}}; lists of names ("remove", "headers") are no secret. */
static void look(cJSON *value, bool in_fields)
{
	cJSON *each;

	if (cJSON_IsString(value) && holds_user(value->valuestring))
		hide(value);
	cJSON_ArrayForEach(each, value)
	{
		const char *name = each->string;

		if (in_fields && name != NULL && names_secret(name))
			hide(each);
		else
			look(each, name != NULL && (strcmp(name, "set") == 0 || strcmp(name, "add") == 0 ||
						    strcmp(name, "headers") == 0));
	}
}

void admin_hide_secrets(cJSON *configuration)
{
	look(configuration, false);
}
