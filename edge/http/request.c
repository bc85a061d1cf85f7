/*
 * Request heads (RFC 9112 §3). Nothing is repaired: what two readers could read in two ways is
 * refused, and a server that answers 400 to a broken client is cheaper than one that relays an attack.
 */
#include "edge/http/chars.h"
#include "edge/http/field.h"
#include "edge/http/parts.h"
#include "edge/http/uri.h"

/* "METHOD SP target SP HTTP/1.x" from p up to cr. */
static enum http_fault request_line(struct http_request *r, const char *p, const char *cr)
{
	const char *method = p;
	while (char_is(*p, CHAR_TOKEN))
		p++;
	if (p == method || *p != ' ')
		return HTTP_BAD_START_LINE;
	r->method_text = view_of(method, (size_t)(p - method));
	r->method = http_method_of(r->method_text);

	const char *target = ++p;
	while (char_is(*p, CHAR_TARGET))
		p++;
	if (p == target || p == cr)
		return HTTP_BAD_START_LINE;
	if (*p != ' ')
		return HTTP_BAD_TARGET;
	r->target = view_of(target, (size_t)(p - target));
	if (cr - p != sizeof(" HTTP/1.1") - 1)
		return HTTP_BAD_START_LINE;
	return http_version(p + 1, &r->minor);
}

/* What Host says, which must be valid; nothing where HTTP/1.0 has none. */
static enum http_fault host(struct http_request *r)
{
	const struct http_field *h = http_fields_first(&r->fields, FIELD_HOST);

	r->authority = r->host = view_of(r->target.p, 0);
	r->port = 0;
	if (h == NULL)
		return r->minor == 0 ? HTTP_OK : HTTP_BAD_HOST;
	if (http_fields_next(&r->fields, h) != NULL)
		return HTTP_BAD_HOST;
	if (uri_authority_split(h->value, &r->host, &r->port) != 0)
		return HTTP_BAD_HOST;
	r->authority = h->value;
	return HTTP_OK;
}

static bool same_authority(const struct http_request *r, const struct uri *u)
{
	uint16_t usual = u->scheme.n == sizeof("https") - 1 ? 443 : 80;

	return view_eq_nocase(u->host, r->host) &&
	       (u->port == 0 ? usual : u->port) == (r->port == 0 ? usual : r->port);
}

/* RFC 9112 §3.2.2. */
static enum http_fault absolute_form(struct http_request *r)
{
	struct uri u;

	if (uri_parse(r->target, &u) != 0)
		return HTTP_BAD_TARGET;
	if (r->authority.n > 0 && !same_authority(r, &u))
		return HTTP_BAD_HOST;
	r->scheme = u.scheme;
	r->authority = u.authority;
	r->host = u.host;
	r->port = u.port;
	r->path = u.path;
	/* §3.2.4: the whole server is meant, and we are the last proxy to be told so. */
	if (r->method == METHOD_OPTIONS && u.authority.p + u.authority.n == r->target.p + r->target.n)
		r->path = VIEW("*");
	return HTTP_OK;
}

/* RFC 9112 §3.2.3. That the edge refuses CONNECT is its own affair. */
static enum http_fault authority_form(struct http_request *r)
{
	if (uri_authority_split(r->target, &r->host, &r->port) != 0 || r->port == 0)
		return HTTP_BAD_TARGET;
	r->authority = r->target;
	r->path = view_of(r->target.p, 0);
	return HTTP_OK;
}

static enum http_fault target_form(struct http_request *r)
{
	enum http_fault fault = host(r);

	if (fault != HTTP_OK)
		return fault;
	r->scheme = view_of(r->target.p, 0);
	if (r->method == METHOD_CONNECT)
		return authority_form(r);
	bool server_wide = view_eq(r->target, VIEW("*"));
	if (server_wide && r->method != METHOD_OPTIONS)
		return HTTP_BAD_TARGET;
	if (!server_wide && r->target.p[0] != '/')
		return absolute_form(r);
	r->path = r->target;
	return HTTP_OK;
}

static enum http_fault request_framing(struct http_request *r, uint64_t all)
{
	bool has_length = all & field_bit(FIELD_CONTENT_LENGTH);

	r->framing = FRAMING_NONE;
	r->length = 0;
	if (all & field_bit(FIELD_TRANSFER_ENCODING)) {
		if (has_length)
			return HTTP_LENGTH_AND_CHUNKED;
		if (r->minor == 0)
			return HTTP_BAD_FRAMING;
		r->framing = FRAMING_CHUNKED;
		return http_chunked_alone(&r->fields);
	}
	if (!has_length)
		return HTTP_OK;
	r->framing = FRAMING_LENGTH;
	return http_length(&r->fields, MESSAGE_REQUEST, &r->length);
}

/* RFC 9110 §10.1.1. An expectation on HTTP/1.0 is not waited for, but must be one we know. */
static enum http_fault expectation(struct http_request *r)
{
	const struct http_field *field = http_fields_first(&r->fields, FIELD_EXPECT);

	r->expect_continue = false;
	for (; field != NULL; field = http_fields_next(&r->fields, field)) {
		if (!view_eq_nocase(field->value, VIEW("100-continue")))
			return HTTP_BAD_EXPECT;
		r->expect_continue = r->minor > 0;
	}
	return HTTP_OK;
}

static enum http_fault hop(struct http_request *r, uint64_t all)
{
	struct http_connection c = { false, false, false };

	if (all & field_bit(FIELD_CONNECTION)) {
		enum http_fault fault = http_connection(&r->fields, MESSAGE_REQUEST, &c);
		if (fault != HTTP_OK)
			return fault;
	}
	r->keep_alive = http_persistent(&c, r->minor);
	r->upgrade = r->minor > 0 && c.upgrade && (all & field_bit(FIELD_UPGRADE));
	return HTTP_OK;
}

/* A whole head in [p, end), without the empty line that ends it. Framing is judged first: when
 * that is in doubt, nothing else that the head says matters. */
static enum http_fault request_head(struct http_request *r, const char *p, const char *end,
				    const struct http_limits *limits)
{
	const char *cr = memchr(p, '\r', (size_t)(end - p));
	uint64_t all;
	enum http_fault fault;

	if ((fault = request_line(r, p, cr)) != HTTP_OK ||
	    (fault = http_lines_parse(&r->fields, cr + 2, end, NULL, true, limits->fields, &all)) !=
		    HTTP_OK ||
	    (fault = request_framing(r, all)) != HTTP_OK || (fault = hop(r, all)) != HTTP_OK ||
	    (fault = target_form(r)) != HTTP_OK)
		return fault;
	return expectation(r);
}

enum http_parse http_request_parse(struct http_request *r, struct http_scan *s, const char *buf,
				   size_t n, const struct http_limits *limits)
{
	enum http_parse found = http_head_scan(s, buf, n, limits, MESSAGE_REQUEST);

	if (found != PARSE_DONE)
		return found;
	const char *start = *buf == '\r' ? buf + 2 : buf;
	s->fault = request_head(r, start, buf + s->head_bytes - 2, limits);
	return s->fault == HTTP_OK ? PARSE_DONE : PARSE_BAD;
}
