/*
 * TLS to origins. A context holds what an origin's «tls» says (whom to trust, our own certificate) and is made once per
 * worker, when it is first needed; connections and sessions made by another «tls» are not reused.
 *
 * The peer's certificate must be for the name that the configuration gives: server_name, else the server's host. A name
 * goes into SNI and is looked for among the DNS names; an address is looked for among the addresses, and goes nowhere
 * (RFC 6066 §3). Whoever stands in a given «ca» is trusted, a root or not, so that one's own server can be pinned.
 *
 * Sessions: the newest of a server is kept, whichever connection it came on, and offered by all. With TLS 1.3 they come
 * after the handshake, as tickets, while a request is under way or the connection idles. To use a ticket once
 * only, the rejected alternative (RFC 8446 §C.4), hides from a listener which connections are the same client's; ours
 * all come from one address.
 */
#include "origin/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "edge/base/tls.h"

/* An old snapshot may bring back what the new one has dropped: then the one not used for longest goes. */
enum { CONTEXTS_MAX = CONF_SERVERS_MAX };

struct tls_context {
	struct list link; /* in the pool */
	uint64_t identity;
	SSL_CTX *ctx;
};

static struct tls_context *find_context(struct origin_pool *p, uint64_t identity);
static int make_context(struct origin_pool *p, const struct conf_origin *o, struct tls_context **out)
	NODISCARD;
static void free_context(struct origin_pool *p, struct tls_context *t);
static int configure(SSL_CTX *ctx, const struct conf_origin_tls *t) NODISCARD;
static int trust(SSL_CTX *ctx, struct view pem) NODISCARD;
static int use_certificate(SSL_CTX *ctx, const struct conf_certificate *c) NODISCARD;
static int name_peer(SSL *ssl, const struct conf_origin *o, const struct conf_server *server) NODISCARD;
static int keep_session(SSL *ssl, SSL_SESSION *session);
static int no_passphrase(char *to, int bytes, int writing, void *arg);
static int connection_index(void);
static bool in_use(const struct conf *conf, uint64_t identity);

int origin_tls_begin(struct origin_pool *p, struct origin_connection *c,
		     const struct conf_origin *o, const struct conf_server *server)
{
	struct tls_context *t = find_context(p, o->tls_identity);
	struct pool_server *s = pool_server(p, server);
	struct io *io;
	int result = t == NULL ? make_context(p, o, &t) : 0;

	if (result == 0)
		result = tls_new(t->ctx, c->fd, &io);
	if (result != 0)
		return result;
	SSL *ssl = tls_ssl(io);
	if (SSL_set_ex_data(ssl, connection_index(), c) != 1 || name_peer(ssl, o, server) != 0) {
		io->ops->free(io);
		return -ENOMEM;
	}
	if (s->session != NULL && s->session_tls_identity == o->tls_identity)
		(void)SSL_set_session(ssl, s->session); /* else a full handshake */
	c->io = io;
	return 0;
}

void origin_tls_done(struct origin_pool *p, const struct origin_connection *c)
{
	p->tls_counts.handshakes++;
	if (SSL_session_reused(tls_ssl(c->io)))
		p->tls_counts.resumed++;
}

void origin_tls_failed(struct origin_pool *p, const struct origin_connection *c)
{
	p->tls_counts.failures++;
	origin_tls_forget_session(&p->servers[c->server_slot]);
}

/* We did not believe the peer's certificate. */
static bool disbelieved(SSL *ssl)
{
	return SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE && SSL_get_verify_result(ssl) != X509_V_OK;
}

enum fetch_error origin_tls_error(const struct origin_connection *c)
{
	struct view fault = view_str(tls_fault(c->io));

	if (disbelieved(tls_ssl(c->io)))
		return FETCH_TLS_CERTIFICATE_ERROR;
	if (view_starts(fault, VIEW("alert_")))
		return FETCH_TLS_ALERT_RECEIVED;
	return view_eq(fault, VIEW("closed")) ? FETCH_CONNECTION_TERMINATED : FETCH_TLS_PROTOCOL_ERROR;
}

const char *origin_tls_fault(const struct origin_connection *c)
{
	SSL *ssl = tls_ssl(c->io);

	return disbelieved(ssl) ? X509_verify_cert_error_string(SSL_get_verify_result(ssl))
				: tls_fault(c->io);
}

struct origin_tls_counts origin_pool_take_tls_counts(struct origin_pool *p)
{
	struct origin_tls_counts counts = p->tls_counts;

	p->tls_counts = (struct origin_tls_counts){ 0 };
	return counts;
}

/* --- contexts --------------------------------------------------------------------------------- */

void origin_tls_forget_contexts(struct origin_pool *p, const struct conf *conf)
{
	LIST_EACH (&p->tls_contexts, at, following) {
		struct tls_context *t = LIST_ENTRY(at, struct tls_context, link);
		if (!in_use(conf, t->identity))
			free_context(p, t);
	}
}

static bool in_use(const struct conf *conf, uint64_t identity)
{
	for (size_t i = 0; conf != NULL && i < conf->origin_count; i++) {
		if (conf->origins[i].tls_identity == identity)
			return true;
	}
	return false;
}

static struct tls_context *find_context(struct origin_pool *p, uint64_t identity)
{
	LIST_EACH (&p->tls_contexts, at, following) {
		struct tls_context *t = LIST_ENTRY(at, struct tls_context, link);
		if (t->identity != identity)
			continue;
		list_remove(&t->link);
		list_prepend(&p->tls_contexts, &t->link);
		return t;
	}
	return NULL;
}

