/*
 * Invalidation (RFC 9111 §4.4): a non-error answer to an unsafe method makes what is stored of its target unusable, and of
 * the same-origin URIs in its Location and Content-Location. Before the answer leaves, so that a client that has it never
 * sees the old state. It is a hard purge of those URLs; clocks move only where something is stored or being fetched.
 */
#include <errno.h>

#include "edge/http/uri.h"
#include "edge/request.h"
#include "edge/scopes.h"
#include "edge/text.h"

enum {
	SCOPES_MAX = 8, /* of one mailbox */
	RETRY_MS = 5,	/* all mailboxes are in use, or the keeper is being replaced */
	RETRIES_MAX = 200,
};

struct named {
	struct cache_scope scopes[SCOPES_MAX];
	unsigned count;
};

bool request_invalidates(const struct request *r, uint16_t status)
{
	return r->w->cache != NULL && !http_method_safe(r->rq->method) && status >= 200 && status < 400;
}

static void add(struct request *r, const struct target *t, struct named *n)
{
	struct cache_scope scopes[SCOPES_OF_URL_MAX];
	uint8_t primary[16];
	unsigned count;

	target_key(t, &r->cache, primary);
	count = scopes_of_url(t, scopes);
	if (count == 1 && !cache_url_known(r->w->cache, primary))
		return;
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

static void add_reference(struct request *r, const struct http_response *rs, enum http_field_id id, struct named *n)
{
	const struct http_field *f = http_fields_first(&rs->fields, id);
	struct view path;
	struct target t;

	if (f == NULL)
		return;
	path = own_path(r, f->value);
	if (path.p == NULL || target_of(r->conf, r->target.scheme, r->target.authority, path, &r->arena, &t) != 0)
		return;
	add(r, &t, n);
}

/* *out names what is to go; false: nothing that is stored. */
static bool names_anything(struct request *r, struct named *out)
{
	const struct http_response *rs = fetch_response(r->fetch);

	add(r, &r->target, out);
	add_reference(r, rs, FIELD_LOCATION, out);
	add_reference(r, rs, FIELD_CONTENT_LOCATION, out);
	return out->count > 0;
}

enum step_result request_step_invalidate(struct machine *m)
{
	struct request *r = request_of(m);
	struct named n = { .count = 0 };
	uint64_t sequence;

	machine_no_deadline(m);
	if (!names_anything(r, &n) && r->purge.slot == 0)
		return request_relay_answer(r);
	if (n.count == 0)
		n.count = 1; /* asked already: what is asked now isn't looked at */
	switch (cache_purge_ask(r->w->cache, &r->purge, n.scopes, n.count, false, &m->ready, &sequence)) {
	case 0:
		return request_relay_answer(r);
	case -EINPROGRESS:
		return STEP_PARK;
	case -EAGAIN:
		if (r->retries++ < RETRIES_MAX) {
			machine_deadline(m, RETRY_MS);
			return STEP_PARK;
		}
		break;
	}
	r->error = "not_invalidated";
	return request_relay_answer(r);
}
