/*
 * One OpenSSL context for all: the certificate, what is asked of clients and whether early data is taken are set on the
 * connection when its ClientHello has been read, before OpenSSL decides anything (so that a name decides about
 * resumption, too). A context for each certificate, the usual way, would take some ten KiB and a fifth of a
 * millisecond for each of a thousand certificates at every reload.
 *
 * Sessions are bound to their site and to what it asks of clients: a ticket of a site that wants no client
 * certificate resumes nothing at one that does.
 */
#include "edge/tls_server.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <stdlib.h>

#include "edge/base/hash.h"
#include "edge/base/log.h"
#include "edge/base/tls.h"
#include "edge/text.h"
#include "edge/tls_certificate.h"
#include "edge/tls_tickets.h"

enum { TLS_SERVER_MAGIC = 0x746c7365, HOST_MAX = 255, EARLY_BYTES = 16 << 10 };

/* What a handshake may be answered with: a site's certificates, or one of tls.directory. */
struct served {
	struct tls_certificate *certificates;
	size_t count;
};

/* What a site asks of clients. */
struct policy {
	const struct conf_site *site;
	struct served served; /* count 0: the site has no certificate of its own */
	X509_STORE *client_cas;
	STACK_OF(X509_NAME) * client_ca_names;
	uint8_t session_context[16];
};

/* A name of a certificate in tls.directory. */
struct directory_name {
	struct view name;
	const struct served *served;
};

struct tls_server {
	uint32_t magic;
	unsigned refs;
	struct conf *conf;
	struct tls_tickets *tickets;
	SSL_CTX *context;
	struct policy *policies; /* one for each site, in the snapshot's order */
	struct served *directory;
	size_t directory_count;
	struct directory_name *names; /* sorted */
	size_t name_count;
	bool early_data; /* some site takes it */
	struct tls_ticket_key *file_keys; /* from files: they serve instead of the tickets' */
	size_t file_key_count;
};

/* What belongs to one connection; its SSL frees it. */
struct tls_identity {
	struct tls_server *server;
	const struct conf_listener *listener;
	const struct served *served;
	uint64_t site_hash; /* of the site that it was made for; 0: none */
	char text[64];
	size_t text_bytes;
};

static void free_identity(void *parent, void *p, CRYPTO_EX_DATA *data, int index, long number, void *arg)
{
	struct tls_identity *id = p;

	(void)parent;
	(void)data;
	(void)index;
	(void)number;
	(void)arg;
	if (id == NULL)
		return;
	tls_server_unref(id->server);
	free(id);
}

static int identity_index(void)
{
	static int index = -1; /* of the process, made once */

	if (index < 0)
		index = SSL_get_ex_new_index(0, NULL, NULL, NULL, free_identity);
	return index;
}

static struct tls_identity *identity_of(const SSL *ssl)
{
	return SSL_get_ex_data(ssl, identity_index());
}

/* --- choosing by name ------------------------------------------------------------------------------ */

static int compare_names(const void *a, const void *b)
{
	const struct view *x = &((const struct directory_name *)a)->name;
	const struct view *y = &((const struct directory_name *)b)->name;
	int r = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);

	if (r != 0)
		return r;
	return x->n < y->n ? -1 : x->n > y->n;
}

static const struct served *in_directory(const struct tls_server *s, struct view name)
{
	struct directory_name wanted = { .name = name };
	const struct directory_name *found = bsearch(&wanted, s->names, s->name_count,
						     sizeof(*s->names), compare_names);

	return found != NULL ? found->served : NULL;
}

