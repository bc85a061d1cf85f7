/* Floods; see h2_limit.h. */
#include "edge/h2_limit.h"

enum { MINUTE_MS = 60000 };

const char *h2_limit_name(enum h2_limit limit)
{
	static const char *const names[H2_LIMITS] = {
		[H2_LIMIT_RESETS] = "resets",
		[H2_LIMIT_CONTROLS] = "controls",
		[H2_LIMIT_ACKS] = "acks",
		[H2_LIMIT_CONTINUATIONS] = "continuations",
		[H2_LIMIT_HEADER_LIST] = "header_list",
	};

	return names[limit];
}

static void init(struct h2_meter *m, uint32_t per_minute, struct mono now)
{
	*m = (struct h2_meter){ .per_minute = per_minute,
				.left = (int64_t)per_minute * MINUTE_MS,
				.at = now };
}

void h2_meters_init(struct h2_meters *m, const struct conf_h2_limits *limits, struct mono now)
{
	init(&m->resets, limits->resets_per_minute, now);
	init(&m->controls, limits->controls_per_minute, now);
}

bool h2_meter_count(struct h2_meter *m, struct mono now)
{
	int64_t most = (int64_t)m->per_minute * MINUTE_MS, passed = now.ms - m->at.ms;

	m->at = now;
	if (passed > 0)
		m->left += (passed < MINUTE_MS ? passed : MINUTE_MS) * m->per_minute;
	if (m->left > most)
		m->left = most;
	if (m->left < MINUTE_MS)
		return false;
	m->left -= MINUTE_MS;
	return true;
}
