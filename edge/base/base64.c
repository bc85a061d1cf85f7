/*
 * One alphabet, padded, without line breaks: what base64_encode writes is all that base64_decode takes, so that bytes
 * have one text and no other.
 */
#include "edge/base/base64.h"

#include <errno.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct view v, char *out)
{
	const uint8_t *p = (const uint8_t *)v.p;

	for (size_t i = 0; i < v.n; i += 3) {
		size_t left = v.n - i;
		uint32_t bits = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
				(left > 2 ? p[i + 2] : 0);

		*out++ = letters[bits >> 18];
		*out++ = letters[bits >> 12 & 63];
		*out++ = left > 1 ? letters[bits >> 6 & 63] : '=';
		*out++ = left > 2 ? letters[bits & 63] : '=';
	}
	*out = '\0';
}

/* 0 to 63; -1: no letter. */
static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four letters, of which the last one or two may be padding. Returns the bytes, or -EINVAL. */
static int decode_group(const char *text, char *out)
{
	int padding = text[3] != '=' ? 0 : text[2] != '=' ? 1 : 2;
	uint32_t bits = 0;

	for (int i = 0; i < 4; i++) {
		int value = i >= 4 - padding ? 0 : value_of(text[i]);

		if (value < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)value;
	}
	/* Bits that belong to no byte are zero. */
	if ((bits & ((1U << (8 * padding)) - 1)) != 0)
		return -EINVAL;
	for (int i = 0; i < 3 - padding; i++)
		out[i] = (char)(uint8_t)(bits >> (16 - 8 * i));
	return 3 - padding;
}

int base64_decode(struct view text, char *out, size_t *out_bytes)
{
	size_t n = 0;

	if (text.n % 4 != 0)
		return -EINVAL;
	for (size_t i = 0; i < text.n; i += 4) {
		int got = decode_group(text.p + i, out + n);

		if (got < 0 || (got < 3 && i + 4 < text.n))
			return -EINVAL;
		n += (size_t)got;
	}
	*out_bytes = n;
	return 0;
}
