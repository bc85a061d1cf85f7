/* The JSON schema: there for every key that works, for none that doesn't yet. */
#include <cjson/cJSON.h>

#include "conf/keys.h"
#include "tests/unit/conf/testing.h"

static cJSON *dump(void)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	conf_dump_schema(f);
	fclose(f);
	cJSON *schema = cJSON_Parse(text);

	assert_non_null(schema);
	free(text);
	return schema;
}

static const cJSON *member(const cJSON *object, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* The schema of a dotted path, below an object's schema. */
static const cJSON *at_path(const cJSON *schema, const char *path)
{
	char copy[128], *rest = copy, *name;

	snprintf(copy, sizeof(copy), "%s", path);
	while (schema != NULL && (name = strsep(&rest, ".")) != NULL) {
		assert_true(cJSON_IsFalse(member(schema, "additionalProperties")));
		schema = member(member(schema, "properties"), name);
	}
	return schema;
}

static void check_scope(const cJSON *schema, const struct conf_scope *scope, uint8_t hidden)
{
	for (size_t i = 0; i < scope->count; i++) {
		const struct conf_key *key = &scope->keys[i];
		const cJSON *found = at_path(schema, key->path);
		bool shown = key->type != CONF_LATER && (key->flags & hidden) == 0;

		assert_int_equal(found != NULL, shown);
		if (!shown)
			continue;
		assert_string_equal(member(found, "description")->valuestring, key->doc);
		assert_int_equal(member(found, "default") != NULL, key->preset != NULL);
		if (key->type == CONF_ARRAY)
			check_scope(member(found, "items"), key->scope, CONF_RULE_ONLY);
		if (key->type == CONF_MAP)
			check_scope(member(found, "additionalProperties"), key->scope, CONF_RULE_ONLY);
		if (key->type == CONF_OBJECT)
			check_scope(found, key->scope, CONF_RULE_ONLY);
	}
}

static void holds_every_key_of_the_table(void **state)
{
	cJSON *schema = dump();

	(void)state;
	check_scope(schema, &conf_scope_root, 0);
	cJSON_Delete(schema);
}

static bool requires(const cJSON *schema, const char *name)
{
	const cJSON *word;

	cJSON_ArrayForEach(word, member(schema, "required"))
	{
		if (strcmp(word->valuestring, name) == 0)
			return true;
	}
	return false;
}

static void knows_where_keys_may_stand(void **state)
{
	cJSON *schema = dump();
	const cJSON *site = member(at_path(schema, "sites"), "items");
	const cJSON *rule = member(at_path(site, "rules"), "items");

	(void)state;
	assert_true(requires(site, "hosts"));
	assert_false(requires(at_path(schema, "defaults.site"), "hosts"));
	assert_null(at_path(schema, "defaults.site.hosts"));
	assert_null(at_path(site, "cache.ttl"));
	assert_non_null(at_path(rule, "cache.ttl"));
	assert_string_equal(member(at_path(schema, "limits.header_bytes"), "default")->valuestring,
			    "32KiB");
	assert_int_equal(cJSON_GetArraySize(member(at_path(schema, "log.error.level"), "enum")), 4);
	cJSON_Delete(schema);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holds_every_key_of_the_table),
		cmocka_unit_test(knows_where_keys_may_stand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
