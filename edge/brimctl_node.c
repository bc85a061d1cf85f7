/* Commands about the node and what it stores: each is a call or a few, and its answer shown. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "edge/brimctl_command.h"

enum { PAGE = 500 };

static const struct view no_body = { 0 };

int ctl_status(struct ctl *c)
{
	if (!ctl_words(c, 0, "status takes no argument"))
		return CTL_USAGE;
	return ctl_call(c, "GET", "/v1/status", no_body, show_status);
}

int ctl_drain(struct ctl *c)
{
	if (!ctl_words(c, 0, "drain takes no argument"))
		return CTL_USAGE;
	return ctl_call(c, "POST", "/v1/drain", no_body, show_drain);
}

int ctl_resume(struct ctl *c)
{
	if (!ctl_words(c, 0, "resume takes no argument"))
		return CTL_USAGE;
	return ctl_call(c, "POST", "/v1/resume", no_body, show_drain);
}

int ctl_reload(struct ctl *c)
{
	bool dry_run = ctl_flag(c, "--dry-run");

	if (!ctl_words(c, 0, "reload takes no argument"))
		return CTL_USAGE;
	return ctl_call(c, "POST", dry_run ? "/v1/reload?dry_run" : "/v1/reload", no_body, show_reload);
}

int ctl_inspect(struct ctl *c)
{
	char *path;
	int r;

	if (!ctl_words(c, 1, "inspect wants one URL"))
		return CTL_USAGE;
	path = ctl_path("/v1/object", "url", c->words[0]);
	if (path == NULL)
		return ctl_no_memory();
	r = ctl_call(c, "GET", path, no_body, show_object);
	free(path);
	return r;
}

static void print_json(const cJSON *value)
{
	char *text = cJSON_PrintUnformatted(value);

	(void)printf("%s\n", text != NULL ? text : "");
	cJSON_free(text);
}

int ctl_store(struct ctl *c)
{
	const cJSON *stores;
	cJSON *status;

	if (!ctl_words(c, 0, "store takes no argument"))
		return CTL_USAGE;
	status = ctl_ask(c, "GET", "/v1/status", no_body);
	if (status == NULL)
		return CTL_FAILED;
	stores = cJSON_GetObjectItemCaseSensitive(status, "stores");
	if (c->json)
		print_json(stores);
	else
		show_stores(stores, stdout);
	cJSON_Delete(status);
	return ctl_flush(CTL_DONE);
}

/* --- objects ------------------------------------------------------------------------------------------- */

/* The path of a page: what was asked for and where it goes on. NULL: no memory. */
static char *page_path(const char *const filters[2], const char *cursor, unsigned left)
{
	static const char *const names[] = { "site", "prefix", "cursor" };
	const char *values[] = { filters[0], filters[1], cursor };
	char limit[64], *path;

	(void)snprintf(limit, sizeof(limit), "/v1/objects?limit=%u", left < PAGE ? left : PAGE);
	path = strdup(limit);
	for (size_t i = 0; path != NULL && i < ARRAY_LEN(names); i++) {
		char *longer;

		if (values[i] == NULL)
			continue;
		longer = ctl_path(path, names[i], values[i]);
		free(path);
		path = longer;
	}
	return path;
}

static unsigned show_page(const struct ctl *c, const cJSON *page)
{
	const cJSON *each;
	unsigned count = 0;

	cJSON_ArrayForEach(each, cJSON_GetObjectItemCaseSensitive(page, "objects"))
	{
		count++;
		if (c->json)
			print_json(each);
		else
			show_listed(each, stdout);
	}
	return count;
}

/* Pages until the end or the limit; with --json an object a line. */
static int list(const struct ctl *c, const char *const filters[2], unsigned limit)
{
	char *cursor = NULL;
	bool more = true;

	while (more && limit > 0) {
		char *path = page_path(filters, cursor, limit);
		cJSON *page = path != NULL ? ctl_ask(c, "GET", path, no_body) : NULL;
		const char *next;

		free(path);
		free(cursor);
		if (page == NULL)
			return CTL_FAILED;
		limit -= show_page(c, page);
		next = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(page, "cursor"));
		cursor = next != NULL ? strdup(next) : NULL;
		more = cursor != NULL;
		cJSON_Delete(page);
		if (ctl_flush(CTL_DONE) != CTL_DONE)
			break;
	}
	free(cursor);
	return ctl_flush(CTL_DONE);
}

int ctl_objects(struct ctl *c)
{
	unsigned limit = UINT32_MAX;
	const char *filters[2];

	if (!ctl_value(c, "--site", &filters[0]) || !ctl_value(c, "--prefix", &filters[1]) ||
	    !ctl_number(c, "--limit", UINT32_MAX, &limit) ||
	    !ctl_words(c, 0, "objects takes options only: --site, --prefix, --limit"))
		return CTL_USAGE;
	return list(c, filters, limit);
}
