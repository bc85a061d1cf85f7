/*
 * Cache-Groups and Cache-Group-Invalidation (RFC 9875 §2, §3): Lists of Strings that name groups
 * of one origin. What is invalidated is for the caller: only answers to unsafe methods do that,
 * and only within their own scheme, host and port.
 */
#ifndef BRIM_HTTP_CACHE_GROUPS_H
#define BRIM_HTTP_CACHE_GROUPS_H

#include "edge/http/sf.h"

/* -ENOENT: no such field; -EINVAL: no List of Strings alone: ignored (RFC 9651 §2). */
int http_groups(const struct http_fields *f, enum http_field_id id, struct sf_cursor *out) NODISCARD;
/* The groups; parameters are ignored. A name comes with its backslashes: two are equal where
 * their bytes are. */
bool http_groups_next(struct sf_cursor *c, struct view *out_group);

#endif
