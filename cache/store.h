/*
 * A store's directory: made, locked, and known again by its superblock.
 *
 * The superblock is small and written whole beside the old one, then renamed over it: a cut in the middle leaves
 * one or the other. It is written at each start (a new epoch of object ids must be on the disk before
 * the first id is given out) and at an orderly end.
 *
 * cache_store_open (cache/cache.h) is the master's part: directory and lock.
 */
#ifndef BRIM_CACHE_STORE_H
#define BRIM_CACHE_STORE_H

#include "cache/format.h"

/* Reads and checks. 0; -ENOENT: a new store; -EBADMSG: not a superblock, or damaged; -EPROTONOSUPPORT: of another format;
 * other negative errno. */
int store_load(int dir_fd, struct format_store *out) NODISCARD;
/* Seals *sb (checksum) and writes it, synced. */
int store_save(int dir_fd, struct format_store *sb) NODISCARD;
/* A new one, in memory: random id, sizes as given. */
int store_make(uint64_t size_bytes, uint32_t segment_bytes, uint32_t chunk_bytes,
	       struct format_store *out) NODISCARD;
/* The folders of segments and chunk files; those that are there are left alone. */
int store_make_dirs(int dir_fd) NODISCARD;
/* This boot's name; all zeros where the system doesn't tell (no two boots are then the same). */
void store_boot_id(uint8_t out[40]);
/* fsync of a folder beneath dir_fd, or of itself (name "."). */
int store_sync_dir(int dir_fd, const char *name) NODISCARD;

#endif
