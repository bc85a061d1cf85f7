/*
 * See tls_admin.h. Nothing of traffic's TLS is wanted here: one certificate, no names to choose by, no tickets (brimctl makes
 * one call and goes; scrapers keep their connection), no client certificates: tokens say who asks.
 */
#include "edge/tls_admin.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "edge/base/sock.h"
#include "edge/base/tls.h"
#include "edge/tls_certificate.h"

struct ssl_ctx_st *tls_admin_server(const struct conf_certificate *c, const char **out_fault)
{
	SSL_CTX *context = tls_context(true);
	struct tls_certificate certificate = { 0 };
	bool used;

	*out_fault = "no memory";
	if (context == NULL || tls_certificate_init(&certificate, c, out_fault) != 0 ||
	    tls_certificate_complete(&certificate, out_fault) != 0) {
		tls_certificate_fini(&certificate);
		SSL_CTX_free(context);
		return NULL;
	}
	*out_fault = "it can't be used with its key";
	used = SSL_CTX_use_cert_and_key(context, certificate.leaf, certificate.key,
					certificate.chain, 1) == 1 &&
	       SSL_CTX_set_num_tickets(context, 0) == 1;
	tls_certificate_fini(&certificate);
	ERR_clear_error();
	if (used)
		return context;
	SSL_CTX_free(context);
	return NULL;
}

void tls_admin_unref(struct ssl_ctx_st *context)
{
	SSL_CTX_free(context);
}

/* --- brimctl ------------------------------------------------------------------------------------- */

static SSL_CTX *client_context(const char *ca_file, const char **out_fault)
{
	SSL_CTX *context = tls_context(false);

	*out_fault = "no memory";
	if (context == NULL)
		return NULL;
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	*out_fault = ca_file != NULL
			     ? "the file of --ca-file holds no certificate, or can't be read"
			     : "the system's certificate authorities can't be read";
	if ((ca_file != NULL ? SSL_CTX_load_verify_file(context, ca_file)
			     : SSL_CTX_set_default_verify_paths(context)) == 1)
		return context;
	SSL_CTX_free(context);
	return NULL;
}

/* An address is looked for among the certificate's addresses, and goes into no SNI (RFC 6066 §3). */
static bool name_peer(SSL *ssl, const char *host)
{
	struct sock_addr address;

	if (sock_addr_literal(view_str(host), 0, &address) == 0)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

int tls_admin_client(int fd, const char *host, const char *ca_file, struct io **out,
		     const char **out_fault)
{
	SSL_CTX *context = client_context(ca_file, out_fault);
	struct io *io;
	int r;

	if (context == NULL)
		return -1;
	r = tls_new(context, fd, &io);
	SSL_CTX_free(context); /* the stream has its own reference */
	*out_fault = "no memory";
	if (r != 0)
		return -1;
	if (!name_peer(tls_ssl(io), host)) {
		io->ops->free(io);
		return -1;
	}
	*out = io;
	return 0;
}

const char *tls_admin_client_fault(struct io *io)
{
	long verified = SSL_get_verify_result(tls_ssl(io));

	return verified != X509_V_OK ? X509_verify_cert_error_string(verified) : tls_fault(io);
}
