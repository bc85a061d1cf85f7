/*
 * Freshness (RFC 9111) as pure functions: from a request, a response's fields, times and the site's rules
 * to what may be done, with its reason. No clock, no cache, no allocation.
 */
#ifndef BRIM_CACHE_VERDICT_H
#define BRIM_CACHE_VERDICT_H

#include "conf/conf.h"
#include "edge/base/clock.h"
#include "edge/http/field.h"

/* What is kept of a response beside its head and body. Views are the caller's (or the object's). */
enum {
	META_NO_CACHE = 1 << 0,	       /* validate before each use (no-cache) */
	META_MUST_REVALIDATE = 1 << 1, /* never stale (must-revalidate, proxy-revalidate, s-maxage) */
	META_ETAG_STRONG = 1 << 2,
	META_HAS_VALIDATOR = 1 << 3, /* ETag or Last-Modified: can be revalidated */
	META_BY_RULE = 1 << 4,	     /* a rule's or default lifetime rather than the origin's */
	META_SWR_GIVEN = 1 << 5,
	META_SIE_GIVEN = 1 << 6, /* by the origin */
	META_IMMUTABLE = 1 << 7, /* RFC 8246: a reload doesn't validate it while fresh */
	META_ANY_HOST = 1 << 8, /* the key leaves the host out; host_hash is that of the empty one */
	META_FOR_CACHES = 1 << 9, /* the stored head has fields that only caches downstream see */
};
struct cache_meta {
	uint16_t status;
	uint32_t flags;
	uint64_t birth;		/* purge clock when the origin request was sent */
	struct wall received;	/* when the response's head was there */
	int64_t initial_age_ms; /* RFC 9111 §4.2.3 corrected_initial_age at «received» */
	int64_t lifetime_ms;
	uint32_t stale_while_revalidate_s, stale_if_error_s;
	uint64_t site_hash, host_hash; /* purge scopes' hashes: cache_scope_site, cache_scope_host */
	struct view url;	       /* "http://host/path?query", for people and the admin API */
	struct view etag, last_modified; /* as received, or empty */
	uint32_t max_variants;		 /* of the site */
	const uint64_t *tags;		 /* scope hashes, sorted; NULL: none */
	uint16_t tag_count;
};

/* --- may this request be answered from the cache at all? --------------------------------------- */

/* ACME's challenges (RFC 8555 §8.3) are a matter between the origin and one certificate authority: bypassed. */

enum request_verdict {
	REQUEST_LOOKUP, /* GET, HEAD: look it up */
	REQUEST_BYPASS, /* a rule says so */
	REQUEST_METHOD, /* another method: relayed; invalidates if unsafe */
	REQUEST_RANGE,	/* a range: looked up; what isn't stored is relayed as it was asked for */
	REQUEST_BODY,	/* GET or HEAD with a body */
};
enum request_verdict verdict_request(const struct http_request *r, const struct conf_cache *conf);

/* --- may this response be stored? ------------------------------------------------------------ */

enum store_reason {
	STORE_YES,
	STORE_NO_STORE,
	STORE_PRIVATE,
	STORE_AUTHORIZATION,
	STORE_STATUS,
	STORE_NO_LIFETIME,
	STORE_SET_COOKIE,
	STORE_COOKIE_REQUEST,
	STORE_VARY_STAR,
	STORE_PARTIAL,
	STORE_METHOD,
	STORE_BYPASS,
	STORE_NO_CACHE /* and no validator to make it useful */,
	STORE_VARY_TOO_LONG,
	STORE_TAGS, /* more than may be kept: it couldn't be purged by all of them */
	STORE_DECEPTION, /* a page where the URL's extension promises a file, and only Brim would store it */
};
const char *store_reason_text(enum store_reason r); /* "no-store", "private", … for Cache-Status detail */

struct exchange_times {
	struct wall request_sent, response_received;
};
/*
 * STORE_YES: *out is filled (status, flags, received, initial_age, lifetime, stale_*, etag, last_modified; not birth, hashes, url, tags).
 * A response that must be validated before each use (no-cache, lifetime 0) is stored if it has a validator.
 * Set-Cookie: where the site doesn't say «store», the storing code removes the field from what is stored.
 */
enum store_reason verdict_store(const struct http_request *rq, const struct http_response *rs,
				const struct exchange_times *t, const struct conf_cache *conf,
				struct cache_meta *out);

/* Who gave the lifetime, for people. */
struct verdict_lifetime {
	int64_t ms;
	const char *source; /* "s-maxage", "max-age", "Expires", "rule", "statuses", "heuristic", "default_ttl"; "Age": it can't
			     * be read, and so the answer is stale from the start */
	struct view field; /* whose directives count: "Cache-Control", a targeted field's name; empty: nobody's */
	const char *clamp; /* "min_ttl", "max_ttl": what it was changed by; or NULL */
};
void verdict_lifetime(const struct http_response *rs, const struct exchange_times *t,
		      const struct conf_cache *conf, struct verdict_lifetime *out);

