/*
 * Parts that the origin sent (206, RFC 9110 §15.3.7). A part is stored as an object of its own, under the secondary key of the
 * whole one with a word more, so that a request without Range never meets it, and purges, Vary and rules hold for both alike. Its
 * stored head has the Content-Range that says where it lies.
 *
 *   part      nothing whole is stored: does what is asked for lie in the stored part, and is that fresh?
 *   combine   a further part came that touches it, of the same representation: its bytes are read
 *
 * Of one representation are parts with the same strong entity tag alone (RFC 9111 §3.4). What they come to is one part again, or,
 * where nothing is missing, an object like any other. There is one part a key, the newest: what doesn't touch it
 * takes its place. What isn't whole stays within PART_BYTES_MAX, which bounds what is copied and held in memory; a player that
 * jumps about in a film would else write all of it again and again.
 *
 * A stale part is not served, and not asked for either: it is still good to be combined, since the tag proves its bytes.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "edge/answer.h"
#include "edge/http/condition.h"
#include "edge/http/field.h"
#include "edge/request_store.h"
#include "edge/shape.h"
#include "edge/text.h"
#include "edge/transfer.h"

enum { PART_BYTES_MAX = 1 << 20 };

/* --- keys and ranges ----------------------------------------------------------------------------- */

struct cache_key request_part_key(const struct cache_key *whole)
{
	const struct view word = VIEW("part");
	struct cache_key key = *whole;

	key.secondary = cache_key_secondary(whole->secondary, &word, 1);
	return key;
}

static bool has_conditions(const struct http_fields *f)
{
	return http_fields_has(f, FIELD_IF_MATCH) || http_fields_has(f, FIELD_IF_NONE_MATCH) ||
	       http_fields_has(f, FIELD_IF_MODIFIED_SINCE) ||
	       http_fields_has(f, FIELD_IF_UNMODIFIED_SINCE) || http_fields_has(f, FIELD_IF_RANGE);
}

/* With If-Range a 206 may lack the fields that the client has (RFC 9110 §15.3.7): it is its alone. */
bool request_wants_part(const struct request *r)
{
	struct http_ranges asked;

	return r->ranged && r->object == NULL && !has_conditions(&r->rq->fields) &&
	       http_ranges_parse(&r->rq->fields, &asked) == 0 && asked.count == 1;
}

static uint64_t bytes_of(const struct http_range *r)
{
	return r->last - r->first + 1;
}

static bool is_whole(const struct http_content_range *c)
{
	return c->range.first == 0 && c->range.last + 1 == c->length;
}

/* Of exactly one line, that says which bytes these are. */
static int content_range(const struct http_fields *f, struct http_content_range *out)
{
	const struct http_field *line = http_fields_first(f, FIELD_CONTENT_RANGE);
	struct http_content_range c;

	if (line == NULL || http_fields_next(f, line) != NULL ||
	    http_content_range_parse(line->value, &c) != 0 || c.unsatisfied)
		return -EINVAL;
	*out = c;
	return 0;
}

int request_stored_range(const struct cache_object *o, struct http_content_range *out)
{
	struct http_field at[ANSWER_FIELDS_MAX];
	struct http_fields f = { .at = at, .capacity = ARRAY_LEN(at) };
	struct http_content_range c = { .length = o->record.body_bytes };

	if (o->meta.status == 206) {
		if (http_fields_parse(&f, o->head.p, o->head.n) != 0 ||
		    content_range(&f, &c) != 0 || bytes_of(&c.range) != o->record.body_bytes)
			return -EINVAL;
	} else if (c.length > 0) {
		c.range.last = c.length - 1;
	}
	*out = c;
	return 0;
}

static void put_others(struct text *t, const struct http_fields *f)
{
	for (uint16_t i = 0; i < f->count; i++)
		if (f->at[i].id != FIELD_CONTENT_RANGE)
			text_line(t, f->at[i].name, f->at[i].value);
}

/* A head's text with this Content-Range, or, where c is all there is to it, with none. */
static struct view with_range(struct request *r, struct view fields, const struct http_content_range *c)
{
	struct http_field at[ANSWER_FIELDS_MAX];
	struct http_fields f = { .at = at, .capacity = ARRAY_LEN(at) };
	struct text t = text_new(&r->arena, fields.n + HTTP_CONTENT_RANGE_MAX + 32);
	char value[HTTP_CONTENT_RANGE_MAX];

	if (http_fields_parse(&f, fields.p, fields.n) != 0)
		return (struct view){ 0 };
	put_others(&t, &f);
	if (!is_whole(c))
		text_line(&t, VIEW("Content-Range"),
			  view_of(value, http_content_range_format(c, value)));
	return text_view(&t);
}

struct view request_without_range(struct request *r, struct view fields)
{
	const struct http_content_range all = { .range = { 0, 0 }, .length = 1 };

