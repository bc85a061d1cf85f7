/* One call of the admin API. Blocking: brimctl has nothing else to do. */
#ifndef BRIM_EDGE_BRIMCTL_CLIENT_H
#define BRIM_EDGE_BRIMCTL_CLIENT_H

#include <stdint.h>

#include "edge/base/check.h"
#include "edge/base/view.h"

/* Whom to call, and as who. */
struct client_target {
	const char *address; /* "unix:/PATH", "HOST:PORT", "http://HOST[:PORT]", "https://HOST[:PORT]" */
	const char *token;   /* NULL: none */
	const char *ca_file; /* of https; NULL: the system's */
};

struct client_answer {
	uint16_t status;
	char *body; /* malloc'd, with a NUL behind it */
	size_t body_bytes;
};

enum { CLIENT_FAULT_BYTES = 512, CLIENT_TOKEN_MAX = 1024 };

/* body empty: none. 0; -1: out_fault says what went wrong, and what to do about it. */
int client_call(const struct client_target *target, const char *method, const char *path,
		struct view body, struct client_answer *out, char out_fault[CLIENT_FAULT_BYTES])
	NODISCARD;

/* The token that a file holds: its one line. As client_call. */
int client_read_token(const char *file, char out[CLIENT_TOKEN_MAX + 1],
		      char out_fault[CLIENT_FAULT_BYTES]) NODISCARD;

#endif
