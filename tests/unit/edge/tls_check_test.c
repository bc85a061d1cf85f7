/* Contents that are anything at all: told, never a crash, and nothing is left in OpenSSL's queue of errors. */
#include "edge/tls_check.h"

#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>

enum { ROUNDS = 150 };

static struct conf_certificate good;
static struct view ocsp;

static struct view taken(BIO *bio)
{
	char *at;
	long n = BIO_get_mem_data(bio, &at);
	char *copy = malloc((size_t)n);

	assert_non_null(copy);
	memcpy(copy, at, (size_t)n);
	BIO_free(bio);
	return view_of(copy, (size_t)n);
}

/* A certificate for a.test that signs itself. */
static int make_pair(void **state)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:a.test");
	BIO *out = BIO_new(BIO_s_mem()), *key_out = BIO_new(BIO_s_mem()),
	    *ocsp_out = BIO_new(BIO_s_mem());
	OCSP_RESPONSE *response;
	OCSP_BASICRESP *basic = OCSP_BASICRESP_new();

	(void)state;
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), -3600);
	X509_gmtime_adj(X509_getm_notAfter(x), 100 * 86400);
	X509_set_pubkey(x, key);
	X509_add_ext(x, names, -1);
	assert_true(X509_sign(x, key, EVP_sha256()) > 0);
	PEM_write_bio_X509(out, x);
	PEM_write_bio_PrivateKey(key_out, key, NULL, NULL, 0, NULL, NULL);

	OCSP_CERTID *id = OCSP_cert_to_id(NULL, x, x);
	ASN1_TIME *now = X509_gmtime_adj(NULL, 0), *later = X509_gmtime_adj(NULL, 3600);

	OCSP_basic_add1_status(basic, id, V_OCSP_CERTSTATUS_GOOD, 0, NULL, now, later);
	assert_true(OCSP_basic_sign(basic, x, key, EVP_sha256(), NULL, 0) == 1);
	response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic);
	assert_true(i2d_OCSP_RESPONSE_bio(ocsp_out, response) == 1);

	good = (struct conf_certificate){ .certificate_path = VIEW("CERT"),
					  .key_path = VIEW("KEY"),
					  .ocsp_path = VIEW("OCSP") };
	good.certificate = taken(out);
	good.key = taken(key_out);
	ocsp = good.ocsp = taken(ocsp_out);
	ASN1_TIME_free(now);
	ASN1_TIME_free(later);
	OCSP_CERTID_free(id);
	OCSP_RESPONSE_free(response);
	OCSP_BASICRESP_free(basic);
	X509_EXTENSION_free(names);
	X509_free(x);
	EVP_PKEY_free(key);
	return 0;
}

static int free_pair(void **state)
{
	(void)state;
	free((char *)good.certificate.p);
	free((char *)good.key.p);
	free((char *)ocsp.p);
	return 0;
}

/* How many faults there are with these contents in every place that takes some. */
static unsigned check(const struct conf_certificate *pair, struct view ca)
{
	struct conf_certificate site_pair = *pair, directory_pair = *pair;
	struct view host = VIEW("a.test");
	struct conf_site site = { .name = host, .hosts = { &host, 1 } };
	struct conf_origin origin = { .name = VIEW("o") };
	struct conf c = { .sites = &site, .site_count = 1, .origins = &origin, .origin_count = 1 };
	struct conf_faults faults = { 0 };

	site.tls = (struct conf_site_tls){ .certificates = &site_pair,
					   .certificate_count = 1,
					   .client_ca_path = VIEW("CA"),
					   .client_ca = ca };
	origin.tls = (struct conf_origin_tls){ .ca_path = VIEW("CA"), .ca = ca, .client = *pair };
	c.tls_directory = &directory_pair;
	c.tls_directory_count = 1;
	c.admin_tls = *pair;
	tls_check(&c, NULL, &faults);
	assert_int_equal(ERR_peek_error(), 0);
	return faults.count;
}

static void what_is_good_is_well(void **state)
{
	(void)state;
	assert_int_equal(check(&good, good.certificate), 0);
}

static void nothing_at_all(void **state)
{
	const struct conf_certificate none = { .certificate_path = VIEW("CERT"),
					       .key_path = VIEW("KEY"),
					       .certificate = VIEW(""),
					       .key = VIEW(""),
					       .ocsp = VIEW("") };

	(void)state;
	assert_true(check(&none, VIEW("")) > 0);
}

/* Every text cut off at every place. */
static void cut_off(void **state)
{
	(void)state;
	for (size_t n = 0; n + 30 < good.certificate.n; n += 61) {
		struct conf_certificate cut = good;

		cut.certificate.n = n;
		assert_true(check(&cut, cut.certificate) > 0);
		cut = good;
		cut.key.n = n < good.key.n - 30 ? n : 0;
		assert_true(check(&cut, good.certificate) > 0);
		cut = good;
		cut.ocsp.n = n < good.ocsp.n ? n : 1;
		assert_true(n == 0 || check(&cut, good.certificate) > 0);
	}
}

static void damage(struct view *v, char *copy, unsigned *seed)
{
	unsigned times = 1 + (unsigned)rand_r(seed) % 4;

	memcpy(copy, v->p, v->n);
	while (times-- > 0)
		copy[(unsigned)rand_r(seed) % v->n] = (char)rand_r(seed);
	v->p = copy;
}

/* Bytes changed at random: told or not, it ends. */
static void damaged(void **state)
{
	char certificate[4096], key[4096], response[4096];
	unsigned seed = 1, refused = 0;

	(void)state;
	assert_true(good.certificate.n < sizeof(certificate) && good.key.n < sizeof(key) &&
		    good.ocsp.n < sizeof(response));
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct conf_certificate bad = good;

		if (i % 3 == 0)
			damage(&bad.certificate, certificate, &seed);
		else if (i % 3 == 1)
			damage(&bad.key, key, &seed);
		else
			damage(&bad.ocsp, response, &seed);
		refused += check(&bad, bad.certificate) > 0;
	}
	assert_true(refused > ROUNDS / 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_good_is_well),
		cmocka_unit_test(nothing_at_all),
		cmocka_unit_test(cut_off),
		cmocka_unit_test(damaged),
	};

	return cmocka_run_group_tests(tests, make_pair, free_pair);
}
