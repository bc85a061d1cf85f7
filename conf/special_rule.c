/*
 * Readers for the parts of a rule: what it matches, how it edits heads, its own answers. As in
 * special.c, «member» is the first member that the key sets.
 *
 * A rule that changes little is the common one, so what few rules have ("not", answers) is
 * allocated and pointed to.
 */
#include <cjson/cJSON.h>

#include "conf/apply.h"
#include "conf/special.h"
#include "conf/value.h"
#include "edge/http/field.h"

void conf_read_rule_cache(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_rule *rule = CONTAINER_OF(member, struct conf_rule, cache);
	uint64_t seen = 0;

	r->in_rule = true;
	conf_apply(r, &conf_scope_cache, value, &rule->cache, &seen);
	r->in_rule = false;
	rule->set = (uint32_t)seen;
}

/* --- "match" */

static const char *method_fault(struct view v)
{
	if (!http_token(v))
		return "is not a method";
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] >= 'a' && v.p[i] <= 'z')
			return "must be in upper case, as methods are";
	}
	return NULL;
}

static const struct {
	struct view name;
	enum http_method method;
} methods[] = {
	{ { "GET", 3 }, METHOD_GET },	      { { "HEAD", 4 }, METHOD_HEAD },
	{ { "POST", 4 }, METHOD_POST },	      { { "PUT", 3 }, METHOD_PUT },
	{ { "DELETE", 6 }, METHOD_DELETE },   { { "CONNECT", 7 }, METHOD_CONNECT },
	{ { "OPTIONS", 7 }, METHOD_OPTIONS }, { { "TRACE", 5 }, METHOD_TRACE },
	{ { "PATCH", 5 }, METHOD_PATCH },     { { "PURGE", 5 }, METHOD_PURGE },
};

static enum http_method method_named(struct view name)
{
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		if (view_eq(methods[i].name, name))
			return methods[i].method;
	}
	return METHOD_OTHER;
}

/* Known methods become bits; what is left in the list are the others' names. */
void conf_read_methods(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_match *match = CONTAINER_OF(member, struct conf_match, methods);
	struct conf_list list = { 0 }, others;

	conf_read_list(r, value, 1, method_fault, &list);
	others = (struct conf_list){ list.at, 0 };
	match->methods = 0;
	for (size_t i = 0; i < list.count; i++) {
		enum http_method method = method_named(list.at[i]);

		if (method == METHOD_OTHER)
			others.at[others.count++] = list.at[i];
		else
			match->methods |= 1u << method;
	}
	match->method_names = others;
}

static void read_range(struct conf_reader *r, const cJSON *value, struct conf_status_range *out)
{
	char text[CONF_NUMBER_TEXT];
	struct view v = { NULL, 0 };

	if (cJSON_IsString(value))
		v = view_str(value->valuestring);
	else if (cJSON_IsNumber(value))
		v = view_of(text, (size_t)snprintf(text, sizeof(text), "%.6g", value->valuedouble));
	if (conf_value_status_range(v, &out->from, &out->to) < 0)
		conf_reader_fault(r,
				  "must be a status like 404, a class like \"5xx\" or a range like "
				  "\"400-499\", from 200 on");
}

void conf_read_match_statuses(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_match *match = CONTAINER_OF(member, struct conf_match, statuses);
	size_t count = cJSON_IsArray(value) ? (size_t)cJSON_GetArraySize(value) : 1;
	const cJSON *element;

	if (count == 0 || count > CONF_STATUSES_MAX) {
		conf_reader_fault(r, "must have 1 to %d elements", CONF_STATUSES_MAX);
		return;
	}
	match->statuses = conf_reader_alloc(r, count * sizeof(*match->statuses));
	if (match->statuses == NULL)
		return;
	match->status_count = count;
	if (!cJSON_IsArray(value)) {
		read_range(r, value, match->statuses);
		return;
	}
	count = 0;
	cJSON_ArrayForEach(element, value)
	{
		size_t mark = conf_reader_enter_index(r, count);

		read_range(r, element, &match->statuses[count++]);
		conf_reader_leave(r, mark);
	}
}

void conf_read_not(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_match *except = conf_reader_alloc(r, sizeof(*except));
	uint64_t seen = 0;

	if (except == NULL)
		return;
	if (cJSON_IsObject(value) && value->child == NULL)
		conf_reader_fault(r, "must not be empty: nothing would match");
	conf_apply(r, &conf_scope_not, value, except, &seen);
	memcpy(member, &except, sizeof(except));
}

/* --- edits of heads */

static size_t lines_in(const cJSON *fields)
{
	size_t count = 0;
	const cJSON *field;

	cJSON_ArrayForEach(field, fields)
	{
		count += cJSON_IsArray(field) ? (size_t)cJSON_GetArraySize(field) : 1;
	}
	return count;
}

static bool has_name(const struct conf_edits *edits, struct view name)
{
	for (size_t i = 0; i < edits->count; i++) {
		if (view_eq_nocase(edits->at[i].name, name))
			return true;
	}
	return false;
}

/* One member: its first line is of «kind», further ones are beside it. */
static void read_field(struct conf_reader *r, const cJSON *field, enum conf_edit_kind kind,
		       const char *(*valid)(struct view), struct conf_edits *to)
{
	const char *wrong = valid(view_str(field->string));
	struct conf_list values = { 0 };

	if (wrong == NULL && has_name(to, view_str(field->string)))
		wrong = "is there twice";
	if (wrong != NULL)
		conf_reader_fault(r, "%s", wrong);
	conf_read_list(r, field, 1, conf_valid_field_value, &values);
	if (wrong != NULL)
		return;
	struct view name = conf_reader_copy(r, view_str(field->string));

	for (size_t i = 0; i < values.count; i++) {
		to->at[to->count++] = (struct conf_edit){ kind, name, values.at[i] };
		kind = CONF_EDIT_ADD;
	}
}

