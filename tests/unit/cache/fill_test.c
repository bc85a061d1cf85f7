/* Fills: every size and way of writing comes out as it went in; what is refused or broken leaves nothing. */
#include "tests/unit/cache/world.h"

/* Sizes around each border of a store of 64 MiB: 16 KiB (page), 64 KiB (stage), 1 MiB (segment, chunk). */
static const size_t sizes[] = { 0,	 1,	  1000,	   16383,   16384,
				16385,	 65535,	  65536,   65537,   100000,
				1048575, 1048576, 1048577, 2097152, 3 * 1048576 + 17 };

static void write_in_steps(struct cache_fill *fill, const char *body, size_t n, size_t step)
{
	for (size_t at = 0; at < n; at += step)
		assert_int_equal(cache_fill_write(fill, body + at, n - at < step ? n - at : step), 0);
}

static void test_written_bodies_of_all_sizes(void **state)
{
	struct world w;
	char path[32];

	(void)state;
	world_open(&w);
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		char *body = world_body(sizes[i]);

		for (unsigned known = 0; known < 2; known++) {
			struct cache_key key;
			struct cache_fill *fill;

			snprintf(path, sizeof(path), "/%u/%u", i, known);
			key = world_key(path);
			fill = world_begin(&w, &key, known ? (int64_t)sizes[i] : CACHE_LENGTH_UNKNOWN);
			write_in_steps(fill, body, sizes[i], 30011);
			assert_int_equal(cache_fill_ready(fill), sizes[i]);
			assert_int_equal(cache_fill_finish(fill), 0);
			cache_fill_free(fill);
			assert_int_equal(world_keep(&w), 1);
			world_check(&w, &key, body, sizes[i]);
		}
		free(body);
	}
	assert_int_equal(cache_claims_held(w.shared), 0);
	assert_int_equal(atomic_load(&w.store->entries_bad), 0);
	world_close(&w);
}

static void splice_all(struct cache_fill *fill, const char *body, size_t n)
{
	size_t put = 0, taken = 0;
	int fds[2];

	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	while (taken < n) {
		size_t step = n - put < 50000 ? n - put : 50000;
		ssize_t in = step > 0 ? write(fds[1], body + put, step) : 0;
		int64_t out;

		put += in > 0 ? (size_t)in : 0;
		out = cache_fill_splice(fill, fds[0], 1 << 20);
		assert_true(out > 0);
		taken += (size_t)out;
	}
	assert_int_equal(cache_fill_splice(fill, fds[0], 1), -EAGAIN); /* empty: not an error */
	close(fds[0]);
	close(fds[1]);
}

static void splice_once(struct cache_fill *fill, const char *body, size_t n)
{
	size_t taken = 0;
	int fds[2];

	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	while (taken < n) {
		ssize_t in = write(fds[1], body + taken, n - taken < 60000 ? n - taken : 60000);

		assert_true(in > 0);
		while (in > 0) {
			int64_t out = cache_fill_splice(fill, fds[0], (size_t)in);

			assert_true(out > 0);
			taken += (size_t)out;
			in -= out;
		}
	}
	close(fds[0]);
	close(fds[1]);
}

static void splice_bodies(bool known,
			  void (*splice)(struct cache_fill *fill, const char *body, size_t n))
{
	struct world w;
	char path[32];

	world_open(&w);
	for (unsigned i = known ? 0 : 1; i < ARRAY_LEN(sizes); i++) {
		char *body = world_body(sizes[i]);
		struct cache_key key;
		struct cache_fill *fill;

		snprintf(path, sizeof(path), "/%u", i);
		key = world_key(path);
		fill = world_begin(&w, &key, known ? (int64_t)sizes[i] : CACHE_LENGTH_UNKNOWN);
		splice(fill, body, sizes[i]);
		assert_int_equal(cache_fill_finish(fill), 0);
		cache_fill_free(fill);
		assert_int_equal(world_keep(&w), 1);
		world_check(&w, &key, body, sizes[i]);
		free(body);
	}
	world_close(&w);
}

static void test_spliced_bodies_of_all_sizes(void **state)
{
	(void)state;
	splice_bodies(false, splice_all);
}

static void test_spliced_with_known_length(void **state)
{
	(void)state;
	splice_bodies(true, splice_once);
}

