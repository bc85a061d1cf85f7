/* The guard against cache deception. Between the files of the verdict. */
#ifndef BRIM_CACHE_VERDICT_GUARD_H
#define BRIM_CACHE_VERDICT_GUARD_H

#include "edge/http/head.h"

/* Does the extension of a path (with or without query, in any encoding) promise a file of another kind than the
 * content type says? */
bool verdict_guard_contradicts(struct view path, const struct http_fields *response);

#endif
