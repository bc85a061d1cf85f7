/*
 * Response heads. The verdict is the same however the bytes arrive; nothing is changed before the head
 * is whole; what was repaired needs no second repair; every view lies within the head.
 * Input: one byte that chooses the limits and the request's method, then the bytes from the origin.
 */
#include <stdlib.h>

#include "edge/http/head.h"

enum { FIELDS = 16 };

struct attempt {
	struct http_field at[FIELDS];
	struct http_response r;
	struct http_scan scan;
	enum http_parse verdict;
};

static void begin(struct attempt *a)
{
	memset(a, 0, sizeof(*a));
	a->r.fields = (struct http_fields){ .at = a->at, .capacity = FIELDS };
}

static bool within(struct view v, const char *buf, size_t n)
{
	return v.n == 0 || (v.p >= buf && v.n <= n && v.p - buf <= (ptrdiff_t)(n - v.n));
}

static void check_response(const struct http_response *r, enum http_method m, const char *buf, size_t n)
{
	CHECK(r->status >= 100 && r->status <= 599 && within(r->reason, buf, n));
	CHECK(r->framing != FRAMING_CLOSE || !r->keep_alive);
	CHECK(r->framing != FRAMING_LENGTH || r->has_length);
	CHECK(r->framing != FRAMING_CHUNKED || (!r->has_length && r->minor == 1));
	CHECK(m != METHOD_HEAD || r->framing == FRAMING_NONE);
	for (uint16_t i = 0; i < r->fields.count; i++) {
		const struct http_field *field = &r->fields.at[i];
		CHECK(field->name.n > 0 && within(field->name, buf, n) && within(field->value, buf, n));
		for (size_t k = 0; k < field->value.n; k++)
			CHECK((uint8_t)field->value.p[k] >= 0x20 || field->value.p[k] == '\t');
	}
}

static void check_same(const struct attempt *a, const struct attempt *b, ptrdiff_t moved)
{
	CHECK(a->verdict == b->verdict && a->scan.fault == b->scan.fault);
	if (a->verdict != PARSE_DONE)
		return;
	CHECK(a->scan.head_bytes == b->scan.head_bytes && a->r.status == b->r.status);
	CHECK(a->r.framing == b->r.framing && a->r.length == b->r.length);
	CHECK(a->r.keep_alive == b->r.keep_alive && a->r.fields.count == b->r.fields.count);
	CHECK(a->r.fields.seen == b->r.fields.seen);
	for (uint16_t i = 0; i < a->r.fields.count; i++) {
		const struct http_field *f = &a->at[i], *g = &b->at[i];
		CHECK(f->value.n == g->value.n && f->value.p + moved == g->value.p);
		CHECK(f->dropped == g->dropped && f->id == g->id);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct attempt whole, pieces, again;

	if (size == 0)
		return 0;
	struct http_limits limits = { data[0] & 1 ? 64 : 4096, data[0] & 2 ? 3 : FIELDS };
	enum http_method m = data[0] & 4 ? METHOD_HEAD : METHOD_GET;
	size_t n = size - 1;
	char *buf = malloc(n + (n == 0)), *other = malloc(n + (n == 0));
	memcpy(buf, data + 1, n);
	memcpy(other, data + 1, n);

	begin(&whole);
	begin(&pieces);
	whole.verdict = http_response_parse(&whole.r, &whole.scan, buf, n, m, &limits);
	for (size_t i = 0; i <= n && pieces.verdict == PARSE_MORE; i++) {
		CHECK(memcmp(other, data + 1, n) == 0);
		pieces.verdict = http_response_parse(&pieces.r, &pieces.scan, other, i, m, &limits);
	}
	check_same(&whole, &pieces, other - buf);
	CHECK(memcmp(buf, other, n) == 0);
	if (whole.verdict == PARSE_DONE) {
		CHECK(memcmp(buf + whole.scan.head_bytes, data + 1 + whole.scan.head_bytes,
			     n - whole.scan.head_bytes) == 0);
		check_response(&whole.r, m, buf, whole.scan.head_bytes);
		begin(&again);
		again.verdict = http_response_parse(&again.r, &again.scan, buf, n, m, &limits);
		check_same(&whole, &again, 0);
		CHECK(memcmp(buf, other, n) == 0);
	}
	free(buf);
	free(other);
	return 0;
}
