/*
 * Heads of HTTP/2. Besides memory errors: whatever is decoded, a request that comes of it is one that HTTP/1 could have
 * sent, with exactly the fields that were given: nothing in a value becomes a field or another target.
 * Input: one byte of flags, then fields: length of the name, length of the value, name, value.
 */
#include <stdlib.h>

#include "edge/h2_head.h"

enum { FIELDS_MAX = 64 };

struct given {
	struct view name, value;
};

static size_t read_fields(const uint8_t *p, size_t n, struct given *out)
{
	size_t count = 0;

	while (n >= 2 && count < FIELDS_MAX) {
		size_t name = p[0], value = p[1];

		if (name + value > n - 2)
			break;
		out[count].name = view_of((const char *)p + 2, name);
		out[count++].value = view_of((const char *)p + 2 + name, value);
		p += 2 + name + value;
		n -= 2 + name + value;
	}
	return count;
}

static struct view given_value(const struct given *g, size_t count, struct view name)
{
	for (size_t i = 0; i < count; i++)
		if (view_eq(g[i].name, name))
			return g[i].value;
	return (struct view){ 0 };
}

static bool was_given(const struct given *g, size_t count, const struct http_field *f)
{
	for (size_t i = 0; i < count; i++)
		if (view_eq(g[i].name, f->name) && view_eq(g[i].value, f->value))
			return true;
	return f->id == FIELD_COOKIE ||
	       (f->id == FIELD_HOST && view_eq(f->value, given_value(g, count, VIEW(":authority"))));
}

static void check_request(const struct http_request *rq, const struct given *g, size_t count)
{
	unsigned hosts = 0;

	CHECK(view_eq(rq->method_text, given_value(g, count, VIEW(":method"))));
	if (rq->method != METHOD_CONNECT)
		CHECK(view_eq(rq->path, given_value(g, count, VIEW(":path"))));
	for (uint16_t i = 0; i < rq->fields.count; i++) {
		const struct http_field *f = &rq->fields.at[i];

		CHECK(was_given(g, count, f));
		CHECK(f->id != FIELD_CONNECTION && f->id != FIELD_TRANSFER_ENCODING &&
		      f->id != FIELD_UPGRADE);
		hosts += f->id == FIELD_HOST;
	}
	CHECK(hosts == 1 && rq->minor == 1 && rq->keep_alive && !rq->upgrade);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct h2_head head;
	static struct h2_block block;
	struct http_limits limits = { .head_bytes = 4096, .fields = 32 };
	struct given given[FIELDS_MAX];
	struct h2_priority priority = { .urgency = H2_URGENCY_DEFAULT };
	struct http_request rq;
	enum http_fault fault;
	size_t count;

	if (n == 0)
		return 0;
	if (data[0] & 2)
		limits = (struct http_limits){ .head_bytes = 200, .fields = 3 };
	count = read_fields(data + 1, n - 1, given);
	h2_head_begin(&head, &limits);
	for (size_t i = 0; i < count; i++) {
		h2_priority_read(given[i].value, &priority);
		CHECK(priority.urgency < H2_URGENCIES);
		if (h2_head_add(&head, given[i].name, given[i].value) != 0)
			return 0;
	}
	if (h2_head_end(&head, data[0] & 1, &block, &rq, &fault) == 0 && fault == HTTP_OK)
		check_request(&rq, given, count);
	return 0;
}
