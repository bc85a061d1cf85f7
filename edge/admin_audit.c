/* See admin_audit.h. Tokens have names; what came as a token that we don't know is never written down. */
#include "edge/admin_audit.h"

#include <stdio.h>

#include "edge/base/log.h"

enum { REFUSAL_EVERY_MS = 1000, QUOTED = 320 };

/* "token:ci" or "uid:0". */
static const char *who(const struct admin_call *c, char out[QUOTED])
{
	char plain[QUOTED / 2];
	int n;

	if (c->token != NULL)
		n = snprintf(plain, sizeof(plain), "token:%.*s", VIEW_ARG(c->token->name));
	else if (c->peer->door == ADMIN_DOOR_LOCAL)
		n = snprintf(plain, sizeof(plain), "uid:%u", c->peer->uid);
	else
		n = snprintf(plain, sizeof(plain), "nobody");
	if ((size_t)n >= sizeof(plain))
		n = sizeof(plain) - 1;
	return log_quote(plain, (size_t)n, out, QUOTED);
}

void admin_audit_change(const struct admin_call *c)
{
	char quoted[QUOTED], failure[QUOTED] = "\"\"";

	if (c->status >= 400)
		(void)log_quote(c->failure.p, c->failure.n, failure, sizeof(failure));
	log_info("admin_change", "who=%s from=%s call=%s status=%u%s%.*s error=%s", who(c, quoted),
		 c->peer->text, c->route->path, c->status, c->what.n > 0 ? " " : "",
		 VIEW_ARG(c->what), failure);
}

void admin_audit_left(const struct admin_call *c)
{
	char quoted[QUOTED];

	log_info("admin_change", "who=%s from=%s call=%s status=0%s%.*s error=\"the client left\"",
		 who(c, quoted), c->peer->text, c->route->path, c->what.n > 0 ? " " : "",
		 VIEW_ARG(c->what));
}

void admin_audit_refused(struct admin_call *c)
{
	struct admin *a = c->admin;
	struct mono now = loop_now(a->loop);
	char asks[QUOTED], failure[QUOTED];

	if (a->refused_at.ms != 0 && now.ms - a->refused_at.ms < REFUSAL_EVERY_MS) {
		a->refused_unlogged++;
		return;
	}
	log_warn("admin_refused", "who=%s from=%s status=%u unlogged=%u error=%s", who(c, asks),
		 c->peer->text, c->status, a->refused_unlogged,
		 log_quote(c->failure.p, c->failure.n, failure, sizeof(failure)));
	a->refused_at = now;
	a->refused_unlogged = 0;
}
