/*
 * URIs as requests carry them. Normalising is the security-relevant part: two spellings of one
 * resource should share a key, and never may two resources, so only what RFC 3986 §6.2.2 declares
 * equivalent is changed, in one order (decode, then dot segments), and once: the result normalises
 * to itself. It is also what goes to the origin, so that the origin sees what was keyed.
 */
#include "edge/http/uri.h"
#include "edge/http/chars.h"

#include <arpa/inet.h>
#include <errno.h>

/* --- authority */

static bool ipv6(const char *p, size_t n)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (n >= sizeof(text))
		return false;
	memcpy(text, p, n);
	text[n] = '\0';
	return strlen(text) == n && inet_pton(AF_INET6, text, &address) == 1;
}

/* The length of the host that v begins with, or 0. */
static size_t host_length(struct view v)
{
	size_t n = 0;

	if (v.n > 0 && v.p[0] == '[') {
		const char *close = memchr(v.p, ']', v.n);
		if (close == NULL || !ipv6(v.p + 1, (size_t)(close - v.p - 1)))
			return 0;
		return (size_t)(close + 1 - v.p);
	}
	while (n < v.n && char_is(v.p[n], CHAR_UNRESERVED))
		n++;
	return n;
}

/* "", ":" (both RFC 3986's way to say nothing) or ":1" to ":65535". */
static bool port_parse(struct view v, uint16_t *out)
{
	unsigned port = 0;

	if (v.n > sizeof(":65535") - 1 || (v.n > 0 && v.p[0] != ':'))
		return false;
	for (size_t i = 1; i < v.n; i++) {
		if (!char_is(v.p[i], CHAR_DIGIT))
			return false;
		port = port * 10 + (unsigned)(v.p[i] - '0');
	}
	if (port > UINT16_MAX || (port == 0 && v.n > 1))
		return false;
	*out = (uint16_t)port;
	return true;
}

int uri_authority_split(struct view v, struct view *out_host, uint16_t *out_port)
{
	size_t n = host_length(v);

	if (n == 0 || n > URI_HOST_MAX || !port_parse(view_skip(v, n), out_port))
		return -EINVAL;
	*out_host = view_of(v.p, n);
	return 0;
}

void uri_host_lower(struct view host, char *out)
{
	chars_copy_lower(host.p, host.n, out);
	out[host.n] = '\0';
}

int uri_authority(struct view v, char host[URI_HOST_MAX + 1], size_t *out_host_bytes, uint16_t *out_port)
{
	struct view written;
	int r = uri_authority_split(v, &written, out_port);

	if (r != 0)
		return r;
	uri_host_lower(written, host);
	*out_host_bytes = written.n;
	return 0;
}

/* --- a whole URI */

static bool visible(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		if (!char_is(v.p[i], CHAR_TARGET))
			return false;
	}
	return true;
}

static bool take_scheme(struct view *v, struct view *out)
{
	static const struct view schemes[] = { VIEW("http"), VIEW("https") };

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		size_t n = schemes[i].n;
		if (v->n < n + 3 || !view_eq_nocase(view_of(v->p, n), schemes[i]) ||
		    memcmp(v->p + n, "://", 3) != 0)
			continue;
		*v = view_skip(*v, n + 3);
		*out = schemes[i];
		return true;
	}
	return false;
}

int uri_parse(struct view v, struct uri *out)
{
	size_t n = 0;
	struct uri u;

	if (!take_scheme(&v, &u.scheme))
		return -EINVAL;
	while (n < v.n && v.p[n] != '/' && v.p[n] != '?')
		n++;
	u.authority = view_of(v.p, n);
	u.path = view_skip(v, n);
	if (uri_authority_split(u.authority, &u.host, &u.port) != 0 || !visible(u.path))
		return -EINVAL;
	if (u.path.n == 0)
		u.path = VIEW("/");
	if (u.path.p[0] != '/')
		return -EINVAL;
	*out = u;
	return 0;
}

/* --- normal form */

/* One triplet at p becomes one or three bytes at out. */
static size_t triplet(const char *p, char *out, bool *odd)
{
	static const char digits[] = "0123456789ABCDEF";
	unsigned byte = char_hex(p[1]) * 16 + char_hex(p[2]);

	if (char_is((char)byte, CHAR_UNRESERVED)) {
		out[0] = (char)byte;
		return 1;
	}
	*odd |= byte == '/' || byte == '\\' || byte == '\0';
	out[0] = '%';
	out[1] = digits[byte >> 4];
	out[2] = digits[byte & 15];
	return 3;
}

