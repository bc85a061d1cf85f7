/*
 * Readers of what TLS needs: certificates with their keys, tickets, CAs; and of who may call the admin API. A
 * certificate and its key may stand in different layers of a site ("defaults" and its own keys) only as a whole:
 * who names one of them names both.
 */
#include <cjson/cJSON.h>
#include <errno.h>

#include "conf/apply.h"
#include "conf/files.h"
#include "conf/special.h"
#include "conf/value.h"

enum { TICKET_KEY_BYTES = 80 };

/* --- listeners */

static const char *protocol_fault(struct view v)
{
	if (view_eq(v, VIEW("h2")) || view_eq(v, VIEW("http/1.1")))
		return NULL;
	return "must be \"h2\" or \"http/1.1\"";
}

void conf_read_protocols(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_listener *listener = CONTAINER_OF(member, struct conf_listener, http1);
	struct conf_list list = { 0 };

	conf_read_list(r, value, 1, protocol_fault, &list);
	listener->http1 = listener->http2 = false;
	for (size_t i = 0; i < list.count; i++) {
		listener->http1 |= view_eq(list.at[i], VIEW("http/1.1"));
		listener->http2 |= view_eq(list.at[i], VIEW("h2"));
	}
}

/* --- certificates */

/* Where a key of this object stands, or the i-th element of its list. */
static size_t enter_file(struct conf_reader *r, const cJSON *object, const char *name, size_t i)
{
	size_t mark = conf_reader_enter(r, name);

	if (cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(object, name)))
		conf_reader_enter_index(r, i);
	return mark;
}

static void read_contents(struct conf_reader *r, const cJSON *object, const char *name, size_t i,
			  enum conf_file_kind kind, struct view path, struct view *out)
{
	size_t mark = enter_file(r, object, name, i);

	/* A fault is told: the snapshot won't be used. */
	if (!conf_file_read(r, kind, path, out))
		*out = VIEW("");
	conf_reader_leave(r, mark);
}

/* As many of one as of the others? */
static bool match_counts(struct conf_reader *r, const char *name, size_t count, size_t certificates)
{
	size_t mark;

	if (count == certificates)
		return true;
	mark = conf_reader_enter(r, name);
	if (certificates == 0)
		conf_reader_fault(r, "is of no use without \"certificate\" beside it");
	else
		conf_reader_fault(r, "must name one file for each certificate, in their order: %zu in all",
				  certificates);
	conf_reader_leave(r, mark);
	return false;
}

/* Lists in which an element was refused are shorter than the file says; that is told. */
static bool whole(const cJSON *object, const char *name, size_t count)
{
	const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);

	return (size_t)(cJSON_IsArray(value) ? cJSON_GetArraySize(value) : cJSON_IsString(value)) ==
	       count;
}

static void join_pairs(struct conf_reader *r, const cJSON *object, const struct conf_pair_parts *p,
		       struct conf_certificate **out, size_t *out_count)
{
	size_t count = p->certificate.count;
	struct conf_certificate *at;

	if (!whole(object, "certificate", count) || !whole(object, "key", p->key.count) ||
	    !whole(object, "ocsp", p->ocsp.count))
		return;
	if (!match_counts(r, "key", p->key.count, count) ||
	    (p->ocsp.count > 0 && !match_counts(r, "ocsp", p->ocsp.count, count)))
		return;
	at = conf_reader_alloc(r, count * sizeof(*at));
	for (size_t i = 0; at != NULL && i < count; i++) {
		at[i].certificate_path = p->certificate.at[i];
		at[i].key_path = p->key.at[i];
		read_contents(r, object, "certificate", i, CONF_FILE_PUBLIC, at[i].certificate_path,
			      &at[i].certificate);
		read_contents(r, object, "key", i, CONF_FILE_SECRET, at[i].key_path, &at[i].key);
		if (p->ocsp.count == 0)
			continue;
		at[i].ocsp_path = p->ocsp.at[i];
		read_contents(r, object, "ocsp", i, CONF_FILE_PUBLIC, at[i].ocsp_path, &at[i].ocsp);
	}
	*out = at;
	*out_count = at == NULL ? 0 : count;
}

static bool names_pair(const cJSON *object)
{
	return cJSON_GetObjectItemCaseSensitive(object, "certificate") != NULL ||
	       cJSON_GetObjectItemCaseSensitive(object, "key") != NULL ||
	       cJSON_GetObjectItemCaseSensitive(object, "ocsp") != NULL;
}

/* One certificate: of an origin's client, of the admin API. */
static void join_pair(struct conf_reader *r, const cJSON *object, struct view *certificate,
		      struct view *key, struct conf_certificate *out)
{
	const struct conf_pair_parts parts = {
		.certificate = { certificate, certificate->n > 0 },
		.key = { key, key->n > 0 },
	};
	struct conf_certificate *pair = NULL;
	size_t count = 0;

