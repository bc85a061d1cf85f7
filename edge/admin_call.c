/* The table of the admin API's paths, and how calls answer. See admin_call.h. */
#include "edge/admin_call.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "edge/http/chars.h"

#define JSON_TYPE "application/json"

#define GET(path_, need_, fn_) \
	.path = path_, .method = METHOD_GET, .need = ADMIN_NEED_##need_, .fn = fn_
#define POST(path_, need_, fn_) \
	.path = path_, .method = METHOD_POST, .need = ADMIN_NEED_##need_, .fn = fn_

static const struct admin_route routes[] = {
	{ GET("/", NOTHING, admin_page) },
	{ GET("/healthz", NOTHING, admin_healthz), .for_metrics = true },
	{ GET("/readyz", NOTHING, admin_readyz), .for_metrics = true },
	{ GET("/metrics", READ_WHOLE, admin_metrics), .for_metrics = true },
	{ GET("/v1/status", READ, admin_status) },
	{ GET("/v1/stats", READ, admin_stats) },
	{ GET("/v1/object", READ, admin_object), .query = { "url" } },
	{ GET("/v1/objects", READ, admin_objects), .query = { "prefix", "site", "limit", "cursor" } },
	{ POST("/v1/purge", PURGE, admin_purge), .body_bytes_max = ADMIN_BODY_MAX, .changes = true },
	{ GET("/v1/purge/", READ, admin_purge_status) },
	{ GET("/v1/config", READ_WHOLE, admin_config) },
	{ POST("/v1/config/check", READ_WHOLE, admin_config_check), .body_bytes_max = ADMIN_BODY_MAX },
	{ POST("/v1/reload", ADMIN, admin_reload), .query = { "dry_run" }, .changes = true },
	{ POST("/v1/drain", ADMIN, admin_drain), .changes = true },
	{ POST("/v1/resume", ADMIN, admin_resume), .changes = true },
};

static bool fits(const struct admin_route *r, struct view path, struct view *out_rest)
{
	struct view own = view_str(r->path);

	if (own.n == 1 || own.p[own.n - 1] != '/') {
		*out_rest = (struct view){ 0 };
		return view_eq(path, own);
	}
	if (!view_starts(path, own) || path.n == own.n ||
	    memchr(path.p + own.n, '/', path.n - own.n) != NULL)
		return false;
	*out_rest = view_skip(path, own.n);
	return true;
}

const struct admin_route *admin_route(struct view path, struct view *out_rest)
{
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		if (fits(&routes[i], path, out_rest))
			return &routes[i];
	}
	return NULL;
}

bool admin_route_takes(const struct admin_route *r, enum http_method method)
{
	return method == r->method || (method == METHOD_HEAD && r->method == METHOD_GET);
}

const struct admin_route *admin_routes(size_t *out_count)
{
	*out_count = ARRAY_LEN(routes);
	return routes;
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
	c->failure = arena_copy(&c->arena, view_str(message));
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

static bool takes(const struct admin_route *r, struct view name)
{
	for (size_t i = 0; i < ARRAY_LEN(r->query) && r->query[i] != NULL; i++) {
		if (view_eq(name, view_str(r->query[i])))
			return true;
	}
	return false;
}

bool admin_query_known(struct admin_call *c)
{
	struct view rest = c->query;

	while (rest.n > 0) {
		struct view parameter = next_parameter(&rest);
		const char *mark = parameter.n > 0 ? memchr(parameter.p, '=', parameter.n) : NULL;
		struct view name = view_of(parameter.p, mark != NULL ? (size_t)(mark - parameter.p)
								     : parameter.n);
		struct view shown;

		if (takes(c->route, name))
			continue;
		shown = arena_printf(&c->arena, "?%.*s", VIEW_ARG(name));
		(void)admin_error(c, 400, shown.p != NULL ? shown.p : "?", "unknown parameter");
		return false;
	}
	return true;
}

enum admin_progress admin_answer_written(struct admin_call *c, const char *type,
					 int (*write)(const struct admin_call *c, FILE *to))
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);
	int r;

	if (to == NULL)
		return admin_error(c, 503, "", "no memory");
	r = write(c, to);
	if (fclose(to) != 0 || r != 0) {
		free(text);
		return admin_error(c, 503, "", "no memory");
	}
	(void)admin_answer_text(c, 200, type, view_of(text, bytes));
	free(text);
	return ADMIN_DONE;
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

int admin_query_flag(struct admin_call *c, const char *name, bool *out)
{
	struct view rest = c->query, value;
	int r = admin_query(c, view_str(name), &value);

	while (r == -ENOENT && rest.n > 0) {
		if (view_eq(next_parameter(&rest), view_str(name))) {
			*out = true;
			return 0;
		}
	}
	if (r == -ENOENT) {
		*out = false;
		return 0;
	}
	if (r != 0)
		return r;
	*out = view_eq(value, VIEW("true")) || view_eq(value, VIEW("1"));
	return *out || view_eq(value, VIEW("false")) || view_eq(value, VIEW("0")) ? 0 : -EINVAL;
}

enum admin_progress admin_query_error(struct admin_call *c, int error, const char *name)
{
	char pointer[64];

	(void)snprintf(pointer, sizeof(pointer), "?%s", name);
	return admin_error(c, 400, pointer,
			   error == -ENOENT ? "is missing" : "is malformed or given twice");
}
