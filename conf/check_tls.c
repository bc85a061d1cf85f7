/*
 * TLS as far as the configuration alone tells: who has a certificate at all. What is in the files is looked at by the
 * master (edge/tls_check.c), with OpenSSL.
 */
#include "conf/check.h"

/* At /list/index/key. */
#define fault_in(r, list, index, key, ...)                      \
	do {                                                    \
		size_t fault_mark = conf_reader_enter(r, list); \
		conf_reader_enter_index(r, index);              \
		conf_reader_enter(r, key);                      \
		conf_reader_fault(r, __VA_ARGS__);              \
		conf_reader_leave(r, fault_mark);               \
	} while (0)

static bool has_certificates(const struct conf *c)
{
	for (size_t i = 0; i < c->site_count; i++) {
		if (c->sites[i].tls.certificate_count > 0)
			return true;
	}
	return c->tls_directory_path.n > 0;
}

/* Told alone: a certificate that was refused for something else is there. */
static void check_listeners(struct conf_reader *r)
{
	const struct conf *c = r->conf;
	bool any = has_certificates(c) || r->faults->count > 0;

	for (size_t i = 0; i < c->listener_count && !any; i++) {
		if (c->listeners[i].tls)
			fault_in(r, "listeners", i,
				 "tls", "there is no certificate: give a site one (\"tls\"), or \"tls.directory\"");
	}
}

static void check_default(struct conf_reader *r, size_t i)
{
	const struct conf_site *site = &r->conf->sites[i];

	if (!site->tls.fallback)
		return;
	if (site->tls.certificate_count == 0)
		fault_in(r, "sites", i, "tls", "the default needs a certificate of the site's own");
	for (size_t j = 0; j < i; j++) {
		if (!r->conf->sites[j].tls.fallback)
			continue;
		fault_in(r, "sites", i, "tls",
			 "the site \"%.*s\" is the default already: there can be one",
			 VIEW_ARG(r->conf->sites[j].name));
		return;
	}
}

/* What the lists that browsers are built with ask for (hstspreload.org). */
static bool may_be_preloaded(const struct conf_hsts *hsts)
{
	return hsts->subdomains && hsts->max_age_ms >= 365LL * 86400 * 1000;
}

static void check_site(struct conf_reader *r, size_t i)
{
	const struct conf_site *site = &r->conf->sites[i];

	check_default(r, i);
	if (site->tls.client_verify != CONF_CLIENT_NONE && site->tls.client_ca_path.n == 0)
		fault_in(r, "sites", i,
			 "tls", "clients' certificates can't be verified: name who signs them in \"client.ca\"");
	if (site->hsts.preload && !may_be_preloaded(&site->hsts))
		fault_in(r, "sites", i,
			 "hsts", "to be preloaded it needs \"include_subdomains\" and a \"max_age\" of 365d");
}

void conf_check_tls(struct conf_reader *r)
{
	check_listeners(r);
	for (size_t i = 0; i < r->conf->site_count; i++)
		check_site(r, i);
}