static void read_fields(struct conf_reader *r, const cJSON *value, enum conf_edit_kind kind,
			const char *(*valid)(struct view), struct conf_edits *out)
{
	struct conf_edits edits = { 0 };
	const cJSON *field;

	if (!cJSON_IsObject(value)) {
		conf_reader_fault(r, "must be an object like {\"X-Frame-Options\": \"DENY\"}");
		return;
	}
	edits.at = conf_reader_alloc(r, lines_in(value) * sizeof(*edits.at));
	if (edits.at == NULL)
		return;
	cJSON_ArrayForEach(field, value)
	{
		size_t mark = conf_reader_enter(r, field->string);

		read_field(r, field, kind, valid, &edits);
		conf_reader_leave(r, mark);
	}
	*out = edits;
}

void conf_read_request_set(struct conf_reader *r, const cJSON *value, void *member)
{
	read_fields(r, value, CONF_EDIT_SET, conf_valid_request_edit, member);
}

void conf_read_request_add(struct conf_reader *r, const cJSON *value, void *member)
{
	read_fields(r, value, CONF_EDIT_ADD, conf_valid_request_edit, member);
}

void conf_read_response_set(struct conf_reader *r, const cJSON *value, void *member)
{
	read_fields(r, value, CONF_EDIT_SET, conf_valid_response_edit, member);
}

void conf_read_response_add(struct conf_reader *r, const cJSON *value, void *member)
{
	read_fields(r, value, CONF_EDIT_ADD, conf_valid_response_edit, member);
}

static void append(struct conf_edits *to, const struct conf_edits *more)
{
	for (size_t i = 0; i < more->count; i++)
		to->at[to->count++] = more->at[i];
}

/* Removed before anything is set, set before anything is added. */
static void read_edits(struct conf_reader *r, const struct conf_scope *scope, const cJSON *value,
		       struct conf_edits *out)
{
	struct conf_edit_parts parts = { 0 };
	struct conf_edits edits = { 0 };
	uint64_t seen = 0;

	conf_apply(r, scope, value, &parts, &seen);
	edits.at = conf_reader_alloc(r, (parts.remove.count + parts.set.count + parts.add.count) *
						sizeof(*edits.at));
	if (edits.at == NULL)
		return;
	for (size_t i = 0; i < parts.remove.count; i++)
		edits.at[edits.count++] = (struct conf_edit){ .kind = CONF_EDIT_REMOVE,
							      .name = parts.remove.at[i] };
	append(&edits, &parts.set);
	append(&edits, &parts.add);
	*out = edits;
}

void conf_read_request_edits(struct conf_reader *r, const cJSON *value, void *member)
{
	read_edits(r, &conf_scope_request_edits, value, member);
}

void conf_read_response_edits(struct conf_reader *r, const cJSON *value, void *member)
{
	read_edits(r, &conf_scope_response_edits, value, member);
}

/* --- answers */

/* Text, unless the rule says what it is. */
static void add_content_type(struct conf_reader *r, struct conf_respond *respond)
{
	const struct conf_edits *given = &respond->headers;
	struct conf_edits headers = { 0 };

	if (respond->body.n == 0 || has_name(given, VIEW("Content-Type")))
		return;
	headers.at = conf_reader_alloc(r, (given->count + 1) * sizeof(*headers.at));
	if (headers.at == NULL)
		return;
	append(&headers, given);
	headers.at[headers.count++] = (struct conf_edit){ CONF_EDIT_ADD, VIEW("Content-Type"),
							  VIEW("text/plain; charset=utf-8") };
	respond->headers = headers;
}

void conf_read_respond(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_respond *respond = conf_reader_alloc(r, sizeof(*respond));
	uint16_t status;

	if (respond == NULL)
		return;
	conf_apply_element(r, &conf_scope_respond, value, respond);
	status = respond->status;
	if (respond->body.n > 0 && (status == 204 || status == 205 || status == 304))
		conf_reader_fault(r, "an answer with status %u has no body", status);
	add_content_type(r, respond);
	memcpy(member, &respond, sizeof(respond));
}

void conf_read_redirect_status(struct conf_reader *r, const cJSON *value, void *member)
{
	uint16_t *status = member;

	switch (cJSON_IsNumber(value) ? value->valueint : 0) {
	case 301:
	case 302:
	case 303:
	case 307:
	case 308:
		*status = (uint16_t)value->valueint;
		return;
	default:
		conf_reader_fault(r, "must be 301, 302, 303, 307 or 308");
	}
}

/* "respond" was read before: a rule has one answer. */
void conf_read_redirect(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_respond **to = member, *redirect = conf_reader_alloc(r, sizeof(*redirect));

	if (redirect == NULL)
		return;
	if (*to != NULL)
		conf_reader_fault(r, "has no place beside \"respond\": a rule has one answer");
	redirect->status = 302;
	if (cJSON_IsString(value))
		conf_apply_key(r, &conf_scope_redirect.keys[0], value, redirect);
	else if (cJSON_IsObject(value))
		conf_apply_element(r, &conf_scope_redirect, value, redirect);
	else
		conf_reader_fault(
			r, "must be a location like \"https://shop.example${path}${query}\", or "
			   "an object");
	*to = redirect;
}
