/*
 * What a request names: its site, and the URL in the form that is keyed, matched by rules and sent to the
 * origin. Traffic and the admin API both come here, so that a purge names exactly what a request stored.
 */
#ifndef BRIM_EDGE_TARGET_H
#define BRIM_EDGE_TARGET_H

#include "cache/cache.h"
#include "conf/conf.h"
#include "edge/base/arena.h"

struct target {
	struct conf_site *site;
	struct view scheme;    /* "http", "https" */
	struct view host;      /* lower case, without port */
	struct view authority; /* lower case, without a default port: what is keyed */
	struct view path;      /* normalised, with query */
	struct view path_only; /* without query */
	struct view query;     /* with its "?"; empty: none */
	char *keyed; /* path_only, and room for a query that a key filters; NULL: no key of the site does */
	bool odd_path; /* gets no lifetime from a rule */
};

/* authority: "host[:port]" as received; path: origin-form with query. Views go into the arena.
 * 0; -EINVAL: not a host or path; -ENOENT: no such site (421); -ENOMEM. */
int target_of(const struct conf *c, struct view scheme, struct view authority, struct view path,
	      struct arena *a, struct target *out) NODISCARD;
/* The same of an authority that was taken apart (uri_authority_split). */
int target_at(const struct conf *c, struct view scheme, struct view host, uint16_t port,
	      struct view path, struct arena *a, struct target *out) NODISCARD;

/* The primary key under these cache settings. */
void target_key(const struct target *t, const struct conf_cache *cache, uint8_t out_primary[16]);

/* "http://host/path?query", for people and logs. p is NULL where memory is short. */
struct view target_url(const struct target *t, struct arena *a) NODISCARD;

#endif
