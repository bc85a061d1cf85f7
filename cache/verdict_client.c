/*
 * What clients are told: a site's client_ttl in place of the origin's lifetime, which is often one for caches that
 * can be purged. Browsers can't.
 *
 * A number of seconds never lifts what the origin forbids: what it calls private, no-store or no-cache goes out as
 * it came. What restricts use beyond the lifetime stays (must-revalidate, no-transform …), what extends it goes
 * (s-maxage, immutable, stale-while-revalidate, stale-if-error, public). Errors keep the origin's word: a browser that holds
 * a 404 for a day can't be helped.
 */
#include "cache/verdict.h"
#include "cache/verdict_control.h"

#include <stdio.h>

size_t verdict_client_control(const struct http_response *rs, const struct conf_cache *conf,
			      char out[VERDICT_CLIENT_CONTROL_MAX])
{
	static const struct {
		uint32_t flag;
		const char *text;
	} kept[] = {
		{ CC_MUST_REVALIDATE, ", must-revalidate" },
		{ CC_PROXY_REVALIDATE, ", proxy-revalidate" },
		{ CC_MUST_UNDERSTAND, ", must-understand" },
		{ CC_NO_TRANSFORM, ", no-transform" },
	};
	const uint32_t forbidding = CC_NO_STORE | CC_NO_CACHE | CC_PRIVATE | CC_NO_CACHE_FIELDS |
				    CC_PRIVATE_FIELDS;
	struct http_cache_control cc;
	int n;

	if (conf->client_ttl_ms < 0 || rs->status >= 400)
		return 0;
	/* The one that clients read: targeted fields and what the site ignores are the cache's affair. */
	http_cache_control(&rs->fields, FIELD_CACHE_CONTROL, &cc);
	if (cc.flags & forbidding)
		return 0;
	n = snprintf(out, VERDICT_CLIENT_CONTROL_MAX, "max-age=%lld",
		     (long long)(conf->client_ttl_ms / 1000));
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (cc.flags & kept[i].flag)
			n += snprintf(out + n, VERDICT_CLIENT_CONTROL_MAX - (size_t)n, "%s",
				      kept[i].text);
	return (size_t)n;
}
