/*
 * A client's connection over HTTP/2 (RFC 9113), among its files:
 *
 *   h2.c           the connection's machine: read, flush, timeouts, drain, end
 *   h2_session.c   nghttp2's callbacks: streams begin, bodies come, streams end
 *   h2_limit.c     floods: what a client may do how often
 *   h2_stream.c    the exchange table of a stream
 *   h2_send.c      output: the buffer of a turn, DATA frames, whose turn it is
 *   h2_memory.c    what a connection's streams hold, and what happens when that is too much
 *   h2_head.c      request heads (pure)
 *   h2_answer.c    answer heads (pure)
 *
 * nghttp2 keeps the protocol's state: HPACK, stream states, windows, the order of control frames. It has no descriptor: bytes
 * go in by mem_recv, frames come out by mem_send. A request pulls as it does on HTTP/1: it offers bytes, and what an
 * offer's stream may send at once becomes DATA frames; all other streams are deferred, so that the order is ours.
 */
#ifndef BRIM_EDGE_H2_H
#define BRIM_EDGE_H2_H

#include <nghttp2/nghttp2.h>

#include "edge/arrival.h"
#include "edge/exchange.h"
#include "edge/h2_head.h"
#include "edge/h2_limit.h"
#include "edge/worker.h"

enum {
	H2_MAGIC = 0x68326363,
	H2_STREAM_MAGIC = 0x68327374,
	H2_OUT_BYTES = 64 << 10,
	H2_FRAME_BYTES = 16 << 10,
	H2_FRAME_HEAD = 9,
	H2_QUANTUM = 64 << 10,	     /* of one stream, where others wait */
	H2_STREAM_WINDOW = 64 << 10, /* of a request's body, unread */
	H2_WINDOW = 96 << 10,	     /* the same of all of a connection's */
	H2_FORETOLD = 8,
	/* What all streams and their requests may hold (h2_memory.c): beyond the first no request begins, beyond the second no stream does. */
	H2_BEGUN_BYTES = 480 << 10,
	H2_STREAMS_BYTES = 768 << 10,
};

/* What a request wants to send now; the session takes from it what windows and the socket allow. */
struct h2_offer {
	enum { H2_NOTHING, H2_MEMORY, H2_FILE, H2_PIPE, H2_END } kind;
	const char *p;
	int fd;
	uint64_t offset;
	size_t n, taken;
	bool last;	      /* nothing follows: the last frame ends the stream */
	struct view trailers; /* with END: lines that end the stream */
};

struct h2;

/*
 * Lifetime: HEADERS begin it → request → over. It is freed when both are done with it: the session (closed) and the
 * request (over).
 */
struct h2_stream {
	uint32_t magic;
	int32_t id;
	struct h2 *h;
	struct h2_stream *next_free;
	struct list link; /* in the connection */
	struct list held; /* in the connection: its request is still to begin */
	struct exchange x;
	struct h2_block block; /* the request's head */
	struct http_request rq;
	enum http_fault fault; /* of the head: then rq is none */

	/* The request's body, unread: body.p[body_start..body.n). */
	struct h2_bytes body;
	size_t body_start;
	bool body_ended, continue_due;
	bool uploads; /* some of it went on */
	bool begun;   /* its request has */

	/* The answer. */
	struct answer answer;
	struct h2_offer offer;
	bool head_due; /* kept until something follows it, or nothing will */
	bool ended;    /* END_STREAM is on its way */
	bool reset;    /* RST_STREAM is */
	bool closed;   /* the session knows it no more */
	bool over;     /* no request has it, or not any more */
	/* The answer is out and the request's body is not; and it was so when H2_LINGER last passed. */
	bool lingers, lingered;

	/* Its turn. */
	struct h2_priority priority;
	struct list queued; /* in the connection's queue of its urgency */
	bool window_shut;   /* the client's window is: a WINDOW_UPDATE is awaited */
	size_t quantum_left;
	uint64_t sent_seen, drained_seen; /* when «taking» was last asked */
};

/*
 * Lifetime: serving → closing (GOAWAY and our end are out, the peer's is awaited) → over; or lost (the socket broke) → over.
 * Over when no stream is left.
 */
struct h2 {
	uint32_t magic;
	int fd;
	struct machine m;
	struct worker *w;
	struct worker_client client;
	struct io *io;
	struct io plain;
	const struct conf_listener *listener;
	const struct tls_identity *identity;
	struct sock_addr peer, from; /* of the socket; what a PROXY header said */
	struct http_limits limits;
	struct h2_meters meters;
	nghttp2_session *session;
	struct h2_head *head; /* that is being decoded; NULL: none */

	/* What PRIORITY_UPDATE has said of streams that don't exist yet; the oldest is forgotten. */
	struct h2_foretold {
		int32_t id; /* 0: none */
		struct h2_priority priority;
	} foretold[H2_FORETOLD];
	unsigned foretold_next;

	struct list streams;
	struct list waiting; /* those of them whose request waits for memory; first come, first served */
	unsigned stream_count, lingering;
	uint64_t served;
	size_t memory; /* of the streams, as this turn began, and of those that came since (h2_memory.c) */
	bool memory_known;
	bool uploads_wait; /* a body stays here for lack of memory */
	unsigned begun;	   /* streams whose request has */
	unsigned uploads;  /* streams whose body goes to an origin */
	unsigned spared;   /* refusals not yet sent that are no fault of the client's */

