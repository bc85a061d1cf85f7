/* docs/openapi.json against the table of routes: the same paths, methods, parameters, bodies and roles. */
#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "edge/admin_call.h"

enum { FILE_MAX = 1 << 20 };

static cJSON *document;

static int read_document(void **state)
{
	FILE *f = fopen("docs/openapi.json", "r");
	char *text = malloc(FILE_MAX);
	size_t n;

	(void)state;
	assert_non_null(f);
	assert_non_null(text);
	n = fread(text, 1, FILE_MAX, f);
	assert_true(n > 0 && n < FILE_MAX);
	(void)fclose(f);
	document = cJSON_ParseWithLength(text, n);
	free(text);
	assert_non_null(document);
	return 0;
}

static int forget_document(void **state)
{
	(void)state;
	cJSON_Delete(document);
	return 0;
}

static const cJSON *member(const cJSON *object, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* "/v1/purge/" is described as "/v1/purge/{sequence}". */
static const cJSON *described(const struct admin_route *r)
{
	size_t n = strlen(r->path);
	bool open = n > 1 && r->path[n - 1] == '/';
	const cJSON *each;

	cJSON_ArrayForEach(each, member(document, "paths"))
	{
		if (open ? strncmp(each->string, r->path, n) == 0 && each->string[n] == '{'
			 : strcmp(each->string, r->path) == 0)
			return each;
	}
	return NULL;
}

static const cJSON *operation(const struct admin_route *r)
{
	return member(described(r), r->method == METHOD_GET ? "get" : "post");
}

static void every_route_is_described(void **state)
{
	size_t count;
	const struct admin_route *all = admin_routes(&count);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		if (operation(&all[i]) == NULL)
			fail_msg("%s is not in docs/openapi.json", all[i].path);
		assert_int_equal(cJSON_GetArraySize(described(&all[i])), 1);
	}
}

static void nothing_else_is_described(void **state)
{
	size_t count;
	const struct admin_route *all = admin_routes(&count);
	const cJSON *each;

	(void)state;
	cJSON_ArrayForEach(each, member(document, "paths"))
	{
		bool found = false;

		for (size_t i = 0; i < count; i++)
			found = found || described(&all[i]) == each;
		if (!found)
			fail_msg("there is no route %s", each->string);
	}
}

static bool takes(const struct admin_route *r, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(r->query) && r->query[i] != NULL; i++) {
		if (strcmp(r->query[i], name) == 0)
			return true;
	}
	return false;
}

static void parameters_are_the_same(void **state)
{
	size_t count;
	const struct admin_route *all = admin_routes(&count);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		const cJSON *each;
		unsigned known = 0, written = 0;

		cJSON_ArrayForEach(each, member(operation(&all[i]), "parameters"))
		{
			if (strcmp(cJSON_GetStringValue(member(each, "in")), "query") != 0)
				continue;
			written++;
			assert_true(takes(&all[i], cJSON_GetStringValue(member(each, "name"))));
		}
		while (known < ARRAY_LEN(all[i].query) && all[i].query[known] != NULL)
			known++;
		assert_int_equal(written, known);
	}
}

static void bodies_and_roles_are_the_same(void **state)
{
	static const char *const roles[] = {
		[ADMIN_NEED_NOTHING] = "none", [ADMIN_NEED_READ] = "read",
		[ADMIN_NEED_PURGE] = "purge",  [ADMIN_NEED_READ_WHOLE] = "read, all sites",
		[ADMIN_NEED_ADMIN] = "admin",
	};
	size_t count;
	const struct admin_route *all = admin_routes(&count);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		const cJSON *op = operation(&all[i]);

		assert_int_equal(member(op, "requestBody") != NULL, all[i].body_bytes_max > 0);
		assert_string_equal(cJSON_GetStringValue(member(op, "x-role")), roles[all[i].need]);
		assert_int_equal(member(op, "security") != NULL, all[i].need == ADMIN_NEED_NOTHING);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_route_is_described),
		cmocka_unit_test(nothing_else_is_described),
		cmocka_unit_test(parameters_are_the_same),
		cmocka_unit_test(bodies_and_roles_are_the_same),
	};

	return cmocka_run_group_tests(tests, read_document, forget_document);
}
