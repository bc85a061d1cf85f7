/*
 * POST /v1/purge. The answer waits until the keeper says that the purge is on disk in every store and that no
 * worker will serve what it names; a client that leaves earlier changes nothing about the purge.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>

#include "edge/admin_call.h"
#include "edge/admin_json.h"
#include "edge/http/uri.h"
#include "edge/scopes.h"

enum { SCOPES_MAX = 10000 };

/* Between the call and the keeper: it outlives the call if the client leaves. */
struct purge {
	struct admin_call *call; /* NULL: nobody waits */
	bool done;
	int result;
	uint64_t sequence;
};

struct purge_request {
	struct admin_call *call;
	struct cache_scope *scopes;
	unsigned count;
	bool soft;
	struct admin_fault fault;
};

static const char *const known[] = { "urls", "sites", "hosts", "all", "soft", NULL };
static const char *const later[] = { "prefixes", "tags", "site", "dry_run" };

static int fault(struct purge_request *r, const char *key, unsigned index, const char *message)
{
	(void)snprintf(r->fault.pointer, sizeof(r->fault.pointer), "/%s/%u", key, index);
	(void)snprintf(r->fault.message, sizeof(r->fault.message), "%s", message);
	return -EINVAL;
}

static int add(struct purge_request *r, const char *key, unsigned index, struct cache_scope scope)
{
	if (r->count == SCOPES_MAX)
		return fault(r, key, index, "too many at once: at most 10000 URLs, hosts and sites");
	r->scopes[r->count++] = scope;
	return 0;
}

/* --- URLs, hosts, sites --------------------------------------------------------------------------- */

static int add_target(struct purge_request *r, unsigned index, struct view scheme,
		      struct view authority, struct view path)
{
	struct cache_scope scopes[SCOPES_OF_URL_MAX];
	struct target t;
	int result = target_of(r->call->admin->conf, scheme, authority, path, &r->call->arena, &t);
	unsigned count;

	if (result == -ENOENT)
		return fault(r, "urls", index, "no site serves this host");
	if (result == -ENOMEM)
		return result;
	if (result != 0)
		return fault(r, "urls", index, "not a URL");
	count = scopes_of_url(&t, scopes);
	for (unsigned i = 0; i < count; i++) {
		result = add(r, "urls", index, scopes[i]);
		if (result != 0)
			return result;
	}
	return 0;
}

static int add_url(struct purge_request *r, unsigned index, struct view text)
{
	struct uri uri;
	const char *slash;
	struct view authority;
	int result;

	if (memmem(text.p, text.n, "://", 3) != NULL) {
		if (uri_parse(text, &uri) != 0 ||
		    (!view_eq(uri.scheme, VIEW("http")) && !view_eq(uri.scheme, VIEW("https"))))
			return fault(r, "urls", index, "not an http or https URL");
		return add_target(r, index, uri.scheme, uri.authority, uri.path);
	}
	slash = memchr(text.p, '/', text.n);
	authority = view_of(text.p, slash != NULL ? (size_t)(slash - text.p) : text.n);
	text = slash != NULL ? view_skip(text, authority.n) : VIEW("/");
	result = add_target(r, index, VIEW("http"), authority, text);
	return result != 0 ? result : add_target(r, index, VIEW("https"), authority, text);
}

static int add_host(struct purge_request *r, unsigned index, struct view text)
{
	struct target t;
	int result = target_of(r->call->admin->conf, VIEW("http"), text, VIEW("/"), &r->call->arena, &t);

	if (result == -ENOENT)
		return fault(r, "hosts", index, "no site serves this host");
	if (result == -ENOMEM)
		return result;
	if (result != 0 || t.host.n != text.n)
		return fault(r, "hosts", index, "not a host name (without a port)");
	return add(r, "hosts", index, cache_scope_host(t.site->name_hash, t.host));
}

static int add_site(struct purge_request *r, unsigned index, struct view text)
{
	const struct conf_site *site = conf_site_named(r->call->admin->conf, text);

	if (site == NULL)
		return fault(r, "sites", index, "no such site");
	return add(r, "sites", index, cache_scope_site(site->name_hash));
}

/* --- the body ----------------------------------------------------------------------------------- */