	if (r->object->meta.status != 206)
		return fields;
	return with_range(r, fields, &all);
}

void request_forget_part(struct request *r)
{
	if (r->part != NULL) {
		cache_reader_fini(&r->reader);
		cache_object_unref(r->part);
	}
	free(r->part_bytes);
	r->part = NULL;
	r->part_bytes = NULL;
	r->part_read = 0;
}

/* --- step: part ------------------------------------------------------------------------------------ */

static enum step_result not_from_part(struct request *r)
{
	return request_goto(r, r->claim != NULL ? REQUEST_FETCH : REQUEST_CLAIM);
}

static enum step_result decide(struct request *r)
{
	const struct cache_meta *meta = &r->part->meta;
	enum cache_purged purged = cache_object_purged(r->part, r->target.site->key_forms);
	bool holds;

	if (purged == CACHE_HARD_PURGED) {
		request_forget_part(r);
		return not_from_part(r);
	}
	r->soft_purged = purged == CACHE_SOFT_PURGED;
	verdict_age(meta, clock_wall(), &r->times);
	shape_rules(r, meta->status, r->part->head);
	holds = request_range_in(r, r->part);
	if (holds && verdict_use(r->rq, meta, &r->times, r->soft_purged, &r->cache) == USE_FRESH) {
		r->object = r->part;
		r->part = NULL;
		return request_serve_object(r, STATS_HIT, 0);
	}
	r->why = holds ? FORWARD_STALE : FORWARD_PARTIAL;
	return not_from_part(r);
}

enum step_result request_step_part(struct machine *m)
{
	struct request *r = request_of(m);
	struct cache_key key = request_part_key(&r->key);
	int e;

	if (r->pending == NULL &&
	    (cache_find(r->w->cache, &key, &r->record) != 0 ||
	     r->record.kind != CACHE_RECORD_OBJECT || r->record.body_id == r->lost_id))
		return not_from_part(r);
	e = cache_object_open(r->w->cache, &key, &r->record, &m->ready, &r->pending, &r->part);
	if (e == -EINPROGRESS)
		return r->x->gone ? request_broken(r) : STEP_PARK;
	if (e != 0)
		return not_from_part(r);
	return decide(r);
}

/* --- a part came -------------------------------------------------------------------------------------- */

struct plan {
	struct http_content_range fresh; /* what came */
	struct http_content_range all;	 /* what is stored: with what there was */
	bool combined;
};

/* The same strong tag: byte by byte the same representation. */
static bool same_representation(const struct cache_meta *m, const struct http_response *rs)
{
	const struct http_field *line = http_fields_first(&rs->fields, FIELD_ETAG);
	struct http_etag stored, fresh;

	return (m->flags & META_ETAG_STRONG) && line != NULL &&
	       http_fields_next(&rs->fields, line) == NULL &&
	       http_etag_parse(m->etag, &stored) == 0 && http_etag_parse(line->value, &fresh) == 0 &&
	       !fresh.weak && view_eq(stored.opaque, fresh.opaque);
}

static bool may_be_kept(const struct http_content_range *c)
{
	return is_whole(c) || bytes_of(&c->range) <= PART_BYTES_MAX;
}

static void combine(struct request *r, const struct http_response *rs, struct plan *p)
{
	struct http_content_range old, all = p->fresh;

	if (r->part == NULL ||
	    cache_object_purged(r->part, r->target.site->key_forms) == CACHE_HARD_PURGED ||
	    r->part->record.body_bytes > PART_BYTES_MAX || request_stored_range(r->part, &old) != 0 ||
	    old.length != p->fresh.length || !same_representation(&r->part->meta, rs) ||
	    old.range.first > p->fresh.range.last + 1 || p->fresh.range.first > old.range.last + 1)
		return;
	if (old.range.first < all.range.first)
		all.range.first = old.range.first;
	if (old.range.last > all.range.last)
		all.range.last = old.range.last;
	if (!may_be_kept(&all))
		return;
	p->all = all;
	p->combined = bytes_of(&all.range) > bytes_of(&p->fresh.range);
}

/* False: nothing of it can be stored. */
static bool make_plan(struct request *r, const struct http_response *rs, struct plan *p)
{
	*p = (struct plan){ .combined = false };
	if (rs->status != 206 || rs->framing != FRAMING_LENGTH ||
	    content_range(&rs->fields, &p->fresh) != 0 || rs->length != bytes_of(&p->fresh.range))
		return false;
	p->all = p->fresh;
	combine(r, rs, p);
	return may_be_kept(&p->all);
}

/* What verdict and store are to see: an answer like a whole one, with the stored fields that this one doesn't bring. */
static bool describe(struct request *r, const struct http_response *rs, const struct plan *p,
		     struct http_field *at, struct to_store *s)
{
	struct http_response whole = *rs;
	struct view head = { 0 };