/* A backslash is legal nowhere, is sent by some, and is a slash to some origins. */
static int decode(struct view v, char *out, size_t *out_bytes, bool *out_odd)
{
	size_t to = 0;
	bool odd = false;

	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] != '%') {
			if (!char_is(v.p[i], CHAR_TARGET))
				return -EINVAL;
			odd |= v.p[i] == '\\';
			out[to++] = v.p[i];
			continue;
		}
		if (v.n - i < 3 || !char_is(v.p[i + 1], CHAR_HEX) || !char_is(v.p[i + 2], CHAR_HEX))
			return -EINVAL;
		to += triplet(v.p + i, out + to, &odd);
		i += 2;
	}
	*out_bytes = to;
	*out_odd = odd;
	return 0;
}

/* RFC 3986 §5.2.4, in place: p begins with "/" and n is its length. Returns the new length. */
static size_t remove_dots(char *p, size_t n, bool *odd)
{
	size_t to = 0, from = 0;

	while (from < n) { /* at the "/" that begins a segment */
		const char *next = memchr(p + from + 1, '/', n - from - 1);
		size_t length = next != NULL ? (size_t)(next - p) - from : n - from;
		bool last = next == NULL;
		bool dot = length == 2 && p[from + 1] == '.';
		bool dots = length == 3 && p[from + 1] == '.' && p[from + 2] == '.';

		*odd |= dots;
		if (!dot && !dots) {
			memmove(p + to, p + from, length);
			to += length;
		} else {
			while (dots && to > 0 && p[--to] != '/')
				;
			if (last)
				p[to++] = '/';
		}
		from += length;
	}
	return to;
}

static bool broken_triplet(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] != '%')
			continue;
		if (v.n - i < 3 || !char_is(v.p[i + 1], CHAR_HEX) || !char_is(v.p[i + 2], CHAR_HEX))
			return true;
	}
	return false;
}

/* Browsers send "?q=100%" and origins take it. Such a query stays as it is: to decode the rest of it
 * could make triplets that weren't there. */
static int decode_query(struct view v, char *out, size_t *out_bytes)
{
	bool odd;

	if (!broken_triplet(v))
		return decode(v, out, out_bytes, &odd);
	if (!visible(v))
		return -EINVAL;
	memcpy(out, v.p, v.n);
	*out_bytes = v.n;
	return 0;
}

/* Is it in its normal form, as nearly all are that come? (May say no of some that are.) */
static bool settled(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		if (!char_is(v.p[i], CHAR_SETTLED) && (v.p[i] != '.' || i == 0 || v.p[i - 1] == '/'))
			return false;
	}
	return v.n > 0 && v.p[0] == '/';
}

static int normalise(struct view v, char *out, size_t *out_bytes, bool *out_odd)
{
	const char *query = v.n > 0 ? memchr(v.p, '?', v.n) : NULL;
	struct view path = view_of(v.p, query != NULL ? (size_t)(query - v.p) : v.n);
	size_t path_bytes, query_bytes;
	bool odd;

	if (path.n == 0 || (path.p[0] != '/' && !view_eq(v, VIEW("*"))))
		return -EINVAL;
	if (decode(path, out, &path_bytes, &odd) != 0)
		return -EINVAL;
	if (out[0] == '/')
		path_bytes = remove_dots(out, path_bytes, &odd);
	if (decode_query(view_skip(v, path.n), out + path_bytes, &query_bytes) != 0)
		return -EINVAL;
	*out_bytes = path_bytes + query_bytes;
	*out_odd = odd;
	return 0;
}

int uri_normalise(struct view v, char *out, size_t *out_bytes, bool *out_odd)
{
	if (!settled(v))
		return normalise(v, out, out_bytes, out_odd);
	memcpy(out, v.p, v.n);
	*out_bytes = v.n;
	*out_odd = false;
	return 0;
}

static inline bool same(char a, char b, bool nocase)
{
	return a == b || (nocase && char_lower(a) == char_lower(b));
}

static inline bool glob(struct view pattern, struct view text, bool nocase)
{
	size_t p = 0, t = 0, star = SIZE_MAX, held = 0;

	while (t < text.n) {
		if (p < pattern.n && pattern.p[p] == '*') {
			star = p++;
			held = t;
		} else if (p < pattern.n && same(pattern.p[p], text.p[t], nocase)) {
			p++;
			t++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			t = ++held; /* the last star swallows one more */
		} else {
			return false;
		}
	}
	while (p < pattern.n && pattern.p[p] == '*')
		p++;
	return p == pattern.n;
}

bool uri_glob(struct view pattern, struct view text)
{
	return glob(pattern, text, false);
}

bool uri_glob_nocase(struct view pattern, struct view text)
{
	return glob(pattern, text, true);
}