/*
 * Fields of an answer that may be stored without them alone: those that no-cache="…" or private="…" list (RFC 9111 §5.2.2.4,
 * §5.2.2.7). They go to the client whose request brought them, and into no stored head. Where a list names a field without which
 * the rest can't be used, the directive counts as if it listed nothing.
 */
struct verdict_withheld {
	const struct http_response *rs;
	struct view targeted; /* the targeted field whose lists count; empty: Cache-Control's */
	uint32_t flags;	      /* 0: nothing is withheld */
};
void verdict_withheld_fields(const struct http_response *rs, const struct conf_cache *conf,
			     struct verdict_withheld *out);
bool verdict_field_withheld(const struct verdict_withheld *w, struct view name);

/* --- may a stored response be used now? -------------------------------------------------------- */

enum use_verdict {
	USE_FRESH,
	USE_STALE_WHILE_REVALIDATE, /* serve it, revalidate behind */
	USE_REVALIDATE,		    /* ask the origin first */
	USE_MISS, /* can't be validated: fetch anew (the old one is still good for stale-if-error) */
};
struct use_times {
	int64_t age_ms; /* current_age, RFC 9111 §4.2.3 */
	int64_t ttl_ms; /* lifetime minus age: negative when stale */
};
void verdict_age(const struct cache_meta *m, struct wall now, struct use_times *out);
/* soft_purged: counts as stale since now. request: for max-stale, only-if-cached, and with honour_request_directives all others. */
enum use_verdict verdict_use(const struct http_request *rq, const struct cache_meta *m,
			     const struct use_times *t, bool soft_purged,
			     const struct conf_cache *conf);
/* Which directive or rule made verdict_use say so, for people: "fresh", "no-cache", "the request's max-age" … */
const char *verdict_use_reason(const struct http_request *rq, const struct cache_meta *m,
			       const struct use_times *t, bool soft_purged,
			       const struct conf_cache *conf);
/* May it be served although the origin failed (connect, timeout, 5xx)? */
bool verdict_stale_if_error(const struct http_request *rq, const struct cache_meta *m,
			    const struct use_times *t, const struct conf_cache *conf);

/* --- what the origin says of a stored response ----------------------------------------------------- */

/* What a 200 to HEAD means for a stored GET (RFC 9111 §4.3.5): it updates it as a 304 does, or shows that it is out of date. */
enum head_verdict { HEAD_TELLS_NOTHING, HEAD_UPDATES, HEAD_OUTDATES };
enum head_verdict verdict_head(const struct cache_meta *m, uint64_t body_bytes,
			       const struct http_response *rs);

/* --- what clients are told ---------------------------------------------------------------------- */

/* The Cache-Control for clients where the site has a client_ttl: returns its length; Age and Expires are then left out. 0: the
 * origin's fields stay, since it forbids (no-store, no-cache, private), or since this is an error. rs: as it came, or as stored. */
enum { VERDICT_CLIENT_CONTROL_MAX = 128 };
size_t verdict_client_control(const struct http_response *rs, const struct conf_cache *conf,
			      char out[VERDICT_CLIENT_CONTROL_MAX]);

/* --- Vary --------------------------------------------------------------------------------------- */

/* The rule of a response: lower-case names, sorted, without duplicates, separated by one comma, in out (CACHE_VARY_MAX bytes).
 * 0: none or written (*out_bytes may be 0); -ENOENT: "*"; -E2BIG: too long. */
int verdict_vary_rule(const struct http_response *rs, char *out, size_t capacity, size_t *out_bytes)
	NODISCARD;
/* The normalised value of a request field for Vary: all lines joined by ",", without blanks that mean nothing; into out (capacity
 * bytes, at least VERDICT_VARY_VALUE_MIN). Returns its length: 0 where the field is absent; a value that is empty is one space; one that is too
 * long is replaced by a hash, marked so that no value can equal it. */
enum { VERDICT_VARY_VALUE_MIN = 64 };
size_t verdict_vary_value(const struct http_request *rq, struct view name, char *out, size_t capacity);

/*
 * Where the site reduces Accept-Encoding or Accept-Language to what an origin can tell apart ("normalise"), the origin must be told what is
 * keyed, or a variant would be stored under what nobody asked for. REDUCED: name's value is the *out_bytes (at most capacity) in out;
 * REDUCED_AWAY: as if the request didn't have it; else it is as it came.
 */
enum verdict_reduction { REDUCED_NOT, REDUCED, REDUCED_AWAY };
enum verdict_reduction verdict_reduce(const struct http_request *rq, struct view name,
				      const struct conf_cache *conf, char *out, size_t capacity,
				      size_t *out_bytes);
/* verdict_vary_value of what the origin is told. */
size_t verdict_reduced_value(const struct http_request *rq, struct view name,
			     const struct conf_cache *conf, char *out, size_t capacity);

#endif
