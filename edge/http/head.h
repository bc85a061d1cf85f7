/*
 * Message heads of HTTP/1 (RFC 9112): pure, incremental, no allocation. A parser looks at
 * bytes that the caller keeps and answers «done», «more» or «bad»; all views point into them.
 *
 * Requests are held to the letter, since what is ambiguous is an attack (smuggling). Responses
 * are repaired only where RFC 9112 §5 says so (obs-fold, space before the colon: in place).
 */
#ifndef BRIM_HTTP_HEAD_H
#define BRIM_HTTP_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "edge/base/check.h"
#include "edge/base/view.h"

enum http_method {
	METHOD_GET,
	METHOD_HEAD,
	METHOD_POST,
	METHOD_PUT,
	METHOD_DELETE,
	METHOD_CONNECT,
	METHOD_OPTIONS,
	METHOD_TRACE,
	METHOD_PATCH,
	METHOD_PURGE,
	METHOD_OTHER,
};
/* RFC 9110 §9.2.1, §9.2.2. */
bool http_method_safe(enum http_method m);
bool http_method_idempotent(enum http_method m);

/* Fields that Brim itself reads or writes are recognised once, while parsing. */
enum http_field_id {
	FIELD_OTHER,
	FIELD_ACCEPT_ENCODING,
	FIELD_ACCEPT_RANGES,
	FIELD_AGE,
	FIELD_AUTHORIZATION,
	FIELD_CACHE_CONTROL,
	FIELD_CACHE_GROUPS,
	FIELD_CACHE_GROUP_INVALIDATION,
	FIELD_CACHE_STATUS,
	FIELD_CACHE_TAG,
	FIELD_CDN_CACHE_CONTROL,
	FIELD_CDN_LOOP,
	FIELD_CONNECTION,
	FIELD_CONTENT_ENCODING,
	FIELD_CONTENT_LENGTH,
	FIELD_CONTENT_LOCATION,
	FIELD_CONTENT_RANGE,
	FIELD_CONTENT_TYPE,
	FIELD_COOKIE,
	FIELD_DATE,
	FIELD_ETAG,
	FIELD_EXPECT,
	FIELD_EXPIRES,
	FIELD_FORWARDED,
	FIELD_HOST,
	FIELD_HTTP2_SETTINGS,
	FIELD_IF_MATCH,
	FIELD_IF_MODIFIED_SINCE,
	FIELD_IF_NONE_MATCH,
	FIELD_IF_RANGE,
	FIELD_IF_UNMODIFIED_SINCE,
	FIELD_KEEP_ALIVE,
	FIELD_LAST_MODIFIED,
	FIELD_LOCATION,
	FIELD_PRAGMA,
	FIELD_PROXY_AUTHENTICATE,
	FIELD_PROXY_AUTHENTICATION_INFO,
	FIELD_PROXY_AUTHORIZATION,
	FIELD_PROXY_CONNECTION,
	FIELD_PROXY_STATUS,
	FIELD_RANGE,
	FIELD_SET_COOKIE,
	FIELD_SURROGATE_CONTROL,
	FIELD_SURROGATE_KEY,
	FIELD_TE,
	FIELD_TRAILER,
	FIELD_TRANSFER_ENCODING,
	FIELD_UPGRADE,
	FIELD_VARY,
	FIELD_VIA,
	FIELD_X_FORWARDED_FOR,
	FIELD_X_FORWARDED_HOST,
	FIELD_X_FORWARDED_PROTO,
	FIELD_X_REAL_IP,
	FIELD_XKEY,
	FIELD_COUNT,
};
/* By name, ASCII case ignored. FIELD_OTHER where unknown. */
enum http_field_id http_field_id(struct view name);

struct http_field {
	struct view name, value; /* value without surrounding whitespace */
	uint8_t id;		 /* enum http_field_id */
	bool dropped; /* hop-by-hop (named by Connection, or always so): not to be passed on or stored */
};

/* The caller's array; parsers fill it up to capacity. «seen» has a bit per field id that occurs
 * (not counting dropped ones), so that absent fields cost nothing to look for. */
struct http_fields {
	struct http_field *at;
	uint16_t count, capacity;
	uint64_t seen;
};
_Static_assert(FIELD_COUNT <= 64, "a bit per known field");

