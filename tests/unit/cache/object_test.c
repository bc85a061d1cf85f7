/* Stored objects: only what the record names is served, whatever lies on the disk; cold bytes come by a thread. */
#include "tests/unit/cache/world.h"

#include <sys/wait.h>

static struct cache_record find(struct world *w, const struct cache_key *key)
{
	struct cache_record r;

	assert_int_equal(cache_find(w->cache, key, &r), 0);
	return r;
}

static int open_as(struct world *w, const struct cache_key *key, const struct cache_record *r)
{
	struct cache_read *pending = NULL;
	const struct cache_object *o = NULL;
	int e;

	for (;;) {
		unsigned before = w->woken;

		e = cache_object_open(w->cache, key, r, &w->wake, &pending, &o);
		if (e != -EINPROGRESS)
			break;
		world_wait(w, before);
	}
	if (e == 0)
		cache_object_unref(o);
	return e;
}

static void scribble(struct world *w, uint32_t segment, uint64_t offset)
{
	char path[FORMAT_PATH_MAX], byte;
	int fd;

	format_segment_path(segment, path);
	fd = openat(w->conf.stores[0].dir_fd, path, O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
	close(fd);
}

static void test_damage_in_the_entry_is_a_miss(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_record r;

	(void)state;
	world_open(&w);
	world_store(&w, &key, "hello", 5, true);
	r = find(&w, &key);
	for (uint32_t at = 0; at < r.head_bytes; at += 13) {
		scribble(&w, r.head_segment, r.head_offset + at);
		assert_int_equal(open_as(&w, &key, &r), -ENOENT);
		scribble(&w, r.head_segment, r.head_offset + at);
	}
	assert_int_equal(open_as(&w, &key, &r), 0);
	assert_int_equal(atomic_load(&w.store->entries_bad), (r.head_bytes + 12) / 13);
	world_close(&w);
}

/* An index that points at another entry, however whole, must not be believed. */
static void test_a_record_that_points_elsewhere_is_a_miss(void **state)
{
	struct world w;
	struct cache_key a = world_key("/a"), b = world_key("/b"), variant = a;
	struct cache_record ra, rb, r;

	(void)state;
	world_open(&w);
	world_store(&w, &a, "aaaaa", 5, true);
	world_store(&w, &b, "bbbbb", 5, true);
	ra = find(&w, &a);
	rb = find(&w, &b);
	assert_int_equal(open_as(&w, &a, &rb), -ENOENT);
	variant.secondary = 3;
	assert_int_equal(open_as(&w, &variant, &ra), -ENOENT);
	r = ra;
	r.object_id++;
	assert_int_equal(open_as(&w, &a, &r), -ENOENT);
	r = ra;
	r.body_bytes = 1 << 30;
	assert_int_equal(open_as(&w, &a, &r), -ENOENT);
	r = ra;
	r.head_bytes = 7;
	assert_int_equal(open_as(&w, &a, &r), -ENOENT);
	r = ra;
	r.head_bytes = UINT32_MAX;
	assert_int_equal(open_as(&w, &a, &r), -ENOENT);
	r = ra;
	r.head_offset = UINT32_MAX - 100;
	assert_int_equal(open_as(&w, &a, &r), -ENOENT);
	r = ra;
	r.head_segment = 999;
	assert_int_equal(open_as(&w, &a, &r), -ENOENT);
	world_close(&w);
}

static void test_a_dead_segment_is_a_miss(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_record r;

	(void)state;
	world_open(&w);
	world_store(&w, &key, "hello", 5, true);
	r = find(&w, &key);
	atomic_store(&w.store->segments[r.head_segment].state, SEGMENT_DEAD);
	assert_int_equal(cache_find(w.cache, &key, &r), -ENOENT);
	world_close(&w);
}

static void test_a_store_out_of_service_is_a_miss(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_record r;

	(void)state;
	world_open(&w);
	world_store(&w, &key, "hello", 5, true);
	assert_true(cache_in_service(w.cache));
	atomic_store(&w.store->state, STORE_OUT);
	assert_false(cache_in_service(w.cache));
	assert_int_equal(cache_find(w.cache, &key, &r), -ENOENT);
	atomic_store(&w.store->state, STORE_REBUILDING);
	assert_int_equal(cache_find(w.cache, &key, &r), 0);
	world_close(&w);
}

/* --- cold bytes --------------------------------------------------------------------------------------- */

static int cold_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	int fd = type == FTW_F && st->st_size > 0 ? open(path, O_RDONLY) : -1;

	(void)ftw;
	if (fd < 0)
		return 0;
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	return 0;
}

