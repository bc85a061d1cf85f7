/*
 * One pair. What makes handshakes fail, or makes clients refuse what they get, is a fault. What only time has done
 * (expiry, an old OCSP response) is a warning: a node that restarts on the wrong day must serve what it can.
 *
 * The contents are somebody's files and may be garbage: whatever OpenSSL says of them ends as one line, and its queue
 * of errors is left empty.
 */
#include "edge/tls_check_pair.h"

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

enum {
	DAY_SECONDS = 86400,
	WARN_DAYS = 14,
	SECURITY_BITS_MIN = 112 /* RSA 2048 */,
	DATE_BYTES = 32
};

/* --- telling */

const char *tls_check_place(const struct tls_checker *t, const char *key, char out[CONF_POINTER_BYTES])
{
	char number[24];

	(void)snprintf(out, CONF_POINTER_BYTES, "%s", t->at);
	if (key == NULL)
		return out;
	conf_pointer_add(out, key);
	if (t->count > 1) {
		(void)snprintf(number, sizeof(number), "%zu", t->index);
		conf_pointer_add(out, number);
	}
	return out;
}

#define WARN(t, key, ...)                                                                      \
	do {                                                                                   \
		char warn_place[CONF_POINTER_BYTES];                                           \
		conf_warning_at((t)->faults, (t)->places, tls_check_place(t, key, warn_place), \
				__VA_ARGS__);                                                  \
	} while (0)

/* --- reading */

static BIO *reader_of(struct view v)
{
	return BIO_new_mem_buf(v.p, (int)v.n);
}

/* Nobody is there to be asked for a passphrase. */
static int no_passphrase(char *buffer, int size, int writing, void *user)
{
	(void)buffer;
	(void)size;
	(void)writing;
	(void)user;
	return -1;
}

STACK_OF(X509) * tls_pair_chain(struct view v)
{
	STACK_OF(X509) *chain = sk_X509_new_null();
	BIO *in = reader_of(v);
	X509 *x;

	while (chain != NULL && in != NULL &&
	       (x = PEM_read_bio_X509_AUX(in, NULL, no_passphrase, NULL)) != NULL) {
		if (sk_X509_push(chain, x) == 0) {
			X509_free(x);
			break;
		}
	}
	unsigned long error = ERR_peek_last_error();
	bool ended = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;

	ERR_clear_error();
	BIO_free(in);
	if (chain != NULL && ended && sk_X509_num(chain) > 0)
		return chain;
	sk_X509_pop_free(chain, X509_free);
	return NULL;
}

static EVP_PKEY *read_key(struct view v)
{
	BIO *in = reader_of(v);
	EVP_PKEY *key = in == NULL ? NULL : PEM_read_bio_PrivateKey(in, NULL, no_passphrase, NULL);

	ERR_clear_error();
	BIO_free(in);
	return key;
}

void tls_pair_fini(struct tls_pair *p)
{
	sk_X509_pop_free(p->chain, X509_free);
	EVP_PKEY_free(p->key);
	*p = (struct tls_pair){ 0 };
}

/* --- times */

/* (time_t)-1: unknown. */
static time_t time_of(const ASN1_TIME *t)
{
	struct tm tm;

	return t == NULL || ASN1_TIME_to_tm(t, &tm) != 1 ? (time_t)-1 : timegm(&tm);
}

static const char *date_text(time_t t, char out[DATE_BYTES])
{
	struct tm tm;

	if (gmtime_r(&t, &tm) == NULL || strftime(out, DATE_BYTES, "%Y-%m-%d %H:%M UTC", &tm) == 0)
		(void)snprintf(out, DATE_BYTES, "an unknown date");
	return out;
}

