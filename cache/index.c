/* LMDB behind the few calls of index.h. */
#include "cache/index.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/format.h"
#include "cache/index_row.h"

enum {
	INDEX_MAGIC = 0x494d5242, /* "BRMI" */
	INDEX_FORMAT = 1,
	INDEX_READERS = 256,
	LOG_KEY_BYTES = 5, /* 'L', segment */
	META_KEY_BYTES = 1,
};

/* The row of the index itself. */
struct index_meta {
	uint32_t magic, format;
	uint64_t store_id[2];
	uint64_t objects, chunk_bytes;
	uint32_t complete, reserved;
};
static_assert(sizeof(struct index_meta) == 48, "meta row");

struct index {
	uint32_t magic;
	MDB_env *env;
	MDB_dbi dbi;
	MDB_txn *reading; /* reset between calls */
	MDB_txn *writing;
	struct index_meta meta, meta_before;
	int error; /* the first since index_begin */
};

/* --- LMDB's errors ------------------------------------------------------------------------- */

static int error_of(int mdb)
{
	switch (mdb) {
	case 0:
		return 0;
	case MDB_NOTFOUND:
		return -ENOENT;
	case MDB_INVALID:
	case MDB_VERSION_MISMATCH:
	case MDB_CORRUPTED:
	case MDB_PAGE_NOTFOUND:
	case MDB_PANIC:
	case MDB_INCOMPATIBLE:
		return -EBADMSG;
	case MDB_MAP_FULL:
		return -ENOSPC;
	}
	return mdb > 0 ? -mdb : -EIO;
}

/* --- keys of other rows -------------------------------------------------------------------------- */

static void encode_log_key(uint32_t segment, uint8_t out[LOG_KEY_BYTES])
{
	out[0] = 'L';
	memcpy(out + 1, &segment, 4);
}

/* --- reading ------------------------------------------------------------------------------------ */

static int begin_reading(struct index *ix)
{
	int r = 0;

	if (ix->reading == NULL)
		r = mdb_txn_begin(ix->env, NULL, MDB_RDONLY, &ix->reading);
	else
		r = mdb_txn_renew(ix->reading);
	return error_of(r);
}

int index_find(struct index *ix, const struct cache_key *key, struct cache_record *out)
{
	uint8_t bytes[INDEX_ROW_KEY_BYTES];
	MDB_val k = { sizeof(bytes), bytes }, value;
	int r;

	CHECK_MAGIC(ix, INDEX_MAGIC);
	index_row_key(key, bytes);
	if (begin_reading(ix) != 0)
		return -EIO;
	r = mdb_get(ix->reading, ix->dbi, &k, &value);
	if (r == 0)
		r = index_row_decode(view_of(value.mv_data, value.mv_size), out);
	else
		r = r == MDB_NOTFOUND ? -ENOENT : -EIO;
	mdb_txn_reset(ix->reading);
	return r;
}

static bool same_primary(const MDB_val *k, const uint8_t primary[16])
{
	return k->mv_size == INDEX_ROW_KEY_BYTES && memcmp(k->mv_data, primary, 16) == 0;
}

static int walk_variants(MDB_cursor *cursor, const uint8_t primary[16], index_record_fn *fn, void *arg)
{
	uint8_t bytes[INDEX_ROW_KEY_BYTES] = { 0 };
	MDB_val k = { sizeof(bytes), bytes }, value;
	struct cache_record record;
	struct cache_key key;
	int count = 0, r;

	memcpy(bytes, primary, 16);
	for (r = mdb_cursor_get(cursor, &k, &value, MDB_SET_RANGE);
	     r == 0 && same_primary(&k, primary); r = mdb_cursor_get(cursor, &k, &value, MDB_NEXT)) {
		if (index_row_decode(view_of(value.mv_data, value.mv_size), &record) != 0)
			return -EIO;
		index_row_key_decode(k.mv_data, &key);
		fn(arg, &key, &record);
		count++;
	}
	return r == 0 || r == MDB_NOTFOUND ? count : -EIO;
}

