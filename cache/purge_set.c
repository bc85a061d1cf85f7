/* A sorted list of what is in it, and the lengths of its prefixes. See purge_set.h. */
#include "cache/purge_set.h"

#include <stdlib.h>

#include "cache/purge_names.h"

struct member {
	uint64_t hash;
	uint8_t kind;
};

struct purge_set {
	_Atomic uint64_t prefix_lengths[SHARED_PREFIX_WORDS];
	struct purge_asked asked;
	size_t count;
	struct member members[];
};

static int compare(const void *pa, const void *pb)
{
	const struct member *a = pa, *b = pb;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return a->kind - b->kind;
}

static void add(struct purge_set *set, const struct cache_scope *scope)
{
	set->members[set->count++] = (struct member){ .hash = scope->hash, .kind = scope->kind };
	if (scope->kind == CACHE_SCOPE_TAG_ANYWHERE)
		set->asked.anywhere = true;
	if (scope->kind != CACHE_SCOPE_PREFIX)
		return;
	set->prefix_lengths[scope->bytes / 64 % SHARED_PREFIX_WORDS] |= (uint64_t)1
									<< scope->bytes % 64;
	set->asked.prefix_lengths = set->prefix_lengths;
}

struct purge_set *purge_set_new(const struct cache_scope *scopes, unsigned count)
{
	struct purge_set *set = calloc(1, sizeof(*set) + count * sizeof(set->members[0]));

	if (set == NULL)
		return NULL;
	for (unsigned i = 0; i < count; i++)
		add(set, &scopes[i]);
	qsort(set->members, set->count, sizeof(set->members[0]), compare);
	return set;
}

void purge_set_free(struct purge_set *set)
{
	free(set);
}

static bool is_member(void *arg, uint64_t hash, uint8_t kind)
{
	const struct purge_set *set = arg;
	const struct member wanted = { .hash = hash, .kind = kind };

	return bsearch(&wanted, set->members, set->count, sizeof(wanted), compare) != NULL;
}

bool purge_set_names(const struct purge_set *set, const struct cache_names *names)
{
	return purge_each(names, &set->asked, is_member, (void *)(uintptr_t)set);
}
