/*
 * TLS over a socket, by OpenSSL: an io whose handshake comes first. Contexts (certificates, verification, ALPN)
 * are made by its users: edge/tls_server.c towards clients, origin/tls.c towards origins.
 *
 * kTLS is asked for on every connection once tls_probe has found that the kernel does it. Else we take the kernel's place,
 * and seal records ourselves: small first ones for latency, then many in one buffer and one write. Either way sends go past OpenSSL.
 */
#ifndef BRIM_BASE_TLS_H
#define BRIM_BASE_TLS_H

#include "edge/base/io.h"
#include "edge/base/view.h"

struct ssl_ctx_st;
struct ssl_st;

/* Does this kernel do kTLS? Asked once, on a connected pair of sockets, before any context is made: in a sandbox
 * setsockopt may claim success and do nothing. True: streams that are made later ask for it. */
bool tls_probe(void);

/* A context with the versions (1.2, 1.3), suites and options of every TLS of ours. NULL: no memory. */
struct ssl_ctx_st *tls_context(bool server);

/* The socket is connected, the handshake not begun. The context is referenced. */
int tls_new(struct ssl_ctx_st *context, int fd, struct io **out) NODISCARD;
struct ssl_st *tls_ssl(struct io *io);
/* Of a server, before the handshake: it may end (tls_handshake says 0) when early data is there, and is completed by reads.
 * How much is taken is SSL_set_max_early_data's, by the time of the ClientHello. */
void tls_expect_early_data(struct io *io);
/* 0: done, the other calls may be used; -EAGAIN: io->wait; -EPROTO: refused by either side, see tls_fault; else broken. */
int tls_handshake(struct io *io) NODISCARD;
/* One word for a metric and the log: "no_shared_cipher", "unknown_ca", "protocol", "alert_…", "closed", "timeout" …; static. */
const char *tls_fault(const struct io *io);

/* After the handshake. */
bool tls_sends_in_kernel(const struct io *io);
bool tls_receives_in_kernel(const struct io *io);
/* Past OpenSSL: the peer asked for new keys, or ours are nearly used up. Finish what is being sent, then close. */
bool tls_must_close(const struct io *io);

#endif
