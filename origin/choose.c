/*
 * Smooth weighted round robin: each candidate earns its weight, the richest is chosen and pays
 * what all earned. Shares are exact over a round and no server gets its share in one burst.
 *
 * Candidates come in tiers: servers in use, backups in use, and, when all that are left are set
 * aside, the one that will be back first. A server that is the only one is thus always tried:
 * refusing requests because of a failure a second ago would turn a blip into an outage.
 * A full server is in use all the same: backups are for failures, not for load.
 *
 * A server whose connect failed is set aside for 1 s, twice as long each time, up to 30 s.
 */
#include "origin/choose.h"

#include <errno.h>

enum { ASIDE_FIRST_MS = 1000, ASIDE_MOST_MS = 30000, DOUBLINGS_MAX = 5 };

static int choose_in_tier(const struct conf_origin *o, const struct choose_tried *tried,
			  const struct choose_view *view, struct mono now, bool backup);
static int choose_set_aside(const struct conf_origin *o, const struct choose_tried *tried,
			    const struct choose_view *view);

static bool is_tried(const struct choose_tried *t, size_t place)
{
	return (t->bits[place / 64] >> place % 64) & 1;
}

void choose_mark_tried(struct choose_tried *t, size_t place)
{
	t->bits[place / 64] |= UINT64_C(1) << place % 64;
}

int choose_server(const struct conf_origin *o, const struct choose_tried *tried,
		  const struct choose_view *view, struct mono now)
{
	int place = choose_in_tier(o, tried, view, now, false);

	if (place == -ENOENT)
		place = choose_in_tier(o, tried, view, now, true);
	if (place == -ENOENT)
		place = choose_set_aside(o, tried, view);
	return place;
}

void choose_failed(struct choose_state *s, struct mono now)
{
	if (now.ms < s->aside_until.ms)
		return; /* one of several fetches that failed together, or a last resort */
	unsigned doublings = s->failures < DOUBLINGS_MAX ? s->failures : DOUBLINGS_MAX;
	int64_t aside_ms = (int64_t)ASIDE_FIRST_MS << doublings;
	s->failures++;
	s->aside_until.ms = now.ms + (aside_ms < ASIDE_MOST_MS ? aside_ms : ASIDE_MOST_MS);
}

void choose_succeeded(struct choose_state *s)
{
	s->failures = 0;
	s->aside_until.ms = 0;
}

static int choose_in_tier(const struct conf_origin *o, const struct choose_tried *tried,
			  const struct choose_view *view, struct mono now, bool backup)
{
	struct choose_state *best = NULL;
	int result = -ENOENT;
	int64_t earned = 0;

	for (size_t i = 0; i < o->server_count; i++) {
		const struct conf_server *server = &o->servers[i];
		struct choose_state *s = view->state(view->arg, server);
		if (server->backup != backup || is_tried(tried, i) || now.ms < s->aside_until.ms)
			continue;
		if (view->full(view->arg, server)) {
			result = result == -ENOENT ? -EAGAIN : result;
			continue;
		}
		s->credit += server->weight;
		earned += server->weight;
		if (best == NULL || s->credit > best->credit) {
			best = s;
			result = (int)i;
		}
	}
	if (best != NULL)
		best->credit -= earned;
	return result;
}

static int choose_set_aside(const struct conf_origin *o, const struct choose_tried *tried,
			    const struct choose_view *view)
{
	int64_t soonest = INT64_MAX;
	int result = -ENOENT;

	for (size_t i = 0; i < o->server_count; i++) {
		const struct conf_server *server = &o->servers[i];
		int64_t back = view->state(view->arg, server)->aside_until.ms;
		if (is_tried(tried, i) || back >= soonest)
			continue;
		if (view->full(view->arg, server)) {
			result = result == -ENOENT ? -EAGAIN : result;
			continue;
		}
		soonest = back;
		result = (int)i;
	}
	return result;
}
