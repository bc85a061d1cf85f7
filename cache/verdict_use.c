/*
 * May a stored response be used now, and what do later answers of the origin mean for it?
 *
 * What a hit needs was decided when storing and kept in flags, so that nothing is parsed here unless the
 * request carries directives of its own. Every decision comes with its reason in words; a hit doesn't look at
 * it, an operator who asks why does.
 */
#include "cache/verdict_use.h"

#include "edge/http/condition.h"

struct use {
	enum use_verdict verdict;
	const char *reason;
};

static struct use use_of(const struct http_request *rq, const struct cache_meta *m,
			 const struct use_times *t, bool soft_purged, const struct conf_cache *conf);
static const char *client_wants_validation(const struct http_request *rq, const struct cache_meta *m,
					   const struct use_times *t, int64_t ttl_ms);
static bool client_directives(const struct http_request *rq, struct http_cache_control *out);
static bool client_takes_stale(const struct http_request *rq, int64_t stale_ms);

static int64_t at_least_0(int64_t ms)
{
	return ms > 0 ? ms : 0;
}

void verdict_age(const struct cache_meta *m, struct wall now, struct use_times *out)
{
	/* A wall clock that was set back doesn't make it younger than it came. */
	out->age_ms = m->initial_age_ms + at_least_0(now.ms - m->received.ms);
	out->ttl_ms = m->lifetime_ms - out->age_ms;
}

enum use_verdict verdict_use(const struct http_request *rq, const struct cache_meta *m,
			     const struct use_times *t, bool soft_purged, const struct conf_cache *conf)
{
	return use_of(rq, m, t, soft_purged, conf).verdict;
}

const char *verdict_use_reason(const struct http_request *rq, const struct cache_meta *m,
			       const struct use_times *t, bool soft_purged,
			       const struct conf_cache *conf)
{
	return use_of(rq, m, t, soft_purged, conf).reason;
}

/* RFC 9111 §4.2.4; RFC 5861 §4, which has stale-if-error in requests as well. */
bool verdict_stale_if_error(const struct http_request *rq, const struct cache_meta *m,
			    const struct use_times *t, const struct conf_cache *conf)
{
	int64_t stale_ms = at_least_0(-t->ttl_ms);
	int64_t window_ms = verdict_sie_ms(m, conf);
	struct http_cache_control cc;

	if (m->flags & (META_NO_CACHE | META_MUST_REVALIDATE))
		return false;
	if (window_ms > 0 && stale_ms <= window_ms)
		return true;
	if (conf->honour_request_directives && client_directives(rq, &cc) &&
	    cc.stale_if_error_ms > 0 && stale_ms <= cc.stale_if_error_ms)
		return true;
	return client_takes_stale(rq, stale_ms);
}

int64_t verdict_swr_ms(const struct cache_meta *m, const struct conf_cache *conf)
{
	return m->flags & META_SWR_GIVEN ? m->stale_while_revalidate_s * INT64_C(1000)
					 : conf->stale_while_revalidate_ms;
}

int64_t verdict_sie_ms(const struct cache_meta *m, const struct conf_cache *conf)
{
	return m->flags & META_SIE_GIVEN ? m->stale_if_error_s * INT64_C(1000) : conf->stale_if_error_ms;
}

static struct use use_of(const struct http_request *rq, const struct cache_meta *m,
			 const struct use_times *t, bool soft_purged, const struct conf_cache *conf)
{
	enum use_verdict validate = m->flags & META_HAS_VALIDATOR ? USE_REVALIDATE : USE_MISS;
	int64_t ttl_ms = soft_purged && t->ttl_ms > 0 ? 0 : t->ttl_ms;
	const char *wish = NULL;

	if (m->flags & META_NO_CACHE)
		return (struct use){ validate, "no-cache" };
	if (conf->honour_request_directives)
		wish = client_wants_validation(rq, m, t, ttl_ms);
	if (wish != NULL)
		return (struct use){ validate, wish };
	if (ttl_ms > 0)
		return (struct use){ USE_FRESH, "fresh" };
	if (m->flags & META_MUST_REVALIDATE)
		return (struct use){
			validate,
			"stale, and must-revalidate, proxy-revalidate or s-maxage forbids "
			"its use"
		};
	int64_t swr_ms = verdict_swr_ms(m, conf);
	if (swr_ms > 0 && -ttl_ms <= swr_ms)
		return (struct use){ USE_STALE_WHILE_REVALIDATE,
				     "stale, within stale-while-revalidate" };
	if (client_takes_stale(rq, -ttl_ms))
		return (struct use){ USE_STALE_WHILE_REVALIDATE,
				     "stale, within the request's max-stale" };
	if (soft_purged)
		return (struct use){ validate, "purged softly: stale" };
	return (struct use){ validate, "stale: its lifetime is over" };
}

