/* A store keeps its size, drops the oldest, and loses no byte of its accounts. */
#include "tests/unit/cache/keeper_kit.h"

#include "cache/keeper_store.h"

enum { STORE_BYTES = 64 * KIT_MIB };

static size_t size_of(unsigned n)
{
	static const size_t sizes[] = { 1024, 3000, 40000, 300000, 900000, 2500000, 5000000 };

	return sizes[n * 7919 % ARRAY_LEN(sizes)];
}

static void assert_within_size(struct kit *k)
{
	uint64_t bytes = kit_disk_bytes_at(k->dir.path);

	/* A listing that raced with unlinks isn't whole. */
	if (bytes != UINT64_MAX && bytes > STORE_BYTES)
		fail_msg("%llu bytes on the disk", (unsigned long long)bytes);
}

/* As a request would: what can't be stored now is relayed. Returns what was stored. */
static uint64_t fill_many(struct kit *k, unsigned from, uint64_t bytes)
{
	uint64_t stored = 0;
	unsigned n = from;

	for (uint64_t offered = 0; offered < bytes; n++) {
		offered += size_of(n);
		if (kit_fill(k, n, 1, size_of(n)) == 0)
			stored += size_of(n);
		else
			usleep(20000);
		if (n % 16 == 0)
			kit_turn(k);
		if (n % 50 == 0)
			assert_within_size(k);
	}
	return stored;
}

static void the_size_is_kept(void **state)
{
	struct kit k;
	uint64_t stored;

	(void)state;
	kit_open(&k, STORE_BYTES);
	stored = fill_many(&k, 0, 400 * KIT_MIB);
	print_message("stored %llu of 400 MiB\n", (unsigned long long)stored / KIT_MIB);
	/* What is unlinked is free only two seconds later: of a store this small, a part of the load is relayed. */
	assert_true(stored > 70 * KIT_MIB);
	KIT_WAIT(&k, cache_claims_held(k.w.shared) == 0);
	assert_within_size(&k);
	assert_true(atomic_load(&k.w.store->evicted_segments) > 0);
	/* What was stored last is there, the first is not. */
	kit_store(&k, 100000, 1, 5000);
	kit_check(&k, 100000, 1, 5000);
	assert_false(kit_has(&k, 0));
	/* And the same after a restart, with its accounts made anew from the disk. */
	kit_restart(&k, SIGKILL);
	kit_check(&k, 100000, 1, 5000);
	stored = fill_many(&k, 200000, 100 * KIT_MIB);
	assert_true(stored > 20 * KIT_MIB);
	KIT_WAIT(&k, cache_claims_held(k.w.shared) == 0);
	assert_within_size(&k);
	kit_close(&k);
}

static bool none_is_dead(struct kit *k)
{
	for (unsigned i = 0; i < SHARED_SEGMENTS; i++)
		if (atomic_load(&k->w.store->segments[i].state) == SEGMENT_DEAD)
			return false;
	return true;
}

/* Whatever a keeper was evicting when it died, the next one ends. */
static void evicting_survives_deaths(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, STORE_BYTES);
	(void)fill_many(&k, 0, 60 * KIT_MIB);
	for (unsigned i = 1; i <= 8; i++) {
		(void)fill_many(&k, i * 1000, 15 * KIT_MIB);
		kit_end_keeper(&k, SIGKILL);
		kit_start_keeper(&k);
		KIT_WAIT(&k, atomic_load(&k.w.shared->keeper_pid) == k.keeper_pid);
		KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	}
	KIT_WAIT(&k, cache_claims_held(k.w.shared) == 0);
	KIT_WAIT(&k, none_is_dead(&k));
	assert_within_size(&k);
	kit_store(&k, 100000, 1, 5000);
	kit_check(&k, 100000, 1, 5000);
	kit_close(&k);
}

static void small_objects_keep_the_size(void **state)
{
	struct kit k;
	unsigned stored = 0;

	(void)state;
	kit_open(&k, STORE_BYTES);
	for (unsigned n = 0; n < 20000; n++) {
		int r = kit_fill(&k, n, 1, 5000);

		stored += r == 0;
		if (r != 0)
			usleep(2000);
		if (n % 64 == 0)
			kit_turn(&k);
		if (n % 4000 == 0)
			assert_within_size(&k);
	}
	KIT_WAIT(&k, cache_claims_held(k.w.shared) == 0);
	assert_within_size(&k);
	print_message("stored %u of 20000, evicted %llu\n", stored,
		      (unsigned long long)atomic_load(&k.w.store->evicted_objects));
	assert_true(atomic_load(&k.w.store->evicted_objects) > 0);
	assert_int_equal(atomic_load(&k.w.store->objects) + atomic_load(&k.w.store->evicted_objects),
			 stored);
	kit_close(&k);
}

/* The same few keys over and over: the replaced chunk files go at once, nothing needs to be evicted for them. */
static void replaced_objects_leave(void **state)
{
	struct kit k;
	unsigned version[4] = { 0 };

	(void)state;
	kit_open(&k, STORE_BYTES);
	for (unsigned round = 1; round <= 10; round++)
		for (unsigned n = 0; n < 4; n++) {
			kit_store(&k, n, round, 3 * KIT_MIB);
			version[n] = round;
			assert_within_size(&k);
		}
	for (unsigned n = 0; n < 4; n++)
		kit_check(&k, n, version[n], 3 * KIT_MIB);
	assert_int_equal(atomic_load(&k.w.store->objects), 4);
	kit_close(&k);
}

