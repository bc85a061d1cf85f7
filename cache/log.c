/* Segment logs: see log.h. */
#include "cache/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOG_MODE = 0640, LOG_READ_BYTES = 64 << 10 };

/* --- writing ---------------------------------------------------------------------------------------- */

static int write_all(int fd, const char *p, size_t n, uint64_t offset)
{
	while (n != 0) {
		ssize_t written = pwrite(fd, p, n, (off_t)offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		if (written == 0)
			return -ENOSPC;
		p += written;
		n -= (size_t)written;
		offset += (uint64_t)written;
	}
	return 0;
}

int log_create(int dir_fd, const uint64_t store_id[2], uint32_t segment, struct log *out)
{
	struct log log = { .bytes = sizeof(struct format_log) };
	char path[FORMAT_PATH_MAX];
	struct format_log head;
	int r;

	format_log_path(segment, path);
	log.fd = openat(dir_fd, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, LOG_MODE);
	if (log.fd < 0)
		return -errno;
	format_log_head_encode(store_id, segment, &head);
	r = write_all(log.fd, (const char *)&head, sizeof(head), 0);
	if (r != 0) {
		close(log.fd);
		unlinkat(dir_fd, path, 0);
		return r;
	}
	*out = log;
	return 0;
}

int log_open(int dir_fd, uint32_t segment, uint64_t end, struct log *out)
{
	struct log log = { .bytes = end };
	char path[FORMAT_PATH_MAX];

	format_log_path(segment, path);
	log.fd = openat(dir_fd, path, O_RDWR | O_CLOEXEC);
	if (log.fd < 0)
		return -errno;
	if (ftruncate(log.fd, (off_t)end) != 0) {
		int r = -errno;

		close(log.fd);
		return r;
	}
	*out = log;
	return 0;
}

/* Room for n more bytes; NULL after an error. */
static char *gather(struct log *log, size_t n)
{
	size_t needed = log->gathered_bytes + n;

	if (log->error != 0)
		return NULL;
	if (needed > log->capacity) {
		size_t capacity = needed < 4096 ? 4096 : needed * 2;
		char *p = realloc(log->gathered, capacity);

		if (p == NULL) {
			log->error = -ENOMEM;
			return NULL;
		}
		log->gathered = p;
		log->capacity = capacity;
	}
	return log->gathered + log->gathered_bytes;
}

static uint64_t log_end(const struct log *log)
{
	return log->bytes + log->gathered_bytes;
}

void log_add_object(struct log *log, enum format_log_type type, const struct format_object *o,
		    const struct format_texts *t)
{
	uint32_t bytes = format_log_object_bytes(t);
	char *p = gather(log, bytes);

	if (p == NULL)
		return;
	format_log_object_encode(type, o, t, log_end(log), p);
	log->gathered_bytes += bytes;
}

void log_add(struct log *log, enum format_log_type type, const void *payload, size_t n)
{
	char *p = gather(log, sizeof(struct format_log_record) + n + 8);

	if (p != NULL)
		log->gathered_bytes += format_log_small_encode(type, payload, n, log_end(log), p);
}

int log_flush(struct log *log)
{
	int r = log->error;

	if (r == 0)
		r = write_all(log->fd, log->gathered, log->gathered_bytes, log->bytes);
	if (r == 0)
		log->bytes += log->gathered_bytes;
	else /* what got there would count again once the same records are written before it */
		(void)!ftruncate(log->fd, (off_t)log->bytes);
	log_forget(log);
	return r;
}

void log_forget(struct log *log)
{
	log->gathered_bytes = 0;
	log->error = 0;
}

void log_close(struct log *log)
{
	if (log->fd >= 0)
		close(log->fd);
	free(log->gathered);
	*log = (struct log){ .fd = -1 };
}

/* --- reading ----------------------------------------------------------------------------------------- */

struct log_reader {
	int fd;
	uint64_t offset; /* of what stands at «at» */
	char *buffer;
	size_t at, end; /* what is there of the file: always a multiple of 8 apart from the buffer's start */
};

enum { READER_BYTES = FORMAT_LOG_RECORD_MAX + LOG_READ_BYTES };

/* At least n bytes from «at» on if the file has them. 0 or -EIO. */
static int fill(struct log_reader *r, size_t n)
{
	if (r->end - r->at >= n)
		return 0;
	memmove(r->buffer, r->buffer + r->at, r->end - r->at);
	r->end -= r->at;
	r->at = 0;
	while (r->end < n) {
		size_t room = n > LOG_READ_BYTES ? n - r->end : LOG_READ_BYTES - r->end;
		ssize_t got = pread(r->fd, r->buffer + r->end, room, (off_t)(r->offset + r->end));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -EIO;
		if (got == 0)
			break;
		r->end += (size_t)got;
	}
	return 0;
}

static int check_head(struct log_reader *r, const uint64_t store_id[2], uint32_t segment)
{
	struct format_log head;
	ssize_t n = pread(r->fd, &head, sizeof(head), 0);

	if (n < 0)
		return -EIO;
	return format_log_head_check(&head, (size_t)n, store_id, segment) == 0 ? 0 : -EBADMSG;
}

int log_reader_open(int dir_fd, const uint64_t store_id[2], uint32_t segment, uint64_t from,
		    struct log_reader **out)
{
	struct log_reader *r = calloc(1, sizeof(*r));
	char path[FORMAT_PATH_MAX];
	int error;

	if (r == NULL)
		return -ENOMEM;
	format_log_path(segment, path);
	r->offset = from < sizeof(struct format_log) ? sizeof(struct format_log) : from;
	r->fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	error = r->fd < 0 ? -errno : check_head(r, store_id, segment);
	if (error == 0 && (r->buffer = malloc(READER_BYTES)) == NULL)
		error = -ENOMEM;
	if (error != 0) {
		log_reader_close(&r);
		return error;
	}
	*out = r;
	return 0;
}

int log_read(struct log_reader *r, struct format_log_view *out)
{
	struct format_log_record head;

	if (fill(r, sizeof(head)) != 0)
		return -EIO;
	if (r->end - r->at < sizeof(head))
		return -ENODATA;
	memcpy(&head, r->buffer + r->at, sizeof(head));
	if (head.bytes > FORMAT_LOG_RECORD_MAX)
		return -ENODATA;
	if (fill(r, head.bytes) != 0)
		return -EIO;
	if (format_log_decode(r->buffer + r->at, r->end - r->at, r->offset, out) != 0)
		return -ENODATA;
	r->at += out->bytes;
	r->offset += out->bytes;
	return 0;
}

uint64_t log_reader_offset(const struct log_reader *r)
{
	return r->offset;
}

void log_reader_close(struct log_reader **pr)
{
	struct log_reader *r = *pr;

	if (r == NULL)
		return;
	*pr = NULL;
	if (r->fd >= 0)
		close(r->fd);
	free(r->buffer);
	free(r);
}

int log_trusted(int dir_fd, const uint64_t store_id[2], uint32_t segment, uint64_t *out_offset)
{
	uint64_t trusted = sizeof(struct format_log);
	struct format_log_view view;
	struct log_reader *reader;
	int r = log_reader_open(dir_fd, store_id, segment, 0, &reader);

	if (r != 0)
		return r;
	while ((r = log_read(reader, &view)) == 0)
		if (view.type == FORMAT_LOG_SYNCED && view.synced > trusted &&
		    view.synced < log_reader_offset(reader))
			trusted = view.synced;
	log_reader_close(&reader);
	if (r != -ENODATA)
		return r;
	*out_offset = trusted;
	return 0;
}
