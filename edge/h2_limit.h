/*
 * Floods (what a client may do to an HTTP/2 connection how often). Each limit has a name, which is in the metric, in the log and,
 * where it is configured, in the configuration. Whoever exceeds one gets GOAWAY with ENHANCE_YOUR_CALM.
 */
#ifndef BRIM_EDGE_H2_LIMIT_H
#define BRIM_EDGE_H2_LIMIT_H

#include "conf/conf.h"
#include "edge/base/clock.h"

enum h2_limit {
	H2_LIMIT_RESETS, /* limits.h2.resets_per_minute: streams that the client reset, or made us reset */
	H2_LIMIT_CONTROLS, /* limits.h2.controls_per_minute: frames that are nothing but work */
	H2_LIMIT_ACKS,	   /* acknowledgements that the client makes us queue and does not read */
	H2_LIMIT_CONTINUATIONS, /* of one head */
	H2_LIMIT_HEADER_LIST,	/* a head that is, decoded, several times what is allowed */
	H2_LIMITS,
};
const char *h2_limit_name(enum h2_limit limit);

/* As many a minute; unused ones are saved up to a minute's. */
struct h2_meter {
	uint32_t per_minute;
	int64_t left; /* in 60,000ths */
	struct mono at;
};

struct h2_meters {
	struct h2_meter resets, controls;
};

void h2_meters_init(struct h2_meters *m, const struct conf_h2_limits *limits, struct mono now);
/* False: it is one too many. */
bool h2_meter_count(struct h2_meter *m, struct mono now);

#endif
