/*
 * Slots: where a site or a server counts in the shared pages. The master gives them, children
 * read them from the text that they are handed, so that all processes agree.
 *
 * A slot belongs to an identity (a site's name; a server's origin and URL) and stays with it
 * across reloads. One that was let go is reused as late as possible, since requests that began
 * before the reload still count there: the search starts where the last one ended.
 */
#include "conf/slots.h"

#include <cjson/cJSON.h>
#include <errno.h>

#include "conf/build.h"
#include "conf/files.h"
#include "conf/parse.h"

enum { IDENTITY_BYTES = 5120 };

/* The slots of one kind. */
struct space {
	uint16_t size, next;
	bool kept[CONF_SITES_MAX]; /* of the new snapshot */
	bool old[CONF_SITES_MAX];  /* of the one before */
};
_Static_assert((int)CONF_SERVERS_MAX <= (int)CONF_SITES_MAX, "one size for both kinds");

static const char *server_identity(const struct conf_origin *origin,
				   const struct conf_server *server, char out[IDENTITY_BYTES])
{
	snprintf(out, IDENTITY_BYTES, "%.*s %.*s", VIEW_ARG(origin->name), VIEW_ARG(server->url));
	return out;
}

/* --- reading */

static uint16_t read_number(struct conf_reader *r, const cJSON *value, uint16_t size)
{
	if (cJSON_IsNumber(value) && value->valuedouble >= 0 && value->valuedouble < size)
		return (uint16_t)value->valuedouble;
	conf_reader_fault(r, "doesn't fit the rest of the text");
	return 0;
}

/* A slot that no other has; bad numbers are told. */
static uint16_t read_slot(struct conf_reader *r, struct space *space, const cJSON *list,
			  const char *identity)
{
	const cJSON *value = cJSON_GetObjectItemCaseSensitive(list, identity);
	uint16_t slot = read_number(r, value, space->size);

	if (space->kept[slot])
		conf_reader_fault(r, "gives the slot %u twice", slot);
	space->kept[slot] = true;
	return slot;
}

static void read_sites(struct conf_reader *r, const cJSON *list)
{
	struct space space = { .size = CONF_SITES_MAX };

	for (size_t i = 0; i < r->conf->site_count; i++) {
		struct conf_site *site = &r->conf->sites[i];

		site->slot = read_slot(r, &space, list, site->name.n == 0 ? "" : site->name.p);
	}
}

static void read_servers(struct conf_reader *r, const cJSON *list)
{
	struct space space = { .size = CONF_SERVERS_MAX };
	char identity[IDENTITY_BYTES];

	for (size_t i = 0; i < r->conf->origin_count; i++) {
		struct conf_origin *origin = &r->conf->origins[i];

		for (size_t j = 0; j < origin->server_count; j++) {
			struct conf_server *server = &origin->servers[j];

			server_identity(origin, server, identity);
			server->slot = read_slot(r, &space, list, identity);
		}
	}
}

/* Without a given list: in order, as many as there are room for (more is a fault, told before). */
static void count_up(struct conf *c)
{
	uint16_t server_slot = 0;

	for (size_t i = 0; i < c->site_count; i++)
		c->sites[i].slot = (uint16_t)i;
	for (size_t i = 0; i < c->origin_count; i++) {
		for (size_t j = 0; j < c->origins[i].server_count; j++)
			c->origins[i].servers[j].slot = server_slot++;
	}
	c->next_site_slot = (uint16_t)(c->site_count % CONF_SITES_MAX);
	c->next_server_slot = server_slot % CONF_SERVERS_MAX;
}

void conf_slots_read(struct conf_reader *r, const cJSON *slots)
{
	size_t mark = strlen(r->at);

	if (slots == NULL) {
		count_up(r->conf);
		return;
	}
	conf_reader_enter(r, CONF_SLOTS_MEMBER);
	read_sites(r, cJSON_GetObjectItemCaseSensitive(slots, "sites"));
	read_servers(r, cJSON_GetObjectItemCaseSensitive(slots, "servers"));
	r->conf->next_site_slot = read_number(r, cJSON_GetObjectItemCaseSensitive(slots, "next_site"),
					      CONF_SITES_MAX);
	r->conf->next_server_slot = read_number(
		r, cJSON_GetObjectItemCaseSensitive(slots, "next_server"), CONF_SERVERS_MAX);
	conf_reader_leave(r, mark);
}

/* --- giving */

static uint16_t give(struct space *space)
{
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < space->size; i++) {
			uint16_t slot = (uint16_t)((space->next + i) % space->size);

			if (space->kept[slot] || (pass == 0 && space->old[slot]))
				continue;
			space->kept[slot] = true;
			space->next = (uint16_t)((slot + 1) % space->size);
			return slot;
		}
	}
	CHECK(!"a snapshot has at most as many as there are slots");
	return 0;
}

