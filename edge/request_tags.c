/*
 * The tags and cache groups that an answer is stored with. Tags come from the fields of the site's
 * tag_headers; groups (RFC 9875) from Cache-Groups, hashed into a name space of their own, so that no purge
 * by tag names them.
 *
 * A 304 that brings tags replaces the object's; one that brings none leaves it those that it has: their fields are in no
 * stored head, but the hashes are in its entry.
 */
#include <errno.h>

#include "edge/base/log.h"
#include "edge/http/cache_groups.h"
#include "edge/request.h"
#include "edge/tags.h"
#include "edge/text.h"

enum { GROUPS_MAX = 128, KEPT_MAX = TAGS_MAX + GROUPS_MAX };

struct cache_scope request_group(struct request *r, struct view group)
{
	struct text origin = text_new(&r->arena, r->target.scheme.n + r->target.authority.n + 3);

	text_put(&origin, r->target.scheme);
	text_put(&origin, VIEW("://"));
	text_put(&origin, r->target.authority);
	return cache_scope_group(r->target.site->name_hash, text_view(&origin), group);
}

/* Those beyond GROUPS_MAX are left out, as the RFC allows. */
static uint16_t read_groups(struct request *r, const struct http_fields *f, uint64_t *out)
{
	struct sf_cursor at;
	struct view group;
	uint16_t count = 0;

	if (http_groups(f, FIELD_CACHE_GROUPS, &at) != 0)
		return 0;
	while (count < GROUPS_MAX && http_groups_next(&at, &group))
		out[count++] = request_group(r, group).hash;
	return count;
}

/* Counted each time, told once a minute. */
static enum store_reason too_many(struct request *r, int error)
{
	char path[256];

	stats_add(&stats_site(r->w->stats, r->target.site->slot)->untaggable, 1);
	if (!log_due(&r->w->tags_told))
		return STORE_TAGS;
	log_warn("tags_not_stored", "site=%.*s path=%s error=\"%s\" what=\"answers with more than 16 KiB or 1000 tags are relayed and not stored\"",
		 VIEW_ARG(r->target.site->name),
		 log_quote(r->target.path_only.p, r->target.path_only.n, path, sizeof(path)),
		 strerror(-error));
	return STORE_TAGS;
}

static enum store_reason keep(struct request *r, const struct tags *t, const uint64_t *groups,
			      uint16_t group_count, struct cache_meta *m)
{
	uint32_t count = (uint32_t)t->count + group_count;
	uint64_t *kept;

	if (count == 0)
		return STORE_YES;
	if (count > KEPT_MAX)
		return too_many(r, -E2BIG);
	kept = arena_alloc(&r->arena, count * sizeof(*kept));
	if (kept == NULL)
		return too_many(r, -ENOMEM);
	if (t->count != 0)
		memcpy(kept, t->hashes, t->count * sizeof(*kept));
	if (group_count != 0)
		memcpy(kept + t->count, groups, group_count * sizeof(*kept));
	m->tags = kept;
	m->tag_count = tags_sort(kept, (uint16_t)count);
	return STORE_YES;
}

enum store_reason request_tags(struct request *r, const struct http_response *stored,
			       const struct cache_object *validated, struct cache_meta *m)
{
	const struct http_response *came = fetch_response(r->fetch);
	uint64_t groups[GROUPS_MAX];
	struct tags tags;
	int e = tags_read(&came->fields, &r->cache.tag_headers, r->target.site->name_hash,
			  &r->arena, &tags);

	if (e != 0)
		return too_many(r, e);
	if (!tags.given && validated != NULL) {
		tags.hashes = validated->meta.tags;
		tags.count = validated->meta.tag_count;
	}
	return keep(r, &tags, groups, read_groups(r, &stored->fields, groups), m);
}