int index_each(struct index *ix, const uint8_t primary[16], index_record_fn *fn, void *arg)
{
	MDB_cursor *cursor;
	int r = begin_reading(ix);

	CHECK_MAGIC(ix, INDEX_MAGIC);
	if (r != 0)
		return r;
	r = error_of(mdb_cursor_open(ix->reading, ix->dbi, &cursor));
	if (r == 0) {
		r = walk_variants(cursor, primary, fn, arg);
		mdb_cursor_close(cursor);
	}
	mdb_txn_reset(ix->reading);
	return r;
}

static void ignore_record(void *arg, const struct cache_key *key, const struct cache_record *r)
{
	(void)arg;
	(void)key;
	(void)r;
}

bool index_known(struct index *ix, const uint8_t primary[16])
{
	return index_each(ix, primary, ignore_record, NULL) > 0;
}

/* --- opening -------------------------------------------------------------------------------------- */

/* Children have the directory's descriptor and perhaps no right to its path. */
static void index_path(int dir_fd, char *out, size_t n)
{
	snprintf(out, n, "/proc/self/fd/%d/" FORMAT_INDEX_PATH, dir_fd);
}

/* As much address space as there is; the file only takes what it needs. */
static int open_env(int dir_fd, unsigned flags, MDB_env **out)
{
	static const size_t map_bytes[] = { 1ul << 40, 1ul << 36, 1ul << 32, 1ul << 30 };
	char path[64];
	MDB_env *env;
	int r = ENOMEM;

	index_path(dir_fd, path, sizeof(path));
	for (size_t i = 0; i < ARRAY_LEN(map_bytes) && r == ENOMEM; i++) {
		r = mdb_env_create(&env);
		if (r != 0)
			return error_of(r);
		if (r == 0)
			r = mdb_env_set_mapsize(env, map_bytes[i]);
		if (r == 0)
			r = mdb_env_set_maxreaders(env, INDEX_READERS);
		if (r == 0)
			r = mdb_env_open(env, path, flags | MDB_NOSUBDIR | MDB_NOTLS | MDB_NOSYNC, 0640);
		if (r != 0)
			mdb_env_close(env);
	}
	if (r != 0)
		return error_of(r);
	*out = env;
	return 0;
}

/* Opens the tree, and reads the row of the index itself. -ENOENT: a new one. */
static int open_tree(struct index *ix, unsigned flags)
{
	MDB_val k = { META_KEY_BYTES, "M" }, value;
	MDB_txn *txn;
	int r = mdb_txn_begin(ix->env, NULL, flags, &txn);

	if (r != 0)
		return error_of(r);
	r = mdb_dbi_open(txn, NULL, 0, &ix->dbi);
	if (r == 0)
		r = mdb_get(txn, ix->dbi, &k, &value);
	if (r == 0 && value.mv_size != sizeof(ix->meta))
		r = MDB_INVALID;
	if (r == 0)
		memcpy(&ix->meta, value.mv_data, sizeof(ix->meta));
	mdb_txn_abort(txn);
	if (r == 0 && ix->meta.magic != INDEX_MAGIC)
		r = MDB_INVALID;
	if (r == 0 && ix->meta.format != INDEX_FORMAT)
		return -EPROTO;
	return error_of(r);
}

static int index_new(int dir_fd, unsigned flags, struct index **out)
{
	struct index *ix = calloc(1, sizeof(*ix));
	int r;

	if (ix == NULL)
		return -ENOMEM;
	ix->magic = INDEX_MAGIC;
	r = open_env(dir_fd, flags, &ix->env);
	if (r != 0) {
		free(ix);
		return r;
	}
	*out = ix;
	return 0;
}

int index_open_reader(int dir_fd, struct index **out)
{
	struct index *ix;
	int r = index_new(dir_fd, MDB_RDONLY, &ix);

	if (r != 0)
		return r;
	r = open_tree(ix, MDB_RDONLY);
	if (r != 0) {
		index_close(&ix);
		return r;
	}
	*out = ix;
	return 0;
}