static const struct conf_server *find_server(const struct conf *c, const struct conf_origin *origin,
					     const struct conf_server *server)
{
	for (size_t i = 0; i < c->origin_count; i++) {
		if (!view_eq(c->origins[i].name, origin->name))
			continue;
		for (size_t j = 0; j < c->origins[i].server_count; j++) {
			if (view_eq(c->origins[i].servers[j].url, server->url))
				return &c->origins[i].servers[j];
		}
	}
	return NULL;
}

static void give_sites(struct conf *c, const struct conf *before)
{
	struct space space = { .size = CONF_SITES_MAX };
	bool known[CONF_SITES_MAX] = { false };

	for (size_t i = 0; before != NULL && i < before->site_count; i++)
		space.old[before->sites[i].slot] = true;
	space.next = before == NULL ? 0 : before->next_site_slot;
	for (size_t i = 0; before != NULL && i < c->site_count; i++) {
		const struct conf_site *was = conf_site_named(before, c->sites[i].name);

		known[i] = was != NULL;
		if (was == NULL)
			continue;
		c->sites[i].slot = was->slot;
		space.kept[was->slot] = true;
	}
	for (size_t i = 0; i < c->site_count; i++) {
		if (!known[i])
			c->sites[i].slot = give(&space);
	}
	c->next_site_slot = space.next;
}

static void give_servers(struct conf *c, const struct conf *before)
{
	struct space space = { .size = CONF_SERVERS_MAX };

	space.next = before == NULL ? 0 : before->next_server_slot;
	for (size_t i = 0; before != NULL && i < before->origin_count; i++) {
		for (size_t j = 0; j < before->origins[i].server_count; j++)
			space.old[before->origins[i].servers[j].slot] = true;
	}
	/* First those that had one, then the others. */
	for (unsigned pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < c->origin_count; i++) {
			struct conf_origin *origin = &c->origins[i];

			for (size_t j = 0; j < origin->server_count; j++) {
				struct conf_server *server = &origin->servers[j];
				const struct conf_server *was =
					before == NULL ? NULL : find_server(before, origin, server);

				if (pass == 0 && was != NULL) {
					server->slot = was->slot;
					space.kept[was->slot] = true;
				} else if (pass == 1 && was == NULL) {
					server->slot = give(&space);
				}
			}
		}
	}
	c->next_server_slot = space.next;
}

static cJSON *write_slots(const struct conf *c)
{
	cJSON *slots = cJSON_CreateObject();
	cJSON *sites = cJSON_AddObjectToObject(slots, "sites");
	cJSON *servers = cJSON_AddObjectToObject(slots, "servers");
	char identity[IDENTITY_BYTES];
	bool ok = sites != NULL && servers != NULL;

	for (size_t i = 0; i < c->site_count; i++)
		ok &= cJSON_AddNumberToObject(sites, c->sites[i].name.p, c->sites[i].slot) != NULL;
	for (size_t i = 0; i < c->origin_count; i++) {
		const struct conf_origin *origin = &c->origins[i];

		for (size_t j = 0; j < origin->server_count; j++) {
			const struct conf_server *server = &origin->servers[j];

			server_identity(origin, server, identity);
			ok &= cJSON_AddNumberToObject(servers, identity, server->slot) != NULL;
		}
	}
	ok &= cJSON_AddNumberToObject(slots, "next_site", c->next_site_slot) != NULL;
	ok &= cJSON_AddNumberToObject(slots, "next_server", c->next_server_slot) != NULL;
	if (ok)
		return slots;
	cJSON_Delete(slots);
	return NULL;
}

/* Takes member; NULL is -ENOMEM. */
static int add_member(cJSON *tree, const char *name, cJSON *member)
{
	if (member != NULL && cJSON_AddItemToObject(tree, name, member))
		return 0;
	cJSON_Delete(member);
	return -ENOMEM;
}

static int print(const cJSON *tree, char **out_text)
{
	char *text = cJSON_PrintUnformatted(tree);

	if (text == NULL)
		return -ENOMEM;
	*out_text = text;
	return 0;
}

int conf_assign_slots(struct view text, const struct conf *before, struct conf_faults *faults,
		      char **out_text)
{
	struct conf_files files = { 0 };
	struct conf *c = NULL;
	cJSON *tree;
	int err = conf_parse(text, "configuration", faults, &tree);

	if (err < 0)
		return err;
	cJSON_DeleteItemFromObjectCaseSensitive(tree, CONF_SLOTS_MEMBER);
	files.tree = cJSON_DetachItemFromObjectCaseSensitive(tree, CONF_FILES_MEMBER);
	err = conf_build_tree(tree, NULL, &files, NULL, 0, faults, &c);
	if (err == 0) {
		give_sites(c, before);
		give_servers(c, before);
		err = add_member(tree, CONF_SLOTS_MEMBER, write_slots(c));
		conf_unref(c);
	}
	if (err == 0 && files.tree != NULL)
		err = cJSON_AddItemReferenceToObject(tree, CONF_FILES_MEMBER, files.tree) ? 0 : -ENOMEM;
	if (err == 0)
		err = print(tree, out_text);
	cJSON_Delete(tree);
	cJSON_Delete(files.tree);
	return err;
}
