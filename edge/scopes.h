/*
 * The purge scopes of what people name: URLs, prefixes of URLs, hosts. Rules may change what the key is made of
 * (host, scheme, query), and may do so for some cookies, methods or clients only; a purge names every key that
 * requests for it can have.
 */
#ifndef BRIM_EDGE_SCOPES_H
#define BRIM_EDGE_SCOPES_H

#include "edge/target.h"

enum { SCOPES_OF_URL_MAX = CONF_KEY_FORMS_MAX + 1, SCOPES_OF_HOST_MAX = 2 };

/* Distinct ones: each of its keys, and last its path, for keys of other configurations. Returns how many. */
unsigned scopes_of_url(const struct target *t, struct cache_scope out[SCOPES_OF_URL_MAX]);
/* All that the target's host serves of its site, at whatever port. Returns how many. */
unsigned scopes_of_host(const struct target *t, struct cache_scope out[SCOPES_OF_HOST_MAX]);
/*
 * All whose URL (at the target's host and port, whatever its scheme) begins with the target's. By bytes of the
 * normalised path and query; where the site's keys filter queries, what follows the "?" is not looked at. 0: it is too long.
 */
unsigned scopes_of_prefix(const struct target *t, struct cache_scope out[SCOPES_OF_HOST_MAX]);

/* The hash that an object with this target and these settings keeps for its host. */
uint64_t scopes_host_hash(const struct target *t, const struct conf_cache *cache);

#endif
