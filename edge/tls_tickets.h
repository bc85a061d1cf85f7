/*
 * Keys of session tickets, shared by all workers: whichever a client comes back to can resume its session, after a
 * reload, too. The master makes a new key each period; what older ones sealed is still opened for two periods, and
 * renewed. With keys from files (a fleet) those serve instead, and who wrote the files rotates.
 */
#ifndef BRIM_EDGE_TLS_TICKETS_H
#define BRIM_EDGE_TLS_TICKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "edge/base/check.h"
#include "edge/base/clock.h"

enum { TLS_TICKETS_KEPT = 3, TLS_TICKET_NAME_BYTES = 16, TLS_TICKET_FILE_BYTES = 80 };

struct tls_ticket_key {
	uint8_t name[TLS_TICKET_NAME_BYTES], hmac[32], aes[32];
};

struct tls_tickets;
struct evp_cipher_ctx_st;
struct evp_mac_ctx_st;

/* In the master. NULL: no memory or no randomness. */
struct tls_tickets *tls_tickets_new(void) NODISCARD;
void tls_tickets_free(struct tls_tickets *t);
/* In the master alone, each time that it wakes: a new key if it is time. Returns when to come again. */
struct mono tls_tickets_rotate(struct tls_tickets *t, uint64_t every_ms);

/* In any process: the newest first. Returns how many. */
unsigned tls_tickets_get(const struct tls_tickets *t, struct tls_ticket_key out[TLS_TICKETS_KEPT]);

/*
 * Sets a ticket's cipher and MAC up: for SSL_CTX_set_tlsext_ticket_key_evp_cb. Sealing: 1; 0 there is no key, so no ticket. Opening:
 * 1 by the newest key, 2 by an older one (the client gets a new ticket), 0 by none. -1: OpenSSL failed.
 */
int tls_ticket_use(const struct tls_ticket_key *keys, size_t count, unsigned char *name,
		   unsigned char *iv, struct evp_cipher_ctx_st *cipher, struct evp_mac_ctx_st *mac,
		   int sealing);

#endif
