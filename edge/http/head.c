/*
 * The end of a head, and faults. A head is looked at twice: once for control characters, byte by
 * byte as it arrives, which finds its end and refuses bare CR and LF, NUL and too large heads early;
 * and once, when it is whole, to be taken apart (request.c, response.c). A slow peer thus costs
 * one look a byte however small its packets are, and no state but a position is kept, so the
 * caller may move its buffer. The rejected way, one machine that does both, must keep every view
 * as an offset between calls and is twice as long.
 */
#include "edge/http/head.h"
#include "edge/http/chars.h"
#include "edge/http/parts.h"

static const struct {
	uint16_t status;
	const char *text;
} faults[] = {
	[HTTP_OK] = { 200, "no fault" },
	[HTTP_BAD_START_LINE] = { 400, "malformed start line" },
	[HTTP_BAD_VERSION] = { 505, "not HTTP/1.0 or HTTP/1.1" },
	[HTTP_BAD_FIELD] = { 400, "malformed field line" },
	[HTTP_BARE_CR_LF] = { 400, "CR or LF that is not part of a CRLF" },
	[HTTP_OBS_FOLD] = { 400, "folded field line" },
	[HTTP_SPACE_BEFORE_COLON] = { 400, "whitespace before a colon" },
	[HTTP_BAD_HOST] = { 400, "missing, repeated or invalid Host" },
	[HTTP_BAD_TARGET] = { 400, "invalid request target" },
	[HTTP_BAD_LENGTH] = { 400, "invalid or repeated Content-Length" },
	[HTTP_LENGTH_AND_CHUNKED] = { 400, "both Content-Length and Transfer-Encoding" },
	[HTTP_BAD_TRANSFER_ENCODING] = { 501, "unknown transfer coding" },
	[HTTP_BAD_CONNECTION] = { 400, "Connection names a field that it must not" },
	[HTTP_BAD_EXPECT] = { 417, "unknown expectation" },
	[HTTP_HEAD_TOO_LARGE] = { 431, "head too large" },
	[HTTP_TARGET_TOO_LONG] = { 414, "request target too long" },
	[HTTP_BAD_CHUNK] = { 400, "malformed chunk" },
	[HTTP_BAD_TRAILER] = { 400, "malformed trailer" },
	[HTTP_BAD_FRAMING] = { 400, "Transfer-Encoding that leaves the length unclear" },
};

const char *http_fault_text(enum http_fault f)
{
	CHECK((size_t)f < ARRAY_LEN(faults));
	return faults[f].text;
}

uint16_t http_fault_status(enum http_fault f)
{
	CHECK((size_t)f < ARRAY_LEN(faults));
	return faults[f].status;
}

/* A request's one empty line before its start line is not part of it. */
static const char *start_line(const char *buf, const char *end)
{
	return end - buf >= 2 && buf[0] == '\r' ? buf + 2 : buf;
}

static enum http_fault control_fault(const char *buf, const char *at)
{
	const char *start = start_line(buf, at);

	if (*at == '\r' || *at == '\n')
		return HTTP_BARE_CR_LF;
	return memchr(start, '\n', (size_t)(at - start)) != NULL ? HTTP_BAD_FIELD : HTTP_BAD_START_LINE;
}

/* No end within the limit: is it the request target alone that is too long? */
static enum http_fault size_fault(const char *buf, const char *end, enum http_message m)
{
	const char *start = start_line(buf, end);
	size_t n = (size_t)(end - start);

	if (m == MESSAGE_REQUEST && memchr(start, '\n', n) == NULL && memchr(start, ' ', n) != NULL)
		return HTTP_TARGET_TOO_LONG;
	return HTTP_HEAD_TOO_LARGE;
}

static enum http_parse bad(struct http_scan *s, enum http_fault fault)
{
	s->fault = fault;
	return PARSE_BAD;
}

enum http_parse http_head_scan(struct http_scan *s, const char *buf, size_t n,
			       const struct http_limits *limits, enum http_message m)
{
	CHECK(s->scanned <= n);
	bool full = n >= limits->head_bytes;
	const char *end = buf + (full ? limits->head_bytes : n);
	const char *p = buf + s->scanned;

	for (;;) {
		p = char_next_control(p, end);
		if (p == end || (*p == '\r' && p + 1 == end))
			break;
		if (*p != '\r' || p[1] != '\n')
			return bad(s, control_fault(buf, p));
		if (p == buf && m == MESSAGE_REQUEST) {
			p += 2;
			continue;
		}
		if (p == buf || (p == buf + 2 && *buf == '\r'))
			return bad(s, HTTP_BAD_START_LINE);
		p += 2;
		if (p[-3] != '\n')
			continue;
		s->scanned = s->head_bytes = (uint32_t)(p - buf);
		return PARSE_DONE;
	}
	if (full)
		return bad(s, size_fault(buf, end, m));
	s->scanned = (uint32_t)(p - buf);
	return PARSE_MORE;
}

enum http_fault http_version(const char *p, uint8_t *out_minor)
{
	if (memcmp(p, "HTTP/", 5) != 0 || !char_is(p[5], CHAR_DIGIT) || p[6] != '.' ||
	    !char_is(p[7], CHAR_DIGIT))
		return HTTP_BAD_START_LINE;
	if (p[5] != '1')
		return HTTP_BAD_VERSION;
	*out_minor = p[7] != '0';
	return HTTP_OK;
}
