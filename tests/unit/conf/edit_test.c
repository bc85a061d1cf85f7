/* Head edits of several rules, reduced to what is to be done. */
#include "tests/unit/conf/testing.h"

#define RULES                                                                                      \
	"'rules': [{'request_headers': {'remove': ['X-A', 'X-B'], 'set': {'X-C': '1', 'X-D': "     \
	"['1', "                                                                                   \
	"'2']}, 'add': {'X-E': '1'}}},"                                                            \
	"{'match': {'path': '/a*'}, 'request_headers': {'set': {'x-d': '3'}, 'add': {'x-b': '4', " \
	"'X-E': '5'}}},"                                                                           \
	"{'match': {'path': '/ab'}, 'request_headers': {'remove': ['X-E', 'X-C']}},"               \
	"{'response_headers': {'set': {'Server': 'brim'}}},"                                       \
	"{'match': {'status': '4xx'}, 'response_headers': {'remove': 'server', 'add': "            \
	"{'X-Wrong': 'yes'}}}]"

/* "-X-A =X-C:1 +X-E:1 " */
static void print(FILE *f, const struct conf_edit *const *edits, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fprintf(f, "%c%.*s%s%.*s ", "-=+"[edits[i]->kind], VIEW_ARG(edits[i]->name),
			edits[i] -> value.n > 0 ? ":" : "", VIEW_ARG(edits[i]->value));
	fclose(f);
}

static void check(const char *path, uint16_t status, const char *request, const char *response)
{
	const struct conf_edit *edits[CONF_EDITS_MAX];
	const struct http_fields none = { 0 };
	const struct conf_request r = { .path = view_str(path), .fields = &none };
	struct conf *c = build(WITH_SITE(RULES));
	struct conf_cache cache;
	struct conf_ruling ruling;
	char *text = NULL;
	size_t bytes;

	conf_request_rules(&c->sites[0], &r, &cache, &ruling);
	assert_int_equal(conf_response_edits(&c->sites[0], &ruling, edits), 0);
	print(open_memstream(&text, &bytes), edits, conf_request_edits(&c->sites[0], &ruling, edits));
	assert_string_equal(text, request);
	free(text);
	conf_response_rules(&c->sites[0], status, VIEW(""), &cache, &ruling);
	print(open_memstream(&text, &bytes), edits, conf_response_edits(&c->sites[0], &ruling, edits));
	assert_string_equal(text, response);
	free(text);
	conf_unref(c);
}

static void later_rules_take_what_earlier_ones_did(void **state)
{
	(void)state;
	check("/", 200, "-X-A -X-B =X-C:1 =X-D:1 +X-D:2 +X-E:1 ", "=Server:brim ");
	check("/a", 200, "-X-A -X-B =X-C:1 +X-E:1 =x-d:3 +x-b:4 +X-E:5 ", "=Server:brim ");
	check("/ab", 404, "-X-A -X-B =x-d:3 +x-b:4 -X-E -X-C ", "-server +X-Wrong:yes ");
}

static void hides_what_is_set_or_removed(void **state)
{
	const struct conf_edit set = { CONF_EDIT_SET, VIEW("X-A"), VIEW("1") };
	const struct conf_edit removed = { .kind = CONF_EDIT_REMOVE, .name = VIEW("X-B") };
	const struct conf_edit added = { CONF_EDIT_ADD, VIEW("X-C"), VIEW("1") };
	const struct conf_edit *edits[] = { &set, &removed, &added };

	(void)state;
	assert_true(conf_edits_hide(edits, 3, VIEW("x-a")));
	assert_true(conf_edits_hide(edits, 3, VIEW("X-B")));
	assert_false(conf_edits_hide(edits, 3, VIEW("X-C")));
	assert_false(conf_edits_hide(edits, 0, VIEW("X-A")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(later_rules_take_what_earlier_ones_did),
		cmocka_unit_test(hides_what_is_set_or_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
