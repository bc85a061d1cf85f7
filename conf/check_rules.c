/* How a site's rules fit together, and with what they can know. */
#include "conf/check.h"
#include "conf/keys.h"
#include "conf/rules.h"

/* A fault at a dotted path below the reader's place. */
#define fault_below(r, path, ...)                        \
	do {                                             \
		size_t fault_mark = enter_path(r, path); \
		conf_reader_fault(r, __VA_ARGS__);       \
		conf_reader_leave(r, fault_mark);        \
	} while (0)

static size_t enter_path(struct conf_reader *r, const char *path)
{
	size_t mark = strlen(r->at);

	while (*path != '\0') {
		char segment[64];
		size_t n = strcspn(path, ".");

		snprintf(segment, sizeof(segment), "%.*s", (int)n, path);
		conf_reader_enter(r, segment);
		path += n + (path[n] == '.');
	}
	return mark;
}

#define TOO_LATE \
	"is decided before there is an answer: not by a rule with \"status\" or \"content_type\""

/* A rule that waits for the answer can't change what led to it. */
static void check_late_rule(struct conf_reader *r, const struct conf_rule *rule)
{
	for (unsigned i = 0; i < CONF_RULE_COUNT; i++) {
		const struct conf_key *key = &conf_scope_cache.keys[i];
		size_t mark = conf_reader_enter(r, "cache");

		if ((rule->set >> i & 1) != 0 && (key->flags & CONF_BEFORE) != 0)
			fault_below(r, key->path, TOO_LATE);
		conf_reader_leave(r, mark);
	}
	if (rule->origin != NULL)
		fault_below(r, "origin", TOO_LATE);
	if (rule->request_edits.count > 0)
		fault_below(r, "request_headers", TOO_LATE);
	if (rule->respond != NULL)
		fault_below(r, rule->respond->location.n > 0 ? "redirect" : "respond", TOO_LATE);
}

static bool changes_nothing(const struct conf_rule *rule)
{
	return rule->set == 0 && rule->origin == NULL && rule->respond == NULL &&
	       rule->request_edits.count == 0 && rule->response_edits.count == 0;
}

static void check_rule(struct conf_reader *r, const struct conf_site *site, const struct conf_rule *rule)
{
	struct conf_cache cache = site->cache;

	if (changes_nothing(rule))
		conf_reader_fault(
			r, "changes nothing: give it \"cache\", \"origin\", \"request_headers\", "
			   "\"response_headers\", \"respond\" or \"redirect\"");
	if (conf_rule_asks_answer(rule))
		check_late_rule(r, rule);
	conf_rule_apply(rule, &cache);
	if (cache.min_ttl_ms > cache.max_ttl_ms && site->cache.min_ttl_ms <= site->cache.max_ttl_ms)
		conf_reader_fault(r, "min_ttl is longer than max_ttl where this rule applies");
}

static void check_edits(struct conf_reader *r, const struct conf_site *site)
{
	size_t requests = 0, responses = 0;

	for (size_t i = 0; i < site->rule_count; i++) {
		requests += site->rules[i].request_edits.count;
		responses += site->rules[i].response_edits.count;
	}
	if (requests > CONF_EDITS_MAX || responses > CONF_EDITS_MAX)
		fault_below(r, "rules", "edit %zu %s in all, at most %d are allowed",
			    requests > CONF_EDITS_MAX ? requests : responses,
			    requests > CONF_EDITS_MAX ? "request fields" : "response fields",
			    CONF_EDITS_MAX);
}

void conf_check_rules(struct conf_reader *r, struct conf_site *site)
{
	size_t mark = conf_reader_enter(r, "rules");

	for (size_t i = 0; i < site->rule_count; i++) {
		size_t rule_mark = conf_reader_enter_index(r, i);

		check_rule(r, site, &site->rules[i]);
		conf_reader_leave(r, rule_mark);
	}
	conf_reader_leave(r, mark);
	check_edits(r, site);
	if (conf_rules_prepare(site) < 0)
		fault_below(
			r, "rules",
			"give a URL more than %d different keys: a purge could not name them all; "
			"use "
			"fewer values of \"key.query\" (beside \"key.host\" and \"key.scheme\")",
			CONF_KEY_FORMS_MAX);
}
