/*
 * A disk that is full or broken: calls that write and sync are stood in for, and fail for the files that a test names, in
 * worker and keeper alike.
 */
#include "tests/unit/cache/keeper_kit.h"

#include <sys/syscall.h>
#include <sys/uio.h>

#include "cache/log.h"

/* --- the disk -------------------------------------------------------------------------------------- */

enum { FAULT_WRITES = 1, FAULT_SYNCS = 2, FAULT_OPENS = 4 };

/* Shared by the test's processes. A call fails whose kind is in «what» and whose file's path holds «where». */
static struct faults {
	_Atomic int what, error;
	char where[32];
	_Atomic unsigned failed, whole_syncs;
} * faults;

static bool fails_at(int what, const char *path)
{
	if (faults == NULL || !(atomic_load(&faults->what) & what) || strstr(path, faults->where) == NULL)
		return false;
	atomic_fetch_add(&faults->failed, 1);
	errno = atomic_load(&faults->error);
	return true;
}

static bool fails(int what, int fd)
{
	char link[40], path[300];
	ssize_t n;

	if (faults == NULL || atomic_load(&faults->what) == 0)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = '\0';
	return fails_at(what, path);
}

/* Over what is there already a full disk can write: LMDB's first two pages, without which it gives up. */
enum { META_BYTES = 2 * 4096 };

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
	if (at < META_BYTES && faults != NULL && strcmp(faults->where, FORMAT_INDEX_PATH) == 0)
		return syscall(SYS_pwrite64, fd, p, n, at);
	return fails(FAULT_WRITES, fd) ? -1 : syscall(SYS_pwrite64, fd, p, n, at);
}

ssize_t pwritev(int fd, const struct iovec *v, int count, off_t at)
{
	return fails(FAULT_WRITES, fd) ? -1 : syscall(SYS_pwritev, fd, v, count, at, 0);
}

