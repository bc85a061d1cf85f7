/*
 * No-Vary-Search (draft-ietf-httpbis-no-vary-search): a response says which parts of the query it
 * does not depend on. Two queries are equal for it where their normal forms are. The draft
 * compares pairs as the WHATWG URL standard parses them; where we differ, fewer queries are
 * equal, which §6 lets a cache do.
 */
#ifndef BRIM_HTTP_NO_VARY_SEARCH_H
#define BRIM_HTTP_NO_VARY_SEARCH_H

#include "edge/http/head.h"

enum {
	NO_VARY_NAMES_MAX = 64,	 /* more listed: as if the field weren't there */
	NO_VARY_PAIRS_MAX = 256, /* a query of more stands for itself */
};

struct http_no_vary_search {
	bool any_order; /* key-order: the order of names does not matter (that of one name's values does) */
	bool all_but; /* params, except=(…): only the listed names matter; else all but the listed ones do */
	uint16_t count;
	struct view names[NO_VARY_NAMES_MAX]; /* texts of Strings, percent-encoded */
};
/* Views point into f. -ENOENT: there is none, or it changes nothing, or it is broken (§4.1):
 * queries are equal where their bytes are. */
int http_no_vary_search(const struct http_fields *response, struct http_no_vary_search *out) NODISCARD;

/*
 * The normal form of a query (without its "?"; none at all is an empty one): pairs that matter,
 * in order, «name=value» with all but unreserved characters encoded. A query that is no UTF-8
 * when decoded, or has too many pairs, is its own normal form. out must hold 3 * n + 1 bytes.
 * Returns the length.
 */
size_t http_no_vary_normalise(const struct http_no_vary_search *s, struct view query, char *out);

#endif
