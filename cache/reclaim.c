/*
 * What purges left behind. A purge searches nothing; its objects lie in the store until somebody looks: a pass reads all logs,
 * asks the purge clock about each object that the index still has, and takes out of the index what is hard-purged.
 * Chunk files are unlinked at once; small bodies go with their segment, which is evicted early where nothing in it is left.
 *
 * A pass begins after a hard purge and runs in the commit lane, 2 ms at a time and then 8 ms nothing, so that
 * commits hardly notice a purge of millions; after it comes a rest of eight times what it took, since purges may come all the time
 * and the logs of a large store are long. Nothing about it is
 * logged: after a rebuild the objects are in the index again, are as purged as before, and the next pass finds them.
 *
 * Counting what a purge would name (dry_run) is the same walk, without rest, since somebody waits for it, and without taking
 * anything out.
 */
#include "cache/keeper_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/purge_clock.h"
#include "cache/purge_set.h"

enum {
	PAUSE_MS = 8,
	REST_TICKS = 1000 / KEEPER_TICK_MS,
	REST_FACTOR = 8,
	REST_AFTER_ERROR_TICKS = 60000 / KEEPER_TICK_MS,
	FOUND_MAX = 64,
	COUNTS_MAX = 4, /* under way at once */
};

struct found {
	uint64_t number, objects, bytes;
};

struct count {
	struct purge_set *set;
	keeper_count_fn *done;
	void *arg;
	unsigned pending; /* stores */
	int result;
	uint64_t objects, bytes;
};

/* One walk over a store's logs. */
struct reclaim {
	struct job job;
	struct keeper_store *ks;
	struct count *count; /* NULL: reclaiming */
	uint64_t clock;	     /* when it began */
	unsigned began_tick;
	struct timer pause;
	bool paused;

	/* commit lane */
	uint32_t segment, end;
	struct log_reader *reader;
	uint64_t live; /* objects that lie in the segment that is read */
	bool older;    /* a segment before that one stays */
	bool ended;
	/* of one slice */
	int error;
	struct lane_totals totals;
	struct chunk_list doomed;
	struct found found[FOUND_MAX];
	unsigned found_count;
	uint32_t empty[FOUND_MAX]; /* segments without a live object */
	unsigned empty_count;
	uint64_t objects, bytes; /* counted */
};

static void submit(struct reclaim *rc);
static void pause_a_little(struct reclaim *rc);

/* --- in the lane ------------------------------------------------------------------------------------- */

static void note(struct reclaim *rc, uint64_t number, uint64_t bytes)
{
	unsigned i = 0;

	while (i < rc->found_count && rc->found[i].number != number)
		i++;
	if (i == rc->found_count)
		rc->found[rc->found_count++] = (struct found){ .number = number };
	rc->found[i].objects++;
	rc->found[i].bytes += bytes;
}

static void look_at(struct reclaim *rc, const struct format_log_view *v)
{
	const struct format_object *o = v->object;
	const struct cache_names names = purge_names_of(o, &v->texts);
	struct cache_shared *s = rc->ks->shared;
	struct cache_record r;
	uint64_t number;

	if (!apply_is_there(rc->ks, o, &r)) {
		/* Or a refresh's record has its body. */
		rc->live += r.kind == CACHE_RECORD_OBJECT && r.body_segment == rc->segment;
		return;
	}
	if (purge_clock_names(s, &names, o->birth, &number) != CACHE_HARD_PURGED) {
		rc->live++;
		if (rc->count != NULL && purge_set_names(rc->count->set, &names)) {
			rc->objects++;
			rc->bytes += r.head_bytes + r.body_bytes;
		}
		return;
	}
	if (rc->count != NULL)
		return;
	apply_purge(rc->ks, o, &v->texts, &r, &rc->doomed);
	note(rc, number, r.head_bytes + r.body_bytes);
}

static bool is_going(const struct reclaim *rc)
{
	uint32_t state = segment_state(rc->ks, rc->segment);

	return state == SEGMENT_DEAD || state == SEGMENT_FREE;
}

/* What is sealed gets no more objects. One whose log can't be read to its end may have more, and one that hides what
 * lies in older ones must not go before them: a rebuild would bring that back. */