/* Head, meta and texts come back as they were given. */
static void test_the_head_comes_back(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	const struct cache_object *o;

	(void)state;
	world_open(&w);
	world_store(&w, &key, "hello", 5, true);
	assert_int_equal(world_open_object(&w, &key, &o), 0);
	assert_true(view_eq(o->head, WORLD_HEAD));
	assert_true(view_eq(o->body, VIEW("hello")));
	assert_int_equal(o->meta.status, 200);
	assert_int_equal(o->meta.received.ms, 1700000000000);
	assert_int_equal(o->meta.lifetime_ms, 60000);
	assert_int_equal(o->meta.site_hash, SITE);
	assert_true(view_eq(o->meta.etag, VIEW("\"v1\"")));
	assert_true(view_eq(o->meta.url, VIEW("http://shop.example/a")));
	assert_int_equal(o->meta.tag_count, 2);
	assert_int_equal(o->meta.tags[1], 1002);
	cache_object_unref(o);
	world_close(&w);
}

/* Bodies over 16 KiB begin on a page. */
static void test_larger_bodies_begin_on_a_page(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	char *body = world_body(20000);
	const struct cache_object *o;

	(void)state;
	world_open(&w);
	for (unsigned i = 0; i < 3; i++) {
		world_store(&w, &key, body, 20000, i != 0);
		assert_int_equal(world_open_object(&w, &key, &o), 0);
		assert_int_equal(o->record.body_offset % 4096, 0);
		assert_true(o->record.body_offset - o->record.head_offset - o->record.head_bytes < 8);
		cache_object_unref(o);
	}
	free(body);
	world_close(&w);
}

static void test_readers_follow_a_fill(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	size_t n = 3 << 20, half = n / 2 + 7;
	char *body = world_body(n), *got = malloc(n);
	struct cache_fill *fill;
	struct cache_reader reader = { 0 };
	uint64_t at = 0;

	(void)state;
	world_open(&w);
	fill = world_begin(&w, &key, CACHE_LENGTH_UNKNOWN);
	assert_int_equal(cache_fill_write(fill, body, 1000), 0);
	while (at < n) {
		struct cache_span span;
		const char *memory;
		unsigned before = w.woken;
		int e;

		if (at == 1000)
			assert_int_equal(cache_fill_write(fill, body + 1000, half - 1000), 0);
		if (at == half)
			assert_int_equal(cache_fill_write(fill, body + half, n - half), 0);
		if (at == half)
			assert_int_equal(cache_fill_finish(fill), 0);
		e = cache_fill_body(fill, &reader, at, &w.wake, &span, &memory);
		if (e == -EINPROGRESS) {
			world_wait(&w, before);
			continue;
		}
		assert_int_equal(e, 0);
		if (memory != NULL)
			memcpy(got + at, memory, span.bytes);
		else
			assert_int_equal(pread(span.fd, got + at, span.bytes, (off_t)span.offset),
					 span.bytes);
		at += span.bytes;
	}
	assert_memory_equal(got, body, n);
	cache_reader_fini(&reader);
	cache_fill_free(fill);
	assert_int_equal(world_keep(&w), 1);
	world_check(&w, &key, body, n);
	free(body);
	free(got);
	world_close(&w);
}

/* A body that is not what was announced is never committed. */
static void test_length_is_proved(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_fill *fill;

	(void)state;
	world_open(&w);
	fill = world_begin(&w, &key, 10);
	assert_int_equal(cache_fill_write(fill, "short", 5), 0);
	assert_int_equal(cache_fill_finish(fill), -EINVAL);
	cache_fill_free(fill);
	fill = world_begin(&w, &key, 3);
	assert_int_equal(cache_fill_write(fill, "long", 4), -EFBIG);
	assert_int_equal(cache_fill_finish(fill), -EFBIG);
	cache_fill_free(fill);
	assert_int_equal(world_keep(&w), 0);
	assert_int_equal(cache_claims_held(w.shared), 0);
	world_close(&w);
}

static void test_an_unfinished_fill_is_aborted_when_it_is_freed(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_record r;
	struct cache_fill *fill;
	struct cache_wait wait = { 0 };
	struct cache_claim *none = NULL;

	(void)state;
	world_open(&w);
	fill = world_begin(&w, &key, 100);
	assert_int_equal(cache_fill_write(fill, "abc", 3), 0);
	assert_int_equal(world_claim(&w, &key, &wait, &none), CACHE_CLAIM_WAIT);
	assert_int_equal(cache_claims_held(w.shared), 1);
	cache_fill_free(fill);
	world_wait(&w, 0);
	assert_int_equal(cache_claims_held(w.shared), 0);
	assert_int_equal(cache_find(w.cache, &key, &r), -ENOENT);
	world_close(&w);
}

/* --- refusals ------------------------------------------------------------------------------------- */

