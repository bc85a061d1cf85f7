/*
 * A connection that has arrived: accepted, its PROXY header read, its TLS handshake done. Then its protocol is
 * known (ALPN, or the listener's protocols and the first bytes) and it becomes a connection of HTTP/1
 * (connection.c) or HTTP/2 (h2.c), which takes everything in here.
 */
#ifndef BRIM_EDGE_ARRIVAL_H
#define BRIM_EDGE_ARRIVAL_H

#include "conf/conf.h"
#include "edge/base/io.h"
#include "edge/base/machine.h"
#include "edge/base/sock.h"

struct worker;
struct tls_identity; /* edge/tls_server.h: which names the connection's certificate serves */

struct arrival {
	int fd;
	struct io *io;		 /* TLS, handshake done; NULL: plain */
	struct sock_addr peer;	 /* of the socket */
	struct sock_addr client; /* what the PROXY header said; else as peer */
	const struct conf_listener *listener;
	const struct tls_identity *identity; /* NULL: plain. Lives as long as io */
	struct watch watch; /* of fd, by which the handshake was awaited; not open: there was nothing to wait for */
	char early[256]; /* bytes of the protocol that were read already (plain: what told h2 from h1) */
	size_t early_bytes;
};

/* A socket was accepted. Closes it on failure. The listener belongs to w->conf. */
void arrival_open(struct worker *w, int fd, const struct sock_addr *peer,
		  const struct conf_listener *listener);

/* machine_init for who takes the arrival in. A watch that is open is taken over as it is: to close it and open another on
 * the same descriptor would be six system calls. */
int arrival_machine(struct arrival *a, struct machine *m, struct loop *l, const struct step *steps,
		    void (*end)(struct machine *m)) NODISCARD;
/* Closes what the arrival holds: watch, stream and descriptor. */
void arrival_close(struct arrival *a);

/* Both take watch, descriptor and io, also on failure (then closed). */
void connection_open(struct worker *w, struct arrival *a); /* connection.c */
void h2_open(struct worker *w, struct arrival *a);	   /* h2.c */
/* For «brim -V»: the version of nghttp2. */
const char *h2_library(void);

#endif
