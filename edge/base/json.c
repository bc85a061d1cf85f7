/*
 * Most of what is logged needs no escape, so the loop looks for the next byte that does and copies what
 * lies before it at once. Characters beyond ASCII are copied one by one, after a check by Unicode's
 * table 3-7 (no overlong forms, no surrogates): log readers choke on less.
 */
#include "edge/base/json.h"

#include "edge/base/check.h"

/* How many bytes from the start of v are ASCII that stands for itself. */
static size_t plain_length(struct view v)
{
	size_t n = 0;

	while (n < v.n) {
		uint8_t c = (uint8_t)v.p[n];
		if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
			break;
		n++;
	}
	return n;
}

static bool between(uint8_t c, uint8_t from, uint8_t to)
{
	return c >= from && c <= to;
}

/* The length of the character beyond ASCII that v begins with; 0: it is none. */
static size_t utf8_length(struct view v)
{
	const uint8_t *p = (const uint8_t *)v.p;
	uint8_t from = 0x80, to = 0xbf; /* of the second byte */
	size_t n = between(p[0], 0xc2, 0xdf)   ? 2
		   : between(p[0], 0xe0, 0xef) ? 3
		   : between(p[0], 0xf0, 0xf4) ? 4
					       : 0;

	if (n == 0 || v.n < n)
		return 0;
	if (p[0] == 0xe0)
		from = 0xa0;
	if (p[0] == 0xed)
		to = 0x9f;
	if (p[0] == 0xf0)
		from = 0x90;
	if (p[0] == 0xf4)
		to = 0x8f;
	if (!between(p[1], from, to))
		return 0;
	for (size_t i = 2; i < n; i++)
		if (!between(p[i], 0x80, 0xbf))
			return 0;
	return n;
}

static size_t escape_byte(uint8_t c, char out[JSON_ESCAPED_MAX])
{
	static const char digits[] = "0123456789abcdef";

	out[0] = '\\';
	switch (c) {
	case '"':
	case '\\':
		out[1] = (char)c;
		return 2;
	case '\n':
		out[1] = 'n';
		return 2;
	case '\r':
		out[1] = 'r';
		return 2;
	case '\t':
		out[1] = 't';
		return 2;
	default:
		memcpy(out + 1, "u00", 3);
		out[4] = digits[c >> 4];
		out[5] = digits[c & 15];
		return 6;
	}
}

/* One character or byte that isn't plain. Returns the bytes of v that it is. */
static size_t escape_one(struct view v, char out[JSON_ESCAPED_MAX], size_t *out_bytes)
{
	size_t n = (uint8_t)v.p[0] >= 0x80 ? utf8_length(v) : 0;

	if (n == 0) {
		*out_bytes = escape_byte((uint8_t)v.p[0], out);
		return 1;
	}
	memcpy(out, v.p, n);
	*out_bytes = n;
	return n;
}

size_t json_escape(struct view v, char *out, size_t capacity, size_t *out_taken)
{
	size_t written = 0, whole = v.n;

	while (v.n > 0) {
		size_t plain = plain_length(v);
		if (plain > 0) {
			if (plain > capacity - written)
				plain = capacity - written;
			if (plain == 0)
				break;
			memcpy(out + written, v.p, plain);
			written += plain;
			v = view_skip(v, plain);
			continue;
		}
		char one[JSON_ESCAPED_MAX];
		size_t one_bytes, taken = escape_one(v, one, &one_bytes);
		if (one_bytes > capacity - written)
			break;
		memcpy(out + written, one, one_bytes);
		written += one_bytes;
		v = view_skip(v, taken);
	}
	*out_taken = whole - v.n;
	return written;
}
