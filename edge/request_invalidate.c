/*
 * Invalidation (RFC 9111 §4.4): a non-error answer to an unsafe method makes what is stored of its target unusable, and of
 * the same-origin URIs in its Location and Content-Location, and of the groups in its Cache-Group-Invalidation (RFC 9875
 * §3). Before the answer leaves, so that a client that has it never sees the old state. It is a hard purge of those
 * scopes; of URLs only where something is stored or being fetched.
 */
#include <errno.h>

#include "edge/http/cache_groups.h"
#include "edge/http/uri.h"
#include "edge/request.h"
#include "edge/scopes.h"
#include "edge/text.h"

enum {
	GROUPS_MAX = 128,
	SCOPES_MAX = 3 * SCOPES_OF_URL_MAX + 1 + GROUPS_MAX,
	RETRY_MS = 5, /* all mailboxes are in use, or the keeper is being replaced */
	RETRIES_MAX = 200,
};

bool request_invalidates(const struct request *r, uint16_t status)
{
	return r->w->cache != NULL && !http_method_safe(r->rq->method) && status >= 200 && status < 400;
}

static void add(struct request *r, const struct target *t, struct purging *n, bool *out_skipped)
{
	struct cache_scope scopes[SCOPES_OF_URL_MAX];
	uint8_t primary[16];
	unsigned count;

	target_key(t, &r->cache, primary);
	count = scopes_of_url(t, scopes);
	if (count == 2 /* one key, and the path */ && !cache_url_known(r->w->cache, primary) &&
	    !request_search_known(r, t)) {
		*out_skipped = true;
		return;
	}
	for (unsigned i = 0; i < count && n->count < SCOPES_MAX; i++)
		n->scopes[n->count++] = scopes[i];
}

/* "x/y", against the target's folder (RFC 3986 §5.2.3; dot segments go with normalising). */
static struct view merged(struct request *r, struct view reference)
{
	struct view base = r->target.path_only;
	struct text t = text_new(&r->arena, base.n + reference.n);

	while (base.n > 0 && base.p[base.n - 1] != '/')
		base.n--;
	text_put(&t, base);
	text_put(&t, reference);
	return text_view(&t);
}

/* The path of a reference within the target's own origin; p NULL: elsewhere, or nonsense. */
static struct view own_path(struct request *r, struct view reference)
{
	struct uri u;

	if (uri_parse(reference, &u) == 0) {
		struct target t;
		bool same = view_eq_nocase(u.scheme, r->target.scheme) &&
			    target_of(r->conf, u.scheme, u.authority, u.path, &r->arena, &t) == 0 &&
			    t.site == r->target.site && view_eq(t.authority, r->target.authority);

		return same ? u.path : (struct view){ 0 };
	}
	if (reference.n == 0 || view_starts(reference, VIEW("//")))
		return (struct view){ 0 };
	return reference.p[0] == '/' ? reference : merged(r, reference);
}

static void add_reference(struct request *r, const struct http_response *rs, enum http_field_id id,
			  struct purging *n, bool *out_skipped)
{
	const struct http_field *f = http_fields_first(&rs->fields, id);
	struct view path;
	struct target t;

	if (f == NULL)
		return;
	path = own_path(r, f->value);
	if (path.p == NULL ||
	    target_of(r->conf, r->target.scheme, r->target.authority, path, &r->arena, &t) != 0)
		return;
	add(r, &t, n, out_skipped);
}

static void add_groups(struct request *r, const struct http_response *rs, struct purging *n)
{
	struct sf_cursor at;
	struct view group;

	if (http_groups(&rs->fields, FIELD_CACHE_GROUP_INVALIDATION, &at) != 0)
		return;
	while (n->count < SCOPES_MAX && http_groups_next(&at, &group))
		n->scopes[n->count++] = request_group(r, group);
}

static struct purging *named(struct request *r)
{
	const struct http_response *rs = fetch_response(r->fetch);
	struct purging *n = arena_zalloc(&r->arena, sizeof(*n));
	bool skipped = false;

	if (n != NULL)
		n->scopes = arena_alloc(&r->arena, SCOPES_MAX * sizeof(*n->scopes));
	if (n == NULL || n->scopes == NULL)
		return NULL;
	add(r, &r->target, n, &skipped);
	add_reference(r, rs, FIELD_LOCATION, n, &skipped);
	add_reference(r, rs, FIELD_CONTENT_LOCATION, n, &skipped);
	if (skipped && cache_unsafe_unnoted(r->w->cache))
		n->scopes[n->count++] = cache_scope_unsafe();
	add_groups(r, rs, n);
	return n;
}

static enum step_result not_invalidated(struct request *r)
{
	r->error = "not_invalidated";
	return request_relay_answer(r);
}

enum step_result request_step_invalidate(struct machine *m)
{
	struct request *r = request_of(m);

	machine_no_deadline(m);
	if (r->purging == NULL)
		r->purging = named(r);
	if (r->purging == NULL)
		return not_invalidated(r);
	switch (request_purge(r, r->purging)) {
	case 0:
		return request_relay_answer(r);
	case -EINPROGRESS:
		return STEP_PARK;
	case -EAGAIN:
	case -EOWNERDEAD:
		if (r->retries++ == RETRIES_MAX)
			break;
		machine_deadline(m, RETRY_MS);
		return STEP_PARK;
	}
	return not_invalidated(r);
}
