/*
 * UTF-8 (RFC 3629 §4), a byte at a time, so that what is still percent-encoded can be looked at
 * without a copy. Overlong forms, surrogates and what lies beyond U+10FFFF are no UTF-8.
 */
#ifndef BRIM_HTTP_UTF8_H
#define BRIM_HTTP_UTF8_H

#include <stdbool.h>
#include <stdint.h>

/* Zero at the start of a text, which is whole where «left» is 0 again. */
struct utf8 {
	uint8_t left;	   /* bytes that the character still needs */
	uint8_t low, high; /* what the next of them may be */
};

static inline bool utf8_lead(struct utf8 *u, uint8_t byte)
{
	if (byte < 0x80)
		return true;
	if (byte < 0xc2 || byte > 0xf4)
		return false;
	u->left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
	u->low = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
	u->high = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
	return true;
}

/* False: this byte can't come here. */
static inline bool utf8_byte(struct utf8 *u, uint8_t byte)
{
	if (u->left == 0)
		return utf8_lead(u, byte);
	if (byte < u->low || byte > u->high)
		return false;
	u->left--;
	u->low = 0x80;
	u->high = 0xbf;
	return true;
}

#endif
