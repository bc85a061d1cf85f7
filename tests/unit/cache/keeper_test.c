/* Keeper and worker together: commits, restarts, deaths, purges. */
#include "tests/unit/cache/keeper_kit.h"

#include "cache/journal.h"

static const size_t sizes[] = { 0, 1, 1000, 20000, 70000, 1 << 20, (1 << 20) + 1, 5000000 };

static void store_sizes(struct kit *k, unsigned version)
{
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++)
		kit_store(k, i, version, sizes[i]);
}

static void check_sizes(struct kit *k, unsigned version)
{
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++)
		kit_check(k, i, version, sizes[i]);
}

static bool no_claims(struct kit *k)
{
	return cache_claims_held(k->w.shared) == 0;
}

static void committed_objects_are_found(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 256 * KIT_MIB);
	store_sizes(&k, 1);
	check_sizes(&k, 1);
	assert_int_equal(atomic_load(&k.w.store->objects), ARRAY_LEN(sizes));
	store_sizes(&k, 2);
	check_sizes(&k, 2);
	KIT_WAIT(&k, no_claims(&k));
	kit_close(&k);
}

static void they_outlive_the_node(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 256 * KIT_MIB);
	store_sizes(&k, 1);
	kit_restart(&k, SIGTERM);
	check_sizes(&k, 1);
	store_sizes(&k, 2);
	kit_restart(&k, SIGKILL);
	check_sizes(&k, 2);
	store_sizes(&k, 3);
	check_sizes(&k, 3);
	kit_close(&k);
}

/* The worker goes on while one keeper after another is killed; what was seen committed is never missed. */
static void keepers_may_die_at_any_time(void **state)
{
	enum { ROUNDS = 12, OBJECTS = 400 };
	static unsigned versions[OBJECTS];
	struct kit k;
	unsigned filled = 0;

	(void)state;
	memset(versions, 0, sizeof(versions));
	kit_open(&k, 256 * KIT_MIB);
	for (unsigned round = 1; round <= ROUNDS; round++) {
		unsigned until = filled + 60 + round * 7;
		uint64_t commits = atomic_load(&k.w.store->commits);

		for (; filled < until; filled++)
			if (kit_fill(&k, filled % OBJECTS, round, 500 + filled % 7 * 30000) != 0)
				break;
		KIT_WAIT(&k, atomic_load(&k.w.store->commits) > commits);
		for (unsigned n = 0; n < OBJECTS; n++) {
			struct cache_record r;

			if (kit_find(&k, n, &r) == 0)
				versions[n] = r.object_id != 0;
		}
		kit_end_keeper(&k, SIGKILL);
		kit_start_keeper(&k);
		KIT_WAIT(&k, atomic_load(&k.w.shared->keeper_pid) == k.keeper_pid);
		KIT_WAIT(&k, no_claims(&k));
		for (unsigned n = 0; n < OBJECTS; n++)
			if (versions[n] != 0)
				assert_true(kit_has(&k, n));
	}
	kit_close(&k);
}

static void many_small_fills_share_batches(void **state)
{
	enum { FILLS = 3000 };
	struct kit k;

	(void)state;
	kit_open(&k, 256 * KIT_MIB);
	for (unsigned n = 0; n < FILLS; n++)
		KIT_WAIT(&k, kit_fill(&k, n, 1, 1024) == 0);
	KIT_WAIT(&k, no_claims(&k));
	assert_int_equal(atomic_load(&k.w.store->commits), FILLS);
	assert_int_equal(atomic_load(&k.w.store->commits_refused), 0);
	for (unsigned n = 0; n < FILLS; n++)
		kit_check(&k, n, 1, 1024);
	kit_restart(&k, SIGKILL);
	for (unsigned n = 0; n < FILLS; n++)
		kit_check(&k, n, 1, 1024);
	kit_close(&k);
}

