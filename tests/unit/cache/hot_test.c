/* Hot objects: who comes in, who goes, that nothing but the very object is found, and how much there can be. */
#include "tests/unit/cache/world.h"

#include "cache/hot.h"
#include "cache/object.h"

/* An object as if it had been read and hit before; head_bytes has the whole entry, and nothing lies behind it. */
static struct cache_object *object_of(struct world *w, const struct cache_key *key, uint64_t id,
				      uint32_t bytes)
{
	const struct cache_record r = {
		.kind = CACHE_RECORD_OBJECT,
		.object_id = id,
		.body_id = id,
		.head_segment = 1,
		.head_bytes = bytes,
	};
	struct cache_object *o = object_new(w->cache, key, &r, bytes);

	assert_non_null(o);
	memset(object_entry(o), 'e', bytes);
	cache_object_hit(o);
	return o;
}

/* Keys of one set, or of as many as there are. */
static struct cache_key key_of(uint32_t set, uint32_t number)
{
	struct cache_key key = { .secondary = 0 };

	memcpy(key.primary + 4, &number, sizeof(number));
	memcpy(key.primary + 8, &number, sizeof(number));
	memcpy(key.primary + 12, &set, sizeof(set));
	return key;
}

/* Offers an object of that key; the caller's own reference goes at once. */
static void offer(struct world *w, const struct cache_key *key, uint64_t id, uint32_t bytes)
{
	struct cache_object *o = object_of(w, key, id, bytes);

	hot_offer(w->cache->hot, o);
	cache_object_unref(o);
}

static bool is_there(struct world *w, const struct cache_key *key, uint64_t id, uint32_t bytes)
{
	struct cache_object *wanted = object_of(w, key, id, bytes);
	struct cache_object *o = hot_find(w->cache->hot, key, &wanted->record);

	if (o != NULL)
		assert_int_equal(o->record.object_id, id);
	cache_object_unref(wanted);
	cache_object_unref(o);
	return o != NULL;
}

/* --- in the table ------------------------------------------------------------------------------------------ */

static void test_who_was_never_hit_stays_out(void **state)
{
	struct world w;
	struct cache_key key = key_of(1, 1);
	const struct cache_record r = { .kind = CACHE_RECORD_OBJECT, .body_id = 3, .head_bytes = 300 };
	struct cache_object *o;

	(void)state;
	world_open(&w);
	o = object_new(w.cache, &key, &r, 300);
	hot_offer(w.cache->hot, o);
	assert_null(hot_find(w.cache->hot, &key, &r));
	cache_object_hit(o);
	hot_offer(w.cache->hot, o);
	assert_ptr_equal(hot_find(w.cache->hot, &key, &r), o);
	cache_object_unref(o);
	cache_object_unref(o);
	world_close(&w);
}

/* Each member of the record, and of the key, tells an object from another. */
static void test_only_the_very_object_is_found(void **state)
{
	const struct cache_record r = { .kind = CACHE_RECORD_OBJECT,
					.object_id = 7,
					.body_id = 7,
					.head_segment = 1,
					.head_bytes = 300 };
	struct cache_record other[18];
	struct cache_key key = key_of(1, 1), variant = key, kept = key;
	struct world w;
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < ARRAY_LEN(other); i++)
		other[i] = r;
	other[n++].kind = CACHE_RECORD_VARY;
	other[n++].store++;
	other[n++].status++;
	other[n++].flags++;
	other[n++].object_id++;
	other[n++].birth++;
	other[n++].body_id++;
	other[n++].head_segment++;
	other[n++].head_offset++;
	other[n++].head_bytes++;
	other[n++].body_segment++;
	other[n++].body_offset++;
	other[n++].body_bytes++;
	other[n++].received.ms++;
	other[n++].initial_age_ms++;
	other[n++].lifetime_ms++;
	other[n++].stale_while_revalidate_s++;
	other[n++].stale_if_error_s++;
	assert_int_equal(n, ARRAY_LEN(other));
	world_open(&w);
	for (unsigned i = 0; i < n; i++) {
		offer(&w, &key, 7, 300);
		assert_true(w.cache->hot->bytes > 300);
		assert_null(hot_find(w.cache->hot, &key, &other[i]));
		/* There is another record: what was here can't be found any more. */
		assert_int_equal(w.cache->hot->bytes, 0);
	}
	offer(&w, &key, 7, 300);
	variant.secondary = 5;
	kept.base = 5;
	assert_null(hot_find(w.cache->hot, &variant, &r));
	assert_null(hot_find(w.cache->hot, &kept, &r));
	assert_true(is_there(&w, &key, 7, 300));
	world_close(&w);
}

