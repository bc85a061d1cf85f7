/* Open files: a bounded number, the least used go first, the dead are counted and at last cut off. */
#include "tests/unit/cache/world.h"

static struct files fs; /* 64 KiB of buckets */

static struct file_name chunk(uint64_t id)
{
	return (struct file_name){ .kind = FILE_CHUNK, .id = id };
}

static void create(struct world *w, uint64_t id, size_t bytes)
{
	struct file_name name = chunk(id);
	int fd = files_create(w->conf.stores[0].dir_fd, &name);

	assert_true(fd >= 0);
	assert_int_equal(posix_fallocate(fd, 0, (off_t)bytes), 0);
	close(fd);
}

static void discard(struct world *w, uint64_t id)
{
	char path[FORMAT_PATH_MAX];

	format_chunk_path(id, 0, path);
	assert_int_equal(unlinkat(w->conf.stores[0].dir_fd, path, 0), 0);
	files_expect_unlinks(&fs);
}

/* Opens by whatever way it takes. */
static int get(struct world *w, uint64_t id, struct file **out)
{
	struct file_name name = chunk(id);
	int e = files_get(&fs, &name, out);
	int fd;

	if (e != -EAGAIN)
		return e;
	fd = files_open(w->conf.stores[0].dir_fd, &name);
	return fd < 0 ? fd : files_adopt(&fs, &name, fd, out);
}

static void begin(struct world *w, unsigned limit)
{
	world_open(w);
	files_init(&fs, w->shared, 0, limit);
	files_add_store(&fs, w->conf.stores[0].dir_fd);
	for (uint64_t id = 1; id <= 6; id++)
		create(w, id, 4096);
}

static void finish(struct world *w)
{
	files_fini(&fs);
	world_close(w);
}

static void sweep(void)
{
	for (unsigned i = 0; i < 2; i++)
		files_sweep(&fs);
}

