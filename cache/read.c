/* See read.h. */
#include "cache/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	READ_MAGIC = 0x44414552,
	SCRATCH_BYTES = 64 << 10,
	PROBE_BYTES = 64 << 10,
	AHEAD_BYTES = 1 << 20,
	SEEN_MS = 200, /* what was in memory still is: the kernel gives up first what was used long ago */
	SYS_CACHESTAT = 451, /* 6.5; Debian 12's headers don't have it */
};

struct cache_read {
	uint32_t magic;
	struct work work;
	struct cache *cache;
	struct file_name name;
	struct file *file; /* held; NULL: the thread opens it */
	int fd, dir_fd;
	uint64_t offset;
	uint32_t bytes;
	void *into;
	size_t skip;
	struct ready *wake;
	bool finished;
	int64_t result;
};

/* --- in a thread -------------------------------------------------------------------------------- */

static int64_t read_into(const struct cache_read *r)
{
	uint32_t got = 0;

	while (got < r->bytes) {
		ssize_t n = pread(r->fd, (char *)r->into + r->skip + got, r->bytes - got,
				  (off_t)(r->offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (uint32_t)n;
	}
	return got;
}

/* A copy that nobody looks at is the one portable way to wait until the pages are there. */
static int64_t read_through(const struct cache_read *r)
{
	char *scratch = malloc(SCRATCH_BYTES);
	uint32_t got = 0;

	if (scratch == NULL)
		return -ENOMEM;
	while (got < r->bytes) {
		uint32_t want = r->bytes - got < SCRATCH_BYTES ? r->bytes - got : SCRATCH_BYTES;
		ssize_t n = pread(r->fd, scratch, want, (off_t)(r->offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			free(scratch);
			return n < 0 ? -errno : (int64_t)got;
		}
		got += (uint32_t)n;
	}
	free(scratch);
	/* The disk goes on while this span is being sent. */
	posix_fadvise(r->fd, (off_t)(r->offset + r->bytes), AHEAD_BYTES, POSIX_FADV_WILLNEED);
	return got;
}

static void run(struct work *w)
{
	struct cache_read *r = CONTAINER_OF(w, struct cache_read, work);

	if (r->fd < 0)
		r->fd = files_open(r->dir_fd, &r->name);
	if (r->fd < 0) {
		r->result = r->fd;
		return;
	}
	r->result = r->into != NULL ? read_into(r) : read_through(r);
}

/* --- in the loop ---------------------------------------------------------------------------------- */

static void free_read(struct cache_read *r)
{
	files_put(&r->cache->files, &r->file);
	free(r->into);
	r->magic = 0;
	free(r);
}

static void done(struct work *w)
{
	struct cache_read *r = CONTAINER_OF(w, struct cache_read, work);
	struct cache *c = r->cache;
	int e;

	CHECK_MAGIC(r, READ_MAGIC);
	if (r->file == NULL && r->fd >= 0) {
		e = files_adopt(&c->files, &r->name, r->fd, &r->file);
		if (e < 0)
			r->result = e;
	}
	c->reads--;
	if (w->abandoned) {
		free_read(r);
		cache_free_if_unused(c);
		return;
	}
	r->finished = true;
	if (r->wake != NULL)
		ready_post(r->wake);
}

int read_begin(struct cache *c, const struct file_name *name, struct file *file, uint64_t offset,
	       uint32_t bytes, void *into, size_t skip, struct ready *wake, struct cache_read **out)
{
	struct cache_read *r = malloc(sizeof(*r));
	int e;

	if (r == NULL) {
		free(into);
		return -ENOMEM;
	}
	*r = (struct cache_read){
		.magic = READ_MAGIC,
		.cache = c,
		.name = *name,
		.file = file != NULL ? file_ref(file) : NULL,
		.fd = file != NULL ? file->fd : -1,
		.dir_fd = c->stores[name->store].dir_fd,
		.offset = offset,
		.bytes = bytes,
		.into = into,
		.skip = skip,
		.wake = wake,
	};
	e = work_submit(&r->work, c->loop, run, done);
	if (e < 0) {
		free_read(r);
		return e;
	}
	c->reads++;
	*out = r;
	return 0;
}

bool read_finished(struct cache_read *r, struct ready *wake)
{
	CHECK_MAGIC(r, READ_MAGIC);
	r->wake = wake;
	return r->finished;
}

int64_t read_take(struct cache_read **read, struct file **out_file, void **out_into)
{
	struct cache_read *r = *read;
	int64_t result = r->result;

	CHECK(r->finished);
	*read = NULL;
	*out_file = r->file;
	*out_into = r->into;
	r->file = NULL;
	r->into = NULL;
	free_read(r);
	return result;
}

void cache_read_cancel(struct cache_read **read)
{
	struct cache_read *r = *read;

	if (r == NULL)
		return;
	*read = NULL;
	if (r->finished)
		free_read(r);
	else
		r->work.abandoned = true; /* done frees it */
}

/* --- is it in memory? --------------------------------------------------------------------------------- */

int64_t read_now(struct cache *c, int fd, void *into, uint32_t bytes, uint64_t offset)
{
	struct iovec v = { into, bytes };
	ssize_t n;

	if (c->no_nowait)
		return -EAGAIN;
	n = preadv2(fd, &v, 1, (off_t)offset, RWF_NOWAIT);
	if (n >= 0)
		return n;
	if (errno == EOPNOTSUPP || errno == ENOSYS) /* gVisor, some file systems: ask a thread, always */
		c->no_nowait = true;
	return errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR ? -EAGAIN : -errno;
}

static bool has_byte(struct cache *c, int fd, uint64_t at)
{
	char byte = 0;

	return read_now(c, fd, &byte, 1, at) == 1;
}

struct cachestat_range {
	uint64_t offset, bytes;
};

struct cachestat_counts {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

/* True also where the kernel can't tell: the bytes that are asked for next decide. */
static bool all_cached(struct cache *c, int fd, uint64_t offset, uint32_t bytes)
{
	struct cachestat_range range = { offset, bytes };
	struct cachestat_counts counts;
	uint64_t page = (uint64_t)c->page_bytes;
	uint64_t pages = (offset + bytes - 1) / page - offset / page + 1;

	if (!c->no_cachestat && syscall(SYS_CACHESTAT, fd, &range, &counts, 0) == 0)
		return counts.cached >= pages;
	c->no_cachestat = true;
	for (uint64_t at = offset; at < offset + bytes; at += PROBE_BYTES) {
		if (!has_byte(c, fd, at))
			return false;
	}
	return true;
}

static bool is_same(const struct file_name *a, const struct file_name *b)
{
	return a->id == b->id && a->chunk == b->chunk && a->store == b->store && a->kind == b->kind;
}

static struct cache_seen *seen_place(struct cache *c, const struct file_name *name, uint64_t offset)
{
	uint64_t h = (name->id ^ (uint64_t)name->chunk << 40 ^ offset >> 12) * 0x9e3779b97f4a7c15;

	return &c->seen[(h >> 32) % CACHE_SEEN];
}

/* A look costs 2,200 instructions, a sendfile of 100 KiB 63,000. */
static bool seen_just_now(struct cache *c, const struct file_name *name, uint64_t offset, uint32_t bytes)
{
	const struct cache_seen *s = seen_place(c, name, offset);

	return s->offset == offset && s->bytes >= bytes && is_same(&s->name, name) &&
	       loop_now(c->loop).ms - s->at.ms < SEEN_MS;
}

static bool in_memory(struct cache *c, int fd, const struct file_name *name, uint64_t offset,
		      uint32_t bytes)
{
	if (seen_just_now(c, name, offset, bytes))
		return true;
	if (!all_cached(c, fd, offset, bytes) || !has_byte(c, fd, offset + bytes - 1))
		return false;
	*seen_place(c, name, offset) = (struct cache_seen){
		.name = *name, .offset = offset, .bytes = bytes, .at = loop_now(c->loop)
	};
	return true;
}

/* --- spans ---------------------------------------------------------------------------------------------- */

static void let_go(struct cache *c, struct cache_reader *r)
{
	struct file *f = r->file;

	list_remove(&r->link);
	r->file = NULL;
	files_put(&c->files, &f);
}

static void take_file(struct cache_reader *r, struct file *f)
{
	r->file = f;
	list_append(&f->readers, &r->link);
}

/* What a read that has ended brought. 1: the span is there; 0: it was for another one; or a negative errno. */
static int take_pending(struct cache *c, struct cache_reader *r, const struct file_name *name,
			uint64_t offset, uint32_t bytes)
{
	struct cache_read *read = r->pending;
	bool same = is_same(&read->name, name) && read->offset == offset && read->bytes >= bytes;
	struct file *f;
	void *into;
	int64_t n;

	r->pending = NULL;
	n = read_take(&read, &f, &into);
	if (r->file == NULL && f != NULL && is_same(&f->name, name))
		take_file(r, f);
	else
		files_put(&c->files, &f);
	if (!same)
		return 0;
	if (n < 0)
		return (int)n;
	return n >= bytes ? 1 : -EIO; /* a file that is shorter than its record says */
}

/* The reader's file is the named one, or there is none yet (-EAGAIN: it takes a thread), or an error. */
static int have_file(struct cache *c, struct cache_reader *r, const struct file_name *name)
{
	struct file *f = r->file;
	int e;

	if (f != NULL && is_same(&f->name, name))
		return f->cut ? -ECANCELED : 0;
	if (f != NULL)
		let_go(c, r);
	e = files_get(&c->files, name, &f);
	if (e < 0)
		return e;
	take_file(r, f);
	return 0;
}

static int begin_span(struct cache *c, struct cache_reader *r, const struct file_name *name,
		      uint64_t offset, uint32_t bytes, struct ready *wake)
{
	struct cache_read *read = NULL;
	int e = read_begin(c, name, r->file, offset, bytes, NULL, 0, wake, &read);

	if (e < 0)
		return e;
	r->pending = read;
	return -EINPROGRESS;
}

int read_span(struct cache *c, struct cache_reader *r, const struct file_name *name,
	      uint64_t offset, uint32_t bytes, struct ready *wake, struct cache_span *out)
{
	struct file *f;
	int warm = 0;
	int e;

	CHECK(bytes > 0 && bytes <= READ_SPAN_BYTES);
	r->wake = wake;
	e = have_file(c, r, name);
	if (e < 0 && e != -EAGAIN)
		return e;
	if (r->pending != NULL && !read_finished(r->pending, wake))
		return -EINPROGRESS;
	if (r->pending != NULL)
		warm = take_pending(c, r, name, offset, bytes);
	if (warm < 0)
		return warm;
	f = r->file;
	if (f == NULL)
		return begin_span(c, r, name, offset, bytes, wake);
	if (warm == 0 && !in_memory(c, f->fd, name, offset, bytes))
		return begin_span(c, r, name, offset, bytes, wake);
	*out = (struct cache_span){ .fd = f->fd, .offset = offset, .bytes = bytes };
	return 0;
}

void cache_reader_fini(struct cache_reader *r)
{
	struct cache_read *read = r->pending;
	struct file *f = r->file;

	if (read != NULL)
		cache_read_cancel(&read);
	r->pending = NULL;
	r->wake = NULL;
	if (f == NULL)
		return;
	list_remove(&r->link);
	r->file = NULL;
	files_put(f->files, &f);
}
