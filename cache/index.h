/*
 * The index: key → where an object lies, in LMDB. Derived from the logs: whatever happens to it, it
 * can be wiped and rebuilt. This is the one file that knows lmdb.h.
 *
 * One writer (the keeper), many readers in other processes; each opens it once, after fork: LMDB's locks belong to
 * the process, and a second handle on the same file in one process would take them over. A keeper therefore reads
 * through its writing handle. The handle's two sides may be used by two threads: finding by one, writing
 * (begin to commit) by another.
 *
 * Keys are 24 bytes: primary, then secondary big-endian, so that an object's variants are neighbours. In the same
 * tree, told apart by the length of their keys: one row for the index itself and one per log, telling how far that log is
 * applied. They change in the same transaction as the records, so that after a kill -9 the index
 * knows exactly what it has seen. It is not safe against a power cut (no syncing: a put costs 4 µs instead of 400) and is
 * thrown away after one.
 *
 * Values are numbers in the machine's order, without holes: 96 bytes for an object. (Measured: 225 bytes of file each.)
 *
 * Writers write straight lines: begin, put, delete, …, commit; the first error sticks and commit returns it.
 */
#ifndef BRIM_CACHE_INDEX_H
#define BRIM_CACHE_INDEX_H

#include "cache/cache.h"

struct index;

/* --- readers ------------------------------------------------------------------------------- */

/* -ENOENT: not there (yet); -EBADMSG: damaged; -EPROTO: of another format; other negative errno. */
int index_open_reader(int dir_fd, struct index **out) NODISCARD;
/* Fills all of *out but «store». 0; -ENOENT; -EIO: the index can't be read. */
int index_find(struct index *ix, const struct cache_key *key, struct cache_record *out) NODISCARD;
/* Is any record there under this primary key? */
bool index_known(struct index *ix, const uint8_t primary[16]);
/* All records of a primary key, in order of their secondary. Returns how many, or a negative errno. */
typedef void index_record_fn(void *arg, const struct cache_key *key, const struct cache_record *r);
int index_each(struct index *ix, const uint8_t primary[16], index_record_fn *fn, void *arg) NODISCARD;
/* Also ends a transaction that was begun. NULL is allowed. */
void index_close(struct index **ix);

/* --- the keeper ------------------------------------------------------------------------------ */

/* Unlinks it. Who has it open keeps reading the old one. */
int index_wipe(int dir_fd) NODISCARD;
/* Opens or creates. -EBADMSG: damaged, -EPROTO: of another format, -EXDEV: another store's: wipe it. *out_complete: false for a new
 * one, and for one whose rebuild never ended (wipe that too). */
int index_open(int dir_fd, const uint64_t store_id[2], struct index **out, bool *out_complete) NODISCARD;
/* To the disk, before a clean end. */
int index_sync(struct index *ix) NODISCARD;
/* Slots of dead readers are freed. */
void index_check_readers(struct index *ix);
uint64_t index_file_bytes(const struct index *ix);

/* Totals, kept in the same transactions. */
struct index_totals {
	uint64_t objects;
	uint64_t chunk_bytes; /* what their chunk files take on the disk: by the caller */
};
struct index_totals index_totals(const struct index *ix); /* as of the last commit, or of now in a transaction */

void index_begin(struct index *ix);
/* What is there now, in this transaction. False: nothing (or an earlier error). */
bool index_get(struct index *ix, const struct cache_key *key, struct cache_record *out);
/* index_each in this transaction: with what it has put. */
void index_each_now(struct index *ix, const uint8_t primary[16], index_record_fn *fn, void *arg);
void index_put(struct index *ix, const struct cache_key *key, const struct cache_record *r);
void index_delete(struct index *ix, const struct cache_key *key);
void index_add_chunk_bytes(struct index *ix, int64_t bytes);
/* How far a log is applied; 0: not at all. */
uint64_t index_applied(struct index *ix, uint32_t segment);
void index_set_applied(struct index *ix, uint32_t segment, uint64_t offset);
void index_forget_applied(struct index *ix, uint32_t segment);
void index_set_complete(struct index *ix);
/* 0, or the first error since begin; the transaction is then undone. */
int index_commit(struct index *ix) NODISCARD;
void index_abort(struct index *ix);

/* For «brim -V»: "LMDB 0.9.24: …". */
const char *index_library(void);

#endif