static void make_cold(struct world *w)
{
	char path[80];

	snprintf(path, sizeof(path), "%s/segments", w->dir);
	nftw(path, cold_one, 16, FTW_PHYS);
	snprintf(path, sizeof(path), "%s/chunks", w->dir);
	nftw(path, cold_one, 16, FTW_PHYS);
}

static void test_cold_objects_are_read_by_threads(void **state)
{
	static const size_t sizes[] = { 5, 50000, 700000, 3000000 };
	struct world w;

	(void)state;
	world_open(&w);
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		char *body = world_body(sizes[i]);
		struct cache_key key = world_key("/a");

		world_store(&w, &key, body, sizes[i], true);
		make_cold(&w);
		world_check(&w, &key, body, sizes[i]);
		world_check(&w, &key, body, sizes[i]);
		free(body);
	}
	world_close(&w);
}

/* Where the kernel tells nothing (gVisor), everything goes by threads and comes out the same. */
static void test_without_nowait_and_cachestat(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	char *body = world_body(600000);

	(void)state;
	world_open(&w);
	world_store(&w, &key, body, 600000, true);
	w.cache->no_cachestat = true;
	world_check(&w, &key, body, 600000);
	w.cache->no_nowait = true;
	world_check(&w, &key, body, 600000);
	assert_true(w.woken > 0);
	free(body);
	world_close(&w);
}

static void shift_seen(struct world *w, int64_t ms)
{
	for (unsigned i = 0; i < CACHE_SEEN; i++)
		w->cache->seen[i].at.ms += ms;
}

/* Here whoever asks the kernel is sent to a thread: so it shows who doesn't ask. */
static void test_a_span_just_seen_is_not_asked_for(void **state)
{
	enum { HOUR_MS = 3600000, BYTES = 600000 };
	struct world w;
	struct cache_key key = world_key("/a");
	const struct cache_object *o;
	struct cache_reader first = { 0 }, second = { 0 }, third = { 0 };
	struct cache_span span;
	char *body = world_body(BYTES);

	(void)state;
	world_open(&w);
	world_store(&w, &key, body, BYTES, true);
	assert_int_equal(world_open_object(&w, &key, &o), 0);
	assert_int_equal(cache_object_body(o, &first, 0, &w.wake, &span), 0);
	shift_seen(&w, HOUR_MS);
	w.cache->no_cachestat = w.cache->no_nowait = true;
	assert_int_equal(cache_object_body(o, &second, 0, &w.wake, &span), 0);
	assert_int_equal(cache_object_body(o, &second, span.bytes, &w.wake, &span), -EINPROGRESS);
	shift_seen(&w, -2 * HOUR_MS);
	assert_int_equal(cache_object_body(o, &third, 0, &w.wake, &span), -EINPROGRESS);
	cache_reader_fini(&first);
	cache_reader_fini(&second);
	cache_reader_fini(&third);
	cache_object_unref(o);
	free(body);
	world_close(&w);
}

