/*
 * What a request asks for by its fields: preconditions, If-Range, codings, languages. The input is
 * a block of fields, of which some describe the stored response, too.
 */
#include <stdlib.h>

#include "edge/http/accept.h"
#include "edge/http/condition.h"
#include "edge/http/field.h"

static struct view value_of(const struct http_fields *f, enum http_field_id id)
{
	const struct http_field *field = http_fields_first(f, id);

	return field != NULL ? field->value : VIEW("");
}

static void conditions(const struct http_fields *f)
{
	const struct http_selected s = {
		.status = 200,
		.etag = value_of(f, FIELD_ETAG),
		.last_modified = value_of(f, FIELD_LAST_MODIFIED),
		.date = value_of(f, FIELD_DATE),
		.received = { INT64_C(784111777123) },
	};
	struct http_etag tag;
	struct wall modified;
	enum http_condition cache = http_preconditions(METHOD_GET, f, &s, false);
	enum http_condition origin = http_preconditions(METHOD_GET, f, &s, true);

	CHECK(cache != CONDITION_FAILED);
	CHECK(cache == http_preconditions(METHOD_HEAD, f, &s, false));
	CHECK(http_preconditions(METHOD_PUT, f, &s, true) != CONDITION_NOT_MODIFIED);
	/* The origin's own steps only add refusals. */
	if (origin == CONDITION_NOT_MODIFIED)
		CHECK(cache == CONDITION_NOT_MODIFIED);
	if (origin == CONDITION_FAILED)
		CHECK(http_fields_has(f, FIELD_IF_MATCH) ||
		      http_fields_has(f, FIELD_IF_UNMODIFIED_SINCE));
	if (http_if_range(f, &s) && http_fields_has(f, FIELD_IF_RANGE))
		CHECK((http_etag_parse(s.etag, &tag) == 0 && !tag.weak) ||
		      http_date_parse(s.last_modified, &modified) == 0);
}

static void codings(const struct http_fields *f)
{
	struct http_field at[1];
	struct http_fields reduced = { .at = at, .capacity = 1 };
	char line[64] = "Accept-Encoding:";
	size_t n = strlen(line);
	unsigned asked, again;

	if (http_accept_encoding(f, &asked) != 0)
		return;
	n += http_accept_encoding_format(asked, line + n);
	memcpy(line + n, "\r\n", 2);
	CHECK(http_fields_parse(&reduced, line, n + 2) == 0);
	CHECK(http_accept_encoding(&reduced, &again) == 0 && again == asked);
}

static void languages(const struct http_fields *f)
{
	static const struct view site[] = { VIEW("en"), VIEW("de-CH"), VIEW("zh-Hant-TW"),
					    VIEW("x-a-b") };
	int found = http_accept_language(f, site, ARRAY_LEN(site));

	CHECK(found >= -1 && found < (int)ARRAY_LEN(site));
	CHECK(http_accept_language(f, site, 0) == -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_field at[16];
	struct http_fields f = { .at = at, .capacity = 16 };
	char *copy = malloc(size + 2);

	memcpy(copy, data, size);
	memcpy(copy + size, "\r\n", 2);
	if (http_fields_parse(&f, copy, size + 2) == 0) {
		conditions(&f);
		codings(&f);
		languages(&f);
	}
	free(copy);
	return 0;
}
