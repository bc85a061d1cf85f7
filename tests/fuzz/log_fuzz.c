/*
 * Log records from arbitrary bytes. The first byte chooses: even, the bytes as they are; odd, each record is given the right
 * checksum first, since a fuzzer can't guess it and everything behind it would stay unseen.
 *
 * Whatever is accepted must lie within the input and come out the same when it is encoded again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cache/format.h"
#include "edge/base/hash.h"

static void mend(char *p, size_t n, uint64_t offset)
{
	struct format_log_record *r = (struct format_log_record *)(void *)p;
	size_t checked = offsetof(struct format_log_record, bytes);

	if (n < sizeof(*r) || r->bytes < sizeof(*r) || r->bytes > n)
		return;
	r->checksum = hash_xxh3_seed(p + checked, r->bytes - checked, offset);
}

static void check_text(struct view v, const char *begin, const char *end)
{
	CHECK(v.p >= begin && v.p + v.n <= end);
}

static void check_object(const struct format_log_view *v, const char *p, uint64_t offset)
{
	const char *end = p + v->bytes;
	char *again = malloc(v->bytes);

	check_text(v->texts.url, p, end);
	check_text(v->texts.vary, p, end);
	check_text(v->texts.etag, p, end);
	check_text(v->texts.last_modified, p, end);
	CHECK(v->texts.head.n == 0);
	for (unsigned i = 0; i < v->texts.tag_count; i++)
		CHECK((const char *)&v->texts.tags[i + 1] <= end);
	/* Padding and the unused length may differ in what a stranger made. */
	CHECK(again != NULL && format_log_object_bytes(&v->texts) <= v->bytes);
	format_log_object_encode(v->type, v->object, &v->texts, offset, again);
	struct format_log_view back;

	CHECK(format_log_decode(again, format_log_object_bytes(&v->texts), offset, &back) == 0);
	CHECK(view_eq(back.texts.url, v->texts.url) && back.object->object_id == v->object->object_id);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct format_log_view v;
	size_t n = size == 0 ? 0 : size - 1, at = 0;
	char *bytes = malloc(n + 8);

	CHECK(bytes != NULL);
	if (n != 0)
		memcpy(bytes, data + 1, n);
	for (;;) {
		if (size != 0 && data[0] % 2 == 1)
			mend(bytes + at, n - at, at);
		if (format_log_decode(bytes + at, n - at, at, &v) != 0)
			break;
		CHECK(v.bytes <= n - at && v.bytes % 8 == 0);
		if (v.type == FORMAT_LOG_COMMIT || v.type == FORMAT_LOG_REFRESH)
			check_object(&v, bytes + at, at);
		at += v.bytes;
	}
	free(bytes);
	return 0;
}
