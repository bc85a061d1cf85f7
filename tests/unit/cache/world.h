/*
 * What the tests of the cache's worker side share: a store in a new directory, its shared memory, a loop, one worker's
 * view, and a keeper of a dozen lines (it commits into the index and writes no log).
 */
#ifndef BRIM_TESTS_CACHE_WORLD_H
#define BRIM_TESTS_CACHE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/claim.h"
#include "cache/format.h"
#include "cache/index.h"
#include "cache/process.h"
#include "cache/purge_clock.h"
#include "cache/shared.h"

enum { WORLD_BYTES = 64 << 20, SITE = 77 };

struct world {
	char dir[64];
	struct cache_conf conf;
	struct cache_shared *shared;
	struct shared_store *store;
	struct loop *loop;
	struct cache *cache;
	struct index *index;
	uint64_t cursor;
	uint32_t next_segment;
	struct ready wake; /* what tests wait with */
	struct timer alarm;
	unsigned woken;
};

static inline void world_woken(struct ready *r)
{
	struct world *w = CONTAINER_OF(r, struct world, wake);

	w->woken++;
	loop_stop(w->loop);
}

static inline void world_alarm(struct timer *t)
{
	(void)t;
	fail_msg("nothing happened for a minute");
}

/* Runs the loop until «wake» was posted (once more than «before»). */
static inline void world_wait(struct world *w, unsigned before)
{
	timer_set(&w->alarm, 60000);
	while (w->woken == before)
		loop_run(w->loop);
	timer_clear(&w->alarm);
}

/* Puts an empty segment into a place where workers look for one. */
static inline uint32_t world_segment(struct world *w, unsigned place)
{
	char path[FORMAT_PATH_MAX];
	uint32_t id = w->next_segment++;
	int fd;

	format_segment_path(id, path);
	fd = openat(w->conf.stores[0].dir_fd, path, O_RDWR | O_CREAT | O_EXCL, 0640);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, w->store->segment_bytes), 0);
	close(fd);
	assert_int_equal(shared_segment_open(w->store, id), 0);
	atomic_store(&w->store->open[place], id);
	return id;
}

