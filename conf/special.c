/*
 * Readers for keys that set several members, refer to other parts or have a syntax of their
 * own. «member» is the first member that the key sets; where it lies within its struct, the
 * rest is reached from there.
 *
 * Lists are read through a stand-in key, so that their faults, limits and pointers are those of
 * every other list.
 */
#include "conf/special.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <sched.h>

#include "conf/apply.h"
#include "conf/value.h"
#include "edge/http/field.h"
#include "edge/http/uri.h"

static uint32_t usable_cpus(void)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	return count < 1 ? 1 : count > CONF_WORKERS_MAX ? CONF_WORKERS_MAX : (uint32_t)count;
}

void conf_read_workers(struct conf_reader *r, const cJSON *value, void *member)
{
	uint32_t *workers = member;

	if (cJSON_IsString(value) && strcmp(value->valuestring, "auto") == 0)
		*workers = usable_cpus();
	else if (cJSON_IsNumber(value) && value->valuedouble >= 1 &&
		 value->valuedouble <= CONF_WORKERS_MAX && value->valuedouble == (double)value->valueint)
		*workers = (uint32_t)value->valueint;
	else
		conf_reader_fault(r, "must be \"auto\" or a number from 1 to %d", CONF_WORKERS_MAX);
}

/* conf_read has taken it away already: this text came from somewhere else. */
void conf_read_include(struct conf_reader *r, const cJSON *value, void *member)
{
	(void)value;
	(void)member;
	conf_reader_fault(r, "only files can include files");
}

/* The text of a string value; false with a fault told where it is none. */
static bool text_of(struct conf_reader *r, const cJSON *value, struct view *out)
{
	if (!cJSON_IsString(value) || value->valuestring[0] == '\0') {
		conf_reader_fault(r, "must be a string");
		return false;
	}
	*out = view_str(value->valuestring);
	return true;
}

void conf_read_mode(struct conf_reader *r, const cJSON *value, void *member)
{
	if (!cJSON_IsString(value) || conf_value_mode(view_str(value->valuestring), member) < 0)
		conf_reader_fault(r, "must be an octal mode as a string, like \"0660\"");
}

void conf_read_address(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_listener *listener = CONTAINER_OF(member, struct conf_listener, address);
	struct sock_addr address;
	struct view text;

	if (!text_of(r, value, &text))
		return;
	if (sock_addr_parse(text, &address) < 0) {
		conf_reader_fault(r, "must be an address and a port like \"0.0.0.0:80\", "
				     "\"[::]:80\", \"*:80\", or \"unix:/path\"");
		return;
	}
	if (address.any.sa_family != AF_UNIX && address.v4.sin_port == 0) {
		conf_reader_fault(r, "needs a port other than 0");
		return;
	}
	listener->address = address;
	listener->text = conf_reader_copy(r, text);
}

/* --- origins */

static const char *url_fault(const struct uri *uri, bool split)
{
	if (!split)
		return "must be a URL like \"http://10.0.0.5:8080\"";
	if (!view_eq(uri->path, VIEW("/")) && uri->path.n > 0)
		return "must end after the host and port: a path has no place here";
	return NULL;
}

/* "host" → the server's host, port and address. Brackets are the authority's, not the host's. */
static bool server_address(struct conf_reader *r, struct conf_server *server, struct view authority,
			   uint16_t usual)
{
	char host[URI_HOST_MAX + 1];
	size_t n;
	uint16_t port;

	if (uri_authority(authority, host, &n, &port) < 0)
		return false;
	port = port == 0 ? usual : port;
	struct view name = view_of(host, n);

	if (n > 2 && host[0] == '[')
		name = view_of(host + 1, n - 2);
	server->literal = sock_addr_literal(name, port, &server->address) == 0;
	if (!server->literal && !conf_value_domain(name))
		return false;
	server->host = conf_reader_copy(r, name);
	server->port = port;
	server->authority = arena_printf(
		&r->conf->arena,
		server->literal && memchr(name.p, ':', name.n) != NULL ? "[%.*s]" : "%.*s",
		VIEW_ARG(name));
	if (port != usual && server->authority.p != NULL)
		server->authority = arena_printf(&r->conf->arena, "%.*s:%u",
						 VIEW_ARG(server->authority), port);
	r->exhausted |= server->authority.p == NULL;
	return true;
}

void conf_read_url(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_server *server = CONTAINER_OF(member, struct conf_server, url);
	struct uri uri = { 0 };
	struct view text;

	if (!text_of(r, value, &text))
		return;
	const char *wrong = url_fault(&uri, uri_parse(text, &uri) == 0);

	server->tls = view_eq(uri.scheme, VIEW("https"));
	if (wrong == NULL && !server_address(r, server, uri.authority, server->tls ? 443 : 80))
		wrong = "has no valid host and port";
	if (wrong != NULL)
		conf_reader_fault(r, "%s", wrong);
	else
		server->url = conf_reader_copy(r, text);
}

