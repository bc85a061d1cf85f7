/*
 * What is decided when a ClientHello has been read: the certificates by its name, what is asked of the client, the
 * protocol, and whether an old session is taken up again.
 *
 * Sessions are bound to their site and to what it asks of clients: a ticket of a site that wants no client
 * certificate resumes nothing at one that does.
 */
#include <stdlib.h>
#include <string.h>

#include "edge/base/clock.h"
#include "edge/tls_server_parts.h"

enum { HOST_MAX = 255 };

/* --- choosing by name ------------------------------------------------------------------------------ */

static const struct tls_served *in_directory(const struct tls_server *s, struct view name)
{
	struct tls_directory_name wanted = { .name = name };
	const struct tls_directory_name *found = bsearch(&wanted, s->names, s->name_count,
							 sizeof(*s->names), tls_directory_compare);

	return found != NULL ? found->served : NULL;
}

/* The exact name, else the wildcard for its first label. */
static const struct tls_served *directory_for(const struct tls_server *s, struct view host)
{
	const struct tls_served *found = in_directory(s, host);
	const char *dot = host.n > 0 ? memchr(host.p, '.', host.n) : NULL;
	char wildcard[HOST_MAX + 1];
	size_t rest;

	if (found != NULL || dot == NULL)
		return found;
	rest = host.n - (size_t)(dot - host.p);
	wildcard[0] = '*';
	memcpy(wildcard + 1, dot, rest);
	return in_directory(s, view_of(wildcard, rest + 1));
}

static const struct tls_policy *policy_of(const struct tls_server *s, const struct conf_site *site)
{
	return site != NULL ? &s->policies[site - s->conf->sites] : NULL;
}

static const struct tls_policy *fallback(const struct tls_server *s)
{
	for (size_t i = 0; i < s->conf->site_count; i++)
		if (s->conf->sites[i].tls.fallback)
			return &s->policies[i];
	return NULL;
}

/* Which of them name the host, a bit for each. */
static unsigned naming(const struct tls_served *served, struct view host)
{
	unsigned found = 0;

	for (size_t i = 0; i < served->count; i++)
		found |= tls_certificate_names(&served->certificates[i], host) ? 1u << i : 0;
	return found;
}

/* The site's own, or those of the directory where the site has none that names the host. NULL: neither has any. */
static const struct tls_served *served_for(const struct tls_server *s, const struct tls_policy *p,
					   struct view host)
{
	const struct tls_served *own = p->served.count > 0 ? &p->served : NULL, *other;

	if (own != NULL && naming(own, host) != 0)
		return own;
	other = directory_for(s, host);
	return other != NULL ? other : own;
}

/* The site of that name with its certificates, or with those of the directory; else the site for all other names. */
const struct tls_served *tls_hello_choose(const struct tls_server *s, struct view host,
					  const struct tls_policy **out_policy)
{
	const struct tls_policy *p = policy_of(s, conf_site_for(s->conf, host));
	const struct tls_served *served = p != NULL ? served_for(s, p, host) : NULL;

	if (served == NULL) {
		p = fallback(s);
		if (p != NULL)
			served = served_for(s, p, p->site->hosts.at[0]);
	}
	*out_policy = p;
	return served;
}

/* --- the ClientHello --------------------------------------------------------------------------------- */

/* Lower case, without a dot at the end. Empty: none, or none that could be a host. RFC 6066 §3. */
static struct view server_name(SSL *ssl, char out[HOST_MAX])
{
	const unsigned char *p;
	size_t n, name;

	if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &p, &n) != 1 || n < 5)
		return (struct view){ 0 };
	name = (size_t)p[3] << 8 | p[4];
	if (((size_t)p[0] << 8 | p[1]) != n - 2 || p[2] != TLSEXT_NAMETYPE_host_name ||
	    name != n - 5 || name == 0 || name > HOST_MAX)
		return (struct view){ 0 };
	p += 5;
	if (p[name - 1] == '.')
		name--;
	for (size_t i = 0; i < name; i++) {
		if (p[i] <= ' ' || p[i] >= 127)
			return (struct view){ 0 };
		out[i] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] + ('a' - 'A') : p[i]);
	}
	return view_of(out, name);
}

static bool ask_client(SSL *ssl, const struct tls_policy *p)
{
	STACK_OF(X509_NAME) * names;
	int mode = SSL_VERIFY_PEER;

	if (p->client_cas == NULL)
		return true;
	if (p->site->tls.client_verify == CONF_CLIENT_REQUIRE)
		mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	names = SSL_dup_CA_list(p->client_ca_names);
	if (names == NULL || SSL_set1_verify_cert_store(ssl, p->client_cas) != 1)
		return false;
	SSL_set0_CA_list(ssl, names);
	SSL_set_verify(ssl, mode, NULL);
	return true;
}

/* A site that wants client certificates and can't check them is not served at all. */
static bool may_serve(const struct tls_policy *p)
{
	return p->site->tls.client_verify == CONF_CLIENT_NONE || p->client_cas != NULL;
}

