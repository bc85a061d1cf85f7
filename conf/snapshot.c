/*
 * Snapshots: everything that was read lives in one arena and goes with the last reference.
 *
 * Lifetime:  conf_build → refs 1 → conf_ref / conf_unref by each request that began with it →
 *            the last conf_unref frees arena and struct. Immutable from conf_build's return on.
 * References are counted without atomics: a snapshot belongs to one thread, the loop's.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>

#include "conf/build.h"
#include "conf/check.h"
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

int conf_build_tree(const cJSON *tree, const cJSON *slots, const struct conf_places *places,
		    uint32_t generation, struct conf_faults *faults, struct conf **out)
{
	struct conf_reader r = { .conf = conf_new(generation), .faults = faults, .places = places };
	unsigned before = faults->count;

	if (r.conf == NULL)
		return -ENOMEM;
	conf_apply_element(&r, &conf_scope_root, tree, r.conf);
	name_parts(r.conf);
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
	cJSON *tree, *slots;
	int err = conf_parse(text, "configuration", faults, &tree);

	if (err < 0)
		return err;
	slots = cJSON_DetachItemFromObjectCaseSensitive(tree, CONF_SLOTS_MEMBER);
	err = conf_build_tree(tree, slots, NULL, generation, faults, out);
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
	arena_fini(&c->arena);
	free(c);
}
