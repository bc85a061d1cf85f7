/* The fields of answers: what is stored of a response, what is passed on, what Brim adds. */
#ifndef BRIM_EDGE_ANSWER_H
#define BRIM_EDGE_ANSWER_H

#include "edge/request.h"

enum {
	ANSWER_FIELDS_MAX = 256, /* more than a stored head can have */
};

enum {
	ANSWER_KEEP_SET_COOKIE = 1,
	ANSWER_KEEP_AGE = 2,  /* as upstream sent it: relayed, not stored */
	ANSWER_KEEP_TAGS = 4, /* tags and Surrogate-Control: for a cache downstream */
	ANSWER_KEEP_CONTROL = 8, /* Surrogate-Control: stored where the site reads it, so that it counts after a 304, too */
};
/* What is kept in the store for these settings. */
unsigned answer_keep_stored(const struct conf *conf, const struct conf_cache *cache);
/* Does a stored head of these fields have some that only caches downstream see? */
bool answer_hides(const struct http_fields *f, const struct conf_cache *cache, unsigned flags);
/* Is it one of those? */
bool answer_for_caches(const struct http_field *f, const struct conf_cache *cache);
/* A response's fields as they are stored or relayed: without framing, hop-by-hop, what the flags don't keep, and what is withheld
 * from the store (NULL: nothing is); Date is added where it is missing. p NULL: no memory. */
struct view answer_fields(const struct http_response *rs, const struct conf_cache *cache,
			  const struct verdict_withheld *withheld, struct wall received,
			  unsigned flags, struct arena *a);
/* Stored fields after a 304 (RFC 9111 §3.2): the stored ones, those that the 304 brings replaced. */
struct view answer_merge(struct view stored, const struct http_response *validated,
			 const struct conf_cache *cache, struct wall received, unsigned flags,
			 struct arena *a);
/* Would a cache answer this request's conditions with a 304 from this stored response (RFC 9110 §13.2.2)? */
bool answer_matches_conditions(const struct http_request *rq, const struct cache_meta *m,
			       struct view stored);
/* The fields of a 304 from stored ones: no representation metadata beyond validators (RFC 9110 §15.4.5). */
struct view answer_not_modified(struct view stored, struct arena *a);

/* Age (−1: none), Cache-Status, Via: our own lines, for r's answer. */
struct view answer_own(struct request *r, int64_t age_ms, bool hit, bool stored,
		       uint16_t forward_status, struct view via_version);

#endif
