/* Reading tags: see tags.h. Spaces and commas both separate; letters count as they are. */
#include "edge/tags.h"

#include <errno.h>
#include <stdlib.h>

struct reading {
	uint64_t site_hash;
	uint64_t *hashes; /* room for TAGS_MAX */
	size_t bytes;
	uint16_t count;
	bool given;
};

static bool separates(char c)
{
	return c == ' ' || c == ',' || c == '\t';
}

static struct view next_tag(struct view *rest)
{
	size_t begin = 0, end;

	while (begin < rest->n && separates(rest->p[begin]))
		begin++;
	for (end = begin; end < rest->n && !separates(rest->p[end]);)
		end++;
	*rest = view_skip(*rest, begin);
	struct view tag = view_of(rest->p, end - begin);

	*rest = view_skip(*rest, tag.n);
	return tag;
}

static int read_value(struct reading *r, struct view value)
{
	struct view tag;

	r->bytes += value.n;
	if (r->bytes > TAGS_BYTES_MAX)
		return -E2BIG;
	while ((tag = next_tag(&value)).n > 0) {
		if (r->count == TAGS_MAX)
			return -E2BIG;
		r->hashes[r->count++] = cache_scope_tag(r->site_hash, tag).hash;
	}
	return 0;
}

static int read_fields(struct reading *r, const struct http_fields *f, struct view name)
{
	const struct http_field *field;
	uint16_t at = 0;
	int e = 0;

	while (e == 0 && (field = http_fields_find(f, name, &at)) != NULL) {
		r->given = true;
		e = read_value(r, field->value);
	}
	return e;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

uint16_t tags_sort(uint64_t *hashes, uint16_t count)
{
	uint16_t kept = 0;

	if (count != 0)
		qsort(hashes, count, sizeof(*hashes), compare);
	for (uint16_t i = 0; i < count; i++) {
		if (kept == 0 || hashes[kept - 1] != hashes[i])
			hashes[kept++] = hashes[i];
	}
	return kept;
}

static bool any_given(const struct http_fields *f, const struct conf_list *names)
{
	for (size_t i = 0; i < names->count; i++) {
		uint16_t at = 0;

		if (http_fields_find(f, names->at[i], &at) != NULL)
			return true;
	}
	return false;
}

int tags_read(const struct http_fields *f, const struct conf_list *names, uint64_t site_hash,
	      struct arena *a, struct tags *out)
{
	struct reading r = { .site_hash = site_hash };
	int e = 0;

	*out = (struct tags){ .given = false };
	if (!any_given(f, names))
		return 0;
	r.hashes = arena_alloc(a, TAGS_MAX * sizeof(*r.hashes));
	if (r.hashes == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < names->count && e == 0; i++)
		e = read_fields(&r, f, names->at[i]);
	if (e != 0)
		return e;
	*out = (struct tags){ .given = r.given, .hashes = r.hashes, .count = tags_sort(r.hashes, r.count) };
	return 0;
}
