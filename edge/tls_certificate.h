/* A certificate as a server uses it: leaf, chain, key, stapled response, and the names that it serves. */
#ifndef BRIM_EDGE_TLS_CERTIFICATE_H
#define BRIM_EDGE_TLS_CERTIFICATE_H

#include <openssl/ssl.h>

#include "conf/conf.h"

struct tls_certificate {
	const struct conf_certificate *source;
	X509 *leaf;
	EVP_PKEY *key;		/* with the chain; NULL: not complete yet */
	STACK_OF(X509) * chain; /* what follows the leaf */
	struct view *names; /* lower case; a wildcard as "*.example.org". With what they point to, ours */
	size_t name_count;
	int64_t expires_ms;    /* wall */
	struct view ocsp;      /* DER, in the snapshot; empty: none */
	int64_t ocsp_until_ms; /* wall; from then on it says nothing */
};

/* Reads all but key and chain: 0.15 ms. On failure *out is left empty and *out_fault says what is wrong (static).
 * The snapshot outlives it. 0 or -EINVAL. */
int tls_certificate_init(struct tls_certificate *out, const struct conf_certificate *c,
			 const char **out_fault) NODISCARD;
/* The same, of another that was made of the same text (its response may be another one). Takes microseconds. */
int tls_certificate_share(struct tls_certificate *out, const struct conf_certificate *c,
			  const struct tls_certificate *other) NODISCARD;
/* Reads key and chain, 0.5 ms, unless that was done: before it is first used. As tls_certificate_init, but what was there
 * stays on failure. */
int tls_certificate_complete(struct tls_certificate *c, const char **out_fault) NODISCARD;
/* Safe on one that is zeroed. */
void tls_certificate_fini(struct tls_certificate *c);
/* Does it name this host (lower case, no port)? A wildcard stands for one label. */
bool tls_certificate_names(const struct tls_certificate *c, struct view host);

#endif
