/* See text.h. */
#include "edge/text.h"

void text_decimal(struct text *t, int64_t number)
{
	uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;
	size_t digits = 1;

	if (number < 0)
		text_put(t, VIEW("-"));
	for (uint64_t power = 10; power <= left; power *= 10) /* left is at most 2^63 < 10^19 */
		digits++;
	if (digits > t->capacity - t->n) {
		text_fail(t);
		return;
	}
	t->n += digits;
	for (char *p = t->p + t->n; digits > 0; digits--) {
		*--p = (char)('0' + left % 10);
		left /= 10;
	}
}

void text_hex(struct text *t, uint64_t number)
{
	char digits[16];

	for (size_t i = 0; i < sizeof(digits); i++)
		digits[i] = "0123456789abcdef"[(number >> (60 - 4 * i)) & 15];
	text_put(t, view_of(digits, sizeof(digits)));
}
