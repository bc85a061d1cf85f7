/*
 * Cross-checks over a snapshot that is read but not yet used. A part that had a fault of its
 * own is there with its member empty: it is passed over, so that one slip gives one line.
 */
#include "conf/check.h"

#include <string.h>

/* A fault at /list/index/key. */
#define fault_in(r, list, index, key, ...)                      \
	do {                                                    \
		size_t fault_mark = conf_reader_enter(r, list); \
		conf_reader_enter_index(r, index);              \
		conf_reader_enter(r, key);                      \
		conf_reader_fault(r, __VA_ARGS__);              \
		conf_reader_leave(r, fault_mark);               \
	} while (0)

static void check_listeners(struct conf_reader *r)
{
	const struct conf *c = r->conf;
	char text[SOCK_ADDR_TEXT], other[SOCK_ADDR_TEXT];

	for (size_t i = 0; i < c->listener_count; i++) {
		for (size_t j = 0; j < i && c->listeners[i].text.n > 0; j++) {
			sock_addr_text(&c->listeners[i].address, text);
			if (c->listeners[j].text.n == 0 ||
			    strcmp(text, sock_addr_text(&c->listeners[j].address, other)) != 0)
				continue;
			fault_in(r, "listeners", i, "address", "%s is already /listeners/%zu", text, j);
			break;
		}
	}
}

/* The next segment of a path, without slashes and «.»; n 0: none left. */
static struct view next_segment(struct view *path)
{
	struct view segment;

	do {
		while (path->n > 0 && path->p[0] == '/')
			*path = view_skip(*path, 1);
		const char *slash = path->n == 0 ? NULL : memchr(path->p, '/', path->n);

		segment = view_of(path->p, slash == NULL ? path->n : (size_t)(slash - path->p));
		*path = view_skip(*path, segment.n);
	} while (view_eq(segment, VIEW(".")));
	return segment;
}

/* Is one the same directory as the other, or within it? As written: no file is looked at. */
static bool paths_overlap(struct view a, struct view b)
{
	for (;;) {
		struct view x = next_segment(&a), y = next_segment(&b);

		if (x.n == 0 || y.n == 0)
			return true;
		if (!view_eq(x, y))
			return false;
	}
}

static void check_store_pair(struct conf_reader *r, size_t i, size_t j)
{
	const struct conf_store *store = &r->conf->stores[i], *other = &r->conf->stores[j];

	if (store->path.n == 0 || other->path.n == 0)
		return;
	if (paths_overlap(store->path, other->path))
		fault_in(r, "stores", i, "path",
			 "overlaps /stores/%zu (%.*s): each store needs a directory of its own", j,
			 VIEW_ARG(other->path));
	else if (view_eq(store->name, other->name))
		fault_in(r, "stores", i, "name", "is already the name of /stores/%zu", j);
}

static void check_stores(struct conf_reader *r)
{
	for (size_t i = 0; i < r->conf->store_count; i++) {
		for (size_t j = 0; j < i; j++)
			check_store_pair(r, i, j);
	}
}

/* A server is known by its origin and URL: its counters must not be another's. */
static void check_servers(struct conf_reader *r, const struct conf_origin *origin)
{
	size_t backups = 0, mark = conf_reader_enter(r, "origins");
	char name[CONF_POINTER_BYTES];

	snprintf(name, sizeof(name), "%.*s", VIEW_ARG(origin->name));
	conf_reader_enter(r, name);
	for (size_t i = 0; i < origin->server_count; i++) {
		const struct conf_server *server = &origin->servers[i];

		backups += server->backup;
		for (size_t j = 0; j < i; j++) {
			if (server->url.n == 0 || server->port != origin->servers[j].port ||
			    !view_eq(server->host, origin->servers[j].host))
				continue;
			fault_in(r, "servers", i, "url", "is the same server as servers/%zu", j);
			break;
		}
	}
	if (origin->server_count > 0 && backups == origin->server_count) {
		conf_reader_enter(r, "servers");
		conf_reader_fault(r, "has only backups: one server at least must not be one");
	}
	conf_reader_leave(r, mark);
}

static void check_origins(struct conf_reader *r)
{
	const struct conf *c = r->conf;
	size_t servers = 0;

	for (size_t i = 0; i < c->origin_count; i++) {
		check_servers(r, &c->origins[i]);
		servers += c->origins[i].server_count;
	}
	if (servers <= CONF_SERVERS_MAX)
		return;
	size_t mark = conf_reader_enter(r, "origins");

	conf_reader_fault(r, "have %zu servers together, at most %d are allowed", servers,
			  CONF_SERVERS_MAX);
	conf_reader_leave(r, mark);
}

static void check_site(struct conf_reader *r, size_t index)
{
	struct conf_site *site = &r->conf->sites[index];
	size_t mark = conf_reader_enter(r, "sites");

	conf_reader_enter_index(r, index);
	conf_check_rules(r, site);
	if (site->cache.min_ttl_ms > site->cache.max_ttl_ms) {
		conf_reader_enter(r, "cache");
		conf_reader_enter(r, "min_ttl");
		conf_reader_fault(r, "is longer than max_ttl");
	}
	conf_reader_leave(r, mark);
}

static void check_sites(struct conf_reader *r)
{
	const struct conf *c = r->conf;

	for (size_t i = 0; i < c->site_count; i++) {
		check_site(r, i);
		for (size_t j = 0; j < i && c->sites[i].name.n > 0; j++) {
			if (!view_eq(c->sites[i].name, c->sites[j].name))
				continue;
			fault_in(r, "sites", i, "name",
				 "\"%.*s\" is already the name of another site: give each its own",
				 VIEW_ARG(c->sites[i].name));
			break;
		}
	}
}

void conf_check(struct conf_reader *r)
{
	check_listeners(r);
	check_stores(r);
	check_origins(r);
	check_sites(r);
	conf_check_admin(r);
	conf_check_tls(r);
}
