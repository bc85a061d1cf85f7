/*
 * The query in a key. Input: a byte for the kind and sort, globs up to a newline (one per space), the query.
 * What comes out is no longer, and stays as it is when filtered again; filtering and sorting can be done in
 * either order; every parameter that is left was there.
 */
#include <stdlib.h>

#include "conf/query.h"

enum { GLOBS_MAX = 16, MOST = 4096, SORTED_MAX = 128 };

struct result {
	char text[MOST + 1];
	size_t n;
};

static void filter(const struct conf_query *q, struct view query, struct result *out)
{
	char *exact = malloc(query.n + 1); /* so that a byte too many is seen */

	CHECK(exact != NULL);
	out->n = conf_key_query(q, query, exact);
	CHECK(out->n <= query.n);
	memcpy(out->text, exact, out->n);
	free(exact);
}

static size_t parameters(struct view query)
{
	struct view rest = conf_query_begin(query), parameter;
	size_t count = 0;

	while (conf_query_next(&rest, &parameter))
		count++;
	return count;
}

static bool holds(struct view query, struct view wanted)
{
	struct view rest = conf_query_begin(query), parameter;

	while (conf_query_next(&rest, &parameter)) {
		if (view_eq(parameter, wanted))
			return true;
	}
	return false;
}

static size_t split(struct view line, struct view *globs)
{
	size_t count = 0;

	while (line.n > 0 && count < GLOBS_MAX) {
		const char *end = memchr(line.p, ' ', line.n);
		size_t n = end == NULL ? line.n : (size_t)(end - line.p);

		globs[count++] = view_of(line.p, n);
		line = view_skip(line, end == NULL ? n : n + 1);
	}
	return count;
}

static void check(const struct conf_query *q, struct view query)
{
	struct conf_query unsorted = *q, sorted = { .kind = CONF_QUERY_ALL, .sort = true };
	struct result once, twice, first, then;
	struct view rest, parameter;

	filter(q, query, &once);
	filter(q, view_of(once.text, once.n), &twice);
	CHECK(view_eq(view_of(once.text, once.n), view_of(twice.text, twice.n)));
	rest = conf_query_begin(view_of(once.text, once.n));
	while (conf_query_next(&rest, &parameter))
		CHECK(holds(query, parameter));
	unsorted.sort = false;
	if (!q->sort || parameters(query) > SORTED_MAX)
		return;
	filter(&unsorted, query, &first);
	filter(&sorted, view_of(first.text, first.n), &then);
	CHECK(view_eq(view_of(once.text, once.n), view_of(then.text, then.n)));
	filter(&sorted, query, &first);
	filter(&unsorted, view_of(first.text, first.n), &then);
	CHECK(view_eq(view_of(once.text, once.n), view_of(then.text, then.n)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const char *text = (const char *)data, *line = n > 1 ? memchr(text + 1, '\n', n - 1) : NULL;
	struct view globs[GLOBS_MAX], query;
	struct conf_query q = { .names = { globs, 0 } };

	if (line == NULL || n > MOST)
		return 0;
	q.kind = (enum conf_query_kind)(data[0] & 3);
	q.sort = (data[0] & 4) != 0;
	q.names.count = split(view_of(text + 1, (size_t)(line - text) - 1), globs);
	query = view_of(line + 1, n - (size_t)(line - text) - 1);
	if (query.n > 0 && query.p[0] != '?')
		return 0;
	check(&q, query);
	return 0;
}
