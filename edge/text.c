/* See text.h. */
#include "edge/text.h"

void text_decimal(struct text *t, int64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);
	uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;

	do {
		digits[--at] = (char)('0' + left % 10);
		left /= 10;
	} while (left > 0);
	if (number < 0)
		text_put(t, VIEW("-"));
	text_put(t, view_of(digits + at, sizeof(digits) - at));
}

void text_hex(struct text *t, uint64_t number)
{
	char digits[16];

	for (size_t i = 0; i < sizeof(digits); i++)
		digits[i] = "0123456789abcdef"[(number >> (60 - 4 * i)) & 15];
	text_put(t, view_of(digits, sizeof(digits)));
}