static int add_list(struct purge_request *r, const cJSON *body, const char *key,
		    int (*add_one)(struct purge_request *, unsigned, struct view))
{
	const cJSON *list, *element;
	unsigned index = 0;
	int result = admin_json_strings(body, key, &list, &r->fault);

	if (result != 0)
		return result;
	cJSON_ArrayForEach(element, list)
	{
		result = add_one(r, index++, view_str(element->valuestring));
		if (result != 0)
			return result;
	}
	return 0;
}

static int check_keys(struct purge_request *r, const cJSON *body)
{
	for (size_t i = 0; i < ARRAY_LEN(later); i++) {
		if (cJSON_GetObjectItemCaseSensitive(body, later[i]) == NULL)
			continue;
		(void)snprintf(r->fault.pointer, sizeof(r->fault.pointer), "/%s", later[i]);
		(void)snprintf(r->fault.message, sizeof(r->fault.message),
			       "not supported by this version yet");
		return -EINVAL;
	}
	return admin_json_only(body, known, &r->fault);
}

static int read_body(struct purge_request *r, const cJSON *body)
{
	bool all = false;
	int result = check_keys(r, body);

	if (result == 0)
		result = admin_json_bool(body, "soft", &r->soft, &r->fault);
	if (result == 0)
		result = admin_json_bool(body, "all", &all, &r->fault);
	if (result == 0)
		result = add_list(r, body, "urls", add_url);
	if (result == 0)
		result = add_list(r, body, "hosts", add_host);
	if (result == 0)
		result = add_list(r, body, "sites", add_site);
	if (result == 0 && all)
		result = add(r, "all", 0, cache_scope_all());
	if (result == 0 && r->count == 0) {
		r->fault.pointer[0] = '\0';
		(void)snprintf(r->fault.message, sizeof(r->fault.message),
			       "names nothing: wants urls, hosts, sites or all");
		return -EINVAL;
	}
	return result;
}

/* --- the keeper --------------------------------------------------------------------------------- */

static void on_purged(void *arg, int result, uint64_t sequence)
{
	struct purge *p = arg;

	if (p->call == NULL) {
		free(p);
		return;
	}
	p->done = true;
	p->result = result;
	p->sequence = sequence;
	ready_post(&p->call->wake);
}

static void drop(struct admin_call *c)
{
	struct purge *p = c->state;

	c->state = NULL;
	if (p->done)
		free(p);
	else
		p->call = NULL;
}

static enum admin_progress finish(struct admin_call *c)
{
	const struct purge *p = c->state;
	cJSON *tree;

	if (!p->done)
		return ADMIN_WAIT;
	if (p->result != 0)
		return admin_error(c, 500, "", "the purge can't be written: %s", strerror(-p->result));
	tree = cJSON_CreateObject();
	(void)cJSON_AddNumberToObject(tree, "purge", (double)p->sequence);
	return admin_answer(c, tree);
}

static enum admin_progress begin(struct admin_call *c, struct purge_request *r)
{
	struct purge *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return admin_error(c, 503, "", "no memory");
	p->call = c;
	p->result = keeper_purge(c->admin->keeper, r->scopes, r->count, r->soft, on_purged, p);
	if (p->result != 0) {
		int error = -p->result;

		free(p);
		return admin_error(c, 503, "", "the purge can't be written: %s", strerror(error));
	}
	c->state = p;
	c->drop = drop;
	return finish(c);
}

enum admin_progress admin_purge(struct admin_call *c)
{
	struct purge_request r = { .call = c };
	cJSON *body = NULL;
	int result;

	if (c->state != NULL)
		return finish(c);
	if (c->admin->keeper == NULL)
		return admin_error(c, 503, "", "the stores are not open");
	r.scopes = arena_alloc(&c->arena, SCOPES_MAX * sizeof(*r.scopes));
	if (r.scopes == NULL)
		return admin_error(c, 503, "", "no memory");
	result = admin_json_parse(c->body, &body, &r.fault);
	if (result == 0)
		result = read_body(&r, body);
	cJSON_Delete(body);
	if (result == -ENOMEM)
		return admin_error(c, 503, "", "no memory");
	if (result != 0)
		return admin_error(c, 400, r.fault.pointer, "%s", r.fault.message);
	return begin(c, &r);
}
