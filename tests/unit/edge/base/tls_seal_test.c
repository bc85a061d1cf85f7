/*
 * Records that we seal, opened again by the RFCs' words with OpenSSL's ciphers: each suite in both versions, at all lengths that matter.
 * (What real peers make of them: tls_test.c.)
 */
#include "edge/base/tls_seal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/tls.h>
#include <openssl/evp.h>

enum { APPLICATION_DATA = 23, ALERT = 21 };

static const struct suite {
	uint16_t version, type;
	const char *cipher;
	int key_bytes;
	size_t explicit_bytes;
} suites[] = {
	{ TLS_1_2_VERSION, TLS_CIPHER_AES_GCM_128, "AES-128-GCM", 16, 8 },
	{ TLS_1_2_VERSION, TLS_CIPHER_AES_GCM_256, "AES-256-GCM", 32, 8 },
	{ TLS_1_2_VERSION, TLS_CIPHER_CHACHA20_POLY1305, "ChaCha20-Poly1305", 32, 0 },
	{ TLS_1_3_VERSION, TLS_CIPHER_AES_GCM_128, "AES-128-GCM", 16, 0 },
	{ TLS_1_3_VERSION, TLS_CIPHER_AES_GCM_256, "AES-256-GCM", 32, 0 },
	{ TLS_1_3_VERSION, TLS_CIPHER_CHACHA20_POLY1305, "ChaCha20-Poly1305", 32, 0 },
};

struct offer {
	union {
		struct tls_crypto_info info;
		struct tls12_crypto_info_aes_gcm_128 aes128;
		struct tls12_crypto_info_aes_gcm_256 aes256;
		struct tls12_crypto_info_chacha20_poly1305 chacha;
	};
	unsigned char key[32], iv[12], number[8];
};

static void draw(unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)((i + seed) * 2654435761u >> 11);
}

static void make_offer(const struct suite *s, uint64_t number, struct offer *o)
{
	memset(o, 0, sizeof(*o));
	draw(o->key, sizeof(o->key), 1);
	draw(o->iv, sizeof(o->iv), 100);
	for (int i = 0; i < 8; i++)
		o->number[i] = (unsigned char)(number >> (56 - 8 * i));
	if (s->type == TLS_CIPHER_AES_GCM_128) {
		memcpy(o->aes128.key, o->key, 16);
		memcpy(o->aes128.salt, o->iv, 4);
		memcpy(o->aes128.iv, o->iv + 4, 8);
		memcpy(o->aes128.rec_seq, o->number, 8);
	} else if (s->type == TLS_CIPHER_AES_GCM_256) {
		memcpy(o->aes256.key, o->key, 32);
		memcpy(o->aes256.salt, o->iv, 4);
		memcpy(o->aes256.iv, o->iv + 4, 8);
		memcpy(o->aes256.rec_seq, o->number, 8);
	} else {
		memcpy(o->chacha.key, o->key, 32);
		memcpy(o->chacha.iv, o->iv, 12);
		memcpy(o->chacha.rec_seq, o->number, 8);
	}
	o->info.version = s->version;
	o->info.cipher_type = s->type;
}

/* Opens a record as its receiver would. Bytes of payload, and its type. */
static size_t open_record(const struct suite *s, const struct offer *o, uint64_t number,
			  unsigned char *record, size_t n, uint8_t *out_type)
{
	EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, s->cipher, NULL);
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
	size_t front = 5 + s->explicit_bytes, sealed = n - front - 16;
	unsigned char nonce[12], beside[13];
	int len, beside_bytes = s->version == TLS_1_3_VERSION ? 5 : 13;

	memcpy(nonce, o->iv, 12);
	for (int i = 0; i < 8; i++)
		nonce[4 + i] ^= (unsigned char)(number >> (56 - 8 * i));
	if (s->explicit_bytes > 0)
		memcpy(nonce + 4, record + 5, 8);
	for (int i = 0; i < 8; i++)
		beside[i] = (unsigned char)(number >> (56 - 8 * i));
	memcpy(beside + 8, record, 3);
	beside[11] = (unsigned char)(sealed >> 8);
	beside[12] = (unsigned char)sealed;
	assert_int_equal(EVP_DecryptInit_ex2(c, cipher, o->key, nonce, NULL), 1);
	assert_int_equal(
		EVP_DecryptUpdate(c, NULL, &len, beside_bytes == 5 ? record : beside, beside_bytes), 1);
	assert_int_equal(EVP_DecryptUpdate(c, record + front, &len, record + front, (int)sealed), 1);
	assert_int_equal(EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, 16, record + n - 16), 1);
	assert_int_equal(EVP_DecryptFinal_ex(c, record + n - 16, &len), 1);
	EVP_CIPHER_CTX_free(c);
	EVP_CIPHER_free(cipher);
	if (s->version == TLS_1_2_VERSION) {
		*out_type = record[0];
		return sealed;
	}
	assert_int_equal(record[0], APPLICATION_DATA);
	*out_type = record[front + sealed - 1];
	return sealed - 1;
}

