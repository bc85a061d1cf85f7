/*
 * The chunked coding. Verdict, consumed bytes and payload are the same in whatever pieces the bytes
 * arrive (the first byte says in which), and what we encode ourselves decodes to the same payload.
 */
#include <stdlib.h>

#include "edge/http/chunked.h"

struct decoded {
	enum http_chunked_event event;
	enum http_fault fault;
	uint64_t payload_left;
	size_t used, payload_bytes;
	char *payload;
};

static struct decoded decode(const char *p, size_t n, size_t piece)
{
	struct decoded d = { .event = CHUNKED_MORE, .payload = malloc(n + 1) };
	struct http_chunked c;

	http_chunked_init(&c);
	while (d.used < n && d.event != CHUNKED_END && d.event != CHUNKED_BAD) {
		size_t have = n - d.used < piece ? n - d.used : piece, used;
		d.event = http_chunked_feed(&c, p + d.used, have, &used);
		CHECK(used <= have && (d.event != CHUNKED_MORE || used == have));
		CHECK((d.event == CHUNKED_PAYLOAD) == (c.payload_left > 0));
		d.used += used;
		have -= used;
		if (d.event != CHUNKED_PAYLOAD || have == 0)
			continue;
		if (have > c.payload_left)
			have = c.payload_left;
		memcpy(d.payload + d.payload_bytes, p + d.used, have);
		http_chunked_took(&c, have);
		d.payload_bytes += have;
		d.used += have;
		if (c.payload_left == 0)
			d.event = CHUNKED_MORE;
	}
	d.fault = c.fault;
	d.payload_left = c.payload_left;
	return d;
}

static void check_same(const struct decoded *a, const struct decoded *b)
{
	CHECK(a->event == b->event && a->fault == b->fault && a->used == b->used);
	CHECK(a->payload_left == b->payload_left && a->payload_bytes == b->payload_bytes);
	CHECK(memcmp(a->payload, b->payload, a->payload_bytes) == 0);
}

static void check_encoding(const struct decoded *d)
{
	size_t n = 0;
	char *coded = malloc(d->payload_bytes + 3 * HTTP_CHUNK_LINE_MAX);

	if (d->payload_bytes > 0) {
		n = http_chunked_line(coded, d->payload_bytes);
		memcpy(coded + n, d->payload, d->payload_bytes);
		n += d->payload_bytes;
		memcpy(coded + n, "\r\n", 2);
		n += 2;
	}
	n += http_chunked_line(coded + n, 0);
	memcpy(coded + n, "\r\n", 2);
	n += 2;
	struct decoded again = decode(coded, n, n);
	CHECK(again.event == CHUNKED_END && again.used == n);
	CHECK(again.payload_bytes == d->payload_bytes);
	CHECK(memcmp(again.payload, d->payload, d->payload_bytes) == 0);
	free(again.payload);
	free(coded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	const char *p = (const char *)data + 1;
	struct decoded whole = decode(p, size - 1, size - 1);
	struct decoded single = decode(p, size - 1, 1);
	struct decoded pieces = decode(p, size - 1, (size_t)data[0] + 1);

	check_same(&whole, &single);
	check_same(&whole, &pieces);
	CHECK((whole.event == CHUNKED_BAD) == (whole.fault != HTTP_OK));
	check_encoding(&whole);
	free(whole.payload);
	free(single.payload);
	free(pieces.payload);
	return 0;
}
