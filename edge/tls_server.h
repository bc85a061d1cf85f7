/*
 * TLS towards clients: which certificate a connection gets, what it may then ask for, and what is told of it.
 *
 * A tls_server is made of a snapshot and shares its fate: the worker holds one for the snapshot in use, each
 * connection holds the one that it began with.
 */
#ifndef BRIM_EDGE_TLS_SERVER_H
#define BRIM_EDGE_TLS_SERVER_H

#include "conf/conf.h"
#include "edge/base/io.h"
#include "edge/stats.h"

struct tls_server;
struct tls_tickets;
struct tls_identity;

/* To be loaded before it is used. Certificates that didn't change since «before» (a complete one, or NULL) are taken from
 * there. NULL: no memory. */
struct tls_server *tls_server_new(struct conf *c, struct tls_tickets *tickets,
				  struct tls_server *before) NODISCARD;
/* Goes on with loading until so many certificates were read, 0.15 ms each. What can't be used is logged, and its sites are not
 * served over TLS. 1: there are more; 0: it is complete; or -ENOMEM. */
int tls_server_load(struct tls_server *s, size_t count) NODISCARD;
/* NULL is allowed. */
void tls_server_unref(struct tls_server *s);

/* When the first of the certificates that serve a site ends, in seconds of wall time; 0: it has none. */
int64_t tls_server_expiry(const struct tls_server *s, const struct conf_site *site);

/* A stream whose handshake is to begin. 0 or a negative errno. */
int tls_server_stream(struct tls_server *s, const struct conf_listener *l, int fd, struct io **out)
	NODISCARD;

/* Of a handshake that failed: the site that the client had asked for; empty: it didn't come so far. */
struct view tls_server_asked(struct io *io);

/* --- after the handshake ------------------------------------------------------------------------- */

/* Lives as long as the stream. */
const struct tls_identity *tls_server_identity(struct io *io);
void tls_server_count(struct io *io, struct stats_tls *stats);
/* Did ALPN choose HTTP/2? */
bool tls_server_is_h2(struct io *io);
/* May this connection ask for that site's host? Its certificate must name it, and the site must not want another
 * kind of handshake (client certificates). */
bool tls_identity_serves(const struct tls_identity *id, const struct conf_site *site, struct view host);
/* "TLSv1.3 TLS_AES_128_GCM_SHA256" */
struct view tls_identity_text(const struct tls_identity *id);

#endif
