/*
 * A worker's connections to origins: idle ones kept by server, the line of fetches that wait for
 * one, and buffers. For origin/ alone.
 *
 * Lifetime of a connection: pool_dial → (origin_tls_begin) → busy → pool_give → idle → pool_take → busy … → pool_close.
 * While busy its watch lies in the fetch's machine (machine_adopt); while idle the pool watches it,
 * and whatever an origin says then closes it, since it has nothing to say without a request. (Session tickets of TLS
 * are no saying.)
 */
#ifndef BRIM_ORIGIN_POOL_H
#define BRIM_ORIGIN_POOL_H

#include "edge/base/io.h"
#include "edge/base/machine.h"
#include "origin/choose.h"
#include "origin/fetch.h"
#include "origin/shared.h"

struct ssl_session_st;

struct origin_connection {
	uint32_t magic;
	int fd;
	struct io plain;    /* the socket as it is */
	struct io *io;	    /* that, or TLS over it */
	struct watch watch; /* while idle */
	struct timer timer; /* idle_timeout */
	struct list link;   /* in the server's idle list */
	struct origin_pool *pool;
	uint64_t identity;     /* of its server */
	uint64_t tls_identity; /* what its handshake was made by (conf_origin); 0: without TLS */
	uint64_t idle_turn;    /* loop_turn when it became idle */
	uint16_t server_slot;
	bool limited; /* its server has max_connections */
};

struct pool_server {
	uint64_t identity; /* 0: slot not used yet */
	struct list idle;  /* most recently used first */
	unsigned idle_count;
	unsigned good_address; /* that the last connect reached */
	struct choose_state choose;
	struct ssl_session_st *session; /* the newest; NULL: none */
	uint64_t session_tls_identity;	/* what it was made by */
};

/* A place in the line; embedded in the fetch. */
struct pool_waiter {
	struct list link;
	const struct conf_origin *origin;
	struct machine *machine; /* woken when it should try again */
};

/* Bytes read or to be written: [begin, end) of bytes. */
struct buffer {
	struct buffer *next;
	size_t capacity, begin, end;
	char bytes[];
};

enum {
	POOL_FIELDS_MAX = 200,	       /* of a response head */
	POOL_BUFFER_BYTES = 64 * 1024, /* for bodies that are read to memory */
	POOL_SMALL_BYTES = 16 * 1024,  /* for heads, and bodies that go out */
	POOL_BUFFER_SIZES = 2,
};

struct origin_pool {
	uint32_t magic;
	struct origin_shared *shared;
	struct loop *loop;
	unsigned slot;
	struct watch wake;   /* the eventfd of this worker */
	struct timer retry;  /* looks after who was passed over in favour of another worker */
	struct list waiters; /* first come, first served */
	unsigned waiter_count;
	unsigned idle_count, busy_count;
	struct pool_buffers {
		struct buffer *first;
		unsigned count;
	} buffers[POOL_BUFFER_SIZES]; /* free ones: small, large */
	struct fetch *fetches;	      /* free ones */
	unsigned fetch_count;
	struct list tls_contexts; /* by what «tls» of an origin says (origin/tls.c), the last used first */
	unsigned tls_context_count;
	struct origin_tls_counts tls_counts;
	struct http_field fields[POOL_FIELDS_MAX]; /* for the head that is being parsed */
	struct pool_server servers[CONF_SERVERS_MAX];
};

/* By the server's slot; begins anew where the slot has come to another server. */
struct pool_server *pool_server(struct origin_pool *p, const struct conf_server *server);
/* For choose_server. */
struct choose_view pool_choose_view(struct origin_pool *p);

/* An idle connection that is known to be quiet, or NULL. Not from a watch's callback (see pool.c). */
struct origin_connection *pool_take(struct origin_pool *p, const struct conf_origin *o,
				    const struct conf_server *server) NODISCARD;
/* A connect that has begun. -EUSERS: max_connections; else connect's error. */
int pool_dial(struct origin_pool *p, const struct conf_origin *o, const struct conf_server *server,
	      const struct sock_addr *to, struct origin_connection **out) NODISCARD;
/* Both take a busy connection whose watch is its own again. */
void pool_give(struct origin_pool *p, struct origin_connection **c, const struct conf_origin *o,
	       const struct conf_server *server);
void pool_close(struct origin_pool *p, struct origin_connection **c);
/* For machine_release: what an idle connection's watch does. */
void pool_idle_event(struct watch *w, unsigned events);
/* Does TLS lie over the socket? */
static inline bool pool_over_tls(const struct origin_connection *c)
{
	return c->io != &c->plain;
}

/* Does someone of the same origin stand before it in the line (a newcomer: anywhere)? */
bool pool_line(const struct origin_pool *p, const struct pool_waiter *w);
/* Joins the line (idempotent). -EUSERS: it is full. */
int pool_wait(struct origin_pool *p, struct pool_waiter *w) NODISCARD;
/* Tells the other processes that we wait. After it, look again. */
void pool_ask(struct origin_pool *p, const struct pool_waiter *w);
bool pool_has_room(const struct origin_pool *p, const struct pool_waiter *w);
/* Leaves the line (idempotent); the next of its origin may try. */
void pool_leave(struct origin_pool *p, struct pool_waiter *w);

/* At least so many bytes (and of what is kept for reuse, the size that fits best); empty. NULL: no memory. */
struct buffer *pool_buffer(struct origin_pool *p, size_t bytes) NODISCARD;
void pool_buffer_give(struct origin_pool *p, struct buffer **b);

/* Those of p->fetches (fetch.c). */
void fetch_free_kept(struct origin_pool *p);

#endif
