/* Purges in the keeper: journals of stores that weren't always together, what is reclaimed, what is counted. */
#include "tests/unit/cache/keeper_kit.h"

#include "cache/keeper_store.h"
#include "cache/purge_clock.h"

/* --- stores that come and go ---------------------------------------------------------------------- */

enum { A = 1, B = 2 };

struct stores {
	struct temp_dir dirs[2];
	struct cache_shared *shared;
	struct cache_conf conf;
	struct loop *loop;
	struct keeper *keeper;
	uint64_t answered;
};

static int setup(void **state)
{
	static struct stores s;

	s = (struct stores){ .loop = loop_new() };
	temp_dir_make(&s.dirs[0]);
	temp_dir_make(&s.dirs[1]);
	*state = &s;
	return 0;
}

static int teardown(void **state)
{
	struct stores *s = *state;

	loop_free(s->loop);
	temp_dir_remove(&s->dirs[0]);
	temp_dir_remove(&s->dirs[1]);
	return 0;
}

/* The node runs with these stores. */
static void begin(struct stores *s, unsigned which)
{
	s->conf = (struct cache_conf){ .workers = 1 };
	for (unsigned i = 0; i < 2; i++) {
		if (which >> i & 1)
			s->conf.stores[s->conf.store_count++] =
				(struct cache_store_conf){ .name = i == 0 ? VIEW("a") : VIEW("b"),
							   .dir_fd = s->dirs[i].fd,
							   .size_bytes = 64 * KIT_MIB };
	}
	s->shared = cache_shared_new(&s->conf);
	assert_int_equal(keeper_open(s->shared, &s->conf, s->loop, &s->keeper), 0);
}

static void end(struct stores *s)
{
	keeper_close(s->keeper);
	cache_shared_free(s->shared);
}

static void answered(void *arg, int result, uint64_t sequence)
{
	struct stores *s = arg;

	assert_int_equal(result, 0);
	s->answered = sequence;
	loop_stop(s->loop);
}

static struct cache_scope scope(char tag)
{
	return cache_scope_tag(SITE, view_of(&tag, 1));
}

static uint64_t purge(struct stores *s, char tag)
{
	struct cache_scope named = scope(tag);

	assert_int_equal(keeper_purge(s->keeper, &named, 1, false, answered, s), 0);
	loop_run(s->loop);
	return s->answered;
}

static bool is_purged(struct stores *s, char tag, uint64_t birth)
{
	const uint8_t primary[16] = { 1 };
	const uint64_t hash = scope(tag).hash;
	const struct cache_names names = {
		.primary = primary, .site_hash = SITE, .tags = &hash, .tag_count = 1
	};

	return purge_clock_names(s->shared, &names, birth, NULL) == CACHE_HARD_PURGED;
}

static void a_store_that_was_away_learns(void **state)
{
	struct stores *s = *state;

	begin(s, A | B);
	assert_int_equal(purge(s, 'x'), 1);
	end(s);
	begin(s, A);
	assert_int_equal(purge(s, 'y'), 2);
	end(s);
	for (unsigned i = 0; i < 3; i++) {
		begin(s, A | B);
		assert_true(is_purged(s, 'y', 1));
		assert_false(is_purged(s, 'y', 2));
		assert_false(is_purged(s, 'x', 1));
		assert_int_equal(purge_clock_now(s->shared), 2);
		end(s);
	}
	begin(s, B);
	assert_true(is_purged(s, 'y', 1));
	end(s);
}

/* Both gave the same numbers to different purges: an object of A born at 3 may be older than B's second. */
static void stores_used_without_each_other_purge_once_more(void **state)
{
	struct stores *s = *state;

	begin(s, A | B);
	assert_int_equal(purge(s, 'x'), 1);
	end(s);
	begin(s, A);
	assert_int_equal(purge(s, 'p'), 2);
	assert_int_equal(purge(s, 'q'), 3);
	end(s);
	begin(s, B);
	assert_int_equal(purge(s, 'r'), 2);
	end(s);
	for (unsigned i = 0; i < 2; i++) {
		begin(s, A | B);
		assert_true(is_purged(s, 'r', 3));
		assert_true(is_purged(s, 'p', 3));
		assert_false(is_purged(s, 'r', 4));
		assert_false(is_purged(s, 'z', 0));
		assert_int_equal(purge_clock_now(s->shared), 4);
		end(s);
	}
}

static void a_store_that_drops_out_misses_what_follows(void **state)
{
	struct stores *s = *state;
	int broken = open("/dev/null", O_RDONLY | O_CLOEXEC);

	begin(s, A | B);
	assert_int_equal(purge(s, 'x'), 1);
	assert_true(dup2(broken, s->keeper->stores[0].journal.fd) >= 0);
	assert_int_equal(purge(s, 'p'), 2);
	assert_false(s->keeper->stores[0].usable);
	assert_int_equal(purge(s, 'q'), 3);
	end(s);
	close(broken);
	begin(s, A);
	assert_int_equal(purge(s, 'r'), 2);
	end(s);
	begin(s, A | B);
	assert_true(is_purged(s, 'p', 2));
	assert_true(is_purged(s, 'q', 3));
	assert_true(is_purged(s, 'r', 3));
	end(s);
}