void conf_read_origin_host(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_origin *origin = CONTAINER_OF(member, struct conf_origin, host_client);
	char host[URI_HOST_MAX + 1];
	struct view text;
	size_t n;
	uint16_t port;

	if (!text_of(r, value, &text))
		return;
	bool client = view_eq(text, VIEW("client")), server = view_eq(text, VIEW("server"));

	if (!client && !server && uri_authority(text, host, &n, &port) < 0) {
		conf_reader_fault(r, "must be \"client\", \"server\" or a host name");
		return;
	}
	origin->host_client = client;
	origin->host = client || server ? VIEW("") : conf_reader_copy(r, text);
}

void conf_read_origin_defaults(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_origin scratch = { 0 };
	uint64_t seen = 0;

	(void)member;
	conf_apply(r, &conf_scope_origin, value, &scratch, &seen);
	r->origin_defaults = value;
}

void conf_read_site_defaults(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_site scratch = { 0 };
	uint64_t seen = 0;

	(void)member;
	conf_apply(r, &conf_scope_site, value, &scratch, &seen);
	r->site_defaults = value;
}

/* --- sites */

void conf_read_list(struct conf_reader *r, const cJSON *value, int64_t min,
		    const char *(*valid)(struct view), struct conf_list *out)
{
	const struct conf_key key = {
		.path = "", .type = CONF_STRINGS, .bytes = sizeof(*out), .min = min, .valid = valid
	};

	conf_apply_key(r, &key, value, out);
}

static const char *host_fault(struct view v)
{
	char host[URI_HOST_MAX + 1];
	struct sock_addr address;
	bool wild = view_starts(v, VIEW("*."));
	struct view name = wild ? view_skip(v, 2) : v;
	size_t n;
	uint16_t port;

	if (view_eq(v, VIEW("*")))
		return NULL;
	for (size_t i = 0; i < name.n; i++) {
		if (name.p[i] == '*')
			return "may have a * only as the whole first label (\"*.shop.example\") or "
			       "alone";
		if ((unsigned char)name.p[i] >= 0x80)
			return "must be in ASCII: write the name's xn-- form";
	}
	if (uri_authority(name, host, &n, &port) < 0)
		return "is not a host name";
	if (n != name.n)
		return "must be without a port: a site is the same on all of them";
	if (conf_value_domain(view_of(host, n)))
		return NULL;
	if (!wild && host[0] == '[' && sock_addr_literal(view_of(host, n), 1, &address) == 0)
		return NULL;
	return "is not a host name (letters, digits, hyphens; no dot at the end)";
}

/* Hosts compare in lower case, as requests' hosts do after uri_authority. */
void conf_read_hosts(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_list *hosts = member, list = { 0 };

	conf_read_list(r, value, 1, host_fault, &list);
	for (size_t i = 0; i < list.count; i++) {
		struct view *host = &list.at[i];
		char *lower = conf_reader_alloc(r, host->n + 1);

		for (size_t j = 0; lower != NULL && j < host->n; j++)
			lower[j] = (char)(host->p[j] >= 'A' && host->p[j] <= 'Z'
						  ? host->p[j] + ('a' - 'A')
						  : host->p[j]);
		if (lower != NULL)
			host->p = lower;
	}
	*hosts = list;
}

static void tell_no_origin(struct conf_reader *r, struct view name)
{
	struct view best = { NULL, 0 };
	unsigned most = 3;

	for (size_t i = 0; i < r->conf->origin_count; i++) {
		unsigned distance = conf_distance(name, r->conf->origins[i].name, most);

		if (distance <= most) {
			best = r->conf->origins[i].name;
			most = distance;
		}
	}
	if (best.p != NULL)
		conf_reader_fault(r, "there is no origin \"%.*s\", did you mean \"%.*s\"?",
				  VIEW_ARG(name), VIEW_ARG(best));
	else
		conf_reader_fault(r, "there is no origin \"%.*s\" in \"origins\"", VIEW_ARG(name));
}

/* Origins were read before whatever refers to them, so that a reference can be a pointer. */
void conf_read_origin(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_origin **origin = member;
	struct view name;

	if (!text_of(r, value, &name))
		return;
	for (size_t i = 0; i < r->conf->origin_count; i++) {
		if (view_eq(r->conf->origins[i].name, name)) {
			*origin = &r->conf->origins[i];
			return;
		}
	}
	tell_no_origin(r, name);
}

void conf_read_purge_from(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_site *site = CONTAINER_OF(member, struct conf_site, purge_from);
	const struct conf_key key = { .path = "", .type = CONF_NETS, .bytes = sizeof(site->purge_from) };

	conf_apply_key(r, &key, value, &site->purge_from);
	site->purge_allowed = site->purge_from.count > 0;
}

/* --- "cache" */