/* A chain is good for as long as all of it is. */
static void check_times(const struct tls_checker *t, const char *key, const struct tls_pair *p)
{
	const char *path = p->conf->certificate_path.p;
	char date[DATE_BYTES];
	time_t from = 0, to = 0;

	for (int i = 0; i < sk_X509_num(p->chain); i++) {
		const X509 *x = sk_X509_value(p->chain, i);
		time_t begin = time_of(X509_get0_notBefore(x)), end = time_of(X509_get0_notAfter(x));

		from = begin > from ? begin : from;
		to = i == 0 || end < to ? end : to;
	}
	if (from > t->now)
		WARN(t, key, "%s is not valid before %s", path, date_text(from, date));
	else if (to < t->now)
		WARN(t, key, "%s has expired on %s", path, date_text(to, date));
	else if (to - t->now < WARN_DAYS * DAY_SECONDS)
		WARN(t, key, "%s expires on %s", path, date_text(to, date));
}

/* --- a pair */

static bool check_chain(const struct tls_checker *t, const char *key, const struct tls_pair *p)
{
	for (int i = 1; i < sk_X509_num(p->chain); i++) {
		X509 *subject = sk_X509_value(p->chain, i - 1), *issuer = sk_X509_value(p->chain, i);

		if (X509_check_issued(issuer, subject) == X509_V_OK)
			continue;
		ERR_clear_error();
		TLS_TELL(t, key,
			 "%s: its certificate %d has not issued the one before it: the site's own "
			 "comes first, "
			 "then who issued it, and so on",
			 p->conf->certificate_path.p, i + 1);
		return false;
	}
	return true;
}

static bool check_key(const struct tls_checker *t, const char *key, const struct tls_pair *p)
{
	if (p->key == NULL)
		TLS_TELL(t, key, "%s holds no private key without a passphrase (PEM)",
			 p->conf->key_path.p);
	else if (X509_check_private_key(p->leaf, p->key) != 1)
		TLS_TELL(t, key, "%s is not the key of %s", p->conf->key_path.p,
			 p->conf->certificate_path.p);
	else if (EVP_PKEY_get_security_bits(p->key) < SECURITY_BITS_MIN)
		TLS_TELL(t, key, "%s is too weak a key: RSA needs 2048 bits", p->conf->key_path.p);
	else
		return true;
	ERR_clear_error();
	return false;
}

/* extendedKeyUsage and keyUsage, as the other side looks at them. */
static bool check_purpose(const struct tls_checker *t, const char *key, const struct tls_pair *p)
{
	int purpose = t->for_origin ? X509_PURPOSE_SSL_CLIENT : X509_PURPOSE_SSL_SERVER;

	if (X509_check_purpose(p->leaf, purpose, 0) == 1)
		return true;
	ERR_clear_error();
	TLS_TELL(t, key, "%s is not for TLS %s (keyUsage, extendedKeyUsage)",
		 p->conf->certificate_path.p, t->for_origin ? "clients" : "servers");
	return false;
}

static bool says_where_its_issuer_is(X509 *leaf)
{
	AUTHORITY_INFO_ACCESS *all = X509_get_ext_d2i(leaf, NID_info_access, NULL, NULL);
	bool found = false;

	for (int i = 0; i < sk_ACCESS_DESCRIPTION_num(all) && !found; i++)
		found = OBJ_obj2nid(sk_ACCESS_DESCRIPTION_value(all, i)->method) == NID_ad_ca_issuers;
	AUTHORITY_INFO_ACCESS_free(all);
	return found;
}

/* Where the rest of a chain is left out, browsers fetch it and most other clients refuse. Which authorities clients know we can't
 * tell: but one that publishes its certificate for fetching is hardly a root that all have. */
static void check_complete(const struct tls_checker *t, const char *key, const struct tls_pair *p)
{
	if (!t->for_origin && sk_X509_num(p->chain) == 1 && X509_self_signed(p->leaf, 0) == 0 &&
	    says_where_its_issuer_is(p->leaf))
		WARN(t, key,
		     "%s holds the site's certificate alone: who issued it is missing behind it, "
		     "and clients "
		     "that don't know that one will refuse it",
		     p->conf->certificate_path.p);
	ERR_clear_error();
}

