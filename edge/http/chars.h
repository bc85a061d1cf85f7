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

/* Eight characters at once, in any order: ASCII capitals gain the bit that makes them small. */
static inline uint64_t chars_lower(uint64_t c)
{
	const uint64_t ones = 0x0101010101010101, tops = ones * 0x80, ascii = c & ~tops;
	uint64_t from_a = ascii + ones * (0x80 - 'A'), beyond_z = ascii + ones * (0x7f - 'Z');

	return c | ((from_a & ~beyond_z & ~c & tops) >> 2);
}

/* Writes the n characters of p as small letters. */
static inline void chars_copy_lower(const char *p, size_t n, char *out)
{
	size_t i = 0;

	for (; n - i >= 8; i += 8) {
		uint64_t c;

		memcpy(&c, p + i, 8);
		c = chars_lower(c);
		memcpy(out + i, &c, 8);
	}
	for (; i < n; i++)
		out[i] = char_lower(p[i]);
}

/* Four to eight characters: with fewer than eight, those in the middle are in it twice. */
static inline uint64_t chars_word(const char *p, size_t n)
{
	uint32_t first, last;

	memcpy(&first, p, 4);
	memcpy(&last, p + n - 4, 4);
	return (uint64_t)last << 32 | first;
}

/* Are the n characters of p, as small letters, those of «lower», which are small? */
static inline bool chars_are(const char *p, const char *lower, size_t n)
{
	size_t i = 0;

	if (n >= 4) {
		for (; n - i > 8; i += 8)
			if (chars_lower(chars_word(p + i, 8)) != chars_word(lower + i, 8))
				return false;
		i = n > 8 ? n - 8 : 0; /* the last eight may overlap */
		return chars_lower(chars_word(p + i, n - i)) == chars_word(lower + i, n - i);
	}
	while (i < n && char_lower(p[i]) == lower[i])
		i++;
	return i == n;
}

/* The value of a CHAR_HEX character. */
static inline unsigned char_hex(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
}

typedef uint8_t chars_16 __attribute__((vector_size(16)));

/* All bits of those of 16 bytes at p that are control characters, HTAB among them. The first byte's are the lowest. */
static inline void chars_controls(const char *p, uint64_t out_marks[2])
{
	chars_16 c;

	memcpy(&c, p, sizeof(c));
	__typeof__(c < 0x20) marks = (c < 0x20) | (c == 0x7f);
	memcpy(out_marks, &marks, sizeof(marks));
	out_marks[0] = le64toh(out_marks[0]);
	out_marks[1] = le64toh(out_marks[1]);
}

/* The first byte in [p, end) that is a control character other than HTAB (0x00–0x1f, 0x7f), or end. 16 bytes at a step. */
static inline const char *char_next_control(const char *p, const char *end)
{
	while (end - p >= 16) {
		uint64_t marks[2];

		chars_controls(p, marks);
		if ((marks[0] | marks[1]) == 0) {
			p += 16;
			continue;
		}
		p += marks[0] != 0 ? __builtin_ctzll(marks[0]) / 8 : 8 + __builtin_ctzll(marks[1]) / 8;
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
