/*
 * Records of TLS 1.2 and 1.3, sealed with keys that OpenSSL has agreed on and hands out as it would to the kernel.
 */
#ifndef BRIM_BASE_TLS_SEAL_H
#define BRIM_BASE_TLS_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "edge/base/check.h"

struct evp_cipher_ctx_st;

enum {
	TLS_RECORD_BYTES = 16 << 10,   /* of payload, at most */
	TLS_RECORD_EXTRA = 5 + 8 + 16, /* what a record has beside its payload, at most */
	/* One key seals no more (RFC 8446 section 5.5: 2^24.5 records of AES-GCM); well before that the stream is to end. */
	TLS_SEAL_RECORDS = 23726566,
	TLS_SEAL_WARNING = 1 << 23,
};

struct tls_seal {
	struct evp_cipher_ctx_st *cipher; /* it has the key. NULL: there is none yet */
	uint64_t sequence;
	unsigned char salt[4]; /* the nonce's first bytes, and what the others are made of */
	uint64_t iv;
	bool tls13;
	uint8_t explicit_bytes; /* of the nonce, sent in each record */
};

/* offer: struct tls_crypto_info of <linux/tls.h> and what follows it there; only read as far as it says to be. False: a
 * version or suite that is not known here, or no memory; nothing has changed. */
bool tls_seal_init(struct tls_seal *seal, const void *offer) NODISCARD;
/* Also of zeros. Nothing of the key stays in memory. */
void tls_seal_fini(struct tls_seal *seal);

static inline bool tls_seal_ready(const struct tls_seal *seal)
{
	return seal->cipher != NULL;
}

/* The payload's place in a record, and the length of a whole one. */
size_t tls_seal_front(const struct tls_seal *seal);
size_t tls_seal_bytes(const struct tls_seal *seal, size_t payload_bytes);

/* Seals a record in place: n bytes of payload lie at their place in it. -EOVERFLOW: the key is used up; -EIO: OpenSSL failed. */
int tls_seal_record(struct tls_seal *seal, uint8_t type, unsigned char *record, size_t n) NODISCARD;
/* Well over a third of what the key may seal is used up. */
static inline bool tls_seal_worn(const struct tls_seal *seal)
{
	return seal->sequence >= TLS_SEAL_WARNING;
}

#endif