static void test_the_newer_of_a_key_replaces_the_older(void **state)
{
	struct cache_key key = key_of(1, 1);
	struct world w;

	(void)state;
	world_open(&w);
	offer(&w, &key, 7, 300);
	offer(&w, &key, 8, 400);
	assert_true(is_there(&w, &key, 8, 400));
	assert_int_equal(w.cache->hot->bytes, w.cache->hot->sets[1].bytes);
	assert_false(is_there(&w, &key, 7, 300));
	assert_int_equal(w.cache->hot->bytes, 0);
	world_close(&w);
}

static void test_a_scan_takes_one_place(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	for (uint32_t i = 0; i < HOT_WAYS; i++) {
		struct cache_key key = key_of(3, i);

		offer(&w, &key, i + 1, 300);
		assert_true(i == 0 || is_there(&w, &key, i + 1, 300));
	}
	for (uint32_t i = 100; i < 1100; i++) {
		struct cache_key key = key_of(3, i);

		offer(&w, &key, i, 300);
	}
	for (uint32_t i = 0; i < HOT_WAYS; i++) {
		struct cache_key key = key_of(3, i);

		assert_int_equal(is_there(&w, &key, i + 1, 300), i != 0);
	}
	world_close(&w);
}

/* Where all are used, the next comer marks them unused, and the one after that comes in for who wasn't found since. */
static void test_who_is_no_longer_found_goes(void **state)
{
	struct cache_key late = key_of(3, 50);
	struct world w;

	(void)state;
	world_open(&w);
	for (uint32_t i = 0; i < HOT_WAYS; i++) {
		struct cache_key key = key_of(3, i);

		offer(&w, &key, i + 1, 300);
		assert_true(is_there(&w, &key, i + 1, 300));
	}
	offer(&w, &late, 50, 300);
	assert_false(is_there(&w, &late, 50, 300));
	for (uint32_t i = 0; i < HOT_WAYS; i++) {
		struct cache_key key = key_of(3, i);

		assert_true(i == 5 || is_there(&w, &key, i + 1, 300));
	}
	offer(&w, &late, 50, 300);
	assert_true(is_there(&w, &late, 50, 300));
	for (uint32_t i = 0; i < HOT_WAYS; i++) {
		struct cache_key key = key_of(3, i);

		assert_int_equal(is_there(&w, &key, i + 1, 300), i != 5);
	}
	world_close(&w);
}

static void test_memory_is_bounded(void **state)
{
	const uint64_t most = (uint64_t)HOT_SETS * HOT_SET_BYTES;
	struct cache_key huge = key_of(0, 1 << 20);
	uint64_t total = 0;
	struct world w;

	(void)state;
	world_open(&w);
	for (uint32_t i = 0; i < HOT_SETS * HOT_WAYS * 2; i++) {
		struct cache_key key = key_of(i % HOT_SETS, i);

		offer(&w, &key, i + 1, i % 3 == 0 ? 20000 : 15000);
		assert_true(w.cache->hot->bytes <= most);
	}
	for (unsigned i = 0; i < HOT_SETS; i++) {
		assert_in_range(w.cache->hot->sets[i].bytes, HOT_SET_BYTES / 2, HOT_SET_BYTES);
		total += w.cache->hot->sets[i].bytes;
	}
	assert_int_equal(total, w.cache->hot->bytes);
	offer(&w, &huge, 1 << 20, HOT_SET_BYTES);
	assert_false(is_there(&w, &huge, 1 << 20, HOT_SET_BYTES));
	world_close(&w);
}

static void test_a_held_object_outlives_its_place(void **state)
{
	struct cache_key key = key_of(3, 1);
	struct cache_object *o;
	struct world w;

	(void)state;
	world_open(&w);
	o = object_of(&w, &key, 7, 300);
	hot_offer(w.cache->hot, o);
	hot_forget(w.cache->hot, 0);
	assert_int_equal(w.cache->hot->bytes, 0);
	assert_memory_equal(object_entry(o), "eee", 3);
	cache_object_unref(o);
	world_close(&w);
}

static void test_a_store_is_forgotten_alone(void **state)
{
	struct cache_key key = key_of(3, 1);
	struct world w;

	(void)state;
	world_open(&w);
	offer(&w, &key, 7, 300);
	hot_forget(w.cache->hot, 1);
	assert_true(is_there(&w, &key, 7, 300));
	hot_forget(w.cache->hot, 0);
	assert_false(is_there(&w, &key, 7, 300));
	world_close(&w);
}

/* --- under cache_object_open ----------------------------------------------------------------------------------- */

