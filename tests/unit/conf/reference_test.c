/*
 * docs/configuration.md holds a reference made from the key table. This test makes it anew and
 * compares. After a change of the table: BRIM_WRITE_REFERENCE=1 and this program, from the
 * project's top folder, writes it.
 */
#include "conf/keys.h"
#include "tests/unit/conf/testing.h"

static const char file[] = "docs/configuration.md";
static const char begin[] = "<!-- from conf/keys.c -->\n", end[] = "<!-- end -->\n";

static const char *type_text(const struct conf_key *key)
{
	if (key->form != NULL)
		return key->form;
	switch (key->type) {
	case CONF_STRING:
		return (key->flags & CONF_NULL) != 0 ? "string or null" : "string";
	case CONF_STRINGS:
		return "list of strings";
	case CONF_NETS:
		return "list of networks";
	case CONF_BOOL:
		return "true, false";
	case CONF_COUNT:
		return "number";
	case CONF_SIZE:
		return "size";
	case CONF_DURATION:
		return (key->flags & CONF_NULL) != 0 ? "duration or null" : "duration";
	case CONF_ARRAY:
		return "list of objects";
	case CONF_MAP:
		return "object of objects";
	default:
		return "object";
	}
}

static void write_type(FILE *f, const struct conf_key *key)
{
	char number[CONF_NUMBER_TEXT];
	bool ranged = key->type == CONF_COUNT || key->type == CONF_SIZE || key->type == CONF_DURATION;

	if (key->type == CONF_CHOICE) {
		for (unsigned i = 0; key->words[i] != NULL; i++)
			fprintf(f, "%s`\"%s\"`", i == 0 ? "" : ", ", key->words[i]);
		return;
	}
	fputs(type_text(key), f);
	if (ranged && key->min > 0)
		fprintf(f, ", from %s", conf_key_number(key, key->min, number));
	if (ranged && key->max > 0)
		fprintf(f, ", to %s", conf_key_number(key, key->max, number));
	if (!ranged && key->max > 0)
		fprintf(f, ", at most %lld", (long long)key->max);
}

static void write_default(FILE *f, const struct conf_key *key)
{
	const char *preset = key->preset;

	if (preset == NULL) {
		fputs((key->flags & CONF_REQUIRED) != 0 ? "required" : "", f);
		return;
	}
	bool bare = strcspn(preset, "[{\"") != 0 && strcmp(preset, "null") != 0 &&
		    strcmp(preset, "true") != 0 && strcmp(preset, "false") != 0 &&
		    preset[strspn(preset, "0123456789")] != '\0';

	fprintf(f, bare ? "`\"%s\"`" : "`%s`", preset);
}

static void write_scope(FILE *f, const struct conf_scope *scope)
{
	const char *separator = "\nNot supported by this version yet (a fault): ";

	fprintf(f, "\n### %s%s%s\n\n| key | takes | default | meaning |\n| --- | --- | --- | --- |\n",
		*scope->name == '\0' ? "" : "`", *scope->name == '\0' ? "The file" : scope->name,
		*scope->name == '\0' ? "" : "`");
	for (size_t i = 0; i < scope->count; i++) {
		const struct conf_key *key = &scope->keys[i];

		if (key->type == CONF_LATER)
			continue;
		fprintf(f, "| `%s` | ", key->path);
		write_type(f, key);
		fputs(" | ", f);
		write_default(f, key);
		fprintf(f, " | %s |\n", key->doc);
	}
	for (size_t i = 0; i < scope->count; i++) {
		if (scope->keys[i].type != CONF_LATER)
			continue;
		fprintf(f, "%s`%s`", separator, scope->keys[i].path);
		separator = ", ";
	}
	fputs(*separator == ',' ? ".\n" : "", f);
}

static char *reference(void)
{
	static const struct conf_scope *const scopes[] = {
		&conf_scope_root,	   &conf_scope_admin_tls,      &conf_scope_token,
		&conf_scope_listener,	   &conf_scope_store,	       &conf_scope_origin,
		&conf_scope_server,	   &conf_scope_origin_tls,     &conf_scope_site,
		&conf_scope_site_tls,	   &conf_scope_hsts,	       &conf_scope_cache,
		&conf_scope_query,	   &conf_scope_rule,	       &conf_scope_match,
		&conf_scope_request_edits, &conf_scope_response_edits, &conf_scope_respond,
		&conf_scope_redirect,
	};
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
		write_scope(f, scopes[i]);
	fputs("\n", f);
	fclose(f);
	return text;
}

static char *read_page(void)
{
	enum { PAGE_BYTES = 1 << 20 };
	char *page = calloc(1, PAGE_BYTES);
	FILE *f = fopen(file, "r");

	assert_non_null(page);
	assert_non_null(f);
	assert_in_range(fread(page, 1, PAGE_BYTES - 1, f), 1, PAGE_BYTES - 2);
	fclose(f);
	return page;
}

static void write_page(const char *page, const char *from, const char *text, const char *to)
{
	FILE *f = fopen(file, "w");

	assert_non_null(f);
	fprintf(f, "%.*s%s%s", (int)(from - page), page, text, to);
	assert_int_equal(fclose(f), 0);
}

static void the_page_has_the_tables_keys(void **state)
{
	char *page = read_page(), *text = reference();
	char *from = strstr(page, begin), *to = strstr(page, end);

	(void)state;
	assert_true(from != NULL && to != NULL);
	from += strlen(begin);
	if (getenv("BRIM_WRITE_REFERENCE") != NULL)
		write_page(page, from, text, to);
	else
		assert_true(strlen(text) == (size_t)(to - from) &&
			    memcmp(from, text, strlen(text)) == 0);
	free(page);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_page_has_the_tables_keys) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
