/*
 * One writer (the master) and many readers in other processes: a version that is odd while keys change, and
 * readers that try again. The page is not in core dumps.
 */
#include "edge/tls_tickets.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

enum { TRIES = 100000 };

struct tls_tickets {
	_Atomic uint32_t version;
	unsigned count;
	struct tls_ticket_key keys[TLS_TICKETS_KEPT];
	struct mono made; /* the newest */
};

/* Keeps what it has where there is no randomness. */
static bool add_key(struct tls_tickets *t)
{
	struct tls_ticket_key key;

	if (getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key))
		return false;
	atomic_fetch_add(&t->version, 1);
	memmove(&t->keys[1], &t->keys[0], (TLS_TICKETS_KEPT - 1) * sizeof(key));
	t->keys[0] = key;
	if (t->count < TLS_TICKETS_KEPT)
		t->count++;
	atomic_fetch_add(&t->version, 1);
	explicit_bzero(&key, sizeof(key));
	t->made = clock_mono();
	return true;
}

struct tls_tickets *tls_tickets_new(void)
{
	struct tls_tickets *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (t == MAP_FAILED)
		return NULL;
	(void)madvise(t, sizeof(*t), MADV_DONTDUMP);
	if (!add_key(t)) {
		tls_tickets_free(t);
		return NULL;
	}
	return t;
}

void tls_tickets_free(struct tls_tickets *t)
{
	if (t == NULL)
		return;
	explicit_bzero(t->keys, sizeof(t->keys));
	munmap(t, sizeof(*t));
}

struct mono tls_tickets_rotate(struct tls_tickets *t, uint64_t every_ms)
{
	struct mono now = clock_mono();

	if (now.ms - t->made.ms >= (int64_t)every_ms && !add_key(t))
		return (struct mono){ now.ms + 1000 };
	return (struct mono){ t->made.ms + (int64_t)every_ms };
}

unsigned tls_tickets_get(const struct tls_tickets *t, struct tls_ticket_key out[TLS_TICKETS_KEPT])
{
	/* The master copies some hundred bytes. It might die of it: then sessions aren't resumed any more. */
	for (unsigned tries = 0; tries < TRIES; tries++) {
		uint32_t before = atomic_load(&t->version);
		unsigned count = t->count;

		memcpy(out, t->keys, sizeof(t->keys));
		atomic_thread_fence(memory_order_acquire);
		if (before % 2 == 0 && atomic_load(&t->version) == before)
			return count;
	}
	return 0;
}

/* Looked for once: OpenSSL 3 would do so at each use. NULL: no memory. */
static const EVP_CIPHER *ticket_cipher(void)
{
	static EVP_CIPHER *cipher; /* of the process, made once */

	if (cipher == NULL)
		cipher = EVP_CIPHER_fetch(NULL, "AES-256-CBC", NULL);
	return cipher;
}

static bool use_key(const struct tls_ticket_key *key, unsigned char *iv, EVP_CIPHER_CTX *cipher,
		    EVP_MAC_CTX *mac, int sealing)
{
	char digest[] = "SHA256";
	OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)key->hmac,
						  sizeof(key->hmac)),
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};

	return EVP_CipherInit_ex(cipher, ticket_cipher(), NULL, key->aes, iv, sealing) == 1 &&
	       EVP_MAC_CTX_set_params(mac, parameters) == 1;
}

int tls_ticket_use(const struct tls_ticket_key *keys, size_t count, unsigned char *name,
		   unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int sealing)
{
	if (count == 0)
		return 0;
	if (sealing) {
		memcpy(name, keys[0].name, sizeof(keys[0].name));
		if (RAND_bytes(iv, EVP_MAX_IV_LENGTH) != 1)
			return -1;
		return use_key(&keys[0], iv, cipher, mac, sealing) ? 1 : -1;
	}
	for (size_t i = 0; i < count; i++) {
		if (memcmp(name, keys[i].name, sizeof(keys[i].name)) != 0)
			continue;
		if (!use_key(&keys[i], iv, cipher, mac, sealing))
			return -1;
		return i == 0 ? 1 : 2;
	}
	return 0;
}
