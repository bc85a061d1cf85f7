/*
 * GET /v1/object?url=URL: why a URL hits or misses. It asks the same functions as traffic does (target, rules,
 * verdict, purge clock), for a plain GET without any field, and tells what they say.
 *
 * Reading an entry may need the disk; the call then waits and goes on with the same variant when it is woken.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "edge/admin_call.h"
#include "edge/admin_json.h"
#include "edge/http/field.h"
#include "edge/http/uri.h"
#include "edge/target.h"

enum { VARIANTS_SHOWN = 256, VARIANTS_A_TURN = 16, STORED_FIELDS = 256 };

struct variant {
	struct cache_key key;
	struct cache_record record;
};

struct object_call {
	struct target target;
	struct conf_cache cache;
	struct conf_ruling ruling;
	uint8_t primary[16];
	struct variant *variants;
	unsigned count, found, at;
	struct cache_read *pending;
	cJSON *shown; /* list of the variants so far */
	cJSON *vary;  /* list of the names in the Vary rule; NULL: none */
	const char *would, *reason;
};

static const char *would_text(enum use_verdict v)
{
	switch (v) {
	case USE_FRESH:
		return "hit";
	case USE_STALE_WHILE_REVALIDATE:
		return "stale";
	case USE_REVALIDATE:
		return "revalidate";
	case USE_MISS:
		return "miss";
	}
	return "miss";
}