	join_pairs(r, object, &parts, &pair, &count);
	if (count == 1)
		*out = *pair;
}

void conf_read_site_tls(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_site_tls *tls = member;
	struct conf_site_tls_parts parts = { .tls = *tls };
	uint64_t seen = 0;

	conf_apply(r, &conf_scope_site_tls, value, &parts, &seen);
	if (names_pair(value))
		join_pairs(r, value, &parts.pair, &parts.tls.certificates, &parts.tls.certificate_count);
	*tls = parts.tls;
}

void conf_read_client_ca(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_site_tls *tls = CONTAINER_OF(member, struct conf_site_tls, client_ca_path);

	conf_read_file(r, value, CONF_FILE_PUBLIC, &tls->client_ca_path, &tls->client_ca);
}

void conf_read_origin_tls(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_origin_tls *tls = member;
	struct conf_origin_tls_parts parts = { .tls = *tls };
	uint64_t seen = 0;

	conf_apply(r, &conf_scope_origin_tls, value, &parts, &seen);
	if (names_pair(value))
		join_pair(r, value, &parts.certificate, &parts.key, &parts.tls.client);
	*tls = parts.tls;
}

void conf_read_origin_ca(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_origin_tls *tls = CONTAINER_OF(member, struct conf_origin_tls, ca_path);

	tls->ca_path = tls->ca = VIEW("");
	if (!cJSON_IsString(value) || strcmp(value->valuestring, "system") != 0)
		conf_read_file(r, value, CONF_FILE_PUBLIC, &tls->ca_path, &tls->ca);
}

void conf_read_admin_tls(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_admin_tls_parts parts = { 0 };
	uint64_t seen = 0;

	conf_apply(r, &conf_scope_admin_tls, value, &parts, &seen);
	if (cJSON_IsObject(value) && !names_pair(value))
		conf_reader_fault(r, "needs \"certificate\" and \"key\"");
	join_pair(r, value, &parts.certificate, &parts.key, member);
}

/* --- single files */

void conf_read_file(struct conf_reader *r, const cJSON *value, enum conf_file_kind kind,
		    struct view *out_path, struct view *out)
{
	const struct conf_key key = {
		.path = "", .type = CONF_STRING, .bytes = sizeof(*out_path), .valid = conf_valid_file
	};
	struct view path = { 0 };

	conf_apply_key(r, &key, value, &path);
	if (path.n == 0 || !conf_file_read(r, kind, path, out))
		return;
	*out_path = path;
}

void conf_read_directory(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf *c = CONTAINER_OF(member, struct conf, tls_directory_path);
	const struct conf_key key = { .path = "",
				      .type = CONF_STRING,
				      .flags = CONF_NULL,
				      .bytes = sizeof(c->tls_directory_path),
				      .valid = conf_valid_file };

	conf_apply_key(r, &key, value, &c->tls_directory_path);
	if (c->tls_directory_path.n > 0 &&
	    !conf_file_directory(r, c->tls_directory_path, &c->tls_directory, &c->tls_directory_count))
		c->tls_directory_count = 0;
}

void conf_read_tickets(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_list *keys = member, paths = { 0 };

	conf_read_list(r, value, 0, conf_valid_file, &paths);
	for (size_t i = 0; i < paths.count; i++) {
		size_t mark = strlen(r->at);
		struct view contents = { 0 };

		if (cJSON_IsArray(value))
			conf_reader_enter_index(r, i);
		if (conf_file_read(r, CONF_FILE_SECRET, paths.at[i], &contents) && contents.n > 0 &&
		    contents.n != TICKET_KEY_BYTES)
			conf_reader_fault(
				r, "%.*s has %zu bytes, a ticket's keys have %d (openssl rand %d)",
				VIEW_ARG(paths.at[i]), contents.n, TICKET_KEY_BYTES, TICKET_KEY_BYTES);
		conf_reader_leave(r, mark);
		paths.at[i] = contents;
	}
	/* Not in this process: none of them is. */
	*keys = paths.count > 0 && paths.at[0].n > 0 ? paths : (struct conf_list){ 0 };
}

void conf_read_token(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_token *token = CONTAINER_OF(member, struct conf_token, path);
	const struct conf_key key = {
		.path = "", .type = CONF_STRING, .bytes = sizeof(token->path), .valid = conf_valid_file
	};

	conf_apply_key(r, &key, value, &token->path);
	if (token->path.n > 0 && !conf_file_token(r, token->path, token->sha256))
		token->path = VIEW("");
}

/* --- hsts */

void conf_read_hsts(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_hsts hsts = { .max_age_ms = -1 };

	if (!cJSON_IsNull(value))
		conf_apply_element(r, &conf_scope_hsts, value, &hsts);
	memcpy(member, &hsts, sizeof(hsts));
}
