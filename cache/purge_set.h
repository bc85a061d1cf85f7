/* A set of scopes: which objects would a purge of these name? For counting before it is done. */
#ifndef BRIM_CACHE_PURGE_SET_H
#define BRIM_CACHE_PURGE_SET_H

#include "cache/cache.h"

struct purge_set;

/* NULL: no memory. */
struct purge_set *purge_set_new(const struct cache_scope *scopes, unsigned count) NODISCARD;
void purge_set_free(struct purge_set *set);
bool purge_set_names(const struct purge_set *set, const struct cache_names *names);

#endif
