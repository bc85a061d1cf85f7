/* What a start makes of what a death, a power cut or a bad disk left. */
#include "tests/unit/cache/keeper_kit.h"

#include "cache/keeper_store.h"
#include "cache/log.h"

enum { OBJECTS = 200 };

static size_t size_of(unsigned n)
{
	return n % 20 == 0 ? 2 * KIT_MIB : 300 + n * 37;
}

static void store_objects(struct kit *k, unsigned from, unsigned to)
{
	uint64_t commits = atomic_load(&k->w.store->commits);

	for (unsigned n = from; n < to; n++)
		KIT_WAIT(k, kit_fill(k, n, 1, size_of(n)) == 0);
	KIT_WAIT(k, atomic_load(&k->w.store->commits) == commits + to - from);
}

static void check_objects(struct kit *k, unsigned from, unsigned to)
{
	for (unsigned n = from; n < to; n++)
		kit_check(k, n, 1, size_of(n));
}

/* The node as it is started anew, without waiting for its index. */
static void start_and_wait_for_service(struct kit *k)
{
	kit_start_node(k);
	KIT_WAIT(k, shared_store_in_service(k->w.shared, 0));
}

static void deleted_index_is_rebuilt(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 256 * KIT_MIB);
	store_objects(&k, 0, OBJECTS);
	kit_end_node(&k, SIGTERM);
	assert_int_equal(index_wipe(k.dir.fd), 0);
	start_and_wait_for_service(&k);
	/* Traffic is served meanwhile, and what it stores is found afterwards. */
	store_objects(&k, OBJECTS, OBJECTS + 20);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	check_objects(&k, 0, OBJECTS + 20);
	assert_int_equal(atomic_load(&k.w.store->objects), OBJECTS + 20);
	kit_close(&k);
}

static void overwrite(struct kit *k, const char *path, off_t from, size_t n)
{
	char *garbage = malloc(n);
	int fd = openat(k->dir.fd, path, O_RDWR);

	assert_true(fd >= 0);
	memset(garbage, 0xa5, n);
	assert_int_equal(pwrite(fd, garbage, n, from), n);
	close(fd);
	free(garbage);
}

static void damaged_index_is_rebuilt(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 256 * KIT_MIB);
	store_objects(&k, 0, OBJECTS);
	kit_end_node(&k, SIGTERM);
	overwrite(&k, FORMAT_INDEX_PATH, 0, 2 * 4096); /* LMDB's own pages */
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	check_objects(&k, 0, OBJECTS);
	kit_close(&k);
}

/* Data pages of the index are garbage: the keeper may die of it, once; the next one makes a new index. */
static void deadly_index_is_rebuilt(void **state)
{
	struct kit k;
	struct stat st;
	int status;

	(void)state;
	kit_open(&k, 256 * KIT_MIB);
	store_objects(&k, 0, OBJECTS);
	kit_end_node(&k, SIGKILL);
	assert_int_equal(fstatat(k.dir.fd, FORMAT_INDEX_PATH, &st, 0), 0);
	overwrite(&k, FORMAT_INDEX_PATH, 2 * 4096, (size_t)st.st_size - 2 * 4096);
	kit_start_node(&k);
	for (int64_t end = clock_mono().ms + 60000; !kit_is(&k, STORE_OPEN); kit_turn(&k)) {
		assert_true(clock_mono().ms < end);
		if (waitpid(k.keeper_pid, &status, WNOHANG) == k.keeper_pid)
			kit_start_keeper(&k);
	}
	check_objects(&k, 0, OBJECTS);
	kit_close(&k);
}

/* The index is cut off under keeper and worker: whoever touches it gets a fault, and a new one is made. */
static void vanishing_index_is_rebuilt(void **state)
{
	struct kit k;
	int status, fd;

	(void)state;
	kit_open(&k, 256 * KIT_MIB);
	store_objects(&k, 0, OBJECTS);
	fd = openat(k.dir.fd, FORMAT_INDEX_PATH, O_RDWR);
	assert_int_equal(ftruncate(fd, 0), 0);
	close(fd);
	/* Before any lookup, so that the keeper meets it first. */
	assert_int_equal(kit_fill(&k, OBJECTS, 1, size_of(OBJECTS)), 0);
	for (int64_t end = clock_mono().ms + 60000;
	     atomic_load(&k.w.store->index_generation) < 2 || !kit_is(&k, STORE_OPEN); kit_turn(&k)) {
		assert_true(clock_mono().ms < end);
		if (waitpid(k.keeper_pid, &status, WNOHANG) == k.keeper_pid)
			kit_start_keeper(&k);
	}
	check_objects(&k, 0, OBJECTS);
	KIT_WAIT(&k, kit_has(&k, OBJECTS));
	kit_close(&k);
}

