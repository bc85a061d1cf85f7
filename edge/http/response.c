/*
 * Response heads (RFC 9112 §4, §6.3). An origin is trusted a little more than a client: folded lines
 * and a space before a colon are repaired as RFC 9112 §5 demands of a proxy, a reason may be
 * missing. How the body ends is judged as strictly as for requests.
 */
#include "edge/http/chars.h"
#include "edge/http/parts.h"

/* "HTTP/1.x SP status [SP reason]" from p up to cr. */
static enum http_fault status_line(struct http_response *r, const char *p, const char *cr)
{
	const size_t shortest = sizeof("HTTP/1.1 200") - 1;

	if ((size_t)(cr - p) < shortest)
		return HTTP_BAD_START_LINE;
	enum http_fault fault = http_version(p, &r->minor);
	if (fault != HTTP_OK)
		return fault;
	if (p[8] != ' ' || p[9] < '1' || p[9] > '5' || !char_is(p[10], CHAR_DIGIT) ||
	    !char_is(p[11], CHAR_DIGIT))
		return HTTP_BAD_START_LINE;
	r->status = (uint16_t)((p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0'));
	p += shortest;
	if (p < cr && *p != ' ')
		return HTTP_BAD_START_LINE;
	if (p < cr)
		p++;
	r->reason = view_of(p, (size_t)(cr - p));
	return HTTP_OK;
}

static enum http_fault lengths(struct http_response *r, uint64_t all)
{
	r->has_length = all & field_bit(FIELD_CONTENT_LENGTH);
	r->length = 0;
	if (all & field_bit(FIELD_TRANSFER_ENCODING)) {
		if (r->has_length)
			return HTTP_LENGTH_AND_CHUNKED;
		return r->minor == 0 ? HTTP_BAD_FRAMING : http_chunked_alone(&r->fields);
	}
	return r->has_length ? http_length(&r->fields, MESSAGE_RESPONSE, &r->length) : HTTP_OK;
}

/* RFC 9112 §6.3, in its order. */
static void framing(struct http_response *r, bool chunked, enum http_method request_method)
{
	bool never = r->status < 200 || r->status == 204;

	/* A body may follow where none is allowed: what comes next is not ours to read. */
	if (never && (chunked || r->length > 0))
		r->keep_alive = false;
	if (never || r->status == 304 || request_method == METHOD_HEAD) {
		r->framing = FRAMING_NONE;
		return;
	}
	if (chunked) {
		r->framing = FRAMING_CHUNKED;
		return;
	}
	r->framing = r->has_length ? FRAMING_LENGTH : FRAMING_CLOSE;
	if (!r->has_length)
		r->keep_alive = false;
}

/* A whole head in [buf, buf + n), without the empty line that ends it. */
static enum http_fault response_head(struct http_response *r, char *buf, size_t n,
				     enum http_method request_method, const struct http_limits *limits)
{
	char *cr = memchr(buf, '\r', n);
	struct http_connection c = { false, false, false };
	uint64_t all;
	enum http_fault fault;

	if ((fault = status_line(r, buf, cr)) != HTTP_OK ||
	    (fault = http_lines_parse(&r->fields, cr + 2, buf + n, cr + 2, true, limits->fields,
				      &all)) != HTTP_OK ||
	    (fault = lengths(r, all)) != HTTP_OK)
		return fault;
	if (all & field_bit(FIELD_CONNECTION) &&
	    (fault = http_connection(&r->fields, MESSAGE_RESPONSE, &c)) != HTTP_OK)
		return fault;
	r->keep_alive = http_persistent(&c, r->minor);
	framing(r, all & field_bit(FIELD_TRANSFER_ENCODING), request_method);
	return HTTP_OK;
}

enum http_parse http_response_parse(struct http_response *r, struct http_scan *s, char *buf, size_t n,
				    enum http_method request_method, const struct http_limits *limits)
{
	enum http_parse found = http_head_scan(s, buf, n, limits, MESSAGE_RESPONSE);

	if (found != PARSE_DONE)
		return found;
	s->fault = response_head(r, buf, s->head_bytes - 2, request_method, limits);
	return s->fault == HTTP_OK ? PARSE_DONE : PARSE_BAD;
}
