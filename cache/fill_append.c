/*
 * What a fill writes: bytes from memory or out of a pipe, into the stage, a range of a segment, or one chunk file after the
 * other; and the steps from one of these to the next (see fill.c, which says which goes where). Each ends by publishing how many
 * bytes there are, after they are there, so that whoever follows in another worker may read them.
 */
#include "cache/fill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SPLICE_STAGED_BYTES = 16 << 10 /* a spliced body over this goes direct: one copy less */ };

/* --- a range of a segment ------------------------------------------------------------------------------ */

int fill_go_direct(struct cache_fill *f)
{
	int e = place_reserve(f->cache, f->shared, fill_store(f), f->head_bytes,
			      (uint64_t)f->body_bytes, &f->place);

	if (e < 0)
		return e;
	e = place_file(f->cache, fill_store(f), f->place.segment, &f->segment);
	if (e < 0)
		return e;
	f->mode = MODE_DIRECT;
	return 0;
}

/* --- chunks ----------------------------------------------------------------------------------------- */

uint64_t fill_next_chunk_bytes(const struct cache_fill *f)
{
	uint64_t begin = (uint64_t)f->chunk_count * f->store->chunk_bytes;

	if (f->body_bytes < 0 || (uint64_t)f->body_bytes - begin > f->store->chunk_bytes)
		return f->store->chunk_bytes;
	return (uint64_t)f->body_bytes - begin;
}

static int create_chunk(struct cache_fill *f, struct file_name *name, int *out_fd)
{
	int dir_fd = f->cache->stores[name->store].dir_fd;
	int fd = files_create(dir_fd, name);

	if (fd == -ENOSPC || fd == -EDQUOT)
		shared_store_full(f->cache->shared, name->store);
	else if (fd < 0 && fd != -EMFILE && fd != -ENFILE)
		shared_store_fail(f->cache->shared, name->store, REASON_WRITE, -fd);
	if (fd < 0)
		return fd;
	*out_fd = fd;
	return 0;
}

/* Draws the next chunk's bytes, tells the claim, makes the file. Without room, too: what has arrived must go somewhere,
 * and the keeper evicts for it afterwards. */
static int next_chunk(struct cache_fill *f)
{
	uint64_t bytes = fill_next_chunk_bytes(f);
	struct file_name name = { .kind = FILE_CHUNK,
				  .store = (uint8_t)fill_store(f),
				  .id = f->object.body_id,
				  .chunk = f->chunk_count };
	struct file **place = &f->chunks[f->chunk_count % HELD_CHUNKS];
	int fd, e;

	(void)fill_has_room(f->cache, f->store, bytes);
	/* Written down before it is done: a death in between gives back what was not taken, at most once. Release: the
	 * keeper that sees the chunk in the claim sees the bytes. */
	atomic_fetch_add_explicit(&f->shared->drawn_bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&f->shared->chunks_begun, f->chunk_count + 1, memory_order_release);
	atomic_fetch_sub_explicit(&f->store->free_bytes, (int64_t)bytes, memory_order_relaxed);
	e = create_chunk(f, &name, &fd);
	if (e < 0)
		return e;
	files_put(&f->cache->files, place);
	e = files_adopt(&f->cache->files, &name, fd, place);
	if (e < 0)
		return e;
	f->chunk_count++;
	f->room_bytes = bytes;
	return 0;
}

static struct file *current_chunk(const struct cache_fill *f)
{
	return f->chunks[(f->chunk_count - 1) % HELD_CHUNKS];
}

static uint64_t chunk_offset(const struct cache_fill *f)
{
	return f->ready - (uint64_t)(f->chunk_count - 1) * f->store->chunk_bytes;
}

/* --- appending ----------------------------------------------------------------------------------------- */

static void advance(struct cache_fill *f, size_t n)
{
	uint64_t generation = atomic_load_explicit(&f->shared->generation, memory_order_relaxed) &
			      0xffff;

	f->ready += n;
	if (f->mode == MODE_CHUNKS)
		f->room_bytes -= n;
	/* Release: the bytes are in the file when somebody reads how many there are. */
	atomic_store_explicit(&f->shared->progress, generation << 48 | f->ready, memory_order_release);
}

static int append_chunks(struct cache_fill *f, const char *p, size_t n)
{
	while (n > 0) {
		size_t part;
		int e = f->room_bytes == 0 ? next_chunk(f) : 0;

		if (e < 0)
			return e;
		part = n < f->room_bytes ? n : (size_t)f->room_bytes;
		e = place_write(f->cache, fill_store(f), current_chunk(f), chunk_offset(f),
				view_of(p, part), view_of(NULL, 0));
		if (e < 0)
			return e;
		advance(f, part);
		p += part;
		n -= part;
	}
	return 0;
}