static int begin_anew(struct world *w, int64_t body_bytes)
{
	struct cache_key key = world_key("/refused");
	struct cache_claim *claim = world_own(w, &key);
	struct cache_meta meta = world_meta(claim);
	struct cache_fill *fill;
	int e = cache_fill_begin(&claim, &key, &meta, VIEW(""), WORLD_HEAD, body_bytes, &fill);

	assert_null(claim);
	if (e == 0)
		cache_fill_free(fill);
	return e;
}

static void test_what_cannot_be_stored_is_refused_and_lets_go_of_its_claim(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	assert_int_equal(begin_anew(&w, WORLD_BYTES), -EFBIG);
	atomic_store(&w.store->unsynced_bytes, (int64_t)w.store->unsynced_limit_bytes + 1);
	assert_int_equal(begin_anew(&w, 10), -EAGAIN);
	atomic_store(&w.store->unsynced_bytes, 0);
	atomic_store(&w.store->open[0], 0);
	atomic_store(&w.store->open[1], 0);
	assert_int_equal(begin_anew(&w, 100000), -EAGAIN);
	atomic_store(&w.store->free_bytes, 1000);
	assert_int_equal(begin_anew(&w, 3 << 20), -ENOSPC);
	assert_int_equal(atomic_load(&w.store->wanted_bytes), w.store->chunk_bytes);
	assert_int_equal(cache_claims_held(w.shared), 0);
	assert_int_equal(atomic_load(&w.store->fills_refused), 4);
	world_close(&w);
}

static void test_a_superseded_claim_fills_nothing(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_scope scope = cache_scope_all();
	struct cache_claim *old, *fresh;
	struct cache_meta meta;
	struct cache_fill *fill;

	(void)state;
	world_open(&w);
	old = world_own(&w, &key);
	purge_clock_raise(w.shared, &scope, false, 1);
	purge_clock_publish(w.shared, 1);
	fresh = world_own(&w, &key);
	meta = world_meta(old);
	assert_int_equal(cache_fill_begin(&old, &key, &meta, VIEW(""), WORLD_HEAD, 10, &fill), -EAGAIN);
	cache_claim_drop(&fresh);
	assert_int_equal(cache_claims_held(w.shared), 0);
	world_close(&w);
}

/* Segments: a worker that finds its own full goes to the next, tells the keeper, and at the end of all relays. */
static void test_segments_fill_up(void **state)
{
	struct world w;
	size_t n = 900000;
	char *body = world_body(n);
	unsigned stored = 0;
	char path[32];

	(void)state;
	world_open(&w);
	for (unsigned i = 0; i < 20; i++) {
		struct cache_key key;

		snprintf(path, sizeof(path), "/%u", i);
		key = world_key(path);
		if (begin_anew(&w, (int64_t)n) < 0)
			break;
		world_store(&w, &key, body, n, true);
		world_check(&w, &key, body, n);
		stored++;
	}
	/* Two segments of 4 MiB; each begin_anew wastes as much as is stored. */
	assert_int_equal(stored, 4);
	assert_int_equal(atomic_load(&w.store->segments[1].state), SEGMENT_FULL);
	world_segment(&w, 2);
	assert_int_equal(begin_anew(&w, (int64_t)n), 0);
	free(body);
	world_close(&w);
}

static void test_a_closed_segment_takes_nothing_and_names_its_claims(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_fill *fill;
	uint32_t id, offset;

	(void)state;
	world_open(&w);
	id = atomic_load(&w.store->open[0]);
	fill = world_begin(&w, &key, 100000);
	assert_true(shared_segment_close(shared_segment(w.store, id)) > 100000);
	assert_true(claim_segment_busy(w.shared, 0, id));
	assert_int_equal(shared_segment_reserve(w.store, id, 10, 8, 0, &offset), -ESTALE);
	cache_fill_free(fill);
	assert_false(claim_segment_busy(w.shared, 0, id));
	world_close(&w);
}

/* --- room ------------------------------------------------------------------------------------------ */

static void test_unsynced_bytes_slow_a_fill_and_then_end_it(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	int64_t limit;
	struct cache_fill *fill;
	unsigned before;

	(void)state;
	world_open(&w);
	limit = (int64_t)w.store->unsynced_limit_bytes;
	fill = world_begin(&w, &key, 1000000);
	assert_int_equal(cache_fill_room(fill, &w.wake), 1000000);
	atomic_store(&w.store->unsynced_bytes, limit / 2 + 1);
	for (unsigned i = 0; i < 3; i++) {
		before = w.woken;
		assert_int_equal(cache_fill_room(fill, &w.wake), 0);
		world_wait(&w, before);
		assert_in_range(cache_fill_room(fill, &w.wake), 1, 1 << 18);
	}
	atomic_store(&w.store->unsynced_bytes, 0);
	assert_int_equal(cache_fill_room(fill, &w.wake), 1000000);
	atomic_store(&w.store->unsynced_bytes, limit + 1);
	assert_int_equal(cache_fill_room(fill, &w.wake), -EAGAIN);
	assert_int_equal(cache_fill_write(fill, "x", 1), -EAGAIN);
	cache_fill_abort(fill);
	cache_fill_free(fill);
	world_close(&w);
}

