/*
 * What OpenSSL makes of the files that a configuration names. A fault here is one that a client would meet later as a
 * failed handshake, at best: a key of another certificate, a chain in the wrong order, a host that no certificate
 * names. Each pair is looked at once, however many sites name it ("defaults" does).
 */
#include "edge/tls_check.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "edge/base/clock.h"
#include "edge/base/tls.h"
#include "edge/tls_check_pair.h"

static const struct tls_pair_keys named = { "certificate", "key", "ocsp" }, unnamed = { 0 };

/* The object that is looked at next. */
static void stand_at(struct tls_checker *t, size_t count, const char *format, ...) PRINTF_LIKE(3, 4);

static void stand_at(struct tls_checker *t, size_t count, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(t->at, sizeof(t->at), format, args);
	va_end(args);
	t->count = count;
	t->index = 0;
}

/* --- names */

/* "*.shop.example" has to be there as it is: what names one host below it is not enough. */
static bool names_wildcard(X509 *x, struct view host)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
	bool found = false;

	for (int i = 0; i < sk_GENERAL_NAME_num(names) && !found; i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

		if (name->type != GEN_DNS)
			continue;
		found = view_eq_nocase(host,
				       view_of((const char *)ASN1_STRING_get0_data(name->d.dNSName),
					       (size_t)ASN1_STRING_length(name->d.dNSName)));
	}
	GENERAL_NAMES_free(names);
	return found;
}

static bool names_host(X509 *x, struct view host)
{
	const unsigned flags = X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
			       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;
	char text[SOCK_ADDR_TEXT];
	struct sock_addr address;

	if (view_starts(host, VIEW("*.")))
		return names_wildcard(x, host);
	if (sock_addr_literal(host, 1, &address) == 0)
		return X509_check_ip_asc(x, sock_addr_host(&address, text), 0) == 1;
	return X509_check_host(x, host.p, host.n, flags, NULL) == 1;
}

static bool any_names(STACK_OF(X509) * all, struct view host)
{
	for (int i = 0; i < sk_X509_num(all); i++) {
		if (names_host(sk_X509_value(all, i), host))
			return true;
	}
	return false;
}

/* "*" can't be in a certificate: for such a site its certificates are what it has. */
static void check_hosts(struct tls_checker *t, size_t site_index, STACK_OF(X509) * leaves)
{
	const struct conf_site *site = &t->conf->sites[site_index];

	(void)snprintf(t->at, sizeof(t->at), "/sites/%zu/hosts", site_index);
	for (size_t i = 0; i < site->hosts.count; i++) {
		struct view host = site->hosts.at[i];
		char place[CONF_POINTER_BYTES + 24];

		if (view_eq(host, VIEW("*")) || any_names(leaves, host) || any_names(t->directory, host))
			continue;
		(void)snprintf(place, sizeof(place), "%s/%zu", t->at, i);
		conf_fault_at(t->faults, t->places, place,
			      "no certificate of the site or of \"tls.directory\" names %.*s",
			      VIEW_ARG(host));
	}
}

/* --- all of them */

/* The same files, looked at for an earlier site? */
static bool seen_before(const struct conf *c, size_t site_index, const struct conf_certificate *pair)
{
	for (size_t i = 0; i < site_index; i++) {
		for (size_t j = 0; j < c->sites[i].tls.certificate_count; j++) {
			const struct conf_certificate *other = &c->sites[i].tls.certificates[j];

			if (view_eq(other->certificate_path, pair->certificate_path) &&
			    view_eq(other->key_path, pair->key_path) &&
			    view_eq(other->ocsp_path, pair->ocsp_path))
				return true;
		}
	}
	return false;
}

/* The pair's first certificate, for the names in it. Takes p. */
static void keep_leaf(struct tls_pair *p, STACK_OF(X509) * leaves)
{
	if (p->leaf != NULL && X509_up_ref(p->leaf) == 1 && sk_X509_push(leaves, p->leaf) == 0)
		X509_free(p->leaf);
	tls_pair_fini(p);
}

/* Clients choose by kind: the second of a kind would never be sent. */
static void check_kinds(const struct tls_checker *t, STACK_OF(X509) * leaves)
{
	int last = sk_X509_num(leaves) - 1;
	EVP_PKEY *key = last < 1 ? NULL : X509_get0_pubkey(sk_X509_value(leaves, last));

	for (int i = 0; i < last && key != NULL; i++) {
		EVP_PKEY *other = X509_get0_pubkey(sk_X509_value(leaves, i));

		if (other != NULL && EVP_PKEY_get_base_id(other) == EVP_PKEY_get_base_id(key))
			TLS_TELL(t, "certificate",
				 "has the same kind of key as another one of the site");
	}
}

static void check_site_pair(struct tls_checker *t, size_t site_index,
			    const struct conf_certificate *conf, STACK_OF(X509) * leaves)
{
	struct tls_pair p = { 0 };

	if (seen_before(t->conf, site_index, conf)) {
		p.chain = tls_pair_chain(conf->certificate);
		p.leaf = p.chain == NULL ? NULL : sk_X509_value(p.chain, 0);
	} else {
		(void)tls_pair_check(t, &named, conf, &p);
	}
	keep_leaf(&p, leaves);
	check_kinds(t, leaves);
}

static void check_ca(const struct tls_checker *t, const char *key, struct view path, struct view contents)
{
	STACK_OF(X509) *all = tls_pair_chain(contents);

	if (all == NULL)
		TLS_TELL(t, key, "%s holds no certificate, or a broken one (PEM)", path.p);
	sk_X509_pop_free(all, X509_free);
}