/* The exact name, else the wildcard for its first label. */
static const struct served *directory_for(const struct tls_server *s, struct view host)
{
	const struct served *found = in_directory(s, host);
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

static const struct policy *policy_of(const struct tls_server *s, const struct conf_site *site)
{
	return site != NULL ? &s->policies[site - s->conf->sites] : NULL;
}

static const struct policy *fallback(const struct tls_server *s)
{
	for (size_t i = 0; i < s->conf->site_count; i++)
		if (s->conf->sites[i].tls.fallback)
			return &s->policies[i];
	return NULL;
}

/* The site of that name with its certificates, or with those of the directory; else the site for all other names. */
static const struct served *choose(const struct tls_server *s, struct view host,
				   const struct policy **out_policy)
{
	const struct policy *p = policy_of(s, conf_site_for(s->conf, host));
	const struct served *served = NULL;

	if (p != NULL)
		served = p->served.count > 0 ? &p->served : directory_for(s, host);
	if (served == NULL) {
		p = fallback(s);
		if (p != NULL)
			served = p->served.count > 0 ? &p->served
						     : directory_for(s, p->site->hosts.at[0]);
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

static bool use_certificates(SSL *ssl, const struct served *served)
{
	for (size_t i = 0; i < served->count; i++) {
		const struct tls_certificate *c = &served->certificates[i];

		if (SSL_use_cert_and_key(ssl, c->leaf, c->key, c->chain, 1) != 1)
			return false;
	}
	return true;
}

static bool ask_client(SSL *ssl, const struct policy *p)
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
static bool may_serve(const struct policy *p)
{
	return p->site->tls.client_verify == CONF_CLIENT_NONE || p->client_cas != NULL;
}

static int on_client_hello(SSL *ssl, int *alert, void *arg)
{
	struct tls_identity *id = identity_of(ssl);
	char buffer[HOST_MAX];
	const struct policy *p;

	(void)arg;
	id->served = choose(id->server, server_name(ssl, buffer), &p);
	if (id->served == NULL || !may_serve(p)) {
		*alert = SSL_AD_UNRECOGNIZED_NAME;
		return SSL_CLIENT_HELLO_ERROR;
	}
	id->site_hash = p->site->name_hash;
	if (p->site->tls.early_data && SSL_set_max_early_data(ssl, EARLY_BYTES) == 1)
		(void)SSL_set_recv_max_early_data(ssl, EARLY_BYTES);
	if (!use_certificates(ssl, id->served) || !ask_client(ssl, p) ||
	    SSL_set_session_id_context(ssl, p->session_context, sizeof(p->session_context)) != 1) {
		*alert = SSL_AD_INTERNAL_ERROR;
		return SSL_CLIENT_HELLO_ERROR;
	}
	return SSL_CLIENT_HELLO_SUCCESS;
}

/* --- ALPN, OCSP -------------------------------------------------------------------------------------- */

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_n,
		   const unsigned char *in, unsigned in_n, void *arg)
{
	static const unsigned char both[] = "\x02h2\x08http/1.1";
	const struct conf_listener *l = identity_of(ssl)->listener;
	const unsigned char *ours = l->http2 ? both : both + 3;
	unsigned n = l->http2 && l->http1 ? sizeof(both) - 1 : l->http2 ? 3 : sizeof(both) - 1 - 3;

	(void)arg;
	if (SSL_select_next_proto((unsigned char **)out, out_n, ours, n, in, in_n) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return SSL_TLSEXT_ERR_OK;
}

static const struct tls_certificate *in_use(SSL *ssl, const struct served *served)
{
	const X509 *leaf = SSL_get_certificate(ssl);

	for (size_t i = 0; served != NULL && i < served->count; i++)
		if (served->certificates[i].leaf == leaf)
			return &served->certificates[i];
	return NULL;
}

static int on_status(SSL *ssl, void *arg)
{
	const struct tls_certificate *c = in_use(ssl, identity_of(ssl)->served);
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

/* --- tickets ------------------------------------------------------------------------------------------ */

static bool use_key(const struct tls_ticket_key *key, unsigned char *iv, EVP_CIPHER_CTX *cipher,
		    EVP_MAC_CTX *mac, int sealing)
{
	char digest[] = "SHA256";
	OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)key->hmac,
						  sizeof(key->hmac)),
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};

	return EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key->aes, iv, sealing) == 1 &&
	       EVP_MAC_CTX_set_params(mac, parameters) == 1;
}

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

