/*
 * Names that Brim knows: of fields and methods. A field's name is found by one probe of a perfect
 * hash over its length and three of its letters, then one comparison; no name is compared twice.
 * The table is built by the compiler: two names in one slot are an initializer that overrides
 * another, which our warnings make an error; then choose other factors in SLOT. (A generated table
 * would be a tool more to build with.)
 */
#include "edge/http/chars.h"
#include "edge/http/parts.h"

/* Name, spelling, and its first, middle (at length / 2) and last letter: C does not count an
 * element of a literal as a constant. A unit test looks every name up. */
#define KNOWN_FIELDS(X)                                                          \
	X(ACCEPT_ENCODING, "accept-encoding", 'a', 'e', 'g')                     \
	X(ACCEPT_RANGES, "accept-ranges", 'a', '-', 's')                         \
	X(AGE, "age", 'a', 'g', 'e')                                             \
	X(AUTHORIZATION, "authorization", 'a', 'i', 'n')                         \
	X(CACHE_CONTROL, "cache-control", 'c', 'c', 'l')                         \
	X(CACHE_GROUPS, "cache-groups", 'c', 'g', 's')                           \
	X(CACHE_GROUP_INVALIDATION, "cache-group-invalidation", 'c', 'i', 'n')   \
	X(CACHE_STATUS, "cache-status", 'c', 's', 's')                           \
	X(CACHE_TAG, "cache-tag", 'c', 'e', 'g')                                 \
	X(CDN_CACHE_CONTROL, "cdn-cache-control", 'c', 'e', 'l')                 \
	X(CDN_LOOP, "cdn-loop", 'c', 'l', 'p')                                   \
	X(CONNECTION, "connection", 'c', 'c', 'n')                               \
	X(CONTENT_ENCODING, "content-encoding", 'c', 'e', 'g')                   \
	X(CONTENT_LENGTH, "content-length", 'c', '-', 'h')                       \
	X(CONTENT_LOCATION, "content-location", 'c', 'l', 'n')                   \
	X(CONTENT_RANGE, "content-range", 'c', 't', 'e')                         \
	X(CONTENT_TYPE, "content-type", 'c', 't', 'e')                           \
	X(COOKIE, "cookie", 'c', 'k', 'e')                                       \
	X(DATE, "date", 'd', 't', 'e')                                           \
	X(ETAG, "etag", 'e', 'a', 'g')                                           \
	X(EXPECT, "expect", 'e', 'e', 't')                                       \
	X(EXPIRES, "expires", 'e', 'i', 's')                                     \
	X(FORWARDED, "forwarded", 'f', 'a', 'd')                                 \
	X(HOST, "host", 'h', 's', 't')                                           \
	X(HTTP2_SETTINGS, "http2-settings", 'h', 'e', 's')                       \
	X(IF_MATCH, "if-match", 'i', 'a', 'h')                                   \
	X(IF_MODIFIED_SINCE, "if-modified-since", 'i', 'i', 'e')                 \
	X(IF_NONE_MATCH, "if-none-match", 'i', 'e', 'h')                         \
	X(IF_RANGE, "if-range", 'i', 'a', 'e')                                   \
	X(IF_UNMODIFIED_SINCE, "if-unmodified-since", 'i', 'f', 'e')             \
	X(KEEP_ALIVE, "keep-alive", 'k', 'a', 'e')                               \
	X(LAST_MODIFIED, "last-modified", 'l', 'o', 'd')                         \
	X(LOCATION, "location", 'l', 't', 'n')                                   \
	X(PRAGMA, "pragma", 'p', 'g', 'a')                                       \
	X(PROXY_AUTHENTICATE, "proxy-authenticate", 'p', 'h', 'e')               \
	X(PROXY_AUTHENTICATION_INFO, "proxy-authentication-info", 'p', 't', 'o') \
	X(PROXY_AUTHORIZATION, "proxy-authorization", 'p', 'h', 'n')             \
	X(PROXY_CONNECTION, "proxy-connection", 'p', 'n', 'n')                   \
	X(PROXY_STATUS, "proxy-status", 'p', 's', 's')                           \
	X(RANGE, "range", 'r', 'n', 'e')                                         \
	X(SET_COOKIE, "set-cookie", 's', 'o', 'e')                               \
	X(SURROGATE_CONTROL, "surrogate-control", 's', 'e', 'l')                 \
	X(SURROGATE_KEY, "surrogate-key", 's', 'a', 'y')                         \
	X(TE, "te", 't', 'e', 'e')                                               \
	X(TRAILER, "trailer", 't', 'i', 'r')                                     \
	X(TRANSFER_ENCODING, "transfer-encoding", 't', '-', 'g')                 \
	X(UPGRADE, "upgrade", 'u', 'r', 'e')                                     \
	X(VARY, "vary", 'v', 'r', 'y')                                           \
	X(VIA, "via", 'v', 'i', 'a')                                             \
	X(X_FORWARDED_FOR, "x-forwarded-for", 'x', 'r', 'r')                     \
	X(X_FORWARDED_HOST, "x-forwarded-host", 'x', 'd', 't')                   \
	X(X_FORWARDED_PROTO, "x-forwarded-proto", 'x', 'd', 'o')                 \
	X(X_REAL_IP, "x-real-ip", 'x', 'a', 'p')                                 \
	X(XKEY, "xkey", 'x', 'e', 'y')

