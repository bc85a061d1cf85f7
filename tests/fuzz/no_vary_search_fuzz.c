/*
 * No-Vary-Search: a field value, a newline, a query. The normal form fits, is its own normal form, and
 * doesn't see what is said not to matter.
 */
#include <stdlib.h>

#include "edge/http/no_vary_search.h"

static size_t normalise(const struct http_no_vary_search *s, struct view query, char **out)
{
	*out = malloc(3 * query.n + 1);
	size_t n = http_no_vary_normalise(s, query, *out);
	CHECK(n <= 3 * query.n + 1);
	return n;
}

static void query_check(const struct http_no_vary_search *s, struct view query)
{
	char *once, *twice, *more, *with = malloc(query.n + 2);
	size_t n = normalise(s, query, &once), m = normalise(s, view_of(once, n), &twice);

	CHECK(view_eq(view_of(once, n), view_of(twice, m)));
	/* Empty pairs never matter, but where the query stands for itself. */
	memcpy(mempcpy(with, query.p, query.n), "&&", 2);
	size_t k = normalise(s, view_of(with, query.n + 2), &more);
	CHECK(view_eq(view_of(once, n), view_of(more, k)) || k == query.n + 2);
	if (s->all_but && s->count == 0)
		CHECK(n == 0 || view_eq(view_of(once, n), query));
	free(once);
	free(twice);
	free(more);
	free(with);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char name[] = "No-Vary-Search:";
	const uint8_t *newline = size > 0 ? memchr(data, '\n', size) : NULL;
	struct http_field at[1];
	struct http_fields f = { .at = at, .capacity = 1 };
	struct http_no_vary_search s;

	if (newline == NULL)
		return 0;
	size_t n = (size_t)(newline - data);
	char *line = malloc(sizeof(name) + n + 1);
	memcpy(mempcpy(mempcpy(line, name, sizeof(name) - 1), data, n), "\r\n", 2);
	if (http_fields_parse(&f, line, sizeof(name) + n + 1) == 0 && http_no_vary_search(&f, &s) == 0)
		query_check(&s, view_of((const char *)newline + 1, size - n - 1));
	free(line);
	return 0;
}