static void note_unsafe(struct stores *s)
{
	struct cache_scope note = cache_scope_unsafe();

	assert_int_equal(keeper_purge(s->keeper, &note, 1, false, answered, s), 0);
	loop_run(s->loop);
}

/* Of an object born at «birth» in that store of those that run. */
static enum cache_purged in_store(struct stores *s, unsigned store, uint64_t birth)
{
	static struct cache c;
	struct cache_object o = { .cache = &c,
				  .record = { .object_id = ++c.ask_ticket, .store = (uint8_t)store },
				  .meta = { .birth = birth, .site_hash = SITE } };

	c.shared = s->shared;
	return cache_object_purged(&o, 1);
}

static void a_store_that_was_away_when_unsafe_methods_were_answered(void **state)
{
	struct stores *s = *state;

	begin(s, A | B);
	note_unsafe(s);
	assert_int_equal(atomic_load(&s->shared->unsafe_noted), A | B);
	end(s);
	begin(s, A | B); /* both were there */
	assert_int_equal(in_store(s, 0, 0), CACHE_NOT_PURGED);
	end(s);
	begin(s, A);
	note_unsafe(s);
	end(s);
	begin(s, A | B);
	assert_int_equal(in_store(s, 0, 0), CACHE_NOT_PURGED);
	assert_int_equal(in_store(s, 1, 0), CACHE_SOFT_PURGED);
	assert_int_equal(in_store(s, 1, 2), CACHE_SOFT_PURGED);
	assert_int_equal(purge_clock_now(s->shared), 3);
	assert_int_equal(in_store(s, 1, 3), CACHE_NOT_PURGED);
	end(s);
	begin(s, B); /* alone, and under another number */
	assert_int_equal(in_store(s, 0, 2), CACHE_SOFT_PURGED);
	assert_int_equal(in_store(s, 0, 3), CACHE_NOT_PURGED);
	end(s);
	begin(s, A | B);
	assert_int_equal(purge_clock_now(s->shared), 3); /* not once more */
	end(s);
}

static void stores_that_missed_each_others_unsafe_methods(void **state)
{
	struct stores *s = *state;

	begin(s, A | B);
	end(s);
	begin(s, A);
	note_unsafe(s);
	end(s);
	begin(s, B);
	note_unsafe(s);
	end(s);
	begin(s, A | B);
	assert_int_equal(in_store(s, 0, 1), CACHE_SOFT_PURGED);
	assert_int_equal(in_store(s, 1, 1), CACHE_SOFT_PURGED);
	end(s);
}

static void a_new_store_beside_an_old_one(void **state)
{
	struct stores *s = *state;

	begin(s, A);
	assert_int_equal(purge(s, 'x'), 1);
	end(s);
	begin(s, A | B);
	assert_true(is_purged(s, 'x', 0));
	assert_false(is_purged(s, 'x', 1));
	end(s);
	begin(s, B);
	assert_true(is_purged(s, 'x', 0));
	end(s);
}

/* --- what is left behind --------------------------------------------------------------------------------- */

static void purge_scope(struct kit *k, struct cache_scope scope)
{
	struct cache_purge_ask ask = { .slot = 0 };
	uint64_t number;
	int r;

	while ((r = cache_purge_ask(k->w.cache, &ask, &scope, 1, false, &k->w.wake, &number)) != 0) {
		assert_int_equal(r, -EINPROGRESS);
		kit_turn(k);
	}
}

static void purge_everything(struct kit *k)
{
	purge_scope(k, cache_scope_all());
}

static uint64_t objects(struct kit *k)
{
	return atomic_load(&k->w.shared->stores[0].objects);
}

/* Small bodies go with their segments, large ones by themselves; what came later stays. */
static void purged_objects_give_back_their_space(void **state)
{
	enum { SMALL = 250, LARGE = 4 };
	struct kit k;
	uint64_t full;

	(void)state;
	kit_open(&k, 128 * KIT_MIB);
	for (unsigned i = 0; i < SMALL; i++)
		kit_store(&k, i, 1, 100000);
	for (unsigned i = 0; i < LARGE; i++)
		kit_store(&k, SMALL + i, 1, 3 * KIT_MIB);
	full = kit_disk_bytes_at(k.dir.path);
	assert_true(full > 36 * KIT_MIB);
	purge_everything(&k);
	kit_store(&k, 1000, 1, 1000);
	KIT_WAIT(&k, objects(&k) == 1);
	/* All but the segments that still take entries. */
	KIT_WAIT(&k, kit_disk_bytes_at(k.dir.path) < full - (LARGE * 3 + 12) * KIT_MIB);
	kit_check(&k, 1000, 1, 1000);
	kit_restart(&k, SIGKILL);
	kit_check(&k, 1000, 1, 1000);
	assert_false(kit_has(&k, 0));
	kit_close(&k);
}

