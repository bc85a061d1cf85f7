/*
 * Field values and URIs, all readers on the same bytes: results lie within the input, normal forms
 * normalise to themselves, and what is written is read back.
 */
#include <stdlib.h>

#include "edge/http/chars.h"
#include "edge/http/field.h"
#include "edge/http/uri.h"

static bool within(struct view v, struct view all)
{
	return v.p >= all.p && v.n <= all.n && v.p - all.p <= (ptrdiff_t)(all.n - v.n);
}

static void lists(struct view v)
{
	struct view rest = v, element;
	const char *behind = v.p;

	while (http_list_next(&rest, &element)) {
		CHECK(element.n > 0 && within(element, v) && element.p >= behind);
		CHECK(http_trim(element).n == element.n);
		behind = element.p + element.n;
	}
	CHECK(rest.n == 0);
}

static void numbers(struct view v)
{
	uint64_t u;
	int64_t s;
	bool decimal = http_decimal(v, &u) == 0;

	if (http_delta_seconds(v, &s) != 0) {
		CHECK(!decimal);
		return;
	}
	CHECK(s >= 0 && s <= INT64_C(1) << 31);
	CHECK(!decimal || s == (int64_t)(u > INT64_C(1) << 31 ? UINT64_C(1) << 31 : u));
}

static void dates(struct view v)
{
	struct wall t, back;
	char text[HTTP_DATE_BYTES];

	if (http_date_parse(v, &t) != 0)
		return;
	http_date_format(t, text);
	CHECK(http_date_parse(view_of(text, sizeof(text)), &back) == 0);
	/* The last leap second of the year 9999 has no other name. */
	CHECK(back.ms == t.ms || t.ms == INT64_C(253402300800000));
}

static void cache_control(const struct http_fields *f)
{
	struct http_cache_control c;

	http_cache_control(f, FIELD_CACHE_CONTROL, &c);
	const int64_t values[] = { c.max_age_ms,	c.s_maxage_ms,	c.stale_while_revalidate_ms,
				   c.stale_if_error_ms, c.max_stale_ms, c.min_fresh_ms };
	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		CHECK(values[i] >= -1 && values[i] <= INT64_C(2147483648000));
}

static void etags(struct view v, const struct http_fields *f)
{
	struct http_etag tag, any = { VIEW("\"a\""), false };

	if (http_etag_parse(v, &tag) == 0) {
		CHECK(within(tag.opaque, v) && tag.opaque.n >= 2);
		CHECK(http_etag_listed(f, FIELD_IF_NONE_MATCH, &tag, true));
		CHECK(http_etag_listed(f, FIELD_IF_NONE_MATCH, &tag, false) == !tag.weak);
	}
	if (http_etag_listed(f, FIELD_IF_NONE_MATCH, &any, false))
		CHECK(http_etag_listed(f, FIELD_IF_NONE_MATCH, &any, true));
}

static void fields(struct view v)
{
	struct http_field at[8];
	struct http_fields f = { .at = at, .capacity = 8 };
	static const char first[] = "Cache-Control:", second[] = "\r\nIf-None-Match:";
	size_t n = sizeof(first) + sizeof(second) + 2 * v.n;
	char *lines = malloc(n), *p = lines;

	p = mempcpy(mempcpy(p, first, sizeof(first) - 1), v.p, v.n);
	p = mempcpy(mempcpy(p, second, sizeof(second) - 1), v.p, v.n);
	memcpy(p, "\r\n", 2);
	if (http_fields_parse(&f, lines, n) == 0) {
		cache_control(&f);
		etags(v, &f);
		(void)http_list_has(&f, FIELD_CACHE_CONTROL, VIEW("no-store"));
	}
	free(lines);
}

