/* One certificate with its chain, key and OCSP response: whether they are what they should be, and fit together. */
#ifndef BRIM_EDGE_TLS_CHECK_PAIR_H
#define BRIM_EDGE_TLS_CHECK_PAIR_H

#include <openssl/ssl.h>
#include <time.h>

#include "conf/fault.h"

/* What is checked, where it stands, and who is told. */
struct tls_checker {
	const struct conf *conf;
	const struct conf_places *places;
	struct conf_faults *faults;
	time_t now;
	char at[CONF_POINTER_BYTES]; /* the object that is looked at: "/sites/0/tls" */
	size_t index, count;	     /* of the pair, and of how many in that object */
	SSL_CTX *context;	     /* as the workers', to try pairs with */
	STACK_OF(X509) * directory;  /* first certificates of "tls.directory" */
	bool for_origin;	     /* the pair is what we show to an origin */
};

/* What a pair's files are called in its object; NULL: the object is all that there is to point at. */
struct tls_pair_keys {
	const char *certificate, *key, *ocsp;
};

struct tls_pair {
	const struct conf_certificate *conf;
	STACK_OF(X509) * chain; /* as in the file; NULL: none */
	X509 *leaf;		/* its first */
	EVP_PKEY *key;
};

/* Where a key of the object stands (NULL: the object itself). Returns out. */
const char *tls_check_place(const struct tls_checker *t, const char *key, char out[CONF_POINTER_BYTES]);

#define TLS_TELL(t, key, ...)                                                                \
	do {                                                                                 \
		char tell_place[CONF_POINTER_BYTES];                                         \
		conf_fault_at((t)->faults, (t)->places, tls_check_place(t, key, tell_place), \
			      __VA_ARGS__);                                                  \
	} while (0)

/* Fills out in any case (tls_pair_fini). False: it is of no use, which is told. */
bool tls_pair_check(const struct tls_checker *t, const struct tls_pair_keys *keys,
		    const struct conf_certificate *conf, struct tls_pair *out);
void tls_pair_fini(struct tls_pair *p);

/* All certificates of a PEM text, at least one; NULL: it isn't such a text. */
STACK_OF(X509) * tls_pair_chain(struct view v);

#endif
