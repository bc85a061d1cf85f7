/*
 * A record is sealed by four calls of OpenSSL's ciphers: nonce, header, payload, tag. Its own SSL_write makes some thirty for
 * the same, and copies the payload before and the record behind. Here it is sealed where it lies: the payload was
 * read or copied to its place in the record, and what comes before and after is written around it.
 *
 * The key schedule is kept from record to record; only the nonce is set. A nonce is the connection's 12 bytes xor the
 * record's number, in TLS 1.3 and for ChaCha20 since they say so (RFC 8446 section 5.3, RFC 7905 section 2), for AES-GCM in TLS 1.2
 * since any way will do that repeats none: the last 8 bytes are sent along (RFC 5288 section 3).
 *
 * What is authenticated beside the payload is the record's header in TLS 1.3 (RFC 8446 section 5.2), in TLS 1.2 number,
 * type, version and length of the payload (RFC 5246 section 6.2.3.3). TLS 1.3 seals the type with the payload, behind it.
 */
#include "edge/base/tls_seal.h"

#include <endian.h>
#include <errno.h>
#include <linux/tls.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/ssl3.h>
#include <string.h>

enum { HEADER_BYTES = 5, NUMBER_BYTES = 8, TAG_BYTES = 16, SALT_BYTES = 4 };

/* --- keys ------------------------------------------------------------------------------------------- */

struct keys {
	const EVP_CIPHER *cipher;
	const unsigned char *key, *salt, *iv, *sequence;
	bool gcm;
};

/* Looked up once: it takes longer than sealing. NULL: this OpenSSL has none. */
static const EVP_CIPHER *cipher_of(uint16_t type)
{
	static EVP_CIPHER *aes128, *aes256, *chacha; /* made once, never changed */

	switch (type) {
	case TLS_CIPHER_AES_GCM_128:
		return aes128 != NULL ? aes128
				      : (aes128 = EVP_CIPHER_fetch(NULL, "AES-128-GCM", NULL));
	case TLS_CIPHER_AES_GCM_256:
		return aes256 != NULL ? aes256
				      : (aes256 = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL));
	case TLS_CIPHER_CHACHA20_POLY1305:
		return chacha != NULL ? chacha
				      : (chacha = EVP_CIPHER_fetch(NULL, "ChaCha20-Poly1305", NULL));
	default:
		return NULL;
	}
}

/* Where the kernel's struct for this suite has what. False: not one that is known. */
static bool find_keys(const struct tls_crypto_info *offer, struct keys *out)
{
	const struct tls12_crypto_info_aes_gcm_128 *aes128 = (const void *)offer;
	const struct tls12_crypto_info_aes_gcm_256 *aes256 = (const void *)offer;
	const struct tls12_crypto_info_chacha20_poly1305 *chacha = (const void *)offer;
	const EVP_CIPHER *cipher = cipher_of(offer->cipher_type);

	if (cipher == NULL)
		return false;
	switch (offer->cipher_type) {
	case TLS_CIPHER_AES_GCM_128:
		*out = (struct keys){ cipher,	  aes128->key,	   aes128->salt,
				      aes128->iv, aes128->rec_seq, true };
		return true;
	case TLS_CIPHER_AES_GCM_256:
		*out = (struct keys){ cipher,	  aes256->key,	   aes256->salt,
				      aes256->iv, aes256->rec_seq, true };
		return true;
	default:
		*out = (struct keys){ cipher,	       chacha->key,
				      chacha->iv,      chacha->iv + SALT_BYTES,
				      chacha->rec_seq, false };
		return true;
	}
}

static uint64_t number_at(const unsigned char *p)
{
	uint64_t n;

	memcpy(&n, p, sizeof(n));
	return be64toh(n);
}

static void put_number(unsigned char *p, uint64_t n)
{
	n = htobe64(n);
	memcpy(p, &n, sizeof(n));
}

