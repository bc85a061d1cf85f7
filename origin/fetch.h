/*
 * A fetch: one request to an origin and its answer. It chooses a server, takes an idle connection or
 * dials, sends the head (and body, as it comes), reads the answer's head and frames its body. It knows nothing of
 * caches; one file in edge/ joins a fetch to a fill.
 *
 * A fetch is a machine of its own; its owner is told by «wake» (a ready) whenever something changed, and asks.
 * The owner pulls the body: from memory what was read with the head or with chunk sizes, the rest by splice; over
 * TLS in user space all of it from memory.
 *
 * Where the owner offers a change of protocol and the origin agrees (101), the connection is the owner's as a stream of
 * bytes from then on (fetch_stream_*).
 *
 * Lifetime: fetch_new → (wake …) → fetch_free at any time. Freed before its end was proved, the connection is closed;
 * after it, it goes back to the pool.
 */
#ifndef BRIM_ORIGIN_FETCH_H
#define BRIM_ORIGIN_FETCH_H

#include "conf/conf.h"
#include "edge/base/loop.h"
#include "edge/http/chunked.h"
#include "edge/http/head.h"

struct origin_shared; /* addresses and connection counts of all servers, in shared memory */
struct origin_pool;   /* this worker's idle connections, queues and buffers */

/* Master, before fork. NULL: no memory. */
struct origin_shared *origin_shared_new(void) NODISCARD;
void origin_shared_free(struct origin_shared *s);

/* Keeper: resolves the names of a snapshot's servers in threads, again and again (resolve_interval), and writes
 * the addresses to shared memory. A name that stops resolving keeps its last addresses. */
struct resolver;
int resolver_new(struct origin_shared *s, struct loop *l, struct resolver **out) NODISCARD;
void resolver_use(struct resolver *r, struct conf *conf); /* takes a reference; replaces the one before */
void resolver_free(struct resolver *r);

/* Worker. A dead predecessor's connection counts in this slot are zeroed. */
int origin_pool_new(struct origin_shared *s, struct loop *l, unsigned slot, struct origin_pool **out)
	NODISCARD;
void origin_pool_free(struct origin_pool *p);
/* A new snapshot: what was made for the TLS of origins that are no more so is dropped. */
void origin_pool_use(struct origin_pool *p, const struct conf *conf);

struct fetch;
struct fetch_request {
	struct conf *conf; /* a reference is taken */
	const struct conf_origin *origin;
	enum http_method method;
	/* Copied. start: "GET /x HTTP/1.1\r\n". fields: all lines but Host, Content-Length, Transfer-Encoding and Connection, each with CRLF, no empty line at the end. */
	struct view start, fields;
	struct view host;	/* the Host field's value; empty: the server's authority */
	enum http_framing body; /* NONE, LENGTH, CHUNKED */
	uint64_t body_bytes;	/* with LENGTH */
	bool wants_interim; /* keep 1xx heads for the owner (FETCH_INTERIM); else they are skipped */
	struct view upgrade; /* protocols that the origin may change to, "a, b" (RFC 9110 §7.8); empty: none. No body then */
};

enum fetch_state {
	FETCH_STARTING, /* no answer yet */
	FETCH_INTERIM,	/* a 1xx head is there: fetch_response; go on with fetch_interim_done */
	FETCH_HEAD,	/* the final head is there; body follows by fetch_body_* */
	FETCH_SWITCHED, /* 101, to a protocol of «upgrade»: fetch_response; fetch_stream_* follow */
	FETCH_ENDED,	/* the body's end was proved and everything was taken */
	FETCH_FAILED,
};
/* Error types of the HTTP Proxy-Status registry (RFC 9209 §2.3). */
enum fetch_error {
	FETCH_OK,
	FETCH_DNS_TIMEOUT,
	FETCH_DNS_ERROR,
	FETCH_CONNECTION_REFUSED,
	FETCH_CONNECTION_TIMEOUT,
	FETCH_CONNECTION_TERMINATED,
	FETCH_CONNECTION_LIMIT_REACHED,
	FETCH_DESTINATION_UNAVAILABLE,
	FETCH_RESPONSE_TIMEOUT,
	FETCH_RESPONSE_INCOMPLETE,
	FETCH_PROTOCOL_ERROR,
	FETCH_HEAD_TOO_LARGE,
	FETCH_INTERNAL,
	FETCH_READ_TIMEOUT /* between bytes of the body */,
	FETCH_WRITE_TIMEOUT /* the origin takes no more */,
	FETCH_TLS_PROTOCOL_ERROR,
	FETCH_TLS_CERTIFICATE_ERROR,
	FETCH_TLS_ALERT_RECEIVED,
};
const char *fetch_error_type(enum fetch_error e); /* "dns_timeout", "connection_refused", "http_response_incomplete" … */
uint16_t fetch_error_status(enum fetch_error e); /* 502, 503, 504 */
/* What was wrong with the last handshake, in words for the log; empty: nothing. */
const char *fetch_tls_fault(const struct fetch *f);

