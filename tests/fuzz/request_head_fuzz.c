/*
 * Request heads. Besides memory errors: the verdict is the same however the bytes arrive, every view
 * lies within the head, and no request that is let through is ambiguous.
 * Input: one byte that chooses the limits, then the bytes from the client.
 */
#include <stdlib.h>

#include "edge/http/head.h"

enum { FIELDS = 16 };

static bool same_place(struct view a, struct view b)
{
	return a.p == b.p && a.n == b.n;
}

static bool within(struct view v, const char *buf, size_t n)
{
	return v.n == 0 || (v.p >= buf && v.n <= n && v.p - buf <= (ptrdiff_t)(n - v.n));
}

static void check_fields(const struct http_fields *f, const char *buf, size_t n)
{
	uint64_t seen = 0;

	for (uint16_t i = 0; i < f->count; i++) {
		const struct http_field *field = &f->at[i];
		CHECK(field->name.n > 0 && within(field->name, buf, n) && within(field->value, buf, n));
		CHECK(memchr(field->name.p, ':', field->name.n) == NULL);
		CHECK(field->value.n == 0 || (memchr(field->value.p, '\r', field->value.n) == NULL &&
					      memchr(field->value.p, '\n', field->value.n) == NULL &&
					      memchr(field->value.p, '\0', field->value.n) == NULL));
		CHECK(field->id == http_field_id(field->name));
		seen |= field->dropped ? 0 : UINT64_C(1) << field->id;
	}
	/* Unknown names share a bit, which may outlive the last of them. */
	CHECK((seen & ~UINT64_C(1)) == (f->seen & ~UINT64_C(1)));
}

static unsigned count(const struct http_fields *f, enum http_field_id id)
{
	unsigned n = 0;

	for (uint16_t i = 0; i < f->count; i++)
		n += f->at[i].id == id;
	return n;
}

static void check_request(const struct http_request *r, const char *buf, size_t n)
{
	unsigned lengths = count(&r->fields, FIELD_CONTENT_LENGTH);
	unsigned codings = count(&r->fields, FIELD_TRANSFER_ENCODING);

	CHECK(within(r->method_text, buf, n) && within(r->target, buf, n) && r->target.n > 0);
	CHECK(within(r->authority, buf, n));
	CHECK(r->authority.n == 0
		      ? r->host.n == 0
		      : r->host.p == r->authority.p && r->host.n > 0 && r->host.n <= r->authority.n);
	CHECK(r->path.n == 1 || within(r->path, buf, n));
	CHECK(r->method == METHOD_CONNECT || r->path.p[0] == '/' || view_eq(r->path, VIEW("*")));
	CHECK(r->minor == 0 || count(&r->fields, FIELD_HOST) == 1);
	CHECK(r->framing == FRAMING_NONE     ? lengths == 0 && codings == 0
	      : r->framing == FRAMING_LENGTH ? lengths == 1 && codings == 0
					     : lengths == 0 && codings > 0 && r->minor == 1);
	check_fields(&r->fields, buf, n);
}

static void check_same(const struct http_request *a, const struct http_request *b)
{
	CHECK(same_place(a->target, b->target) && same_place(a->path, b->path));
	CHECK(same_place(a->authority, b->authority) && a->method == b->method);
	CHECK(a->framing == b->framing && a->length == b->length && a->keep_alive == b->keep_alive);
	CHECK(a->fields.count == b->fields.count && a->fields.seen == b->fields.seen);
	for (uint16_t i = 0; i < a->fields.count; i++)
		CHECK(same_place(a->fields.at[i].value, b->fields.at[i].value) &&
		      a->fields.at[i].dropped == b->fields.at[i].dropped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_field at[2][FIELDS];
	struct http_request whole = { .fields = { .at = at[0], .capacity = FIELDS } };
	struct http_request pieces = { .fields = { .at = at[1], .capacity = FIELDS } };
	struct http_scan s = { 0 }, t = { 0 };

	if (size == 0)
		return 0;
	struct http_limits limits = { data[0] & 1 ? 64 : 4096, data[0] & 2 ? 3 : FIELDS };
	size_t n = size - 1;
	char *buf = malloc(n + (n == 0));
	memcpy(buf, data + 1, n);

	enum http_parse at_once = http_request_parse(&whole, &s, buf, n, &limits);
	enum http_parse bit_by_bit = PARSE_MORE;
	for (size_t i = 0; i <= n && bit_by_bit == PARSE_MORE; i++)
		bit_by_bit = http_request_parse(&pieces, &t, buf, i, &limits);

	CHECK(at_once == bit_by_bit && s.fault == t.fault && s.head_bytes == t.head_bytes);
	CHECK((at_once == PARSE_BAD) == (s.fault != HTTP_OK));
	if (at_once == PARSE_DONE) {
		CHECK(s.head_bytes <= n && s.head_bytes <= limits.head_bytes);
		CHECK(whole.fields.count <= limits.fields);
		check_request(&whole, buf, s.head_bytes);
		check_same(&whole, &pieces);
	}
	free(buf);
	return 0;
}
