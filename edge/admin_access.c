/* See admin_access.h. A token itself is in no process of ours: its SHA-256 is compared with that of what came. */
#include "edge/admin_access.h"

#include "edge/base/hash.h"
#include "edge/http/uri.h"

/* --- Host and Origin ------------------------------------------------------------------------------ */

static bool known_host(const struct conf *c, struct view authority)
{
	char host[URI_HOST_MAX + 1];
	struct sock_addr address;
	struct view name;
	uint16_t port;

	if (uri_authority(authority, host, &name.n, &port) != 0)
		return false;
	name.p = host;
	if (view_eq(name, VIEW("localhost")) || sock_addr_literal(name, 0, &address) == 0)
		return true;
	for (size_t i = 0; i < c->admin_hosts.count; i++) {
		if (view_eq_nocase(c->admin_hosts.at[i], name))
			return true;
	}
	return false;
}

/* "http://host:port" of the same host and port as Host; a scheme is not ours to know behind a proxy. */
static bool same_origin(struct view origin, struct view authority)
{
	const char *mark = memmem(origin.p, origin.n, "://", 3);

	if (mark == NULL || authority.n == 0)
		return false;
	return view_eq_nocase(view_skip(origin, (size_t)(mark + 3 - origin.p)), authority);
}

struct admin_refusal admin_access_host(const struct conf *c, const struct http_request *rq)
{
	const struct http_field *origin;
	uint16_t at = 0;

	/* Only HTTP/1.0 gets here without a Host, and no browser speaks it. */
	if (rq->authority.n > 0 && !known_host(c, rq->authority))
		return (struct admin_refusal){
			421, "Host is neither an address nor localhost nor in admin.hosts"
		};
	while ((origin = http_fields_find(&rq->fields, VIEW("Origin"), &at)) != NULL) {
		if (!same_origin(origin->value, rq->authority))
			return (struct admin_refusal){
				403, "the request comes from a page of another origin"
			};
	}
	return (struct admin_refusal){ 0 };
}

/* --- tokens ----------------------------------------------------------------------------------------- */

const struct conf_token *admin_access_token(const struct conf *c, const struct http_request *rq)
{
	const struct http_field *f = http_fields_first(&rq->fields, FIELD_AUTHORIZATION);
	const struct view scheme = VIEW("Bearer ");
	const struct conf_token *found = NULL;
	uint8_t hash[sizeof(found->sha256)];
	struct view given;

	if (f == NULL || f->value.n <= scheme.n ||
	    !view_eq_nocase(view_of(f->value.p, scheme.n), scheme) ||
	    http_fields_next(&rq->fields, f) != NULL)
		return NULL;
	given = view_skip(f->value, scheme.n);
	while (given.n > 0 && *given.p == ' ')
		given = view_skip(given, 1);
	hash_sha256(given, hash);
	for (size_t i = 0; i < c->token_count; i++) {
		if (hash_same(hash, c->tokens[i].sha256, sizeof(hash)))
			found = &c->tokens[i];
	}
	return found;
}

static enum conf_role role_for(enum admin_need need)
{
	switch (need) {
	case ADMIN_NEED_PURGE:
		return CONF_ROLE_PURGE;
	case ADMIN_NEED_ADMIN:
		return CONF_ROLE_ADMIN;
	default:
		return CONF_ROLE_READ;
	}
}

struct admin_refusal admin_access_check(enum admin_door door, const struct conf_token *token,
					enum admin_need need)
{
	static const char *const too_small[] = {
		[CONF_ROLE_READ] = "",
		[CONF_ROLE_PURGE] = "the token's role is too small: this call needs purge",
		[CONF_ROLE_ADMIN] = "the token's role is too small: this call needs admin",
	};
	enum conf_role wanted = role_for(need);
	bool whole = need == ADMIN_NEED_READ_WHOLE || need == ADMIN_NEED_ADMIN;

	if (door != ADMIN_DOOR_TCP || need == ADMIN_NEED_NOTHING)
		return (struct admin_refusal){ 0 };
	if (token == NULL)
		return (struct admin_refusal){
			401, "wants Authorization: Bearer and a token of admin.tokens"
		};
	if (token->role < wanted)
		return (struct admin_refusal){ 403, too_small[wanted] };
	if (whole && token->sites.count > 0)
		return (struct admin_refusal){
			403, "the token is for some sites, and this call is about the whole node"
		};
	return (struct admin_refusal){ 0 };
}

bool admin_access_site(const struct conf_token *token, struct view site)
{
	if (token == NULL || token->sites.count == 0)
		return true;
	for (size_t i = 0; i < token->sites.count; i++) {
		if (view_eq(token->sites.at[i], site))
			return true;
	}
	return false;
}