/* What is left: the level of security that OpenSSL asks of keys and signatures. */
static bool check_taken(const struct tls_checker *t, const char *key, const struct tls_pair *p)
{
	STACK_OF(X509) *behind = sk_X509_dup(p->chain);
	const char *reason;

	if (behind != NULL)
		(void)sk_X509_shift(behind);
	bool taken = behind != NULL &&
		     SSL_CTX_use_cert_and_key(t->context, p->leaf, p->key, behind, 1) == 1;

	sk_X509_free(behind);
	if (taken)
		return true;
	reason = ERR_reason_error_string(ERR_peek_last_error());
	TLS_TELL(t, key, "OpenSSL refuses %s: %s", p->conf->certificate_path.p,
		 reason != NULL ? reason : "no memory");
	ERR_clear_error();
	return false;
}

/* The response about this certificate; NULL: there is none. */
static OCSP_SINGLERESP *find_response(OCSP_BASICRESP *basic, X509 *leaf)
{
	for (int i = 0; i < OCSP_resp_count(basic); i++) {
		OCSP_SINGLERESP *one = OCSP_resp_get0(basic, i);
		OCSP_CERTID *id = (OCSP_CERTID *)OCSP_SINGLERESP_get0_id(one);
		ASN1_INTEGER *serial = NULL;

		if (OCSP_id_get0_info(NULL, NULL, NULL, &serial, id) == 1 &&
		    ASN1_INTEGER_cmp(serial, X509_get0_serialNumber(leaf)) == 0)
			return one;
	}
	return NULL;
}

static void check_response(const struct tls_checker *t, const char *key, const struct tls_pair *p,
			   OCSP_BASICRESP *basic)
{
	OCSP_SINGLERESP *one = find_response(basic, p->leaf);
	const char *path = p->conf->ocsp_path.p;
	ASN1_GENERALIZEDTIME *next = NULL;
	char date[DATE_BYTES];

	if (one == NULL) {
		TLS_TELL(t, key, "%s is not about %s", path, p->conf->certificate_path.p);
		return;
	}
	if (OCSP_single_get0_status(one, NULL, NULL, NULL, &next) != V_OCSP_CERTSTATUS_GOOD)
		WARN(t, key, "%s says that %s is revoked or unknown", path,
		     p->conf->certificate_path.p);
	else if (next != NULL && time_of(next) < t->now)
		WARN(t, key, "%s is too old since %s: it won't be sent", path,
		     date_text(time_of(next), date));
}

static void check_ocsp(const struct tls_checker *t, const char *key, const struct tls_pair *p)
{
	const unsigned char *at = (const unsigned char *)p->conf->ocsp.p;
	OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &at, (long)p->conf->ocsp.n);
	OCSP_BASICRESP *basic = NULL;

	if (response != NULL && OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL)
		basic = OCSP_response_get1_basic(response);
	if (basic == NULL)
		TLS_TELL(t, key, "%s is not a successful OCSP response (DER)", p->conf->ocsp_path.p);
	else
		check_response(t, key, p, basic);
	ERR_clear_error();
	OCSP_BASICRESP_free(basic);
	OCSP_RESPONSE_free(response);
}

bool tls_pair_check(const struct tls_checker *t, const struct tls_pair_keys *keys,
		    const struct conf_certificate *conf, struct tls_pair *out)
{
	struct tls_pair p = { .conf = conf,
			      .chain = tls_pair_chain(conf->certificate),
			      .key = read_key(conf->key) };

	*out = p;
	if (p.chain == NULL) {
		TLS_TELL(t, keys->certificate, "%s holds no certificate, or a broken one (PEM)",
			 conf->certificate_path.p);
		return false;
	}
	out->leaf = sk_X509_value(p.chain, 0);
	bool good = check_chain(t, keys->certificate, out) && check_key(t, keys->key, out) &&
		    check_purpose(t, keys->certificate, out) && check_taken(t, keys->certificate, out);

	check_complete(t, keys->certificate, out);
	check_times(t, keys->certificate, out);
	if (conf->ocsp.n > 0)
		check_ocsp(t, keys->ocsp, out);
	return good;
}
