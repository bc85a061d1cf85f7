/*
 * The JSON Schema of a configuration file, made from the key table, so that editors complete
 * and check what «brim -t» will. Keys of later versions are left out: they are faults.
 *
 * Built as a tree and printed once; when memory runs out the tree is incomplete and nothing
 * is printed but an empty schema, which allows everything.
 */
#include <cjson/cJSON.h>

#include "conf/keys.h"

/* hidden: flags of keys to leave out. Where OWN ones are, nothing is required either. */
static cJSON *scope_schema(const struct conf_scope *scope, uint8_t hidden);

static cJSON *parse(const char *json)
{
	return cJSON_Parse(json);
}

static cJSON *list_schema(const char *element)
{
	cJSON *schema = parse("{\"type\": [\"array\", \"string\"]}");

	cJSON_AddItemToObject(schema, "items", parse(element));
	return schema;
}

static cJSON *count_schema(const struct conf_key *key)
{
	cJSON *schema = parse("{\"type\": \"integer\"}");

	cJSON_AddNumberToObject(schema, "minimum", (double)key->min);
	if (key->max > 0)
		cJSON_AddNumberToObject(schema, "maximum", (double)key->max);
	return schema;
}

static cJSON *duration_schema(const struct conf_key *key)
{
	cJSON *schema = parse("{\"type\": [\"string\", \"number\"],"
			      " \"pattern\": \"^[0-9]+(ms|s|m|h|d)$\"}");

	if ((key->flags & CONF_NULL) != 0)
		cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(schema, "type"),
				     cJSON_CreateString("null"));
	return schema;
}

static cJSON *choice_schema(const struct conf_key *key)
{
	cJSON *schema = cJSON_CreateObject(), *words = cJSON_AddArrayToObject(schema, "enum");

	for (unsigned i = 0; key->words[i] != NULL; i++)
		cJSON_AddItemToArray(words, cJSON_CreateString(key->words[i]));
	return schema;
}

static cJSON *elements_schema(const struct conf_key *key)
{
	bool map = key->type == CONF_MAP;
	cJSON *schema = parse(map ? "{\"type\": \"object\"}" : "{\"type\": \"array\"}");

	if (key->min > 0)
		cJSON_AddNumberToObject(schema, map ? "minProperties" : "minItems", (double)key->min);
	cJSON_AddNumberToObject(schema, map ? "maxProperties" : "maxItems", (double)key->max);
	cJSON_AddItemToObject(schema, map ? "additionalProperties" : "items",
			      scope_schema(key->scope, CONF_RULE_ONLY));
	return schema;
}

/* A rule's "cache" takes all of its keys; "defaults" those that say nothing of who it is. */
static uint8_t hidden_in(const struct conf_scope *scope)
{
	if (scope == &conf_scope_site || scope == &conf_scope_origin)
		return CONF_OWN | CONF_RULE_ONLY;
	return scope == &conf_scope_cache ? 0 : CONF_RULE_ONLY;
}

/* Some take an object, or something shorter. */
static cJSON *special_schema(const struct conf_key *key)
{
	cJSON *object, *either, *choices;

	if (key->scope == NULL)
		return parse(key->schema);
	object = scope_schema(key->scope, hidden_in(key->scope));
	if (key->schema == NULL)
		return object;
	either = cJSON_CreateObject();
	choices = cJSON_AddArrayToObject(either, "anyOf");
	cJSON_AddItemToArray(choices, parse(key->schema));
	cJSON_AddItemToArray(choices, object);
	return either;
}

static cJSON *type_schema(const struct conf_key *key)
{
	switch (key->type) {
	case CONF_STRING:
		return parse((key->flags & CONF_NULL) != 0 ? "{\"type\": [\"string\", \"null\"]}"
							   : "{\"type\": \"string\"}");
	case CONF_STRINGS:
	case CONF_NETS:
		return list_schema("{\"type\": \"string\"}");
	case CONF_BOOL:
		return parse("{\"type\": \"boolean\"}");
	case CONF_COUNT:
		return count_schema(key);
	case CONF_SIZE:
		return parse("{\"type\": [\"string\", \"integer\"],"
			     " \"pattern\": \"^[0-9]+(B|[kK]B|[MGT]B|[KMGT]iB)$\"}");
	case CONF_DURATION:
		return duration_schema(key);
	case CONF_CHOICE:
		return choice_schema(key);
	case CONF_ARRAY:
	case CONF_MAP:
		return elements_schema(key);
	case CONF_OBJECT:
		return scope_schema(key->scope, CONF_RULE_ONLY);
	case CONF_SPECIAL:
		return special_schema(key);
	case CONF_LATER:
		break;
	}
	return NULL;
}

static void add_default(cJSON *schema, const struct conf_key *key)
{
	cJSON *value;

	if (key->preset == NULL)
		return;
	value = cJSON_ParseWithOpts(key->preset, NULL, true);
	cJSON_AddItemToObject(schema, "default",
			      value != NULL ? value : cJSON_CreateString(key->preset));
}

/* The object that holds a dotted path's last segment, made on the way where it isn't there. */
static cJSON *holder_of(cJSON *schema, const char **path)
{
	const char *dot;

	while (schema != NULL && (dot = strchr(*path, '.')) != NULL) {
		cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)(dot - *path), *path);
		schema = cJSON_GetObjectItemCaseSensitive(properties, name);
		if (schema == NULL) {
			schema = parse("{\"type\": \"object\", \"additionalProperties\": false,"
				       " \"properties\": {}}");
			cJSON_AddItemToObject(properties, name, schema);
		}
		*path = dot + 1;
	}
	return schema;
}

static void add_key(cJSON *schema, const struct conf_key *key, uint8_t hidden)
{
	const char *name = key->path;
	cJSON *holder, *value;

	if (key->type == CONF_LATER || (key->flags & hidden) != 0)
		return;
	holder = holder_of(schema, &name);
	value = type_schema(key);
	cJSON_AddStringToObject(value, "description", key->doc);
	add_default(value, key);
	cJSON_AddItemToObject(cJSON_GetObjectItemCaseSensitive(holder, "properties"), name, value);
	if ((hidden & CONF_OWN) == 0 && (key->flags & CONF_REQUIRED) != 0)
		cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(schema, "required"),
				     cJSON_CreateString(name));
}

static cJSON *scope_schema(const struct conf_scope *scope, uint8_t hidden)
{
	cJSON *schema = parse("{\"type\": \"object\", \"additionalProperties\": false,"
			      " \"required\": [], \"properties\": {}}");

	for (size_t i = 0; i < scope->count; i++)
		add_key(schema, &scope->keys[i], hidden);
	return schema;
}

void conf_dump_schema(FILE *to)
{
	cJSON *schema = cJSON_CreateObject(), *root = scope_schema(&conf_scope_root, CONF_OWN);
	char *text;

	cJSON_AddStringToObject(schema, "$schema", "http://json-schema.org/draft-07/schema#");
	cJSON_AddStringToObject(schema, "title", "Configuration of Brim");
	while (root != NULL && root->child != NULL) {
		cJSON *part = cJSON_DetachItemViaPointer(root, root->child);

		cJSON_AddItemToObject(schema, part->string, part);
	}
	text = cJSON_Print(schema);
	fprintf(to, "%s\n", text != NULL ? text : "{}");
	cJSON_free(text);
	cJSON_Delete(root);
	cJSON_Delete(schema);
}
