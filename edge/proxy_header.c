/*
 * Version 1 is a line of at most 107 bytes; version 2 a signature that no other protocol begins with, lengths, and
 * addresses as the kernel has them. Whoever sends it is trusted, but not to count: every length is checked.
 */
#include "edge/proxy_header.h"

#include <string.h>

enum { LINE_MAX_BYTES = 107, FIXED_BYTES = 16, V4_BYTES = 12, V6_BYTES = 36 };
enum { COMMAND_LOCAL = 0, COMMAND_PROXY = 1, OVER_TCP4 = 0x11, OVER_TCP6 = 0x21 };

static const char signature[12] = { '\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n' };
static const struct view prefix = { "PROXY ", 6 };

/* --- version 1 ----------------------------------------------------------------------------------- */

/* The next word of a line whose words have one space between them. */
static bool next_word(struct view *rest, struct view *out)
{
	const char *space = rest->n > 0 ? memchr(rest->p, ' ', rest->n) : NULL;
	size_t n = space != NULL ? (size_t)(space - rest->p) : rest->n;

	*out = view_of(rest->p, n);
	*rest = view_skip(*rest, space != NULL ? n + 1 : n);
	return n > 0;
}

static bool port_of(struct view text, uint16_t *out)
{
	unsigned value = 0;

	if (text.n == 0 || text.n > 5)
		return false;
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] < '0' || text.p[i] > '9')
			return false;
		value = value * 10 + (unsigned)(text.p[i] - '0');
	}
	*out = (uint16_t)value;
	return value <= UINT16_MAX;
}

/* «line»: behind "PROXY ", without its end. */
static bool read_line(struct view line, struct proxy_header *out)
{
	struct view family, from, to, from_port, to_port;
	struct sock_addr unused;
	uint16_t port, other_port;
	bool v4;

	if (!next_word(&line, &family))
		return false;
	if (view_eq(family, VIEW("UNKNOWN")))
		return true; /* whatever follows */
	v4 = view_eq(family, VIEW("TCP4"));
	if (!v4 && !view_eq(family, VIEW("TCP6")))
		return false;
	if (!next_word(&line, &from) || !next_word(&line, &to) || !next_word(&line, &from_port) ||
	    !next_word(&line, &to_port) || line.n != 0)
		return false;
	if (!port_of(from_port, &port) || !port_of(to_port, &other_port))
		return false;
	if (sock_addr_literal(from, port, &out->client) != 0 ||
	    sock_addr_literal(to, other_port, &unused) != 0)
		return false;
	out->known = true;
	return out->client.any.sa_family == (v4 ? AF_INET : AF_INET6) &&
	       unused.any.sa_family == out->client.any.sa_family;
}

static enum proxy_header_result parse_line(const char *p, size_t n, struct proxy_header *out)
{
	const char *end = memchr(p, '\n', n < LINE_MAX_BYTES ? n : LINE_MAX_BYTES);
	struct proxy_header found = { 0 };
	size_t line;

	if (end == NULL)
		return n < LINE_MAX_BYTES ? PROXY_HEADER_MORE : PROXY_HEADER_BAD;
	line = (size_t)(end - p);
	if (end[-1] != '\r' || line <= prefix.n)
		return PROXY_HEADER_BAD;
	if (!read_line(view_of(p + prefix.n, line - 1 - prefix.n), &found))
		return PROXY_HEADER_BAD;
	found.bytes = line + 1;
	*out = found;
	return PROXY_HEADER_DONE;
}

/* --- version 2 ----------------------------------------------------------------------------------- */

static void read_v4(const char *p, struct proxy_header *out)
{
	struct sockaddr_in *a = &out->client.v4;

	out->client.len = sizeof(*a);
	a->sin_family = AF_INET;
	memcpy(&a->sin_addr, p, 4);
	memcpy(&a->sin_port, p + 8, 2);
}

static void read_v6(const char *p, struct proxy_header *out)
{
	struct sockaddr_in6 *a = &out->client.v6;

	out->client.len = sizeof(*a);
	a->sin6_family = AF_INET6;
	memcpy(&a->sin6_addr, p, 16);
	memcpy(&a->sin6_port, p + 32, 2);
}

static bool read_addresses(unsigned family, const char *p, size_t n, struct proxy_header *out)
{
	if (family != OVER_TCP4 && family != OVER_TCP6)
		return true; /* unspecified, UDP or Unix: nobody that we could name */
	if (n < (family == OVER_TCP4 ? V4_BYTES : V6_BYTES))
		return false;
	if (family == OVER_TCP4)
		read_v4(p, out);
	else
		read_v6(p, out);
	out->known = true;
	return true;
}

static enum proxy_header_result parse_binary(const char *p, size_t n, struct proxy_header *out)
{
	struct proxy_header found = { 0 };
	unsigned version_command, family;
	size_t rest;

	if (n < FIXED_BYTES)
		return PROXY_HEADER_MORE;
	version_command = (unsigned char)p[12];
	family = (unsigned char)p[13];
	rest = (size_t)(unsigned char)p[14] << 8 | (unsigned char)p[15];
	if (version_command >> 4 != 2 || (version_command & 15) > COMMAND_PROXY ||
	    FIXED_BYTES + rest > PROXY_HEADER_MAX)
		return PROXY_HEADER_BAD;
	if (n < FIXED_BYTES + rest)
		return PROXY_HEADER_MORE;
	if ((version_command & 15) == COMMAND_PROXY &&
	    !read_addresses(family, p + FIXED_BYTES, rest, &found))
		return PROXY_HEADER_BAD;
	found.bytes = FIXED_BYTES + rest;
	*out = found;
	return PROXY_HEADER_DONE;
}

static bool begins(const char *p, size_t n, const char *with, size_t with_bytes)
{
	return memcmp(p, with, n < with_bytes ? n : with_bytes) == 0;
}

enum proxy_header_result proxy_header_parse(const char *p, size_t n, struct proxy_header *out)
{
	if (n == 0)
		return PROXY_HEADER_MORE;
	if (begins(p, n, signature, sizeof(signature)))
		return parse_binary(p, n, out);
	if (begins(p, n, prefix.p, prefix.n))
		return parse_line(p, n, out);
	return PROXY_HEADER_BAD;
}
