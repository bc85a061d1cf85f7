/* The table of the admin API's paths, and how calls answer. See admin_call.h. */
#include "edge/admin_call.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "edge/http/chars.h"

#define JSON_TYPE "application/json"

struct admin_route {
	const char *path;
	enum http_method method;
	admin_call_fn *fn;
	const char *allow;
};

static const struct admin_route routes[] = {
	{ "/v1/purge", METHOD_POST, admin_purge, "POST" },
	{ "/v1/object", METHOD_GET, admin_object, "GET, HEAD" },
	{ "/v1/status", METHOD_GET, admin_status, "GET, HEAD" },
	{ "/v1/stats", METHOD_GET, admin_stats, "GET, HEAD" },
	{ "/v1/config", METHOD_GET, admin_config, "GET, HEAD" },
	{ "/v1/config/check", METHOD_POST, admin_config_check, "POST" },
	{ "/v1/reload", METHOD_POST, admin_reload, "POST" },
	{ "/metrics", METHOD_GET, admin_metrics, "GET, HEAD" },
	{ "/healthz", METHOD_GET, admin_healthz, "GET, HEAD" },
	{ "/readyz", METHOD_GET, admin_readyz, "GET, HEAD" },
};

static enum admin_progress no_such_path(struct admin_call *c)
{
	return admin_error(c, 404, "", "no such path");
}

static enum admin_progress wrong_method(struct admin_call *c)
{
	return admin_error(c, 405, "", "this path takes %s", c->allow);
}

admin_call_fn *admin_route(enum http_method method, struct view path, const char **out_allow)
{
	if (method == METHOD_HEAD) /* the connection leaves the body out */
		method = METHOD_GET;
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		if (!view_eq(path, view_str(routes[i].path)))
			continue;
		if (routes[i].method == method)
			return routes[i].fn;
		*out_allow = routes[i].allow;
		return wrong_method;
	}
	return no_such_path;
}

/* --- answers ------------------------------------------------------------------------------------ */

enum admin_progress admin_answer_text(struct admin_call *c, uint16_t status, const char *type,
				      struct view text)
{
	struct view copy = arena_copy(&c->arena, text);

	c->status = copy.p != NULL ? status : 500;
	c->type = type;
	c->answer = copy.p != NULL ? copy : (struct view){ 0 };
	return ADMIN_DONE;
}

static enum admin_progress answer_tree(struct admin_call *c, uint16_t status, cJSON *tree)
{
	char *text = cJSON_PrintUnformatted(tree);
	struct view line = { 0 };

	cJSON_Delete(tree);
	if (text != NULL)
		line = arena_printf(&c->arena, "%s\n", text);
	cJSON_free(text);
	c->status = line.p != NULL ? status : 500;
	c->type = JSON_TYPE;
	c->answer = line.p != NULL ? line : (struct view){ 0 };
	return ADMIN_DONE;
}

enum admin_progress admin_answer(struct admin_call *c, struct cJSON *tree)
{
	return answer_tree(c, 200, tree);
}

enum admin_progress admin_error(struct admin_call *c, uint16_t status, const char *pointer,
				const char *format, ...)
{
	cJSON *tree = cJSON_CreateObject(), *error = cJSON_AddObjectToObject(tree, "error");
	char message[1024];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	(void)cJSON_AddStringToObject(error, "pointer", pointer);
	(void)cJSON_AddStringToObject(error, "message", message);
	return answer_tree(c, status, tree);
}

/* --- query parameters ------------------------------------------------------------------------------ */

static bool decode(struct view v, char *out, size_t *out_bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] != '%') {
			out[n++] = v.p[i];
			continue;
		}
		if (v.n - i < 3 || !char_is(v.p[i + 1], CHAR_HEX) || !char_is(v.p[i + 2], CHAR_HEX))
			return false;
		out[n++] = (char)(char_hex(v.p[i + 1]) << 4 | char_hex(v.p[i + 2]));
		i += 2;
	}
	*out_bytes = n;
	return memchr(out, '\0', n) == NULL;
}

static struct view next_parameter(struct view *rest)
{
	const char *mark = rest->n == 0 ? NULL : memchr(rest->p, '&', rest->n);
	size_t n = mark != NULL ? (size_t)(mark - rest->p) : rest->n;
	struct view found = view_of(rest->p, n);

	*rest = view_skip(*rest, mark != NULL ? n + 1 : n);
	return found;
}

int admin_query(struct admin_call *c, struct view name, struct view *out)
{
	struct view rest = c->query, value = { 0 };
	bool found = false;
	char *text;

	while (rest.n > 0) {
		struct view parameter = next_parameter(&rest);

		if (!view_starts(parameter, name) || parameter.n == name.n || parameter.p[name.n] != '=')
			continue;
		if (found)
			return -EINVAL;
		found = true;
		value = view_skip(parameter, name.n + 1);
	}
	if (!found)
		return -ENOENT;
	text = arena_alloc(&c->arena, value.n + 1);
	if (text == NULL || !decode(value, text, &value.n))
		return -EINVAL;
	*out = view_of(text, value.n);
	return 0;
}

enum admin_progress admin_query_error(struct admin_call *c, int error, const char *name)
{
	char pointer[64];

	(void)snprintf(pointer, sizeof(pointer), "?%s", name);
	return admin_error(c, 400, pointer,
			   error == -ENOENT ? "is missing" : "is malformed or given twice");
}