static void seals(const struct suite *s, struct tls_seal *seal, const struct offer *o, size_t n,
		  uint8_t type)
{
	static unsigned char payload[TLS_RECORD_BYTES], record[TLS_RECORD_BYTES + TLS_RECORD_EXTRA + 1];
	size_t all = tls_seal_bytes(seal, n), front = tls_seal_front(seal);
	uint64_t number = seal->sequence;
	uint8_t got_type = 0;

	draw(payload, n, (unsigned)(n + number));
	memset(record, 0xee, sizeof(record));
	memcpy(record + front, payload, n);
	assert_true(all <= n + TLS_RECORD_EXTRA);
	assert_int_equal(tls_seal_record(seal, type, record, n), 0);
	assert_int_equal(record[all], 0xee);
	assert_int_equal(record[1] << 8 | record[2], TLS_1_2_VERSION);
	assert_int_equal((size_t)(record[3] << 8 | record[4]), all - 5);
	assert_int_equal(seal->sequence, number + 1);
	assert_int_equal(open_record(s, o, number, record, all, &got_type), n);
	assert_int_equal(got_type, type);
	assert_memory_equal(record + front, payload, n);
}

static void every_suite_at_every_length(void **state)
{
	static const size_t lengths[] = { 0,   1,   2,	 15,   16,   17,   31,	  32,	 33,   255,
					  256, 287, 288, 1299, 1300, 4096, 16367, 16383, 16384 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(suites); i++) {
		struct tls_seal seal = { 0 };
		struct offer o;

		make_offer(&suites[i], 0xfe, &o);
		assert_false(tls_seal_ready(&seal));
		assert_true(tls_seal_init(&seal, &o));
		assert_true(tls_seal_ready(&seal));
		for (size_t j = 0; j < ARRAY_LEN(lengths); j++)
			seals(&suites[i], &seal, &o, lengths[j], j % 3 == 0 ? ALERT : APPLICATION_DATA);
		tls_seal_fini(&seal);
		assert_false(tls_seal_ready(&seal));
	}
}

/* In TLS 1.2 the receiver takes the nonce as it comes: nothing else would tell of one that is used twice. */
static void explicit_nonces_differ(void **state)
{
	unsigned char record[64], nonces[300][8];
	struct tls_seal seal;
	struct offer o;

	(void)state;
	make_offer(&suites[0], 0, &o);
	assert_true(tls_seal_init(&seal, &o));
	for (int i = 0; i < 300; i++) {
		assert_int_equal(tls_seal_record(&seal, APPLICATION_DATA, record, 1), 0);
		memcpy(nonces[i], record + 5, 8);
		for (int j = 0; j < i; j++)
			assert_memory_not_equal(nonces[i], nonces[j], 8);
	}
	tls_seal_fini(&seal);
}

static void what_is_not_known_is_refused(void **state)
{
	static const uint16_t types[] = { 0, TLS_CIPHER_AES_CCM_128, TLS_CIPHER_SM4_GCM, 0xffff };
	struct tls_seal seal = { 0 };
	struct offer o;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		make_offer(&suites[3], 0, &o);
		o.info.cipher_type = types[i];
		assert_false(tls_seal_init(&seal, &o));
	}
	make_offer(&suites[3], 0, &o);
	o.info.version = 0x0302;
	assert_false(tls_seal_init(&seal, &o));
	o.info.version = 0x0305;
	assert_false(tls_seal_init(&seal, &o));
	assert_false(tls_seal_ready(&seal));
	tls_seal_fini(&seal);
}

static void a_key_is_used_up(void **state)
{
	unsigned char record[64] = { 0 };
	struct tls_seal seal;
	struct offer o;

	(void)state;
	make_offer(&suites[3], TLS_SEAL_WARNING - 1, &o);
	assert_true(tls_seal_init(&seal, &o));
	assert_false(tls_seal_worn(&seal));
	assert_int_equal(tls_seal_record(&seal, APPLICATION_DATA, record, 1), 0);
	assert_true(tls_seal_worn(&seal));
	seal.sequence = TLS_SEAL_RECORDS - 1;
	assert_int_equal(tls_seal_record(&seal, APPLICATION_DATA, record, 1), 0);
	assert_int_equal(tls_seal_record(&seal, APPLICATION_DATA, record, 1), -EOVERFLOW);
	tls_seal_fini(&seal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_suite_at_every_length),
		cmocka_unit_test(explicit_nonces_differ),
		cmocka_unit_test(what_is_not_known_is_refused),
		cmocka_unit_test(a_key_is_used_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
