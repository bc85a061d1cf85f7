/*
 * Host to site: one open-addressed hash table, at most half full. An exact host is one entry;
 * "*.shop.example" is the entry ".shop.example", found by cutting a host at its dots from the
 * left, so that the longest pattern comes first. "*" stands beside the table.
 *
 * A sorted list of reversed names would need no hashing, but a log of comparisons that all
 * begin alike ("moc.…").
 */
#include "conf/names.h"

#include "edge/base/hash.h"

struct name {
	struct view host; /* "shop.example", ".shop.example"; p NULL: free */
	struct conf_site *site;
};

struct conf_names {
	size_t count; /* of hosts in the table */
	size_t mask;  /* of places, a power of two less one */
	struct name *places;
	struct conf_site *any; /* of "*" */
};

/* The place of this host, or the free one where it would be. */
static struct name *find_place(const struct conf_names *names, struct view host)
{
	size_t i = hash_xxh3(host.p, host.n) & names->mask;

	while (names->places[i].host.p != NULL && !view_eq(names->places[i].host, host))
		i = (i + 1) & names->mask;
	return &names->places[i];
}

/* The site that had the host before; NULL: it is new. */
static struct conf_site *insert(struct conf_names *names, struct view host, struct conf_site *site)
{
	if (view_eq(host, VIEW("*"))) {
		struct conf_site *before = names->any;

		names->any = before != NULL ? before : site;
		return before;
	}
	struct view key = host.p[0] == '*' ? view_skip(host, 1) : host;
	struct name *place = find_place(names, key);

	if (place->host.p != NULL)
		return place->site;
	*place = (struct name){ key, site };
	names->count++;
	return NULL;
}

static void insert_site(struct conf_reader *r, struct conf_names *names, size_t index)
{
	struct conf_site *site = &r->conf->sites[index];

	for (size_t i = 0; i < site->hosts.count; i++) {
		struct conf_site *before = insert(names, site->hosts.at[i], site);

		if (before == NULL)
			continue;
		size_t mark = conf_reader_enter(r, "sites");

		conf_reader_enter_index(r, index);
		conf_reader_enter(r, "hosts");
		conf_reader_enter_index(r, i);
		conf_reader_fault(r, "\"%.*s\" is already a host of the site \"%.*s\"",
				  VIEW_ARG(site->hosts.at[i]), VIEW_ARG(before->name));
		conf_reader_leave(r, mark);
	}
}

void conf_names_build(struct conf_reader *r)
{
	struct conf *c = r->conf;
	size_t hosts = 0, places = 16;

	for (size_t i = 0; i < c->site_count; i++)
		hosts += c->sites[i].hosts.count;
	while (places < 2 * hosts)
		places *= 2;
	c->names = conf_reader_alloc(r, sizeof(*c->names));
	struct name *at = conf_reader_alloc(r, places * sizeof(*at));

	if (c->names == NULL || at == NULL)
		return;
	c->names->mask = places - 1;
	c->names->places = at;
	for (size_t i = 0; i < c->site_count; i++)
		insert_site(r, c->names, i);
}

struct conf_site *conf_site_for(const struct conf *c, struct view host)
{
	struct view rest = host;

	if (c->names->count == 0) /* one site for all, as often */
		return c->names->any;
	if (host.n > 0 && host.p[0] != '.') {
		struct conf_site *site = find_place(c->names, host)->site;

		if (site != NULL)
			return site;
	}
	while (rest.n > 1) {
		const char *dot = memchr(rest.p + 1, '.', rest.n - 1);

		if (dot == NULL)
			break;
		rest = view_skip(rest, (size_t)(dot - rest.p));
		struct conf_site *site = find_place(c->names, rest)->site;

		if (site != NULL)
			return site;
	}
	return c->names->any;
}

struct conf_site *conf_site_named(const struct conf *c, struct view name)
{
	for (size_t i = 0; i < c->site_count; i++) {
		if (view_eq(c->sites[i].name, name))
			return &c->sites[i];
	}
	return NULL;
}
