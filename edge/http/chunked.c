/*
 * The chunked coding, a byte at a time: framing is a few bytes a chunk, and payload, which is all
 * the rest, never passes through here. Each state names what may come next; anything else is a
 * fault. Trailers are checked as strictly as field lines and then forgotten, as RFC 9110 §6.5.1 allows.
 */
#include "edge/http/chunked.h"
#include "edge/http/chars.h"

enum {
	LINE_BYTES_MAX = 1024,	  /* of a size line with its extensions */
	TRAILER_BYTES_MAX = 8192, /* of all trailers together */
	SIZE_DIGITS_MAX = 16,
};
#define SIZE_MAX_CHUNK (UINT64_C(1) << 60)

/* In running order. */
enum state {
	SIZE_FIRST, /* a digit of the size must come */
	SIZE,	    /* digits, then blanks, ";" or CR */
	BLANKS,	    /* before a ";" */
	EXTENSION,  /* up to CR */
	SIZE_LF,
	PAYLOAD,
	PAYLOAD_CR,
	PAYLOAD_LF,
	TRAILER_FIRST, /* a name, or the CR of the empty line */
	TRAILER_NAME,
	TRAILER_VALUE, /* up to CR */
	TRAILER_LF,
	END_LF,
	ENDED,
	BROKEN,
};

void http_chunked_init(struct http_chunked *c)
{
	*c = (struct http_chunked){ .state = SIZE_FIRST };
}

static enum state fault(struct http_chunked *c, enum http_fault why)
{
	c->fault = why;
	return BROKEN;
}

static enum state add_digit(struct http_chunked *c, char byte)
{
	if (c->digits == SIZE_DIGITS_MAX || c->size >= SIZE_MAX_CHUNK / 16)
		return fault(c, HTTP_BAD_CHUNK);
	c->digits++;
	c->size = c->size * 16 + char_hex(byte);
	return SIZE;
}

/* RFC 9112 §7.1.1: chunk-ext = *( BWS ";" …): blanks are allowed before a ";" alone. */
static enum state after_size(struct http_chunked *c, char byte)
{
	if (byte == ';')
		return EXTENSION;
	if (byte == '\r' && c->state == SIZE)
		return SIZE_LF;
	return char_blank(byte) ? BLANKS : fault(c, HTTP_BAD_CHUNK);
}

/* Any text up to CR. */
static enum state text(struct http_chunked *c, char byte, enum state at_cr, enum http_fault why)
{
	if (byte == '\r')
		return at_cr;
	if (((uint8_t)byte < 0x20 && byte != '\t') || byte == 0x7f)
		return fault(c, why);
	return (enum state)c->state;
}

static enum state size_done(struct http_chunked *c)
{
	c->line_bytes = 0;
	c->digits = 0;
	c->payload_left = c->size;
	c->size = 0;
	return c->payload_left > 0 ? PAYLOAD : TRAILER_FIRST;
}

static enum state size_step(struct http_chunked *c, char byte)
{
	if (++c->line_bytes > LINE_BYTES_MAX)
		return fault(c, HTTP_BAD_CHUNK);
	switch ((enum state)c->state) {
	case SIZE_FIRST:
		return char_is(byte, CHAR_HEX) ? add_digit(c, byte) : fault(c, HTTP_BAD_CHUNK);
	case SIZE:
		return char_is(byte, CHAR_HEX) ? add_digit(c, byte) : after_size(c, byte);
	case BLANKS:
		return after_size(c, byte);
	case EXTENSION:
		return text(c, byte, SIZE_LF, HTTP_BAD_CHUNK);
	default:
		return byte == '\n' ? size_done(c) : fault(c, HTTP_BAD_CHUNK);
	}
}

static enum state trailer_step(struct http_chunked *c, char byte)
{
	if (++c->line_bytes > TRAILER_BYTES_MAX)
		return fault(c, HTTP_BAD_TRAILER);
	switch ((enum state)c->state) {
	case TRAILER_FIRST:
		if (byte == '\r')
			return END_LF;
		return char_is(byte, CHAR_TOKEN) ? TRAILER_NAME : fault(c, HTTP_BAD_TRAILER);
	case TRAILER_NAME:
		if (byte == ':')
			return TRAILER_VALUE;
		return char_is(byte, CHAR_TOKEN) ? TRAILER_NAME : fault(c, HTTP_BAD_TRAILER);
	case TRAILER_VALUE:
		return text(c, byte, TRAILER_LF, HTTP_BAD_TRAILER);
	case TRAILER_LF:
		return byte == '\n' ? TRAILER_FIRST : fault(c, HTTP_BAD_TRAILER);
	default:
		return byte == '\n' ? ENDED : fault(c, HTTP_BAD_TRAILER);
	}
}

static enum state step(struct http_chunked *c, char byte)
{
	switch ((enum state)c->state) {
	case PAYLOAD_CR:
		return byte == '\r' ? PAYLOAD_LF : fault(c, HTTP_BAD_CHUNK);
	case PAYLOAD_LF:
		return byte == '\n' ? SIZE_FIRST : fault(c, HTTP_BAD_CHUNK);
	default:
		return c->state < PAYLOAD ? size_step(c, byte) : trailer_step(c, byte);
	}
}

enum http_chunked_event http_chunked_feed(struct http_chunked *c, const char *p, size_t n,
					  size_t *out_consumed)
{
	size_t i = 0;

	while (i < n && c->state != PAYLOAD && c->state < ENDED)
		c->state = (uint8_t)step(c, p[i++]);
	*out_consumed = i;
	switch ((enum state)c->state) {
	case PAYLOAD:
		return CHUNKED_PAYLOAD;
	case ENDED:
		return CHUNKED_END;
	case BROKEN:
		return CHUNKED_BAD;
	default:
		return CHUNKED_MORE;
	}
}

void http_chunked_took(struct http_chunked *c, uint64_t payload_bytes)
{
	CHECK(c->state == PAYLOAD && payload_bytes <= c->payload_left);
	c->payload_left -= payload_bytes;
	if (c->payload_left == 0)
		c->state = PAYLOAD_CR;
}

size_t http_chunked_line(char out[HTTP_CHUNK_LINE_MAX], uint64_t payload_bytes)
{
	unsigned digits = payload_bytes == 0 ? 1 : (67 - (unsigned)__builtin_clzll(payload_bytes)) / 4;

	for (unsigned i = 0; i < digits; i++)
		out[i] = "0123456789abcdef"[(payload_bytes >> (4 * (digits - 1 - i))) & 15];
	out[digits] = '\r';
	out[digits + 1] = '\n';
	return digits + 2;
}