/* A whole hit, as a request makes it. Returns whether it was found in memory. */
static bool hit(struct world *w, const struct cache_key *key, const char *body, size_t n)
{
	uint64_t before = w->cache->hot->hits;
	const struct cache_object *o;

	assert_int_equal(world_open_object(w, key, &o), 0);
	assert_int_equal(cache_object_purged(o, 1), CACHE_NOT_PURGED);
	world_read(w, o, body, n);
	cache_object_hit(o);
	cache_object_unref(o);
	return w->cache->hot->hits != before;
}

static char *segment_path(const struct cache_record *r, char out[FORMAT_PATH_MAX])
{
	format_segment_path(r->head_segment, out);
	return out;
}

static void damage(struct world *w, const struct cache_record *r)
{
	char path[FORMAT_PATH_MAX];
	int fd = openat(w->conf.stores[0].dir_fd, segment_path(r, path), O_RDWR);

	assert_int_equal(pwrite(fd, "damaged", 7, r->head_offset + 20), 7);
	close(fd);
}

static void test_the_third_hit_reads_no_file(void **state)
{
	static const size_t sizes[] = { 0, 1, 1000, 16384 };
	struct world w;

	(void)state;
	world_open(&w);
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		char path[8], *body = world_body(sizes[i]);
		struct cache_record r;
		struct cache_key key;

		snprintf(path, sizeof(path), "/%u", i);
		key = world_key(path);
		world_store(&w, &key, body, sizes[i], true);
		assert_false(hit(&w, &key, body, sizes[i]));
		assert_false(hit(&w, &key, body, sizes[i]));
		assert_true(hit(&w, &key, body, sizes[i]));
		assert_int_equal(cache_find(w.cache, &key, &r), 0);
		damage(&w, &r);
		assert_true(hit(&w, &key, body, sizes[i]));
		free(body);
	}
	world_close(&w);
}

static void test_of_a_large_body_the_head_comes_in(void **state)
{
	static const size_t sizes[] = { 16385, 700000, 3000000 };
	struct world w;

	(void)state;
	world_open(&w);
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		char path[8], *body = world_body(sizes[i]);
		struct cache_record r;
		struct cache_key key;

		snprintf(path, sizeof(path), "/%u", i);
		key = world_key(path);
		world_store(&w, &key, body, sizes[i], true);
		assert_false(hit(&w, &key, body, sizes[i]));
		assert_false(hit(&w, &key, body, sizes[i]));
		assert_true(hit(&w, &key, body, sizes[i]));
		assert_int_equal(cache_find(w.cache, &key, &r), 0);
		damage(&w, &r);
		assert_true(hit(&w, &key, body, sizes[i]));
		free(body);
	}
	assert_true(w.cache->hot->bytes < sizes[0]);
	world_close(&w);
}

/* What is kept holds no file open: an eviction between lookup and body is a miss. */
static void test_a_large_body_is_opened_by_name(void **state)
{
	enum { BYTES = 700000 };
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_reader reader = { 0 };
	const struct cache_object *o;
	struct cache_span span;
	char *body = world_body(BYTES), path[FORMAT_PATH_MAX];
	unsigned before;
	int e;

	(void)state;
	world_open(&w);
	world_store(&w, &key, body, BYTES, true);
	assert_false(hit(&w, &key, body, BYTES));
	assert_false(hit(&w, &key, body, BYTES));
	assert_int_equal(world_open_object(&w, &key, &o), 0);
	assert_int_equal(unlinkat(w.conf.stores[0].dir_fd, segment_path(&o->record, path), 0), 0);
	files_expect_unlinks(&w.cache->files);
	for (unsigned i = 0; i < 10; i++)
		files_sweep(&w.cache->files);
	do {
		before = w.woken;
		e = cache_object_body(o, &reader, 0, &w.wake, &span);
		if (e == -EINPROGRESS)
			world_wait(&w, before);
	} while (e == -EINPROGRESS);
	assert_int_equal(e, -ENOENT);
	cache_reader_fini(&reader);
	cache_object_unref(o);
	free(body);
	world_close(&w);
}

static void test_a_damaged_entry_never_comes_in(void **state)
{
	struct cache_key key = world_key("/a");
	const struct cache_object *o;
	struct cache_record r;
	struct world w;

	(void)state;
	world_open(&w);
	world_store(&w, &key, "hello", 5, true);
	assert_false(hit(&w, &key, "hello", 5));
	assert_int_equal(cache_find(w.cache, &key, &r), 0);
	damage(&w, &r);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(world_open_object(&w, &key, &o), -ENOENT);
	assert_int_equal(w.cache->hot->bytes, 0);
	world_close(&w);
}

