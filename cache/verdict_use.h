/* How long a stale response may be served. Between the files of the verdict. */
#ifndef BRIM_CACHE_VERDICT_USE_H
#define BRIM_CACHE_VERDICT_USE_H

#include "cache/verdict.h"

/* While it is being validated, and where the origin fails: the origin's word, else the site's. */
int64_t verdict_swr_ms(const struct cache_meta *m, const struct conf_cache *conf);
int64_t verdict_sie_ms(const struct cache_meta *m, const struct conf_cache *conf);

#endif
