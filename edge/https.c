/*
 * From http:// to https://. The redirect is a 308, so that a method and a body survive it, to the same URL at the usual
 * port: the one that the client used belongs to plain HTTP. Not redirected are certificate authorities that look for a
 * challenge (they may ask before there is a certificate), PURGE, and requests of which a trusted proxy says that they came
 * to it by https: those would come back for ever.
 *
 * Strict-Transport-Security (RFC 6797) goes out over TLS alone, on all answers of the site, ours and errors too, in place
 * of the origin's: clients read the first one only, and the site's operator has the last word.
 */
#include "edge/https.h"

#include "edge/http/field.h"
#include "edge/text.h"

static bool came_secure(const struct request *r)
{
	const struct http_field *proto;

	if (view_eq(r->x->scheme, VIEW("https")))
		return true;
	if (!r->peer_trusted)
		return false;
	proto = http_fields_first(&r->rq->fields, FIELD_X_FORWARDED_PROTO);
	return proto != NULL && view_eq_nocase(proto->value, VIEW("https"));
}

bool https_wanted(const struct request *r)
{
	return r->target.site->https_redirect && !came_secure(r) &&
	       !view_starts(r->target.path_only, VIEW("/.well-known/acme-challenge/"));
}

enum step_result https_redirect(struct request *r)
{
	const struct target *to = &r->target;
	struct text t = text_new(&r->arena, 128 + to->host.n + to->path.n);
	char date[HTTP_DATE_BYTES];

	http_date_format(clock_wall(), date);
	text_line(&t, VIEW("Date"), view_of(date, sizeof(date)));
	text_put(&t, VIEW("Location: https://"));
	text_put(&t, to->host);
	text_put(&t, to->path);
	text_put(&t, VIEW("\r\n"));
	if (t.failed)
		return request_error(r, 503, "proxy_internal_error", "short of memory");
	return request_answer(r, 308, text_view(&t), (struct view){ 0 });
}

bool https_strict(const struct request *r)
{
	const struct conf_site *site = r->target.site;

	return site != NULL && site->hsts.value.n > 0 && view_eq(r->x->scheme, VIEW("https"));
}

struct view https_own(struct request *r, struct view own)
{
	static const struct view name = VIEW("Strict-Transport-Security");
	struct view value = r->target.site->hsts.value;
	struct text t = text_new(&r->arena, own.n + name.n + value.n + 4);

	text_put(&t, own);
	text_line(&t, name, value);
	return text_view(&t);
}
