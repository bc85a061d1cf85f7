/* PURGE on a traffic listener: the URL, with all its variants, within its site; by the keeper, before the answer. */
#include <errno.h>

#include "edge/client.h"
#include "edge/request.h"
#include "edge/scopes.h"

static bool allowed(const struct request *r)
{
	const struct conf_nets *from = &r->target.site->purge_from;

	return client_in(from, &r->x->peer) && client_in(from, &r->client);
}

static bool wants_soft(const struct request *r)
{
	static const char *const names[] = { "Soft-Purge", "Fastly-Soft-Purge" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		uint16_t at = 0;
		const struct http_field *f = http_fields_find(&r->rq->fields, view_str(names[i]), &at);

		if (f != NULL && view_eq(f->value, VIEW("1")))
			return true;
	}
	return false;
}

static bool names_tags(const struct request *r)
{
	const struct conf_list *names = &r->target.site->cache.tag_headers;

	for (size_t i = 0; i < names->count; i++) {
		uint16_t at = 0;

		if (http_fields_find(&r->rq->fields, names->at[i], &at) != NULL)
			return true;
	}
	return false;
}

static enum step_result answered(struct request *r, uint64_t sequence)
{
	struct view body = arena_printf(&r->arena, "{\"purge\": %llu}\n", (unsigned long long)sequence);

	return request_answer(
		r, 200, VIEW("Content-Type: application/json\r\nCache-Control: no-store\r\n"), body);
}

enum step_result request_step_purge(struct machine *m)
{
	struct request *r = request_of(m);
	struct cache_scope scopes[SCOPES_OF_URL_MAX];
	uint64_t sequence;
	unsigned count;

	if (!r->target.site->purge_allowed)
		return request_error(r, 405, NULL, "this site has no purge_from");
	if (!allowed(r))
		return request_error(r, 403, NULL, "this address may not purge here (purge_from)");
	if (r->target.path_only.p[r->target.path_only.n - 1] == '*')
		return request_error(r, 501, NULL, "purging by prefix is not supported by this version");
	if (names_tags(r))
		return request_error(r, 501, NULL, "purging by tag is not supported by this version");
	if (r->w->cache == NULL)
		return request_error(r, 503, NULL, "the keeper is away");
	count = scopes_of_url(&r->target, scopes);
	switch (cache_purge_ask(r->w->cache, &r->purge, scopes, count, wants_soft(r), &m->ready,
				&sequence)) {
	case 0:
		return answered(r, sequence);
	case -EINPROGRESS:
		return STEP_PARK;
	case -EAGAIN:
		return request_error(r, 503, NULL, "the keeper is away: nothing was purged");
	default:
		return request_error(r, 500, NULL,
				     "the purge could not be written to disk: it may not last");
	}
}