static void purges_are_final(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	kit_store(&k, 1, 1, 1000);
	kit_store(&k, 2, 1, 1000);
	kit_store(&k, 3, 1, 1000);
	assert_int_equal(kit_purged(&k, 1), CACHE_NOT_PURGED);
	kit_purge(&k, 1, false);
	kit_purge(&k, 2, true);
	assert_int_equal(kit_purged(&k, 1), CACHE_HARD_PURGED);
	assert_int_equal(kit_purged(&k, 2), CACHE_SOFT_PURGED);
	assert_int_equal(kit_purged(&k, 3), CACHE_NOT_PURGED);
	kit_restart(&k, SIGKILL);
	assert_int_equal(kit_purged(&k, 1), CACHE_HARD_PURGED);
	assert_int_equal(kit_purged(&k, 2), CACHE_SOFT_PURGED);
	assert_int_equal(kit_purged(&k, 3), CACHE_NOT_PURGED);
	/* What is fetched after the purge is younger than it. */
	kit_store(&k, 1, 2, 2000);
	assert_int_equal(kit_purged(&k, 1), CACHE_NOT_PURGED);
	kit_restart(&k, SIGTERM);
	kit_check(&k, 1, 2, 2000);
	assert_int_equal(kit_purged(&k, 1), CACHE_NOT_PURGED);
	kit_close(&k);
}

static void fills_older_than_a_purge_are_refused(void **state)
{
	struct kit k;
	struct cache_key key = kit_key(1);
	struct cache_fill *fill;
	char *body = kit_body(1, 1, 3 * KIT_MIB);

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	fill = world_begin(&k.w, &key, 3 * KIT_MIB);
	assert_int_equal(cache_fill_write(fill, body, 3 * KIT_MIB), 0);
	kit_purge(&k, 1, false);
	assert_int_equal(cache_fill_finish(fill), 0);
	cache_fill_free(fill);
	KIT_WAIT(&k, atomic_load(&k.w.store->commits_refused) == 1);
	KIT_WAIT(&k, no_claims(&k));
	assert_false(kit_has(&k, 1));
	free(body);
	kit_close(&k);
}

/* A worker that dies in the middle of a fill leaves neither claim nor chunk files. */
static void dead_workers_are_swept(void **state)
{
	struct kit k;
	struct cache_key key = kit_key(1);
	uint64_t before;
	pid_t pid;
	int status;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	before = (uint64_t)atomic_load(&k.w.store->free_bytes);
	pid = fork();
	if (pid == 0) {
		char *body = kit_body(1, 1, 5 * KIT_MIB);
		struct world other = { .shared = k.w.shared, .store = k.w.store, .conf = k.w.conf };

		other.loop = loop_new();
		if (cache_attach(other.shared, &other.conf, other.loop, 1, &other.cache) != 0)
			_exit(1);
		struct cache_fill *fill = world_begin(&other, &key, 6 * KIT_MIB);

		if (cache_fill_write(fill, body, 5 * KIT_MIB) != 0)
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(cache_claims_held(k.w.shared), 1);
	k.orders->dead_slot = 1;
	k.orders->dead_pid = pid;
	kill(k.keeper_pid, SIGUSR1);
	KIT_WAIT(&k, no_claims(&k));
	/* All but what a log may have grown by. */
	KIT_WAIT(&k, (uint64_t)atomic_load(&k.w.store->free_bytes) + 4096 >= before);
	kit_store(&k, 1, 1, 5 * KIT_MIB);
	kit_check(&k, 1, 1, 5 * KIT_MIB);
	kit_close(&k);
}

static void another_format_or_no_superblock_is_refused(void **state)
{
	struct format_store sb;
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	kit_store(&k, 1, 1, 1000);
	kit_end_node(&k, SIGTERM);
	assert_int_equal(store_load(k.dir.fd, &sb), 0);
	sb.format++;
	assert_int_equal(store_save(k.dir.fd, &sb), 0);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_FAILED));
	assert_int_equal(atomic_load(&k.w.store->reason), REASON_FORMAT);
	assert_false(kit_has(&k, 1));
	kit_end_node(&k, SIGTERM);
	assert_int_equal(unlinkat(k.dir.fd, FORMAT_STORE_PATH, 0), 0);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_FAILED));
	assert_int_equal(atomic_load(&k.w.store->reason), REASON_OPEN);
	kit_end_node(&k, SIGTERM);
	/* Nothing was touched. */
	sb.format--;
	assert_int_equal(store_save(k.dir.fd, &sb), 0);
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	kit_check(&k, 1, 1, 1000);
	kit_close(&k);
}

static void a_store_is_one_nodes(void **state)
{
	struct temp_dir dir;
	int dir_fd, lock_fd, other_dir, other_lock;
	char path[300];

	(void)state;
	temp_dir_make(&dir);
	snprintf(path, sizeof(path), "%s/a/b", dir.path);
	assert_int_equal(cache_store_open(view_str(path), getuid(), getgid(), &dir_fd, &lock_fd), 0);
	assert_int_equal(cache_store_open(view_str(path), getuid(), getgid(), &other_dir, &other_lock),
			 -EWOULDBLOCK);
	close(lock_fd);
	assert_int_equal(
		cache_store_open(view_str(path), getuid(), getgid(), &other_dir, &other_lock), 0);
	close(dir_fd);
	close(other_dir);
	close(other_lock);
	temp_dir_remove(&dir);
}

