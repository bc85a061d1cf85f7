/* TLS to origins: contexts by what an origin's «tls» says, sessions by server. For origin/ alone. */
#ifndef BRIM_ORIGIN_TLS_H
#define BRIM_ORIGIN_TLS_H

#include "origin/pool.h"

/* TLS lies over the connected socket from now on; tls_handshake follows. */
int origin_tls_begin(struct origin_pool *p, struct origin_connection *c,
		     const struct conf_origin *o, const struct conf_server *server) NODISCARD;
/* The handshake is done: counts it. */
void origin_tls_done(struct origin_pool *p, const struct origin_connection *c);
/* It failed: counts it, and the session that was tried, if one was, is not tried again. */
void origin_tls_failed(struct origin_pool *p, const struct origin_connection *c);
/* Why a handshake failed, or a stream broke. */
enum fetch_error origin_tls_error(const struct origin_connection *c);
/* The same in words; static. */
const char *origin_tls_fault(const struct origin_connection *c);

void origin_tls_forget_session(struct pool_server *s);
/* Contexts that no origin of the snapshot (NULL: none) has a use for. Streams keep theirs. */
void origin_tls_forget_contexts(struct origin_pool *p, const struct conf *conf);

#endif