int fdatasync(int fd)
{
	return fails(FAULT_SYNCS, fd) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int syncfs(int fd)
{
	atomic_fetch_add(&faults->whole_syncs, 1);
	return (int)syscall(SYS_syncfs, fd);
}

int openat(int dir_fd, const char *path, int flags, ...)
{
	va_list rest;
	mode_t mode;

	va_start(rest, flags);
	mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
	va_end(rest);
	return fails_at(FAULT_OPENS, path) ? -1 : (int)syscall(SYS_openat, dir_fd, path, flags, mode);
}

static void break_disk(int what, const char *where, int error)
{
	atomic_store(&faults->what, 0);
	atomic_store(&faults->failed, 0);
	assert_true((size_t)snprintf(faults->where, sizeof(faults->where), "%s", where) <
		    sizeof(faults->where));
	atomic_store(&faults->error, error);
	atomic_store(&faults->what, what);
}

static void mend_disk(void)
{
	atomic_store(&faults->what, 0);
}

static unsigned failures(void)
{
	return atomic_load(&faults->failed);
}

static int make_faults(void **state)
{
	(void)state;
	faults = mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return faults == MAP_FAILED;
}

static int remove_faults(void **state)
{
	(void)state;
	munmap(faults, sizeof(*faults));
	faults = NULL;
	return 0;
}

/* --- what the store makes of it -------------------------------------------------------------------- */

static bool is_suspect(struct kit *k)
{
	struct format_store sb;

	assert_int_equal(store_load(k->dir.fd, &sb), 0);
	return sb.flags & FORMAT_STORE_SUSPECT;
}

/* All that is in the logs is marked as synced. */
static bool is_marked(struct kit *k)
{
	struct format_store sb;

	assert_int_equal(store_load(k->dir.fd, &sb), 0);
	for (uint32_t id = 1; id < 40; id++) {
		char path[FORMAT_PATH_MAX];
		uint64_t trusted;
		struct stat st;

		format_log_path(id, path);
		if (fstatat(k->dir.fd, path, &st, 0) != 0 || st.st_size == sizeof(struct format_log))
			continue;
		if (log_trusted(k->dir.fd, sb.id, id, &trusted) != 0 ||
		    trusted + 32 < (uint64_t)st.st_size)
			return false;
	}
	return true;
}

/* So much is unsynced that the pump doesn't wait for its time. */
static void hurry(struct kit *k)
{
	atomic_store(&k->w.store->unsynced_bytes, (int64_t)(k->w.store->unsynced_limit_bytes / 4 + 1));
}

static void wait_for_marks(struct kit *k)
{
	hurry(k);
	KIT_WAIT(k, is_marked(k));
}

/* The kernel tells once, and forgets the bytes: from then on only what was marked before counts. */
static void a_failed_sync_ends_trust(void **state)
{
	static const int errors[] = { EIO, ENOSPC };

	(void)state;
	for (unsigned i = 0; i < ARRAY_LEN(errors); i++) {
		struct kit k;

		kit_open(&k, 64 * KIT_MIB);
		kit_store(&k, 1, 1, 1000);
		kit_store(&k, 2, 1, 3 * KIT_MIB);
		wait_for_marks(&k);
		break_disk(FAULT_SYNCS, "/chunks/", errors[i]);
		kit_store(&k, 3, 1, 3 * KIT_MIB);
		hurry(&k);
		KIT_WAIT(&k, kit_is(&k, STORE_FAILED));
		assert_int_equal(atomic_load(&k.w.store->reason), REASON_SYNC);
		KIT_WAIT(&k, is_suspect(&k));
		mend_disk();
		kit_restart(&k, SIGTERM);
		kit_check(&k, 1, 1, 1000);
		kit_check(&k, 2, 1, 3 * KIT_MIB);
		assert_false(kit_has(&k, 3));
		KIT_WAIT(&k, !is_suspect(&k));
		kit_close(&k);
	}
}

static void a_failed_sync_at_the_end_is_remembered(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	kit_store(&k, 1, 1, 1000);
	wait_for_marks(&k);
	kit_store(&k, 2, 1, 3 * KIT_MIB);
	break_disk(FAULT_SYNCS, "/chunks/", EIO);
	kit_end_node(&k, SIGTERM);
	mend_disk();
	assert_true(is_suspect(&k));
	kit_start_node(&k);
	KIT_WAIT(&k, kit_is(&k, STORE_OPEN));
	kit_check(&k, 1, 1, 1000);
	assert_false(kit_has(&k, 2));
	kit_close(&k);
}

/* Nothing was tried, so nothing is lost; and nothing is marked that wasn't synced. */
static void a_sync_without_descriptors_is_tried_again(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	kit_store(&k, 1, 1, 3 * KIT_MIB);
	break_disk(FAULT_OPENS, "chunks/", EMFILE);
	hurry(&k);
	KIT_WAIT(&k, failures() >= 2);
	assert_false(is_marked(&k));
	mend_disk();
	wait_for_marks(&k);
	assert_true(kit_is(&k, STORE_OPEN));
	kit_check(&k, 1, 1, 3 * KIT_MIB);
	kit_close(&k);
}

/* Its successor doesn't know which chunk files it hadn't synced. */
static void what_a_dead_keeper_had_not_synced_is_synced(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	kit_store(&k, 1, 1, 3 * KIT_MIB);
	kit_end_keeper(&k, SIGKILL);
	assert_int_equal(atomic_load(&faults->whole_syncs), 0);
	kit_start_keeper(&k);
	KIT_WAIT(&k, atomic_load(&k.w.shared->keeper_pid) == k.keeper_pid);
	wait_for_marks(&k);
	assert_int_equal(atomic_load(&faults->whole_syncs), 1);
	kit_store(&k, 2, 1, 1000);
	wait_for_marks(&k);
	assert_int_equal(atomic_load(&faults->whole_syncs), 1);
	kit_close(&k);
}

/* Until a segment went; from then on there is room. Whatever it is that finds the disk full. */
static void a_full_disk_makes_the_store_smaller(void **state)
{
	static const struct {
		const char *where;
		unsigned bytes;
	} cases[] = {
		{ ".seg", 1000 },
		{ "/chunks/", 3 * KIT_MIB },
		{ ".log", 1000 },
		{ FORMAT_INDEX_PATH, 1000 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		struct kit k;
		unsigned n = 0;

		print_message("%s\n", cases[i].where);
		kit_open(&k, 256 * KIT_MIB);
		for (; n < 8; n++)
			kit_store(&k, n, 1, 3 * KIT_MIB);
		KIT_WAIT(&k, atomic_load(&k.w.store->segments[1 % SHARED_SEGMENTS].state) ==
				     SEGMENT_SEALED);
		break_disk(FAULT_WRITES, cases[i].where, ENOSPC);
		for (int64_t end = clock_mono().ms + 60000; failures() == 0; kit_turn(&k)) {
			assert_true(clock_mono().ms < end);
			(void)kit_fill(&k, 100, 1, cases[i].bytes);
		}
		if (strcmp(cases[i].where, FORMAT_INDEX_PATH) == 0) {
			struct stat st;

			/* The entries go although the index can't be told. */
			KIT_WAIT(&k, fstatat(k.dir.fd, "segments/00000001.seg", &st, 0) != 0);
			mend_disk();
		}
		KIT_WAIT(&k, !kit_has(&k, 0));
		mend_disk();
		KIT_WAIT(&k, atomic_load(&k.w.store->evicted_segments) > 0);
		assert_true(kit_is(&k, STORE_OPEN));
		KIT_WAIT(&k, cache_claims_held(k.w.shared) == 0);
		kit_store(&k, 101, 1, cases[i].bytes);
		kit_check(&k, 101, 1, cases[i].bytes);
		kit_restart(&k, SIGKILL);
		kit_check(&k, 101, 1, cases[i].bytes);
		kit_close(&k);
	}
}

static void a_body_that_can_not_be_written_fails_the_store(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	kit_store(&k, 1, 1, 1000);
	break_disk(FAULT_WRITES, ".seg", EIO);
	assert_int_equal(kit_fill(&k, 2, 1, 1000), -EIO);
	KIT_WAIT(&k, is_suspect(&k));
	assert_true(kit_is(&k, STORE_FAILED));
	KIT_WAIT(&k, cache_claims_held(k.w.shared) == 0);
	/* Others pass, and a keeper that comes later leaves it out. */
	assert_int_equal(kit_fill(&k, 3, 1, 1000), -EBUSY);
	mend_disk();
	kit_end_keeper(&k, SIGKILL);
	kit_start_keeper(&k);
	KIT_WAIT(&k, atomic_load(&k.w.shared->keeper_pid) == k.keeper_pid);
	assert_true(kit_is(&k, STORE_FAILED));
	kit_close(&k);
}

static void a_log_that_can_not_be_written_fails_the_store(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	kit_store(&k, 1, 1, 1000);
	wait_for_marks(&k);
	break_disk(FAULT_WRITES, ".log", EIO);
	assert_int_equal(kit_fill(&k, 2, 1, 3 * KIT_MIB), 0);
	KIT_WAIT(&k, kit_is(&k, STORE_FAILED));
	assert_int_equal(atomic_load(&k.w.store->reason), REASON_LOG);
	KIT_WAIT(&k, cache_claims_held(k.w.shared) == 0);
	mend_disk();
	kit_restart(&k, SIGTERM);
	kit_check(&k, 1, 1, 1000);
	assert_false(kit_has(&k, 2));
	kit_store(&k, 2, 1, 3 * KIT_MIB);
	kit_check(&k, 2, 1, 3 * KIT_MIB);
	kit_close(&k);
}

static int ask_purge(struct kit *k, unsigned n)
{
	struct cache_key key = kit_key(n);
	struct cache_scope scope = cache_scope_url(key.primary);
	struct cache_purge_ask ask = { .slot = 0 };
	uint64_t sequence;
	int r;

	KIT_WAIT(k, (r = cache_purge_ask(k->w.cache, &ask, &scope, 1, false, &k->w.wake, &sequence)) !=
			    -EINPROGRESS);
	return r;
}

/* A purge that no journal took is refused; on a full disk that costs the purge, not the store. */
static void a_full_disk_refuses_a_purge(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k, 64 * KIT_MIB);
	kit_store(&k, 1, 1, 1000);
	break_disk(FAULT_WRITES, FORMAT_JOURNAL_PATH, ENOSPC);
	assert_int_equal(ask_purge(&k, 1), -EIO);
	mend_disk();
	assert_true(kit_is(&k, STORE_OPEN));
	assert_int_equal(kit_purged(&k, 1), CACHE_NOT_PURGED);
	assert_int_equal(ask_purge(&k, 1), 0);
	assert_int_equal(kit_purged(&k, 1), CACHE_HARD_PURGED);
	kit_restart(&k, SIGKILL);
	assert_int_equal(kit_purged(&k, 1), CACHE_HARD_PURGED);
	break_disk(FAULT_SYNCS, FORMAT_JOURNAL_PATH, EIO);
	assert_int_equal(ask_purge(&k, 1), -EIO);
	KIT_WAIT(&k, kit_is(&k, STORE_FAILED));
	assert_int_equal(atomic_load(&k.w.store->reason), REASON_JOURNAL);
	mend_disk();
	kit_close(&k);
}

#define FAULT_TEST(name) cmocka_unit_test_setup_teardown(name, make_faults, remove_faults)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FAULT_TEST(a_failed_sync_ends_trust),
		FAULT_TEST(a_failed_sync_at_the_end_is_remembered),
		FAULT_TEST(a_sync_without_descriptors_is_tried_again),
		FAULT_TEST(what_a_dead_keeper_had_not_synced_is_synced),
		FAULT_TEST(a_full_disk_makes_the_store_smaller),
		FAULT_TEST(a_body_that_can_not_be_written_fails_the_store),
		FAULT_TEST(a_log_that_can_not_be_written_fails_the_store),
		FAULT_TEST(a_full_disk_refuses_a_purge),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