bool tls_seal_init(struct tls_seal *seal, const void *offer)
{
	const struct tls_crypto_info *info = offer;
	bool tls13 = info->version == TLS_1_3_VERSION;
	EVP_CIPHER_CTX *cipher;
	struct keys k;

	if ((!tls13 && info->version != TLS_1_2_VERSION) || !find_keys(info, &k))
		return false;
	cipher = EVP_CIPHER_CTX_new();
	if (cipher == NULL || EVP_EncryptInit_ex2(cipher, k.cipher, k.key, NULL, NULL) != 1) {
		EVP_CIPHER_CTX_free(cipher);
		return false;
	}
	*seal = (struct tls_seal){ .cipher = cipher,
				   .tls13 = tls13,
				   .explicit_bytes = k.gcm && !tls13 ? NUMBER_BYTES : 0,
				   .iv = number_at(k.iv),
				   .sequence = number_at(k.sequence) };
	memcpy(seal->salt, k.salt, sizeof(seal->salt));
	return true;
}

void tls_seal_fini(struct tls_seal *seal)
{
	EVP_CIPHER_CTX_free(seal->cipher); /* it wipes its key */
	OPENSSL_cleanse(seal, sizeof(*seal));
}

/* --- records ----------------------------------------------------------------------------------------- */

size_t tls_seal_front(const struct tls_seal *seal)
{
	return HEADER_BYTES + seal->explicit_bytes;
}

size_t tls_seal_bytes(const struct tls_seal *seal, size_t payload_bytes)
{
	return tls_seal_front(seal) + payload_bytes + seal->tls13 + TAG_BYTES;
}

static void put_header(unsigned char *p, uint8_t type, size_t n)
{
	p[0] = type;
	p[1] = TLS_1_2_VERSION_MAJOR;
	p[2] = TLS_1_2_VERSION_MINOR;
	p[3] = (unsigned char)(n >> 8);
	p[4] = (unsigned char)n;
}

/* Into its place in the record too, where it is sent. */
static bool set_nonce(const struct tls_seal *seal, unsigned char *record)
{
	unsigned char nonce[SALT_BYTES + NUMBER_BYTES];

	memcpy(nonce, seal->salt, SALT_BYTES);
	put_number(nonce + SALT_BYTES, seal->iv ^ seal->sequence);
	memcpy(record + HEADER_BYTES, nonce + SALT_BYTES, seal->explicit_bytes);
	return EVP_EncryptInit_ex2(seal->cipher, NULL, NULL, nonce, NULL) == 1;
}

static bool authenticate(const struct tls_seal *seal, const unsigned char *record, uint8_t type, size_t n)
{
	unsigned char beside[NUMBER_BYTES + HEADER_BYTES];
	int unused;

	if (seal->tls13)
		return EVP_EncryptUpdate(seal->cipher, NULL, &unused, record, HEADER_BYTES) == 1;
	put_number(beside, seal->sequence);
	put_header(beside + NUMBER_BYTES, type, n);
	return EVP_EncryptUpdate(seal->cipher, NULL, &unused, beside, sizeof(beside)) == 1;
}

/* In place; the tag comes behind. */
static bool encrypt(const struct tls_seal *seal, unsigned char *p, size_t n)
{
	OSSL_PARAM tag[] = { OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, p + n,
							       TAG_BYTES),
			     OSSL_PARAM_construct_end() };
	int unused;

	return EVP_EncryptUpdate(seal->cipher, p, &unused, p, (int)n) == 1 &&
	       EVP_EncryptFinal_ex(seal->cipher, p + n, &unused) == 1 &&
	       EVP_CIPHER_CTX_get_params(seal->cipher, tag) == 1;
}

int tls_seal_record(struct tls_seal *seal, uint8_t type, unsigned char *record, size_t n)
{
	unsigned char *payload = record + tls_seal_front(seal);
	size_t sealed = n;

	CHECK(n <= TLS_RECORD_BYTES);
	if (seal->sequence >= TLS_SEAL_RECORDS)
		return -EOVERFLOW;
	if (seal->tls13)
		payload[sealed++] = type;
	put_header(record, seal->tls13 ? SSL3_RT_APPLICATION_DATA : type,
		   seal->explicit_bytes + sealed + TAG_BYTES);
	if (!set_nonce(seal, record) || !authenticate(seal, record, type, n) ||
	    !encrypt(seal, payload, sealed))
		return -EIO;
	seal->sequence++;
	return 0;
}