static void hosts(struct view v)
{
	char host[URI_HOST_MAX + 1], again[URI_HOST_MAX + 1];
	size_t n, m;
	uint16_t port;

	if (uri_authority(v, host, &n, &port) != 0)
		return;
	CHECK(n > 0 && n <= URI_HOST_MAX && n <= v.n && host[n] == '\0');
	CHECK(uri_authority(view_of(host, n), again, &m, &port) == 0);
	CHECK(view_eq(view_of(host, n), view_of(again, m)) && port == 0);
}

static void uris(struct view v)
{
	struct uri u;

	if (uri_parse(v, &u) != 0)
		return;
	CHECK(within(u.authority, v) && u.authority.n > 0 && u.path.p[0] == '/');
	CHECK(u.path.n == 1 || within(u.path, v));
	hosts(u.authority);
}

/* A path that stands for itself is taken as it is, another is decoded: both ways lead to the same. */
static void spellings(struct view v)
{
	const struct view begins[] = { VIEW("/a"), VIEW("/%61") };
	char *in[2], *out[2];
	size_t n[2] = { 0 };
	bool odd[2] = { 0 };
	int r[2];

	for (int i = 0; i < 2; i++) {
		size_t bytes = begins[i].n + v.n;

		in[i] = malloc(bytes);
		out[i] = malloc(bytes);
		memcpy(mempcpy(in[i], begins[i].p, begins[i].n), v.p, v.n);
		r[i] = uri_normalise(view_of(in[i], bytes), out[i], &n[i], &odd[i]);
	}
	CHECK(r[0] == r[1] && odd[0] == odd[1]);
	CHECK(view_eq(view_of(out[0], n[0]), view_of(out[1], n[1])));
	for (int i = 0; i < 2; i++) {
		free(in[i]);
		free(out[i]);
	}
}

/* What is looked at many bytes at a time, against one by one. */
static void characters(struct view v)
{
	const char *end = v.p + v.n, *control = v.p;
	char *lower = malloc(v.n + 1);

	while (control < end && ((uint8_t)*control >= 0x20 || *control == '\t') && *control != 0x7f)
		control++;
	CHECK(char_next_control(v.p, end) == control);
	chars_copy_lower(v.p, v.n, lower);
	for (size_t i = 0; i < v.n; i++)
		CHECK(lower[i] == char_lower(v.p[i]));
	CHECK(chars_are(v.p, lower, v.n));
	if (v.n > 0) {
		lower[v.n / 2] ^= 1;
		CHECK(!chars_are(v.p, lower, v.n));
	}
	free(lower);
}

static void paths(struct view v)
{
	char *out = malloc(v.n + (v.n == 0)), *twice = malloc(v.n + (v.n == 0));
	size_t n, m;
	bool odd, still_odd;

	if (uri_normalise(v, out, &n, &odd) == 0) {
		CHECK(n > 0 && n <= v.n);
		CHECK(uri_normalise(view_of(out, n), twice, &m, &still_odd) == 0);
		CHECK(view_eq(view_of(out, n), view_of(twice, m)) && (odd || !still_odd));
		size_t path = strnlen(out, n);
		const char *query = memchr(out, '?', n);
		path = query != NULL ? (size_t)(query - out) : path;
		CHECK(memmem(out, path, "/../", 4) == NULL && memmem(out, path, "/./", 3) == NULL);
	}
	free(out);
	free(twice);
}

static void globs(struct view v)
{
	const char *bar = memchr(v.p, '|', v.n);

	CHECK(uri_glob(VIEW("*"), v));
	if (memchr(v.p, '*', v.n) == NULL)
		CHECK(uri_glob(v, v));
	if (bar != NULL) {
		size_t n = (size_t)(bar - v.p);
		(void)uri_glob(view_of(v.p, n), view_skip(v, n + 1));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + (size == 0));
	struct view v = view_of(copy, size);

	memcpy(copy, data, size);
	lists(v);
	numbers(v);
	dates(v);
	fields(v);
	characters(v);
	hosts(v);
	uris(v);
	paths(v);
	spellings(v);
	globs(v);
	free(copy);
	return 0;
}
