/*
 * Shaping answers: what is stored is what the origin sent; what a site wants its clients to see instead is made at
 * delivery, so that a reload changes it at once and one stored answer serves every rule. Costs nothing where no rule asks.
 */
#include "edge/shape.h"

#include "edge/answer.h"
#include "edge/http/field.h"
#include "edge/https.h"
#include "edge/text.h"

/* --- rules that ask for the answer -------------------------------------------------------------- */

static void apply(struct request *r, uint16_t status, const struct http_fields *f)
{
	const struct http_field *type = http_fields_first(f, FIELD_CONTENT_TYPE);

	conf_response_rules(r->target.site, status, type != NULL ? type->value : (struct view){ 0 },
			    &r->cache, &r->ruling);
}

void shape_rules_of(struct request *r, const struct http_response *rs)
{
	if (r->target.site->rules_on_answer)
		apply(r, rs->status, &rs->fields);
}

void shape_rules(struct request *r, uint16_t status, struct view fields)
{
	struct http_field at[ANSWER_FIELDS_MAX];
	struct http_fields f = { .at = at, .capacity = ARRAY_LEN(at) };

	if (r->target.site->rules_on_answer && http_fields_parse(&f, fields.p, fields.n) == 0)
		apply(r, status, &f);
}

/* --- fields ---------------------------------------------------------------------------------------- */

struct shaping {
	const struct conf_edit *edits[CONF_EDITS_MAX];
	size_t edit_count;
	bool hides;
	char control[VERDICT_CLIENT_CONTROL_MAX];
	size_t control_bytes; /* 0: the origin's fields stay */
	bool strict;	      /* the site has a Strict-Transport-Security of its own */
};

/* Most answers have none: a look at the lines' beginnings is cheaper than to write them anew. */
static bool says_strict(struct view fields)
{
	const struct view name = VIEW("Strict-Transport-Security:");

	while (fields.n > name.n) {
		const char *end = memchr(fields.p, '\n', fields.n);

		if (view_eq_nocase(view_of(fields.p, name.n), name))
			return true;
		if (end == NULL)
			return false;
		fields = view_skip(fields, (size_t)(end - fields.p) + 1);
	}
	return false;
}

static bool stays(const struct shaping *s, const struct http_field *f, const struct conf_cache *cache)
{
	if (s->hides && answer_for_caches(f, cache))
		return false;
	if (s->control_bytes > 0 && (f->id == FIELD_CACHE_CONTROL || f->id == FIELD_EXPIRES ||
				     f->id == FIELD_AGE || f->id == FIELD_PRAGMA))
		return false;
	if (s->strict && view_eq_nocase(f->name, VIEW("Strict-Transport-Security")))
		return false;
	return !conf_edits_hide(s->edits, s->edit_count, f->name);
}

static size_t room_for(const struct shaping *s, size_t fields)
{
	size_t n = fields + sizeof("Cache-Control: \r\n") + s->control_bytes;

	for (size_t i = 0; i < s->edit_count; i++)
		n += s->edits[i]->name.n + s->edits[i]->value.n + 4;
	return n;
}

static struct view shaped(struct request *r, const struct shaping *s, const struct http_fields *f,
			  size_t bytes)
{
	struct text t = text_new(&r->arena, room_for(s, bytes));

	for (uint16_t i = 0; i < f->count; i++)
		if (stays(s, &f->at[i], &r->cache))
			text_line(&t, f->at[i].name, f->at[i].value);
	if (s->control_bytes > 0)
		text_line(&t, VIEW("Cache-Control"), view_of(s->control, s->control_bytes));
	for (size_t i = 0; i < s->edit_count; i++)
		if (s->edits[i]->kind != CONF_EDIT_REMOVE)
			text_line(&t, s->edits[i]->name, s->edits[i]->value);
	return text_view(&t);
}

/* strict: the site's own field goes out in place of one that is in there. */
static struct view reshape(struct request *r, uint16_t status, struct view fields, bool hides,
			   bool strict, bool *out_age)
{
	struct http_field at[ANSWER_FIELDS_MAX];
	struct http_response rs = { .status = status,
				    .minor = 1,
				    .fields = { .at = at, .capacity = ARRAY_LEN(at) } };
	struct shaping s = { .hides = hides, .strict = strict };

	if (http_fields_parse(&rs.fields, fields.p, fields.n) != 0)
		return fields;
	if (r->target.site->rules_on_answer)
		s.edit_count = conf_response_edits(r->target.site, &r->ruling, s.edits);
	if (r->cache.client_ttl_ms >= 0)
		s.control_bytes = verdict_client_control(&rs, &r->cache, s.control);
	*out_age = s.control_bytes == 0 && !conf_edits_hide(s.edits, s.edit_count, VIEW("Age"));
	if (s.edit_count == 0 && s.control_bytes == 0 && !s.strict && !s.hides)
		return fields;
	return shaped(r, &s, &rs.fields, fields.n);
}

struct view shape_fields(struct request *r, uint16_t status, struct view fields, bool hides, bool *out_age)
{
	bool hidden = hides && !r->from_downstream, strict = https_strict(r) && says_strict(fields);

	*out_age = true;
	if (r->cache.client_ttl_ms < 0 && !r->target.site->rules_on_answer && !strict && !hidden)
		return fields;
	return reshape(r, status, fields, hidden, strict, out_age);
}

/* --- a rule's own answer ------------------------------------------------------------------------------ */

static struct view respond_fields(struct request *r, const struct conf_respond *own, struct view location)
{
	char date[HTTP_DATE_BYTES];
	size_t bytes = location.n + 128;
	struct text t;

	for (size_t i = 0; i < own->headers.count; i++)
		bytes += own->headers.at[i].name.n + own->headers.at[i].value.n + 4;
	t = text_new(&r->arena, bytes);
	http_date_format(clock_wall(), date);
	text_line(&t, VIEW("Date"), view_of(date, sizeof(date)));
	if (location.n > 0)
		text_line(&t, VIEW("Location"), location);
	for (size_t i = 0; i < own->headers.count; i++)
		text_line(&t, own->headers.at[i].name, own->headers.at[i].value);
	return text_view(&t);
}

enum step_result shape_respond(struct request *r)
{
	const struct conf_respond *own = r->ruling.respond;
	struct conf_request q = request_for_rules(r);
	struct view location = { 0 }, fields;
	bool age;

	if (own->location.n > 0)
		location = conf_redirect_location(own, &q, &r->arena);
	fields = respond_fields(r, own, location);
	if ((own->location.n > 0 && location.p == NULL) || fields.p == NULL)
		return request_error(r, 503, "proxy_internal_error", "short of memory");
	shape_rules(r, own->status, fields);
	return request_answer(r, own->status, shape_fields(r, own->status, fields, false, &age),
			      own->body);
}
