/*
 * SHA-256 goes through OpenSSL's own functions for it and not through EVP: a key is two blocks, and EVP, which
 * frees and allocates a context for each digest, takes as long as the hash itself (3.0: 960 instructions of
 * a hit's 11,500). The functions are called deprecated since they pass OpenSSL's providers by, which
 * nothing here needs: no key and no signature depends on these hashes being made by a certified module.
 * Parts are gathered in a buffer, since each update costs as much as ten bytes.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "edge/base/hash.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <xxhash.h>

#include "edge/base/check.h"

enum { PARTS_MAX = 16, GATHER_BYTES = 512 };

struct gather {
	SHA256_CTX context;
	size_t used;
	uint8_t bytes[GATHER_BYTES];
};

static void digest(const struct view *parts, size_t count, uint8_t out[SHA256_DIGEST_LENGTH]);
static void gather_add(struct gather *g, const void *p, size_t n);

void hash_sha256_128(const struct view *parts, size_t count, uint8_t out[16])
{
	uint8_t full[SHA256_DIGEST_LENGTH];

	digest(parts, count, full);
	memcpy(out, full, 16);
}

uint64_t hash_sha256_64(const struct view *parts, size_t count)
{
	uint8_t full[SHA256_DIGEST_LENGTH];
	uint64_t value;

	digest(parts, count, full);
	memcpy(&value, full, sizeof(value));
	return value;
}

void hash_sha256(struct view v, uint8_t out[32])
{
	SHA256((const unsigned char *)v.p, v.n, out);
}

bool hash_same(const uint8_t *a, const uint8_t *b, size_t n)
{
	return CRYPTO_memcmp(a, b, n) == 0;
}

uint64_t hash_xxh3(const void *p, size_t n)
{
	return XXH3_64bits(p, n);
}

uint64_t hash_xxh3_seed(const void *p, size_t n, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, n, seed);
}

static void digest(const struct view *parts, size_t count, uint8_t out[SHA256_DIGEST_LENGTH])
{
	struct gather g;

	CHECK(count <= PARTS_MAX);
	SHA256_Init(&g.context);
	g.used = 0;
	for (size_t i = 0; i < count; i++) {
		CHECK(parts[i].n <= UINT32_MAX);
		uint32_t n = (uint32_t)parts[i].n;
		uint8_t length[4] = { (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16),
				      (uint8_t)(n >> 24) };
		gather_add(&g, length, sizeof(length));
		gather_add(&g, parts[i].p, parts[i].n);
	}
	SHA256_Update(&g.context, g.bytes, g.used);
	SHA256_Final(out, &g.context);
}

static void gather_add(struct gather *g, const void *p, size_t n)
{
	if (n > sizeof(g->bytes) - g->used) {
		SHA256_Update(&g->context, g->bytes, g->used);
		g->used = 0;
	}
	if (n > sizeof(g->bytes)) {
		SHA256_Update(&g->context, p, n);
		return;
	}
	if (n > 0)
		memcpy(g->bytes + g->used, p, n);
	g->used += n;
}

const char *hash_library(void)
{
	return OpenSSL_version(OPENSSL_VERSION);
}
