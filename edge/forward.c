/*
 * The request that goes to the origin. Fields pass as they came, less what belongs to the hop, plus Via,
 * CDN-Loop and X-Forwarded-*. What a client says about where it comes from is only believed of trusted
 * proxies; what it can't know (X-Forwarded-Host …) is replaced, or it could poison what is stored.
 */
#include "edge/forward.h"

#include <errno.h>

#include "edge/client.h"
#include "edge/http/field.h"
#include "edge/text.h"

enum { REDUCED_MAX = 256 };

bool forward_loops(const struct request *r)
{
	const struct http_field *f = http_fields_first(&r->rq->fields, FIELD_CDN_LOOP);

	for (; f != NULL; f = http_fields_next(&r->rq->fields, f)) {
		struct view rest = f->value, member;

		while (http_list_next(&rest, &member)) {
			const char *end = memchr(member.p, ';', member.n);

			if (end != NULL)
				member = http_trim(view_of(member.p, (size_t)(end - member.p)));
			if (view_eq_nocase(member, r->conf->name))
				return true;
		}
	}
	return false;
}

/* X-Forwarded-Port, -Server, -Prefix …: all of them say where a request came from. */
static bool says_forwarded(struct view name)
{
	static const struct view prefix = { "X-Forwarded-", 12 };

	return name.n >= prefix.n && view_eq_nocase(view_of(name.p, prefix.n), prefix);
}

static bool is_request_id(const struct request *r, struct view name)
{
	return r->conf->request_id_header.n > 0 && view_eq_nocase(name, r->conf->request_id_header);
}

static const struct view early_data = { "Early-Data", 10 }; /* RFC 8470 §5.1 */

static bool passes(const struct request *r, const struct http_field *f, unsigned flags)
{
	if (f->dropped)
		return false;
	switch (f->id) {
	case FIELD_HOST:
	case FIELD_CONTENT_LENGTH:
	case FIELD_EXPECT:
	case FIELD_X_FORWARDED_FOR:
	case FIELD_FORWARDED:
	case FIELD_X_REAL_IP:
		return false;
	case FIELD_X_FORWARDED_HOST:
	case FIELD_X_FORWARDED_PROTO:
		return r->peer_trusted;
	case FIELD_IF_MATCH:
	case FIELD_IF_NONE_MATCH:
	case FIELD_IF_MODIFIED_SINCE:
	case FIELD_IF_UNMODIFIED_SINCE:
	case FIELD_IF_RANGE:
	case FIELD_RANGE:
		return !(flags & FORWARD_WHOLE);
	case FIELD_OTHER:
		if (r->x->early && view_eq_nocase(f->name, early_data))
			return false; /* we say so ourselves */
		return !is_request_id(r, f->name) && (r->peer_trusted || !says_forwarded(f->name)) &&
		       conf_passes(&r->cache, f->name);
	default:
		return !is_request_id(r, f->name);
	}
}

static void put_validators(struct text *t, const struct request *r)
{
	const struct cache_meta *m = &r->object->meta;

	if (m->etag.n > 0)
		text_line(t, VIEW("If-None-Match"), m->etag);
	if (m->last_modified.n > 0)
		text_line(t, VIEW("If-Modified-Since"), m->last_modified);
}

/* Does the client's own field go on? */
static bool believes(const struct request *r, enum http_field_id id)
{
	return r->peer_trusted && http_fields_has(&r->rq->fields, id);
}

static void put_forwarded(struct text *t, const struct request *r)
{
	const struct http_fields *f = &r->rq->fields;
	char client[SOCK_ADDR_TEXT];

	text_put(t, VIEW("X-Forwarded-For: "));
	if (r->peer_trusted) {
		const struct http_field *at = http_fields_first(f, FIELD_X_FORWARDED_FOR);

		for (; at != NULL; at = http_fields_next(f, at)) {
			text_put(t, at->value);
			text_put(t, VIEW(", "));
		}
	}
	text_put(t, view_str(sock_addr_host(r->x->client, client)));
	text_put(t, VIEW("\r\n"));
	if (!believes(r, FIELD_X_FORWARDED_PROTO))
		text_line(t, VIEW("X-Forwarded-Proto"), r->x->scheme);
	if (!believes(r, FIELD_X_FORWARDED_HOST))
		text_line(t, VIEW("X-Forwarded-Host"), r->target.authority);
}

