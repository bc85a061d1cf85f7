/* brimctl's way to a node: addresses, sockets, TLS. */
#ifndef BRIM_EDGE_BRIMCTL_DIAL_H
#define BRIM_EDGE_BRIMCTL_DIAL_H

#include "edge/base/io.h"
#include "edge/brimctl_client.h"

enum { DIAL_TIMEOUT_S = 60, DIAL_HOST_MAX = 300 };

/* A stream to a node. */
struct dialled {
	struct io plain, *io;	  /* fd -1: not open */
	char host[DIAL_HOST_MAX]; /* for the Host field */
};

/* 0; -1: fault says why, and what to do. */
int dial_open(const struct client_target *target, struct dialled *out, char fault[CLIENT_FAULT_BYTES])
	NODISCARD;
/* Until the stream, which said -EAGAIN, may go on. False: the time is over. */
bool dial_wait(const struct dialled *d);
void dial_close(struct dialled *d);
int dial_fail(char fault[CLIENT_FAULT_BYTES], const char *format, ...) PRINTF_LIKE(2, 3);

#endif