/* A new index says whose it is at once, so that a later start knows it. */
static int found(struct index *ix, const uint64_t store_id[2])
{
	index_begin(ix);
	ix->meta = (struct index_meta){
		.magic = INDEX_MAGIC,
		.format = INDEX_FORMAT,
		.store_id = { store_id[0], store_id[1] },
	};
	return index_commit(ix);
}

int index_open(int dir_fd, const uint64_t store_id[2], struct index **out, bool *out_complete)
{
	struct index *ix;
	int r = index_new(dir_fd, 0, &ix);

	if (r != 0)
		return r;
	/* A dead keeper's slot would hold back the reuse of pages for good. */
	index_check_readers(ix);
	r = open_tree(ix, 0);
	if (r == -ENOENT)
		r = found(ix, store_id);
	if (r == 0 && memcmp(ix->meta.store_id, store_id, sizeof(ix->meta.store_id)) != 0)
		r = -EXDEV;
	if (r != 0) {
		index_close(&ix);
		return r;
	}
	*out_complete = ix->meta.complete;
	*out = ix;
	return 0;
}

int index_wipe(int dir_fd)
{
	if (unlinkat(dir_fd, FORMAT_INDEX_PATH, 0) != 0 && errno != ENOENT)
		return -errno;
	if (unlinkat(dir_fd, FORMAT_INDEX_PATH "-lock", 0) != 0 && errno != ENOENT)
		return -errno;
	return 0;
}

void index_close(struct index **pix)
{
	struct index *ix = *pix;

	if (ix == NULL)
		return;
	*pix = NULL;
	CHECK_MAGIC(ix, INDEX_MAGIC);
	if (ix->reading != NULL)
		mdb_txn_abort(ix->reading);
	if (ix->writing != NULL)
		mdb_txn_abort(ix->writing);
	mdb_env_close(ix->env);
	ix->magic = 0;
	free(ix);
}

int index_sync(struct index *ix)
{
	return error_of(mdb_env_sync(ix->env, 1));
}

void index_check_readers(struct index *ix)
{
	int dead;

	(void)mdb_reader_check(ix->env, &dead);
}

uint64_t index_file_bytes(const struct index *ix)
{
	struct stat st;
	int fd;

	if (mdb_env_get_fd(ix->env, &fd) != 0 || fstat(fd, &st) != 0)
		return 0;
	return (uint64_t)st.st_blocks * 512;
}

/* --- writing --------------------------------------------------------------------------------------- */

static void note(struct index *ix, int mdb)
{
	if (ix->error == 0)
		ix->error = error_of(mdb);
}

void index_begin(struct index *ix)
{
	CHECK_MAGIC(ix, INDEX_MAGIC);
	CHECK(ix->writing == NULL);
	ix->error = 0;
	ix->meta_before = ix->meta;
	note(ix, mdb_txn_begin(ix->env, NULL, 0, &ix->writing));
}

bool index_get(struct index *ix, const struct cache_key *key, struct cache_record *out)
{
	uint8_t bytes[INDEX_ROW_KEY_BYTES];
	MDB_val k = { sizeof(bytes), bytes }, value;
	int r;

	if (ix->error != 0)
		return false;
	index_row_key(key, bytes);
	r = mdb_get(ix->writing, ix->dbi, &k, &value);
	if (r == MDB_NOTFOUND)
		return false;
	note(ix, r);
	if (r == 0 && index_row_decode(view_of(value.mv_data, value.mv_size), out) != 0)
		note(ix, MDB_CORRUPTED);
	return ix->error == 0;
}

static void put(struct index *ix, void *key, size_t key_bytes, void *p, size_t n)
{
	MDB_val k = { key_bytes, key }, value = { n, p };

	if (ix->error == 0)
		note(ix, mdb_put(ix->writing, ix->dbi, &k, &value, 0));
}

/* True: there was such a row. */
static bool delete (struct index *ix, void *key, size_t key_bytes)
{
	MDB_val k = { key_bytes, key };
	int r;

	if (ix->error != 0)
		return false;
	r = mdb_del(ix->writing, ix->dbi, &k, NULL);
	if (r != MDB_NOTFOUND)
		note(ix, r);
	return r == 0;
}