static void test_a_cancelled_read_ends_by_itself(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_record r;
	struct cache_read *pending = NULL;
	const struct cache_object *o;
	struct cache_reader reader = { 0 };
	struct cache_span span;
	char *body = world_body(300000);

	(void)state;
	world_open(&w);
	w.cache->no_nowait = true;
	world_store(&w, &key, body, 300000, true);
	r = find(&w, &key);
	assert_int_equal(cache_object_open(w.cache, &key, &r, &w.wake, &pending, &o), -EINPROGRESS);
	cache_read_cancel(&pending);
	assert_null(pending);
	cache_read_cancel(&pending);
	assert_int_equal(world_open_object(&w, &key, &o), 0);
	assert_int_equal(cache_object_body(o, &reader, 0, &w.wake, &span), -EINPROGRESS);
	cache_reader_fini(&reader);
	cache_object_unref(o);
	free(body);
	world_close(&w); /* the thread's read may still be under way */
}

/* --- eviction --------------------------------------------------------------------------------------------- */

/* A held object keeps its segment's bytes, although they are unlinked and the segment is dead. */
static void test_a_held_object_outlives_its_segment(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	char *body = world_body(500000), path[FORMAT_PATH_MAX];
	const struct cache_object *o;

	(void)state;
	world_open(&w);
	world_store(&w, &key, body, 500000, true);
	assert_int_equal(world_open_object(&w, &key, &o), 0);
	format_segment_path(o->record.body_segment, path);
	atomic_store(&w.store->segments[o->record.body_segment].state, SEGMENT_DEAD);
	assert_int_equal(unlinkat(w.conf.stores[0].dir_fd, path, 0), 0);
	files_sweep(&w.cache->files);
	world_read(&w, o, body, 500000);
	cache_object_unref(o);
	free(body);
	world_close(&w);
}

static void test_a_lost_chunk_breaks_the_answer_off(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	char *body = world_body(3 << 20), path[FORMAT_PATH_MAX];
	const struct cache_object *o;
	struct cache_reader reader = { 0 };
	struct cache_span span;
	unsigned before;
	int e;

	(void)state;
	world_open(&w);
	world_store(&w, &key, body, 3 << 20, true);
	assert_int_equal(world_open_object(&w, &key, &o), 0);
	format_chunk_path(o->record.body_id, 1, path);
	assert_int_equal(unlinkat(w.conf.stores[0].dir_fd, path, 0), 0);
	atomic_fetch_add(&w.store->commits, 1); /* as if it was replaced */
	files_sweep(&w.cache->files);		/* closes it: nobody holds it */
	do {
		before = w.woken;
		e = cache_object_body(o, &reader, 1 << 20, &w.wake, &span);
		if (e == -EINPROGRESS)
			world_wait(&w, before);
	} while (e == -EINPROGRESS);
	assert_int_equal(e, -ENOENT);
	assert_int_equal(cache_object_body(o, &reader, 2 << 20, &w.wake, &span), 0);
	cache_reader_fini(&reader);
	cache_object_unref(o);
	free(body);
	world_close(&w);
}

/* A file that is shorter than its record says is an error, not an endless wait. */
static void test_a_short_chunk_is_an_error(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	char *body = world_body(3 << 20), path[FORMAT_PATH_MAX];
	const struct cache_object *o;
	struct cache_reader reader = { 0 };
	struct cache_span span;
	int fd, e;

	(void)state;
	world_open(&w);
	world_store(&w, &key, body, 3 << 20, true);
	assert_int_equal(world_open_object(&w, &key, &o), 0);
	format_chunk_path(o->record.body_id, 0, path);
	fd = openat(w.conf.stores[0].dir_fd, path, O_RDWR);
	assert_int_equal(ftruncate(fd, 1000), 0);
	close(fd);
	do {
		unsigned before = w.woken;

		e = cache_object_body(o, &reader, 0, &w.wake, &span);
		if (e == -EINPROGRESS)
			world_wait(&w, before);
	} while (e == -EINPROGRESS);
	assert_int_equal(e, -EIO);
	cache_reader_fini(&reader);
	cache_object_unref(o);
	free(body);
	world_close(&w);
}

