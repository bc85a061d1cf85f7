/* A client's connection over HTTP/1: its machine is in connection.c, its exchange table in h1.c. */
#ifndef BRIM_EDGE_CONNECTION_H
#define BRIM_EDGE_CONNECTION_H

#include <sys/uio.h>

#include "edge/base/io.h"
#include "edge/base/machine.h"
#include "edge/exchange.h"
#include "edge/http/chunked.h"
#include "edge/http/head.h"
#include "edge/worker.h"

enum {
	CONNECTION_MAGIC = 0x636f6e6e,
	CONNECTION_BODY_SPACE = 16 << 10, /* room for body bytes behind the largest head */
	CONNECTION_QUEUE_MAX = 6,
	CONNECTION_STATUS_BYTES = 24,
};

/* The input of a connection that is not idle: a head stays where it was read until its request is over. */
struct head_block {
	struct head_block *next_free;
	size_t capacity; /* of bytes */
	uint16_t field_capacity;
	struct http_field *fields; /* behind bytes */
	char bytes[];
};

struct connection {
	uint32_t magic;
	struct machine m;
	struct worker *w;
	struct worker_client client;
	struct io plain, *io; /* io: &plain, or the TLS stream that we own */
	const struct conf_listener *listener;
	struct sock_addr peer, from; /* of the socket; what a PROXY header said */
	struct exchange x;

	/* Input: bytes[in_start..in_end) are not yet consumed. */
	struct head_block *block;
	size_t in_start, in_end;
	struct http_scan scan;
	struct http_request rq;
	size_t body_space;  /* where body bytes may be read to: behind the head */
	uint64_t body_left; /* with FRAMING_LENGTH */
	struct http_chunked body_chunks;
	bool body_ended, continue_due;

	/* Output: the queued head, then what the coding puts around payload. */
	struct iovec pending[CONNECTION_QUEUE_MAX + 1]; /* one more for payload, while a call sends it */
	int pending_first, pending_count;
	char status_line[CONNECTION_STATUS_BYTES], framing_lines[112],
		chunk_line[HTTP_CHUNK_LINE_MAX + 4];
	bool chunked, chunk_open, until_close; /* until_close: our close is the body's end */
	uint64_t chunk_left;   /* of the chunk whose size line was sent or is pending */
	bool blocked;	       /* the socket was full; a write event is awaited */
	int64_t untaken_bytes; /* when that was last looked at; INT64_MAX: before the last send */

	bool keep_alive, aborted, request_over, draining;
	uint64_t served, drained_bytes; /* drained: read and thrown away while lingering */
};

/* h1.c */
extern const struct exchange_ops h1_ops;
void h1_begin(struct connection *c); /* a request's head was parsed */

#endif
