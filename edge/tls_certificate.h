/* A certificate as a server uses it: leaf, chain, key, stapled response, and the names that it serves. */
#ifndef BRIM_EDGE_TLS_CERTIFICATE_H
#define BRIM_EDGE_TLS_CERTIFICATE_H

#include <openssl/ssl.h>

#include "conf/conf.h"

struct tls_certificate {
	X509 *leaf;
	EVP_PKEY *key;
	STACK_OF(X509) * chain;
	struct view *names; /* lower case; a wildcard as "*.example.org". With what they point to, ours */
	size_t name_count;
	int64_t expires_ms;    /* wall */
	struct view ocsp;      /* DER, in the snapshot; empty: none */
	int64_t ocsp_until_ms; /* wall; from then on it says nothing */
};

/* Everything but a key is needed to fill *out; on failure it is left empty and *out_fault says what is wrong (static).
 * The snapshot outlives it. 0, -EINVAL or -ENOMEM. */
int tls_certificate_init(struct tls_certificate *out, const struct conf_certificate *c,
			 const char **out_fault) NODISCARD;
/* Safe on one that is zeroed. */
void tls_certificate_fini(struct tls_certificate *c);
/* Does it name this host (lower case, no port)? A wildcard stands for one label. */
bool tls_certificate_names(const struct tls_certificate *c, struct view host);

#endif