static bool segment_is_there(struct kit *k, uint32_t id)
{
	return shared_segment(k->w.store, id) != NULL;
}

static uint32_t offered(struct kit *k, unsigned place)
{
	return atomic_load(&k->w.store->open[place]);
}

/* An object in a segment that few fill is replaced, and its successor's segment, though younger, goes first. */
static void the_replaced_does_not_outlive_its_successor(void **state)
{
	struct kit k;
	uint32_t young;

	(void)state;
	kit_open(&k, STORE_BYTES);
	kit_store(&k, 0, 1, 1000);
	k.w.cache->slot = 1; /* which prefers the other place */
	young = offered(&k, 1);
	assert_true(young > offered(&k, 0));
	kit_store(&k, 0, 2, 1000);
	for (unsigned n = 1; segment_is_there(&k, young); n++) {
		KIT_WAIT(&k, offered(&k, 1) != 0);
		kit_store(&k, n, 1, 1500000);
	}
	assert_false(kit_has(&k, 0));
	k.w.cache->slot = 0;
	kit_end_node(&k, SIGTERM);
	assert_int_equal(index_wipe(k.dir.fd), 0);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	assert_false(kit_has(&k, 0));
	kit_close(&k);
}

/* Only the number of segments is full: there is room for many more bytes. */
static void a_full_table_of_segments_is_no_end(void **state)
{
	struct format_store sb;
	struct kit k;
	struct log log;

	(void)state;
	kit_open(&k, 1024 * KIT_MIB);
	kit_end_node(&k, SIGTERM);
	assert_int_equal(store_load(k.dir.fd, &sb), 0);
	for (uint32_t id = 1; id <= SHARED_SEGMENTS; id++) {
		char path[FORMAT_PATH_MAX];

		if (log_create(k.dir.fd, sb.id, id, &log) != 0)
			continue; /* of the first start */
		log_close(&log);
		format_segment_path(id, path);
		close(openat(k.dir.fd, path, O_CREAT | O_EXCL | O_WRONLY, 0640));
	}
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	kit_store(&k, 1, 1, 1000);
	kit_check(&k, 1, 1, 1000);
	kit_close(&k);
}

/* Smaller than a segment used to be, then larger. */
static void the_configured_size_may_change(void **state)
{
	static const uint64_t sizes[] = { 16384, 64, 32768, 1024 };
	struct kit k;

	(void)state;
	kit_open(&k, sizes[0] * KIT_MIB);
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		if (i != 0) {
			kit_end_node(&k, i % 2 == 0 ? SIGKILL : SIGTERM);
			k.w.conf.stores[0].size_bytes = sizes[i] * KIT_MIB;
			kit_start_node(&k);
			KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
		}
		kit_store(&k, 10 * i, 1, 3000);
		kit_store(&k, 10 * i + 1, 1, 9000000);
		for (unsigned j = 0; j <= i; j++) {
			kit_check(&k, 10 * j, 1, 3000);
			kit_check(&k, 10 * j + 1, 1, 9000000);
		}
		assert_true(k.w.store->segment_bytes <= sizes[i] * KIT_MIB / 16);
	}
	kit_close(&k);
}

/* All in one process: what is used and what is free make up the capacity, always. */
static void the_sum_holds(void **state)
{
	struct cache_conf conf = { .store_count = 1, .workers = 1 };
	struct cache_shared *shared;
	struct temp_dir dir;
	struct loop *loop = loop_new();
	struct keeper *keeper;
	struct keeper_store *ks;
	uint64_t sum = 0;

	(void)state;
	temp_dir_make(&dir);
	conf.stores[0] = (struct cache_store_conf){ .name = VIEW("main"),
						    .dir_fd = dir.fd,
						    .size_bytes = STORE_BYTES };
	shared = cache_shared_new(&conf);
	assert_int_equal(keeper_open(shared, &conf, loop, &keeper), 0);
	ks = &keeper->stores[0];
	account_add(ks, ACCOUNT_CHUNKS, 12345);
	account_add(ks, ACCOUNT_LEAVING, 777);
	account_add(ks, ACCOUNT_CHUNKS, -345);
	for (unsigned i = 0; i < ACCOUNTS; i++)
		sum += ks->accounts[i];
	assert_int_equal(sum + (uint64_t)atomic_load(&ks->st->free_bytes), ks->capacity_bytes);
	keeper_close(keeper);
	loop_free(loop);
	cache_shared_free(shared);
	temp_dir_remove(&dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_size_is_kept),
		cmocka_unit_test(evicting_survives_deaths),
		cmocka_unit_test(small_objects_keep_the_size),
		cmocka_unit_test(replaced_objects_leave),
		cmocka_unit_test(the_replaced_does_not_outlive_its_successor),
		cmocka_unit_test(a_full_table_of_segments_is_no_end),
		cmocka_unit_test(the_configured_size_may_change),
		cmocka_unit_test(the_sum_holds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
