/* A table of kinds, each a list in the body, read one after the other. See admin_purge_names.h. */
#include "edge/admin_purge_names.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "edge/base/log.h"
#include "edge/http/uri.h"
#include "edge/scopes.h"

enum { ITEMS_AT_ONCE = 128, TOLD_BYTES = 128 };

typedef int item_fn(struct purge_names *n, struct view text);

static item_fn add_url, add_prefix, add_tag, add_host, add_site;

static const struct {
	const char *key;
	item_fn *add;
} kinds[] = {
	{ "urls", add_url },   { "prefixes", add_prefix }, { "tags", add_tag },
	{ "hosts", add_host }, { "sites", add_site },
};

static const char *const known[] = { "urls",  "prefixes", "tags", "site",    "hosts",
				     "sites", "all",	  "soft", "dry_run", NULL };

/* --- faults ------------------------------------------------------------------------------------------ */

static int fault_at(struct purge_names *n, const char *pointer, const char *message, int error)
{
	(void)snprintf(n->fault.pointer, sizeof(n->fault.pointer), "%s", pointer);
	(void)snprintf(n->fault.message, sizeof(n->fault.message), "%s", message);
	return error;
}

static int fault(struct purge_names *n, const char *message, int error)
{
	char pointer[64];

	(void)snprintf(pointer, sizeof(pointer), "/%s/%u", kinds[n->kind].key, n->index);
	return fault_at(n, pointer, message, error);
}

static int may_touch(struct purge_names *n, const struct conf_site *site)
{
	if (admin_call_site(n->call, site->name))
		return 0;
	return fault(n, "of a site that this token may not touch", -EPERM);
}

/* --- scopes ------------------------------------------------------------------------------------------- */

static int add_scope(struct purge_names *n, const struct cache_scope *scope)
{
	if (n->count == n->capacity) {
		unsigned capacity = n->capacity == 0 ? 64 : n->capacity * 2;
		struct cache_scope *scopes = realloc(n->scopes, capacity * sizeof(*scopes));

		if (scopes == NULL)
			return -ENOMEM;
		n->scopes = scopes;
		n->capacity = capacity;
	}
	n->scopes[n->count++] = *scope;
	return 0;
}

/* What http and https have in common is there once. first: where the item's scopes begin. */
static int add_distinct(struct purge_names *n, unsigned first, const struct cache_scope *scopes,
			unsigned count)
{
	int r = 0;

	for (unsigned i = 0; i < count && r == 0; i++) {
		bool there = false;

		for (unsigned at = first; at < n->count; at++)
			there |= n->scopes[at].hash == scopes[i].hash;
		r = there ? 0 : add_scope(n, &scopes[i]);
	}
	return r;
}

/* --- URLs and prefixes ----------------------------------------------------------------------------------- */

struct parts {
	struct view scheme; /* empty: both */
	struct view authority, path;
};

static int split(struct view text, struct parts *out)
{
	const char *slash;
	struct uri uri;

	if (memmem(text.p, text.n, "://", 3) != NULL) {
		if (uri_parse(text, &uri) != 0 ||
		    (!view_eq(uri.scheme, VIEW("http")) && !view_eq(uri.scheme, VIEW("https"))))
			return -EINVAL;
		*out = (struct parts){ uri.scheme, uri.authority, uri.path };
		return 0;
	}
	slash = memchr(text.p, '/', text.n);
	out->scheme = (struct view){ 0 };
	out->authority = view_of(text.p, slash != NULL ? (size_t)(slash - text.p) : text.n);
	out->path = slash != NULL ? view_skip(text, out->authority.n) : VIEW("/");
	return 0;
}

/* The arena's memory is of one item alone. */
static int target(struct purge_names *n, struct view scheme, const struct parts *p, struct arena *a,
		  struct target *out)
{
	int r = target_of(n->call->conf, scheme, p->authority, p->path, a, out);

	if (r == -ENOENT)
		return fault(n, "no site serves this host", -EINVAL);
	if (r == -EINVAL)
		return fault(n, "not a URL", -EINVAL);
	return r == 0 ? may_touch(n, out->site) : r;
}

typedef int target_fn(struct purge_names *n, unsigned first, const struct target *t);

static int with_scheme(struct purge_names *n, unsigned first, struct view scheme,
		       const struct parts *p, target_fn *fn)
{
	struct arena a;
	struct target t;
	int r;

	arena_init(&a, ADMIN_BODY_MAX);
	r = target(n, scheme, p, &a, &t);
	if (r == 0)
		r = fn(n, first, &t);
	arena_fini(&a);
	return r;
}

