/* TLS of the admin API: its listeners that aren't loopback, and brimctl's connections to them. */
#ifndef BRIM_EDGE_TLS_ADMIN_H
#define BRIM_EDGE_TLS_ADMIN_H

#include "conf/conf.h"
#include "edge/base/io.h"

struct ssl_ctx_st;

/* A context with that certificate. NULL, with *out_fault (static): it can't be had. */
struct ssl_ctx_st *tls_admin_server(const struct conf_certificate *c, const char **out_fault) NODISCARD;
/* NULL is allowed. Streams keep theirs. */
void tls_admin_unref(struct ssl_ctx_st *context);

/*
 * A client's stream over a connected socket, whose handshake is to begin (tls_handshake). The peer must have a
 * certificate for the host, by somebody in the PEM file ca_file, or (NULL) whom the system trusts. 0; -1: *out_fault.
 */
int tls_admin_client(int fd, const char *host, const char *ca_file, struct io **out,
		     const char **out_fault) NODISCARD;
/* Why the handshake failed. */
const char *tls_admin_client_fault(struct io *io);

#endif
