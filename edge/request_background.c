/*
 * A request for nobody: it revalidates behind a stale answer that a client got at once, or fetches anew what was lost. Its exchange
 * takes everything and keeps nothing, so that the steps are those of any other request; what is its own is a copy of
 * the head, since the client's connection goes on to its next request meanwhile.
 */
#include <errno.h>
#include <stdlib.h>

#include "edge/http/uri.h"
#include "edge/request.h"

/* Takes everything, keeps nothing. */
static int void_read_body(struct exchange *x, struct view *out)
{
	(void)x;
	(void)out;
	return -ENODATA;
}

static void void_took_body(struct exchange *x, size_t n)
{
	(void)x;
	(void)n;
}

static void void_interim(struct exchange *x, uint16_t status, struct view fields)
{
	(void)x;
	(void)status;
	(void)fields;
}

static int void_head(struct exchange *x, const struct answer *a)
{
	(void)x;
	(void)a;
	return 0;
}

static int64_t void_memory(struct exchange *x, const void *p, size_t n, bool last)
{
	(void)x;
	(void)p;
	(void)last;
	return (int64_t)n;
}

static int64_t void_file(struct exchange *x, int fd, uint64_t offset, size_t n, bool last)
{
	(void)fd;
	(void)offset;
	return void_memory(x, NULL, n, last);
}

/* A pipe can't be emptied into nothing: a background request never relays. */
static int64_t void_pipe(struct exchange *x, int pipe_fd, size_t n, bool last)
{
	(void)x;
	(void)pipe_fd;
	(void)n;
	(void)last;
	return -ECONNRESET;
}

static bool void_taking(struct exchange *x)
{
	(void)x;
	return true;
}

static int void_finish(struct exchange *x, struct view trailers)
{
	(void)x;
	(void)trailers;
	return 0;
}

static void void_abort(struct exchange *x)
{
	(void)x;
}

/* The client's addresses are needed for longer than its connection may be there. */
struct void_exchange {
	struct exchange x;
	struct sock_addr peer, client;
};

static void void_done(struct exchange *x)
{
	free(CONTAINER_OF(x, struct void_exchange, x));
}

static const struct exchange_ops void_ops = {
	.read_body = void_read_body,
	.took_body = void_took_body,
	.send_interim = void_interim,
	.send_head = void_head,
	.send_memory = void_memory,
	.send_file = void_file,
	.send_pipe = void_pipe,
	.taking = void_taking,
	.finish = void_finish,
	.abort = void_abort,
	.done = void_done,
};

/* What a client wants for itself: a part, or only what is stored. */
static const uint64_t not_for_others = UINT64_C(1) << FIELD_RANGE | UINT64_C(1) << FIELD_IF_RANGE |
				       UINT64_C(1) << FIELD_CACHE_CONTROL |
				       UINT64_C(1) << FIELD_PRAGMA;

/* The request as a GET of its own, in a's memory: the connection's is gone before the origin answers. */
static struct http_request *copy_head(const struct http_request *from, struct view authority,
				      struct arena *a)
{
	struct http_request *to = arena_zalloc(a, sizeof(*to));
	struct http_field *at = arena_alloc(a, (from->fields.count + 1) * sizeof(*at));

	if (to == NULL || at == NULL)
		return NULL;
	*to = *from;
	to->method = METHOD_GET;
	to->method_text = VIEW("GET");
	to->target = to->scheme = (struct view){ 0 };
	to->expect_continue = false;
	to->framing = FRAMING_NONE;
	to->authority = arena_copy(a, authority);
	if (to->authority.p == NULL || uri_authority_split(to->authority, &to->host, &to->port) != 0)
		return NULL;
	to->path = arena_copy(a, from->path);
	to->fields = (struct http_fields){ .at = at,
					   .count = from->fields.count,
					   .capacity = from->fields.count,
					   .seen = from->fields.seen & ~not_for_others };
	for (uint16_t i = 0; i < from->fields.count; i++) {
		at[i] = from->fields.at[i];
		at[i].dropped |= (not_for_others >> at[i].id) & 1;
		at[i].name = arena_copy(a, at[i].name);
		at[i].value = arena_copy(a, at[i].value);
		if (at[i].name.p == NULL || at[i].value.p == NULL)
			return NULL;
	}
	return to->path.p != NULL ? to : NULL;
}

void request_begin_background(struct request *of)
{
	struct void_exchange *v = calloc(1, sizeof(*v));
	struct request *r;

	if (v == NULL)
		return;
	v->peer = *of->x->peer;
	v->client = *of->x->client;
	v->x = (struct exchange){ .ops = &void_ops,
				  .peer = &v->peer,
				  .client = &v->client,
				  .scheme = of->x->scheme,
				  .via_version = of->x->via_version,
				  .protocol = of->x->protocol };
	r = request_new(of->w, &v->x);
	if (r == NULL) {
		free(v);
		return;
	}
	r->background = true;
	r->lost_id = of->lost_id;
	r->rq = copy_head(of->rq, of->target.authority, &r->arena);
	machine_wake(&r->m);
}
