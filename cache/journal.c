/* The purge journal: see journal.h. */
#include "cache/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/cache.h"
#include "cache/store.h"
#include "edge/base/hash.h"

enum {
	JOURNAL_MODE = 0640,
	JOURNAL_CHECKED = offsetof(struct format_journal, magic),
	PURGE_CHECKED = offsetof(struct format_purge, sequence),
	LOAD_PURGES = 4096, /* read at once */
};
#define JOURNAL_NEW_PATH FORMAT_JOURNAL_PATH ".new"

static uint64_t purge_checksum(const struct format_purge *p)
{
	return hash_xxh3((const char *)p + PURGE_CHECKED, sizeof(*p) - PURGE_CHECKED);
}

/* --- sets ------------------------------------------------------------------------------------------- */

void journal_set_fini(struct journal_set *set)
{
	free(set->purges);
	*set = (struct journal_set){ .count = 0 };
}

int journal_set_add(struct journal_set *set, const struct format_purge *p)
{
	if (set->count == set->capacity) {
		size_t capacity = set->capacity == 0 ? 256 : set->capacity * 2;
		struct format_purge *purges = realloc(set->purges, capacity * sizeof(*purges));

		if (purges == NULL)
			return -ENOMEM;
		set->purges = purges;
		set->capacity = capacity;
	}
	set->purges[set->count++] = *p;
	return 0;
}

void journal_runs_add(struct journal_runs *runs, uint64_t id)
{
	if (runs->count == FORMAT_JOURNAL_RUNS) {
		runs->count--;
		memmove(runs->ids, runs->ids + 1, runs->count * sizeof(runs->ids[0]));
	}
	runs->ids[runs->count++] = id;
}

bool journal_runs_has(const struct journal_runs *runs, uint64_t id)
{
	for (unsigned i = 0; i < runs->count; i++) {
		if (runs->ids[i] == id)
			return true;
	}
	return false;
}

void journal_set_renumber(struct journal_set *set)
{
	uint64_t next = journal_set_newest(set) + 1;

	for (size_t i = 0; i < set->count; i++)
		set->purges[i].sequence = next;
}

static int by_scope(const void *pa, const void *pb)
{
	const struct format_purge *a = pa, *b = pb;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->soft != b->soft)
		return a->soft < b->soft ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	return a->sequence < b->sequence ? 1 : a->sequence > b->sequence ? -1 : 0;
}

static int by_sequence(const void *pa, const void *pb)
{
	const struct format_purge *a = pa, *b = pb;

	if (a->sequence != b->sequence)
		return a->sequence < b->sequence ? -1 : 1;
	return by_scope(pa, pb);
}

static bool same_scope(const struct format_purge *a, const struct format_purge *b)
{
	return a->hash == b->hash && a->kind == b->kind && a->soft == b->soft && a->bytes == b->bytes;
}

static struct format_purge purge_of_all(uint64_t sequence)
{
	struct cache_scope all = cache_scope_all();

	return (struct format_purge){ .sequence = sequence, .hash = all.hash, .kind = all.kind };
}

void journal_set_fold(struct journal_set *set, size_t limit)
{
	size_t kept = 0;

	if (set->count == 0)
		return;
	qsort(set->purges, set->count, sizeof(*set->purges), by_scope);
	for (size_t i = 0; i < set->count; i++)
		if (kept == 0 || !same_scope(&set->purges[kept - 1], &set->purges[i]))
			set->purges[kept++] = set->purges[i];
	set->count = kept;
	qsort(set->purges, set->count, sizeof(*set->purges), by_sequence);
	if (set->count <= limit)
		return;
	size_t folded = set->count - limit;

	set->purges[folded] = purge_of_all(set->purges[folded].sequence);
	memmove(set->purges, set->purges + folded, limit * sizeof(*set->purges));
	set->count = limit;
}

uint64_t journal_set_newest(const struct journal_set *set)
{
	uint64_t newest = 0;

	for (size_t i = 0; i < set->count; i++)
		if (set->purges[i].sequence > newest)
			newest = set->purges[i].sequence;
	return newest;
}

/* --- loading ------------------------------------------------------------------------------------------ */

static void head_encode(const uint64_t store_id[2], const struct journal_runs *runs,
			struct format_journal *out)
{
	*out = (struct format_journal){
		.magic = FORMAT_JOURNAL_MAGIC,
		.format = FORMAT_JOURNAL,
		.store_id = { store_id[0], store_id[1] },
		.run_count = runs->count,
	};
	memcpy(out->runs, runs->ids, runs->count * sizeof(runs->ids[0]));
	out->checksum = hash_xxh3((const char *)out + JOURNAL_CHECKED, sizeof(*out) - JOURNAL_CHECKED);
}

/* What was found: a damaged record, and (a gap) a whole one behind it. */
struct load {
	struct journal_set *set;
	uint64_t newest;
	bool damaged, gap;
};

static int load_records(struct load *l, const struct format_purge *purges, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (purges[i].checksum != purge_checksum(&purges[i])) {
			l->damaged = true;
			continue;
		}
		int r = purges[i].kind != FORMAT_PURGE_SEAL ? journal_set_add(l->set, &purges[i]) : 0;

		if (r != 0)
			return r;
		if (purges[i].sequence > l->newest)
			l->newest = purges[i].sequence;
		l->gap = l->damaged;
	}
	return 0;
}

/* Keeps memory in bounds however long the journal grew. */
static void fold_if_large(struct journal_set *set)
{
	if (set->count > 2 * (size_t)JOURNAL_SCOPES)
		journal_set_fold(set, JOURNAL_SCOPES);
}

