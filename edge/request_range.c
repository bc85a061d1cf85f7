/*
 * Ranges of a stored object (RFC 9110 §14): one part is a 206 like any other answer, with another beginning and end; several
 * are multipart/byteranges, whose part heads come from memory and whose bytes come as a hit's do. An object that is a part
 * itself (request_part.c) serves what lies in it.
 */
#include "edge/answer.h"
#include "edge/http/condition.h"
#include "edge/http/range.h"
#include "edge/request_store.h"
#include "edge/text.h"

enum { PART_HEAD_MAX = 512, BOUNDARY_BYTES = 32 };

struct answer_parts {
	struct http_parts parts;
	struct http_multipart multipart;
	uint64_t base; /* where the stored bytes begin in the representation */
	uint16_t next; /* the part whose head comes next; count: what closes the body */
	char head[PART_HEAD_MAX];
	size_t head_bytes, head_sent;
};

static void content_range_line(struct text *t, const struct http_content_range *c)
{
	char value[HTTP_CONTENT_RANGE_MAX];

	text_line(t, VIEW("Content-Range"), view_of(value, http_content_range_format(c, value)));
}

/* A line of ours more. */
static void put_content_range(struct request *r, const struct http_content_range *c)
{
	struct text t = text_new(&r->arena, r->answer.own.n + HTTP_CONTENT_RANGE_MAX +
						    sizeof("Content-Range: \r\n"));

	text_put(&t, r->answer.own);
	content_range_line(&t, c);
	r->answer.own = text_view(&t);
}

static void one_part(struct request *r, const struct http_range *range,
		     const struct http_content_range *stored)
{
	struct http_content_range c = { .range = *range, .length = stored->length };

	put_content_range(r, &c);
	r->answer.status = 206;
	r->answer.length = (int64_t)(range->last - range->first + 1);
	r->offset = range->first - stored->range.first;
	r->until = range->last + 1 - stored->range.first;
}

static void unsatisfiable(struct request *r, uint64_t length)
{
	struct http_content_range c = { .unsatisfied = true, .length = length };

	put_content_range(r, &c);
	r->answer.status = 416;
	r->answer.length = 0;
	r->offset = r->until = 0;
}

/* --- several parts --------------------------------------------------------------------------- */

static struct view content_type(const struct http_fields *f)
{
	const struct http_field *type = http_fields_first(f, FIELD_CONTENT_TYPE);

	return type != NULL ? type->value : (struct view){ 0 };
}

/* The answer's fields, with a Content-Type of our own. */
static struct view multipart_fields(struct request *r, const struct http_fields *whole,
				    struct view boundary)
{
	struct text t = text_new(&r->arena, r->answer.fields.n + boundary.n + 64);

	for (uint16_t i = 0; i < whole->count; i++)
		if (whole->at[i].id != FIELD_CONTENT_TYPE && whole->at[i].id != FIELD_CONTENT_RANGE)
			text_line(&t, whole->at[i].name, whole->at[i].value);
	text_put(&t, VIEW("Content-Type: multipart/byteranges; boundary="));
	text_put(&t, boundary);
	text_put(&t, VIEW("\r\n"));
	return text_view(&t);
}

static struct view new_boundary(struct request *r)
{
	struct text t = text_new(&r->arena, BOUNDARY_BYTES);

	text_hex(&t, r->w->boot_secret[1]);
	text_hex(&t, ++r->w->request_serial);
	return text_view(&t);
}

static void several_parts(struct request *r, const struct http_parts *parts, uint64_t base)
{
	struct http_field at[ANSWER_FIELDS_MAX];
	struct http_fields whole = { .at = at, .capacity = ARRAY_LEN(at) };
	struct answer_parts *p = arena_zalloc(&r->arena, sizeof(*p));
	struct view boundary = new_boundary(r), fields;

	/* As they were shaped for this client, not as they are stored. */
	if (p == NULL || boundary.p == NULL ||
	    http_fields_parse(&whole, r->answer.fields.p, r->answer.fields.n) != 0)
		return; /* all that is stored is an answer, too */
	fields = multipart_fields(r, &whole, boundary);
	p->parts = *parts;
	p->base = base;
	p->multipart = (struct http_multipart){ .parts = &p->parts,
						.boundary = boundary,
						.content_type = content_type(&whole) };
	if (fields.p == NULL ||
	    http_part_head(&p->multipart, 0, p->head, sizeof(p->head)) > sizeof(p->head))
		return;
	r->answer.fields = fields;
	r->answer.status = 206;
	r->answer.length = (int64_t)http_multipart_bytes(&p->multipart);
	r->parts = p;
	r->offset = r->until = 0;
}