/* Sealing: 1, or 0 for no ticket. Opening: 0 unknown key, 1 the newest, 2 an older one: the client gets a new ticket. */
static int ticket_key(const struct tls_ticket_key *keys, size_t count, unsigned char *name,
		      unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int sealing)
{
	if (count == 0)
		return 0;
	if (sealing) {
		memcpy(name, keys[0].name, sizeof(keys[0].name));
		if (RAND_bytes(iv, EVP_MAX_IV_LENGTH) != 1)
			return -1;
		return use_key(&keys[0], iv, cipher, mac, sealing) ? 1 : -1;
	}
	for (size_t i = 0; i < count; i++) {
		if (memcmp(name, keys[i].name, sizeof(keys[i].name)) != 0)
			continue;
		if (!use_key(&keys[i], iv, cipher, mac, sealing))
			return -1;
		return i == 0 ? 1 : 2;
	}
	return 0;
}

static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
		     EVP_MAC_CTX *mac, int sealing)
{
	struct tls_ticket_key shared[TLS_TICKETS_KEPT];
	size_t count;
	const struct tls_ticket_key *keys = keys_of(identity_of(ssl)->server, shared, &count);
	int r = ticket_key(keys, count, name, iv, cipher, mac, sealing);

	explicit_bzero(shared, sizeof(shared));
	return r;
}

/* Files as other servers have them: name, key of the HMAC, key of AES. */
static int read_file_keys(struct tls_server *s)
{
	const struct conf_list *files = &s->conf->ticket_keys;

	s->file_keys = calloc(files->count + 1, sizeof(*s->file_keys));
	if (s->file_keys == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < files->count; i++) {
		if (files->at[i].n != TLS_TICKET_FILE_BYTES)
			continue; /* refused when the file was read */
		memcpy(&s->file_keys[s->file_key_count++], files->at[i].p, TLS_TICKET_FILE_BYTES);
	}
	return 0;
}

/* --- making one of a snapshot ---------------------------------------------------------------------------- */

_Static_assert(sizeof(struct tls_ticket_key) == TLS_TICKET_FILE_BYTES, "a file is a key");

static int load(struct served *served, const struct conf_certificate *c)
{
	const char *fault = "";
	int r = tls_certificate_init(&served->certificates[served->count], c, &fault);

	if (r == 0 && served->certificates[served->count].key == NULL) {
		tls_certificate_fini(&served->certificates[served->count]);
		fault = "there is no key";
		r = -EINVAL;
	}
	if (r != 0) {
		log_error("certificate_not_used", "file=%.*s fault=\"%s\"",
			  VIEW_ARG(c->certificate_path), fault);
		return r;
	}
	served->count++;
	return 0;
}

