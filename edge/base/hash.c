/*
 * SHA-256 goes through OpenSSL, which is fast only if the algorithm is looked up once (EVP_MD_fetch
 * takes longer than hashing a key) and its context is used again: one per thread. Parts are
 * gathered in a buffer first, since each EVP_DigestUpdate costs as much as a block.
 *
 * A failing EVP call means that OpenSSL has no default provider or no memory for a context of a
 * few hundred bytes, at a thread's first hash: there is no sensible way on without keys.
 */
#include "edge/base/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <xxhash.h>

#include "edge/base/check.h"

enum { PARTS_MAX = 16, GATHER_BYTES = 512, SHA256_BYTES = 32 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_MD *sha256;
static pthread_key_t context_key; /* only for its destructor */
static _Thread_local EVP_MD_CTX *thread_context;

struct gather {
	EVP_MD_CTX *context;
	size_t used;
	uint8_t bytes[GATHER_BYTES];
};

static void digest(const struct view *parts, size_t count, uint8_t out[SHA256_BYTES]);
static EVP_MD_CTX *context(void);
static void gather_add(struct gather *g, const void *p, size_t n);

void hash_sha256_128(const struct view *parts, size_t count, uint8_t out[16])
{
	uint8_t full[SHA256_BYTES];

	digest(parts, count, full);
	memcpy(out, full, 16);
}

uint64_t hash_sha256_64(const struct view *parts, size_t count)
{
	uint8_t full[SHA256_BYTES];
	uint64_t value;

	digest(parts, count, full);
	memcpy(&value, full, sizeof(value));
	return value;
}

void hash_sha256(struct view v, uint8_t out[32])
{
	EVP_MD_CTX *c = context();

	CHECK(EVP_DigestInit_ex2(c, sha256, NULL) == 1);
	CHECK(EVP_DigestUpdate(c, v.p, v.n) == 1);
	CHECK(EVP_DigestFinal_ex(c, out, NULL) == 1);
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

static void digest(const struct view *parts, size_t count, uint8_t out[SHA256_BYTES])
{
	struct gather g;

	CHECK(count <= PARTS_MAX);
	g.context = context();
	g.used = 0;
	CHECK(EVP_DigestInit_ex2(g.context, sha256, NULL) == 1);
	for (size_t i = 0; i < count; i++) {
		CHECK(parts[i].n <= UINT32_MAX);
		uint32_t n = (uint32_t)parts[i].n;
		uint8_t length[4] = { (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16),
				      (uint8_t)(n >> 24) };
		gather_add(&g, length, sizeof(length));
		gather_add(&g, parts[i].p, parts[i].n);
	}
	CHECK(EVP_DigestUpdate(g.context, g.bytes, g.used) == 1);
	CHECK(EVP_DigestFinal_ex(g.context, out, NULL) == 1);
}

static void free_context(void *p)
{
	EVP_MD_CTX_free(p);
}

static void fetch_once(void)
{
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	CHECK(sha256 != NULL);
	CHECK(pthread_key_create(&context_key, free_context) == 0);
}

static EVP_MD_CTX *context(void)
{
	if (thread_context != NULL)
		return thread_context;
	CHECK(pthread_once(&once, fetch_once) == 0);
	thread_context = EVP_MD_CTX_new();
	CHECK(thread_context != NULL);
	CHECK(pthread_setspecific(context_key, thread_context) == 0);
	return thread_context;
}

static void gather_add(struct gather *g, const void *p, size_t n)
{
	if (n > sizeof(g->bytes) - g->used) {
		CHECK(EVP_DigestUpdate(g->context, g->bytes, g->used) == 1);
		g->used = 0;
	}
	if (n > sizeof(g->bytes)) {
		CHECK(EVP_DigestUpdate(g->context, p, n) == 1);
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
