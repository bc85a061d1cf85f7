/*
 * The purge scopes of a URL. Rules may change what the key is made of (host, scheme, query), and may do so
 * for some cookies, methods or clients only; a purge of the URL names every key that its requests can have.
 */
#ifndef BRIM_EDGE_SCOPES_H
#define BRIM_EDGE_SCOPES_H

#include "edge/target.h"

enum { SCOPES_OF_URL_MAX = CONF_KEY_FORMS_MAX };

/* Distinct ones; returns how many. */
unsigned scopes_of_url(const struct target *t, struct cache_scope out[SCOPES_OF_URL_MAX]);

#endif