static void nothing_done(void *arg, int result, uint64_t sequence)
{
	*(int *)arg = result == 0 && sequence != 0 ? 1 : -1;
}

/* All in one process, so that leaks are seen; and a purge asked here is answered by the end at the latest. */
static void opening_and_closing_leaves_nothing(void **state)
{
	struct cache_conf conf = { .store_count = 1, .workers = 1 };
	struct cache_scope all = cache_scope_all();
	struct cache_shared *shared;
	struct temp_dir dir;
	struct loop *loop = loop_new();
	struct keeper *keeper;
	int answered = 0;

	(void)state;
	temp_dir_make(&dir);
	conf.stores[0] = (struct cache_store_conf){ .name = VIEW("main"),
						    .dir_fd = dir.fd,
						    .size_bytes = 64 * KIT_MIB };
	shared = cache_shared_new(&conf);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(keeper_open(shared, &conf, loop, &keeper), 0);
		assert_int_equal(atomic_load(&shared->stores[0].state), STORE_OPEN);
		assert_int_equal(keeper_purge(keeper, &all, 1, false, nothing_done, &answered), 0);
		keeper_close(keeper);
		assert_int_equal(answered, 1);
		answered = 0;
		assert_int_equal(atomic_load(&shared->stores[0].state), STORE_OUT);
	}
	assert_int_equal(purge_clock_now(shared), 3);
	loop_free(loop);
	cache_shared_free(shared);
	temp_dir_remove(&dir);
}

/* A purge that only one store's journal has (the node died in between) holds for both from the next start on. */
static void stores_learn_from_each_other(void **state)
{
	struct cache_conf conf = { .store_count = 2, .workers = 1 };
	struct format_purge missed = { .sequence = 9, .hash = 77, .kind = CACHE_SCOPE_URL };
	const uint8_t primary[16] = { 77 };
	const struct cache_names names = { .primary = primary };
	struct cache_shared *shared;
	struct temp_dir dirs[2];
	struct loop *loop = loop_new();
	struct keeper *keeper;
	struct journal journal;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		temp_dir_make(&dirs[i]);
		conf.stores[i] = (struct cache_store_conf){ .name = i == 0 ? VIEW("a") : VIEW("b"),
							    .dir_fd = dirs[i].fd,
							    .size_bytes = 64 * KIT_MIB };
	}
	for (unsigned pass = 0; pass < 3; pass++) {
		shared = cache_shared_new(&conf);
		assert_int_equal(keeper_open(shared, &conf, loop, &keeper), 0);
		assert_int_equal(purge_clock_names(shared, &names, pass == 0 ? 0 : 8, NULL),
				 pass != 0 ? CACHE_HARD_PURGED : CACHE_NOT_PURGED);
		assert_int_equal(purge_clock_now(shared), pass == 0 ? 0 : 9);
		keeper_close(keeper);
		cache_shared_free(shared);
		if (pass == 0) {
			assert_int_equal(journal_open(dirs[0].fd, &journal), 0);
			journal_seal(&missed, 1);
			assert_int_equal(journal_append(&journal, &missed, 1), 0);
			journal_close(&journal);
		}
		/* Now the second has it, too. */
		if (pass == 1)
			conf.store_count = 1, conf.stores[0] = conf.stores[1];
	}
	loop_free(loop);
	for (unsigned i = 0; i < 2; i++)
		temp_dir_remove(&dirs[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(committed_objects_are_found),
		cmocka_unit_test(they_outlive_the_node),
		cmocka_unit_test(keepers_may_die_at_any_time),
		cmocka_unit_test(many_small_fills_share_batches),
		cmocka_unit_test(purges_are_final),
		cmocka_unit_test(fills_older_than_a_purge_are_refused),
		cmocka_unit_test(dead_workers_are_swept),
		cmocka_unit_test(another_format_or_no_superblock_is_refused),
		cmocka_unit_test(a_store_is_one_nodes),
		cmocka_unit_test(stores_learn_from_each_other),
		cmocka_unit_test(opening_and_closing_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
