/*
 * Certificates of sites and of tls.directory, with the names by which they are found; what sites ask of clients; ticket keys
 * from files.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#include "edge/base/hash.h"
#include "edge/base/log.h"
#include "edge/tls_server_parts.h"

_Static_assert(sizeof(struct tls_ticket_key) == TLS_TICKET_FILE_BYTES, "a file is a key");

int tls_directory_compare(const void *a, const void *b)
{
	const struct tls_directory_name *x = a, *y = b;
	size_t common = x->name.n < y->name.n ? x->name.n : y->name.n;
	int r = memcmp(x->name.p, y->name.p, common);

	if (r != 0)
		return r;
	return x->name.n < y->name.n ? -1 : x->name.n > y->name.n;
}

/* From the snapshot before if it has the same, else from the text. *budget counts what is read. */
static int take(struct tls_server *s, struct tls_certificate *out, const struct conf_certificate *c,
		size_t *budget, const char **out_fault)
{
	const struct tls_certificate *same = tls_known_find(&s->known, c);

	if (same != NULL && tls_certificate_share(out, c, same) == 0)
		return 0;
	*budget -= *budget > 0;
	if (c->key.n > 0)
		return tls_certificate_init(out, c, out_fault);
	*out_fault = "there is no key";
	return -EINVAL;
}

/* What can't be used is left out: the master has looked at all of them. */
static int load(struct tls_server *s, struct tls_served *served, const struct conf_certificate *c,
		size_t count, size_t *budget)
{
	served->certificates = calloc(count + 1, sizeof(*served->certificates));
	if (served->certificates == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const char *fault = "";

		if (take(s, &served->certificates[served->count], &c[i], budget, &fault) == 0)
			served->count++;
		else
			log_error("certificate_not_used", "file=%.*s fault=\"%s\"",
				  VIEW_ARG(c[i].certificate_path), fault);
	}
	return 0;
}

static void served_fini(struct tls_served *served)
{
	for (size_t i = 0; i < served->count; i++)
		tls_certificate_fini(&served->certificates[i]);
	free(served->certificates);
}

static int read_client_cas(struct tls_policy *p)
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
	/* Who stands in the file is trusted, a root or not, as an origin's "ca" is. */
	if (p->client_ca_names != NULL && sk_X509_NAME_num(p->client_ca_names) > 0 &&
	    X509_STORE_set_flags(p->client_cas, X509_V_FLAG_PARTIAL_CHAIN) == 1)
		return 0;
	log_error("client_ca_not_used", "site=%.*s", VIEW_ARG(p->site->name));
	X509_STORE_free(p->client_cas);
	p->client_cas = NULL; /* such a site is not served: see may_serve */
	return 0;
}

static void bind_sessions(struct tls_policy *p)
{
	const struct conf_site_tls *tls = &p->site->tls;
	char verify = (char)tls->client_verify;
	const struct view parts[] = { p->site->name, view_of(&verify, 1), tls->client_ca };

	hash_sha256_128(parts, ARRAY_LEN(parts), p->session_context);
}

static int load_site(struct tls_server *s, size_t i, size_t *budget)
{
	struct tls_policy *p = &s->policies[i];
	const struct conf_site *site = &s->conf->sites[i];
	int r;

	p->site = site;
	s->early_data |= site->tls.early_data;
	bind_sessions(p);
	r = load(s, &p->served, site->tls.certificates, site->tls.certificate_count, budget);
	if (r == 0 && site->tls.client_verify != CONF_CLIENT_NONE)
		r = read_client_cas(p);
	return r;
}

static int load_pair(struct tls_server *s, size_t i, size_t *budget)
{
	return load(s, &s->directory[i], &s->conf->tls_directory[i], 1, budget);
}

/* Of several certificates with the same name, the last to expire serves it. */
static void sort_names(struct tls_server *s)
{
	size_t kept = 0;

	qsort(s->names, s->name_count, sizeof(*s->names), tls_directory_compare);
	for (size_t i = 0; i < s->name_count; i++) {
		if (kept == 0 || tls_directory_compare(&s->names[kept - 1], &s->names[i]) != 0)
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
		const struct tls_served *served = &s->directory[i];

		for (size_t k = 0; served->count > 0 && k < served->certificates[0].name_count; k++)
			s->names[s->name_count++] = (struct tls_directory_name){
				served->certificates[0].names[k], served
			};
	}
	sort_names(s);
	return 0;
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

int tls_server_prepare(struct tls_server *s)
{
	s->policies = calloc(s->conf->site_count + 1, sizeof(*s->policies));
	s->directory = calloc(s->conf->tls_directory_count + 1, sizeof(*s->directory));
	if (s->policies == NULL || s->directory == NULL)
		return -ENOMEM;
	return s->before != NULL ? tls_known_init(&s->known, s->before) : 0;
}

static void forget_before(struct tls_server *s)
{
	tls_known_fini(&s->known);
	tls_server_unref(s->before);
	s->before = NULL;
}

static int complete(struct tls_server *s)
{
	int r = name_directory(s);

	if (r == 0)
		r = read_file_keys(s);
	if (r == 0)
		forget_before(s);
	return r;
}

static bool is_loaded(const struct tls_server *s)
{
	return s->site_count == s->conf->site_count &&
	       s->directory_count == s->conf->tls_directory_count;
}

int tls_server_load(struct tls_server *s, size_t count)
{
	int r = 0;

	while (r == 0 && count > 0 && s->site_count < s->conf->site_count)
		r = load_site(s, s->site_count++, &count);
	while (r == 0 && count > 0 && s->directory_count < s->conf->tls_directory_count)
		r = load_pair(s, s->directory_count++, &count);
	if (r != 0)
		return r;
	return is_loaded(s) ? complete(s) : 1;
}

static void policies_fini(struct tls_server *s)
{
	for (size_t i = 0; s->policies != NULL && i < s->conf->site_count; i++) {
		struct tls_policy *p = &s->policies[i];

		served_fini(&p->served);
		X509_STORE_free(p->client_cas);
		sk_X509_NAME_pop_free(p->client_ca_names, X509_NAME_free);
	}
	free(s->policies);
}

void tls_server_unload(struct tls_server *s)
{
	policies_fini(s);
	for (size_t i = 0; i < s->directory_count; i++)
		served_fini(&s->directory[i]);
	free(s->directory);
	free(s->names);
	if (s->file_keys != NULL)
		explicit_bzero(s->file_keys, s->file_key_count * sizeof(*s->file_keys));
	free(s->file_keys);
	forget_before(s);
}