/* --- directives of requests ---------------------------------------------------------------- */

static bool client_directives(const struct http_request *rq, struct http_cache_control *out)
{
	if (!http_fields_has(&rq->fields, FIELD_CACHE_CONTROL))
		return false;
	http_cache_control(&rq->fields, FIELD_CACHE_CONTROL, out);
	return true;
}

static bool takes_stale(const struct http_cache_control *cc, int64_t stale_ms)
{
	return (cc->flags & CC_MAX_STALE_ANY) ||
	       (cc->max_stale_ms >= 0 && stale_ms <= cc->max_stale_ms);
}

/* RFC 9111 §5.2.1: no-cache, min-fresh, max-age; §5.4: Pragma where there is no Cache-Control. Which of them, or NULL. */
static const char *client_wants_validation(const struct http_request *rq, const struct cache_meta *m,
					   const struct use_times *t, int64_t ttl_ms)
{
	struct http_cache_control cc;

	if (!client_directives(rq, &cc))
		return http_fields_has(&rq->fields, FIELD_PRAGMA) &&
				       http_list_has(&rq->fields, FIELD_PRAGMA, VIEW("no-cache"))
			       ? "the request's Pragma"
			       : NULL;
	if (cc.flags & CC_NO_CACHE)
		return "the request's no-cache";
	if (cc.min_fresh_ms >= 0 && ttl_ms < cc.min_fresh_ms)
		return "the request's min-fresh";
	if (cc.max_age_ms < 0)
		return NULL;
	if (ttl_ms <= 0 && !takes_stale(&cc, -ttl_ms))
		return "stale, and the request's max-age takes nothing stale";
	/* RFC 8246 §2: a reload's max-age=0 is no wish to validate what never changes. */
	if (t->age_ms <= cc.max_age_ms || ((m->flags & META_IMMUTABLE) && ttl_ms > 0))
		return NULL;
	return "the request's max-age";
}

static bool client_takes_stale(const struct http_request *rq, int64_t stale_ms)
{
	struct http_cache_control cc;

	return client_directives(rq, &cc) && takes_stale(&cc, stale_ms);
}

/* --- later answers of the origin ------------------------------------------------------------ */

/* Its first line's value; empty: it isn't there. */
static struct view value_of(const struct http_response *rs, enum http_field_id id)
{
	const struct http_field *line = http_fields_first(&rs->fields, id);

	return line != NULL ? line->value : VIEW("");
}

/* Absent, or of the same moment: dates have three spellings. */
static bool date_agrees(struct view stored, struct view said)
{
	struct wall a, b;

	if (said.n == 0)
		return true;
	if (http_date_parse(said, &b) < 0 || http_date_parse(stored, &a) < 0)
		return view_eq(stored, said);
	return a.ms == b.ms;
}

/* Absent, or the same tag. Compared weakly: servers that compress on the way weaken a tag in one answer and not in the next. */
static bool tag_agrees(struct view stored, struct view said)
{
	struct http_etag a, b;

	if (said.n == 0)
		return true;
	if (http_etag_parse(said, &b) < 0 || http_etag_parse(stored, &a) < 0)
		return view_eq(stored, said);
	return view_eq(a.opaque, b.opaque);
}

enum head_verdict verdict_head(const struct cache_meta *m, uint64_t body_bytes,
			       const struct http_response *rs)
{
	if (rs->status != 200 || m->status != 200)
		return HEAD_TELLS_NOTHING;
	if (rs->has_length && rs->length != body_bytes)
		return HEAD_OUTDATES;
	return tag_agrees(m->etag, value_of(rs, FIELD_ETAG)) &&
			       date_agrees(m->last_modified, value_of(rs, FIELD_LAST_MODIFIED))
		       ? HEAD_UPDATES
		       : HEAD_OUTDATES;
}