static bool may_go(const struct reclaim *rc)
{
	const struct keeper_segment *seg;

	/* The state first: one that isn't dying can't be dropped while we look, since it would have to pass this lane. */
	if (rc->count != NULL || rc->live != 0 || rc->reader == NULL ||
	    segment_state(rc->ks, rc->segment) != SEGMENT_SEALED)
		return false;
	seg = segment_find(rc->ks, rc->segment);
	return log_reader_offset(rc->reader) >= seg->log.bytes && !(seg->hides && rc->older);
}

static void end_log(struct reclaim *rc)
{
	if (may_go(rc))
		rc->empty[rc->empty_count++] = rc->segment;
	else
		rc->older |= !is_going(rc);
	log_reader_close(&rc->reader);
	rc->segment++;
	rc->live = 0;
}

/* False: all logs are read. */
static bool step(struct reclaim *rc)
{
	struct format_log_view v;

	if (rc->segment >= rc->end)
		return false;
	if (rc->reader == NULL && (is_going(rc) || log_reader_open(rc->ks->dir_fd, rc->ks->super.id,
								   rc->segment, 0, &rc->reader) != 0)) {
		end_log(rc);
		return true;
	}
	if (log_read(rc->reader, &v) != 0)
		end_log(rc);
	else if (v.type == FORMAT_LOG_COMMIT || v.type == FORMAT_LOG_REFRESH)
		look_at(rc, &v);
	return true;
}

static void run_slice(struct job *j)
{
	struct reclaim *rc = CONTAINER_OF(j, struct reclaim, job);
	int64_t begin = clock_mono_us();

	index_begin(rc->ks->index);
	while (!rc->ended && rc->found_count < FOUND_MAX && rc->empty_count < FOUND_MAX &&
	       clock_mono_us() - begin < KEEPER_BATCH_US)
		rc->ended = !step(rc);
	rc->error = index_commit(rc->ks->index);
	lane_totals_take(rc->ks, &rc->totals);
}

/* --- in the loop --------------------------------------------------------------------------------------- */

static void end_count(struct reclaim *rc)
{
	struct count *count = rc->count;
	struct keeper *k = rc->ks->keeper;

	if (!rc->ended || rc->error != 0)
		count->result = rc->error != 0 ? rc->error : -EAGAIN;
	count->objects += rc->objects;
	count->bytes += rc->bytes;
	if (--count->pending != 0)
		return;
	k->counts--;
	count->done(count->arg, count->result, count->objects, count->bytes);
	purge_set_free(count->set);
	free(count);
}

static void end_pass(struct reclaim *rc)
{
	struct keeper_store *ks = rc->ks;

	ks->reclaim = NULL;
	if (rc->ended && rc->error == 0)
		ks->reclaimed_to = rc->clock;
	ks->reclaim_rest = REST_TICKS + REST_FACTOR * (ks->keeper->ticks - rc->began_tick);
	if (rc->error != 0)
		ks->reclaim_rest = REST_AFTER_ERROR_TICKS;
}

static void end(struct reclaim *rc)
{
	if (rc->count != NULL)
		end_count(rc);
	else
		end_pass(rc);
	rc->ks->reclaims--;
	log_reader_close(&rc->reader);
	chunk_list_fini(&rc->doomed);
	timer_close(&rc->pause);
	free(rc);
}

static void take_over(struct reclaim *rc)
{
	struct keeper_store *ks = rc->ks;

	account_lane(ks, &rc->totals, rc->doomed.bytes);
	evict_unlink(ks, &rc->doomed);
	for (unsigned i = 0; i < rc->found_count; i++) {
		const struct found *f = &rc->found[i];

		purges_reclaimed(ks->keeper, f->number, f->objects, f->bytes);
		atomic_fetch_add_explicit(&ks->st->reclaimed_objects, f->objects, memory_order_relaxed);
		atomic_fetch_add_explicit(&ks->st->reclaimed_bytes, f->bytes, memory_order_relaxed);
	}
	for (unsigned i = 0; i < rc->empty_count; i++) {
		if (segment_find(ks, rc->empty[i]) != NULL &&
		    segment_state(ks, rc->empty[i]) == SEGMENT_SEALED)
			segment_set_dead(ks, rc->empty[i]);
	}
	rc->found_count = rc->empty_count = 0;
}

