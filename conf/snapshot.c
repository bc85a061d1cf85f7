/*
 * Snapshots: everything that was read lives in one arena and goes with the last reference.
 *
 * Lifetime:  conf_build → refs 1 → conf_ref / conf_unref by each request that began with it →
 *            the last conf_unref frees arena and struct. Immutable from conf_build's return on.
 * Keys lie in the arena, too: it is overwritten before it goes back.
 * References are counted without atomics: a snapshot belongs to one thread, the loop's.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>

#include "conf/build.h"
#include "conf/check.h"
#include "conf/files.h"
#include "conf/names.h"
#include "conf/parse.h"
#include "conf/slots.h"
#include "edge/base/hash.h"

#define CONF_MAGIC 0x636f6e66u /* "conf" */
enum { ARENA_BYTES_MAX = 256 << 20 };

static struct conf *conf_new(uint32_t generation)
{
	struct conf *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->magic = CONF_MAGIC;
	c->refs = 1;
	c->generation = generation;
	arena_init(&c->arena, ARENA_BYTES_MAX);
	return c;
}

/* Names that follow from others. */
static void name_parts(struct conf *c)
{
	for (size_t i = 0; i < c->store_count; i++) {
		if (c->stores[i].name.n == 0)
			c->stores[i].name = c->stores[i].path;
	}
	for (size_t i = 0; i < c->site_count; i++) {
		struct conf_site *site = &c->sites[i];

		if (site->name.n == 0 && site->hosts.count > 0)
			site->name = site->hosts.at[0];
		site->name_hash = hash_sha256_64(&site->name, 1);
		for (size_t j = 0; j < site->rule_count; j++)
			site->rules[j].index = (uint32_t)j;
	}
}

/* What connections to an origin's servers depend on. */
static void identify_tls(struct conf_origin *origin)
{
	const struct conf_origin_tls *tls = &origin->tls;
	const struct view parts[] = { tls->verify ? VIEW("verify") : VIEW(""), tls->ca,
				      tls->server_name, tls->client.certificate, tls->client.key };

	origin->tls_identity = hash_sha256_64(parts, ARRAY_LEN(parts));
}

/* RFC 6797 §6.1. */
static void write_hsts(struct conf_reader *r, struct conf_hsts *hsts)
{
	if (hsts->max_age_ms < 0)
		return;
	hsts->value = arena_printf(
		&r->conf->arena, "max-age=%lld%s%s", (long long)(hsts->max_age_ms / 1000),
		hsts->subdomains ? "; includeSubDomains" : "", hsts->preload ? "; preload" : "");
	r->exhausted |= hsts->value.p == NULL;
}

/* What else follows from what was read. */
static void derive(struct conf_reader *r)
{
	struct conf *c = r->conf;

	name_parts(c);
	for (size_t i = 0; i < c->listener_count; i++) {
		struct conf_listener *listener = &c->listeners[i];

		if (listener->http1 || listener->http2)
			continue;
		listener->http1 = true;
		listener->http2 = listener->tls;
	}
	for (size_t i = 0; i < c->origin_count; i++)
		identify_tls(&c->origins[i]);
	for (size_t i = 0; i < c->site_count; i++)
		write_hsts(r, &c->sites[i].hsts);
}

int conf_build_tree(const cJSON *tree, const cJSON *slots, struct conf_files *files,
		    const struct conf_places *places, uint32_t generation,
		    struct conf_faults *faults, struct conf **out)
{
	struct conf_reader r = {
		.conf = conf_new(generation), .faults = faults, .files = files, .places = places
	};
	unsigned before = faults->count;

	if (r.conf == NULL)
		return -ENOMEM;
	conf_apply_element(&r, &conf_scope_root, tree, r.conf);
	derive(&r);
	conf_check(&r);
	conf_names_build(&r);
	conf_slots_read(&r, slots);
	if (r.exhausted)
		conf_reader_fault(&r, "the configuration is too large");
	if (faults->count != before) {
		conf_unref(r.conf);
		return r.exhausted ? -ENOMEM : -EINVAL;
	}
	*out = r.conf;
	return 0;
}

int conf_build(struct view text, uint32_t generation, struct conf_faults *faults, struct conf **out)
{
	struct conf_files files = { 0 };
	cJSON *tree, *slots;
	int err = conf_parse(text, "configuration", faults, &tree);

	if (err < 0)
		return err;
	slots = cJSON_DetachItemFromObjectCaseSensitive(tree, CONF_SLOTS_MEMBER);
	files.tree = cJSON_DetachItemFromObjectCaseSensitive(tree, CONF_FILES_MEMBER);
	err = conf_build_tree(tree, slots, &files, NULL, generation, faults, out);
	cJSON_Delete(files.tree);
	cJSON_Delete(slots);
	cJSON_Delete(tree);
	return err;
}

struct conf *conf_ref(struct conf *c)
{
	CHECK_MAGIC(c, CONF_MAGIC);
	c->refs++;
	return c;
}

void conf_unref(struct conf *c)
{
	CHECK_MAGIC(c, CONF_MAGIC);
	if (--c->refs > 0)
		return;
	c->magic = 0;
	arena_wipe(&c->arena);
	arena_fini(&c->arena);
	free(c);
}

static bool has_key(const struct conf_certificate *certificates, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (certificates[i].key.n > 0)
			return true;
	}
	return false;
}

bool conf_has_keys(const struct conf *c)
{
	bool any = c->ticket_keys.count > 0 || has_key(&c->admin_tls, 1) ||
		   has_key(c->tls_directory, c->tls_directory_count);

	for (size_t i = 0; i < c->site_count; i++)
		any = any || has_key(c->sites[i].tls.certificates, c->sites[i].tls.certificate_count);
	for (size_t i = 0; i < c->origin_count; i++)
		any = any || has_key(&c->origins[i].tls.client, 1);
	return any;
}
