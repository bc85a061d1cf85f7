/* Hashes: SHA-256 for keys (an attacker chooses URLs), XXH3 for checksums and tables. */
#ifndef BRIM_BASE_HASH_H
#define BRIM_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "edge/base/view.h"

/* The first 128 bits of SHA-256 over all parts, each preceded by its length (4 bytes,
 * little endian), so that no two lists of parts have the same input. At most 16 parts. */
void hash_sha256_128(const struct view *parts, size_t count, uint8_t out[16]);
/* The first 64 bits of the same. */
uint64_t hash_sha256_64(const struct view *parts, size_t count);
/* SHA-256 of v itself, whole: for tokens. */
void hash_sha256(struct view v, uint8_t out[32]);
/* Compares in a time that depends on n alone. */
bool hash_same(const uint8_t *a, const uint8_t *b, size_t n);

uint64_t hash_xxh3(const void *p, size_t n);
uint64_t hash_xxh3_seed(const void *p, size_t n, uint64_t seed);

/* For «brim -V»: "OpenSSL 3.0.22 …". */
const char *hash_library(void);

#endif