	whole.status = 200;
	if (p->combined) {
		head = answer_merge(r->part->head, rs, &r->cache, fetch_received_at(r->fetch),
				    answer_keep_stored(r->conf, &r->cache), &r->arena);
		if (!request_as_response(r, head, at, &whole))
			return false;
	}
	r->store_reason = request_may_store(r, r->rq, &whole, p->combined ? r->part : NULL, s);
	if (r->store_reason != STORE_YES || !request_heads(r, rs, s))
		return false;
	s->head = with_range(r, p->combined ? head : s->head, &p->all);
	if (!is_whole(&p->all)) {
		s->meta.status = 206;
		s->key = request_part_key(&s->key);
	}
	return s->head.p != NULL && bytes_of(&p->all.range) <= request_largest(r);
}

/* The bytes that there were behind those that come. */
static struct view bytes_behind(const struct request *r, const struct plan *p)
{
	uint64_t n = p->all.range.last - p->fresh.range.last;

	return view_of(r->part_bytes + r->part_read - n, n);
}

/* The fill of all, with the bytes before those that come. 0 or an error: then nothing is held. */
static int begin_fill(struct request *r, const struct plan *p, struct to_store *s,
		      struct cache_fill **out)
{
	uint64_t before = p->fresh.range.first - p->all.range.first;
	struct cache_fill *fill;
	int e = cache_fill_begin(&r->claim, &s->key, &s->meta, view_of(s->vary, s->vary_bytes),
				 s->head, (int64_t)bytes_of(&p->all.range), &fill);

	if (e == 0 && before > 0) {
		e = cache_fill_write(fill, r->part_bytes, before);
		if (e != 0)
			cache_fill_free(fill);
	}
	if (e == 0)
		*out = fill;
	return e;
}

static enum step_result store_part(struct request *r)
{
	const struct http_response *rs = fetch_response(r->fetch);
	struct http_field at[ANSWER_FIELDS_MAX];
	uint64_t bytes, before;
	struct cache_fill *fill;
	struct to_store s;
	struct plan p;

	r->store_reason = STORE_PARTIAL;
	if (!make_plan(r, rs, &p) || (p.combined && r->part_bytes == NULL) ||
	    !describe(r, rs, &p, at, &s) || begin_fill(r, &p, &s, &fill) != 0)
		return request_relay_answer(r);
	bytes = bytes_of(&p.fresh.range);
	before = p.fresh.range.first - p.all.range.first;
	request_answer_from_fill(r, rs, &s, (int64_t)bytes);
	if (transfer_begin(r, fill, (int64_t)bytes_of(&p.all.range), UINT64_MAX) != 0) {
		cache_fill_free(fill);
		return request_relay_answer(r);
	}
	if (p.all.range.last > p.fresh.range.last) {
		transfer_end_with(r, r->part_bytes, bytes_behind(r, &p));
		r->part_bytes = NULL;
	}
	request_forget_part(r);
	return request_follow(r, before, before + bytes);
}

enum step_result request_part_came(struct request *r)
{
	struct plan p;

	if (make_plan(r, fetch_response(r->fetch), &p) && p.combined)
		return request_goto(r, REQUEST_COMBINE);
	return store_part(r);
}

/* --- step: combine -------------------------------------------------------------------------------------- */

/* 0: a piece more is there; -EINPROGRESS: wake follows; else they are lost. */
static int read_piece(struct request *r)
{
	const struct cache_object *o = r->part;
	struct cache_span span;
	ssize_t n;
	int e = cache_object_body(o, &r->reader, r->part_read, &r->m.ready, &span);

	if (e != 0)
		return e;
	if (span.bytes > o->record.body_bytes - r->part_read)
		return -EIO;
	n = pread(span.fd, r->part_bytes + r->part_read, span.bytes, (off_t)span.offset);
	if (n <= 0)
		return -EIO;
	r->part_read += (uint64_t)n;
	return 0;
}

static int read_part(struct request *r)
{
	const struct cache_object *o = r->part;
	int e = 0;

	if (r->part_bytes == NULL) {
		r->part_bytes = malloc(o->record.body_bytes);
		if (r->part_bytes == NULL)
			return -ENOMEM;
	}
	if (o->body.n > 0) {
		memcpy(r->part_bytes, o->body.p, o->body.n);
		r->part_read = o->body.n;
	}
	while (e == 0 && r->part_read < o->record.body_bytes)
		e = read_piece(r);
	return e;
}

enum step_result request_step_combine(struct machine *m)
{
	struct request *r = request_of(m);
	int e;

	if (r->x->gone)
		return request_broken(r);
	e = read_part(r);
	if (e == -EINPROGRESS)
		return STEP_PARK;
	cache_reader_fini(&r->reader);
	if (e != 0)
		request_forget_part(r); /* what came is stored without it */
	return store_part(r);
}