/* --- refresh ------------------------------------------------------------------------------------------------ */

static void refresh(struct world *w, const struct cache_key *key, size_t n, const char *body)
{
	const struct cache_object *o, *fresh;
	struct cache_claim *claim = world_own(w, key);
	struct cache_meta meta = world_meta(claim);
	uint64_t body_id;

	assert_int_equal(world_open_object(w, key, &o), 0);
	body_id = o->record.body_id;
	meta.lifetime_ms = 99000;
	meta.etag = VIEW("\"v1\"");
	assert_int_equal(cache_refresh(&claim, o, &meta, VIEW("X-New: yes\r\n"), &fresh), 0);
	assert_null(claim);
	cache_object_unref(o);
	assert_int_equal(fresh->meta.lifetime_ms, 99000);
	world_read(w, fresh, body, n);
	cache_object_unref(fresh);
	assert_int_equal(world_keep(w), 1);
	assert_int_equal(world_open_object(w, key, &o), 0);
	assert_true(view_eq(o->head, VIEW("X-New: yes\r\n")));
	assert_int_equal(o->meta.lifetime_ms, 99000);
	assert_true(o->record.object_id > body_id);
	if (n > FORMAT_PAGE_BODY)
		assert_int_equal(o->record.body_id, body_id);
	world_read(w, o, body, n);
	cache_object_unref(o);
}

static void test_a_refresh_gives_a_new_head_and_keeps_the_body(void **state)
{
	static const size_t sizes[] = { 0, 5, 16384, 16385, 500000, 3000000 };
	struct world w;
	char path[16];

	(void)state;
	world_open(&w);
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		char *body = world_body(sizes[i]);
		struct cache_key key;

		snprintf(path, sizeof(path), "/%u", i);
		key = world_key(path);
		world_store(&w, &key, body, sizes[i], true);
		refresh(&w, &key, sizes[i], body);
		refresh(&w, &key, sizes[i], body);
		free(body);
	}
	assert_int_equal(cache_claims_held(w.shared), 0);
	world_close(&w);
}

static void test_a_refresh_of_what_is_being_evicted_is_refused(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	char *body = world_body(100000);
	const struct cache_object *o, *fresh = NULL;
	struct cache_claim *claim;
	struct cache_meta meta;

	(void)state;
	world_open(&w);
	world_store(&w, &key, body, 100000, true);
	assert_int_equal(world_open_object(&w, &key, &o), 0);
	atomic_store(&w.store->segments[o->record.body_segment].state, SEGMENT_DEAD);
	claim = world_own(&w, &key);
	meta = world_meta(claim);
	assert_int_equal(cache_refresh(&claim, o, &meta, VIEW(""), &fresh), -EAGAIN);
	assert_null(claim);
	assert_null(fresh);
	assert_int_equal(cache_claims_held(w.shared), 0);
	cache_object_unref(o);
	free(body);
	world_close(&w);
}

/* --- the rest -------------------------------------------------------------------------------------------- */

static void test_hits_are_counted_and_saturate(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	const struct cache_object *o;
	unsigned sum = 0;

	(void)state;
	world_open(&w);
	world_store(&w, &key, "hello", 5, true);
	assert_int_equal(world_open_object(&w, &key, &o), 0);
	for (unsigned i = 0; i < 1000; i++)
		cache_object_hit(o);
	for (unsigned i = 0; i < SHARED_POPULARITY; i++)
		sum += atomic_load(&w.shared->popularity[i]);
	assert_int_equal(sum, 3);
	cache_object_unref(o);
	world_close(&w);
}

static void test_urls_that_are_known(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a"), variant = key, other = world_key("/b");
	struct cache_claim *claim;

	(void)state;
	world_open(&w);
	variant.secondary = 7;
	assert_false(cache_url_known(w.cache, key.primary));
	claim = world_own(&w, &other);
	assert_true(cache_url_known(w.cache, other.primary));
	cache_claim_drop(&claim);
	assert_false(cache_url_known(w.cache, other.primary));
	world_store(&w, &variant, "hello", 5, true);
	assert_true(cache_url_known(w.cache, key.primary));
	world_close(&w);
}

