/* What a site says of https:// to its clients: that they must come that way, and for how long to remember it. */
#ifndef BRIM_EDGE_HTTPS_H
#define BRIM_EDGE_HTTPS_H

#include "edge/request.h"

/* Is this request to be sent to https:// instead of an answer ("https_redirect")? */
bool https_wanted(const struct request *r);
enum step_result https_redirect(struct request *r);

/* Do answers to this client carry the site's own Strict-Transport-Security? Then the origin's is hidden. */
bool https_strict(const struct request *r);
/* own with that field behind it. p NULL: no memory. */
struct view https_own(struct request *r, struct view own);

#endif
