/*
 * GET /v1/objects: what is stored, a page at a time (cache/listing.h). A page costs a bounded amount of reading, so it
 * may be short, or empty, and yet not the last: only a missing cursor says that.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cache/listing.h"
#include "edge/admin_call.h"
#include "edge/base/json.h"
#include "edge/http/chars.h"
#include "edge/http/uri.h"

enum { LIMIT_DEFAULT = 100, OBJECTS_A_TURN = 50 };

/* --- what is asked ---------------------------------------------------------------------------------- */

static enum admin_progress bad(struct admin_call *c, const char *name, const char *why)
{
	char pointer[32];

	(void)snprintf(pointer, sizeof(pointer), "?%s", name);
	return admin_error(c, 400, pointer, "%s", why);
}

static bool read_limit(struct view text, unsigned *out)
{
	unsigned n = 0;

	for (size_t i = 0; i < text.n; i++) {
		if (!char_is(text.p[i], CHAR_DIGIT) || n > LISTING_MOST)
			return false;
		n = 10 * n + (unsigned)(text.p[i] - '0');
	}
	*out = n;
	return n >= 1 && n <= LISTING_MOST;
}

/* "STORE.SEGMENT.OFFSET", in hexadecimal: opaque to others. */
static bool read_cursor(struct view text, struct listing_place *out)
{
	char plain[40], again[40];
	int n;

	if (text.n >= sizeof(plain))
		return false;
	memcpy(plain, text.p, text.n);
	plain[text.n] = '\0';
	if (sscanf(plain, "%" SCNx32 ".%" SCNx32 ".%" SCNx64, &out->store, &out->segment,
		   &out->offset) != 3)
		return false;
	n = snprintf(again, sizeof(again), "%" PRIx32 ".%" PRIx32 ".%" PRIx64, out->store,
		     out->segment, out->offset);
	return n == (int)text.n && memcmp(again, plain, text.n) == 0; /* as we write it, or not at all */
}

/* Host and path in the form that URLs are stored in. */
static int read_prefix(struct admin_call *c, struct view text, struct listing_query *q)
{
	const char *mark = memmem(text.p, text.n, "://", 3);
	size_t host = mark != NULL ? (size_t)(mark + 3 - text.p) : 0;
	const char *slash = memchr(text.p + host, '/', text.n - host);
	size_t head = slash != NULL ? (size_t)(slash - text.p) : text.n, path_bytes = 0;
	char *to = arena_alloc(&c->arena, text.n + 1);
	bool odd;

	if (to == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < head; i++)
		to[i] = char_lower(text.p[i]);
	if (head < text.n && uri_normalise(view_skip(text, head), to + head, &path_bytes, &odd) != 0)
		return -EINVAL;
	q->prefix = view_of(to, head + path_bytes);
	q->any_scheme = mark == NULL;
	return 0;
}

/* The site that is named, or else the token's own. */
static int read_sites(struct admin_call *c, struct view name, struct listing_query *q)
{
	uint64_t *hashes = arena_alloc(&c->arena, (c->conf->site_count + 1) * sizeof(*hashes));

	if (hashes == NULL)
		return -ENOMEM;
	q->sites = hashes;
	for (size_t i = 0; i < c->conf->site_count; i++) {
		const struct conf_site *s = &c->conf->sites[i];

		if (name.n > 0 ? view_eq(s->name, name)
			       : !admin_call_whole(c) && admin_call_site(c, s->name))
			hashes[q->site_count++] = s->name_hash;
	}
	return q->site_count > 0 || (name.n == 0 && admin_call_whole(c)) ? 0 : -ENOENT;
}

/* True: the query is whole; else the answer is made. */
static bool read_query(struct admin_call *c, struct listing_query *q)
{
	static const char *const names[] = { "limit", "cursor", "prefix", "site" };
	struct view values[ARRAY_LEN(names)] = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		int r = admin_query(c, view_str(names[i]), &values[i]);

		if (r != 0 && r != -ENOENT) {
			(void)admin_query_error(c, r, names[i]);
			return false;
		}
	}
	q->limit = LIMIT_DEFAULT;
	if (values[0].p != NULL && !read_limit(values[0], &q->limit))
		(void)bad(c, "limit", "must be a number from 1 to 1000");
	else if (values[1].p != NULL && !read_cursor(values[1], &q->from))
		(void)bad(c, "cursor", "must be one that an earlier page gave");
	else if (values[3].n > 0 && !admin_call_site(c, values[3]))
		(void)admin_error(c, 403, "?site", "a site that this token may not touch");
	else if (read_sites(c, values[3], q) != 0)
		(void)bad(c, "site", "no such site");
	else if (values[2].n > 0 && read_prefix(c, values[2], q) != 0)
		(void)bad(c, "prefix", "not the beginning of a URL");
	else
		return true;
	return false;
}

/* --- what is answered ------------------------------------------------------------------------------ */

