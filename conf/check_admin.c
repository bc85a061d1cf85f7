/*
 * Who may call the admin API, and where. A Unix socket is guarded by its file's mode; TCP by tokens, and off loopback
 * by TLS, so that no token crosses a network in the clear. Metrics hold no secret but are nobody else's
 * business either: off loopback they are under TLS, too.
 */
#include "conf/check.h"

/* At /admin/list/index. */
#define fault_at(r, list, index, ...)                              \
	do {                                                       \
		size_t fault_mark = conf_reader_enter(r, "admin"); \
		conf_reader_enter(r, list);                        \
		conf_reader_enter_index(r, index);                 \
		conf_reader_fault(r, __VA_ARGS__);                 \
		conf_reader_leave(r, fault_mark);                  \
	} while (0)

static bool same_address(struct view a, const struct sock_addr *b)
{
	char text[SOCK_ADDR_TEXT], other[SOCK_ADDR_TEXT];
	struct sock_addr address;

	return sock_addr_parse(a, &address) == 0 &&
	       strcmp(sock_addr_text(&address, text), sock_addr_text(b, other)) == 0;
}

/* Is the address one of the traffic's, or an earlier one of the two lists? */
static void check_taken(struct conf_reader *r, const char *name, const struct conf_list *list,
			size_t i, const struct sock_addr *address)
{
	const struct conf *c = r->conf;
	bool metrics = list == &c->metrics_listen;

	for (size_t j = 0; j < c->listener_count; j++) {
		if (same_address(c->listeners[j].text, address))
			fault_at(r, name, i, "is already /listeners/%zu: choose another address", j);
	}
	for (size_t j = 0; j < i; j++) {
		if (same_address(list->at[j], address))
			fault_at(r, name, i, "is already /admin/%s/%zu", name, j);
	}
	for (size_t j = 0; metrics && j < c->admin_listen.count; j++) {
		if (same_address(c->admin_listen.at[j], address))
			fault_at(r, name, i,
				 "is already /admin/listen/%zu, which serves metrics, too", j);
	}
}

static void check_list(struct conf_reader *r, const char *name, const struct conf_list *list)
{
	const struct conf *c = r->conf;
	struct sock_addr address;

	for (size_t i = 0; i < list->count; i++) {
		if (sock_addr_parse(list->at[i], &address) < 0)
			continue;
		check_taken(r, name, list, i, &address);
		if (address.any.sa_family == AF_UNIX)
			continue;
		if (list == &c->admin_listen && c->token_count == 0)
			fault_at(r, name, i,
				 "anybody could call it: TCP needs a token in \"admin.tokens\"");
		if (!sock_addr_is_loopback(&address) && c->admin_tls.certificate_path.n == 0)
			fault_at(r, name, i,
				 "can be reached from other machines: it needs \"admin.tls\"");
	}
}

/* A caller that has two names would be logged by the wrong one. */
static void check_same(struct conf_reader *r, size_t i)
{
	static const uint8_t unknown[sizeof(r->conf->tokens[0].sha256)];
	const struct conf_token *token = &r->conf->tokens[i];

	for (size_t j = 0; j < i; j++) {
		const struct conf_token *other = &r->conf->tokens[j];

		if (token->name.n > 0 && view_eq(token->name, other->name))
			fault_at(r, "tokens", i,
				 "has the name of /admin/tokens/%zu: give each its own", j);
		else if (memcmp(token->sha256, unknown, sizeof(unknown)) != 0 &&
			 memcmp(token->sha256, other->sha256, sizeof(unknown)) == 0)
			fault_at(r, "tokens", i, "is the same token as /admin/tokens/%zu", j);
	}
}

static void check_sites(struct conf_reader *r, size_t i)
{
	const struct conf_token *token = &r->conf->tokens[i];

	if (token->role == CONF_ROLE_ADMIN && token->sites.count > 0)
		fault_at(r, "tokens", i,
			 "an admin's token is for the whole node: leave \"sites\" out, or give it "
			 "the "
			 "role \"purge\"");
	for (size_t j = 0; j < token->sites.count; j++) {
		if (conf_site_named(r->conf, token->sites.at[j]) == NULL)
			fault_at(r, "tokens", i, "there is no site \"%.*s\"",
				 VIEW_ARG(token->sites.at[j]));
	}
}

void conf_check_admin(struct conf_reader *r)
{
	check_list(r, "listen", &r->conf->admin_listen);
	check_list(r, "metrics_listen", &r->conf->metrics_listen);
	for (size_t i = 0; i < r->conf->token_count; i++) {
		check_same(r, i);
		check_sites(r, i);
	}
}
