/*
 * Rules at request time. This runs for every request: no allocation, and for a site without
 * rules one copy of a struct. What a rule sets is copied by the key table's offsets, so that a
 * new key of "cache" needs no line here.
 */
#include "conf/rules.h"

#include "conf/keys.h"
#include "edge/http/field.h"
#include "edge/http/uri.h"

static void copy_keys(const struct conf_rule *rule, uint32_t set, struct conf_cache *cache)
{
	for (; set != 0; set &= set - 1) {
		const struct conf_key *key = &conf_scope_cache.keys[__builtin_ctz(set)];

		memcpy((char *)cache + key->offset, (const char *)&rule->cache + key->offset,
		       key->bytes);
	}
}

void conf_rule_apply(const struct conf_rule *rule, struct conf_cache *cache)
{
	copy_keys(rule, rule->set, cache);
}

static bool any_glob(const struct conf_list *globs, struct view text)
{
	for (size_t i = 0; i < globs->count; i++) {
		if (uri_glob(globs->at[i], text))
			return true;
	}
	return false;
}

/* One Cookie field: "a=1; b=2" (RFC 6265 §4.2.1). */
static bool cookie_matches(const struct conf_list *globs, struct view value)
{
	while (value.n > 0) {
		const char *end = memchr(value.p, ';', value.n);
		struct view pair = view_of(value.p, end == NULL ? value.n : (size_t)(end - value.p));
		const char *equals = pair.n == 0 ? NULL : memchr(pair.p, '=', pair.n);
		struct view name = view_of(pair.p, equals == NULL ? pair.n : (size_t)(equals - pair.p));

		name = http_trim(name);
		if (name.n > 0 && any_glob(globs, name))
			return true;
		value = view_skip(value, end == NULL ? pair.n : pair.n + 1);
	}
	return false;
}

static bool any_cookie(const struct conf_list *globs, const struct http_fields *fields)
{
	const struct http_field *field;

	if (!http_fields_has(fields, FIELD_COOKIE))
		return false;
	for (field = http_fields_first(fields, FIELD_COOKIE); field != NULL;
	     field = http_fields_next(fields, field)) {
		if (cookie_matches(globs, field->value))
			return true;
	}
	return false;
}

static bool method_matches(const struct conf_match *match, const struct conf_request *r)
{
	if (match->methods == 0 && match->method_names.count == 0)
		return true;
	if (r->method != METHOD_OTHER)
		return (match->methods >> r->method & 1) != 0;
	for (size_t i = 0; i < match->method_names.count; i++) {
		if (view_eq(match->method_names.at[i], r->method_text))
			return true;
	}
	return false;
}

static bool rule_matches(const struct conf_match *match, const struct conf_request *r)
{
	return method_matches(match, r) &&
	       (match->path.count == 0 || any_glob(&match->path, r->path)) &&
	       (match->cookie.count == 0 || any_cookie(&match->cookie, r->fields));
}

void conf_cache_for(const struct conf_site *s, const struct conf_request *r, struct conf_cache *out,
		    struct conf_origin **out_origin, int *out_rule)
{
	const uint32_t ttl = 1u << CONF_RULE_TTL, bypass = 1u << CONF_RULE_BYPASS;

	*out = s->cache;
	*out_origin = s->origin;
	*out_rule = -1;
	for (size_t i = 0; i < s->rule_count; i++) {
		const struct conf_rule *rule = &s->rules[i];
		uint32_t set = r->odd_path ? rule->set & ~ttl : rule->set;

		if (!rule_matches(&rule->match, r))
			continue;
		copy_keys(rule, set, out);
		if (rule->origin != NULL)
			*out_origin = rule->origin;
		if ((set & (ttl | bypass)) != 0)
			*out_rule = (int)rule->index;
	}
}
