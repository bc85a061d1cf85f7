/*
 * A form is a set of three bits: which parts make the key. The rules are walked in their order with the set of
 * forms that are possible so far: one that surely matches changes all of them, one that may match adds to
 * them.
 */
#include "edge/scopes.h"

#include "edge/http/uri.h"

enum { FORM_HOST = 1, FORM_SCHEME = 2, FORM_PATH_ONLY = 4, FORMS = 8 };

static unsigned form_of(const struct conf_cache *c)
{
	return (c->key_host ? FORM_HOST : 0) | (c->key_scheme ? FORM_SCHEME : 0) |
	       (c->key_query_none ? FORM_PATH_ONLY : 0);
}

static bool may_match(const struct conf_match *m, const struct target *t)
{
	for (size_t i = 0; i < m->path.count; i++) {
		if (uri_glob(m->path.at[i], t->path_only))
			return true;
	}
	return m->path.count == 0;
}

static bool surely_matches(const struct conf_match *m)
{
	return m->cookie.count == 0 && m->methods == 0 && m->method_names.count == 0;
}

/* Which bits the rule sets. */
static unsigned mask_of(const struct conf_rule *r)
{
	return (r->set & 1u << CONF_RULE_KEY_HOST ? FORM_HOST : 0) |
	       (r->set & 1u << CONF_RULE_KEY_SCHEME ? FORM_SCHEME : 0) |
	       (r->set & 1u << CONF_RULE_KEY_QUERY ? FORM_PATH_ONLY : 0);
}

static unsigned changed(unsigned forms, unsigned mask, unsigned value)
{
	unsigned out = 0;

	for (unsigned f = 0; f < FORMS; f++) {
		if (forms & 1u << f)
			out |= 1u << ((f & ~mask) | (value & mask));
	}
	return out;
}

unsigned scopes_of_url(const struct target *t, struct cache_scope out[SCOPES_OF_URL_MAX])
{
	const struct conf_site *site = t->site;
	unsigned forms = 1u << form_of(&site->cache), count = 0;

	for (size_t i = 0; i < site->rule_count; i++) {
		const struct conf_rule *r = &site->rules[i];
		unsigned mask = mask_of(r), with;

		if (mask == 0 || !may_match(&r->match, t))
			continue;
		with = changed(forms, mask, form_of(&r->cache));
		forms = surely_matches(&r->match) ? with : forms | with;
	}
	for (unsigned f = 0; f < FORMS; f++) {
		struct conf_cache keyed = { .key_host = (f & FORM_HOST) != 0,
					    .key_scheme = (f & FORM_SCHEME) != 0,
					    .key_query_none = (f & FORM_PATH_ONLY) != 0 };
		uint8_t primary[16];

		if ((forms & 1u << f) == 0)
			continue;
		target_key(t, &keyed, primary);
		out[count++] = cache_scope_url(primary);
	}
	return count;
}