static inline void world_make_dirs(struct world *w)
{
	char path[32];

	snprintf(w->dir, sizeof(w->dir), "/tmp/brim-test-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->conf.stores[0].dir_fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(w->conf.stores[0].dir_fd >= 0);
	assert_int_equal(mkdirat(w->conf.stores[0].dir_fd, "segments", 0750), 0);
	assert_int_equal(mkdirat(w->conf.stores[0].dir_fd, "chunks", 0750), 0);
	for (unsigned i = 0; i < 256; i++) {
		snprintf(path, sizeof(path), "chunks/%02x", i);
		assert_int_equal(mkdirat(w->conf.stores[0].dir_fd, path, 0750), 0);
	}
}

/* The keeper is here, for as long as a test may take on a slow machine. */
static inline void world_beat(struct world *w)
{
	atomic_store(&w->shared->keeper_beat_ms, clock_mono().ms + 600000);
}

/* Shared memory and directory, with the store in service; no worker yet (tests may fork). */
static inline void world_prepare(struct world *w)
{
	*w = (struct world){ .next_segment = 1 };
	w->conf.store_count = 1;
	w->conf.workers = 4;
	w->conf.stores[0].name = VIEW("main");
	w->conf.stores[0].size_bytes = WORLD_BYTES;
	world_make_dirs(w);
	w->shared = cache_shared_new(&w->conf);
	assert_non_null(w->shared);
	w->store = &w->shared->stores[0];
	atomic_store(&w->shared->next_object_id, (uint64_t)1 << 40);
	atomic_store(&w->store->free_bytes, WORLD_BYTES / 2);
	world_segment(w, 0);
	world_segment(w, 1);
	world_beat(w);
	atomic_store(&w->store->state, STORE_OPEN);
}

/* This process becomes the worker in «slot». */
static inline void world_attach(struct world *w, unsigned slot)
{
	const uint64_t store_id[2] = { 1, 2 };
	bool complete;

	w->loop = loop_new();
	assert_non_null(w->loop);
	ready_init(&w->wake, w->loop, world_woken);
	assert_int_equal(timer_open(&w->alarm, w->loop, world_alarm), 0);
	assert_int_equal(cache_attach(w->shared, &w->conf, w->loop, slot, &w->cache), 0);
	assert_int_equal(index_open(w->conf.stores[0].dir_fd, store_id, &w->index, &complete), 0);
	/* LMDB allows one handle in a process: the worker finds in the keeper's. */
	w->cache->stores[0].index_borrowed = true;
	cache_lend_index(w->cache, 0, w->index);
}

static inline void world_detach(struct world *w)
{
	cache_detach(w->cache);
	timer_close(&w->alarm);
	index_close(&w->index);
	loop_free(w->loop);
}

static inline void world_open(struct world *w)
{
	world_prepare(w);
	world_attach(w, 0);
}

static inline int world_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static inline void world_discard(struct world *w)
{
	cache_shared_free(w->shared);
	close(w->conf.stores[0].dir_fd);
	nftw(w->dir, world_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void world_close(struct world *w)
{
	world_detach(w);
	world_discard(w);
}

/* --- the little keeper ------------------------------------------------------------------------ */

static inline void world_put(struct world *w, const struct claim_view *v)
{
	const struct shared_commit *m = &v->commit;
	struct cache_key key = v->key;
	struct cache_record r = {
		.kind = CACHE_RECORD_OBJECT,
		.status = m->status,
		.flags = m->flags,
		.object_id = v->object_id,
		.birth = m->birth,
		.body_id = m->body_id,
		.head_segment = m->head_segment,
		.head_offset = m->head_offset,
		.head_bytes = m->head_bytes,
		.body_segment = m->body_segment,
		.body_offset = m->body_offset,
		.body_bytes = m->body_bytes,
		.received = { m->received_ms },
		.initial_age_ms = m->initial_age_ms,
		.lifetime_ms = m->lifetime_ms,
	};

	key.secondary = m->secondary;
	index_begin(w->index);
	index_put(w->index, &key, &r);
	assert_int_equal(index_commit(w->index), 0);
}

/* Commits what is DONE, frees what is FAILED. Returns how many were committed. */
static inline unsigned world_keep(struct world *w)
{
	unsigned committed = 0;
	int slot;

	for (slot = claim_next(w->shared, 0); slot >= 0;
	     slot = claim_next(w->shared, (uint32_t)slot + 1)) {
		struct claim_view v;

		if (claim_view(w->shared, (uint32_t)slot, &v) < 0)
			continue;
		if (v.state == CLAIM_DONE && v.superseded) {
			claim_refused(w->shared, (uint32_t)slot);
		} else if (v.state == CLAIM_DONE) {
			world_put(w, &v);
			claim_committed(w->shared, (uint32_t)slot);
			committed++;
		}
		assert_int_equal(claim_free(w->shared, (uint32_t)slot), 0);
	}
	return committed;
}

/* --- requests ---------------------------------------------------------------------------------- */

static inline struct cache_key world_key(const char *path)
{
	struct cache_url url = { .site = VIEW("shop"),
				 .host = VIEW("shop.example"),
				 .path = view_str(path) };
	struct cache_key key = { .secondary = 0 };

	cache_key_primary(&url, key.primary);
	return key;
}

static inline struct cache_scope world_host(void)
{
	return cache_scope_host(SITE, VIEW("shop.example"));
}

static inline struct cache_names world_names(const struct cache_key *key)
{
	return (struct cache_names){ .primary = key->primary,
				     .site_hash = SITE,
				     .host_hash = world_host().hash,
				     .url = VIEW("http://shop.example/a/b?c=d") };
}

static inline enum cache_claimed world_claim(struct world *w, const struct cache_key *key,
					     struct cache_wait *wait, struct cache_claim **out)
{
	struct cache_names names = world_names(key);

	return cache_claim_take(w->cache, key, &names, wait, &w->wake, out);
}

static inline struct cache_claim *world_own(struct world *w, const struct cache_key *key)
{
	struct cache_wait wait = { .slot = 0 };
	struct cache_claim *claim;

	assert_int_equal(world_claim(w, key, &wait, &claim), CACHE_CLAIM_OWNED);
	return claim;
}

static inline struct cache_meta world_meta(const struct cache_claim *claim)
{
	static const uint64_t tags[] = { 1001, 1002 };

	return (struct cache_meta){
		.status = 200,
		.birth = cache_claim_birth(claim),
		.received = { 1700000000000 },
		.lifetime_ms = 60000,
		.site_hash = SITE,
		.host_hash = world_host().hash,
		.url = VIEW("http://shop.example/a"),
		.etag = VIEW("\"v1\""),
		.last_modified = VIEW("Mon, 01 Jan 2024 00:00:00 GMT"),
		.tags = tags,
		.tag_count = 2,
	};
}

#define WORLD_HEAD VIEW("Content-Type: text/plain\r\nX-A: 1\r\n")

static inline struct cache_fill *world_begin(struct world *w, const struct cache_key *key,
					     int64_t body_bytes)
{
	struct cache_claim *claim = world_own(w, key);
	struct cache_meta meta = world_meta(claim);
	struct cache_fill *fill;

	assert_int_equal(
		cache_fill_begin(&claim, key, &meta, VIEW(""), WORLD_HEAD, body_bytes, &fill), 0);
	assert_null(claim);
	return fill;
}

/* Body bytes that differ at every offset. */
static inline char *world_body(size_t n)
{
	char *body = malloc(n + 1);
	uint32_t x = 1;

	assert_non_null(body);
	for (size_t i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		body[i] = (char)(x >> 24);
	}
	return body;
}

/* Stores a body under key, committed. */
static inline void world_store(struct world *w, const struct cache_key *key, const char *body,
			       size_t n, bool known)
{
	struct cache_fill *fill = world_begin(w, key, known ? (int64_t)n : CACHE_LENGTH_UNKNOWN);

	assert_int_equal(cache_fill_write(fill, body, n), 0);
	assert_int_equal(cache_fill_finish(fill), 0);
	cache_fill_free(fill);
	assert_int_equal(world_keep(w), 1);
}

static inline int world_open_object(struct world *w, const struct cache_key *key,
				    const struct cache_object **out)
{
	struct cache_record r;
	struct cache_read *pending = NULL;
	int e = cache_find(w->cache, key, &r);

	if (e < 0)
		return e;
	for (;;) {
		unsigned before = w->woken;

		e = cache_object_open(w->cache, key, &r, &w->wake, &pending, out);
		if (e != -EINPROGRESS)
			return e;
		world_wait(w, before);
	}
}

/* Reads a whole body as a client would; must equal body. */
static inline void world_read(struct world *w, const struct cache_object *o, const char *body, size_t n)
{
	struct cache_reader reader = { 0 };
	char *got = malloc(n + 1);
	uint64_t at = 0;

	assert_int_equal(o->record.body_bytes, n);
	while (at < n && o->body.n == 0) {
		unsigned before = w->woken;
		struct cache_span span;
		int e = cache_object_body(o, &reader, at, &w->wake, &span);

		if (e == -EINPROGRESS) {
			world_wait(w, before);
			continue;
		}
		assert_int_equal(e, 0);
		assert_true(span.bytes > 0 && span.bytes <= 256 << 10);
		assert_int_equal(pread(span.fd, got + at, span.bytes, (off_t)span.offset), span.bytes);
		at += span.bytes;
	}
	cache_reader_fini(&reader);
	assert_memory_equal(o->body.n > 0 ? o->body.p : got, body, n);
	free(got);
}

static inline void world_check(struct world *w, const struct cache_key *key, const char *body, size_t n)
{
	const struct cache_object *o;

	assert_int_equal(world_open_object(w, key, &o), 0);
	world_read(w, o, body, n);
	cache_object_unref(o);
}

#endif
