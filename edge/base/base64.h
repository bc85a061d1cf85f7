/* Base64 (RFC 4648 §4), for bytes within JSON. Pure. */
#ifndef BRIM_BASE_BASE64_H
#define BRIM_BASE_BASE64_H

#include <stddef.h>

#include "edge/base/check.h"
#include "edge/base/view.h"

#define BASE64_BYTES(n) (((n) + 2) / 3 * 4) /* of the text for n bytes, without the NUL */

/* out has room for BASE64_BYTES(v.n) + 1. */
void base64_encode(struct view v, char *out);
/* out has room for text.n / 4 * 3. -EINVAL: not exactly what base64_encode writes. */
int base64_decode(struct view text, char *out, size_t *out_bytes) NODISCARD;

#endif
