/*
 * Segment logs: what was committed to a segment, and what happened to it since. Log first, then index.
 *
 * Writing: records are gathered, then written by one call at the log's end; the end moves only when all of
 * them were written. A crash in between leaves a torn tail, which readers take for the end and the next
 * writer cuts off.
 *
 * Trust: after a kill -9 every whole record counts (the kernel has the bytes). After a power cut only those before the
 * last «synced» mark do, since the kernel may have written the log but not the data it tells of.
 */
#ifndef BRIM_CACHE_LOG_H
#define BRIM_CACHE_LOG_H

#include "cache/format.h"

/* --- writing: by one lane -------------------------------------------------------------------------- */

struct log {
	int fd;		/* -1: not open */
	uint64_t bytes; /* written and whole */
	char *gathered;
	size_t gathered_bytes, capacity;
	int error; /* the first since the last flush */
};

int log_create(int dir_fd, const uint64_t store_id[2], uint32_t segment, struct log *out) NODISCARD;
/* To go on at «end» (as a reader found it): what lies behind is cut off. */
int log_open(int dir_fd, uint32_t segment, uint64_t end, struct log *out) NODISCARD;
void log_add_object(struct log *log, enum format_log_type type, const struct format_object *o,
		    const struct format_texts *t);
void log_add(struct log *log, enum format_log_type type, const void *payload, size_t n);
/* Writes what is gathered. 0; a negative errno: nothing of it counts. */
int log_flush(struct log *log) NODISCARD;
void log_forget(struct log *log);
/* Idempotent. */
void log_close(struct log *log);

/* --- reading ---------------------------------------------------------------------------------------- */

struct log_reader;

/* from: an offset that a reader or writer told, or 0. -EBADMSG: not this store's log of this segment. */
int log_reader_open(int dir_fd, const uint64_t store_id[2], uint32_t segment, uint64_t from,
		    struct log_reader **out) NODISCARD;
/* The next record; views are good until the next call. 0; -ENODATA: the end (or what can't be read any more); -EIO. */
int log_read(struct log_reader *r, struct format_log_view *out) NODISCARD;
/* Behind the last record read. */
uint64_t log_reader_offset(const struct log_reader *r);
void log_reader_close(struct log_reader **r);

/* How far the last «synced» mark reaches. 0 or a negative errno as log_reader_open. */
int log_trusted(int dir_fd, const uint64_t store_id[2], uint32_t segment, uint64_t *out_offset)
	NODISCARD;

#endif
