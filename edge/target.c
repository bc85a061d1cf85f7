/* The URL of a request in its one form; see target.h. Host and path are checked by edge/http/uri.c. */
#include "edge/target.h"

#include <errno.h>

#include "edge/http/uri.h"
#include "edge/text.h"

static bool default_port(struct view scheme, uint16_t port)
{
	return port == 0 || port == (view_eq(scheme, VIEW("https")) ? 443 : 80);
}

static struct view with_port(struct view host, uint16_t port, struct arena *a)
{
	struct text t = text_new(a, host.n + sizeof(":65535"));

	text_put(&t, host);
	text_put(&t, VIEW(":"));
	text_decimal(&t, port);
	return text_view(&t);
}

static int set_host(struct view written, uint16_t port, struct arena *a, struct target *t)
{
	char *host = arena_alloc(a, written.n + 1);

	if (host == NULL)
		return -ENOMEM;
	uri_host_lower(written, host);
	t->host = view_of(host, written.n);
	t->authority = default_port(t->scheme, port) ? t->host : with_port(t->host, port, a);
	return t->authority.p == NULL ? -ENOMEM : 0;
}

static int set_path(struct view path, struct arena *a, struct target *t)
{
	char *normal = arena_alloc(a, path.n + 1);
	const char *query;
	int r;

	if (normal == NULL)
		return -ENOMEM;
	r = uri_normalise(path, normal, &t->path.n, &t->odd_path);
	if (r != 0)
		return r;
	t->path.p = normal;
	query = memchr(normal, '?', t->path.n);
	t->path_only = view_of(normal, query != NULL ? (size_t)(query - normal) : t->path.n);
	t->query = view_skip(t->path, t->path_only.n);
	return 0;
}

static bool rewrites(const struct conf_query *q)
{
	return conf_query_changes(q) && q->kind != CONF_QUERY_NONE;
}

/* Room for keys whose query is another than the request's, where the site has any. */
static int make_room(struct target *t, struct arena *a)
{
	bool needed = false;

	for (unsigned i = 0; t->query.n > 0 && i < t->site->query_count; i++)
		needed |= rewrites(&t->site->queries[i]);
	if (!needed)
		return 0;
	t->keyed = arena_alloc(a, t->path.n);
	if (t->keyed == NULL)
		return -ENOMEM;
	memcpy(t->keyed, t->path_only.p, t->path_only.n);
	return 0;
}

int target_of(const struct conf *c, struct view scheme, struct view authority, struct view path,
	      struct arena *a, struct target *out)
{
	struct view host;
	uint16_t port;
	int r = uri_authority_split(authority, &host, &port);

	return r == 0 ? target_at(c, scheme, host, port, path, a, out) : r;
}

int target_at(const struct conf *c, struct view scheme, struct view host, uint16_t port,
	      struct view path, struct arena *a, struct target *out)
{
	struct target t = { .scheme = scheme };
	int r = set_host(host, port, a, &t);

	if (r == 0)
		r = set_path(path, a, &t);
	if (r != 0)
		return r;
	t.site = conf_site_for(c, t.host);
	if (t.site == NULL)
		return -ENOENT;
	r = make_room(&t, a);
	if (r != 0)
		return r;
	*out = t;
	return 0;
}

/* Path and query as these settings key them. */
static struct view keyed_path(const struct target *t, const struct conf_query *q)
{
	if (t->query.n == 0 || !conf_query_changes(q))
		return t->path;
	if (q->kind == CONF_QUERY_NONE)
		return t->path_only;
	CHECK(t->keyed != NULL);
	return view_of(t->keyed,
		       t->path_only.n + conf_key_query(q, t->query, t->keyed + t->path_only.n));
}

void target_key(const struct target *t, const struct conf_cache *cache, uint8_t out_primary[16])
{
	struct cache_url url = { .site = t->site->name, .path = keyed_path(t, &cache->key_query) };

	if (cache->key_scheme)
		url.scheme = t->scheme;
	if (cache->key_host)
		url.host = t->authority;
	cache_key_primary(&url, out_primary);
}

struct view target_url(const struct target *t, struct arena *a)
{
	struct text url = text_new(a, t->scheme.n + t->authority.n + t->path.n + 3);

	text_put(&url, t->scheme);
	text_put(&url, VIEW("://"));
	text_put(&url, t->authority);
	text_put(&url, t->path);
	return text_view(&url);
}