#define SLOT(length, first, middle, last) \
	(((unsigned)(length) + 4u * (uint8_t)(first) + 24u * (uint8_t)(middle) + (uint8_t)(last)) & 255)

#define SLOT_ENTRY(id, spelling, first, middle, last) \
	[SLOT(sizeof(spelling) - 1, first, middle, last)] = FIELD_##id,
#define SPELLING_ENTRY(id, spelling, first, middle, last) \
	[FIELD_##id] = { spelling, sizeof(spelling) - 1 },

static const uint8_t slots[256] = { KNOWN_FIELDS(SLOT_ENTRY) };
static const struct view spellings[FIELD_COUNT] = { KNOWN_FIELDS(SPELLING_ENTRY) };

enum http_field_id http_field_id(struct view name)
{
	if (name.n == 0)
		return FIELD_OTHER;
	/* The bit makes letters small, and leaves alone what else is in names that are known. */
	uint8_t id =
		slots[SLOT(name.n, name.p[0] | 0x20, name.p[name.n / 2] | 0x20, name.p[name.n - 1] | 0x20)];
	if (spellings[id].n != name.n || !chars_are(name.p, spellings[id].p, name.n))
		return FIELD_OTHER;
	return (enum http_field_id)id;
}

static const struct view methods[METHOD_OTHER] = {
	[METHOD_GET] = VIEW("GET"),	    [METHOD_HEAD] = VIEW("HEAD"),
	[METHOD_POST] = VIEW("POST"),	    [METHOD_PUT] = VIEW("PUT"),
	[METHOD_DELETE] = VIEW("DELETE"),   [METHOD_CONNECT] = VIEW("CONNECT"),
	[METHOD_OPTIONS] = VIEW("OPTIONS"), [METHOD_TRACE] = VIEW("TRACE"),
	[METHOD_PATCH] = VIEW("PATCH"),	    [METHOD_PURGE] = VIEW("PURGE"),
};

/* Case matters (RFC 9110 §9.1). */
enum http_method http_method_of(struct view name)
{
	unsigned m = 0;

	if (view_eq(name, VIEW("GET")))
		return METHOD_GET;
	while (m < METHOD_OTHER && !view_eq(methods[m], name))
		m++;
	return (enum http_method)m;
}

bool http_method_safe(enum http_method m)
{
	return m == METHOD_GET || m == METHOD_HEAD || m == METHOD_OPTIONS || m == METHOD_TRACE;
}

bool http_method_idempotent(enum http_method m)
{
	return http_method_safe(m) || m == METHOD_PUT || m == METHOD_DELETE;
}