/* Counts what is there of OBJECT records under a key, before it changes. */
static uint64_t objects_at(struct index *ix, uint8_t key[INDEX_ROW_KEY_BYTES])
{
	MDB_val k = { INDEX_ROW_KEY_BYTES, key }, value;

	if (ix->error != 0 || mdb_get(ix->writing, ix->dbi, &k, &value) != 0)
		return 0;
	return value.mv_size != 0 && *(const uint8_t *)value.mv_data == CACHE_RECORD_OBJECT;
}

void index_each_now(struct index *ix, const uint8_t primary[16], index_record_fn *fn, void *arg)
{
	MDB_cursor *cursor;

	if (ix->error != 0)
		return;
	note(ix, mdb_cursor_open(ix->writing, ix->dbi, &cursor));
	if (ix->error != 0)
		return;
	if (walk_variants(cursor, primary, fn, arg) < 0)
		note(ix, MDB_CORRUPTED);
	mdb_cursor_close(cursor);
}

void index_put(struct index *ix, const struct cache_key *key, const struct cache_record *r)
{
	uint8_t bytes[INDEX_ROW_KEY_BYTES];
	struct index_row value;

	index_row_key(key, bytes);
	index_row_encode(r, &value);
	ix->meta.objects -= objects_at(ix, bytes);
	ix->meta.objects += r->kind == CACHE_RECORD_OBJECT;
	put(ix, bytes, sizeof(bytes), value.bytes, value.n);
}

void index_delete(struct index *ix, const struct cache_key *key)
{
	uint8_t bytes[INDEX_ROW_KEY_BYTES];

	index_row_key(key, bytes);
	ix->meta.objects -= objects_at(ix, bytes);
	delete (ix, bytes, sizeof(bytes));
}

void index_add_chunk_bytes(struct index *ix, int64_t bytes)
{
	ix->meta.chunk_bytes += (uint64_t)bytes;
}

struct index_totals index_totals(const struct index *ix)
{
	return (struct index_totals){ ix->meta.objects, ix->meta.chunk_bytes };
}

uint64_t index_applied(struct index *ix, uint32_t segment)
{
	uint8_t key[LOG_KEY_BYTES];
	MDB_val k = { sizeof(key), key }, value;
	uint64_t offset;
	int r;

	if (ix->error != 0)
		return 0;
	encode_log_key(segment, key);
	r = mdb_get(ix->writing, ix->dbi, &k, &value);
	if (r == MDB_NOTFOUND)
		return 0;
	if (r == 0 && value.mv_size != sizeof(offset))
		r = MDB_CORRUPTED;
	note(ix, r);
	if (r != 0)
		return 0;
	memcpy(&offset, value.mv_data, sizeof(offset));
	return offset;
}

void index_set_applied(struct index *ix, uint32_t segment, uint64_t offset)
{
	uint8_t key[LOG_KEY_BYTES];

	encode_log_key(segment, key);
	put(ix, key, sizeof(key), &offset, sizeof(offset));
}

void index_forget_applied(struct index *ix, uint32_t segment)
{
	uint8_t key[LOG_KEY_BYTES];

	encode_log_key(segment, key);
	delete (ix, key, sizeof(key));
}

void index_set_complete(struct index *ix)
{
	ix->meta.complete = 1;
}

int index_commit(struct index *ix)
{
	if (memcmp(&ix->meta, &ix->meta_before, sizeof(ix->meta)) != 0)
		put(ix, "M", META_KEY_BYTES, &ix->meta, sizeof(ix->meta));
	if (ix->error != 0) {
		index_abort(ix);
		return ix->error;
	}
	MDB_txn *txn = ix->writing;

	ix->writing = NULL;
	note(ix, mdb_txn_commit(txn));
	if (ix->error != 0)
		ix->meta = ix->meta_before;
	return ix->error;
}

void index_abort(struct index *ix)
{
	if (ix->writing != NULL)
		mdb_txn_abort(ix->writing);
	ix->writing = NULL;
	ix->meta = ix->meta_before;
}

const char *index_library(void)
{
	return mdb_version(NULL, NULL, NULL);
}
