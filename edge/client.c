/*
 * The client's address. X-Forwarded-For is read from its right end, where the nearest proxy wrote: the first
 * address that is no proxy of ours is the client; what stands left of it anybody may have invented.
 */
#include "edge/client.h"

#include "edge/http/field.h"

bool client_in(const struct conf_nets *nets, const struct sock_addr *a)
{
	for (size_t i = 0; i < nets->count; i++)
		if (sock_net_holds(&nets->at[i], a))
			return true;
	return false;
}

bool client_peer_trusted(const struct conf *c, const struct sock_addr *peer)
{
	return client_in(&c->trusted_proxies, peer) || client_in(&c->downstream, peer);
}

/* The last comma-separated member of *rest, which is cut before it. */
static bool last_member(struct view *rest, struct view *out)
{
	size_t at = rest->n;

	if (rest->n == 0)
		return false;
	while (at > 0 && rest->p[at - 1] != ',')
		at--;
	*out = http_trim(view_skip(*rest, at));
	rest->n = at > 0 ? at - 1 : 0;
	return true;
}

static int address_of(struct view member, struct sock_addr *out)
{
	if (sock_addr_literal(member, 0, out) == 0)
		return 0;
	return sock_addr_parse(member, out); /* some proxies write the port, too */
}

/* One field line, from its right end. True: *at is the client, or the last proxy that wrote an address; false: all members are
 * proxies. */
static bool walk(const struct conf *c, struct view line, struct sock_addr *at)
{
	struct view member;

	while (last_member(&line, &member)) {
		struct sock_addr a;

		if (address_of(member, &a) != 0)
			return true;
		*at = a;
		if (!client_peer_trusted(c, &a))
			return true;
	}
	return false;
}

void client_address(const struct conf *c, const struct sock_addr *peer, const struct http_fields *f,
		    struct sock_addr *out)
{
	*out = *peer;
	if (!http_fields_has(f, FIELD_X_FORWARDED_FOR) || !client_peer_trusted(c, peer))
		return;
	for (int i = f->count - 1; i >= 0; i--) {
		const struct http_field *field = &f->at[i];

		if (field->id == FIELD_X_FORWARDED_FOR && !field->dropped && walk(c, field->value, out))
			break;
	}
}
