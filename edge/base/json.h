/*
 * Bytes as the inside of a JSON string, for lines that are written without building a tree of values.
 * Whatever the bytes are, the result is valid JSON and UTF-8.
 */
#ifndef BRIM_BASE_JSON_H
#define BRIM_BASE_JSON_H

#include <stddef.h>

#include "edge/base/view.h"

enum { JSON_ESCAPED_MAX = 6 /* bytes that one byte may become */ };

/*
 * Writes as much of v as fits, never half a character or half an escape. Returns the bytes written;
 * *out_taken bytes of v are in them. Quotes, backslashes, control characters and bytes that are no UTF-8
 * are escaped, the last as \u00XX.
 */
size_t json_escape(struct view v, char *out, size_t capacity, size_t *out_taken);

#endif