int fetch_new(struct origin_pool *p, const struct fetch_request *r, struct ready *wake,
	      struct fetch **out) NODISCARD;
void fetch_free(struct fetch **f);
/* Another owner from now on: «wake» replaces the one given to fetch_new (and is posted once, for what it may have missed). */
void fetch_set_wake(struct fetch *f, struct ready *wake);

enum fetch_state fetch_state(const struct fetch *f);
enum fetch_error fetch_error(const struct fetch *f);
/* Valid from FETCH_INTERIM or FETCH_HEAD until fetch_interim_done or fetch_free. */
const struct http_response *fetch_response(const struct fetch *f);
void fetch_interim_done(struct fetch *f);
/* When the request's first byte was sent, and the final head was there; the server that was used (NULL: none yet). */
struct wall fetch_sent_at(const struct fetch *f);
struct wall fetch_received_at(const struct fetch *f);
int64_t fetch_duration_us(const struct fetch *f);
const struct conf_server *fetch_server(const struct fetch *f);
/* Bytes of memory that it holds, with its connection, but for what is the kernel's or a TLS library's. */
size_t fetch_memory(const struct fetch *f);

/* --- the request's body ---------------------------------------------------------------------- */

/* Payload bytes taken (chunked framing is added by the fetch), 0: not now, wake follows; negative: the fetch failed or
 * has its answer and takes no more. */
int64_t fetch_send(struct fetch *f, const void *p, size_t n) NODISCARD;
int fetch_send_end(struct fetch *f)
	NODISCARD; /* all body bytes were given. 0; -EAGAIN: call again when woken; else failed */

/* --- the answer's body ------------------------------------------------------------------------ */

enum fetch_body {
	FETCH_BODY_MEMORY, /* *out: payload bytes in memory: take some or all with fetch_body_took */
	FETCH_BODY_SOCKET, /* payload is (or may be) in the socket: fetch_body_splice or fetch_body_read. Never over TLS in user space */
	FETCH_BODY_AGAIN,  /* nothing now; wake follows */
	FETCH_BODY_END, /* proved: length reached, last chunk, or close where that is the framing */
	FETCH_BODY_FAILED, /* broken off, timed out, bad chunk: fetch_error */
};
enum fetch_body fetch_body_next(struct fetch *f, struct view *out);
void fetch_body_took(struct fetch *f, size_t n);
/* From the socket into a pipe's write end: >0 bytes (≤ max); 0: none now, wake follows; -EXFULL: the pipe is full
 * (not the socket empty); -ENODATA: call fetch_body_next (the stream has ended, or something else came first); else failed. */
int64_t fetch_body_splice(struct fetch *f, int pipe_fd, size_t max) NODISCARD;
/* The same into memory. */
int64_t fetch_body_read(struct fetch *f, void *p, size_t n) NODISCARD;
/* Payload bytes still to come where known (LENGTH), else -1. */
int64_t fetch_body_left(const struct fetch *f);
/* Trailer fields after FETCH_BODY_END of a chunked answer, each with CRLF; empty: none. */
struct view fetch_trailers(const struct fetch *f);
/* The owner isn't pulling for a while (its client is slow): the between-bytes timeout rests until fetch_body_next is called again. */
void fetch_pause(struct fetch *f);

/* --- after FETCH_SWITCHED ----------------------------------------------------------------------- */

/* The owner reads and writes by the stream's calls. *out_early: what was read along with the head, until it is taken. */
struct io *fetch_stream(struct fetch *f, struct view *out_early);
void fetch_stream_took(struct fetch *f, size_t n);
/* The events (WATCH_…) of which «wake» is to tell from now on; each is told once. */
void fetch_stream_want(struct fetch *f, unsigned events);

/* For the statistics: idle and busy connections of this worker. */
void origin_pool_counts(const struct origin_pool *p, unsigned *out_idle, unsigned *out_busy);
/* Handshakes that were completed, those of them that resumed a session, and those that failed. */
struct origin_tls_counts {
	uint64_t handshakes, resumed, failures;
};
/* Since this was last called. */
struct origin_tls_counts origin_pool_take_tls_counts(struct origin_pool *p);

#endif