	/* Output: out[out_start..out_end), then «held», which is the session's. */
	char *out;
	size_t out_start, out_end;
	struct view held;
	uint64_t written; /* to the socket, in all */
	bool blocked;	  /* it takes nothing now */
	bool output_due;  /* the machine was woken to send */
	uint8_t wait;	  /* events that the stream asked for (TLS) */
	uint8_t put_off;  /* how often in a row reading was put off for sending */
	struct list queues[H2_URGENCIES];
	unsigned queued_count;
	struct h2_stream *turn;
	bool prioritises; /* its client has said that streams are not alike */

	enum h2_deadline {
		H2_NO_DEADLINE,
		H2_FIRST_FRAME,
		H2_IDLE,
		H2_HEAD,
		H2_DRAIN,
		H2_LINGER,
		H2_SEND
	} deadline;
	uint64_t deadline_served;
	bool began; /* the client's SETTINGS are there */
	bool draining, drained;
	bool terminated; /* our last GOAWAY is on its way */
	bool more_input; /* may be there: reading stopped for the sake of others */
	bool lost;
	bool exceeded; /* a limit was: the machine says goodbye */
	enum h2_limit limit;
	uint64_t waste_bytes;
};

/* --- h2_session.c */
/* Limits and windows as SETTINGS tell them. 0 or -ENOMEM. */
int h2_session_open(struct h2 *h, const struct conf_limits *limits) NODISCARD;
/* The stream of a request, or NULL. */
struct h2_stream *h2_stream_of(nghttp2_session *session, int32_t id);
/* Bytes from the client. 0; -EPROTO: the session can't go on (GOAWAY is on its way). */
int h2_session_feed(struct h2 *h, const void *p, size_t n) NODISCARD;
/* No streams are to come any more, and those that are there are cut off. */
void h2_session_lost(struct h2 *h);
/* Requests that were held for lack of memory begin, as far as there is some now. */
void h2_session_begin_held(struct h2 *h);
/* Lets go of the head that is being decoded, if any. */
void h2_session_head_over(struct h2 *h);
/* The session and the request are both done with it? Then it is freed. */
void h2_stream_release(struct h2_stream *s);

/* --- h2_stream.c */
void h2_exchange_begin(struct h2_stream *s);
/* The client is gone, or wants no more of this. */
void h2_exchange_gone(struct h2_stream *s);
/* RST_STREAM, unless it is over already. */
void h2_exchange_reset(struct h2_stream *s, uint32_t code);
/* Streams that have lingered for a whole deadline are reset. */
void h2_exchange_linger_end(struct h2 *h);
/* A chunk of the request's body. */
int h2_exchange_body(struct h2_stream *s, const uint8_t *p, size_t n) NODISCARD;

/* --- h2_send.c */
/* Takes from s->offer what can be sent now. 0, or negative: the connection is broken. */
int h2_send_offer(struct h2_stream *s) NODISCARD;
/* May the stream send? If not, it is queued and will be woken. */
bool h2_send_may(struct h2_stream *s);
/* Why nothing was taken: the stream waits for its turn or its window. */
void h2_send_wait(struct h2_stream *s);
void h2_send_forget(struct h2_stream *s);
void h2_send_prioritise(struct h2_stream *s, struct h2_priority p);
/* The session's frames go into the buffer, the buffer to the socket. 0, also where the socket takes no more; negative: broken. */
int h2_send_all(struct h2 *h) NODISCARD;
/* Lets the next stream send. */
void h2_send_next(struct h2 *h);
bool h2_send_pending(const struct h2 *h);
/* The session's callbacks for DATA frames. */
ssize_t h2_send_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length,
		     uint32_t *flags, nghttp2_data_source *source, void *user);
int h2_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t length,
		 nghttp2_data_source *source, void *user);

/* --- h2_memory.c */
/* Before bytes of a client are looked at. */
void h2_memory_turn(struct h2 *h);
/* May there be another stream? */
bool h2_memory_admits(struct h2 *h);
/* May this stream's request begin? If not, it is held until h2_memory_next gives it. One that begins is told. */
bool h2_memory_holds(struct h2_stream *s);
void h2_memory_begun(struct h2_stream *s);
/* The held one that may begin now, or NULL. */
struct h2_stream *h2_memory_next(struct h2 *h);
/* May the request have what came of the body? If not, it is woken. */
bool h2_memory_takes_body(struct h2_stream *s);
/* The stream sends no more of it to an origin. */
void h2_memory_body_over(struct h2_stream *s);
/* May an answer wait for a window that is shut? */
bool h2_memory_lets_wait(const struct h2_stream *s);
/* The stream holds nothing any more. */
void h2_memory_forget(struct h2_stream *s);

/* --- h2.c */
struct h2 *h2_of(void *user);
/* The machine sends what there is at the end of this turn. */
void h2_send_soon(struct h2 *h);
/* GOAWAY, and nothing more is served. */
void h2_terminate(struct h2 *h, uint32_t code);
/* The client has answered to the drain's announcement. */
void h2_drained(struct h2 *h);

/* --- h2_answer.c */
enum { H2_ANSWER_FIELDS = 320 };
/* A head as the session takes it: at[] points into the answer, and to status and length. */
struct h2_answer {
	nghttp2_nv at[H2_ANSWER_FIELDS];
	size_t count;
	char status[4], length[24];
};
/* 0, or -E2BIG: too many fields. */
int h2_answer_head(const struct answer *a, struct h2_answer *out) NODISCARD;
int h2_answer_trailers(struct view lines, struct h2_answer *out) NODISCARD;

#endif