static int on_client_hello(SSL *ssl, int *alert, void *arg)
{
	struct tls_identity *id = tls_identity_of(ssl);
	char buffer[HOST_MAX];
	struct view host = server_name(ssl, buffer);
	const struct tls_policy *p;

	(void)arg;
	id->served = tls_hello_choose(id->server, host, &p);
	if (id->served == NULL || !may_serve(p)) {
		*alert = SSL_AD_UNRECOGNIZED_NAME;
		return SSL_CLIENT_HELLO_ERROR;
	}
	id->site_hash = p->site->name_hash;
	id->site = p->site;
	id->naming = id->served->count > 1 ? naming(id->served, host) : 0;
	if (p->site->tls.early_data && SSL_set_max_early_data(ssl, TLS_EARLY_DATA_BYTES) == 1)
		(void)SSL_set_recv_max_early_data(ssl, TLS_EARLY_DATA_BYTES);
	if (!ask_client(ssl, p) ||
	    SSL_set_session_id_context(ssl, p->session_context, sizeof(p->session_context)) != 1) {
		*alert = SSL_AD_INTERNAL_ERROR;
		return SSL_CLIENT_HELLO_ERROR;
	}
	return SSL_CLIENT_HELLO_SUCCESS;
}

/* Asked for when it is known that no session is taken up: OpenSSL compares key and certificate again each time, which is
 * a hundredth of the handshake. */
static int on_certificate(SSL *ssl, void *arg)
{
	const struct tls_identity *id = tls_identity_of(ssl);
	const struct tls_served *served = id->served;
	const char *fault;

	(void)arg;
	for (size_t i = 0; i < served->count; i++) {
		struct tls_certificate *c = &served->certificates[i];

		if (id->naming != 0 && (id->naming >> i & 1) == 0)
			continue;
		/* The master has looked at all of it: what fails is memory. */
		if (tls_certificate_complete(c, &fault) != 0)
			return 0;
		if (SSL_use_cert_and_key(ssl, c->leaf, c->key, c->chain, 1) != 1)
			return 0;
	}
	return 1;
}

/* --- ALPN, OCSP -------------------------------------------------------------------------------------- */

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n,
		   const unsigned char *in, unsigned in_n, void *arg)
{
	static const unsigned char both[] = "\x02h2\x08http/1.1";
	const struct conf_listener *l = tls_identity_of(ssl)->listener;
	const unsigned char *ours = l->http2 ? both : both + 3;
	unsigned n = l->http2 && l->http1 ? sizeof(both) - 1 : l->http2 ? 3 : sizeof(both) - 1 - 3;

	(void)arg;
	if (SSL_select_next_proto((unsigned char **)out, out_n, ours, n, in, in_n) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return SSL_TLSEXT_ERR_OK;
}

static const struct tls_certificate *in_use(SSL *ssl, const struct tls_served *served)
{
	const X509 *leaf = SSL_get_certificate(ssl);

	for (size_t i = 0; served != NULL && i < served->count; i++)
		if (served->certificates[i].leaf == leaf)
			return &served->certificates[i];
	return NULL;
}

static int on_status(SSL *ssl, void *arg)
{
	const struct tls_certificate *c = in_use(ssl, tls_identity_of(ssl)->served);
	void *copy;

	(void)arg;
	if (c == NULL || c->ocsp.n == 0 || clock_wall().ms >= c->ocsp_until_ms)
		return SSL_TLSEXT_ERR_NOACK;
	copy = OPENSSL_memdup(c->ocsp.p, c->ocsp.n);
	if (copy == NULL)
		return SSL_TLSEXT_ERR_NOACK;
	SSL_set_tlsext_status_ocsp_resp(ssl, copy, (int)c->ocsp.n);
	return SSL_TLSEXT_ERR_OK;
}

/* --- tickets ----------------------------------------------------------------------------------- */

static const struct tls_ticket_key *keys_of(const struct tls_server *s,
					    struct tls_ticket_key shared[TLS_TICKETS_KEPT],
					    size_t *out_count)
{
	if (s->file_key_count > 0) {
		*out_count = s->file_key_count;
		return s->file_keys;
	}
	*out_count = tls_tickets_get(s->tickets, shared);
	return shared;
}

static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
		     EVP_MAC_CTX *mac, int sealing)
{
	struct tls_ticket_key shared[TLS_TICKETS_KEPT];
	size_t count;
	const struct tls_ticket_key *keys = keys_of(tls_identity_of(ssl)->server, shared, &count);
	int r = tls_ticket_use(keys, count, name, iv, cipher, mac, sealing);

	explicit_bzero(shared, sizeof(shared));
	/* Browsers use a ticket of TLS 1.3 once (RFC 8446 §C.4): who has used his gets the next. */
	return r == 1 && !sealing && SSL_version(ssl) == TLS1_3_VERSION ? 2 : r;
}

void tls_hello_answer(SSL_CTX *context)
{
	SSL_CTX_set_client_hello_cb(context, on_client_hello, NULL);
	SSL_CTX_set_cert_cb(context, on_certificate, NULL);
	SSL_CTX_set_alpn_select_cb(context, on_alpn, NULL);
	SSL_CTX_set_tlsext_status_cb(context, on_status);
	SSL_CTX_set_tlsext_ticket_key_evp_cb(context, on_ticket);
	/* One for each connection: a client that had n at a time may come back with n. */
	SSL_CTX_set_num_tickets(context, 1);
}
