/*
 * A request to the admin API. Input: a byte for the token, then lines: target, Host, Origin; all else is the body of a
 * purge. Nothing that is read crashes; decoded parameters hold no NUL; only names of ours get past the check of Host; and a
 * token of one site never gets a scope that could name another's objects.
 */
#include <errno.h>
#include <stdlib.h>

#include "edge/admin_purge_names.h"

static const char text[] =
	"{\"workers\": 1, \"listeners\": [{\"address\": \"127.0.0.1:80\"}],"
	"\"stores\": [{\"name\": \"s\", \"path\": \"/nowhere\", \"size\": \"1GiB\"}],"
	"\"origins\": {\"o\": {\"servers\": [{\"url\": \"http://127.0.0.1:81\"}]}},"
	"\"sites\": [{\"name\": \"a\", \"hosts\": [\"a.test\", \"*.a.test\"], \"origin\": \"o\"},"
	"{\"name\": \"b\", \"hosts\": [\"b.test\"], \"origin\": \"o\","
	" \"cache\": {\"key\": {\"host\": false, \"query\": \"none\"}}}],"
	"\"admin\": {\"listen\": [], \"hosts\": [\"admin.test\"]}}";

static struct view only_a[] = { VIEW("a") };
static const struct conf_token token = { .role = CONF_ROLE_PURGE, .sites = { only_a, 1 } };

static struct conf *configuration(void)
{
	struct conf_faults faults = { 0 };
	static struct conf *c;

	if (c == NULL)
		CHECK(conf_build(view_of(text, sizeof(text) - 1), 1, &faults, &c) == 0);
	return c;
}

static struct view line(struct view *rest)
{
	const char *end = rest->n > 0 ? memchr(rest->p, '\n', rest->n) : NULL;
	size_t n = end != NULL ? (size_t)(end - rest->p) : rest->n;
	struct view found = view_of(rest->p, n);

	*rest = view_skip(*rest, end != NULL ? n + 1 : n);
	return found;
}

static void target(struct admin_call *c, struct view v)
{
	const char *mark = v.n > 0 ? memchr(v.p, '?', v.n) : NULL;

	c->path = view_of(v.p, mark != NULL ? (size_t)(mark - v.p) : v.n);
	c->query = mark != NULL ? view_skip(v, c->path.n + 1) : (struct view){ 0 };
	c->route = admin_route(c->path, &c->rest);
	if (c->route == NULL || !admin_query_known(c))
		return;
	for (size_t i = 0; i < ARRAY_LEN(c->route->query) && c->route->query[i] != NULL; i++) {
		struct view value;
		bool flag;

		if (admin_query(c, view_str(c->route->query[i]), &value) == 0)
			CHECK(value.n == 0 || memchr(value.p, '\0', value.n) == NULL);
		(void)!admin_query_flag(c, c->route->query[i], &flag);
	}
}

/* A byte too many that is read is seen only at the end of memory of its own. */
static char *exact(struct view *v)
{
	char *copy = malloc(v->n + 1);

	CHECK(copy != NULL);
	if (v->n > 0)
		memcpy(copy, v->p, v->n);
	v->p = copy;
	return copy;
}

static void host(struct view authority, struct view origin)
{
	struct http_field at = { VIEW("Origin"), origin, FIELD_OTHER, false };
	struct http_request rq = { .authority = authority, .fields = { &at, origin.n > 0, 1, 0 } };
	struct admin_refusal r = admin_access_host(configuration(), &rq);

	CHECK(r.status == 0 || r.status == 421 || r.status == 403);
	if (r.status != 0 || authority.n == 0)
		return;
	CHECK(authority.n < 64); /* an address, localhost, admin.test, with a port: none is longer */
	CHECK(origin.n == 0 || origin.n > authority.n);
}

static void body(struct admin_call *c)
{
	uint64_t a = conf_site_named(c->conf, VIEW("a"))->name_hash;
	struct purge_names n = { 0 };
	int r = purge_names_begin(&n, c);

	while (r == 0 && (r = purge_names_more(&n)) == -EAGAIN)
		r = 0;
	CHECK(r == 0 || r == -EINVAL || r == -EPERM || r == -ENOMEM);
	CHECK(r != -EPERM || c->token != NULL);
	for (unsigned i = 0; r == 0 && c->token != NULL && i < n.count; i++) {
		CHECK(n.scopes[i].kind != CACHE_SCOPE_ALL);
		CHECK(n.scopes[i].site_hash == a ||
		      (n.scopes[i].kind == CACHE_SCOPE_URL && n.scopes[i].site_hash == 0));
	}
	purge_names_fini(&n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct admin admin = { .conf = configuration() };
	struct admin_call c = { .admin = &admin, .conf = admin.conf };
	struct view rest = view_of((const char *)data, size), authority, origin;
	char *copy;

	if (size == 0)
		return 0;
	c.token = data[0] & 1 ? &token : NULL;
	arena_init(&c.arena, ADMIN_ARENA_MAX);
	rest = view_skip(rest, 1);
	target(&c, line(&rest));
	authority = line(&rest);
	origin = line(&rest);
	host(authority, origin);
	copy = exact(&rest);
	c.body = rest;
	body(&c);
	free(copy);
	arena_fini(&c.arena);
	return 0;
}
