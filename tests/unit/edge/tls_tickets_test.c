/* Keys of session tickets: how they follow each other, and that what one sealed the next ones open, but not for ever. */
#include "edge/tls_tickets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <openssl/evp.h>

static void keys_follow_each_other(void **state)
{
	struct tls_tickets *t = tls_tickets_new();
	struct tls_ticket_key first[TLS_TICKETS_KEPT], later[TLS_TICKETS_KEPT];

	(void)state;
	assert_non_null(t);
	assert_int_equal(tls_tickets_get(t, first), 1);
	assert_true(tls_tickets_rotate(t, 3600000).ms > clock_mono().ms);
	assert_int_equal(tls_tickets_get(t, later), 1);
	for (unsigned i = 2; i < 6; i++) {
		(void)tls_tickets_rotate(t, 0);
		assert_int_equal(tls_tickets_get(t, later), i < TLS_TICKETS_KEPT ? i : TLS_TICKETS_KEPT);
		assert_memory_not_equal(later[0].name, first[0].name, sizeof(first[0].name));
		if (i <= TLS_TICKETS_KEPT)
			assert_memory_equal(&later[i - 1], &first[0], sizeof(first[0]));
	}
	tls_tickets_free(t);
}

/* Opens a ticket's frame with these keys, as OpenSSL's callback does. */
static int use(const struct tls_ticket_key *keys, size_t count, unsigned char name[16],
	       unsigned char iv[16], int sealing)
{
	EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
	EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *mac = EVP_MAC_CTX_new(hmac);
	int r = tls_ticket_use(keys, count, name, iv, cipher, mac, sealing);

	EVP_MAC_CTX_free(mac);
	EVP_MAC_free(hmac);
	EVP_CIPHER_CTX_free(cipher);
	return r;
}

static void old_keys_open_and_ask_for_new_tickets(void **state)
{
	struct tls_ticket_key keys[3] = { { .name = "new" }, { .name = "old" }, { .name = "oldest" } };
	unsigned char name[16], iv[16];

	(void)state;
	assert_int_equal(use(keys, 0, name, iv, 1), 0);
	assert_int_equal(use(&keys[1], 2, name, iv, 1), 1);
	assert_memory_equal(name, keys[1].name, sizeof(name));
	assert_int_equal(use(&keys[1], 2, name, iv, 0), 1);
	assert_int_equal(use(keys, 3, name, iv, 0), 2);
	assert_int_equal(use(&keys[2], 1, name, iv, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_follow_each_other),
		cmocka_unit_test(old_keys_open_and_ask_for_new_tickets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