/* A rebuild puts them into the index again; nobody serves them, and they are taken out again. */
static void a_rebuild_does_not_bring_them_back_for_good(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	for (unsigned i = 0; i < 20; i++)
		kit_store(&k, i, 1, 3000);
	purge_everything(&k);
	kit_store(&k, 1000, 1, 1000);
	KIT_WAIT(&k, objects(&k) == 1);
	kit_end_node(&k, SIGKILL);
	assert_int_equal(unlinkat(k.dir.fd, FORMAT_INDEX_PATH, 0), 0);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_has(&k, 1000));
	for (unsigned i = 0; i < 20; i++)
		assert_true(!kit_has(&k, i) || kit_purged(&k, i) == CACHE_HARD_PURGED);
	KIT_WAIT(&k, objects(&k) == 1);
	kit_check(&k, 1000, 1, 1000);
	kit_close(&k);
}

/* With this tag alone. Returns its segment. */
static uint32_t store_tagged(struct kit *k, unsigned n, uint64_t tag)
{
	enum { BYTES = 500000 };
	struct cache_key key = kit_key(n);
	uint64_t commits = atomic_load(&k->w.store->commits);
	struct cache_claim *claim = world_own(&k->w, &key);
	struct cache_meta meta = world_meta(claim);
	char *body = kit_body(n, 1, BYTES);
	struct cache_record record = { 0 };
	struct cache_fill *fill;

	meta.tags = &tag;
	meta.tag_count = 1;
	assert_int_equal(cache_fill_begin(&claim, &key, &meta, VIEW(""), WORLD_HEAD, BYTES, &fill), 0);
	assert_int_equal(cache_fill_write(fill, body, BYTES), 0);
	assert_int_equal(cache_fill_finish(fill), 0);
	cache_fill_free(fill);
	free(body);
	KIT_WAIT(k, atomic_load(&k->w.store->commits) > commits);
	assert_int_equal(kit_find(k, n, &record), 0);
	return record.head_segment;
}

/* Until the segment takes no more. Returns the number after the last. */
static unsigned seal(struct kit *k, uint32_t segment, unsigned n, uint64_t tag)
{
	struct shared_segment *sg = &k->w.store->segments[segment % SHARED_SEGMENTS];

	while (store_tagged(k, n++, tag) == segment)
		continue;
	KIT_WAIT(k, atomic_load(&sg->state) == SEGMENT_SEALED);
	return n;
}

/* The replaced lies in an older segment whose log doesn't tell that it was. What replaced it is purged, and alone in its
 * segment: that one has to stay, or the next rebuild would find the older again. */
static void the_replaced_does_not_come_back_when_its_successor_is_purged(void **state)
{
	enum { OTHER = 1, PURGED = 2 };
	struct kit k;
	uint32_t segment;
	unsigned n = 2;

	(void)state;
	kit_open(&k, 128 * KIT_MIB);
	segment = store_tagged(&k, 0, OTHER);
	store_tagged(&k, 1, OTHER);
	n = seal(&k, segment, n, PURGED);
	segment = store_tagged(&k, 0, PURGED);
	n = seal(&k, segment, n, PURGED);
	segment = store_tagged(&k, n++, PURGED);
	n = seal(&k, segment, n, PURGED);
	purge_scope(&k,
		    (struct cache_scope){ .kind = CACHE_SCOPE_TAG, .hash = PURGED, .site_hash = SITE });
	KIT_WAIT(&k, objects(&k) == 1 && shared_segment(k.w.store, segment) == NULL);
	kit_end_node(&k, SIGTERM);
	assert_int_equal(unlinkat(k.dir.fd, FORMAT_INDEX_PATH, 0), 0);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	assert_true(kit_has(&k, 1));
	assert_true(!kit_has(&k, 0) || kit_purged(&k, 0) == CACHE_HARD_PURGED);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_store_that_was_away_learns, setup, teardown),
		cmocka_unit_test_setup_teardown(stores_used_without_each_other_purge_once_more,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_store_that_drops_out_misses_what_follows, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			a_store_that_was_away_when_unsafe_methods_were_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(stores_that_missed_each_others_unsafe_methods,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_new_store_beside_an_old_one, setup, teardown),
		cmocka_unit_test(purged_objects_give_back_their_space),
		cmocka_unit_test(a_rebuild_does_not_bring_them_back_for_good),
		cmocka_unit_test(the_replaced_does_not_come_back_when_its_successor_is_purged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