static uint32_t last_segment_with_log(struct kit *k)
{
	char path[FORMAT_PATH_MAX];
	struct stat st;
	uint32_t found = 0;

	for (uint32_t id = 1; id < 100; id++) {
		format_log_path(id, path);
		if (fstatat(k->dir.fd, path, &st, 0) == 0 &&
		    st.st_size > (off_t)sizeof(struct format_log) + 200)
			found = id;
	}
	assert_true(found != 0);
	return found;
}

static unsigned count_found(struct kit *k, unsigned to)
{
	unsigned found = 0;

	for (unsigned n = 0; n < to; n++) {
		if (!kit_has(k, n))
			continue;
		kit_check(k, n, 1, size_of(n));
		found++;
	}
	return found;
}

/* kill -9 in the middle of writing the log: its last record is torn, the index (of course) doesn't know it. */
static void torn_log_tail_is_cut(void **state)
{
	char path[FORMAT_PATH_MAX];
	struct kit k;
	struct stat st;

	(void)state;
	kit_open(&k, 256 * KIT_MIB);
	store_objects(&k, 0, OBJECTS);
	kit_end_node(&k, SIGKILL);
	format_log_path(last_segment_with_log(&k), path);
	assert_int_equal(fstatat(k.dir.fd, path, &st, 0), 0);
	overwrite(&k, path, st.st_size, 77);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	check_objects(&k, 0, OBJECTS);
	kit_end_node(&k, SIGTERM);
	/* The log is shorter than the index thinks: index and log aren't of one piece, the log is right. */
	assert_int_equal(index_wipe(k.dir.fd), 0);
	{
		int fd = openat(k.dir.fd, path, O_RDWR);

		assert_int_equal(ftruncate(fd, st.st_size - 10), 0);
		close(fd);
	}
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	assert_true(count_found(&k, OBJECTS) >= OBJECTS - 1);
	kit_close(&k);
}

/* As if the machine had been off: another boot is noted in the superblock. */
static void cut_power(struct kit *k)
{
	struct format_store sb;

	assert_int_equal(store_load(k->dir.fd, &sb), 0);
	assert_int_equal(sb.flags & FORMAT_STORE_CLEAN, 0);
	memset(sb.boot_id, 'x', 36);
	assert_int_equal(store_save(k->dir.fd, &sb), 0);
}

static void wait_for_sync(struct kit *k)
{
	char path[FORMAT_PATH_MAX];
	struct format_store sb;
	uint64_t trusted = 0;
	struct stat st;
	bool synced = false;

	assert_int_equal(store_load(k->dir.fd, &sb), 0);
	for (int64_t end = clock_mono().ms + 60000; !synced; kit_turn(k)) {
		assert_true(clock_mono().ms < end);
		synced = true;
		for (uint32_t id = 1; id < 20; id++) {
			format_log_path(id, path);
			if (fstatat(k->dir.fd, path, &st, 0) != 0 ||
			    st.st_size == sizeof(struct format_log))
				continue;
			/* The mark alone may lie behind what it marks. */
			if (log_trusted(k->dir.fd, sb.id, id, &trusted) != 0 ||
			    trusted + 32 < (uint64_t)st.st_size)
				synced = false;
		}
	}
}

static void after_a_power_cut_only_what_was_synced_counts(void **state)
{
	struct kit k;
	unsigned found;

	(void)state;
	kit_open(&k, 256 * KIT_MIB);
	store_objects(&k, 0, OBJECTS);
	wait_for_sync(&k);
	store_objects(&k, OBJECTS, OBJECTS + 50);
	kit_end_node(&k, SIGKILL);
	cut_power(&k);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	check_objects(&k, 0, OBJECTS);
	found = count_found(&k, OBJECTS + 50);
	assert_int_equal(found, OBJECTS);
	/* And a kill -9 after it is a kill -9 again; nothing that was distrusted comes back. */
	store_objects(&k, OBJECTS + 50, OBJECTS + 60);
	kit_restart(&k, SIGKILL);
	check_objects(&k, 0, OBJECTS);
	check_objects(&k, OBJECTS + 50, OBJECTS + 60);
	assert_int_equal(atomic_load(&k.w.store->objects), OBJECTS + 10);
	kit_close(&k);
}

