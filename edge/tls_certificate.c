/*
 * Reading certificates from PEM. The names are taken out once, so that a request that asks for another host than its
 * handshake did costs a comparison and not a walk through ASN.1.
 *
 * Nine in ten of many certificates are never asked for between two reloads, so the dear parts (OpenSSL tries all its decoders on
 * a key, and on each certificate of the chain) are read when a client first wants them.
 *
 * Names are DNS names and addresses of subjectAltName; the common name only where there are none, as
 * in certificates that people make for themselves.
 */
#include "edge/tls_certificate.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <time.h>

static int no_passphrase(char *p, int n, int writing, void *arg)
{
	(void)p;
	(void)n;
	(void)writing;
	(void)arg;
	return -1; /* nobody is there to ask */
}

static int64_t time_ms(const ASN1_TIME *t)
{
	struct tm tm;

	return t != NULL && ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) * 1000 : 0;
}

/* --- PEM ---------------------------------------------------------------------------------------- */

static BIO *open_text(struct view text)
{
	return BIO_new_mem_buf(text.p, (int)text.n);
}

static const char *read_leaf(struct tls_certificate *out, struct view pem)
{
	BIO *bio = open_text(pem);

	if (bio == NULL)
		return "no memory";
	out->leaf = PEM_read_bio_X509_AUX(bio, NULL, no_passphrase, NULL);
	BIO_free(bio);
	ERR_clear_error();
	return out->leaf != NULL ? NULL : "holds no certificate";
}

/* Past the first certificate, without looking into it. */
static void skip_leaf(BIO *bio)
{
	unsigned char *der;
	long n;

	if (PEM_bytes_read_bio(&der, &n, NULL, PEM_STRING_X509, bio, no_passphrase, NULL) == 1)
		OPENSSL_free(der);
}

static const char *read_chain(struct tls_certificate *out, struct view pem)
{
	BIO *bio = open_text(pem);
	X509 *x;

	out->chain = sk_X509_new_null();
	if (bio == NULL || out->chain == NULL) {
		BIO_free(bio);
		return "no memory";
	}
	skip_leaf(bio);
	while ((x = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)) != NULL) {
		if (sk_X509_push(out->chain, x) == 0) {
			X509_free(x);
			break;
		}
	}
	BIO_free(bio);
	ERR_clear_error(); /* the end of the text is one, too */
	return NULL;
}

static const char *read_key(struct tls_certificate *out, struct view pem)
{
	BIO *bio = open_text(pem);

	if (bio == NULL)
		return "no memory";
	out->key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
	BIO_free(bio);
	ERR_clear_error();
	if (out->key == NULL)
		return "the key can't be read (keys with a passphrase can't be used)";
	if (X509_check_private_key(out->leaf, out->key) != 1) {
		ERR_clear_error();
		return "the key belongs to another certificate";
	}
	return NULL;
}

/* --- names -------------------------------------------------------------------------------------- */

static bool add_name(struct tls_certificate *out, const char *p, size_t n)
{
	char *copy = malloc(n + 1);

	if (copy == NULL)
		return false;
	for (size_t i = 0; i < n; i++)
		copy[i] = (char)tolower((unsigned char)p[i]);
	copy[n] = '\0';
	out->names[out->name_count++] = view_of(copy, n);
	return true;
}

static bool add_address(struct tls_certificate *out, const ASN1_OCTET_STRING *address)
{
	char text[INET6_ADDRSTRLEN];
	int n = ASN1_STRING_length(address);

	if (n != 4 && n != 16)
		return true;
	if (inet_ntop(n == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(address), text,
		      sizeof(text)) == NULL)
		return true;
	return add_name(out, text, strlen(text));
}

static bool add_alternative(struct tls_certificate *out, const GENERAL_NAME *name)
{
	if (name->type == GEN_IPADD)
		return add_address(out, name->d.iPAddress);
	if (name->type != GEN_DNS)
		return true;
	return add_name(out, (const char *)ASN1_STRING_get0_data(name->d.dNSName),
			(size_t)ASN1_STRING_length(name->d.dNSName));
}

static bool add_common_name(struct tls_certificate *out)
{
	char text[256];
	int n = X509_NAME_get_text_by_NID(X509_get_subject_name(out->leaf), NID_commonName, text,
					  sizeof(text));

	return n <= 0 || add_name(out, text, (size_t)n);
}

static const char *read_names(struct tls_certificate *out)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(out->leaf, NID_subject_alt_name, NULL, NULL);
	int count = all != NULL ? sk_GENERAL_NAME_num(all) : 0;
	bool ok;

	out->names = calloc((size_t)count + 1, sizeof(*out->names));
	ok = out->names != NULL;
	for (int i = 0; ok && i < count; i++)
		ok = add_alternative(out, sk_GENERAL_NAME_value(all, i));
	if (ok && out->name_count == 0)
		ok = add_common_name(out);
	GENERAL_NAMES_free(all);
	return ok ? NULL : "no memory";
}

