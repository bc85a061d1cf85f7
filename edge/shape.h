/* What clients see of an answer where the site says so: client_ttl, and the edits of rules. */
#ifndef BRIM_EDGE_SHAPE_H
#define BRIM_EDGE_SHAPE_H

#include "edge/request.h"

/* The rules that ask for an answer's status or content type, now that they are known. fields: of the answer, as lines. */
void shape_rules(struct request *r, uint16_t status, struct view fields);
/* The same from a parsed answer. */
void shape_rules_of(struct request *r, const struct http_response *rs);

/* The lines of an answer with this status, as this client is to see them (memory: r's arena). *out_age: may Age be said?
 * p NULL: no memory. */
struct view shape_fields(struct request *r, uint16_t status, struct view fields, bool hides,
			 bool *out_age);

/* A rule's own answer: respond, or redirect. */
enum step_result shape_respond(struct request *r);

#endif