static int load_all(struct served *served, const struct conf_certificate *c, size_t count)
{
	served->certificates = calloc(count + 1, sizeof(*served->certificates));
	if (served->certificates == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (load(served, &c[i]) == -ENOMEM)
			return -ENOMEM;
	return 0;
}

static void served_fini(struct served *served)
{
	for (size_t i = 0; i < served->count; i++)
		tls_certificate_fini(&served->certificates[i]);
	free(served->certificates);
}

static int read_client_cas(struct policy *p)
{
	struct view pem = p->site->tls.client_ca;
	BIO *bio = BIO_new_mem_buf(pem.p, (int)pem.n);
	X509 *x;

	p->client_cas = X509_STORE_new();
	p->client_ca_names = sk_X509_NAME_new_null();
	while (bio != NULL && p->client_cas != NULL && p->client_ca_names != NULL &&
	       (x = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
		X509_NAME *name = X509_NAME_dup(X509_get_subject_name(x));

		if (X509_STORE_add_cert(p->client_cas, x) != 1 || name == NULL ||
		    sk_X509_NAME_push(p->client_ca_names, name) == 0)
			X509_NAME_free(name);
		X509_free(x);
	}
	BIO_free(bio);
	ERR_clear_error();
	if (p->client_ca_names != NULL && sk_X509_NAME_num(p->client_ca_names) > 0)
		return 0;
	log_error("client_ca_not_used", "site=%.*s", VIEW_ARG(p->site->name));
	X509_STORE_free(p->client_cas);
	p->client_cas = NULL; /* such a site is not served: see may_serve */
	return 0;
}

static void bind_sessions(struct policy *p)
{
	const struct conf_site_tls *tls = &p->site->tls;
	char verify = (char)tls->client_verify;
	const struct view parts[] = { p->site->name, view_of(&verify, 1), tls->client_ca };

	hash_sha256_128(parts, ARRAY_LEN(parts), p->session_context);
}

static int make_policies(struct tls_server *s)
{
	s->policies = calloc(s->conf->site_count + 1, sizeof(*s->policies));
	if (s->policies == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < s->conf->site_count; i++) {
		struct policy *p = &s->policies[i];
		const struct conf_site *site = &s->conf->sites[i];
		int r;

		p->site = site;
		s->early_data |= site->tls.early_data;
		bind_sessions(p);
		r = load_all(&p->served, site->tls.certificates, site->tls.certificate_count);
		if (r == 0 && site->tls.client_verify != CONF_CLIENT_NONE)
			r = read_client_cas(p);
		if (r != 0)
			return r;
	}
	return 0;
}

/* Of several certificates with the same name, the last to expire serves it. */
static void sort_names(struct tls_server *s)
{
	size_t kept = 0;

	qsort(s->names, s->name_count, sizeof(*s->names), compare_names);
	for (size_t i = 0; i < s->name_count; i++) {
		if (kept == 0 || compare_names(&s->names[kept - 1], &s->names[i]) != 0)
			s->names[kept++] = s->names[i];
		else if (s->names[i].served->certificates[0].expires_ms >
			 s->names[kept - 1].served->certificates[0].expires_ms)
			s->names[kept - 1] = s->names[i];
	}
	s->name_count = kept;
}

static int name_directory(struct tls_server *s)
{
	size_t count = 0;

	for (size_t i = 0; i < s->directory_count; i++)
		for (size_t k = 0; k < s->directory[i].count; k++)
			count += s->directory[i].certificates[k].name_count;
	s->names = calloc(count + 1, sizeof(*s->names));
	if (s->names == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < s->directory_count; i++) {
		const struct served *served = &s->directory[i];

		for (size_t k = 0; served->count > 0 && k < served->certificates[0].name_count; k++)
			s->names[s->name_count++] =
				(struct directory_name){ served->certificates[0].names[k], served };
	}
	sort_names(s);
	return 0;
}

static int load_directory(struct tls_server *s)
{
	const struct conf *c = s->conf;

	s->directory = calloc(c->tls_directory_count + 1, sizeof(*s->directory));
	if (s->directory == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < c->tls_directory_count; i++) {
		s->directory_count++;
		if (load_all(&s->directory[i], &c->tls_directory[i], 1) != 0)
			return -ENOMEM;
	}
	return name_directory(s);
}

static int make_context(struct tls_server *s)
{
	SSL_CTX *c = tls_context(true);
	uint64_t seconds = 2 * s->conf->ticket_rotate_ms / 1000, week = 7 * 24 * 3600;

	if (c == NULL)
		return -ENOMEM;
	s->context = c;
	SSL_CTX_set_client_hello_cb(c, on_client_hello, NULL);
	SSL_CTX_set_alpn_select_cb(c, on_alpn, NULL);
	SSL_CTX_set_tlsext_status_cb(c, on_status);
	SSL_CTX_set_tlsext_ticket_key_evp_cb(c, on_ticket);
	SSL_CTX_set_timeout(c, (long)(seconds < week ? seconds : week));
	return 0;
}

struct tls_server *tls_server_new(struct conf *c, struct tls_tickets *tickets)
{
	struct tls_server *s = calloc(1, sizeof(*s));
	int r;

	if (s == NULL)
		return NULL;
	s->magic = TLS_SERVER_MAGIC;
	s->refs = 1;
	s->conf = conf_ref(c);
	s->tickets = tickets;
	r = make_context(s);
	if (r == 0)
		r = make_policies(s);
	if (r == 0)
		r = load_directory(s);
	if (r == 0)
		r = read_file_keys(s);
	if (r == 0)
		return s;
	tls_server_unref(s);
	return NULL;
}

static void policies_fini(struct tls_server *s)
{
	for (size_t i = 0; s->policies != NULL && i < s->conf->site_count; i++) {
		struct policy *p = &s->policies[i];

		served_fini(&p->served);
		X509_STORE_free(p->client_cas);
		sk_X509_NAME_pop_free(p->client_ca_names, X509_NAME_free);
	}
	free(s->policies);
}

void tls_server_unref(struct tls_server *s)
{
	if (s == NULL)
		return;
	CHECK_MAGIC(s, TLS_SERVER_MAGIC);
	if (--s->refs > 0)
		return;
	policies_fini(s);
	for (size_t i = 0; i < s->directory_count; i++)
		served_fini(&s->directory[i]);
	free(s->directory);
	free(s->names);
	if (s->file_keys != NULL)
		explicit_bzero(s->file_keys, s->file_key_count * sizeof(*s->file_keys));
	free(s->file_keys);
	SSL_CTX_free(s->context);
	conf_unref(s->conf);
	s->magic = 0;
	free(s);
}

/* --- connections ------------------------------------------------------------------------------------ */

int tls_server_stream(struct tls_server *s, const struct conf_listener *l, int fd, struct io **out)
{
	struct tls_identity *id = calloc(1, sizeof(*id));
	struct io *io;
	int r;

	CHECK_MAGIC(s, TLS_SERVER_MAGIC);
	if (id == NULL)
		return -ENOMEM;
	r = tls_new(s->context, fd, &io);
	if (r != 0) {
		free(id);
		return r;
	}
	*id = (struct tls_identity){ .server = s, .listener = l };
	if (SSL_set_ex_data(tls_ssl(io), identity_index(), id) != 1) {
		free(id);
		io->ops->free(io);
		return -ENOMEM;
	}
	s->refs++;
	if (s->early_data)
		tls_expect_early_data(io);
	*out = io;
	return 0;
}

static void describe(struct tls_identity *id, const SSL *ssl)
{
	struct text t = text_over(id->text, sizeof(id->text));

	text_put(&t, view_str(SSL_get_version(ssl)));
	text_put(&t, VIEW(" "));
	text_put(&t, view_str(SSL_CIPHER_get_name(SSL_get_current_cipher(ssl))));
	id->text_bytes = t.n;
}

const struct tls_identity *tls_server_identity(struct io *io)
{
	SSL *ssl = tls_ssl(io);
	struct tls_identity *id = identity_of(ssl);

	if (id->text_bytes == 0)
		describe(id, ssl);
	return id;
}

bool tls_server_is_h2(struct io *io)
{
	SSL *ssl = tls_ssl(io);
	const unsigned char *name;
	unsigned n;

	SSL_get0_alpn_selected(ssl, &name, &n);
	return n == 0 ? !identity_of(ssl)->listener->http1
		      : view_eq(view_of((const char *)name, n), VIEW("h2"));
}

bool tls_identity_serves(const struct tls_identity *id, const struct conf_site *site, struct view host)
{
	if (id->site_hash == site->name_hash)
		return true;
	if (site->tls.client_verify != CONF_CLIENT_NONE)
		return false;
	for (size_t i = 0; i < id->served->count; i++)
		if (tls_certificate_names(&id->served->certificates[i], host))
			return true;
	return false;
}

struct view tls_identity_text(const struct tls_identity *id)
{
	return view_of(id->text, id->text_bytes);
}

void tls_server_count(struct io *io, struct stats_tls *stats)
{
	SSL *ssl = tls_ssl(io);

	stats_tls_done(stats, SSL_version(ssl) == TLS1_3_VERSION, SSL_session_reused(ssl) == 1,
		       SSL_CIPHER_get_name(SSL_get_current_cipher(ssl)), tls_sends_in_kernel(io));
}
