/*
 * Who may make which call of the admin API. Pure.
 *
 * A Unix socket's mode is its lock, so whoever connects may do everything. On TCP a token says who asks: its role
 * bounds what is done, its sites what it is done to. Against web pages that make a browser send requests here,
 * «Host» must be a name that only we would answer to (DNS rebinding), and «Origin», where it is there, our own.
 */
#ifndef BRIM_EDGE_ADMIN_ACCESS_H
#define BRIM_EDGE_ADMIN_ACCESS_H

#include "conf/conf.h"
#include "edge/http/head.h"

/* Where a connection came in. */
enum admin_door { ADMIN_DOOR_LOCAL, ADMIN_DOOR_TCP, ADMIN_DOOR_METRICS };

/* What a call needs. WHOLE: also that the token isn't bound to sites, since the call is about the whole node. */
enum admin_need {
	ADMIN_NEED_NOTHING,
	ADMIN_NEED_READ,
	ADMIN_NEED_READ_WHOLE,
	ADMIN_NEED_PURGE,
	ADMIN_NEED_ADMIN,
};

/* 0, or the status to refuse with and why (static). */
struct admin_refusal {
	uint16_t status;
	const char *why;
};

/* «Host» and «Origin» of a request. */
struct admin_refusal admin_access_host(const struct conf *c, const struct http_request *rq);
/* The token of the Authorization field; NULL: none that we know. Compares with every token, whichever fits. */
const struct conf_token *admin_access_token(const struct conf *c, const struct http_request *rq);
struct admin_refusal admin_access_check(enum admin_door door, const struct conf_token *token,
					enum admin_need need);
/* May whoever has this token (NULL: everything) touch the site? */
bool admin_access_site(const struct conf_token *token, struct view site);

#endif
