/* Which server of an origin a fetch goes to. Pure: no descriptor, no clock of its own. */
#ifndef BRIM_ORIGIN_CHOOSE_H
#define BRIM_ORIGIN_CHOOSE_H

#include "conf/conf.h"
#include "edge/base/clock.h"

/* A worker's memory of one server; zeroed at first. */
struct choose_state {
	int64_t credit;		 /* of weighted round robin */
	uint32_t failures;	 /* connects that failed in a row */
	struct mono aside_until; /* not chosen while others can be; ms 0: in use */
};

/* Servers of an origin that a fetch has tried, by their place in it. */
struct choose_tried {
	uint64_t bits[CONF_SERVERS_MAX / 64];
};
void choose_mark_tried(struct choose_tried *t, size_t place);

/* What choose_server asks of its caller, by the server's slot. */
struct choose_view {
	struct choose_state *(*state)(void *arg, const struct conf_server *server);
	bool (*full)(void *arg, const struct conf_server *server); /* no connection can be had now */
	void *arg;
};

/* The server's place in the origin; -EAGAIN: usable ones are all full; -ENOENT: all were tried. */
int choose_server(const struct conf_origin *o, const struct choose_tried *tried,
		  const struct choose_view *view, struct mono now) NODISCARD;

void choose_failed(struct choose_state *s, struct mono now);
void choose_succeeded(struct choose_state *s);

#endif
