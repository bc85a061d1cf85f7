/*
 * The access log: a line for each request, as JSON or in Apache's combined format.
 *
 * Lines gather in a buffer of the worker and leave by one write(2) to a file opened with O_APPEND, so
 * that lines of several workers never mix. A line is at most ACCESS_LINE_MAX bytes: what is too long is
 * cut, and then ends in "...".
 */
#ifndef BRIM_EDGE_ACCESS_LOG_H
#define BRIM_EDGE_ACCESS_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "edge/base/check.h"
#include "edge/base/clock.h"
#include "edge/base/view.h"

enum { ACCESS_LINE_MAX = 8192 };

struct access_log;

/* What there is to say of a request; an empty view: nothing. Bytes may be anything. */
struct access_entry {
	struct wall time; /* of the request's first byte */
	struct view request_id, client, site, method, host;
	struct view path;     /* with its query */
	struct view protocol; /* "HTTP/1.1" */
	uint16_t status;      /* 0: none was sent */
	uint64_t bytes;	      /* of the body, as sent */
	struct view cache;    /* "hit", "miss", "stale", "revalidated", "pass", "none" … */
	int64_t ttfb_us, duration_us; /* from the request's first byte; negative: never came to it */
	struct view origin;	      /* the server's URL */
	int64_t origin_us;	      /* negative: no server was asked */
	struct view tls, error;
	struct view referer, user_agent; /* for «combined» alone */
};

/* The log owns fd from now on; -1: no log, all calls are then free of cost. NULL: no memory. */
struct access_log *access_log_new(int fd, bool combined) NODISCARD;
/* Flushes and closes. NULL is allowed. */
void access_log_free(struct access_log *l);

/* False: nothing listens; spare yourself the entry. */
bool access_log_wanted(const struct access_log *l);
void access_log_write(struct access_log *l, const struct access_entry *e);
/* Call each second (a line waits no longer), and before the process ends. */
void access_log_flush(struct access_log *l);
/* Another file (after USR1), or -1 none: what was gathered goes to the old one, which is closed. */
void access_log_use_fd(struct access_log *l, int fd);
/* After a reload. */
void access_log_use_format(struct access_log *l, bool combined);

#endif