/* Unknown length, and the stage is too small for it. Where chunks can't be had, the stage stays: readers go on from it. */
static int outgrow(struct cache_fill *f)
{
	size_t staged = (size_t)f->ready;
	int e;

	f->mode = MODE_CHUNKS;
	f->ready = 0;
	e = append_chunks(f, f->stage, staged);
	if (e < 0) {
		f->mode = MODE_STAGED;
		f->ready = staged;
		return e;
	}
	free(f->stage);
	f->stage = NULL;
	return 0;
}

static int append(struct cache_fill *f, const char *p, size_t n)
{
	int e;

	if (f->mode == MODE_STAGED && f->ready + n > f->stage_bytes) {
		e = outgrow(f);
		if (e < 0)
			return e;
	}
	switch (f->mode) {
	case MODE_STAGED:
		memcpy(f->stage + f->ready, p, n);
		break;
	case MODE_DIRECT:
		e = place_write(f->cache, fill_store(f), f->segment,
				f->place.body_offset + f->ready, view_of(p, n), view_of(NULL, 0));
		if (e < 0)
			return e;
		break;
	case MODE_CHUNKS:
		return append_chunks(f, p, n);
	}
	advance(f, n);
	return 0;
}

int cache_fill_write(struct cache_fill *f, const void *p, size_t n)
{
	int e = fill_check(f, n);

	if (e < 0 || n == 0)
		return e < 0 ? fill_broken(f, e) : 0;
	e = append(f, p, n);
	return e < 0 ? fill_broken(f, e) : 0;
}

static int64_t splice_to(struct cache_fill *f, struct file *to, uint64_t offset, int pipe_fd, size_t n)
{
	loff_t at = (loff_t)offset;
	ssize_t got;

	do
		got = splice(pipe_fd, NULL, to->fd, &at, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (got < 0 && errno == EINTR);
	if (got < 0 && (errno == ENOSPC || errno == EDQUOT))
		shared_store_full(f->cache->shared, fill_store(f));
	if (got < 0)
		return -errno;
	if (got == 0)
		return -EPIPE;
	atomic_fetch_add_explicit(&f->store->unsynced_bytes, got, memory_order_relaxed);
	return got;
}

static int64_t splice_staged(struct cache_fill *f, int pipe_fd, size_t n)
{
	size_t room = f->stage_bytes - (size_t)f->ready;
	ssize_t got;

	do
		got = read(pipe_fd, f->stage + f->ready, n < room ? n : room);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	return got > 0 ? got : -EPIPE;
}

/* A stage is left where splicing pays, or where it is full. */
static int leave_stage(struct cache_fill *f)
{
	if (f->body_bytes > SPLICE_STAGED_BYTES && f->ready == 0) {
		if (fill_go_direct(f) < 0) /* no room now, perhaps at the end */
			return 0;
		free(f->stage);
		f->stage = NULL;
		return 0;
	}
	return f->ready == f->stage_bytes ? outgrow(f) : 0;
}

static int64_t splice_on(struct cache_fill *f, int pipe_fd, size_t n)
{
	int e = f->mode == MODE_STAGED ? leave_stage(f) : 0;

	if (e == 0 && f->mode == MODE_CHUNKS && f->room_bytes == 0)
		e = next_chunk(f);
	if (e < 0)
		return e;
	switch (f->mode) {
	case MODE_STAGED:
		return splice_staged(f, pipe_fd, n);
	case MODE_DIRECT:
		return splice_to(f, f->segment, f->place.body_offset + f->ready, pipe_fd, n);
	default:
		return splice_to(f, current_chunk(f), chunk_offset(f), pipe_fd,
				 n < f->room_bytes ? n : (size_t)f->room_bytes);
	}
}

int64_t cache_fill_splice(struct cache_fill *f, int pipe_fd, size_t n)
{
	int64_t got = fill_check(f, n);

	if (got == 0)
		got = splice_on(f, pipe_fd, n);
	if (got == -EAGAIN)
		return got; /* an empty pipe */
	if (got < 0) {
		if (got == -EIO)
			shared_store_fail(f->cache->shared, fill_store(f), REASON_WRITE, EIO);
		return fill_broken(f, (int)got);
	}
	advance(f, (size_t)got);
	return got;
}
