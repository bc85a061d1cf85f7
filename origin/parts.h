/*
 * A fetch from inside, for the files that make it up:
 *
 *   fetch.c       life, the table of steps, what the owner asks
 *   dial.c        choose a server, find its address, wait in line, connect, shake hands
 *   tls.c         contexts and sessions of TLS to origins
 *   fetch_send.c  the request: head and body
 *   fetch_head.c  the answer's head, interim ones too; retry
 *   fetch_body.c  the answer's body: framing, memory and splice
 *   fetch_stream.c  what follows when the protocol is changed
 *
 *   step     descriptor  may be called                      ends by
 *   CHOOSE   none        fetch_send (kept in a buffer)      a connection, or OVER
 *   CONNECT  dialling    fetch_send (kept in a buffer)      connected; else the next address or CHOOSE
 *   HANDSHAKE  ours      fetch_send (kept in a buffer)      done (only with TLS); else as CONNECT
 *   SEND     ours        fetch_send, fetch_interim_done     all is sent (HEAD), or an early answer (BODY)
 *   HEAD     ours        fetch_interim_done                 the final head (BODY); CHOOSE once for a retry
 *   BODY     ours        fetch_body_*                       proof of the end: back to the pool (OVER)
 *   STREAM   ours        fetch_stream_* (101)               fetch_free
 *   OVER     none        fetch_free
 */
#ifndef BRIM_ORIGIN_PARTS_H
#define BRIM_ORIGIN_PARTS_H

#include "edge/base/arena.h"
#include "edge/base/machine.h"
#include "origin/pool.h"

enum fetch_step {
	FETCH_STEP_CHOOSE,
	FETCH_STEP_CONNECT,
	FETCH_STEP_HANDSHAKE,
	FETCH_STEP_SEND,
	FETCH_STEP_HEAD,
	FETCH_STEP_BODY,
	FETCH_STEP_STREAM,
	FETCH_STEP_OVER,
};

enum {
	FETCH_READ_FIRST = POOL_SMALL_BYTES, /* read together with the head */
	FETCH_CHUNK_LARGE = 16 * 1024,	     /* a chunk from this size on is offered for splicing */
};

struct fetch {
	uint32_t magic;
	struct machine machine; /* without descriptor while there is no connection */
	struct arena arena;	/* request head, response head, trailers */
	struct fetch *next_free;
	struct origin_pool *pool;
	struct ready *wake; /* the owner's */
	struct conf *conf;
	const struct conf_origin *origin;

	/* where to */
	struct pool_waiter waiter;
	enum fetch_error waits_for; /* what it would fail with: no connection, no address */
	struct choose_tried tried;
	uint32_t failed_servers;
	enum fetch_error connect_error; /* of the last one */
	const char *tls_fault;		/* the same in words, if it was its TLS; else NULL */
	const struct conf_server *server;
	uint32_t address_tries, address_count;
	struct origin_connection *connection;
	bool kept;	 /* the connection has served before: it may die without being to blame */
	bool fresh_only; /* this is the retry after such a death */

	/* the request */
	enum http_method method;
	struct view prefix, host, rest; /* start line and «Host: »; empty host: the server's; the rest */
	struct view upgrade;
	size_t head_sent;
	enum http_framing request_framing;
	uint64_t request_left; /* payload still to be given, with LENGTH */
	struct buffer *out;    /* body bytes, framed */
	bool wants_interim;
	bool request_given, request_sent;
	bool sent_any, body_sent; /* the kernel took a byte (of the body): limits what may be retried */
	bool send_broken;	  /* the peer takes no more; it may have answered before */
	bool owner_waits_to_send; /* fetch_send had no room */

	/* the answer */
	enum fetch_state state;
	enum fetch_error error;
	struct buffer *in; /* from in->begin on not yet used */
	struct http_scan scan;
	struct http_response response;
	unsigned interims; /* 1xx heads so far */
	bool answered;	   /* a byte came */
	bool dry;	   /* the last read emptied the socket: wait for an event before the next */
	uint8_t wait;	   /* for which event, then (TLS may have to write) */

	/* its body */
	uint64_t left; /* with LENGTH */
	struct http_chunked chunked;
	bool chunk_large;
	bool at_eof;
	bool owner_waits; /* for bytes: the deadline runs, an event wakes it */
	char *tail;	  /* framing since the last payload, in the arena: trailers are in it */
	size_t tail_bytes, tail_capacity;
	struct view trailers;

	struct wall sent_at, received_at;
	int64_t began_us, ended_us;
};

static inline struct fetch *fetch_of(struct machine *m)
{
	return CONTAINER_OF(m, struct fetch, machine);
}

/* The connection's stream: plain, or TLS. */
static inline struct io *fetch_io(const struct fetch *f)
{
	return f->connection->io;
}

/* What a step that waits for these events returns. */
static inline enum step_result fetch_waits_for(unsigned events)
{
	if (events == (WATCH_READ | WATCH_WRITE))
		return STEP_BOTH;
	return events == WATCH_WRITE ? STEP_WRITE : STEP_READ;
}

static inline size_t buffered(const struct buffer *b)
{
	return b == NULL ? 0 : b->end - b->begin;
}

/* dial.c */
enum step_result fetch_step_choose(struct machine *m);
enum step_result fetch_step_connect(struct machine *m);
enum step_result fetch_step_handshake(struct machine *m);

/* fetch_send.c */
enum step_result fetch_step_send(struct machine *m);

/* fetch_head.c */
enum step_result fetch_step_head(struct machine *m);
/* Reads on; what the step returns, «waiting» if nothing was decided. */
enum step_result fetch_read_answer(struct fetch *f, enum step_result waiting);
/* At most so many bytes into f->in: >0, 0 at the end of stream, -EAGAIN, or another negative errno. Sets dry and wait. */
int64_t fetch_fill(struct fetch *f, size_t most) NODISCARD;
/* The connection broke before the head was there (error 0: ended): retry if that is harmless, or fail. */
enum step_result fetch_broken_off(struct fetch *f, int error);

/* fetch_body.c */
/* n bytes of f->in were used; an empty buffer goes back. */
void fetch_input_took(struct fetch *f, size_t n);
void fetch_body_begin(struct fetch *f);
enum step_result fetch_step_body(struct machine *m);

/* fetch_stream.c */
/* Is the 101 an answer to what was asked for? */
bool fetch_stream_agreed(const struct fetch *f);
enum step_result fetch_step_stream(struct machine *m);

/* fetch.c */
/* Closes and releases all; wakes the owner. Returns STEP_PARK. */
enum step_result fetch_fail(struct fetch *f, enum fetch_error e);
/* The end is proved: the connection goes to the pool if it may live on. */
void fetch_end(struct fetch *f, bool reusable);
void fetch_close_connection(struct fetch *f);

#endif
