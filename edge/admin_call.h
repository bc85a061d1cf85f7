/*
 * A call of the admin API: what is asked and what is answered. Its function runs to the end, or says
 * ADMIN_WAIT and is called again from its beginning when admin_call_wake was; what it must remember
 * between is in «state», and «drop» undoes it when the client leaves meanwhile.
 */
#ifndef BRIM_EDGE_ADMIN_CALL_H
#define BRIM_EDGE_ADMIN_CALL_H

#include "cache/keeper.h"
#include "edge/base/arena.h"
#include "edge/base/list.h"
#include "edge/base/loop.h"
#include "edge/process.h"

struct cJSON;

enum { ADMIN_BODY_MAX = 1 << 20, ADMIN_ARENA_MAX = 16 << 20, ADMIN_CONNECTIONS_MAX = 64 };

enum admin_progress { ADMIN_DONE, ADMIN_WAIT };

/* The server's state, seen by calls. */
struct admin {
	uint32_t magic;
	const struct process *process;
	struct loop *loop;
	struct keeper *keeper; /* NULL: not open */
	struct conf *conf;
	int conf_fd;
	struct list connections;
	unsigned connection_count;
	struct list reloads; /* calls that wait for the master's word, by «link» */
	uint32_t reload_serial;
	struct admin_listener *listeners;
	size_t listener_count;
};

struct admin_call {
	struct admin *admin;
	struct arena arena; /* the call's memory */
	struct ready wake;  /* runs the call again */
	enum http_method method;
	struct view path, query, body;

	void *state;
	void (*drop)(struct admin_call *c);
	struct list link;

	uint16_t status;
	const char *type;  /* of the body */
	const char *allow; /* with 405 */
	struct view answer;
};

typedef enum admin_progress admin_call_fn(struct admin_call *c);

/* The function for method and path; 404 and 405 are functions too. Pure. */
admin_call_fn *admin_route(enum http_method method, struct view path, const char **out_allow);

/* --- for call functions ------------------------------------------------------------------------- */

/* {"error": {"pointer": …, "message": …}} */
enum admin_progress admin_error(struct admin_call *c, uint16_t status, const char *pointer,
				const char *format, ...) PRINTF_LIKE(4, 5);
/* 200 with this tree (taken). */
enum admin_progress admin_answer(struct admin_call *c, struct cJSON *tree);
/* A body in the call's arena; what doesn't fit becomes 500. */
enum admin_progress admin_answer_text(struct admin_call *c, uint16_t status, const char *type,
				      struct view text);
/* A query parameter, percent-decoded into the arena. 0; -ENOENT; -EINVAL: malformed, or given twice. */
int admin_query(struct admin_call *c, struct view name, struct view *out) NODISCARD;
/* Gives the answer of a failed admin_query. */
enum admin_progress admin_query_error(struct admin_call *c, int error, const char *name);

/* --- the calls --------------------------------------------------------------------------------- */

admin_call_fn admin_purge, admin_object, admin_status, admin_stats, admin_metrics, admin_config,
	admin_config_check, admin_reload, admin_healthz, admin_readyz;

#endif
