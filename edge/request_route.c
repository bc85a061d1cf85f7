/*
 * A request's route, its first step: who asks, for which site and under which rules, and which way the request then goes. What must
 * not be served is refused here, in one order: the head's own faults, the host, what the connection may ask for, then what the
 * site says. Nothing is looked up yet.
 */
#include <errno.h>

#include "edge/client.h"
#include "edge/forward.h"
#include "edge/https.h"
#include "edge/request.h"
#include "edge/shape.h"
#include "edge/text.h"
#include "edge/tls_server.h"
#include "edge/tunnel.h"

/* Unlike others of this node since it started, and of other nodes by chance alone. */
static struct view new_request_id(struct request *r)
{
	struct text t = text_new(&r->arena, 32);

	text_hex(&t, r->w->boot_secret[0]);
	text_hex(&t, ++r->w->request_serial);
	return text_view(&t);
}

void request_make_id(struct request *r)
{
	struct view name = r->conf->request_id_header;
	const struct http_field *given;
	uint16_t at = 0;

	if (name.n == 0 || r->request_id.n > 0)
		return;
	given = r->peer_trusted ? http_fields_find(&r->rq->fields, name, &at) : NULL;
	if (given != NULL && given->value.n > 0 && given->value.n <= 128)
		r->request_id = given->value;
	else
		r->request_id = new_request_id(r);
}

static void identify(struct request *r)
{
	r->peer_trusted = client_peer_trusted(r->conf, r->x->client);
	r->from_downstream = client_in(&r->conf->downstream, r->x->client);
	if (r->peer_trusted) /* else it is the peer, as request_new has it */
		client_address(r->conf, r->x->client, &r->rq->fields, &r->client);
}

/* HTTP/1.0 needn't name a host: then it is the listener's address, which is a catch-all site's. */
static int find_target(struct request *r)
{
	const struct http_request *rq = r->rq;

	if (rq->host.n > 0)
		return target_at(r->conf, r->x->scheme, rq->host, rq->port, rq->path, &r->arena,
				 &r->target);
	if (r->listener == NULL)
		return -EINVAL;
	return target_of(r->conf, r->x->scheme, r->listener->text, rq->path, &r->arena, &r->target);
}

static enum step_result bad_target(struct request *r, int error)
{
	if (error == -ENOENT && r->rq->authority.n > 0)
		return request_error(r, 421, NULL, "no site here has this host name");
	if (error == -ENOMEM)
		return request_error(r, 503, NULL, "short of memory");
	return request_error(r, 400, NULL, "the host or the path is not valid");
}

struct conf_request request_for_rules(const struct request *r)
{
	return (struct conf_request){
		.path = r->target.path_only,
		.query = r->target.query,
		.host = r->target.host,
		.odd_path = r->target.odd_path,
		.method = r->rq->method == METHOD_PURGE ? METHOD_GET : r->rq->method,
		.method_text = r->rq->method_text,
		.fields = &r->rq->fields,
		.client = &r->client,
	};
}

static void apply_rules(struct request *r)
{
	struct conf_request q = request_for_rules(r);

	conf_request_rules(r->target.site, &q, &r->cache, &r->ruling);
	r->origin = r->ruling.origin;
}

static enum step_result choose_way(struct request *r)
{
	r->store_reason = STORE_YES;
	r->upgrade = tunnel_offer(r);
	if (r->upgrade.n > 0) {
		r->why = FORWARD_BYPASS;
		r->result = STATS_PASS;
		return request_goto(r, REQUEST_FETCH);
	}
	switch (verdict_request(r->rq, &r->cache)) {
	case REQUEST_RANGE:
		r->ranged = r->rq->method == METHOD_GET;
		__attribute__((fallthrough));
	case REQUEST_LOOKUP:
		if (r->w->cache == NULL) {
			r->result = STATS_PASS;
			r->why = FORWARD_URI_MISS;
			break;
		}
		r->lookup = true;
		return request_goto(r, REQUEST_LOOK_UP);
	case REQUEST_METHOD:
		r->why = FORWARD_METHOD;
		r->result = STATS_PASS;
		break;
	case REQUEST_BYPASS:
		r->why = FORWARD_BYPASS;
		r->result = STATS_BYPASS;
		break;
	case REQUEST_BODY:
		r->why = FORWARD_BYPASS;
		r->result = STATS_PASS;
		break;
	}
	return request_goto(r, REQUEST_FETCH);
}

enum step_result request_step_route(struct machine *m)
{
	struct request *r = request_of(m);
	const struct http_request *rq = r->rq;
	int e;

	if (r->early_status != 0)
		return request_error(r, r->early_status,
				     r->early_status == 408 ? NULL : "http_request_error",
				     r->early_text);
	if (rq == NULL)
		return request_goto(r, REQUEST_END);
	if (r->health)
		return request_answer(r, 200, (struct view){ 0 }, VIEW("ok\n"));
	identify(r);
	if (rq->method == METHOD_CONNECT || rq->method == METHOD_TRACE)
		return request_error(r, 405, NULL, "this method is not served here");
	if (rq->method == METHOD_OPTIONS && view_eq(rq->path, VIEW("*")))
		return request_answer(r, 204, VIEW(REQUEST_ALLOW_LINE), (struct view){ 0 });
	e = find_target(r);
	if (e != 0)
		return bad_target(r, e);
	if (r->x->identity != NULL &&
	    !tls_identity_serves(r->x->identity, r->target.site, r->target.host))
		return request_error(r, 421, NULL,
				     "this connection's certificate does not serve this host");
	if (r->x->early && (!r->target.site->tls.early_data || !http_method_safe(rq->method)))
		return request_error(r, 425, NULL,
				     "this request must not come before the handshake is done");
	apply_rules(r);
	target_key(&r->target, &r->cache, r->key.primary);
	if (rq->method == METHOD_PURGE)
		return request_goto(r, REQUEST_PURGE);
	if (https_wanted(r))
		return https_redirect(r);
	if (forward_loops(r))
		return request_error(r, 502, "proxy_loop_detected", "this request has been here before");
	if (r->ruling.respond != NULL)
		return shape_respond(r);
	if (rq->framing == FRAMING_LENGTH && rq->length > r->target.site->max_request_body)
		return request_error(r, 413, NULL, "the request's body is larger than this site takes");
	return choose_way(r);
}
