/* URIs: hosts, paths and queries as keys need them (RFC 3986 §6.2.2; nothing that could merge two resources). */
#ifndef BRIM_HTTP_URI_H
#define BRIM_HTTP_URI_H

#include "edge/base/check.h"
#include "edge/base/view.h"

/* "Example.COM:80" → host "example.com", port 80 (0: none given). Only what a DNS name, an IPv4 or a
 * bracketed IPv6 address may hold; no user, no percent. Writes at most 255 bytes and a NUL. -EINVAL. */
enum { URI_HOST_MAX = 255 };
int uri_authority(struct view v, char host[URI_HOST_MAX + 1], size_t *out_host_bytes,
		  uint16_t *out_port) NODISCARD;
/* The same for who only checks it, or has its own place for the host, which is here as it was written. */
int uri_authority_split(struct view v, struct view *out_host, uint16_t *out_port) NODISCARD;
/* Writes host.n bytes and a NUL. */
void uri_host_lower(struct view host, char *out);

/* http(s)://host[:port][/path] parts; scheme is lower case (a literal). A query without a path is -EINVAL,
 * since there is no "/" to point at. */
struct uri {
	struct view scheme, authority, path; /* path and query; "/" where empty */
	struct view host;		     /* of authority, as it was written */
	uint16_t port;			     /* 0: none given */
};
int uri_parse(struct view v, struct uri *out) NODISCARD;

/*
 * Path and query in the form that is keyed and sent to the origin: percent-encoded unreserved characters are
 * decoded, other triplets get upper-case digits, dot segments are removed; a fragment, NUL or a path with a
 * broken triplet is -EINVAL; a query with one stays as it is. %2F, %5C and %00 stay encoded. "*" stays as it is. out must hold v.n bytes. *out_odd: its path has
 * %2f, %5c, "\\" or %00, or had ".." after decoding (rules give such a path no lifetime).
 */
int uri_normalise(struct view v, char *out, size_t *out_bytes, bool *out_odd) NODISCARD;

/* Glob: "*" any run (also of "/"), everything else literal. */
bool uri_glob(struct view pattern, struct view text);
/* The same where ASCII case is ignored: of hosts, field names, media types. */
bool uri_glob_nocase(struct view pattern, struct view text);

#endif
