/*
 * Content-Length and Transfer-Encoding: where a message ends. Any doubt is a fault, since two
 * readers that resolve it differently disagree about where the next message begins.
 */
#include "edge/http/field.h"
#include "edge/http/parts.h"

#define LENGTH_MAX (UINT64_C(1) << 60) /* sums of a few lengths still fit an int64_t */

/* One line of a response may list its length several times (RFC 9110 §8.6), if all are the same. */
static bool same_lengths(struct view list, bool *any, uint64_t *length)
{
	struct view element;

	while (http_list_next(&list, &element)) {
		uint64_t l;
		if (http_decimal(element, &l) != 0 || (*any && l != *length))
			return false;
		*any = true;
		*length = l;
	}
	return true;
}

enum http_fault http_length(const struct http_fields *f, enum http_message m, uint64_t *out)
{
	bool any = false;
	uint64_t length = 0;

	for (uint16_t i = 0; i < f->count; i++) {
		if (f->at[i].id != FIELD_CONTENT_LENGTH)
			continue;
		if (m == MESSAGE_REQUEST && (any || http_decimal(f->at[i].value, &length) != 0))
			return HTTP_BAD_LENGTH;
		if (!same_lengths(f->at[i].value, &any, &length))
			return HTTP_BAD_LENGTH;
	}
	if (!any || length > LENGTH_MAX)
		return HTTP_BAD_LENGTH;
	*out = length;
	return HTTP_OK;
}

enum http_fault http_chunked_alone(const struct http_fields *f)
{
	bool chunked = false, unknown = false;

	for (uint16_t i = 0; i < f->count; i++) {
		if (f->at[i].id != FIELD_TRANSFER_ENCODING)
			continue;
		struct view rest = f->at[i].value, coding;
		while (http_list_next(&rest, &coding)) {
			if (chunked) /* again, or not the last */
				return HTTP_BAD_FRAMING;
			if (view_eq_nocase(coding, VIEW("chunked")))
				chunked = true;
			else
				unknown = true;
		}
	}
	if (unknown)
		return HTTP_BAD_TRANSFER_ENCODING;
	return chunked ? HTTP_OK : HTTP_BAD_FRAMING;
}
