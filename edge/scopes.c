/*
 * See scopes.h. Of a URL: a form is a number: which parts make the key, and which of the site's queries. The rules are walked in their
 * order with the set of forms that are possible so far: one that surely matches changes all of them, one that
 * may match adds to them. The configuration bounds how many forms there are (conf_rules_prepare).
 */
#include "edge/scopes.h"

enum {
	FORM_HOST = 1,
	FORM_SCHEME = 2,
	FORM_QUERY_SHIFT = 2,
	FORM_QUERY = (CONF_KEY_FORMS_MAX - 1) << FORM_QUERY_SHIFT,
	FORMS = CONF_KEY_FORMS_MAX << FORM_QUERY_SHIFT,
};
_Static_assert(FORMS <= 32, "a set of forms is a word");
_Static_assert((CONF_KEY_FORMS_MAX & (CONF_KEY_FORMS_MAX - 1)) == 0, "a query's number is a mask");

static uint32_t form_of(const struct conf_cache *c)
{
	return (c->key_host ? FORM_HOST : 0) | (c->key_scheme ? FORM_SCHEME : 0) |
	       (uint32_t)c->key_query.form << FORM_QUERY_SHIFT;
}

/* Which bits the rule sets. */
static uint32_t mask_of(const struct conf_rule *r)
{
	return (r->set & 1u << CONF_RULE_KEY_HOST ? FORM_HOST : 0) |
	       (r->set & 1u << CONF_RULE_KEY_SCHEME ? FORM_SCHEME : 0) |
	       (r->set & 1u << CONF_RULE_KEY_QUERY ? FORM_QUERY : 0);
}

static uint32_t changed(uint32_t forms, uint32_t mask, uint32_t value)
{
	uint32_t out = 0;

	for (uint32_t f = 0; f < FORMS; f++) {
		if (forms & 1u << f)
			out |= 1u << ((f & ~mask) | (value & mask));
	}
	return out;
}

static uint32_t possible_forms(const struct target *t)
{
	const struct conf_request url = { .path = t->path_only, .query = t->query, .host = t->host };
	uint32_t forms = 1u << form_of(&t->site->cache);

	for (size_t i = 0; i < t->site->rule_count; i++) {
		const struct conf_rule *r = &t->site->rules[i];
		uint32_t mask = mask_of(r), with;
		enum conf_likely likely = mask == 0 ? CONF_NO : conf_rule_for_url(r, &url);

		if (likely == CONF_NO)
			continue;
		with = changed(forms, mask, form_of(&r->cache));
		forms = likely == CONF_YES ? with : forms | with;
	}
	return forms;
}

/* Two filters may leave the same of a query. */
static unsigned add(struct cache_scope *scopes, unsigned count, struct cache_scope scope)
{
	for (unsigned i = 0; i < count; i++) {
		if (scopes[i].hash == scope.hash)
			return count;
	}
	CHECK(count < CONF_KEY_FORMS_MAX);
	scopes[count] = scope;
	return count + 1;
}

unsigned scopes_of_url(const struct target *t, struct cache_scope out[SCOPES_OF_URL_MAX])
{
	uint32_t forms = possible_forms(t);
	unsigned count = 0;

	for (uint32_t f = 0; f < FORMS; f++) {
		struct conf_cache keyed = { .key_host = (f & FORM_HOST) != 0,
					    .key_scheme = (f & FORM_SCHEME) != 0,
					    .key_query = t->site->queries[f >> FORM_QUERY_SHIFT] };
		uint8_t primary[16];

		if ((forms & 1u << f) == 0)
			continue;
		target_key(t, &keyed, primary);
		count = add(out, count, cache_scope_url(primary));
		out[count - 1].site_hash = t->site->name_hash;
	}
	out[count] = cache_scope_path(t->site->name_hash, t->path_only, t->site->key_forms);
	return count + 1;
}

/* --- hosts and prefixes ----------------------------------------------------------------------------- */

/*
 * The second scope of each names what is stored without its host, which serves all hosts of the site. Whatever the
 * site's keys are like now: they were different before a reload, and may be so again.
 */

static bool filters_queries(const struct conf_site *site)
{
	bool filters = false;

	for (unsigned i = 0; i < site->query_count; i++)
		filters |= conf_query_changes(&site->queries[i]);
	return filters;
}

unsigned scopes_of_host(const struct target *t, struct cache_scope out[SCOPES_OF_HOST_MAX])
{
	out[0] = cache_scope_host(t->site->name_hash, t->host);
	out[1] = cache_scope_host(t->site->name_hash, (struct view){ 0 });
	return 2;
}

unsigned scopes_of_prefix(const struct target *t, struct cache_scope out[SCOPES_OF_HOST_MAX])
{
	struct view path = filters_queries(t->site) ? t->path_only : t->path;

	if (path.n > CACHE_PREFIX_MAX)
		return 0;
	out[0] = cache_scope_prefix(t->site->name_hash, t->authority, path);
	out[1] = cache_scope_prefix(t->site->name_hash, (struct view){ 0 }, path);
	return 2;
}

uint64_t scopes_host_hash(const struct target *t, const struct conf_cache *cache)
{
	struct view host = cache->key_host ? t->host : (struct view){ 0 };

	return cache_scope_host(t->site->name_hash, host).hash;
}
