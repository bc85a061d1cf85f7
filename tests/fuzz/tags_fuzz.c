/*
 * Tags in a field's value. What is read is sorted, each once, within its limits; and the same whatever separates
 * the tags, and when each of them comes in a field of its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "edge/tags.h"

static const struct view name = { "xkey", 4 };
static const struct conf_list names = { .at = (struct view *)&name, .count = 1 };

enum { SITE = 1, FIELDS_MAX = 4096 };

static int read(struct http_field *at, uint16_t count, struct arena *a, struct tags *out)
{
	const struct http_fields f = { .at = at, .count = count, .capacity = FIELDS_MAX };
	int r = tags_read(&f, &names, SITE, a, out);

	CHECK(r == 0 || r == -E2BIG);
	CHECK(r != 0 || (out->given == (count != 0) && out->count <= TAGS_MAX));
	for (unsigned i = 1; r == 0 && i < out->count; i++)
		CHECK(out->hashes[i - 1] < out->hashes[i]);
	return r;
}

static bool separates(char c)
{
	return c == ' ' || c == ',' || c == '\t';
}

static uint16_t split(struct view value, struct http_field *at)
{
	uint16_t count = 0;

	for (size_t i = 0; i < value.n && count < FIELDS_MAX;) {
		size_t n = 0;

		while (i < value.n && separates(value.p[i]))
			i++;
		while (i + n < value.n && !separates(value.p[i + n]))
			n++;
		if (n != 0)
			at[count++] = (struct http_field){ .name = name,
							   .value = view_of(value.p + i, n) };
		i += n;
	}
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http_field one[1], many[FIELDS_MAX];
	struct view value = view_of((const char *)data, size);
	struct tags a, b;
	struct arena arena;
	uint16_t count = split(value, many);

	arena_init(&arena, 1 << 20);
	one[0] = (struct http_field){ .name = name, .value = value };
	if (read(one, 1, &arena, &a) == 0) {
		CHECK(read(many, count, &arena, &b) == 0);
		CHECK(a.count == b.count);
		CHECK(a.count == 0 || memcmp(a.hashes, b.hashes, a.count * sizeof(a.hashes[0])) == 0);
	}
	arena_fini(&arena);
	return 0;
}