static void put_ours(struct text *t, const struct request *r)
{
	text_put(t, VIEW("Via: "));
	text_put(t, r->x->via_version);
	text_put(t, VIEW(" "));
	text_put(t, r->conf->name);
	text_put(t, VIEW("\r\n"));
	text_line(t, VIEW("CDN-Loop"), r->conf->name);
	if (r->x->early)
		text_line(t, early_data, VIEW("1"));
	if (r->request_id.n > 0)
		text_line(t, r->conf->request_id_header, r->request_id);
}

static ssize_t value_of(struct view v, char *out, size_t capacity)
{
	if (v.n > capacity)
		return -EINVAL;
	memcpy(out, v.p, v.n);
	return (ssize_t)v.n;
}

ssize_t forward_value(const struct request *r, struct view name, char *out, size_t capacity)
{
	enum http_field_id id = http_field_id(name);

	switch (id) {
	case FIELD_X_FORWARDED_FOR:
		return -EINVAL;
	case FIELD_FORWARDED:
	case FIELD_X_REAL_IP:
		return 0;
	case FIELD_X_FORWARDED_PROTO:
		if (!believes(r, id))
			return value_of(r->x->scheme, out, capacity);
		break;
	case FIELD_X_FORWARDED_HOST:
		if (!believes(r, id))
			return value_of(r->target.authority, out, capacity);
		break;
	default:
		if (is_request_id(r, name))
			return -EINVAL;
		if ((says_forwarded(name) && !r->peer_trusted) || !conf_passes(&r->cache, name))
			return 0;
	}
	return (ssize_t)verdict_reduced_value(r->rq, name, &r->cache, out, capacity);
}

static size_t room_for(const struct request *r)
{
	size_t n = 1024 + r->target.authority.n + 2 * r->conf->name.n +
		   r->conf->request_id_header.n + r->request_id.n;

	for (uint16_t i = 0; i < r->rq->fields.count; i++)
		n += r->rq->fields.at[i].name.n + r->rq->fields.at[i].value.n + 4;
	if (r->object != NULL)
		n += r->object->meta.etag.n + r->object->meta.last_modified.n;
	return n;
}

/* The same field again, further up? */
static bool is_first(const struct http_fields *f, const struct http_field *field)
{
	uint16_t at = 0;

	return http_fields_find(f, field->name, &at) == field;
}

/* As it came, or reduced to what the key knows of it (verdict_reduce). */
static void put_field(struct text *t, const struct request *r, const struct http_field *f)
{
	char reduced[REDUCED_MAX];
	size_t n = 0;

	switch (r->lookup ? verdict_reduce(r->rq, f->name, &r->cache, reduced, sizeof(reduced), &n)
			  : REDUCED_NOT) {
	case REDUCED_NOT:
		text_line(t, f->name, f->value);
		return;
	case REDUCED:
		if (is_first(&r->rq->fields, f))
			text_line(t, f->name, view_of(reduced, n));
		return;
	case REDUCED_AWAY:
		return;
	}
}

static void put_fields(struct text *t, const struct request *r, unsigned flags,
		       const struct conf_edit *const *edits, size_t count)
{
	const struct http_fields *f = &r->rq->fields;

	for (uint16_t i = 0; i < f->count; i++)
		if (passes(r, &f->at[i], flags) && !conf_edits_hide(edits, count, f->at[i].name))
			put_field(t, r, &f->at[i]);
	for (size_t i = 0; i < count; i++)
		if (edits[i]->kind != CONF_EDIT_REMOVE)
			text_line(t, edits[i]->name, edits[i]->value);
}

int forward_build(struct request *r, unsigned flags, struct view *out_start, struct view *out_fields)
{
	const struct http_request *rq = r->rq;
	const struct conf_edit *edits[CONF_EDITS_MAX];
	size_t count = conf_request_edits(r->target.site, &r->ruling, edits), room;
	struct text start = text_new(&r->arena, rq->method_text.n + r->target.path.n + 16), t;

	request_make_id(r);
	room = room_for(r);
	for (size_t i = 0; i < count; i++)
		room += edits[i]->name.n + edits[i]->value.n + 4;
	t = text_new(&r->arena, room);
	text_put(&start, rq->method_text);
	text_put(&start, VIEW(" "));
	text_put(&start, r->target.path);
	text_put(&start, VIEW(" HTTP/1.1\r\n"));
	put_fields(&t, r, flags, edits, count);
	if (r->validating)
		put_validators(&t, r);
	put_forwarded(&t, r);
	put_ours(&t, r);
	if (start.failed || t.failed)
		return -ENOMEM;
	*out_start = text_view(&start);
	*out_fields = text_view(&t);
	return 0;
}