static void test_a_full_store_is_waited_for(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	char *body = world_body(2 << 20);
	struct cache_fill *fill;
	int64_t room;
	unsigned before = 0;

	(void)state;
	world_open(&w);
	atomic_store(&w.store->free_bytes, 1 << 20);
	fill = world_begin(&w, &key, 2 << 20);
	room = cache_fill_room(fill, &w.wake);
	assert_int_equal(room, 1 << 20);
	assert_int_equal(cache_fill_write(fill, body, (size_t)room), 0);
	assert_int_equal(cache_fill_room(fill, &w.wake), 0);
	assert_int_equal(atomic_load(&w.store->wanted_bytes), 1 << 20);
	world_wait(&w, before);
	atomic_fetch_add(&w.store->free_bytes, 4 << 20); /* the keeper evicted */
	assert_int_equal(cache_fill_room(fill, &w.wake), 1 << 20);
	assert_int_equal(cache_fill_write(fill, body + room, 1 << 20), 0);
	assert_int_equal(cache_fill_room(fill, &w.wake), 0);
	assert_int_equal(cache_fill_finish(fill), 0);
	cache_fill_free(fill);
	assert_int_equal(world_keep(&w), 1);
	world_check(&w, &key, body, 2 << 20);
	assert_int_equal(atomic_load(&w.store->free_bytes), 3 << 20);
	free(body);
	world_close(&w);
}

/* Of unknown length, a last chunk that isn't full gives back what it didn't need. */
static void test_an_unknown_length_draws_what_it_used(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	char *body = world_body(1500000);
	int64_t before;

	(void)state;
	world_open(&w);
	before = atomic_load(&w.store->free_bytes);
	world_store(&w, &key, body, 1500000, false);
	assert_int_equal(atomic_load(&w.store->free_bytes), before - 1500000);
	free(body);
	world_close(&w);
}

static void test_a_store_that_goes_away_ends_the_fill(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_fill *fill;

	(void)state;
	world_open(&w);
	fill = world_begin(&w, &key, 100);
	shared_store_fail(w.shared, 0, REASON_SYNC, EIO);
	assert_string_equal(shared_store_state_text(w.store), "failed: can't be synced");
	assert_int_equal(cache_fill_room(fill, &w.wake), -EAGAIN);
	cache_fill_free(fill);
	world_close(&w);
}

static void test_nothing_is_finished_after_storing_stopped(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_fill *fill;

	(void)state;
	world_open(&w);
	fill = world_begin(&w, &key, 3);
	assert_int_equal(cache_fill_write(fill, "abc", 3), 0);
	cache_stop_storing(w.cache);
	assert_int_equal(cache_fill_finish(fill), -EAGAIN);
	cache_fill_free(fill);
	assert_int_equal(cache_claims_held(w.shared), 0);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_bodies_of_all_sizes),
		cmocka_unit_test(test_spliced_bodies_of_all_sizes),
		cmocka_unit_test(test_spliced_with_known_length),
		cmocka_unit_test(test_the_head_comes_back),
		cmocka_unit_test(test_larger_bodies_begin_on_a_page),
		cmocka_unit_test(test_readers_follow_a_fill),
		cmocka_unit_test(test_length_is_proved),
		cmocka_unit_test(test_an_unfinished_fill_is_aborted_when_it_is_freed),
		cmocka_unit_test(test_what_cannot_be_stored_is_refused_and_lets_go_of_its_claim),
		cmocka_unit_test(test_a_superseded_claim_fills_nothing),
		cmocka_unit_test(test_segments_fill_up),
		cmocka_unit_test(test_a_closed_segment_takes_nothing_and_names_its_claims),
		cmocka_unit_test(test_unsynced_bytes_slow_a_fill_and_then_end_it),
		cmocka_unit_test(test_a_full_store_is_waited_for),
		cmocka_unit_test(test_an_unknown_length_draws_what_it_used),
		cmocka_unit_test(test_a_store_that_goes_away_ends_the_fill),
		cmocka_unit_test(test_nothing_is_finished_after_storing_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