static void slice_done(struct job *j)
{
	struct reclaim *rc = CONTAINER_OF(j, struct reclaim, job);
	struct keeper_store *ks = rc->ks;

	if (rc->error == 0)
		take_over(rc);
	else if (rc->error != -ENOMEM && !keeper_is_full(ks, rc->error))
		keeper_store_failed(ks, REASON_INDEX, rc->error);
	evict_pump(ks);
	if (rc->ended || rc->error != 0 || !ks->usable || ks->keeper->closing || rebuild_running(ks))
		end(rc);
	else if (rc->count != NULL)
		submit(rc);
	else
		pause_a_little(rc);
}

static void pause_a_little(struct reclaim *rc)
{
	rc->paused = true;
	timer_set(&rc->pause, PAUSE_MS);
}

static void submit(struct reclaim *rc)
{
	lane_submit(rc->ks->commit_lane, &rc->job, run_slice, slice_done);
}

static void on_pause(struct timer *t)
{
	struct reclaim *rc = CONTAINER_OF(t, struct reclaim, pause);

	rc->paused = false;
	if (rc->ks->usable)
		submit(rc);
	else
		end(rc);
}

static int begin(struct keeper_store *ks, struct count *count, struct reclaim **out)
{
	struct reclaim *rc = calloc(1, sizeof(*rc));
	int r;

	if (rc == NULL)
		return -ENOMEM;
	r = timer_open(&rc->pause, ks->keeper->loop, on_pause);
	if (r != 0) {
		free(rc);
		return r;
	}
	rc->ks = ks;
	rc->count = count;
	rc->clock = purge_clock_now(ks->shared);
	rc->began_tick = ks->keeper->ticks;
	rc->segment = ks->lowest_id;
	rc->end = ks->next_id;
	ks->reclaims++;
	*out = rc;
	return 0;
}

void reclaim_tick(struct keeper_store *ks)
{
	if (rebuild_running(ks)) {
		ks->reclaimed_to = 0; /* what was taken out is put in again */
		return;
	}
	if (ks->reclaim != NULL || ks->keeper->closing)
		return;
	if (ks->reclaim_rest != 0) {
		ks->reclaim_rest--;
		return;
	}
	if (purges_newest_hard(ks->keeper) <= ks->reclaimed_to || begin(ks, NULL, &ks->reclaim) != 0)
		return;
	submit(ks->reclaim);
}

void reclaim_stop(struct keeper_store *ks)
{
	struct reclaim *rc = ks->reclaim;

	if (rc != NULL && rc->paused)
		end(rc);
}

/* --- counting --------------------------------------------------------------------------------------------- */

static struct count *new_count(const struct cache_scope *scopes, unsigned n, keeper_count_fn *done,
			       void *arg)
{
	struct count *count = calloc(1, sizeof(*count));

	if (count == NULL)
		return NULL;
	*count = (struct count){ .set = purge_set_new(scopes, n), .done = done, .arg = arg };
	if (count->set == NULL) {
		free(count);
		return NULL;
	}
	return count;
}

/* All or none of the stores. */
static int begin_all(struct keeper *k, struct count *count, struct reclaim **out)
{
	for (unsigned i = 0; i < k->store_count; i++) {
		if (!k->stores[i].usable)
			continue;
		if (rebuild_running(&k->stores[i]))
			return -EAGAIN;
		if (begin(&k->stores[i], count, &out[count->pending]) != 0)
			return -ENOMEM;
		count->pending++;
	}
	return count->pending != 0 ? 0 : -EAGAIN;
}

static void give_up(struct count *count, struct reclaim **begun)
{
	for (unsigned i = 0; i < count->pending; i++) {
		begun[i]->ks->reclaims--;
		timer_close(&begun[i]->pause);
		free(begun[i]);
	}
	purge_set_free(count->set);
	free(count);
}

int keeper_purge_count(struct keeper *k, const struct cache_scope *scopes, unsigned n,
		       keeper_count_fn *done, void *arg)
{
	struct reclaim *begun[SHARED_STORES];
	struct count *count;
	unsigned pending;
	int r;

	CHECK_MAGIC(k, KEEPER_MAGIC);
	if (k->counts == COUNTS_MAX)
		return -EBUSY;
	count = new_count(scopes, n, done, arg);
	if (count == NULL)
		return -ENOMEM;
	r = begin_all(k, count, begun);
	if (r != 0) {
		give_up(count, begun);
		return r;
	}
	k->counts++;
	pending = count->pending;
	for (unsigned i = 0; i < pending; i++)
		submit(begun[i]);
	return 0;
}
