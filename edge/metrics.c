/* See metrics.h. */
#include "edge/metrics.h"

#include <string.h>

enum metrics_form metrics_form_for(struct view accept)
{
	static const char type[] = "application/openmetrics-text";

	if (accept.n == 0)
		return METRICS_OPEN;
	for (size_t at = 0; at + sizeof(type) - 1 <= accept.n; at++) {
		if (view_eq_nocase(view_of(accept.p + at, sizeof(type) - 1), view_str(type)))
			return METRICS_OPEN;
	}
	return METRICS_TEXT;
}

const char *metrics_content_type(enum metrics_form form)
{
	return form == METRICS_OPEN ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
				    : "text/plain; version=0.0.4; charset=utf-8";
}

void metrics_family(const struct metrics *m, const char *name, const char *type, const char *unit,
		    const char *help)
{
	const char *suffix = "";

	if (m->form == METRICS_TEXT && strcmp(type, "counter") == 0)
		suffix = "_total";
	if (m->form == METRICS_TEXT && strcmp(type, "info") == 0) {
		suffix = "_info";
		type = "gauge";
	}
	fprintf(m->to, "# TYPE brim_%s%s %s\n", name, suffix, type);
	if (m->form == METRICS_OPEN && unit != NULL)
		fprintf(m->to, "# UNIT brim_%s %s\n", name, unit);
	fprintf(m->to, "# HELP brim_%s%s %s\n", name, suffix, help);
}

void metrics_label(const struct metrics *m, const char *name, struct view value)
{
	fprintf(m->to, "%s=\"", name);
	for (size_t i = 0; i < value.n; i++) {
		char c = value.p[i];

		if (c == '\\' || c == '"')
			putc('\\', m->to);
		if (c == '\n')
			fputs("\\n", m->to);
		else
			putc(c, m->to);
	}
	putc('"', m->to);
}

void metrics_seconds(const struct metrics *m, uint64_t us)
{
	fprintf(m->to, "%llu.%06llu", (unsigned long long)us / 1000000,
		(unsigned long long)us % 1000000);
}

void metrics_end(const struct metrics *m)
{
	fputs("# EOF\n", m->to);
}
