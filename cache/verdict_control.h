/* What an answer says of caching, as the site lets us see it. Between the files of the verdict. */
#ifndef BRIM_CACHE_VERDICT_CONTROL_H
#define BRIM_CACHE_VERDICT_CONTROL_H

#include "conf/conf.h"
#include "edge/http/field.h"

struct verdict_control {
	struct http_cache_control cc;
	struct view field; /* where cc comes from: a targeted field's name, "Cache-Control"; empty: nowhere */
	bool targeted; /* then Expires means nothing (RFC 9213 §2.2) */
};
void verdict_control_read(const struct http_response *rs, const struct conf_cache *conf,
			  struct verdict_control *out);

#endif
