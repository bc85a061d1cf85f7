/*
 * Ranges: two bytes of length, then a Range (and the same bytes as a Content-Range). Every byte that
 * was asked for is sent, once, and what is said to be sent has that length.
 */
#include <stdlib.h>

#include "edge/http/range.h"

static bool covered(const struct http_parts *p, uint64_t byte)
{
	unsigned times = 0;

	for (uint16_t i = 0; i < p->count; i++)
		times += p->at[i].first <= byte && byte <= p->at[i].last;
	CHECK(times <= 1);
	return times == 1;
}

static bool asked_for(const struct http_ranges *r, uint64_t byte, uint64_t length)
{
	for (uint16_t i = 0; i < r->count; i++) {
		if (r->at[i].suffix ? length - byte <= r->at[i].last
				    : byte >= r->at[i].first && byte <= r->at[i].last)
			return true;
	}
	return false;
}

static void body_check(const struct http_parts *p)
{
	const struct http_multipart m = { p, VIEW("0123456789abcdef"), VIEW("text/plain") };
	char head[200];
	uint64_t bytes = 0;

	for (uint16_t i = 0; i <= p->count; i++) {
		size_t n = http_part_head(&m, i, head, sizeof(head));
		CHECK(n < sizeof(head) && n == http_part_head(&m, i, NULL, 0));
		CHECK(head[n - 1] == '\n');
		bytes += n;
		if (i < p->count)
			bytes += p->at[i].last - p->at[i].first + 1;
	}
	CHECK(bytes == http_multipart_bytes(&m));
}

static void parts_check(const struct http_ranges *r, const struct http_parts *p)
{
	CHECK(p->count > 0 && p->count <= r->count);
	for (uint16_t i = 0; i < p->count; i++)
		CHECK(p->at[i].first <= p->at[i].last && p->at[i].last < p->length);
	for (uint64_t byte = 0; byte < p->length && byte < 2048; byte++)
		CHECK(covered(p, byte) || !asked_for(r, byte, p->length));
	body_check(p);
}

static void content_range(struct view v)
{
	struct http_content_range c, again;
	char out[HTTP_CONTENT_RANGE_MAX];

	if (http_content_range_parse(v, &c) != 0)
		return;
	size_t n = http_content_range_format(&c, out);
	CHECK(n <= sizeof(out) && http_content_range_parse(view_of(out, n), &again) == 0);
	CHECK(c.unsatisfied == again.unsatisfied && c.length == again.length);
	CHECK(c.unsatisfied || (c.range.first == again.range.first && c.range.last == again.range.last));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_field at[4];
	struct http_fields f = { .at = at, .capacity = 4 };
	struct http_ranges ranges;
	struct http_parts parts;

	if (size < 2)
		return 0;
	uint64_t length = data[0] * 256u + data[1];
	char *line = malloc(size + 7), *end = mempcpy(mempcpy(line, "Range:", 6), data + 2, size - 2);
	memcpy(end, "\r\n", 2);
	content_range(view_of(line + 6, size - 2));
	if (http_fields_parse(&f, line, size + 6) == 0 && http_ranges_parse(&f, &ranges) == 0) {
		CHECK(ranges.count > 0 && ranges.count <= HTTP_RANGES_MAX);
		if (http_ranges_resolve(&ranges, length, &parts) == RANGE_PARTIAL)
			parts_check(&ranges, &parts);
		else if (length < 2048 && ranges.count == 1)
			CHECK(length == 0 || !asked_for(&ranges, length - 1, length));
	}
	free(line);
	return 0;
}
