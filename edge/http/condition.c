/*
 * Preconditions. Each is «true», «false» or «not there», the last also where its date is none,
 * since then it is to be ignored (RFC 9110 §13.1.3, §13.1.4). A broken list of entity tags is
 * there all the same, and names what can be read of it.
 */
#include "edge/http/condition.h"
#include "edge/http/field.h"

enum outcome { ABSENT, FALSE, TRUE };

static enum outcome outcome(bool value)
{
	return value ? TRUE : FALSE;
}

/* --- entity tags (§13.1.1, §13.1.2) */

/* Without a readable tag nothing in a list names it, but "*" does. */
static enum outcome listed(const struct http_fields *f, enum http_field_id id, struct view etag, bool weak)
{
	struct http_etag tag;

	if (!http_fields_has(f, id))
		return ABSENT;
	if (http_etag_parse(etag, &tag) < 0)
		tag = (struct http_etag){ VIEW(""), false };
	return outcome(http_etag_listed(f, id, &tag, weak));
}

/* --- dates (§13.1.3, §13.1.4) */

/* The one date of a field; several lines are no date. */
static bool single_date(const struct http_fields *f, enum http_field_id id, struct wall *out)
{
	const struct http_field *line = http_fields_first(f, id);

	return line != NULL && http_fields_next(f, line) == NULL &&
	       http_date_parse(line->value, out) == 0;
}

static enum outcome unmodified_since(const struct http_fields *f, const struct http_selected *s)
{
	struct wall asked, modified;

	if (!single_date(f, FIELD_IF_UNMODIFIED_SINCE, &asked) ||
	    http_date_parse(s->last_modified, &modified) < 0)
		return ABSENT;
	return outcome(modified.ms <= asked.ms);
}

/* RFC 9111 §4.3.2: without Last-Modified a cache takes Date, without that the time of receipt.
 * Dates have no milliseconds. */
static struct wall stand_in(const struct http_selected *s)
{
	struct wall date;

	if (http_date_parse(s->date, &date) < 0)
		date.ms = s->received.ms - s->received.ms % 1000;
	return date;
}

static enum outcome modified_since(const struct http_fields *f, const struct http_selected *s, bool origin)
{
	struct wall asked, modified;

	if (!single_date(f, FIELD_IF_MODIFIED_SINCE, &asked))
		return ABSENT;
	if (http_date_parse(s->last_modified, &modified) < 0) {
		if (origin)
			return ABSENT;
		modified = stand_in(s);
	}
	return outcome(modified.ms > asked.ms);
}

/* --- in order (§13.2.2) */

static bool origin_fails(const struct http_fields *f, const struct http_selected *s)
{
	enum outcome match = listed(f, FIELD_IF_MATCH, s->etag, false);

	if (match == ABSENT)
		match = unmodified_since(f, s);
	return match == FALSE;
}

enum http_condition http_preconditions(enum http_method method, const struct http_fields *request,
				       const struct http_selected *s, bool origin)
{
	bool reads = method == METHOD_GET || method == METHOD_HEAD;

	if (s->status < 200 || s->status > 299)
		return CONDITION_PROCEED;
	if (origin && origin_fails(request, s))
		return CONDITION_FAILED;
	enum outcome none_match = listed(request, FIELD_IF_NONE_MATCH, s->etag, true);
	if (none_match == TRUE)
		return reads ? CONDITION_NOT_MODIFIED : CONDITION_FAILED;
	if (none_match == ABSENT && reads && modified_since(request, s, origin) == FALSE)
		return CONDITION_NOT_MODIFIED;
	return CONDITION_PROCEED;
}

/* --- If-Range */

static bool same_strong_date(struct view asked, const struct http_selected *s)
{
	struct wall want, modified, date;

	if (http_date_parse(asked, &want) < 0 || http_date_parse(s->last_modified, &modified) < 0 ||
	    http_date_parse(s->date, &date) < 0)
		return false;
	return want.ms == modified.ms && date.ms - modified.ms >= 1000;
}

bool http_if_range(const struct http_fields *request, const struct http_selected *s)
{
	const struct http_field *line = http_fields_first(request, FIELD_IF_RANGE);
	struct http_etag asked, have;

	if (line == NULL)
		return true;
	if (http_fields_next(request, line) != NULL)
		return false;
	if (http_etag_parse(line->value, &asked) < 0)
		return same_strong_date(line->value, s);
	return http_etag_parse(s->etag, &have) == 0 && !asked.weak && !have.weak &&
	       view_eq(asked.opaque, have.opaque);
}
