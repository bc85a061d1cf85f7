/*
 * Classes of characters, one table for all parsers of this folder, and the one tight loop that
 * looks at every byte of a head: the search for the next control character.
 */
#ifndef BRIM_HTTP_CHARS_H
#define BRIM_HTTP_CHARS_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	CHAR_TOKEN = 1 << 0,	  /* RFC 9110 §5.6.2 tchar */
	CHAR_TARGET = 1 << 1,	  /* visible ASCII without "#": what a request target may hold */
	CHAR_UNRESERVED = 1 << 2, /* RFC 3986 §2.3 */
	CHAR_HEX = 1 << 3,
	CHAR_DIGIT = 1 << 4,
	CHAR_SETTLED = 1 << 5, /* of a target; stands for itself in its normal form, wherever it is */
};
extern const uint8_t http_chars[256];

static inline bool char_is(char c, unsigned classes)
{
	return (http_chars[(uint8_t)c] & classes) != 0;
}

static inline bool char_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* ASCII only, whatever the locale. */
static inline char char_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* The value of a CHAR_HEX character. */
static inline unsigned char_hex(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
}

/*
 * The first byte in [p, end) that is a control character other than HTAB (0x00–0x1f, 0x7f), or end.
 * Eight bytes at a step: a byte under 0x20 borrows from its top bit, and so does one that is zero
 * after «xor 0x7f». The lowest mark is always true; higher ones may be echoes and are looked at again.
 */
static inline const char *char_next_control(const char *p, const char *end)
{
	const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;

	while (end - p >= 8) {
		uint64_t bytes, del;
		memcpy(&bytes, p, 8);
		bytes = le64toh(bytes);
		del = bytes ^ (ones * 0x7f);
		uint64_t marks = (((bytes - ones * 0x20) & ~bytes) | ((del - ones) & ~del)) & tops;
		if (marks == 0) {
			p += 8;
			continue;
		}
		p += __builtin_ctzll(marks) / 8;
		if (*p != '\t')
			return p;
		p++;
	}
	for (; p < end; p++) {
		if (((uint8_t)*p < 0x20 && *p != '\t') || *p == 0x7f)
			return p;
	}
	return end;
}

#endif