/* Evicted, out of service, replaced: what the index says decides, whatever is remembered. */
static void test_the_index_decides(void **state)
{
	struct cache_key key = world_key("/a");
	const struct cache_object *o;
	struct cache_record r;
	struct world w;

	(void)state;
	world_open(&w);
	world_store(&w, &key, "hello", 5, true);
	for (unsigned i = 0; i < 3; i++)
		(void)hit(&w, &key, "hello", 5);
	assert_true(hit(&w, &key, "hello", 5));
	atomic_store(&w.store->state, STORE_OUT);
	assert_int_equal(world_open_object(&w, &key, &o), -ENOENT);
	atomic_store(&w.store->state, STORE_OPEN);
	world_store(&w, &key, "world", 5, true);
	assert_false(hit(&w, &key, "world", 5));
	assert_false(hit(&w, &key, "world", 5));
	assert_true(hit(&w, &key, "world", 5));
	assert_int_equal(cache_find(w.cache, &key, &r), 0);
	atomic_store(&w.store->segments[r.head_segment].state, SEGMENT_DEAD);
	assert_int_equal(world_open_object(&w, &key, &o), -ENOENT);
	world_close(&w);
}

static void test_a_purge_reaches_it(void **state)
{
	struct cache_key key = world_key("/a");
	const struct cache_object *o, *again;
	struct cache_scope scope = cache_scope_url(key.primary);
	struct world w;

	(void)state;
	world_open(&w);
	world_store(&w, &key, "hello", 5, true);
	for (unsigned i = 0; i < 3; i++)
		(void)hit(&w, &key, "hello", 5);
	assert_int_equal(world_open_object(&w, &key, &o), 0);
	purge_clock_raise(w.shared, &scope, true, 5);
	purge_clock_publish(w.shared, 5);
	assert_int_equal(cache_object_purged(o, 1), CACHE_SOFT_PURGED);
	purge_clock_raise(w.shared, &scope, false, 6);
	purge_clock_publish(w.shared, 6);
	assert_int_equal(world_open_object(&w, &key, &again), 0);
	assert_ptr_equal(again, o);
	assert_int_equal(cache_object_purged(again, 1), CACHE_HARD_PURGED);
	cache_object_unref(again);
	cache_object_unref(o);
	world_close(&w);
}

/* The keeper put another index in place: the store may have been wiped, and ids and places may come again. */
static void test_another_index_forgets_all(void **state)
{
	struct cache_key key = world_key("/a");
	struct cache_record r;
	struct world w;

	(void)state;
	world_open(&w);
	world_store(&w, &key, "hello", 5, true);
	for (unsigned i = 0; i < 3; i++)
		(void)hit(&w, &key, "hello", 5);
	assert_true(w.cache->hot->bytes > 0);
	/* As a worker of its own process: the handle is its own, and is found to be old. */
	index_close(&w.index);
	w.cache->stores[0].index = NULL;
	w.cache->stores[0].index_borrowed = false;
	atomic_fetch_add(&w.store->index_generation, 1);
	assert_int_equal(cache_find(w.cache, &key, &r), 0);
	assert_int_equal(w.cache->hot->bytes, 0);
	assert_false(hit(&w, &key, "hello", 5));
	assert_true(hit(&w, &key, "hello", 5));
	world_close(&w);
}

/* Nobody asks for it here, and the table belongs to workers. */
static void test_the_keeper_has_none(void **state)
{
	struct cache *keeper;
	struct world w;

	(void)state;
	world_open(&w);
	assert_int_equal(cache_attach_keeper(w.shared, &w.conf, w.loop, &keeper), 0);
	assert_null(keeper->hot);
	cache_detach(keeper);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_was_never_hit_stays_out),
		cmocka_unit_test(test_only_the_very_object_is_found),
		cmocka_unit_test(test_the_newer_of_a_key_replaces_the_older),
		cmocka_unit_test(test_a_scan_takes_one_place),
		cmocka_unit_test(test_who_is_no_longer_found_goes),
		cmocka_unit_test(test_memory_is_bounded),
		cmocka_unit_test(test_a_held_object_outlives_its_place),
		cmocka_unit_test(test_a_store_is_forgotten_alone),
		cmocka_unit_test(test_the_third_hit_reads_no_file),
		cmocka_unit_test(test_of_a_large_body_the_head_comes_in),
		cmocka_unit_test(test_a_large_body_is_opened_by_name),
		cmocka_unit_test(test_a_damaged_entry_never_comes_in),
		cmocka_unit_test(test_the_index_decides),
		cmocka_unit_test(test_a_purge_reaches_it),
		cmocka_unit_test(test_another_index_forgets_all),
		cmocka_unit_test(test_the_keeper_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