static int with_schemes(struct purge_names *n, struct view text, target_fn *fn)
{
	unsigned first = n->count;
	struct parts p;
	int r;

	if (split(text, &p) != 0)
		return fault(n, "not an http or https URL", -EINVAL);
	if (p.scheme.n != 0)
		return with_scheme(n, first, p.scheme, &p, fn);
	r = with_scheme(n, first, VIEW("http"), &p, fn);
	return r == 0 ? with_scheme(n, first, VIEW("https"), &p, fn) : r;
}

static int url_target(struct purge_names *n, unsigned first, const struct target *t)
{
	struct cache_scope scopes[SCOPES_OF_URL_MAX];

	return add_distinct(n, first, scopes, scopes_of_url(t, scopes));
}

static int add_url(struct purge_names *n, struct view text)
{
	return with_schemes(n, text, url_target);
}

static int prefix_target(struct purge_names *n, unsigned first, const struct target *t)
{
	struct cache_scope scopes[SCOPES_OF_HOST_MAX];
	unsigned count = scopes_of_prefix(t, scopes);

	if (count == 0)
		return fault(n, "longer than 4095 bytes", -EINVAL);
	return add_distinct(n, first, scopes, count);
}

/* A star at its end is what people are used to write: it names nothing else. */
static int add_prefix(struct purge_names *n, struct view text)
{
	if (text.n != 0 && text.p[text.n - 1] == '*')
		text.n--;
	return with_schemes(n, text, prefix_target);
}

/* --- tags, hosts, sites ------------------------------------------------------------------------------------- */

static int add_tag(struct purge_names *n, struct view text)
{
	struct cache_scope scope = cache_scope_tag(n->tags_of != NULL ? n->tags_of->name_hash : 0, text);
	bool separated = false;

	for (size_t i = 0; i < text.n; i++)
		separated |= text.p[i] == ' ' || text.p[i] == ',' || text.p[i] == '\t';
	if (text.n == 0 || separated)
		return fault(n, "not one tag: spaces and commas separate them", -EINVAL);
	return add_scope(n, &scope);
}

static int host_target(struct purge_names *n, unsigned first, const struct target *t)
{
	struct cache_scope scopes[SCOPES_OF_HOST_MAX];

	if (t->host.n != t->authority.n)
		return fault(n, "not a host name (without a port)", -EINVAL);
	return add_distinct(n, first, scopes, scopes_of_host(t, scopes));
}

static int add_host(struct purge_names *n, struct view text)
{
	const struct parts p = { .authority = text, .path = VIEW("/") };

	if (text.n == 0 || (text.p[0] != '[' && memchr(text.p, ':', text.n) != NULL))
		return fault(n, "not a host name (without a port)", -EINVAL);
	return with_scheme(n, n->count, VIEW("http"), &p, host_target);
}

static int add_site(struct purge_names *n, struct view text)
{
	const struct conf_site *site = conf_site_named(n->call->conf, text);
	struct cache_scope scope;
	int r;

	if (site == NULL)
		return fault(n, "no such site", -EINVAL);
	r = may_touch(n, site);
	if (r != 0)
		return r;
	scope = cache_scope_site(site->name_hash);
	return add_scope(n, &scope);
}

/* --- the body ----------------------------------------------------------------------------------------------- */

static int read_flags(struct purge_names *n)
{
	int r = admin_json_only(n->body, known, &n->fault);

	if (r == 0)
		r = admin_json_bool(n->body, "soft", &n->soft, &n->fault);
	if (r == 0)
		r = admin_json_bool(n->body, "dry_run", &n->dry_run, &n->fault);
	return r == 0 ? admin_json_bool(n->body, "all", &n->all, &n->fault) : r;
}

/* To leave the site out is to name all. */
static bool may_name_tags_of_all(const struct admin_call *c)
{
	return admin_call_whole(c) && (c->token == NULL || c->token->role == CONF_ROLE_ADMIN);
}

/* Whose the tags are. */
static int read_site(struct purge_names *n)
{
	const cJSON *site = cJSON_GetObjectItemCaseSensitive(n->body, "site");
	bool tags = cJSON_GetObjectItemCaseSensitive(n->body, "tags") != NULL;

	if (site == NULL && tags && !may_name_tags_of_all(n->call))
		return fault_at(n, "/site",
				"is missing: this token may not purge the tags of all sites", -EPERM);
	if (site == NULL)
		return 0;
	if (!cJSON_IsString(site))
		return fault_at(n, "/site", "must be the name of a site", -EINVAL);
	if (!tags)
		return fault_at(n, "/site", "says whose the tags are, and there are none", -EINVAL);
	n->tags_of = conf_site_named(n->call->conf, view_str(site->valuestring));
	if (n->tags_of == NULL)
		return fault_at(n, "/site", "no such site", -EINVAL);
	if (!admin_call_site(n->call, n->tags_of->name))
		return fault_at(n, "/site", "a site that this token may not touch", -EPERM);
	return 0;
}