static void test_one_descriptor_for_all_who_ask(void **state)
{
	struct world w;
	struct file *a, *b;

	(void)state;
	begin(&w, 4);
	assert_int_equal(get(&w, 1, &a), 0);
	assert_int_equal(get(&w, 1, &b), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(fs.count, 1);
	files_put(&fs, &a);
	files_put(&fs, &b);
	assert_null(b);
	assert_int_equal(fs.count, 1);
	assert_int_equal(get(&w, 1, &a), 0);
	files_put(&fs, &a);
	finish(&w);
}

static void test_what_is_not_there_is_not_there(void **state)
{
	struct world w;
	struct file *f;

	(void)state;
	begin(&w, 4);
	assert_int_equal(get(&w, 99, &f), -ENOENT);
	assert_int_equal(fs.count, 0);
	finish(&w);
}

static void test_the_least_used_idle_file_makes_room(void **state)
{
	struct world w;
	struct file *f[4], *more;
	struct file_name second = chunk(2);

	(void)state;
	begin(&w, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(get(&w, i + 1, &f[i]), 0);
	assert_int_equal(get(&w, 4, &more), -EMFILE);
	files_put(&fs, &f[1]);
	files_put(&fs, &f[0]);
	assert_int_equal(get(&w, 4, &more), 0); /* in the place of 2, which was put back first */
	assert_int_equal(fs.count, 3);
	assert_int_equal(get(&w, 1, &f[0]), 0);
	assert_int_equal(get(&w, 2, &f[1]), -EMFILE);
	files_put(&fs, &more);
	assert_int_equal(get(&w, second.id, &f[1]), 0);
	files_put(&fs, &f[0]);
	files_put(&fs, &f[1]);
	files_put(&fs, &f[2]);
	finish(&w);
}

static void test_idle_files_that_are_gone_are_closed(void **state)
{
	struct world w;
	struct file *f;

	(void)state;
	begin(&w, 4);
	assert_int_equal(get(&w, 1, &f), 0);
	files_put(&fs, &f);
	sweep();
	assert_int_equal(fs.count, 1);
	discard(&w, 1);
	sweep();
	assert_int_equal(fs.count, 0);
	finish(&w);
}

static void test_held_files_that_are_gone_are_counted(void **state)
{
	struct world w;
	struct file *f;
	_Atomic uint64_t *published;

	(void)state;
	begin(&w, 4);
	published = &w.store->dead_open_bytes[0];
	assert_int_equal(get(&w, 1, &f), 0);
	discard(&w, 1);
	sweep();
	assert_int_equal(atomic_load(published), 4096);
	sweep();
	assert_int_equal(atomic_load(published), 4096);
	files_put(&fs, &f); /* the last reader: closed at once */
	assert_int_equal(atomic_load(published), 0);
	assert_int_equal(fs.count, 0);
	finish(&w);
}

/* Nothing goes, nothing is looked at, whatever comes; an object that was replaced makes it look again. */
static void test_an_idle_node_looks_at_nothing(void **state)
{
	struct world w;
	struct file *f;

	(void)state;
	begin(&w, 4);
	assert_int_equal(get(&w, 1, &f), 0);
	files_put(&fs, &f);
	for (unsigned i = 0; i < 20; i++)
		files_sweep(&fs);
	discard(&w, 1);
	fs.settle_ticks = 0;
	atomic_fetch_add(&w.store->commits, 5);
	atomic_fetch_add(&w.store->objects, 5);
	files_sweep(&fs);
	assert_int_equal(fs.count, 1);
	atomic_fetch_add(&w.store->commits, 1);
	files_sweep(&fs);
	assert_int_equal(fs.count, 0);
	finish(&w);
}

/* Over an eighth of the store: the longest dead goes, and only as many as must. */
static void test_the_longest_dead_is_cut_off(void **state)
{
	const size_t big = WORLD_BYTES / 8 - 4096 * 2;
	struct world w;
	struct file *old, *young;
	struct cache_reader reader = { 0 };

	(void)state;
	begin(&w, 4);
	create(&w, 10, big);
	create(&w, 11, 4096 * 4);
	assert_int_equal(get(&w, 10, &old), 0);
	assert_int_equal(get(&w, 11, &young), 0);
	reader.wake = &w.wake;
	list_append(&old->readers, &reader.link);
	discard(&w, 10);
	sweep();
	assert_false(old->cut);
	discard(&w, 11);
	sweep();
	assert_true(old->cut);
	assert_false(young->cut);
	assert_int_equal(atomic_load(&w.store->readers_cut), 1);
	world_wait(&w, 0);
	list_remove(&reader.link);
	files_put(&fs, &old);
	files_put(&fs, &young);
	assert_int_equal(atomic_load(&w.store->dead_open_bytes[0]), 0);
	finish(&w);
}

/* The same, as a reader of an object sees it. */
static void test_a_cut_reader_is_told(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	size_t n = 3 << 20;
	char *body = world_body(n), path[FORMAT_PATH_MAX];
	const struct cache_object *o;
	struct cache_reader reader = { 0 };
	struct cache_span span;
	unsigned before;

	(void)state;
	world_open(&w);
	world_store(&w, &key, body, n, true);
	assert_int_equal(world_open_object(&w, &key, &o), 0);
	assert_int_equal(cache_object_body(o, &reader, 0, &w.wake, &span), 0);
	format_chunk_path(o->record.body_id, 0, path);
	assert_int_equal(unlinkat(w.conf.stores[0].dir_fd, path, 0), 0);
	atomic_store(&w.store->dead_open_bytes[3], WORLD_BYTES / 4); /* another worker holds much */
	before = w.woken;
	atomic_fetch_add(&w.store->evicted_segments, 1);
	files_sweep(&w.cache->files);
	world_wait(&w, before);
	assert_int_equal(cache_object_body(o, &reader, 0, &w.wake, &span), -ECANCELED);
	cache_reader_fini(&reader);
	cache_object_unref(o);
	free(body);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_descriptor_for_all_who_ask),
		cmocka_unit_test(test_what_is_not_there_is_not_there),
		cmocka_unit_test(test_the_least_used_idle_file_makes_room),
		cmocka_unit_test(test_idle_files_that_are_gone_are_closed),
		cmocka_unit_test(test_held_files_that_are_gone_are_counted),
		cmocka_unit_test(test_an_idle_node_looks_at_nothing),
		cmocka_unit_test(test_the_longest_dead_is_cut_off),
		cmocka_unit_test(test_a_cut_reader_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
