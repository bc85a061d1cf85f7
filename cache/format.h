/*
 * What lies on disk, byte for byte: superblock, entries in segments, log records, purge journal, and
 * the names of files. docs/formats.md tells the same to people.
 *
 * All numbers are little-endian and all structs fixed, without holes, multiples of 8 bytes, so that
 * a struct is its own encoding; a change of any of them raises its format number. Texts of variable
 * length follow the fixed part; their lengths stand in it and are checked against what is there before
 * anything is believed. Decoding never allocates: it gives views into the bytes it was shown.
 * (Rejected: protobuf-like encodings. The reader of an entry is the hit path.)
 *
 * A store's directory:
 *
 *	brim.store		superblock
 *	brim.lock		flock of the node that uses the store
 *	purge.journal		purges, oldest first
 *	index.mdb		LMDB, derived from the logs (and index.mdb-lock)
 *	segments/%08x.seg	entries: head and small body
 *	segments/%08x.log	what was committed to that segment
 *	chunks/%02x/…		chunk files: %016llx.%04x, object id and chunk number; folder: low byte of the id
 */
#ifndef BRIM_CACHE_FORMAT_H
#define BRIM_CACHE_FORMAT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "edge/base/check.h"
#include "edge/base/view.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structs are written as they are");

/* --- names -------------------------------------------------------------------------------- */

enum { FORMAT_PATH_MAX = 48 };
#define FORMAT_STORE_PATH "brim.store"
#define FORMAT_LOCK_PATH "brim.lock"
#define FORMAT_JOURNAL_PATH "purge.journal"
#define FORMAT_INDEX_PATH "index.mdb"
#define FORMAT_SEGMENTS_DIR "segments"
#define FORMAT_CHUNKS_DIR "chunks"

/* Paths beneath the store's directory. Segment numbers start at 1 and are never used again. */
void format_segment_path(uint32_t segment, char out[FORMAT_PATH_MAX]);
void format_log_path(uint32_t segment, char out[FORMAT_PATH_MAX]);
void format_chunk_path(uint64_t body_id, uint32_t chunk, char out[FORMAT_PATH_MAX]);
/* The other way, for scans. False: not such a name. */
bool format_segment_name(const char *name, uint32_t *out_segment, bool *out_is_log);
bool format_chunk_name(const char *name, uint64_t *out_body_id, uint32_t *out_chunk);

/* --- superblock ---------------------------------------------------------------------------- */

enum { FORMAT_STORE_MAGIC = 0x534d5242 /* "BRMS" */, FORMAT_STORE = 1 };
/* CLEAN: the keeper closed it, all is synced. SUSPECT: a write or sync failed; what isn't marked as synced is not trusted. */
enum { FORMAT_STORE_CLEAN = 1, FORMAT_STORE_SUSPECT = 2 };

struct format_store {
	uint64_t checksum; /* XXH3 of what follows */
	uint32_t magic, format;
	uint64_t id[2];		/* random */
	uint32_t segment_bytes; /* of those made from now on: goes with the configured size */
	uint32_t chunk_bytes;	/* fixed when the store is made */
	uint64_t size_bytes;	/* as last configured */
	uint64_t epoch;		/* of the object ids: epoch << 40 | counter */
	/* Chunk files of this epoch and later may lack a commit; logs from this segment on tell. */
	uint64_t scan_epoch;
	uint32_t scan_segment;
	uint32_t flags;
	uint64_t reserved;
	uint8_t boot_id[40]; /* text, NUL-padded: when the store was last open */
};
static_assert(sizeof(struct format_store) == 120, "superblock");
static_assert(offsetof(struct format_store, boot_id) == 80, "superblock");

enum { FORMAT_EPOCH_SHIFT = 40 };

/* --- objects ------------------------------------------------------------------------------- */

/* What entry header and log record both say of an object. */
struct format_object {
	uint8_t primary[16];
	uint64_t secondary;	 /* the final key's */
	uint64_t base_secondary; /* where the Vary rule is recorded; equal to secondary without Vary */
	uint64_t object_id;
	uint64_t body_id; /* of the object that wrote the body: chunk files bear it. Same as object_id but after a refresh */
	uint64_t birth; /* purge clock when the request was sent */
	int64_t received_ms;
	int64_t initial_age_ms;
	int64_t lifetime_ms;
	uint64_t site_hash, host_hash;
	uint64_t body_bytes;
	uint32_t head_segment, head_offset; /* where the entry lies */
	uint32_t head_bytes;		    /* entry header + texts + stored head */
	uint32_t body_segment, body_offset; /* body_segment 0: in chunk files, or there is none */
	uint32_t stale_while_revalidate_s, stale_if_error_s;
	uint32_t flags;		    /* META_… */
	uint32_t stored_head_bytes; /* the last of the texts; not in log records */
	uint16_t status;
	uint16_t url_bytes, vary_bytes, etag_bytes, last_modified_bytes;
	uint16_t tag_count;
};
static_assert(sizeof(struct format_object) == 152, "object");
static_assert(offsetof(struct format_object, body_bytes) == 96, "object");
static_assert(offsetof(struct format_object, status) == 140, "object");

/* The texts, in the order in which they follow. The lengths in the struct are set from these by encoders. */
struct format_texts {
	const uint64_t *tags; /* first, so that they are aligned where the struct is */
	uint16_t tag_count;
	struct view url, vary, etag, last_modified;
	struct view head; /* stored fields; entries only */
};

/* --- entries -------------------------------------------------------------------------------- */

enum { FORMAT_ENTRY_MAGIC = 0x454d5242 /* "BRME" */, FORMAT_ENTRY = 1 };

struct format_entry {
	uint64_t checksum; /* XXH3 of what follows, to the end of the stored head */
	uint32_t magic, format;
	struct format_object object;
	/* texts, stored head; then the body */
};
static_assert(sizeof(struct format_entry) == 168, "entry");