static void add_hex(cJSON *to, const char *name, const uint8_t *bytes, size_t n)
{
	char text[2 * 16 + 1];

	for (size_t i = 0; i < n; i++)
		(void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	(void)cJSON_AddStringToObject(to, name, text);
}

static void add_view(cJSON *to, const char *name, struct view v, struct arena *a)
{
	const char *text = admin_json_text(v, a);

	(void)cJSON_AddStringToObject(to, name, text != NULL ? text : "");
}

static void add_seconds(cJSON *to, const char *name, int64_t ms)
{
	(void)cJSON_AddNumberToObject(to, name, (double)(ms >= 0 ? ms / 1000 : -((999 - ms) / 1000)));
}

/* --- one variant -------------------------------------------------------------------------------- */

static const struct {
	uint32_t flag;
	const char *name;
} flag_names[] = {
	{ META_NO_CACHE, "no-cache" },	      { META_MUST_REVALIDATE, "must-revalidate" },
	{ META_ETAG_STRONG, "strong-etag" },  { META_HAS_VALIDATOR, "validator" },
	{ META_BY_RULE, "lifetime-by-brim" }, { META_SWR_GIVEN, "stale-while-revalidate" },
	{ META_SIE_GIVEN, "stale-if-error" },
};

static void add_flags(cJSON *to, uint32_t flags)
{
	cJSON *list = cJSON_AddArrayToObject(to, "flags");

	for (size_t i = 0; i < ARRAY_LEN(flag_names); i++) {
		if (flags & flag_names[i].flag)
			(void)cJSON_AddItemToArray(list, cJSON_CreateString(flag_names[i].name));
	}
}

static void add_place(cJSON *to, const struct admin *a, const struct cache_record *r)
{
	cJSON *head = cJSON_AddObjectToObject(to, "head"),
	      *body = cJSON_AddObjectToObject(to, "body");
	struct cache_store_status store;

	if (cache_store_status(a->process->cache_shared, r->store, &store) == 0) {
		char name[65];

		(void)snprintf(name, sizeof(name), "%.*s", VIEW_ARG(store.name));
		(void)cJSON_AddStringToObject(to, "store", name);
	}
	(void)cJSON_AddNumberToObject(head, "segment", r->head_segment);
	(void)cJSON_AddNumberToObject(head, "offset", r->head_offset);
	(void)cJSON_AddNumberToObject(head, "bytes", r->head_bytes);
	(void)cJSON_AddNumberToObject(body, "bytes", (double)r->body_bytes);
	if (r->body_segment != 0) {
		(void)cJSON_AddNumberToObject(body, "segment", r->body_segment);
		(void)cJSON_AddNumberToObject(body, "offset", r->body_offset);
	} else if (r->body_bytes > 0) {
		(void)cJSON_AddBoolToObject(body, "chunks", true);
	}
}

static void add_fields(cJSON *to, const struct http_fields *fields, struct arena *a)
{
	cJSON *list = cJSON_AddArrayToObject(to, "fields");

	for (uint16_t i = 0; i < fields->count; i++) {
		const char *name = admin_json_text(fields->at[i].name, a);
		const char *value = admin_json_text(fields->at[i].value, a);
		cJSON *pair = cJSON_CreateArray();

		(void)cJSON_AddItemToArray(pair, cJSON_CreateString(name != NULL ? name : ""));
		(void)cJSON_AddItemToArray(pair, cJSON_CreateString(value != NULL ? value : ""));
		(void)cJSON_AddItemToArray(list, pair);
	}
}

const char *admin_purged_text(enum cache_purged p)
{
	return p == CACHE_HARD_PURGED ? "hard" : p == CACHE_SOFT_PURGED ? "soft" : "no";
}

/* What a plain GET would get, and why. */
static void judge(struct object_call *o, cJSON *to, const struct cache_meta *meta,
		  enum cache_purged purged)
{
	const struct http_request plain = { .method = METHOD_GET, .minor = 1, .keep_alive = true };
	const char *would, *reason;
	struct use_times times;
	enum use_verdict use;

	verdict_age(meta, clock_wall(), &times);
	use = verdict_use(&plain, meta, &times, purged == CACHE_SOFT_PURGED, &o->cache);
	would = would_text(use);
	if (o->cache.bypass) {
		would = "bypass";
		reason = "a rule says so";
	} else if (purged == CACHE_HARD_PURGED) {
		would = "miss";
		reason = "purged";
	} else if (meta->status == 206) {
		would = "miss";
		reason = "a part, for ranges within it";
	} else {
		reason = verdict_use_reason(&plain, meta, &times, purged == CACHE_SOFT_PURGED,
					    &o->cache);
	}
	add_seconds(to, "age", times.age_ms);
	add_seconds(to, "lifetime", meta->lifetime_ms);
	add_seconds(to, "ttl", times.ttl_ms);
	(void)cJSON_AddStringToObject(to, "purged", admin_purged_text(purged));
	(void)cJSON_AddStringToObject(to, "next", would);
	(void)cJSON_AddStringToObject(to, "reason", reason);
	if (o->would == NULL && meta->status != 206) {
		o->would = would;
		o->reason = reason;
	}
}

static struct view content_type_of(const struct http_fields *f)
{
	const struct http_field *type = http_fields_first(f, FIELD_CONTENT_TYPE);

	return type != NULL ? type->value : (struct view){ 0 };
}

/* "max-age of Cache-Control, raised by min_ttl". */
static void add_lifetime_source(struct admin_call *c, cJSON *to, const struct cache_meta *meta,
				const struct http_fields *fields)
{
	struct object_call *o = c->state;
	const struct http_response stored = { .status = meta->status, .minor = 1, .fields = *fields };
	const struct exchange_times times = { meta->received, meta->received };
	struct verdict_lifetime l;
	struct view text;

	conf_response_rules(o->target.site, meta->status, content_type_of(fields), &o->cache,
			    &o->ruling);
	verdict_lifetime(&stored, &times, &o->cache, &l);
	text = arena_printf(&c->arena, "%s%s%.*s%s%s", l.source, l.field.n > 0 ? " of " : "",
			    VIEW_ARG(l.field), l.clamp != NULL ? ", changed by " : "",
			    l.clamp != NULL ? l.clamp : "");
	(void)cJSON_AddStringToObject(to, "lifetime_by", text.p != NULL ? text.p : l.source);
}

static void add_head(struct admin_call *c, cJSON *to, const struct cache_object *object)
{
	struct http_field at[STORED_FIELDS];
	struct http_fields fields = { .at = at, .capacity = STORED_FIELDS };

	if (http_fields_parse(&fields, object->head.p, object->head.n) != 0)
		return;
	add_lifetime_source(c, to, &object->meta, &fields);
	add_fields(to, &fields, &c->arena);
}

static void show(struct admin_call *c, const struct variant *v, const struct cache_object *object)
{
	struct object_call *o = c->state;
	cJSON *to = cJSON_CreateObject();
	char date[HTTP_DATE_BYTES + 1] = "", secondary[17];

	http_date_format(object->meta.received, date);
	(void)snprintf(secondary, sizeof(secondary), "%016" PRIx64, v->key.secondary);
	(void)cJSON_AddStringToObject(to, "secondary", secondary);
	(void)cJSON_AddNumberToObject(to, "status", object->meta.status);
	add_view(to, "url", object->meta.url, &c->arena);
	(void)cJSON_AddStringToObject(to, "received", date);
	add_head(c, to, object); /* first: rules may ask for the answer's type */
	judge(o, to, &object->meta, cache_object_purged(object, o->target.site->key_forms));
	(void)cJSON_AddNumberToObject(to, "object", (double)v->record.object_id);
	(void)cJSON_AddNumberToObject(to, "birth", (double)v->record.birth);
	(void)cJSON_AddNumberToObject(to, "tags", object->meta.tag_count);
	(void)cJSON_AddNumberToObject(to, "hits", cache_object_hits(object));
	add_place(to, c->admin, &v->record);
	add_flags(to, object->meta.flags);
	(void)cJSON_AddItemToArray(o->shown, to);
}

/* --- the call ------------------------------------------------------------------------------------ */

static void add_vary(struct object_call *o, const struct cache_record *r)
{
	struct view rest = view_of(r->vary, r->vary_bytes), name;

	if (o->vary == NULL)
		o->vary = cJSON_CreateArray();
	while (http_list_next(&rest, &name)) {
		char text[CACHE_VARY_MAX + 1];

		(void)snprintf(text, sizeof(text), "%.*s", VIEW_ARG(name));
		(void)cJSON_AddItemToArray(o->vary, cJSON_CreateString(text));
	}
}

static void on_record(void *arg, const struct cache_key *key, const struct cache_record *r)
{
	struct object_call *o = arg;

	if (r->kind == CACHE_RECORD_VARY) {
		add_vary(o, r);
		return;
	}
	o->found++;
	if (o->count < VARIANTS_SHOWN)
		o->variants[o->count++] = (struct variant){ .key = *key, .record = *r };
}

static void drop(struct admin_call *c)
{
	struct object_call *o = c->state;

	if (o->pending != NULL)
		cache_read_cancel(&o->pending);
	cJSON_Delete(o->shown);
	cJSON_Delete(o->vary);
	o->shown = o->vary = NULL;
}

static int find_target(struct admin_call *c, struct object_call *o, struct view url)
{
	const struct http_fields none = { 0 };
	struct conf_request request = { .method = METHOD_GET, .method_text = VIEW("GET"), .fields = &none };
	struct uri uri = { .scheme = VIEW("http") };
	int r;

	if (memmem(url.p, url.n, "://", 3) == NULL)
		url = arena_printf(&c->arena, "http://%.*s", VIEW_ARG(url));
	if (url.p == NULL)
		return -ENOMEM;
	r = uri_parse(url, &uri);
	if (r == 0)
		r = target_of(c->conf, uri.scheme, uri.authority, uri.path, &c->arena, &o->target);
	if (r != 0)
		return r;
	request.path = o->target.path_only;
	request.query = o->target.query;
	request.host = o->target.host;
	request.odd_path = o->target.odd_path;
	conf_request_rules(o->target.site, &request, &o->cache, &o->ruling);
	target_key(&o->target, &o->cache, o->primary);
	return 0;
}

static int find_variants(struct admin_call *c, struct object_call *o)
{
	int r;

	o->variants = arena_alloc(&c->arena, VARIANTS_SHOWN * sizeof(*o->variants));
	o->shown = cJSON_CreateArray();
	if (o->variants == NULL || o->shown == NULL)
		return -ENOMEM;
	r = keeper_records(c->admin->keeper, o->primary, on_record, o);
	return r < 0 && r != -ENOENT ? r : 0;
}

static enum admin_progress begin(struct admin_call *c, struct object_call *o)
{
	struct view url;
	int r = admin_query(c, VIEW("url"), &url);

	if (r != 0)
		return admin_query_error(c, r, "url");
	r = find_target(c, o, url);
	if (r == -ENOENT)
		return admin_error(c, 400, "?url", "no site serves this host");
	if (r == -EINVAL)
		return admin_error(c, 400, "?url", "not a URL");
	if (r == 0 && !admin_call_site(c, o->target.site->name))
		return admin_error(c, 403, "?url", "of a site that this token may not touch");
	if (r == 0)
		r = find_variants(c, o);
	if (r != 0) {
		cJSON_Delete(o->shown);
		cJSON_Delete(o->vary);
		return admin_error(c, 503, "", "the index can't be read: %s", strerror(-r));
	}
	c->state = o;
	c->drop = drop;
	return ADMIN_WAIT;
}

/* As many as a turn of the loop may show. DONE: all. */
static enum admin_progress show_variants(struct admin_call *c)
{
	struct object_call *o = c->state;
	unsigned until = o->at + VARIANTS_A_TURN;

	for (; o->at < o->count; o->at++) {
		const struct variant *v = &o->variants[o->at];
		const struct cache_object *object;
		int r;

		if (o->at == until)
			return ADMIN_YIELD;
		r = cache_object_open(keeper_cache(c->admin->keeper), &v->key, &v->record, &c->wake,
				      &o->pending, &object);
		if (r == -EINPROGRESS)
			return ADMIN_WAIT;
		if (r != 0)
			continue; /* evicted meanwhile */
		show(c, v, object);
		cache_object_unref(object);
	}
	return ADMIN_DONE;
}

static enum admin_progress finish(struct admin_call *c)
{
	struct object_call *o = c->state;
	cJSON *tree = cJSON_CreateObject();
	struct view url = target_url(&o->target, &c->arena);

	add_view(tree, "url", url, &c->arena);
	add_view(tree, "site", o->target.site->name, &c->arena);
	add_hex(tree, "key", o->primary, sizeof(o->primary));
	if (o->ruling.rule >= 0)
		(void)cJSON_AddNumberToObject(tree, "rule", o->ruling.rule);
	(void)cJSON_AddBoolToObject(tree, "stored", cJSON_GetArraySize(o->shown) > 0);
	(void)cJSON_AddStringToObject(tree, "next",
				      o->cache.bypass	 ? "bypass"
				      : o->would != NULL ? o->would
							 : "miss");
	(void)cJSON_AddStringToObject(tree, "reason",
				      o->reason != NULL ? o->reason
				      : o->cache.bypass ? "a rule says so"
							: "not stored");
	if (o->vary != NULL)
		(void)cJSON_AddItemToObject(tree, "vary", o->vary);
	o->vary = NULL;
	(void)cJSON_AddItemToObject(tree, "variants", o->shown);
	o->shown = NULL;
	return admin_answer(c, tree);
}

enum admin_progress admin_object(struct admin_call *c)
{
	enum admin_progress shown;

	if (c->admin->keeper == NULL)
		return admin_error(c, 503, "", "the stores are not open");
	if (c->state == NULL) {
		struct object_call *o = arena_zalloc(&c->arena, sizeof(*o));

		if (o == NULL)
			return admin_error(c, 503, "", "no memory");
		if (begin(c, o) == ADMIN_DONE)
			return ADMIN_DONE;
	}
	shown = show_variants(c);
	return shown == ADMIN_DONE ? finish(c) : shown;
}
