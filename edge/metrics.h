/*
 * The text of GET /metrics: one set of families in two forms. OpenMetrics 1.0 for who asks for it by name (Prometheus
 * does), or names nothing; Prometheus' older text format for others, which promtool and most small tools read. They differ
 * only in a family's head: the older form names a counter with its suffix, and knows neither units nor infos.
 * Samples are the same bytes in both. So is the last line, which there is an ordinary comment: whoever sees it has all.
 */
#ifndef BRIM_EDGE_METRICS_H
#define BRIM_EDGE_METRICS_H

#include <stdio.h>

#include "edge/base/view.h"

enum metrics_form { METRICS_OPEN, METRICS_TEXT };

struct metrics {
	FILE *to;
	enum metrics_form form;
};

/* What an Accept field asks for; an empty one: there was none. */
enum metrics_form metrics_form_for(struct view accept);
const char *metrics_content_type(enum metrics_form form);

/* name: without "brim_" and without a counter's "_total". type: counter, gauge, histogram, info. unit: NULL, or what the name
 * ends in. */
void metrics_family(const struct metrics *m, const char *name, const char *type, const char *unit,
		    const char *help);
/* name="value", escaped, without braces. */
void metrics_label(const struct metrics *m, const char *name, struct view value);
/* From microseconds. */
void metrics_seconds(const struct metrics *m, uint64_t us);
void metrics_end(const struct metrics *m);

#endif