static const struct conf_site *site_of(const struct admin_call *c, uint64_t hash)
{
	for (size_t i = 0; i < c->conf->site_count; i++) {
		if (c->conf->sites[i].name_hash == hash)
			return &c->conf->sites[i];
	}
	return NULL;
}

/* As a JSON string. */
static void write_text(FILE *to, struct view v)
{
	char escaped[512];
	size_t taken;

	(void)putc('"', to);
	while (v.n > 0) {
		size_t n = json_escape(v, escaped, sizeof(escaped), &taken);

		(void)fwrite(escaped, 1, n, to);
		v = view_skip(v, taken);
	}
	(void)putc('"', to);
}

static long long seconds(int64_t ms)
{
	return ms >= 0 ? ms / 1000 : -((999 - ms) / 1000);
}

static void write_object(const struct admin_call *c, FILE *to, const struct listed *o)
{
	const struct conf_site *site = site_of(c, o->site_hash); /* NULL: it is configured no more */
	int64_t age_ms = o->initial_age_ms + clock_wall().ms - o->received.ms;

	(void)fputs("{\"url\":", to);
	write_text(to, o->url);
	(void)fputs(",\"site\":", to);
	if (site != NULL)
		write_text(to, site->name);
	else
		(void)fputs("null", to);
	(void)fprintf(to,
		      ",\"secondary\":\"%016" PRIx64 "\",\"status\":%u,\"bytes\":%" PRIu64
		      ",\"age\":%lld,\"ttl\":%lld,\"tags\":%u,\"purged\":\"%s\"}",
		      o->key.secondary, o->status, o->body_bytes, seconds(age_ms),
		      seconds(o->lifetime_ms - age_ms), o->tag_count, admin_purged_text(o->purged));
}

/* --- the call ---------------------------------------------------------------------------------------- */

/* Between its turns: a page in one piece would keep the loop for many milliseconds. */
struct objects_call {
	struct listing *listing;
	FILE *to; /* NULL: the page isn't there yet */
	char *text;
	size_t bytes;
	unsigned at, written;
};

static enum admin_progress finish(struct admin_call *c, struct objects_call *o,
				  const struct listing_place *next, bool more)
{
	FILE *to = o->to;

	(void)fputs("],\"cursor\":", to);
	if (more)
		(void)fprintf(to, "\"%" PRIx32 ".%" PRIx32 ".%" PRIx64 "\"}\n", next->store,
			      next->segment, next->offset);
	else
		(void)fputs("null}\n", to);
	o->to = NULL;
	if (fclose(to) != 0)
		return admin_error(c, 503, "", "no memory");
	return admin_answer_text(c, 200, "application/json", view_of(o->text, o->bytes));
}

static bool begin_text(struct objects_call *o)
{
	if (o->to != NULL)
		return true;
	o->to = open_memstream(&o->text, &o->bytes);
	if (o->to == NULL)
		return false;
	(void)fputs("{\"objects\":[", o->to);
	return true;
}

static enum admin_progress go_on(struct admin_call *c, struct objects_call *o)
{
	struct listing_place next = { 0 };
	const struct listed *items = NULL;
	unsigned count = 0;
	bool more = false;
	int r = listing_page(o->listing, &items, &count, &next, &more);

	if (r == -EINPROGRESS)
		return ADMIN_WAIT;
	if (r != 0)
		return admin_error(c, 503, "", "the logs can't be read: %s", strerror(-r));
	if (!begin_text(o))
		return admin_error(c, 503, "", "no memory");
	for (unsigned n = 0; n < OBJECTS_A_TURN && o->at < count; n++, o->at++) {
		if (!listing_counts(o->listing, &items[o->at]))
			continue;
		if (o->written++ > 0)
			(void)putc(',', o->to);
		write_object(c, o->to, &items[o->at]);
	}
	return o->at < count ? ADMIN_YIELD : finish(c, o, &next, more);
}

static void drop(struct admin_call *c)
{
	struct objects_call *o = c->state;

	listing_free(&o->listing);
	if (o->to != NULL)
		(void)fclose(o->to);
	free(o->text);
}

enum admin_progress admin_objects(struct admin_call *c)
{
	struct listing_query q = { 0 };
	struct objects_call *o;
	int r;

	if (c->admin->keeper == NULL)
		return admin_error(c, 503, "", "the stores are not open");
	if (c->state != NULL)
		return go_on(c, c->state);
	if (!read_query(c, &q))
		return ADMIN_DONE;
	o = arena_zalloc(&c->arena, sizeof(*o));
	if (o == NULL)
		return admin_error(c, 503, "", "no memory");
	r = listing_begin(c->admin->listings, &q, &c->wake, &o->listing);
	if (r != 0)
		return admin_error(c, 503, "", "can't list: %s", strerror(-r));
	c->state = o;
	c->drop = drop;
	return ADMIN_WAIT;
}