static int make_context(struct origin_pool *p, const struct conf_origin *o, struct tls_context **out)
{
	struct tls_context *t = calloc(1, sizeof(*t));
	int result;

	if (t == NULL)
		return -ENOMEM;
	t->identity = o->tls_identity;
	t->ctx = tls_context(false);
	result = t->ctx == NULL ? -ENOMEM : configure(t->ctx, &o->tls);
	ERR_clear_error();
	if (result != 0) {
		SSL_CTX_free(t->ctx);
		free(t);
		return result;
	}
	if (p->tls_context_count == CONTEXTS_MAX)
		free_context(p, LIST_ENTRY(p->tls_contexts.prev, struct tls_context, link));
	list_prepend(&p->tls_contexts, &t->link);
	p->tls_context_count++;
	*out = t;
	return 0;
}

static void free_context(struct origin_pool *p, struct tls_context *t)
{
	list_remove(&t->link);
	p->tls_context_count--;
	SSL_CTX_free(t->ctx);
	free(t);
}

static int configure(SSL_CTX *ctx, const struct conf_origin_tls *t)
{
	static const unsigned char alpn[] = "\x08http/1.1";

	if (SSL_CTX_set_alpn_protos(ctx, alpn, sizeof(alpn) - 1) != 0)
		return -ENOMEM;
	SSL_CTX_set_verify(ctx, t->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ctx, keep_session);
	SSL_CTX_set_default_read_buffer_len(ctx, POOL_BUFFER_BYTES); /* several records a read */
	if (t->verify && trust(ctx, t->ca) != 0)
		return -EINVAL;
	return t->client.certificate.n > 0 ? use_certificate(ctx, &t->client) : 0;
}

/* The system's store is a directory that is looked into as certificates need it (Debian, Arch), or a file that is read
 * now (Red Hat). */
static int trust(SSL_CTX *ctx, struct view pem)
{
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	X509 *x;
	int result = 0, found = 0;

	if (pem.n == 0)
		return SSL_CTX_set_default_verify_paths(ctx) == 1 ? 0 : -EINVAL;
	BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.n);
	if (bio == NULL)
		return -ENOMEM;
	for (; result == 0 && (x = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)) != NULL; found++) {
		result = X509_STORE_add_cert(store, x) == 1 ? 0 : -EINVAL;
		X509_free(x);
	}
	BIO_free(bio);
	if (found == 0 || X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN) != 1)
		return -EINVAL;
	return result;
}

static int use_chain(SSL_CTX *ctx, BIO *bio)
{
	X509 *x = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
	int used = x != NULL && SSL_CTX_use_certificate(ctx, x) == 1;

	X509_free(x);
	while (used && (x = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)) != NULL) {
		used = SSL_CTX_add0_chain_cert(ctx, x) == 1;
		if (!used)
			X509_free(x);
	}
	return used ? 0 : -EINVAL;
}

static int use_key(SSL_CTX *ctx, BIO *bio)
{
	EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
	int used = key != NULL && SSL_CTX_use_PrivateKey(ctx, key) == 1;

	EVP_PKEY_free(key);
	return used ? 0 : -EINVAL;
}

static int use_certificate(SSL_CTX *ctx, const struct conf_certificate *c)
{
	BIO *chain = BIO_new_mem_buf(c->certificate.p, (int)c->certificate.n);
	BIO *key = BIO_new_mem_buf(c->key.p, (int)c->key.n);
	int result = chain == NULL || key == NULL ? -ENOMEM : use_chain(ctx, chain);

	if (result == 0)
		result = use_key(ctx, key);
	BIO_free(chain);
	BIO_free(key);
	return result;
}

/* OpenSSL would ask the terminal. */
static int no_passphrase(char *to, int bytes, int writing, void *arg)
{
	(void)to;
	(void)bytes;
	(void)writing;
	(void)arg;
	return -1;
}

/* --- a connection --------------------------------------------------------------------------------- */

static int name_peer(SSL *ssl, const struct conf_origin *o, const struct conf_server *server)
{
	struct view name = o->tls.server_name.n > 0 ? o->tls.server_name : server->host;
	struct sock_addr address;

	if (sock_addr_literal(name, 0, &address) == 0)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.p) == 1 ? 0 : -EINVAL;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (SSL_set1_host(ssl, name.p) != 1 || SSL_set_tlsext_host_name(ssl, name.p) != 1)
		return -EINVAL;
	return 0;
}

/* --- sessions --------------------------------------------------------------------------------------- */

/* Called from within reads. 1: the reference is ours. */
static int keep_session(SSL *ssl, SSL_SESSION *session)
{
	const struct origin_connection *c = SSL_get_ex_data(ssl, connection_index());
	struct pool_server *s = &c->pool->servers[c->server_slot];

	if (s->identity != c->identity || !SSL_SESSION_is_resumable(session))
		return 0;
	origin_tls_forget_session(s);
	s->session = session;
	s->session_tls_identity = c->tls_identity;
	return 1;
}

void origin_tls_forget_session(struct pool_server *s)
{
	SSL_SESSION_free(s->session);
	s->session = NULL;
}

/* Where a stream's connection is kept in it. */
static int connection_index(void)
{
	static int index = -1;

	if (index < 0)
		index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	return index;
}
