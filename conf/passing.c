/*
 * Request fields by which many frameworks take another URL, host, scheme or method than the request
 * line's. They are in no key, so that with one request a client could make a URL answer for another, and
 * everybody else would get what is stored. Where a field is in the key it can do no harm; where an origin
 * needs it all the same, "pass_headers" names it.
 *
 * X-Forwarded-For, -Host, -Proto, Forwarded and X-Real-IP are not here: the node writes them itself.
 */
#include "conf/passing.h"

static const struct view held[] = {
	VIEW("Front-End-Https"),
	VIEW("X-Backend-Host"),
	VIEW("X-Envoy-Original-Path"),
	VIEW("X-Forwarded"),
	VIEW("X-Host"),
	VIEW("X-HTTP-Host-Override"),
	VIEW("X-HTTP-Method"),
	VIEW("X-HTTP-Method-Override"),
	VIEW("X-Method-Override"),
	VIEW("X-Original-Host"),
	VIEW("X-Original-Method"),
	VIEW("X-Original-URI"),
	VIEW("X-Original-URL"),
	VIEW("X-Override-URL"),
	VIEW("X-Rewrite-URL"),
	VIEW("X-Rewrite-URI"),
	VIEW("X-Scheme"),
	VIEW("X-URL-Scheme"),
};

static bool ours(struct view name)
{
	return view_eq_nocase(name, VIEW("X-Forwarded-For")) ||
	       view_eq_nocase(name, VIEW("X-Forwarded-Host")) ||
	       view_eq_nocase(name, VIEW("X-Forwarded-Proto"));
}

bool conf_held_back(struct view name)
{
	static const struct view prefix = VIEW("X-Forwarded-");

	if (name.n == 0 || ((name.p[0] | 0x20) != 'x' && (name.p[0] | 0x20) != 'f'))
		return false;
	if (name.n > prefix.n && view_eq_nocase(view_of(name.p, prefix.n), prefix))
		return !ours(name);
	for (size_t i = 0; i < ARRAY_LEN(held); i++) {
		if (view_eq_nocase(held[i], name))
			return true;
	}
	return false;
}

static bool listed(const struct conf_list *names, struct view name)
{
	for (size_t i = 0; i < names->count; i++) {
		if (view_eq_nocase(names->at[i], name))
			return true;
	}
	return false;
}

bool conf_passes(const struct conf_cache *cache, struct view name)
{
	return !conf_held_back(name) || listed(&cache->key_headers, name) ||
	       listed(&cache->pass_headers, name);
}
