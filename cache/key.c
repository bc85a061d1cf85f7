/*
 * Keys and purge scopes: hashes of names. SHA-256, because clients choose the URLs: with a weaker hash
 * somebody could make one URL serve another's object.
 *
 * Each part is hashed with its length before it, so «a.example» + «/b» and «a.example/b» + «» differ, and an
 * empty host or scheme (left out of the key) equals no given one.
 */
#include "cache/purge_clock.h"
#include "edge/base/hash.h"

void cache_key_primary(const struct cache_url *u, uint8_t out_primary[16])
{
	const struct view parts[] = { u->site, u->host, u->scheme, u->path };

	hash_sha256_128(parts, ARRAY_LEN(parts), out_primary);
}

enum { PARTS_AT_ONCE = 16 };

uint64_t cache_key_secondary(uint64_t base, const struct view *values, size_t count)
{
	struct view parts[PARTS_AT_ONCE];
	uint64_t hash = base;

	do {
		size_t n = count < PARTS_AT_ONCE - 1 ? count : PARTS_AT_ONCE - 1;

		parts[0] = view_of((const char *)&hash, sizeof(hash));
		for (size_t i = 0; i < n; i++)
			parts[i + 1] = values[i];
		hash = hash_sha256_64(parts, n + 1);
		values += n;
		count -= n;
	} while (count > 0);
	return hash != 0 ? hash : 1;
}

struct cache_scope cache_scope_url(const uint8_t primary[16])
{
	struct cache_scope scope = { .kind = CACHE_SCOPE_URL };

	memcpy(&scope.hash, primary, sizeof(scope.hash));
	return scope;
}

struct cache_scope cache_scope_host(uint64_t site_hash, struct view host)
{
	const struct view parts[] = { VIEW("host"),
				      view_of((const char *)&site_hash, sizeof(site_hash)), host };

	return (struct cache_scope){ .kind = CACHE_SCOPE_HOST,
				     .hash = hash_sha256_64(parts, ARRAY_LEN(parts)),
				     .site_hash = site_hash };
}

struct cache_scope cache_scope_group(uint64_t site_hash, struct view origin, struct view group)
{
	const struct view parts[] = { VIEW("group"),
				      view_of((const char *)&site_hash, sizeof(site_hash)), origin,
				      group };

	return (struct cache_scope){ .kind = CACHE_SCOPE_TAG,
				     .hash = hash_sha256_64(parts, ARRAY_LEN(parts)),
				     .site_hash = site_hash };
}

struct cache_scope cache_scope_tag(uint64_t site_hash, struct view tag)
{
	const struct view parts[] = { VIEW("tag"), tag };
	uint64_t hash = hash_sha256_64(parts, ARRAY_LEN(parts));

	if (site_hash == 0)
		return (struct cache_scope){ .kind = CACHE_SCOPE_TAG_ANYWHERE, .hash = hash };
	return (struct cache_scope){ .kind = CACHE_SCOPE_TAG,
				     .hash = purge_tag_anywhere(hash, site_hash),
				     .site_hash = site_hash };
}

struct cache_scope cache_scope_prefix(uint64_t site_hash, struct view authority, struct view path)
{
	CHECK(path.n >= 1 && path.n <= CACHE_PREFIX_MAX);
	return (struct cache_scope){
		.kind = CACHE_SCOPE_PREFIX,
		.hash = purge_prefix_more(purge_prefix_begin(site_hash, authority), path),
		.site_hash = site_hash,
		.bytes = (uint16_t)path.n,
	};
}

struct cache_scope cache_scope_path(uint64_t site_hash, struct view path, uint32_t forms)
{
	return (struct cache_scope){
		.kind = CACHE_SCOPE_PATH,
		.hash = purge_path_under(purge_path_hash(site_hash, path), forms),
		.site_hash = site_hash,
		.forms = forms,
	};
}

struct cache_scope cache_scope_site(uint64_t site_hash)
{
	return (struct cache_scope){ .kind = CACHE_SCOPE_SITE, .hash = site_hash, .site_hash = site_hash };
}

struct cache_scope cache_scope_unsafe(void)
{
	return (struct cache_scope){ .kind = CACHE_SCOPE_UNSAFE };
}

struct cache_scope cache_scope_all(void)
{
	return (struct cache_scope){ .kind = CACHE_SCOPE_ALL };
}
