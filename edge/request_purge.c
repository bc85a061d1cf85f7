/*
 * PURGE on a traffic listener, within its site: the URL with all its variants; «/path*», all whose URL begins so; or, where a
 * field of tag_headers is there, those tags instead of the URL. The answer leaves when the keeper has purged
 * all of it. What doesn't fit into one of the keeper's mailboxes goes there in parts, each a purge with a number of its own.
 */
#include <errno.h>

#include "edge/client.h"
#include "edge/request.h"
#include "edge/scopes.h"
#include "edge/tags.h"

static bool allowed(const struct request *r)
{
	const struct conf_nets *from = &r->target.site->purge_from;

	return client_in(from, r->x->peer) && client_in(from, &r->client);
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

/* --- what is named ---------------------------------------------------------------------------------- */

static int named_tags(struct request *r, const struct tags *tags, struct purging *p)
{
	uint64_t site_hash = r->target.site->name_hash;

	p->scopes = arena_alloc(&r->arena, tags->count * sizeof(*p->scopes));
	if (p->scopes == NULL)
		return -ENOMEM;
	for (; p->count < tags->count; p->count++)
		p->scopes[p->count] = (struct cache_scope){ .kind = CACHE_SCOPE_TAG,
							    .hash = tags->hashes[p->count],
							    .site_hash = site_hash };
	return 0;
}

/* Without the star, which is the last byte of path and query. */
static struct target without_star(const struct target *t)
{
	struct target prefix = *t;

	prefix.path.n--;
	if (prefix.query.n != 0)
		prefix.query.n--;
	else
		prefix.path_only.n--;
	return prefix;
}

static int named_urls(struct request *r, struct purging *p)
{
	const struct view path = r->target.path;

	p->scopes = arena_alloc(&r->arena, SCOPES_OF_URL_MAX * sizeof(*p->scopes));
	if (p->scopes == NULL)
		return -ENOMEM;
	if (path.p[path.n - 1] == '*') {
		struct target prefix = without_star(&r->target);

		p->count = scopes_of_prefix(&prefix, p->scopes);
	} else {
		p->count = scopes_of_url(&r->target, p->scopes);
	}
	return p->count != 0 ? 0 : -E2BIG;
}

/* 0; -ENOENT: tag fields without a tag; -E2BIG; -ENOMEM. */
static int read_names(struct request *r, struct purging **out)
{
	struct purging *p = arena_zalloc(&r->arena, sizeof(*p));
	struct tags tags;
	int e;

	if (p == NULL)
		return -ENOMEM;
	p->soft = wants_soft(r);
	e = tags_read(&r->rq->fields, &r->target.site->cache.tag_headers, r->target.site->name_hash,
		      &r->arena, &tags);
	if (e == 0 && tags.given && tags.count == 0)
		e = -ENOENT;
	if (e == 0)
		e = tags.given ? named_tags(r, &tags, p) : named_urls(r, p);
	if (e == 0)
		*out = p;
	return e;
}

/* --- asking ------------------------------------------------------------------------------------------- */

int request_purge(struct request *r, struct purging *p)
{
	while (p->done < p->count) {
		unsigned part = p->count - p->done;
		int e;

		if (part > CACHE_ASK_SCOPES)
			part = CACHE_ASK_SCOPES;
		e = cache_purge_ask(r->w->cache, &r->purge, p->scopes + p->done, part, p->soft,
				    &r->m.ready, &p->sequence);
		if (e != 0)
			return e;
		stats_purged(&r->w->stats->purges, p->scopes + p->done, part, p->soft);
		p->done += part;
	}
	return 0;
}

static enum step_result answered(struct request *r)
{
	struct view body = arena_printf(&r->arena, "{\"purge\": %llu}\n",
					(unsigned long long)r->purging->sequence);

	return request_answer(
		r, 200, VIEW("Content-Type: application/json\r\nCache-Control: no-store\r\n"), body);
}

static enum step_result bad_names(struct request *r, int error)
{
	switch (error) {
	case -ENOENT:
		return request_error(r, 400, NULL, "a field for tags, and no tag in it");
	case -E2BIG:
		return request_error(r, 400, NULL,
				     "more than 16 KiB or 1000 tags, or 4095 bytes of prefix");
	default:
		return request_error(r, 503, NULL, "no memory");
	}
}

/* What is true: whoever reads that nothing was purged may rely on it. */
static enum step_result not_purged(struct request *r, int error)
{
	if (error == -EIO)
		return request_error(
			r, 500, NULL,
			"the purge could not be written to disk: it may not last; repeat it");
	if (error == -EOWNERDEAD)
		return request_error(
			r, 503, NULL,
			"the keeper went away meanwhile: it may or may not be purged; repeat it");
	if (r->purging->done != 0)
		return request_error(r, 503, NULL,
				     "the keeper went away: not all was purged; repeat it");
	return request_error(r, 503, NULL, "the keeper is away or busy: nothing was purged");
}

static enum step_result ask(struct request *r)
{
	int e = request_purge(r, r->purging);

	if (e == -EINPROGRESS)
		return STEP_PARK;
	return e == 0 ? answered(r) : not_purged(r, e);
}

enum step_result request_step_purge(struct machine *m)
{
	struct request *r = request_of(m);
	int e;

	if (!r->target.site->purge_allowed)
		return request_error(r, 405, NULL, "this site has no purge_from");
	if (!allowed(r))
		return request_error(r, 403, NULL, "this address may not purge here (purge_from)");
	if (r->w->cache == NULL)
		return request_error(r, 503, NULL, "the keeper is away");
	e = r->purging == NULL ? read_names(r, &r->purging) : 0;
	return e == 0 ? ask(r) : bad_names(r, e);
}
