/* An answer on its way into the store: what request_fetch.c (whole answers) and request_part.c (parts) share. */
#ifndef BRIM_EDGE_REQUEST_STORE_H
#define BRIM_EDGE_REQUEST_STORE_H

#include "edge/http/range.h"
#include "edge/request.h"

struct to_store {
	struct cache_meta meta;
	struct cache_key key;
	char vary[CACHE_VARY_MAX];
	size_t vary_bytes;
	struct view head; /* what is stored */
	struct view shown; /* what the client sees that brought it: with what no-cache="…" or private="…" list */
};

/* STORE_YES: *s says what and under which key, but for the heads. rq and rs: as the verdict is to see them. validated: the object
 * whose fields, updated, rs is; NULL: none. */
enum store_reason request_may_store(struct request *r, const struct http_request *rq,
				    const struct http_response *rs,
				    const struct cache_object *validated, struct to_store *s);
/* The heads of rs. False: no memory. */
bool request_heads(struct request *r, const struct http_response *rs, struct to_store *s);
/* The site's max_object_size. */
uint64_t request_largest(const struct request *r);
/* rs as r's answer while it is being stored; length: of the body that goes to the client, or -1. */
void request_answer_from_fill(struct request *r, const struct http_response *rs,
			      const struct to_store *s, int64_t length);
/* The transfer has fetch and fill; r follows it from «from» up to «until», or is done if it needs no body. */
enum step_result request_follow(struct request *r, uint64_t from, uint64_t until);
/* A stored head's text, changed, with the Age of the answer that changed it: as a response that came now. at: ANSWER_FIELDS_MAX
 * fields, which *out keeps. False: broken. */
bool request_as_response(struct request *r, struct view head, struct http_field *at,
			 struct http_response *out);

/* r's answer is being stored: what it says of queries is remembered (request_search.c). */
void request_search_learn(struct request *r, const struct http_response *rs);

/* --- parts (request_part.c) ------------------------------------------------------------------ */

/* Where an object's bytes lie in its representation: all of it, unless it is a stored part. 0 or -EINVAL. */
int request_stored_range(const struct cache_object *o, struct http_content_range *out) NODISCARD;
/* A head's text without Content-Range; p NULL: no memory. */
struct view request_without_range(struct request *r, struct view fields);
/* The answer to a request for a part (r->asks_part) came, and it is no 200. */
enum step_result request_part_came(struct request *r);

#endif
