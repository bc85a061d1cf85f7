/* Is a text the JSON that we take? Pure; no allocation. */
#ifndef BRIM_CONF_SCAN_H
#define BRIM_CONF_SCAN_H

#include <stdbool.h>
#include <stddef.h>

enum { CONF_NESTING_MAX = 24 };

struct conf_scan {
	char *text; /* NUL behind its bytes; comments in it are blanked */
	size_t bytes, at;
	unsigned depth;
	bool in_object[CONF_NESTING_MAX];
	unsigned char expect;
	const char *fault; /* what is wrong at «at» */
};

/* From zeroed but for text and bytes. False: fault and at say what and where. */
bool conf_scan(struct conf_scan *s);
/* Counted from 1; a column is a character, not a byte. */
void conf_scan_place(const struct conf_scan *s, unsigned *out_line, unsigned *out_column);

#endif