static int load_file(int fd, struct load *l, bool *out_torn)
{
	struct format_purge *purges = malloc(LOAD_PURGES * sizeof(*purges));
	off_t offset = sizeof(struct format_journal);
	ssize_t n = 0;
	int r = purges == NULL ? -ENOMEM : 0;

	while (r == 0) {
		n = pread(fd, purges, LOAD_PURGES * sizeof(*purges), offset);
		if (n < 0)
			r = -EIO;
		if (n < (ssize_t)sizeof(*purges))
			break;
		r = load_records(l, purges, (size_t)n / sizeof(*purges));
		fold_if_large(l->set);
		offset += n / (ssize_t)sizeof(*purges) * (ssize_t)sizeof(*purges);
	}
	free(purges);
	*out_torn = n > 0;
	return r;
}

static int load_head(int fd, const uint64_t store_id[2], struct journal_runs *out_runs)
{
	struct format_journal head, expected;
	struct journal_runs runs = { .count = 0 };

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || head.run_count > FORMAT_JOURNAL_RUNS)
		return -EBADMSG;
	runs.count = (unsigned)head.run_count;
	memcpy(runs.ids, head.runs, runs.count * sizeof(runs.ids[0]));
	head_encode(store_id, &runs, &expected);
	if (memcmp(&head, &expected, sizeof(head)) != 0)
		return -EBADMSG;
	*out_runs = runs;
	return 0;
}

int journal_load(int dir_fd, const uint64_t store_id[2], struct journal_set *set, bool *out_whole)
{
	struct load l = { .set = set };
	bool torn = false;
	int fd = openat(dir_fd, FORMAT_JOURNAL_PATH, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = load_head(fd, store_id, &set->runs);
	if (r == 0)
		r = load_file(fd, &l, &torn);
	close(fd);
	if (r == 0 && l.gap) {
		struct format_purge all = purge_of_all(l.newest);

		r = journal_set_add(set, &all);
	}
	if (r != 0)
		return r;
	*out_whole = !l.damaged && !torn;
	return 0;
}

/* --- writing ------------------------------------------------------------------------------------------- */

static int write_all(int fd, const void *p, size_t n, uint64_t offset)
{
	const char *at = p;

	while (n != 0) {
		ssize_t written = pwrite(fd, at, n, (off_t)offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written < 0 ? -errno : -ENOSPC;
		at += written;
		n -= (size_t)written;
		offset += (uint64_t)written;
	}
	return 0;
}

void journal_seal(struct format_purge *purges, size_t count)
{
	for (size_t i = 0; i < count; i++)
		purges[i].checksum = purge_checksum(&purges[i]);
}

/* Purges and what seals them, behind «offset». */
static int write_sealed(int fd, const struct format_purge *purges, size_t count, uint64_t offset)
{
	struct format_purge seal = { .kind = FORMAT_PURGE_SEAL };
	int r;

	if (count == 0)
		return 0;
	seal.sequence = purges[count - 1].sequence;
	journal_seal(&seal, 1);
	r = write_all(fd, purges, count * sizeof(*purges), offset);
	return r == 0 ? write_all(fd, &seal, sizeof(seal), offset + count * sizeof(*purges)) : r;
}

static int write_new(int fd, const uint64_t store_id[2], const struct journal_set *set)
{
	struct format_journal head;
	int r;

	head_encode(store_id, &set->runs, &head);
	journal_seal(set->purges, set->count);
	r = write_all(fd, &head, sizeof(head), 0);
	if (r == 0)
		r = write_sealed(fd, set->purges, set->count, sizeof(head));
	if (r == 0 && fsync(fd) != 0)
		r = -errno;
	return r;
}

int journal_rewrite(int dir_fd, const uint64_t store_id[2], const struct journal_set *set)
{
	int fd = openat(dir_fd, JOURNAL_NEW_PATH, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, JOURNAL_MODE);
	int r;

	if (fd < 0)
		return -errno;
	r = write_new(fd, store_id, set);
	close(fd);
	if (r == 0 && renameat(dir_fd, JOURNAL_NEW_PATH, dir_fd, FORMAT_JOURNAL_PATH) != 0)
		r = -errno;
	return r == 0 ? store_sync_dir(dir_fd, ".") : r;
}

int journal_open(int dir_fd, struct journal *out)
{
	struct journal j = { .fd = openat(dir_fd, FORMAT_JOURNAL_PATH, O_RDWR | O_CLOEXEC) };
	struct stat st;

	if (j.fd < 0)
		return -errno;
	if (fstat(j.fd, &st) != 0) {
		close(j.fd);
		return -EIO;
	}
	j.bytes = (uint64_t)st.st_size;
	*out = j;
	return 0;
}

int journal_append(struct journal *j, const struct format_purge *purges, size_t count)
{
	int r = write_sealed(j->fd, purges, count, j->bytes);

	if (r == 0 && fdatasync(j->fd) != 0)
		r = -errno;
	if (r == 0)
		j->bytes += (count + 1) * sizeof(*purges);
	return r;
}

int journal_compact(struct journal *j, int dir_fd, const uint64_t store_id[2], uint64_t run)
{
	struct journal_set set = { 0 };
	struct journal fresh;
	bool whole;
	int r = journal_load(dir_fd, store_id, &set, &whole);

	if (r == 0) {
		journal_set_fold(&set, JOURNAL_SCOPES);
		if (run != 0)
			journal_runs_add(&set.runs, run);
		r = journal_rewrite(dir_fd, store_id, &set);
	}
	journal_set_fini(&set);
	if (r == 0)
		r = journal_open(dir_fd, &fresh);
	if (r != 0)
		return r;
	journal_close(j);
	*j = fresh;
	return 0;
}

void journal_close(struct journal *j)
{
	if (j->fd >= 0)
		close(j->fd);
	*j = (struct journal){ .fd = -1 };
}
