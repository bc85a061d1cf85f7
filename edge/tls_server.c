/*
 * One OpenSSL context for all: what is asked of clients and whether early data is taken are set on the connection when its
 * ClientHello has been read, before OpenSSL decides anything (so that a name decides about resumption, too); the
 * certificate when no session is resumed. A context for each certificate, the usual way, would take some ten KiB and a fifth of a
 * millisecond for each of a thousand certificates at every reload.
 */
#include "edge/tls_server.h"

#include <errno.h>
#include <stdlib.h>

#include "edge/base/tls.h"
#include "edge/text.h"
#include "edge/tls_server_parts.h"

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

struct tls_identity *tls_identity_of(const SSL *ssl)
{
	return SSL_get_ex_data(ssl, identity_index());
}

/* --- life ------------------------------------------------------------------------------------- */

static int make_context(struct tls_server *s)
{
	SSL_CTX *c = tls_context(true);
	uint64_t seconds = 2 * s->conf->ticket_rotate_ms / 1000, week = 7 * 24 * 3600;

	if (c == NULL)
		return -ENOMEM;
	s->context = c;
	tls_hello_answer(c);
	SSL_CTX_set_timeout(c, (long)(seconds < week ? seconds : week));
	return 0;
}

struct tls_server *tls_server_new(struct conf *c, struct tls_tickets *tickets, struct tls_server *before)
{
	struct tls_server *s = calloc(1, sizeof(*s));
	int r;

	if (s == NULL)
		return NULL;
	s->magic = TLS_SERVER_MAGIC;
	s->refs = 1;
	s->conf = conf_ref(c);
	s->tickets = tickets;
	s->before = before;
	if (before != NULL)
		before->refs++;
	r = make_context(s);
	if (r == 0)
		r = tls_server_prepare(s);
	if (r == 0)
		return s;
	tls_server_unref(s);
	return NULL;
}

void tls_server_unref(struct tls_server *s)
{
	if (s == NULL)
		return;
	CHECK_MAGIC(s, TLS_SERVER_MAGIC);
	if (--s->refs > 0)
		return;
	tls_server_unload(s);
	SSL_CTX_free(s->context);
	conf_unref(s->conf);
	s->magic = 0;
	free(s);
}

/* --- connections ------------------------------------------------------------------------------------ */

static int64_t earliest(const struct tls_served *served)
{
	int64_t ms = INT64_MAX;

	for (size_t i = 0; served != NULL && i < served->count; i++)
		if (served->certificates[i].expires_ms < ms)
			ms = served->certificates[i].expires_ms;
	return ms;
}

int64_t tls_server_expiry(const struct tls_server *s, const struct conf_site *site)
{
	int64_t ms = INT64_MAX;

	for (size_t i = 0; i < site->hosts.count; i++) {
		const struct tls_policy *p;
		const struct tls_served *served = tls_hello_choose(s, site->hosts.at[i], &p);
		int64_t at = served != NULL && p->site == site ? earliest(served) : INT64_MAX;

		ms = at < ms ? at : ms;
	}
	return ms == INT64_MAX ? 0 : ms / 1000;
}

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

struct view tls_server_asked(struct io *io)
{
	const struct tls_identity *id = tls_identity_of(tls_ssl(io));

	return id->site != NULL ? id->site->name : (struct view){ 0 };
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
	struct tls_identity *id = tls_identity_of(ssl);

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
	return n == 0 ? !tls_identity_of(ssl)->listener->http1
		      : view_eq(view_of((const char *)name, n), VIEW("h2"));
}

/* A reload may have changed what a site wants of clients. */
static bool was_asked(const struct tls_identity *id, const struct conf_site *site)
{
	const struct conf_site_tls *then = &id->site->tls, *now = &site->tls;

	return id->site_hash == site->name_hash &&
	       (then == now || (then->client_verify == now->client_verify &&
				view_eq(then->client_ca, now->client_ca)));
}

bool tls_identity_serves(const struct tls_identity *id, const struct conf_site *site, struct view host)
{
	if (site->tls.client_verify != CONF_CLIENT_NONE)
		return was_asked(id, site);
	if (id->site_hash == site->name_hash)
		return true;
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
