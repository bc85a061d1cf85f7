/*
 * A call of the admin API: what is asked and what is answered. Its function runs to the end, or says
 * ADMIN_WAIT and is called again from its beginning when admin_call_wake was; what it must remember
 * between is in «state», and «drop» undoes it when the client leaves meanwhile.
 */
#ifndef BRIM_EDGE_ADMIN_CALL_H
#define BRIM_EDGE_ADMIN_CALL_H

#include <stdio.h>

#include "cache/keeper.h"
#include "edge/admin_access.h"
#include "edge/base/arena.h"
#include "edge/base/list.h"
#include "edge/base/loop.h"
#include "edge/process.h"

struct cJSON;

enum {
	ADMIN_BODY_MAX = 4 << 20, /* of the calls that take one */
	ADMIN_ARENA_MAX = 16 << 20,
	ADMIN_CONNECTIONS_MAX = 64,
	ADMIN_REMOTE_MAX = 48, /* of them over TCP: nobody out there can lock out who sits at the machine */
};

/* YIELD: called again in the loop's next turn. */
enum admin_progress { ADMIN_DONE, ADMIN_WAIT, ADMIN_YIELD };

/* The server's state, seen by calls. */
struct admin {
	uint32_t magic;
	const struct process *process;
	struct loop *loop;
	struct keeper *keeper;	   /* NULL: not open */
	struct listings *listings; /* the same */
	struct conf *conf;
	int conf_fd;
	struct ssl_ctx_st *tls; /* for who comes from afar; NULL: nobody can */
	struct list connections;
	unsigned connection_count, remote_count;
	struct mono refused_at; /* the last refusal that was logged; see admin_audit.c */
	unsigned refused_unlogged;
	struct list reloads; /* calls that wait for the master's word, by «link» */
	struct list drains;  /* calls that wait for workers, by «link» */
	struct timer drain_timer;
	struct admin_check *check; /* of a configuration, under way; NULL: none */
	uint32_t reload_serial; /* of the last reload that was asked for, above all those of earlier keepers */
	struct admin_listener *listeners;
	size_t listener_count;
};

/* Who asks. */
struct admin_peer {
	enum admin_door door;
	bool tls;
	char text[SOCK_ADDR_TEXT]; /* "127.0.0.1:5000"; over a Unix socket "pid:17" */
	uint32_t uid;		   /* over a Unix socket */
};

struct admin_call;
typedef enum admin_progress admin_call_fn(struct admin_call *c);

/* A path, with the one method that it takes (HEAD too, where that is GET). */
struct admin_route {
	const char *path; /* ends in "/": one more segment follows (but "/" itself is a path) */
	enum http_method method;
	enum admin_need need;
	admin_call_fn *fn;
	const char *query[4];	 /* the parameters that it takes */
	uint32_t body_bytes_max; /* 0: takes none */
	bool changes;		 /* it changes something: there is a line about it in the log */
	bool for_metrics;	 /* also on metrics_listen */
};

struct admin_call {
	struct admin *admin;
	struct conf *conf;  /* the snapshot that it began with; a reference */
	struct arena arena; /* the call's memory */
	struct ready wake;  /* runs the call again */
	const struct admin_peer *peer;
	const struct conf_token *token; /* of conf; NULL: may do everything to all sites (see admin_access_site) */
	const struct admin_route *route;
	enum http_method method;
	struct view path, query, body;
	struct view accept; /* the field; empty: none */
	struct view rest;   /* the last segment of a path that has one of its own */

	void *state;
	void (*drop)(struct admin_call *c);
	struct list link;

	uint16_t status;
	const char *type;    /* of the body */
	const char *headers; /* more field lines; NULL: none. In the arena, or static */
	struct view answer;
	struct view what;    /* for the log, «key=value key=value»: what was changed */
	struct view failure; /* the message of admin_error */
};

/* NULL: no such path. *out_rest: its last segment, where the path is one that has. Pure. */
const struct admin_route *admin_route(struct view path, struct view *out_rest);
bool admin_route_takes(const struct admin_route *r, enum http_method method);
/* All of them, for tests. */
const struct admin_route *admin_routes(size_t *out_count);
/* Has the query only parameters that the route takes? If not, the answer that says so is made. */
bool admin_query_known(struct admin_call *c);

/* --- for call functions ------------------------------------------------------------------------- */

/* May this call touch the site? */
static inline bool admin_call_site(const struct admin_call *c, struct view site)
{
	return admin_access_site(c->token, site);
}
/* Or what belongs to no site alone? */
static inline bool admin_call_whole(const struct admin_call *c)
{
	return c->token == NULL || c->token->sites.count == 0;
}

/* {"error": {"pointer": …, "message": …}} */
enum admin_progress admin_error(struct admin_call *c, uint16_t status, const char *pointer,
				const char *format, ...) PRINTF_LIKE(4, 5);
/* 200 with this tree (taken). */
enum admin_progress admin_answer(struct admin_call *c, struct cJSON *tree);
/* A body in the call's arena; what doesn't fit becomes 500. */
enum admin_progress admin_answer_text(struct admin_call *c, uint16_t status, const char *type,
				      struct view text);
/* 200 with what a function writes; it returns 0 or -ENOMEM. */
enum admin_progress admin_answer_written(struct admin_call *c, const char *type,
					 int (*write)(const struct admin_call *c, FILE *to));
/* A query parameter, percent-decoded into the arena. 0; -ENOENT; -EINVAL: malformed, or given twice. */
int admin_query(struct admin_call *c, struct view name, struct view *out) NODISCARD;
/* A parameter that is there or not: "name" or "name=" with true, false, 1, 0. As admin_query; absent is false. */
int admin_query_flag(struct admin_call *c, const char *name, bool *out) NODISCARD;
/* Gives the answer of a failed admin_query. */
enum admin_progress admin_query_error(struct admin_call *c, int error, const char *name);

/* Of drain_timer. */
void admin_drain_tick(struct timer *t);

/* --- the calls --------------------------------------------------------------------------------- */

bool admin_store_serves(const struct cache_store_status *s);
/* "no", "soft", "hard". */
const char *admin_purged_text(enum cache_purged p);

admin_call_fn admin_page, admin_purge, admin_purge_status, admin_object, admin_objects,
	admin_status, admin_stats, admin_metrics, admin_config, admin_config_check, admin_reload,
	admin_drain, admin_resume, admin_healthz, admin_readyz;

#endif
