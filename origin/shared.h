/*
 * What all workers and the keeper know of origin servers together: addresses (written by the
 * keeper), how many connections each worker has open, who waits for one and who holds idle ones.
 *
 * One row per server slot (conf_server.slot). A connection count lies in [server][worker], is
 * written by that worker alone and summed when asked for: the share of a worker that died can be
 * zeroed, which a common counter would not allow.
 *
 * Waiting: set your bit, then look again, then sleep. Whoever makes room takes all bits out and
 * writes to those workers' eventfds. The bits are the message, the eventfd is a hint.
 */
#ifndef BRIM_ORIGIN_SHARED_H
#define BRIM_ORIGIN_SHARED_H

#include "conf/conf.h"
#include "edge/base/sock.h"

struct origin_shared;

enum shared_state { SHARED_PENDING, SHARED_RESOLVED, SHARED_NO_SUCH_NAME, SHARED_NO_ANSWER };
enum { SHARED_ADDRESSES_MAX = 8 };
struct shared_addresses {
	uint64_t identity; /* shared_identity of the server that they belong to */
	uint32_t state, count;
	struct sock_addr at[SHARED_ADDRESSES_MAX];
};

/* Slots are reused when servers come and go: what was kept for another server doesn't count. */
uint64_t shared_identity(const struct conf_server *server);

/* Addresses of a server; a literal's too. Never waits: a row that is being written reads as pending. */
void shared_lookup(struct origin_shared *s, const struct conf_server *server,
		   struct shared_addresses *out);
/* By the keeper alone. Wakes who waits. */
void shared_publish(struct origin_shared *s, unsigned server_slot, const struct shared_addresses *a);

/* Counts a connection that is about to be opened. False: the server has max_connections. */
bool shared_open(struct origin_shared *s, const struct conf_server *server, unsigned worker) NODISCARD;
/* One less; wakes the workers that wait for room, but none of «except» (whose bits stay). */
void shared_closed(struct origin_shared *s, unsigned server_slot, unsigned worker, uint64_t except);
bool shared_has_room(struct origin_shared *s, const struct conf_server *server);
/* Of one worker. */
uint32_t shared_open_count(struct origin_shared *s, unsigned server_slot, unsigned worker);
/* A new worker in this slot: what its predecessor had open is closed. */
void shared_forget(struct origin_shared *s, unsigned worker);

/* This worker waits for room or an address; workers that hold idle connections are asked to yield. */
void shared_wait(struct origin_shared *s, unsigned server_slot, unsigned worker);
uint64_t shared_waiting(struct origin_shared *s, unsigned server_slot);
void shared_hold_idle(struct origin_shared *s, unsigned server_slot, unsigned worker, bool holds);

/* Readable when this worker should look at its waiters and idle connections. Belongs to s. */
int shared_wake_fd(const struct origin_shared *s, unsigned worker);

#endif