static inline bool http_fields_has(const struct http_fields *f, enum http_field_id id)
{
	return (f->seen >> id) & 1;
}
/* The first field with this id that is not dropped, or NULL. */
const struct http_field *http_fields_first(const struct http_fields *f, enum http_field_id id);
/* The next one after «after» with the same id, or NULL. */
const struct http_field *http_fields_next(const struct http_fields *f, const struct http_field *after);
/* By any name: from index *at on; *at then stands behind the one found. NULL: none left. */
const struct http_field *http_fields_find(const struct http_fields *f, struct view name, uint16_t *at);

enum http_framing { FRAMING_NONE, FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_CLOSE };

struct http_request {
	struct view method_text, target; /* target as received */
	enum http_method method;
	uint8_t minor;		   /* HTTP/1.minor, 0 or 1 */
	bool keep_alive;	   /* what version and Connection say */
	bool expect_continue;	   /* only ever true on 1.1 */
	bool upgrade;		   /* Connection: upgrade and Upgrade were there (both dropped) */
	enum http_framing framing; /* NONE, LENGTH or CHUNKED */
	uint64_t length;	   /* with LENGTH */
	struct view scheme;	   /* of an absolute-form target, else empty */
	struct view authority; /* Host, or the absolute form's (they must agree); "host[:port]" */
	struct view host;      /* its host, as it was written */
	uint16_t port;	       /* and its port; 0: none given */
	struct view path; /* path and query in origin-form: "/a?b"; "*" for OPTIONS; of absolute form with no path "/" */
	struct http_fields fields;
};

struct http_response {
	uint16_t status; /* 100..599 */
	uint8_t minor;
	struct view reason;
	bool keep_alive; /* the connection may be used again after the body */
	enum http_framing framing; /* for the request method given to the parser: NONE, LENGTH, CHUNKED or CLOSE */
	uint64_t length; /* with LENGTH; also set (and has_length) for HEAD and 304, where framing is NONE */
	bool has_length;
	struct http_fields fields;
};

/* Why a head is bad; also the status to answer a request with. */
enum http_fault {
	HTTP_OK = 0,
	HTTP_BAD_START_LINE,
	HTTP_BAD_VERSION /* not HTTP/1.x: 505 */,
	HTTP_BAD_FIELD,
	HTTP_BARE_CR_LF,
	HTTP_OBS_FOLD,
	HTTP_SPACE_BEFORE_COLON,
	HTTP_BAD_HOST,
	HTTP_BAD_TARGET,
	HTTP_BAD_LENGTH,
	HTTP_LENGTH_AND_CHUNKED,
	HTTP_BAD_TRANSFER_ENCODING /* a coding we don't know: 501 */,
	HTTP_BAD_CONNECTION,
	HTTP_BAD_EXPECT /* 417 */,
	HTTP_HEAD_TOO_LARGE /* 431 */,
	HTTP_TARGET_TOO_LONG /* 414 */,
	HTTP_BAD_CHUNK,
	HTTP_BAD_TRAILER,
	HTTP_BAD_FRAMING /* Transfer-Encoding on HTTP/1.0, or with chunked twice or not last: 400 */,
};
const char *http_fault_text(enum http_fault f); /* for people: "whitespace before a colon" */
uint16_t http_fault_status(enum http_fault f);	/* 400, 414, 417, 431, 501, 505 */

struct http_limits {
	uint32_t head_bytes; /* whole head, start line included */
	uint16_t fields;     /* at most the array's capacity */
};

enum http_parse { PARSE_MORE, PARSE_DONE, PARSE_BAD };

/* Where an incremental parse stands; zero it for each message. What was scanned is not scanned again. */
struct http_scan {
	uint32_t scanned;
	enum http_fault fault; /* after PARSE_BAD */
	uint32_t head_bytes;   /* after PARSE_DONE: length of the head, final CRLF included */
};

/*
 * n bytes at buf so far (from the message's first byte on; the buffer may have moved between calls).
 * A request: one empty line before it is skipped (RFC 9112 §2.2) and counted in head_bytes.
 */
enum http_parse http_request_parse(struct http_request *r, struct http_scan *s, const char *buf,
				   size_t n, const struct http_limits *limits) NODISCARD;
/* buf is changed in place where RFC 9112 §5 repairs. request_method decides the framing (HEAD). */
enum http_parse http_response_parse(struct http_response *r, struct http_scan *s, char *buf,
				    size_t n, enum http_method request_method,
				    const struct http_limits *limits) NODISCARD;
/* Stored or trailer fields only ("Name: value CRLF" …, up to an empty line or to n). 0 or -EINVAL / -E2BIG. */
int http_fields_parse(struct http_fields *f, const char *buf, size_t n) NODISCARD;

#endif
