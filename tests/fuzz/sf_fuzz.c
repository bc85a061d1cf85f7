/*
 * Structured fields and what is read by them. A newline in the input begins another field line.
 * What is walked lies within the input and agrees with itself: an Item is a List of one, and
 * lines are as good as one line with commas.
 */
#include <stdlib.h>

#include "edge/http/cache_groups.h"
#include "edge/http/field.h"
#include "edge/http/sf.h"

struct text {
	char *p;
	size_t n;
};

static void put(struct text *t, const char *p, size_t n)
{
	memcpy(t->p + t->n, p, n);
	t->n += n;
}

static size_t lines_in(struct view v)
{
	size_t lines = 1;

	for (size_t i = 0; i < v.n; i++)
		lines += v.p[i] == '\n';
	return lines;
}

/* «name: line» for each line of the input; or one line, with commas. */
static struct text fields_text(struct view v, const char *name, bool joined)
{
	struct text t = { malloc(v.n + lines_in(v) * (strlen(name) + 4)), 0 };

	put(&t, name, strlen(name));
	put(&t, ":", 1);
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] != '\n') {
			put(&t, v.p + i, 1);
		} else if (joined) {
			put(&t, ",", 1);
		} else {
			put(&t, "\r\n", 2);
			put(&t, name, strlen(name));
			put(&t, ":", 1);
		}
	}
	put(&t, "\r\n", 2);
	return t;
}

static void item_check(const struct sf_item *item, struct view all)
{
	struct view rest = item->parameters;
	struct sf_member p;
	struct sf_item found;

	CHECK(item->text.n == 0 ||
	      (item->text.p >= all.p && item->text.p + item->text.n <= all.p + all.n));
	CHECK(item->number >= -INT64_C(999999999999999) && item->number <= INT64_C(999999999999999));
	while (sf_parameter_next(&rest, &p)) {
		CHECK(p.key.n > 0 && p.value.type != SF_INNER_LIST && p.value.parameters.n == 0);
	}
	CHECK(rest.n == 0);
	if (item->type != SF_INNER_LIST)
		return;
	struct view inner = item->text;
	while (sf_inner_next(&inner, &found)) {
		CHECK(found.type != SF_INNER_LIST);
		item_check(&found, all);
	}
	CHECK(inner.n == 0);
}

static size_t members_check(struct sf_cursor c, struct view all, bool keyed)
{
	struct sf_member m;
	size_t members = 0;

	for (; sf_next(&c, &m); members++) {
		CHECK((m.key.n > 0) == keyed);
		item_check(&m.value, all);
	}
	CHECK(c.rest.n == 0);
	return members;
}

static void one_item(const struct http_fields *f, struct view all)
{
	struct sf_cursor c;
	struct sf_member m;
	struct sf_item item;
	bool single = f->count == 1 && sf_list(f, VIEW("F"), &c) == 0 && sf_next(&c, &m) &&
		      m.value.type != SF_INNER_LIST && !sf_next(&c, &(struct sf_member){ .key.n = 0 });

	if (sf_item(f, VIEW("F"), &item) != 0) {
		CHECK(!single);
		return;
	}
	CHECK(single && item.type == m.value.type && view_eq(item.text, m.value.text));
	CHECK(view_eq(item.parameters, m.value.parameters));
	item_check(&item, all);
}

/* The number of members; -1: not valid. */
static long members_of(const struct http_fields *f, struct view all, bool keyed)
{
	struct sf_cursor c;
	int rc = keyed ? sf_dictionary(f, VIEW("F"), &c) : sf_list(f, VIEW("F"), &c);

	return rc < 0 ? -1 : (long)members_check(c, all, keyed);
}

static void containers(struct view v)
{
	struct http_field at[64], joined_at[1];
	struct http_fields f = { .at = at, .capacity = 64 },
			   joined = { .at = joined_at, .capacity = 1 };
	struct text t = fields_text(v, "F", false), one = fields_text(v, "F", true);

	if (http_fields_parse(&f, t.p, t.n) == 0 && http_fields_parse(&joined, one.p, one.n) == 0) {
		for (int keyed = 0; keyed < 2; keyed++) {
			long members = members_of(&f, view_of(t.p, t.n), keyed);
			CHECK(members < 0 ||
			      members == members_of(&joined, view_of(one.p, one.n), keyed));
		}
		one_item(&f, view_of(t.p, t.n));
	}
	free(t.p);
	free(one.p);
}

static void names_check(struct http_names n, bool expected)
{
	struct view name;
	bool any = false;

	for (; http_names_next(&n, &name); any = true)
		CHECK(http_token(name));
	CHECK(any == expected);
}

static void targeted(const struct http_fields *f)
{
	struct http_cache_control cc;
	struct http_names n;

	if (http_targeted_cache_control(f, VIEW("Cache-Control"), &cc) != 0)
		return;
	CHECK(cc.max_age_ms >= -1 && cc.max_age_ms <= INT64_C(2147483648000));
	CHECK(cc.max_stale_ms == -1 && cc.min_fresh_ms == -1 && !(cc.flags & CC_ONLY_IF_CACHED));
	http_targeted_names(f, VIEW("Cache-Control"), CC_PRIVATE_FIELDS, &n);
	names_check(n, cc.flags & CC_PRIVATE_FIELDS);
	http_targeted_names(f, VIEW("Cache-Control"), CC_NO_CACHE_FIELDS, &n);
	names_check(n, cc.flags & CC_NO_CACHE_FIELDS);
}

static void plain(const struct http_fields *f)
{
	struct http_cache_control cc;
	struct http_names n;

	http_cache_control(f, FIELD_CACHE_CONTROL, &cc);
	http_cache_control_names(f, FIELD_CACHE_CONTROL, CC_PRIVATE_FIELDS, &n);
	names_check(n, cc.flags & CC_PRIVATE_FIELDS);
	http_cache_control_names(f, FIELD_CACHE_CONTROL, CC_NO_CACHE_FIELDS, &n);
	names_check(n, cc.flags & CC_NO_CACHE_FIELDS);
}

static void groups(struct view v)
{
	struct http_field at[64];
	struct http_fields f = { .at = at, .capacity = 64 };
	struct text t = fields_text(v, "Cache-Groups", false);
	struct sf_cursor c;
	struct view group;

	if (http_fields_parse(&f, t.p, t.n) == 0 && http_groups(&f, FIELD_CACHE_GROUPS, &c) == 0) {
		while (http_groups_next(&c, &group))
			CHECK(memchr(group.p, '\0', group.n) == NULL);
	}
	free(t.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct view v = view_of((const char *)data, size);
	struct http_field at[64];
	struct http_fields f = { .at = at, .capacity = 64 };
	struct text t = fields_text(v, "Cache-Control", false);

	containers(v);
	groups(v);
	if (http_fields_parse(&f, t.p, t.n) == 0) {
		targeted(&f);
		plain(&f);
	}
	free(t.p);
	return 0;
}
