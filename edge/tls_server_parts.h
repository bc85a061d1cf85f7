/*
 * Among the files of TLS towards clients:
 *
 *   tls_server.c       its life, streams, what a request asks of its connection
 *   tls_server_load.c  what it is made of: certificates and what sites ask of clients
 *   tls_known.c        certificates that the snapshot before had, too
 *   tls_hello.c        what is decided when a ClientHello has been read
 *   tls_tickets.c      keys of session tickets
 *   tls_certificate.c  one certificate
 */
#ifndef BRIM_EDGE_TLS_SERVER_PARTS_H
#define BRIM_EDGE_TLS_SERVER_PARTS_H

#include <openssl/ssl.h>

#include "edge/tls_certificate.h"
#include "edge/tls_server.h"
#include "edge/tls_tickets.h"

enum { TLS_SERVER_MAGIC = 0x746c7365, TLS_EARLY_DATA_BYTES = 16 << 10 };

/* What a handshake may be answered with: a site's certificates, or one of tls.directory. */
struct tls_served {
	struct tls_certificate *certificates;
	size_t count;
};

/* What a site asks of clients. */
struct tls_policy {
	const struct conf_site *site;
	struct tls_served served; /* count 0: the site has no certificate of its own */
	X509_STORE *client_cas;
	STACK_OF(X509_NAME) * client_ca_names;
	uint8_t session_context[16];
};

/* A name of a certificate in tls.directory. */
struct tls_directory_name {
	struct view name;
	const struct tls_served *served;
};

/* Sorted; the certificates are another tls_server's. */
struct tls_known {
	const struct tls_certificate **at;
	size_t count;
};

struct tls_server {
	uint32_t magic;
	unsigned refs;
	struct conf *conf;
	struct tls_tickets *tickets;
	SSL_CTX *context;
	struct tls_policy *policies; /* one for each site, in the snapshot's order */
	struct tls_served *directory;
	size_t directory_count;
	struct tls_directory_name *names; /* sorted */
	size_t name_count;
	bool early_data;		  /* some site takes it */
	struct tls_ticket_key *file_keys; /* from files: they serve instead of the tickets' */
	size_t file_key_count;
	/* While it is loaded: how many sites are (then the directory's pairs follow), and what needn't be read. */
	size_t site_count;
	struct tls_server *before; /* NULL: complete, or there was none */
	struct tls_known known;	   /* of before */
};

/* What belongs to one connection; its SSL frees it. */
struct tls_identity {
	struct tls_server *server;
	const struct conf_listener *listener;
	const struct tls_served *served;
	unsigned naming; /* which of these name the client's host, a bit for each; 0: it doesn't matter */
	uint64_t site_hash;	      /* of the site that it was made for; 0: none */
	const struct conf_site *site; /* as it was then */
	char text[64];
	size_t text_bytes;
};

/* For bsearch and qsort. */
int tls_directory_compare(const void *a, const void *b);

struct tls_identity *tls_identity_of(const SSL *ssl);

/* What is needed before the first tls_server_load. 0 or -ENOMEM. */
int tls_server_prepare(struct tls_server *s) NODISCARD;
/* Frees what was loaded, in whole or in part. */
void tls_server_unload(struct tls_server *s);

/* Of a server that is complete, and outlives it. 0 or -ENOMEM. */
int tls_known_init(struct tls_known *k, const struct tls_server *s) NODISCARD;
/* NULL: it had none of this text. */
const struct tls_certificate *tls_known_find(const struct tls_known *k,
					     const struct conf_certificate *c);
/* Safe on one that is zeroed. */
void tls_known_fini(struct tls_known *k);

/* Sets the callbacks of handshakes. */
void tls_hello_answer(SSL_CTX *context);
/* The certificates for a host (empty: none was named) and the site that they are for. NULL: refused. */
const struct tls_served *tls_hello_choose(const struct tls_server *s, struct view host,
					  const struct tls_policy **out_policy);

#endif
