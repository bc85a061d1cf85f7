/*
 * Reading what may not be in memory: a thread opens the file if need be and reads, then the wake is posted.
 *
 * And the question before that: is it in the page cache? A span (at most 256 KiB, what one sendfile takes) is asked for by
 * cachestat where the kernel has it, else by one byte per 64 KiB with RWF_NOWAIT; its last byte by RWF_NOWAIT in any case,
 * since a page that is still being read in counts as cached. A span that was seen a moment ago isn't asked for again.
 *
 * Lifetime of a read: read_begin → (thread) → finished, wake posted → read_take, or cache_read_cancel at any time.
 */
#ifndef BRIM_CACHE_READ_H
#define BRIM_CACHE_READ_H

#include "cache/process.h"

enum { READ_SPAN_BYTES = 256 << 10 };

/* file NULL: it is opened by name. into NULL: only brought into the page cache; else a malloc'd block that the read owns from
 * here on (on failure too), and the bytes go «skip» bytes into it. 0 or a negative errno. */
int read_begin(struct cache *c, const struct file_name *name, struct file *file, uint64_t offset,
	       uint32_t bytes, void *into, size_t skip, struct ready *wake, struct cache_read **out)
	NODISCARD;
/* Who is woken at its end from now on. True: it has ended (no wake follows). */
bool read_finished(struct cache_read *r, struct ready *wake);
/* Ends a finished read. Bytes read, or a negative errno; with *out_file and *out_into the caller's (NULL: not there). */
int64_t read_take(struct cache_read **r, struct file **out_file, void **out_into);

/* One reader's next span of a file: [offset, offset+bytes), bytes at most READ_SPAN_BYTES. As cache_object_body. */
int read_span(struct cache *c, struct cache_reader *r, const struct file_name *name,
	      uint64_t offset, uint32_t bytes, struct ready *wake, struct cache_span *out) NODISCARD;
/* Bytes at offset if they are in memory: how many, or -EAGAIN (ask a thread), or another negative errno. */
int64_t read_now(struct cache *c, int fd, void *into, uint32_t bytes, uint64_t offset);

#endif