static void read_status(struct conf_reader *r, const cJSON *value, struct conf_status_ttl *status)
{
	const struct conf_key ttl = {
		.path = "",
		.type = CONF_DURATION,
		.bytes = sizeof(status->ttl_ms),
		.offset = offsetof(struct conf_status_ttl, ttl_ms),
		.max = CONF_TTL_MAX_MS,
	};

	if (conf_value_status(view_str(value->string), &status->from, &status->to) < 0)
		conf_reader_fault(r, "must be a status like \"404\" or a class like \"5xx\"");
	conf_apply_key(r, &ttl, value, status);
}

void conf_read_statuses(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_cache *cache = CONTAINER_OF(member, struct conf_cache, statuses);
	size_t count = (size_t)cJSON_GetArraySize(value);
	const cJSON *child;

	if (!cJSON_IsObject(value) || count > CONF_STATUSES_MAX) {
		conf_reader_fault(r, "must be an object like {\"404\": \"10s\", \"5xx\": \"1s\"}");
		return;
	}
	struct conf_status_ttl *at = conf_reader_alloc(r, count * sizeof(*at));

	if (at == NULL)
		return;
	cache->statuses = at;
	cache->status_count = count;
	cJSON_ArrayForEach(child, value)
	{
		size_t mark = conf_reader_enter(r, child->string);

		read_status(r, child, at++);
		conf_reader_leave(r, mark);
	}
}

static const char *ignorable(struct view v)
{
	if (view_eq_nocase(v, VIEW("cache-control")) || view_eq_nocase(v, VIEW("expires")) ||
	    view_eq_nocase(v, VIEW("set-cookie")))
		return NULL;
	return "must be one of \"cache-control\", \"expires\", \"set-cookie\"";
}

void conf_read_ignore_headers(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_cache *cache = CONTAINER_OF(member, struct conf_cache, ignore_cache_control);
	struct conf_list list = { 0 };

	conf_read_list(r, value, 0, ignorable, &list);
	cache->ignore_cache_control = cache->ignore_expires = cache->ignore_set_cookie = false;
	for (size_t i = 0; i < list.count; i++) {
		cache->ignore_cache_control |= view_eq_nocase(list.at[i], VIEW("cache-control"));
		cache->ignore_expires |= view_eq_nocase(list.at[i], VIEW("expires"));
		cache->ignore_set_cookie |= view_eq_nocase(list.at[i], VIEW("set-cookie"));
	}
}

void conf_read_object_size(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_cache *cache = CONTAINER_OF(member, struct conf_cache, max_object_bytes);
	const struct conf_key size = {
		.path = "", .type = CONF_SIZE, .min = 1, .bytes = sizeof(cache->max_object_bytes)
	};
	uint8_t percent;
	int err = -EINVAL;

	if (cJSON_IsString(value) && strchr(value->valuestring, '%') != NULL) {
		err = conf_value_percent(view_str(value->valuestring), &percent);
		if (err < 0) {
			conf_reader_fault(r, "must be from \"1%%\" to \"100%%\", or a size");
			return;
		}
		cache->max_object_bytes = 0;
		cache->max_object_percent = percent;
		return;
	}
	conf_apply_key(r, &size, value, member);
	cache->max_object_percent = 0;
}

void conf_read_heuristic(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_cache *cache = CONTAINER_OF(member, struct conf_cache, heuristic);
	bool all = cJSON_IsString(value) && strcmp(value->valuestring, "all") == 0;

	if (!all && !cJSON_IsBool(value)) {
		conf_reader_fault(r, "must be true, false or \"all\"");
		return;
	}
	cache->heuristic = all || cJSON_IsTrue(value);
	cache->heuristic_all = all;
}

static bool read_query_filter(struct conf_reader *r, const cJSON *value, struct conf_query *out)
{
	struct conf_query_parts parts = { 0 };
	uint64_t seen = 0;

	conf_apply(r, &conf_scope_query, value, &parts, &seen);
	if (parts.only.count > 0 && parts.except.count > 0) {
		conf_reader_fault(r, "takes \"only\" or \"except\", not both");
		return false;
	}
	out->sort = parts.sort;
	out->kind = parts.only.count > 0     ? CONF_QUERY_ONLY
		    : parts.except.count > 0 ? CONF_QUERY_EXCEPT
					     : CONF_QUERY_ALL;
	out->names = parts.only.count > 0 ? parts.only : parts.except;
	return true;
}

void conf_read_query(struct conf_reader *r, const cJSON *value, void *member)
{
	struct conf_query query = { .kind = CONF_QUERY_ALL };

	if (cJSON_IsObject(value)) {
		if (!read_query_filter(r, value, &query))
			return;
	} else if (cJSON_IsString(value) && strcmp(value->valuestring, "none") == 0) {
		query.kind = CONF_QUERY_NONE;
	} else if (!cJSON_IsString(value) || strcmp(value->valuestring, "all") != 0) {
		conf_reader_fault(
			r, "must be \"all\", \"none\" or an object like {\"except\": [\"utm_*\"]}");
		return;
	}
	memcpy(member, &query, sizeof(query));
}