enum {
	FORMAT_ALIGN = 8,   /* entries begin at multiples of this */
	FORMAT_PAGE = 4096, /* bodies over FORMAT_PAGE_BODY begin at multiples of this */
	FORMAT_PAGE_BODY = 16384,
	FORMAT_HEAD_MAX = 1 << 20, /* an entry without its body never is longer */
};

/* Bytes of an entry without its body; 0: a text is too long to be stored. */
uint32_t format_entry_bytes(const struct format_texts *t);
/* Where the body begins if the entry begins at «offset»: right behind the head, or on a page. */
uint32_t format_body_offset(uint32_t entry_offset, uint32_t head_bytes, uint64_t body_bytes);
/* out holds format_entry_bytes(t). Sets lengths in the copy of o and the checksum. */
void format_entry_encode(const struct format_object *o, const struct format_texts *t, void *out);
/* p: n bytes from the entry's start, 8-aligned, at least the whole head (more is ignored). 0; -EINVAL: not an entry, or damaged.
 * Outputs are views into p. */
int format_entry_decode(const void *p, size_t n, const struct format_object **out_object,
			struct format_texts *out_texts) NODISCARD;

/* --- logs ----------------------------------------------------------------------------------- */

enum { FORMAT_LOG_MAGIC = 0x4c4d5242 /* "BRML" */, FORMAT_LOG = 1 };

struct format_log {
	uint64_t checksum; /* XXH3 of what follows, to the end of this struct */
	uint32_t magic, format;
	uint64_t store_id[2];
	uint32_t segment, reserved;
};
static_assert(sizeof(struct format_log) == 40, "log");

enum format_log_type {
	FORMAT_LOG_COMMIT = 1, /* struct format_object, texts without stored head: owns its chunk files */
	FORMAT_LOG_REFRESH, /* the same: a new head for a body that another record owns */
	FORMAT_LOG_REMOVE,  /* struct format_removal */
	FORMAT_LOG_SYNCED,  /* struct format_synced */
	FORMAT_LOG_DEAD,    /* nothing: the segment is being evicted */
};

struct format_log_record {
	uint64_t checksum; /* XXH3 of what follows, seeded with the record's offset */
	uint32_t bytes;	   /* of the record, this struct included, a multiple of 8 */
	uint32_t type;
	/* payload, padded with zeros */
};
static_assert(sizeof(struct format_log_record) == 16, "log record");

struct format_removal {
	uint8_t primary[16];
	uint64_t secondary, object_id;
	uint32_t keeps_body; /* another object has it now: chunk files stay */
	uint32_t reserved;
};
static_assert(sizeof(struct format_removal) == 40, "removal");

/* All records before this offset, and all that they tell of, are on the disk. */
struct format_synced {
	uint64_t offset;
};

/* The most that a record can take: bounds what a reader believes. */
enum { FORMAT_LOG_RECORD_MAX = 1 << 20 };

/* Bytes of a commit's or refresh's record. t->head is ignored. */
uint32_t format_log_object_bytes(const struct format_texts *t);
/* Each writes one whole record at out, to lie at «offset» of its log. */
void format_log_object_encode(enum format_log_type type, const struct format_object *o,
			      const struct format_texts *t, uint64_t offset, void *out);
/* type other than COMMIT, REFRESH. Returns its bytes (out: at least 64). */
uint32_t format_log_small_encode(enum format_log_type type, const void *payload, size_t n,
				 uint64_t offset, void *out);
void format_log_head_encode(const uint64_t store_id[2], uint32_t segment, struct format_log *out);
/* 0 or -EINVAL. */
int format_log_head_check(const void *p, size_t n, const uint64_t store_id[2], uint32_t segment)
	NODISCARD;

struct format_log_view {
	enum format_log_type type;
	uint32_t bytes;			    /* to the next record */
	const struct format_object *object; /* COMMIT, REFRESH */
	struct format_texts texts;
	const struct format_removal *removal;
	uint64_t synced;
};
/* p: what lies at «offset», 8-aligned. 0; -ENODATA: the end, or a torn or damaged record: nothing behind it counts. */
int format_log_decode(const void *p, size_t n, uint64_t offset, struct format_log_view *out) NODISCARD;

/* --- purge journal ---------------------------------------------------------------------------- */

enum { FORMAT_JOURNAL_MAGIC = 0x4a4d5242 /* "BRMJ" */, FORMAT_JOURNAL = 2 };

enum { FORMAT_JOURNAL_RUNS = 62 };

struct format_journal {
	uint64_t checksum;
	uint32_t magic, format;
	uint64_t store_id[2];
	uint64_t run_count;
	uint64_t runs[FORMAT_JOURNAL_RUNS]; /* random ids of the runs whose purges are all in here, the newest last */
	uint64_t reserved;
};
static_assert(sizeof(struct format_journal) == 544, "journal");

/* A kind that names nothing: it stands behind what was written together, so that damage to the last purge of that isn't taken for a
 * torn tail. Its number is that purge's. */
enum { FORMAT_PURGE_SEAL = 255 };

struct format_purge {
	uint64_t checksum;	  /* XXH3 of what follows */
	uint64_t sequence;	  /* the purge clock's number; the scopes of one purge share it */
	uint64_t hash, site_hash; /* of the scope; site_hash 0: not told */
	int64_t wall_ms;
	uint8_t kind; /* enum cache_scope_kind, or FORMAT_PURGE_SEAL */
	uint8_t soft;
	uint16_t bytes; /* of a prefix's path */
	uint32_t forms; /* of a path: what the site's keys were made of */
};
static_assert(sizeof(struct format_purge) == 48, "purge");

#endif