/* --- what is asked of an object ---------------------------------------------------------------- */

/* What the Range comes to for o; RANGE_WHOLE also where it isn't to be looked at. */
static enum http_range_answer resolve(const struct request *r, const struct cache_object *o,
				      const struct http_content_range *stored, struct http_parts *out)
{
	struct http_selected selected = { .status = o->meta.status,
					  .etag = o->meta.etag,
					  .last_modified = o->meta.last_modified,
					  .received = o->meta.received };
	struct http_ranges asked;

	if (http_ranges_parse(&r->rq->fields, &asked) != 0 || !http_if_range(&r->rq->fields, &selected))
		return RANGE_WHOLE;
	return http_ranges_resolve(&asked, stored->length, out);
}

static bool holds(const struct http_content_range *stored, const struct http_parts *parts)
{
	for (uint16_t i = 0; i < parts->count; i++)
		if (parts->at[i].first < stored->range.first || parts->at[i].last > stored->range.last)
			return false;
	return true;
}

bool request_range_in(const struct request *r, const struct cache_object *o)
{
	struct http_content_range stored;
	struct http_parts parts;

	if (request_stored_range(o, &stored) != 0)
		return false;
	switch (resolve(r, o, &stored, &parts)) {
	case RANGE_WHOLE:
		break;
	case RANGE_UNSATISFIABLE:
		return true;
	case RANGE_PARTIAL:
		return holds(&stored, &parts);
	}
	return false;
}

void request_apply_range(struct request *r)
{
	struct http_content_range stored;
	struct http_parts parts;

	if (!r->ranged || (r->answer.status != 200 && r->answer.status != 206) ||
	    request_stored_range(r->object, &stored) != 0)
		return;
	switch (resolve(r, r->object, &stored, &parts)) {
	case RANGE_WHOLE:
		return;
	case RANGE_UNSATISFIABLE:
		r->answer.fields = request_without_range(r, r->answer.fields);
		unsatisfiable(r, stored.length);
		return;
	case RANGE_PARTIAL:
		break;
	}
	if (parts.count > 1) {
		several_parts(r, &parts, stored.range.first);
		return;
	}
	r->answer.fields = request_without_range(r, r->answer.fields);
	one_part(r, &parts.at[0], &stored);
}

/* --- step: parts: a part's head from memory, then deliver its bytes --------------------------------- */

static enum step_result next_part(struct request *r)
{
	struct answer_parts *p = r->parts;
	uint16_t i = p->next++;

	p->head_bytes = p->head_sent = 0;
	if (i == p->parts.count)
		return request_goto(r, REQUEST_FINISH);
	r->offset = p->parts.at[i].first - p->base;
	r->until = p->parts.at[i].last + 1 - p->base;
	return request_goto(r, REQUEST_DELIVER);
}

enum step_result request_step_parts(struct machine *m)
{
	struct request *r = request_of(m);
	struct answer_parts *p = r->parts;

	if (r->x->gone || request_client_stuck(r))
		return request_broken(r);
	if (p->head_bytes == 0)
		p->head_bytes = http_part_head(&p->multipart, p->next, p->head, sizeof(p->head));
	while (p->head_sent < p->head_bytes) {
		int64_t n = r->x->ops->send_memory(r->x, p->head + p->head_sent,
						   p->head_bytes - p->head_sent, false);

		if (n < 0)
			return request_broken(r);
		if (n == 0)
			return request_wait_client(r);
		machine_no_deadline(m);
		p->head_sent += (size_t)n;
	}
	return next_part(r);
}