static void a_clean_end_survives_a_reboot(void **state)
{
	struct format_store sb;
	struct kit k;

	(void)state;
	kit_open(&k, 256 * KIT_MIB);
	store_objects(&k, 0, 50);
	kit_end_node(&k, SIGTERM);
	assert_int_equal(store_load(k.dir.fd, &sb), 0);
	assert_true(sb.flags & FORMAT_STORE_CLEAN);
	memset(sb.boot_id, 'x', 36);
	assert_int_equal(store_save(k.dir.fd, &sb), 0);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	check_objects(&k, 0, 50);
	kit_close(&k);
}

static void a_lost_journal_costs_the_objects(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	store_objects(&k, 1, 20);
	kit_end_node(&k, SIGTERM);
	assert_int_equal(unlinkat(k.dir.fd, FORMAT_JOURNAL_PATH, 0), 0);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	for (unsigned n = 1; n < 20; n++)
		assert_false(kit_has(&k, n));
	store_objects(&k, 1, 20);
	check_objects(&k, 1, 20);
	kit_close(&k);
}

static void a_purge_survives_rebuild_and_power_cut(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	store_objects(&k, 1, 5);
	wait_for_sync(&k);
	kit_purge(&k, 2, false);
	kit_end_node(&k, SIGKILL);
	cut_power(&k);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	assert_int_equal(kit_purged(&k, 1), CACHE_NOT_PURGED);
	assert_int_equal(kit_purged(&k, 2), CACHE_HARD_PURGED);
	kit_close(&k);
}

static unsigned count_chunk_files(struct kit *k)
{
	char command[320];
	unsigned count;
	FILE *p;

	snprintf(command, sizeof(command), "find %s/chunks -type f | wc -l", k->dir.path);
	p = popen(command, "r");
	assert_non_null(p);
	assert_int_equal(fscanf(p, "%u", &count), 1);
	pclose(p);
	return count;
}

/* All die in the middle of a fill: its chunk files have no record and go; those that have one stay. */
static void orphans_are_removed(void **state)
{
	struct kit k;
	struct cache_key key = kit_key(900);
	struct cache_fill *fill;
	char *body = kit_body(900, 1, 5 * KIT_MIB);

	(void)state;
	kit_open(&k, 256 * KIT_MIB);
	kit_store(&k, 1, 1, 3 * KIT_MIB);
	fill = world_begin(&k.w, &key, 6 * KIT_MIB);
	assert_int_equal(cache_fill_write(fill, body, 5 * KIT_MIB), 0);
	assert_int_equal(count_chunk_files(&k), 3 + 5);
	kit_end_keeper(&k, SIGKILL);
	cache_fill_abort(fill);
	cache_fill_free(fill);
	free(body);
	kit_end_node(&k, SIGKILL);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	KIT_WAIT(&k, count_chunk_files(&k) == 3);
	kit_check(&k, 1, 1, 3 * KIT_MIB);
	kit_close(&k);
}

/* A refreshed object has its head in another place than its body, in index and log. */
static void refreshed_objects_survive(void **state)
{
	static const size_t sizes[] = { 1000, 500000, 3 * KIT_MIB };
	struct kit k;

	(void)state;
	kit_open(&k, 256 * KIT_MIB);
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		struct cache_key key = kit_key(i);
		struct cache_claim *claim;
		const struct cache_object *old, *fresh;
		struct cache_meta meta;
		uint64_t commits;

		kit_store(&k, i, 1, sizes[i]);
		assert_int_equal(world_open_object(&k.w, &key, &old), 0);
		KIT_WAIT(&k, cache_claims_held(k.w.shared) == 0);
		claim = world_own(&k.w, &key);
		meta = world_meta(claim);
		meta.lifetime_ms = 99000;
		commits = atomic_load(&k.w.store->commits);
		assert_int_equal(cache_refresh(&claim, old, &meta, VIEW("X-New: 1\r\n"), &fresh), 0);
		KIT_WAIT(&k, atomic_load(&k.w.store->commits) > commits);
		cache_object_unref(old);
		cache_object_unref(fresh);
	}
	for (unsigned pass = 0; pass < 3; pass++) {
		for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
			struct cache_record r;

			kit_check(&k, i, 1, sizes[i]);
			assert_int_equal(kit_find(&k, i, &r), 0);
			assert_int_equal(r.lifetime_ms, 99000);
		}
		kit_end_node(&k, SIGKILL);
		if (pass == 1)
			assert_int_equal(index_wipe(k.dir.fd), 0);
		kit_start_node(&k);
		KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	}
	assert_int_equal(atomic_load(&k.w.store->objects), ARRAY_LEN(sizes));
	kit_close(&k);
}

