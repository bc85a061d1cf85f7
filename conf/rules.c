/*
 * Rules at request time. This runs for every request: no allocation, and for a site without
 * rules one copy of a struct. What a rule sets is copied by the key table's offsets, so that a
 * new key of "cache" needs no line here.
 *
 * A match is tried twice: with the request, and once the answer's head is there. In between a bit per
 * rule remembers what the request said, since its head may be gone by then. The second time all
 * rules are applied anew, in order: a rule that waited for the status stands where it is written,
 * not behind those that didn't.
 */
#include "conf/rules.h"

#include <errno.h>

#include "conf/keys.h"
#include "conf/query.h"
#include "edge/base/hash.h"
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

/* --- what a request says */

static bool any_glob(const struct conf_list *globs, struct view text)
{
	for (size_t i = 0; i < globs->count; i++) {
		if (uri_glob(globs->at[i], text))
			return true;
	}
	return false;
}

static bool any_glob_nocase(const struct conf_list *globs, struct view text)
{
	for (size_t i = 0; i < globs->count; i++) {
		if (uri_glob_nocase(globs->at[i], text))
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

static bool any_header(const struct conf_list *globs, const struct http_fields *fields)
{
	for (uint16_t i = 0; i < fields->count; i++) {
		if (!fields->at[i].dropped && any_glob_nocase(globs, fields->at[i].name))
			return true;
	}
	return false;
}

static bool any_parameter(const struct conf_list *globs, struct view query)
{
	struct view rest = conf_query_begin(query), parameter;

	while (conf_query_next(&rest, &parameter)) {
		if (any_glob(globs, conf_query_name(parameter)))
			return true;
	}
	return false;
}

static bool any_net(const struct conf_nets *nets, const struct sock_addr *client)
{
	for (size_t i = 0; client != NULL && i < nets->count; i++) {
		if (sock_net_holds(&nets->at[i], client))
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

static bool url_matches(const struct conf_match *match, const struct conf_request *r)
{
	return (match->path.count == 0 || any_glob(&match->path, r->path)) &&
	       (match->host.count == 0 || any_glob_nocase(&match->host, r->host)) &&
	       (match->query.count == 0 || any_parameter(&match->query, r->query));
}

static bool head_matches(const struct conf_match *match, const struct conf_request *r)
{
	return method_matches(match, r) &&
	       (match->cookie.count == 0 || any_cookie(&match->cookie, r->fields)) &&
	       (match->header.count == 0 || any_header(&match->header, r->fields)) &&
	       (match->client.count == 0 || any_net(&match->client, r->client));
}

static bool asks_head(const struct conf_match *match)
{
	return match->methods != 0 || match->method_names.count + match->cookie.count +
						      match->header.count + match->client.count >
					      0;
}

static bool asks_answer(const struct conf_match *match)
{
	return match->status_count + match->content_type.count > 0;
}

bool conf_rule_asks_answer(const struct conf_rule *rule)
{
	return asks_answer(&rule->match) ||
	       (rule->match.except != NULL && asks_answer(rule->match.except));
}

static enum conf_likely fits(const struct conf_match *match, const struct conf_request *r)
{
	if (!url_matches(match, r) || !head_matches(match, r))
		return CONF_NO;
	return asks_answer(match) ? CONF_MAYBE : CONF_YES;
}

static enum conf_likely fits_url(const struct conf_match *match, const struct conf_request *r)
{
	if (!url_matches(match, r))
		return CONF_NO;
	return asks_head(match) || asks_answer(match) ? CONF_MAYBE : CONF_YES;
}

static enum conf_likely but_not(enum conf_likely match, enum conf_likely except)
{
	if (match == CONF_NO || except == CONF_YES)
		return CONF_NO;
	return except == CONF_NO ? match : CONF_MAYBE;
}

enum conf_likely conf_rule_for_url(const struct conf_rule *rule, const struct conf_request *r)
{
	enum conf_likely match = fits_url(&rule->match, r);

	if (match == CONF_NO || rule->match.except == NULL)
		return match;
	return but_not(match, fits_url(rule->match.except, r));
}

/* --- with the request */

static void apply(const struct conf_rule *rule, bool odd_path, struct conf_cache *cache, int *deciding)
{
	const uint32_t ttl = 1u << CONF_RULE_TTL, bypass = 1u << CONF_RULE_BYPASS;
	uint32_t set = odd_path ? rule->set & ~ttl : rule->set;

	copy_keys(rule, set, cache);
	if ((set & (ttl | bypass)) != 0)
		*deciding = (int)rule->index;
}

static void set_bit(uint64_t *bits, size_t i)
{
	bits[i / 64] |= 1ULL << i % 64;
}

static bool has_bit(const uint64_t *bits, size_t i)
{
	return (bits[i / 64] >> i % 64 & 1) != 0;
}

/* What the request says of rule i, and what of it must be remembered. */
static enum conf_likely ask(const struct conf_rule *rule, size_t i, const struct conf_request *r,
			    struct conf_ruling *out)
{
	enum conf_likely match = fits(&rule->match, r), except = CONF_NO, both;

	if (match != CONF_NO && rule->match.except != NULL)
		except = fits(rule->match.except, r);
	both = but_not(match, except);
	if (both != CONF_NO)
		set_bit(out->asked, i);
	if (except == CONF_MAYBE)
		set_bit(out->barred, i);
	return both;
}

static void try_rules(const struct conf_site *s, const struct conf_request *r,
		      struct conf_cache *cache, struct conf_ruling *out)
{
	for (size_t i = 0; i < s->rule_count; i++) {
		const struct conf_rule *rule = &s->rules[i];

		if (ask(rule, i, r, out) != CONF_YES)
			continue;
		apply(rule, r->odd_path, cache, &out->rule);
		if (rule->origin != NULL)
			out->origin = rule->origin;
		if (rule->respond != NULL)
			out->respond = rule->respond;
	}
}

/* Without rules nobody looks at the bits. */
void conf_request_rules(const struct conf_site *s, const struct conf_request *r,
			struct conf_cache *out_cache, struct conf_ruling *out)
{
	*out_cache = s->cache;
	out->origin = s->origin;
	out->respond = NULL;
	out->rule = -1;
	out->odd_path = r->odd_path;
	if (s->rule_count == 0)
		return;
	memset(out->asked, 0, sizeof(out->asked));
	memset(out->barred, 0, sizeof(out->barred));
	memset(out->answered, 0, sizeof(out->answered));
	try_rules(s, r, out_cache, out);
}

/* --- with the answer */

/* "Text/HTML; charset=utf-8" is "Text/HTML". */
static struct view media_type(struct view content_type)
{
	const char *end = content_type.n == 0 ? NULL : memchr(content_type.p, ';', content_type.n);

	return end == NULL ? content_type
			   : http_trim(view_of(content_type.p, (size_t)(end - content_type.p)));
}

static bool any_status(const struct conf_match *match, uint16_t status)
{
	for (size_t i = 0; i < match->status_count; i++) {
		if (status >= match->statuses[i].from && status <= match->statuses[i].to)
			return true;
	}
	return false;
}

static bool answer_matches(const struct conf_match *match, uint16_t status, struct view type)
{
	return (match->status_count == 0 || any_status(match, status)) &&
	       (match->content_type.count == 0 ||
		(type.n > 0 && any_glob_nocase(&match->content_type, type)));
}

/* Of a rule that was asked. */
static bool rule_answers(const struct conf_rule *rule, bool barred, uint16_t status, struct view type)
{
	return answer_matches(&rule->match, status, type) &&
	       !(barred && answer_matches(rule->match.except, status, type));
}

void conf_response_rules(const struct conf_site *s, uint16_t status, struct view content_type,
			 struct conf_cache *cache, struct conf_ruling *ruling)
{
	struct view type;

	if (!s->rules_on_answer)
		return;
	type = media_type(content_type);
	*cache = s->cache;
	ruling->rule = -1;
	memset(ruling->answered, 0, sizeof(ruling->answered));
	for (size_t i = 0; i < s->rule_count; i++) {
		if (!has_bit(ruling->asked, i) ||
		    !rule_answers(&s->rules[i], has_bit(ruling->barred, i), status, type))
			continue;
		set_bit(ruling->answered, i);
		apply(&s->rules[i], ruling->odd_path, cache, &ruling->rule);
	}
}

/* --- when a snapshot is made */

static bool same_query(const struct conf_query *a, const struct conf_query *b)
{
	if (a->kind != b->kind || a->sort != b->sort || a->names.count != b->names.count)
		return false;
	for (size_t i = 0; i < a->names.count; i++) {
		if (!view_eq(a->names.at[i], b->names.at[i]))
			return false;
	}
	return true;
}

/* Gives q its form. False: it would be one too many. */
static bool add_query(struct conf_site *s, struct conf_query *q)
{
	for (uint8_t i = 0; i < s->query_count; i++) {
		if (!same_query(q, &s->queries[i]))
			continue;
		q->form = i;
		return true;
	}
	if (s->query_count == CONF_KEY_FORMS_MAX)
		return false;
	q->form = s->query_count++;
	s->queries[q->form] = *q;
	return true;
}

static bool sets(const struct conf_rule *rule, enum conf_rule_key key)
{
	return (rule->set >> key & 1) != 0;
}

/* --- what keys are made of, as a hash: whatever decides over the keys that a URL can have */

static uint64_t mix_in(uint64_t h, uint64_t value)
{
	return hash_xxh3_seed(&value, sizeof(value), h);
}

static uint64_t mix_list(uint64_t h, const struct conf_list *list)
{
	h = mix_in(h, list->count);
	for (size_t i = 0; i < list->count; i++)
		h = hash_xxh3_seed(list->at[i].p, list->at[i].n, h);
	return h;
}

static uint64_t mix_cache(uint64_t h, const struct conf_cache *c, bool host, bool scheme, bool query)
{
	h = mix_in(h, (unsigned)host | (unsigned)scheme << 1 | (unsigned)query << 2);
	if (host)
		h = mix_in(h, c->key_host);
	if (scheme)
		h = mix_in(h, c->key_scheme);
	if (query)
		h = mix_list(mix_in(h, (unsigned)c->key_query.kind << 1 | c->key_query.sort),
			     &c->key_query.names);
	return h;
}

/* Of what a request says beside its URL it matters only that it is asked. */
static uint64_t mix_match(uint64_t h, const struct conf_match *match)
{
	h = mix_list(h, &match->path);
	h = mix_list(h, &match->host);
	h = mix_list(h, &match->query);
	return mix_in(h, asks_head(match) || asks_answer(match));
}

static uint64_t mix_rule(uint64_t h, const struct conf_rule *rule)
{
	bool host = sets(rule, CONF_RULE_KEY_HOST), scheme = sets(rule, CONF_RULE_KEY_SCHEME),
	     query = sets(rule, CONF_RULE_KEY_QUERY);

	if (!host && !scheme && !query)
		return h;
	h = mix_match(mix_cache(h, &rule->cache, host, scheme, query), &rule->match);
	return rule->match.except != NULL ? mix_match(h, rule->match.except) : h;
}

static uint32_t key_forms(const struct conf_site *s)
{
	uint64_t h = mix_cache(0, &s->cache, true, true, true);

	for (size_t i = 0; i < s->rule_count; i++)
		h = mix_rule(h, &s->rules[i]);
	return (uint32_t)h | 1;
}

int conf_rules_prepare(struct conf_site *s)
{
	unsigned hosts = 1, schemes = 1;

	s->query_count = 0;
	s->rules_on_answer = false;
	s->key_forms = key_forms(s);
	bool few = add_query(s, &s->cache.key_query);

	for (size_t i = 0; i < s->rule_count; i++) {
		struct conf_rule *rule = &s->rules[i];

		s->rules_on_answer |= conf_rule_asks_answer(rule) || rule->response_edits.count > 0;
		if (sets(rule, CONF_RULE_KEY_HOST) && rule->cache.key_host != s->cache.key_host)
			hosts = 2;
		if (sets(rule, CONF_RULE_KEY_SCHEME) && rule->cache.key_scheme != s->cache.key_scheme)
			schemes = 2;
		if (sets(rule, CONF_RULE_KEY_QUERY))
			few &= add_query(s, &rule->cache.key_query);
	}
	return few && hosts * schemes * s->query_count <= CONF_KEY_FORMS_MAX ? 0 : -E2BIG;
}