static int read_all(struct purge_names *n)
{
	struct cache_scope scope = cache_scope_all();

	if (!n->all)
		return 0;
	if (!admin_call_whole(n->call))
		return fault_at(n, "/all", "this token may not touch all sites", -EPERM);
	n->items++;
	return add_scope(n, &scope);
}

static int too_many(struct purge_names *n, const char *key, size_t first_beyond)
{
	char pointer[64];

	(void)snprintf(pointer, sizeof(pointer), "/%s/%zu", key, first_beyond);
	return fault_at(n, pointer, "too many at once: at most 10000 items", -EINVAL);
}

static int count_items(struct purge_names *n)
{
	size_t total = n->all;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const cJSON *list;
		int r = admin_json_strings(n->body, kinds[i].key, &list, &n->fault);
		size_t count = r == 0 ? (size_t)cJSON_GetArraySize(list) : 0;

		if (r != 0)
			return r;
		if (count > ADMIN_PURGE_ITEMS_MAX - total)
			return too_many(n, kinds[i].key, ADMIN_PURGE_ITEMS_MAX - total);
		total += count;
	}
	if (total == 0)
		return fault_at(n, "", "names nothing: wants urls, prefixes, tags, hosts, sites or all",
				-EINVAL);
	return 0;
}

static void begin_kind(struct purge_names *n, unsigned kind)
{
	const cJSON *list = kind < ARRAY_LEN(kinds)
				    ? cJSON_GetObjectItemCaseSensitive(n->body, kinds[kind].key)
				    : NULL;

	n->kind = kind;
	n->index = 0;
	n->next = list != NULL ? list->child : NULL;
}

int purge_names_begin(struct purge_names *n, struct admin_call *c)
{
	int r;

	n->call = c;
	r = admin_json_parse(c->body, &n->body, &n->fault);
	if (r == 0)
		r = read_flags(n);
	if (r == 0)
		r = count_items(n);
	if (r == 0)
		r = read_site(n);
	if (r == 0)
		r = read_all(n);
	if (r == 0)
		begin_kind(n, 0);
	return r;
}

int purge_names_more(struct purge_names *n)
{
	for (unsigned done = 0; n->kind < ARRAY_LEN(kinds);) {
		int r;

		if (n->next == NULL) {
			begin_kind(n, n->kind + 1);
			continue;
		}
		if (done++ == ITEMS_AT_ONCE)
			return -EAGAIN;
		r = kinds[n->kind].add(n, view_str(n->next->valuestring));
		if (r != 0)
			return r;
		n->next = n->next->next;
		n->index++;
		n->items++;
	}
	return 0;
}

/* Queries may hold what is secret. */
static struct view tell_first(const char *name, struct view told, struct arena *a)
{
	char quoted[2 * TOLD_BYTES + 3];
	size_t n = strcspn(name, "?#");

	return arena_printf(a, "%.*s first=%s", VIEW_ARG(told),
			    log_quote(name, n < TOLD_BYTES ? n : TOLD_BYTES, quoted, sizeof(quoted)));
}

struct view purge_names_told(const struct purge_names *n, struct arena *a)
{
	struct view told = n->all ? VIEW(" all=true") : (struct view){ 0 };
	const cJSON *first = NULL;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const cJSON *list = cJSON_GetObjectItemCaseSensitive(n->body, kinds[i].key);
		int count = cJSON_GetArraySize(list);

		if (count == 0)
			continue;
		first = first != NULL ? first : list->child;
		told = arena_printf(a, "%.*s %s=%d", VIEW_ARG(told), kinds[i].key, count);
	}
	if (n->tags_of != NULL)
		told = arena_printf(a, "%.*s site=%.*s", VIEW_ARG(told), VIEW_ARG(n->tags_of->name));
	return first != NULL ? tell_first(first->valuestring, told, a) : told;
}

void purge_names_fini(struct purge_names *n)
{
	cJSON_Delete(n->body);
	free(n->scopes);
	*n = (struct purge_names){ 0 };
}
