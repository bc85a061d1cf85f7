/*
 * No-Vary-Search (draft-ietf-httpbis-no-vary-search): an answer says which parts of the query it doesn't depend on, and may then
 * answer requests for other URLs. Every object lies under its own URL, as any other; what leads there from another one is a hint
 * (cache/search.c). It is proved by the object itself: its stored No-Vary-Search must find both queries equal, and no purge that
 * names either URL may be newer than it.
 *
 * Used are such objects only while they are fresh. A stale one is no reason to ask its own URL what another one needs: that
 * one is fetched, stored, and what leads to it from then on.
 */
#include "edge/http/no_vary_search.h"

#include <errno.h>

#include "edge/answer.h"
#include "edge/request_store.h"
#include "edge/scopes.h"
#include "edge/shape.h"
#include "edge/text.h"

static const struct view field_name = { "No-Vary-Search", sizeof("No-Vary-Search") - 1 };

/* The key of the URL without its query. */
static void path_key(const struct target *t, const struct conf_cache *cache, uint8_t out[16])
{
	struct target path = *t;

	path.path = t->path_only;
	path.query = (struct view){ 0 };
	target_key(&path, cache, out);
}

static struct view query_of(struct view path)
{
	const char *mark = path.n > 0 ? memchr(path.p, '?', path.n) : NULL;

	return mark != NULL ? view_skip(path, (size_t)(mark + 1 - path.p)) : (struct view){ 0 };
}

/* p NULL: no memory. */
static struct view normal_of(struct request *r, const struct http_no_vary_search *s, struct view path)
{
	struct view query = query_of(path);
	char *out = arena_alloc(&r->arena, 3 * query.n + 1);

	return out != NULL ? view_of(out, http_no_vary_normalise(s, query, out)) : (struct view){ 0 };
}

/* The field's lines as one value; empty: none. */
static struct view value_of(struct request *r, const struct http_fields *f)
{
	uint16_t at = 0;
	const struct http_field *line = http_fields_find(f, field_name, &at), *more;
	struct text t;

	if (line == NULL)
		return (struct view){ 0 };
	more = http_fields_find(f, field_name, &at);
	if (more == NULL)
		return line->value;
	t = text_new(&r->arena, CACHE_SEARCH_MAX + 1);
	text_put(&t, line->value);
	for (; more != NULL; more = http_fields_find(f, field_name, &at)) {
		text_put(&t, VIEW(", "));
		text_put(&t, more->value);
	}
	return text_view(&t);
}

static bool read_rule(struct view value, struct http_no_vary_search *out)
{
	struct http_field at = { .name = field_name, .value = value, .id = FIELD_OTHER };
	struct http_fields f = { .at = &at, .count = 1, .capacity = 1, .seen = UINT64_C(1) << FIELD_OTHER };

	return http_no_vary_search(&f, out) == 0;
}

/* --- what an answer says --------------------------------------------------------------------------- */

void request_search_learn(struct request *r, const struct http_response *rs)
{
	struct http_no_vary_search s;
	struct cache_search rule;
	struct view value, normal;
	uint8_t path[16];

	if (!r->cache.no_vary_search)
		return;
	value = value_of(r, &rs->fields);
	if (value.n == 0 || value.n > CACHE_SEARCH_MAX || !read_rule(value, &s))
		return;
	normal = normal_of(r, &s, r->target.path);
	if (normal.p == NULL)
		return;
	path_key(&r->target, &r->cache, path);
	cache_search_learn(r->w->cache, path, value, &rule);
	cache_search_put(r->w->cache, path, &rule, normal, r->key.primary);
}

bool request_search_known(const struct request *r, const struct target *t)
{
	struct cache_search rule;
	uint8_t path[16];

	path_key(t, &r->cache, path);
	return r->cache.no_vary_search && cache_search_rule(r->w->cache, path, &rule);
}

/* --- step: search ------------------------------------------------------------------------------------ */

static enum step_result not_found(struct request *r)
{
	request_forget_object(r);
	return request_goto(r, r->ranged ? REQUEST_PART : REQUEST_CLAIM);
}