/* --- the keeper in this process, to make it fail at the moment that is meant ------------------------- */

struct alone {
	struct kit *k;
	struct keeper *keeper;
	struct keeper_store *ks;
};

/* What k left on the disk, opened anew. */
static void alone_open(struct alone *a, struct kit *k)
{
	a->k = k;
	k->w.shared = cache_shared_new(&k->w.conf);
	k->w.store = &k->w.shared->stores[0];
	k->w.loop = loop_new();
	assert_int_equal(timer_open(&k->turn, k->w.loop, kit_turned), 0);
	assert_int_equal(keeper_open(k->w.shared, &k->w.conf, k->w.loop, &a->keeper), 0);
	a->ks = &a->keeper->stores[0];
}

static void alone_close(struct alone *a)
{
	keeper_close(a->keeper);
	timer_close(&a->k->turn);
	loop_free(a->k->w.loop);
	cache_shared_free(a->k->w.shared);
}

/* Whoever still had the old index says so while the new one is being filled. */
static void an_index_fails_once(void **state)
{
	struct alone a;
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	store_objects(&k, 1, 10);
	kit_end_node(&k, SIGTERM);
	alone_open(&a, &k);
	keeper_store_failed(a.ks, REASON_INDEX, -EIO);
	keeper_store_failed(a.ks, REASON_INDEX, -EIO);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN) && !rebuild_running(a.ks));
	assert_true(a.ks->usable);
	assert_int_equal(atomic_load(&k.w.store->objects), 9);
	alone_close(&a);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	check_objects(&k, 1, 10);
	kit_close(&k);
}

/* The logs aren't all cut to what was synced, and the log of one can't be written: that they are to be cut is not forgotten. */
static void a_rebuild_that_is_given_up_ends_no_distrust(void **state)
{
	struct format_store sb;
	struct alone a;
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	store_objects(&k, 1, 10);
	kit_end_node(&k, SIGKILL);
	cut_power(&k);
	alone_open(&a, &k);
	assert_true(rebuild_running(a.ks));
	keeper_store_failed(a.ks, REASON_LOG, -EIO);
	KIT_WAIT(&k, !rebuild_running(a.ks));
	assert_true(kit_is(&k, STORE_FAILED));
	alone_close(&a);
	assert_int_equal(store_load(k.dir.fd, &sb), 0);
	assert_true(sb.flags & FORMAT_STORE_SUSPECT);
	assert_int_equal(sb.boot_id[0], 'x');
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	kit_close(&k);
}

/* There are no logs to be cut: an empty store is as good as any. */
static void an_empty_store_is_trusted_after_a_power_cut(void **state)
{
	struct format_store sb;
	struct alone a;
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	kit_end_node(&k, SIGKILL);
	cut_power(&k);
	for (uint32_t id = 1; id < 20; id++) {
		char path[FORMAT_PATH_MAX];

		format_segment_path(id, path);
		(void)!unlinkat(k.dir.fd, path, 0);
		format_log_path(id, path);
		(void)!unlinkat(k.dir.fd, path, 0);
	}
	alone_open(&a, &k);
	KIT_WAIT(&k, store_load(k.dir.fd, &sb) == 0 && sb.boot_id[0] != 'x');
	assert_false(a.ks->trust_synced_only);
	alone_close(&a);
	kit_start_node(&k);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deleted_index_is_rebuilt),
		cmocka_unit_test(damaged_index_is_rebuilt),
		cmocka_unit_test(deadly_index_is_rebuilt),
		cmocka_unit_test(vanishing_index_is_rebuilt),
		cmocka_unit_test(torn_log_tail_is_cut),
		cmocka_unit_test(after_a_power_cut_only_what_was_synced_counts),
		cmocka_unit_test(a_clean_end_survives_a_reboot),
		cmocka_unit_test(a_lost_journal_costs_the_objects),
		cmocka_unit_test(a_purge_survives_rebuild_and_power_cut),
		cmocka_unit_test(orphans_are_removed),
		cmocka_unit_test(refreshed_objects_survive),
		cmocka_unit_test(an_index_fails_once),
		cmocka_unit_test(a_rebuild_that_is_given_up_ends_no_distrust),
		cmocka_unit_test(an_empty_store_is_trusted_after_a_power_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