bool tls_certificate_names(const struct tls_certificate *c, struct view host)
{
	const char *dot = host.n > 0 ? memchr(host.p, '.', host.n) : NULL;
	struct view rest = dot != NULL ? view_skip(host, (size_t)(dot - host.p)) : (struct view){ 0 };

	for (size_t i = 0; i < c->name_count; i++) {
		struct view name = c->names[i];

		if (view_eq(name, host))
			return true;
		if (rest.n > 0 && rest.p != host.p && name.n == rest.n + 1 && name.p[0] == '*' &&
		    view_eq(view_skip(name, 1), rest))
			return true;
	}
	return false;
}

/* --- OCSP ---------------------------------------------------------------------------------------- */

/* Until when a response may be shown; 0: it says nothing good. */
static int64_t ocsp_until(OCSP_RESPONSE *response)
{
	OCSP_BASICRESP *basic = OCSP_response_get1_basic(response);
	OCSP_SINGLERESP *single = basic != NULL ? OCSP_resp_get0(basic, 0) : NULL;
	ASN1_GENERALIZEDTIME *until = NULL;
	int64_t ms = 0;

	if (single != NULL && OCSP_single_get0_status(single, NULL, NULL, NULL, &until) >= 0)
		ms = until != NULL ? time_ms(until) : INT64_MAX;
	OCSP_BASICRESP_free(basic);
	return ms;
}

static const char *read_ocsp(struct tls_certificate *out, struct view der)
{
	const unsigned char *p = (const unsigned char *)der.p;
	OCSP_RESPONSE *response;

	if (der.n == 0)
		return NULL;
	response = d2i_OCSP_RESPONSE(NULL, &p, (long)der.n);
	if (response == NULL) {
		ERR_clear_error();
		return "the OCSP response can't be read";
	}
	out->ocsp = der;
	out->ocsp_until_ms = ocsp_until(response);
	OCSP_RESPONSE_free(response);
	ERR_clear_error();
	return NULL;
}

/* --- life ---------------------------------------------------------------------------------------- */

int tls_certificate_init(struct tls_certificate *out, const struct conf_certificate *c,
			 const char **out_fault)
{
	const char *fault;

	*out = (struct tls_certificate){ .source = c };
	fault = read_leaf(out, c->certificate);
	if (fault == NULL)
		fault = read_names(out);
	if (fault == NULL)
		fault = read_ocsp(out, c->ocsp);
	if (fault != NULL) {
		tls_certificate_fini(out);
		*out_fault = fault;
		return -EINVAL;
	}
	out->expires_ms = time_ms(X509_get0_notAfter(out->leaf));
	return 0;
}

static bool copy_names(struct tls_certificate *out, const struct tls_certificate *other)
{
	out->names = calloc(other->name_count + 1, sizeof(*out->names));
	for (size_t i = 0; out->names != NULL && i < other->name_count; i++)
		if (!add_name(out, other->names[i].p, other->names[i].n))
			return false;
	return out->names != NULL;
}

int tls_certificate_share(struct tls_certificate *out, const struct conf_certificate *c,
			  const struct tls_certificate *other)
{
	*out = (struct tls_certificate){ .source = c, .expires_ms = other->expires_ms };
	if (X509_up_ref(other->leaf) == 1)
		out->leaf = other->leaf;
	if (other->key != NULL && EVP_PKEY_up_ref(other->key) == 1) {
		out->key = other->key;
		out->chain = X509_chain_up_ref(other->chain);
	}
	if (out->leaf != NULL && (out->key == NULL || out->chain != NULL) &&
	    copy_names(out, other) && read_ocsp(out, c->ocsp) == NULL)
		return 0;
	tls_certificate_fini(out);
	return -EINVAL;
}

int tls_certificate_complete(struct tls_certificate *c, const char **out_fault)
{
	const char *fault;

	if (c->key != NULL)
		return 0;
	fault = read_chain(c, c->source->certificate);
	if (fault == NULL)
		fault = read_key(c, c->source->key);
	if (fault == NULL)
		return 0;
	EVP_PKEY_free(c->key);
	sk_X509_pop_free(c->chain, X509_free);
	c->key = NULL;
	c->chain = NULL;
	*out_fault = fault;
	return -EINVAL;
}

void tls_certificate_fini(struct tls_certificate *c)
{
	for (size_t i = 0; i < c->name_count; i++)
		free((char *)c->names[i].p);
	free(c->names);
	X509_free(c->leaf);
	EVP_PKEY_free(c->key);
	sk_X509_pop_free(c->chain, X509_free);
	*c = (struct tls_certificate){ 0 };
}
