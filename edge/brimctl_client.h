/* One call of the admin API, over its Unix socket. Blocking: brimctl has nothing else to do. */
#ifndef BRIM_EDGE_BRIMCTL_CLIENT_H
#define BRIM_EDGE_BRIMCTL_CLIENT_H

#include <stdint.h>

#include "edge/base/check.h"
#include "edge/base/view.h"

struct client_answer {
	uint16_t status;
	char *body; /* malloc'd, with a NUL behind it */
	size_t body_bytes;
};

enum { CLIENT_FAULT_BYTES = 512 };

/* body empty: none. 0; -1: out_fault says what went wrong, and what to do about it. */
int client_call(const char *address, const char *method, const char *path, struct view body,
		struct client_answer *out, char out_fault[CLIENT_FAULT_BYTES]) NODISCARD;

#endif
