/*
 * Heads of answers as HTTP/2 has them: lines of text become names and values, and nothing of HTTP/1's framing goes along
 * (RFC 9113 §8.2.2). Nothing is copied; the session makes names lower-case when it takes its copy.
 */
#include "edge/h2.h"

#include <errno.h>

#include "edge/text.h"

#define BIT(id) (UINT64_C(1) << (id))
static const uint64_t connection_specific = BIT(FIELD_CONNECTION) | BIT(FIELD_KEEP_ALIVE) |
					    BIT(FIELD_PROXY_CONNECTION) |
					    BIT(FIELD_TRANSFER_ENCODING) | BIT(FIELD_UPGRADE) |
					    BIT(FIELD_TE) | BIT(FIELD_HTTP2_SETTINGS);

static int add(struct h2_answer *out, struct view name, struct view value)
{
	if (out->count == H2_ANSWER_FIELDS)
		return -E2BIG;
	out->at[out->count++] = (nghttp2_nv){ .name = (uint8_t *)name.p,
					      .namelen = name.n,
					      .value = (uint8_t *)value.p,
					      .valuelen = value.n };
	return 0;
}

static int add_line(struct h2_answer *out, struct view line, uint64_t left_out)
{
	const char *colon = memchr(line.p, ':', line.n);
	struct view name, value;

	if (colon == NULL)
		return 0;
	name = view_of(line.p, (size_t)(colon - line.p));
	value = view_skip(line, name.n + 1);
	while (value.n > 0 && value.p[0] == ' ')
		value = view_skip(value, 1);
	if ((left_out >> http_field_id(name)) & 1)
		return 0;
	return add(out, name, value);
}

static int add_lines(struct h2_answer *out, struct view text, uint64_t left_out)
{
	while (text.n > 0) {
		const char *cr = memchr(text.p, '\r', text.n);
		size_t n = cr != NULL ? (size_t)(cr - text.p) : text.n;
		int r = add_line(out, view_of(text.p, n), left_out);

		if (r != 0)
			return r;
		text = view_skip(text, n + 2 < text.n ? n + 2 : text.n);
	}
	return 0;
}

int h2_answer_head(const struct answer *a, struct h2_answer *out)
{
	struct text status = text_over(out->status, sizeof(out->status));
	struct text length = text_over(out->length, sizeof(out->length));
	int r;

	out->count = 0;
	text_decimal(&status, a->status);
	r = add(out, VIEW(":status"), text_view(&status));
	if (r == 0)
		r = add_lines(out, a->fields, connection_specific | BIT(FIELD_CONTENT_LENGTH));
	if (r == 0)
		r = add_lines(out, a->own, connection_specific | BIT(FIELD_CONTENT_LENGTH));
	if (r != 0 || a->length < 0 || a->status == 204 || a->status < 200)
		return r;
	text_decimal(&length, a->length);
	return add(out, VIEW("content-length"), text_view(&length));
}

int h2_answer_trailers(struct view lines, struct h2_answer *out)
{
	out->count = 0;
	return add_lines(out, lines,
			 connection_specific | BIT(FIELD_CONTENT_LENGTH) | BIT(FIELD_TRAILER));
}
