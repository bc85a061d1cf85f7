/*
 * The query in a key: filtered and sorted by "key.query". Two queries that an origin can tell
 * apart by more than what was filtered out must stay apart, so parameters are compared as they are
 * sent (normalised, not decoded), an empty one counts, "?" is not nothing, and sorting leaves the
 * parameters of one name in their order: "a=1&a=2" is not "a=2&a=1".
 *
 * Sorting has a place for each parameter on the stack. A query with more of them stays as it is: it
 * is keyed rightly, only in as many forms as it is written in. (Rejected: allocating; a purge must
 * find the same key when memory is short.)
 */
#include "conf/query.h"

#include "edge/http/uri.h"

enum { SORTED_MAX = 128 };

struct view conf_query_begin(struct view query)
{
	return query.n == 0 ? (struct view){ NULL, 0 } : view_skip(query, 1);
}

bool conf_query_next(struct view *rest, struct view *out_parameter)
{
	const char *end;

	if (rest->p == NULL)
		return false;
	end = rest->n == 0 ? NULL : memchr(rest->p, '&', rest->n);
	if (end == NULL) {
		*out_parameter = *rest;
		*rest = (struct view){ NULL, 0 };
		return true;
	}
	*out_parameter = view_of(rest->p, (size_t)(end - rest->p));
	*rest = view_skip(*rest, out_parameter->n + 1);
	return true;
}

struct view conf_query_name(struct view parameter)
{
	const char *equals = parameter.n == 0 ? NULL : memchr(parameter.p, '=', parameter.n);

	return view_of(parameter.p, equals == NULL ? parameter.n : (size_t)(equals - parameter.p));
}

static bool keeps(const struct conf_query *q, struct view parameter)
{
	struct view name = conf_query_name(parameter);

	for (size_t i = 0; i < q->names.count; i++) {
		if (uri_glob(q->names.at[i], name))
			return q->kind == CONF_QUERY_ONLY;
	}
	return q->kind != CONF_QUERY_ONLY;
}

/* The next one that stays. */
static bool next_kept(const struct conf_query *q, struct view *rest, struct view *out_parameter)
{
	while (conf_query_next(rest, out_parameter)) {
		if (keeps(q, *out_parameter))
			return true;
	}
	return false;
}

static bool before(struct view a, struct view b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int order = n == 0 ? 0 : memcmp(a.p, b.p, n);

	return order < 0 || (order == 0 && a.n < b.n);
}

/* In the order of names, behind those of its own. */
static void insert(struct view *sorted, size_t count, struct view parameter)
{
	struct view name = conf_query_name(parameter);
	size_t i = count;

	for (; i > 0 && before(name, conf_query_name(sorted[i - 1])); i--)
		sorted[i] = sorted[i - 1];
	sorted[i] = parameter;
}

static size_t put(struct view parameter, char *out, size_t n)
{
	out[n] = n == 0 ? '?' : '&';
	memcpy(out + n + 1, parameter.p, parameter.n);
	return n + 1 + parameter.n;
}

static size_t in_order(const struct conf_query *q, struct view query, char *out)
{
	struct view rest = conf_query_begin(query), parameter;
	size_t n = 0;

	while (next_kept(q, &rest, &parameter))
		n = put(parameter, out, n);
	return n;
}

static size_t by_name(const struct conf_query *q, struct view query, char *out)
{
	struct view sorted[SORTED_MAX], rest = conf_query_begin(query), parameter;
	size_t count = 0, n = 0;

	while (next_kept(q, &rest, &parameter)) {
		if (count == SORTED_MAX)
			return in_order(q, query, out);
		insert(sorted, count++, parameter);
	}
	for (size_t i = 0; i < count; i++)
		n = put(sorted[i], out, n);
	return n;
}

size_t conf_key_query(const struct conf_query *q, struct view query, char *out)
{
	if (q->kind == CONF_QUERY_NONE)
		return 0;
	return q->sort ? by_name(q, query, out) : in_order(q, query, out);
}
