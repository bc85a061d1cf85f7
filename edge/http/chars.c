/* The table of character classes: ASCII alone, so that no locale has a say in what a token is. */
#include "edge/http/chars.h"

enum {
	VISIBLE = CHAR_TARGET | CHAR_SETTLED,
	TOKEN = VISIBLE | CHAR_TOKEN,
	UNRESERVED = TOKEN | CHAR_UNRESERVED,
	HEX = UNRESERVED | CHAR_HEX,
};

const uint8_t http_chars[256] = {
	['0' ... '9'] = HEX | CHAR_DIGIT,
	['A' ... 'F'] = HEX,
	['a' ... 'f'] = HEX,
	['G' ... 'Z'] = UNRESERVED,
	['g' ... 'z'] = UNRESERVED,
	['-'] = UNRESERVED,
	['.'] = UNRESERVED & ~CHAR_SETTLED,
	['_'] = UNRESERVED,
	['~'] = UNRESERVED,

	['!'] = TOKEN,
	['$'] = TOKEN,
	['%'] = TOKEN & ~CHAR_SETTLED,
	['&'] = TOKEN,
	['\''] = TOKEN,
	['*'] = TOKEN,
	['+'] = TOKEN,
	['^'] = TOKEN,
	['`'] = TOKEN,
	['|'] = TOKEN,
	['#'] = CHAR_TOKEN,

	['"'] = VISIBLE,
	['('] = VISIBLE,
	[')'] = VISIBLE,
	[','] = VISIBLE,
	['/'] = VISIBLE,
	[':'] = VISIBLE,
	[';'] = VISIBLE,
	['<'] = VISIBLE,
	['='] = VISIBLE,
	['>'] = VISIBLE,
	['?'] = VISIBLE,
	['@'] = VISIBLE,
	['['] = VISIBLE,
	['\\'] = VISIBLE & ~CHAR_SETTLED,
	[']'] = VISIBLE,
	['{'] = VISIBLE,
	['}'] = VISIBLE,
};
