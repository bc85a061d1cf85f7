/*
 * What a request sees of its connection: a small table of calls, behind which HTTP/1, HTTP/2 streams,
 * plain sockets and TLS plug in. The request never knows which.
 *
 * Nothing here blocks. A call that can't go on now returns 0 (or -EAGAIN); the request's machine is woken when
 * it can. A negative result means that the client is gone; the request then ends (it may leave a fill behind).
 */
#ifndef BRIM_EDGE_EXCHANGE_H
#define BRIM_EDGE_EXCHANGE_H

#include "edge/base/machine.h"
#include "edge/base/sock.h"
#include "edge/http/head.h"

struct exchange;
struct io;
struct tls_identity;

/* The head of an answer: status line, then fields, then ours; framing is the connection's business. */
struct answer {
	uint16_t status;
	struct view fields; /* lines with CRLF; never framing or hop-by-hop */
	struct view own;    /* more lines, ours */
	int64_t length; /* of the body, announced also where none follows (HEAD); -1: not known (or not to be said) */
	bool no_body; /* HEAD, 204, 304: nothing follows */
};

struct exchange_ops {
	/* Request body bytes in memory: 1 and *out; 0 none now; -ENODATA the end; -EPROTO malformed; else gone. */
	int (*read_body)(struct exchange *x, struct view *out);
	void (*took_body)(struct exchange *x, size_t n);
	/* A 1xx answer. Best effort. */
	void (*send_interim)(struct exchange *x, uint16_t status, struct view fields);
	/* Queues the head; it leaves with the first body bytes or at the finish. 0 or -ENOMEM. */
	int (*send_head)(struct exchange *x, const struct answer *a);
	/* Body bytes taken: >0; 0: not now; negative: gone. «last»: nothing follows, all may leave in one packet.
	 * With an unknown length, bytes once offered must be offered again (from any source) until they are taken. */
	/* n 0: what is queued, here or in the kernel, leaves now: nothing more comes for a while. */
	int64_t (*send_memory)(struct exchange *x, const void *p, size_t n, bool last);
	int64_t (*send_file)(struct exchange *x, int fd, uint64_t offset, size_t n, bool last);
	int64_t (*send_pipe)(struct exchange *x, int pipe_fd, size_t n, bool last);
	/* Has the client taken anything since this was last asked, or since something was sent? A socket that is full tells of room
	 * only when a third of it is free, which a slow client needs minutes for. */
	bool (*taking)(struct exchange *x);
	/* The answer is whole (trailers: lines, only where the coding has them). 0; -EAGAIN; else gone. */
	int (*finish)(struct exchange *x, struct view trailers);
	/* The answer is broken: the client must notice. */
	void (*abort)(struct exchange *x);
	/* After the finish of a 101: the connection is a stream of bytes, for the request to use until it is done. *out_early: what
	 * the client has sent behind its head. The request is woken once for events that it asks for by tunnel_want.
	 * NULL: no protocol can follow on this one. */
	struct io *(*tunnel)(struct exchange *x, struct view *out_early);
	void (*tunnel_want)(struct exchange *x, unsigned events);
	/* The request is over and will not touch x again. Called once, last. */
	void (*done)(struct exchange *x);
};

struct exchange {
	const struct exchange_ops *ops;
	struct machine *request;	 /* woken when a call may be repeated; NULL: none */
	bool gone;			 /* the client has left or was timed out */
	bool sent_head;			 /* some of the head may have left */
	uint64_t sent_bytes;		 /* body bytes, for the log */
	int64_t began_us, first_byte_us; /* monotonic; 0: not yet */
	struct view scheme;		 /* "http" or "https" */
	struct view protocol;		 /* "HTTP/1.1", for the log */
	struct view via_version;	 /* "1.1", for Via */
	struct view tls; /* "TLSv1.3 TLS_AES_128_GCM_SHA256", for the log; empty: plain. Lives as long as the connection */
	const struct sock_addr *peer;	/* of the socket. As long as the exchange, as is the next */
	const struct sock_addr *client; /* who a PROXY header says it is; else as peer */
	const struct tls_identity *identity; /* which sites the connection may ask for; NULL: plain */
	bool early; /* came as TLS early data and the handshake isn't done: anybody may have repeated it */
};

#endif