static bool follow_hint(struct request *r)
{
	enum forward_reason why = r->why;
	struct http_no_vary_search s;
	struct cache_search rule;
	struct view normal;
	uint8_t path[16];
	bool found;

	path_key(&r->target, &r->cache, path);
	if (!cache_search_rule(r->w->cache, path, &rule) ||
	    !read_rule(view_of(rule.rule, rule.bytes), &s))
		return false;
	normal = normal_of(r, &s, r->target.path);
	if (normal.p == NULL || !cache_search_find(r->w->cache, path, &rule, normal, r->other.primary) ||
	    memcmp(r->other.primary, r->key.primary, sizeof(r->key.primary)) == 0)
		return false;
	r->other.base = r->key.base;
	found = request_find(r, &r->other) == 0 && r->record.kind == CACHE_RECORD_OBJECT &&
		r->record.body_id != r->lost_id;
	r->why = why;
	return found;
}

/* Is url of the same site, host and path as the target? */
static bool same_path(const struct request *r, const struct cache_meta *m, struct view *out_path)
{
	const struct target *t = &r->target;
	struct view rest = m->url, scheme, authority;
	const char *mark = rest.n > 0 ? memmem(rest.p, rest.n, "://", 3) : NULL, *slash;
	size_t n = t->path_only.n;

	if (mark == NULL || m->site_hash != cache_scope_site(t->site->name_hash).hash)
		return false;
	scheme = view_of(rest.p, (size_t)(mark - rest.p));
	rest = view_skip(rest, scheme.n + 3);
	slash = memchr(rest.p, '/', rest.n);
	if (slash == NULL)
		return false;
	authority = view_of(rest.p, (size_t)(slash - rest.p));
	rest = view_skip(rest, authority.n);
	*out_path = rest;
	return (!r->cache.key_scheme || view_eq(scheme, t->scheme)) &&
	       (!r->cache.key_host || view_eq(authority, t->authority)) &&
	       view_starts(rest, t->path_only) && (rest.n == n || rest.p[n] == '?');
}

/* By what the object says of itself. */
static bool is_proved(struct request *r)
{
	struct http_field at[ANSWER_FIELDS_MAX];
	struct http_fields f = { .at = at, .capacity = ARRAY_LEN(at) };
	const struct cache_object *o = r->object;
	struct http_no_vary_search s;
	struct view path, stored, asked;

	if (!same_path(r, &o->meta, &path) || http_fields_parse(&f, o->head.p, o->head.n) != 0 ||
	    http_no_vary_search(&f, &s) != 0)
		return false;
	stored = normal_of(r, &s, path);
	asked = normal_of(r, &s, r->target.path);
	return stored.p != NULL && asked.p != NULL && view_eq(stored, asked);
}

/* By a name of the object's own, or of the URL that is asked for? */
static bool is_purged(struct request *r)
{
	const struct cache_names names = {
		.primary = r->key.primary,
		.site_hash = r->target.site->name_hash,
		.host_hash = scopes_host_hash(&r->target, &r->cache),
		.url = target_url(&r->target, &r->arena),
		.any_host = !r->cache.key_host,
		.forms = r->target.site->key_forms,
	};

	return names.url.p == NULL || cache_object_purged(r->object, names.forms) != CACHE_NOT_PURGED ||
	       cache_object_purged_as(r->object, &names) != CACHE_NOT_PURGED;
}

enum step_result request_step_search(struct machine *m)
{
	struct request *r = request_of(m);
	int e;

	if (r->pending == NULL && !follow_hint(r))
		return not_found(r);
	e = cache_object_open(r->w->cache, &r->other, &r->record, &m->ready, &r->pending, &r->object);
	if (e == -EINPROGRESS)
		return r->x->gone ? request_broken(r) : STEP_PARK;
	if (e != 0 || !is_proved(r) || is_purged(r))
		return not_found(r);
	r->soft_purged = false;
	verdict_age(&r->object->meta, clock_wall(), &r->times);
	shape_rules(r, r->object->meta.status, r->object->head);
	if (verdict_use(r->rq, &r->object->meta, &r->times, false, &r->cache) != USE_FRESH)
		return not_found(r);
	return request_serve_object(r, STATS_HIT, 0);
}