/* What an index doesn't say yet may come to light. */
static void test_urls_of_a_store_in_doubt_are_known(void **state)
{
	static const struct {
		enum shared_store_state state;
		enum shared_reason reason;
		bool known;
	} cases[] = {
		{ STORE_OUT, REASON_NONE, true },     { STORE_REBUILDING, REASON_NONE, true },
		{ STORE_FAILED, REASON_INDEX, true }, { STORE_FAILED, REASON_SYNC, false },
		{ STORE_OPEN, REASON_NONE, false },
	};
	struct world w;
	struct cache_key key = world_key("/a");

	(void)state;
	world_open(&w);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		atomic_store(&w.store->reason, cases[i].reason);
		atomic_store(&w.store->state, cases[i].state);
		assert_int_equal(cache_url_known(w.cache, key.primary), cases[i].known);
	}
	world_close(&w);
}

/* The index is cut off under our feet: the store goes, the worker stays. In a child, since the handle can't be closed
 * afterwards. */
static void lose_the_index(struct world *w, const struct cache_key *key)
{
	struct cache_record r;
	int fd = openat(w->conf.stores[0].dir_fd, FORMAT_INDEX_PATH, O_RDWR);

	if (fd < 0 || cache_find(w->cache, key, &r) != 0 || ftruncate(fd, 0) != 0)
		_exit(1);
	if (cache_find(w->cache, key, &r) != -EIO || cache_find(w->cache, key, &r) != -ENOENT)
		_exit(2);
	_exit(w->cache->stores[0].index == NULL ? 0 : 3);
}

static void test_a_fault_under_the_index_costs_the_store(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	int status;
	pid_t pid;

	(void)state;
	world_prepare(&w);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		world_attach(&w, 0);
		world_store(&w, &key, "hello", 5, true);
		lose_the_index(&w, &key);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_string_equal(shared_store_state_text(w.store), "failed: index damaged");
	world_discard(&w);
}

static void test_status(void **state)
{
	struct world w;
	struct cache_store_status s;

	(void)state;
	world_open(&w);
	assert_int_equal(cache_store_status(w.shared, 0, &s), 0);
	assert_true(view_eq(s.name, VIEW("main")));
	assert_string_equal(s.state, "open");
	assert_int_equal(s.size_bytes, WORLD_BYTES);
	assert_int_equal(cache_store_status(w.shared, 1, &s), -ENOENT);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damage_in_the_entry_is_a_miss),
		cmocka_unit_test(test_a_record_that_points_elsewhere_is_a_miss),
		cmocka_unit_test(test_a_dead_segment_is_a_miss),
		cmocka_unit_test(test_a_store_out_of_service_is_a_miss),
		cmocka_unit_test(test_cold_objects_are_read_by_threads),
		cmocka_unit_test(test_without_nowait_and_cachestat),
		cmocka_unit_test(test_a_span_just_seen_is_not_asked_for),
		cmocka_unit_test(test_a_cancelled_read_ends_by_itself),
		cmocka_unit_test(test_a_held_object_outlives_its_segment),
		cmocka_unit_test(test_a_lost_chunk_breaks_the_answer_off),
		cmocka_unit_test(test_a_short_chunk_is_an_error),
		cmocka_unit_test(test_a_refresh_gives_a_new_head_and_keeps_the_body),
		cmocka_unit_test(test_a_refresh_of_what_is_being_evicted_is_refused),
		cmocka_unit_test(test_hits_are_counted_and_saturate),
		cmocka_unit_test(test_urls_that_are_known),
		cmocka_unit_test(test_urls_of_a_store_in_doubt_are_known),
		cmocka_unit_test(test_a_fault_under_the_index_costs_the_store),
		cmocka_unit_test(test_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