/* Without TLS nobody is asked for a certificate. */
static void check_plain_way(const struct tls_checker *t, size_t site_index)
{
	const struct conf_site *site = &t->conf->sites[site_index];
	const struct conf_listener *l = t->conf->listeners;
	char place[CONF_POINTER_BYTES], address[SOCK_ADDR_TEXT];
	size_t i = 0;

	if (site->tls.client_verify != CONF_CLIENT_REQUIRE || site->https_redirect)
		return;
	while (i < t->conf->listener_count && l[i].tls)
		i++;
	if (i == t->conf->listener_count)
		return;
	(void)snprintf(place, sizeof(place), "/sites/%zu/tls/client/verify", site_index);
	conf_warning_at(t->faults, t->places, place,
			"%s has no TLS and serves the site to clients without a certificate: set "
			"\"https_redirect\"",
			sock_addr_text(&l[i].address, address));
}

/* A CA is given and nobody is asked: "defaults" may have it so, but it may as well be half of what was meant. */
static void check_asking(const struct tls_checker *t, size_t site_index)
{
	const struct conf_site_tls *tls = &t->conf->sites[site_index].tls;
	char place[CONF_POINTER_BYTES];

	if (tls->client_ca_path.n == 0 || tls->client_verify != CONF_CLIENT_NONE)
		return;
	(void)snprintf(place, sizeof(place), "/sites/%zu/tls/client/ca", site_index);
	conf_warning_at(t->faults, t->places, place,
			"no client is asked for a certificate: \"verify\" is \"none\"");
}

/* The redirect's target must be spoken by somebody: a listener, or a proxy before us that says so. */
static void check_redirect(const struct tls_checker *t, size_t site_index)
{
	const struct conf *c = t->conf;
	char place[CONF_POINTER_BYTES];
	size_t i = 0;

	while (i < c->listener_count && !c->listeners[i].tls)
		i++;
	if (!c->sites[site_index].https_redirect || i < c->listener_count ||
	    c->trusted_proxies.count > 0)
		return;
	(void)snprintf(place, sizeof(place), "/sites/%zu/https_redirect", site_index);
	conf_warning_at(
		t->faults, t->places, place,
		"no listener has TLS, and no proxy of \"trusted_proxies\" could: who is redirected "
		"comes back for ever, or nowhere");
}

static void check_site(struct tls_checker *t, size_t i)
{
	const struct conf_site_tls *tls = &t->conf->sites[i].tls;
	STACK_OF(X509) *leaves = sk_X509_new_null();

	stand_at(t, tls->certificate_count, "/sites/%zu/tls", i);
	for (; leaves != NULL && t->index < tls->certificate_count; t->index++)
		check_site_pair(t, i, &tls->certificates[t->index], leaves);
	if (sk_X509_num(leaves) > 0)
		check_hosts(t, i, leaves);
	stand_at(t, 1, "/sites/%zu/tls/client", i);
	if (tls->client_ca_path.n > 0)
		check_ca(t, "ca", tls->client_ca_path, tls->client_ca);
	sk_X509_pop_free(leaves, X509_free);
	check_plain_way(t, i);
	check_asking(t, i);
	check_redirect(t, i);
}

/* A certificate that names nobody would never be taken from there. */
static bool names_any(X509 *x)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
	bool any = sk_GENERAL_NAME_num(names) > 0;

	GENERAL_NAMES_free(names);
	return any;
}

static void check_directory(struct tls_checker *t)
{
	stand_at(t, 1, "/tls/directory");
	for (size_t i = 0; i < t->conf->tls_directory_count; i++) {
		const struct conf_certificate *conf = &t->conf->tls_directory[i];
		struct tls_pair p;

		if (tls_pair_check(t, &unnamed, conf, &p) && !names_any(p.leaf))
			TLS_TELL(t, NULL, "%s names no host (subjectAltName)",
				 conf->certificate_path.p);
		keep_leaf(&p, t->directory);
	}
}

static void check_one(struct tls_checker *t, const struct conf_certificate *conf)
{
	struct tls_pair p = { 0 };

	if (conf->certificate_path.n > 0)
		(void)tls_pair_check(t, &named, conf, &p);
	tls_pair_fini(&p);
}

static void check_origin(struct tls_checker *t, const struct conf_origin *origin)
{
	char pointer[CONF_POINTER_BYTES] = "/origins", name[CONF_POINTER_BYTES];

	(void)snprintf(name, sizeof(name), "%.*s", VIEW_ARG(origin->name));
	conf_pointer_add(pointer, name);
	conf_pointer_add(pointer, "tls");
	stand_at(t, 1, "%s", pointer);
	t->for_origin = true;
	check_one(t, &origin->tls.client);
	t->for_origin = false;
	if (origin->tls.ca_path.n > 0)
		check_ca(t, "ca", origin->tls.ca_path, origin->tls.ca);
}

static void check_all(struct tls_checker *t)
{
	check_directory(t);
	for (size_t i = 0; i < t->conf->site_count; i++)
		check_site(t, i);
	stand_at(t, 1, "/admin/tls");
	check_one(t, &t->conf->admin_tls);
	for (size_t i = 0; i < t->conf->origin_count; i++)
		check_origin(t, &t->conf->origins[i]);
}

void tls_check(const struct conf *c, const struct conf_places *places, struct conf_faults *faults)
{
	struct tls_checker t = { .conf = c,
				 .places = places,
				 .faults = faults,
				 .now = (time_t)(clock_wall().ms / 1000),
				 .context = tls_context(true),
				 .directory = sk_X509_new_null() };

	if (t.directory != NULL && t.context != NULL)
		check_all(&t);
	else
		conf_fault(faults, "configuration", "no memory to check its certificates");
	sk_X509_pop_free(t.directory, X509_free);
	SSL_CTX_free(t.context);
	ERR_clear_error();
}
