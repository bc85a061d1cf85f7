/*
 * The decoder of entries (header, texts, stored head), as a hit calls it on whatever lies on the disk. An input is an
 * entry; so that mutations get past the checksum, each is also tried with the checksum put right.
 * What decodes must be views within the input, and must encode to the same bytes.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cache/format.h"
#include "edge/base/check.h"
#include "edge/base/hash.h"

static void within(const void *p, size_t n, const void *v, size_t v_bytes)
{
	const char *begin = p, *at = v;

	CHECK(v_bytes == 0 || (at >= begin && at + v_bytes <= begin + n));
}

static void try(const void *p, size_t n)
{
	const struct format_object *o;
	struct format_texts t;
	struct format_object again;
	char *out;

	if (format_entry_decode(p, n, &o, &t) < 0)
		return;
	within(p, n, o, sizeof(*o));
	within(p, n, t.tags, t.tag_count * sizeof(uint64_t));
	within(p, n, t.url.p, t.url.n);
	within(p, n, t.vary.p, t.vary.n);
	within(p, n, t.etag.p, t.etag.n);
	within(p, n, t.last_modified.p, t.last_modified.n);
	within(p, n, t.head.p, t.head.n);
	if (format_entry_bytes(&t) != o->head_bytes)
		return; /* longer than it need be: bytes behind the head that no text owns */
	out = malloc(o->head_bytes);
	CHECK(out != NULL);
	again = *o;
	format_entry_encode(&again, &t, out);
	CHECK(memcmp(out, p, o->head_bytes) == 0);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *copy = malloc(n > 0 ? n : 1); /* aligned, and its end is watched */
	struct format_entry *e = (void *)copy;

	CHECK(copy != NULL);
	if (n > 0)
		memcpy(copy, data, n);
	try(copy, n);
	if (n >= sizeof(*e)) {
		uint64_t checked = e->object.head_bytes < n ? e->object.head_bytes : n;
		size_t skip = offsetof(struct format_entry, magic);

		e->magic = FORMAT_ENTRY_MAGIC;
		e->format = FORMAT_ENTRY;
		if (checked > skip)
			e->checksum = hash_xxh3(copy + skip, checked - skip);
		try(copy, n);
	}
	free(copy);
	return 0;
}
