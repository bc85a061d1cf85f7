/*
 * Any text as a configuration: building it gives a snapshot or faults, never both, never neither.
 * What is built is used as the node would: hosts looked up, rules applied, slots given.
 */
#include <stdlib.h>

#include "conf/conf.h"

static void use_rules(const struct conf_site *site, const struct conf_request *request)
{
	static const uint16_t statuses[] = { 200, 404, 503 };
	const struct conf_edit *edits[CONF_EDITS_MAX];
	struct conf_cache cache;
	struct conf_ruling ruling;
	struct arena arena;

	arena_init(&arena, 16 << 20);
	conf_request_rules(site, request, &cache, &ruling);
	CHECK(ruling.origin != NULL && ruling.rule < (int)site->rule_count);
	CHECK(cache.key_query.form < site->query_count);
	(void)conf_request_edits(site, &ruling, edits);
	if (ruling.respond != NULL && ruling.respond->location.n > 0) {
		struct view location = conf_redirect_location(ruling.respond, request, &arena);

		CHECK(location.p != NULL && !view_starts(location, VIEW("//")));
	}
	for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
		struct conf_query key = cache.key_query;

		conf_response_rules(site, statuses[i], VIEW("text/html; x"), &cache, &ruling);
		CHECK(cache.key_query.form == key.form && cache.key_query.kind == key.kind);
		(void)conf_response_edits(site, &ruling, edits);
	}
	arena_fini(&arena);
}

static void use_site(const struct conf *c, const struct conf_site *site)
{
	const struct http_fields none = { 0 };
	struct conf_request request = { .path = VIEW("/a/b.png"),
					.query = VIEW("?a&b=1"),
					.host = VIEW("shop.example"),
					.method = METHOD_OTHER,
					.method_text = VIEW("X"),
					.fields = &none };

	use_rules(site, &request);
	request.path = VIEW("//other.example");
	use_rules(site, &request);
	CHECK(conf_site_named(c, site->name) == site);
	for (size_t i = 0; i < site->hosts.count; i++) {
		if (site->hosts.at[i].p[0] != '*')
			CHECK(conf_site_for(c, site->hosts.at[i]) == site);
	}
}

/* The text that children get builds the same. */
static void give_slots(struct view text, const struct conf *c)
{
	struct conf_faults faults = { 0 };
	struct conf *child, *keeper;
	char *with_slots, *without_keys;

	CHECK(conf_assign_slots(text, c, &faults, &with_slots) == 0);
	CHECK(conf_build(view_str(with_slots), 1, &faults, &child) == 0);
	CHECK(conf_reloadable(c, child, &faults) == 0 && faults.count == 0);
	for (size_t i = 0; i < c->site_count; i++)
		CHECK(c->sites[i].slot == child->sites[i].slot);
	without_keys = conf_without_keys(view_str(with_slots));
	CHECK(without_keys != NULL);
	CHECK(conf_build(view_str(without_keys), 1, &faults, &keeper) == 0);
	CHECK(keeper->ticket_keys.count == 0 && keeper->site_count == c->site_count);
	conf_unref(keeper);
	conf_unref(child);
	conf_text_free(without_keys);
	free(with_slots);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct view text = view_of((const char *)data, n);
	struct conf_faults faults = { 0 };
	struct conf *c = NULL;
	int err = conf_build(text, 0, &faults, &c);

	CHECK((err == 0) == (faults.count == 0) && (err == 0) == (c != NULL));
	if (err < 0)
		return 0;
	for (size_t i = 0; i < c->site_count; i++)
		use_site(c, &c->sites[i]);
	give_slots(text, c);
	conf_unref(c);
	return 0;
}
