/*
 * How many connections each client address has, over all workers: for limits.connections_per_client.
 *
 * Shared memory of a fixed size, which the master makes: each worker has two rows of counters of its own, and an
 * address counts in one cell of each. The smaller of the two sums over all workers is its count: never
 * too low, and too high only where other clients share both cells. Exact tables would need locks or
 * messages between workers, and something to do when they are full.
 *
 * An IPv6 client is its /64: whoever has one address there has all of them.
 */
#ifndef BRIM_EDGE_PEERS_H
#define BRIM_EDGE_PEERS_H

#include "edge/base/sock.h"

struct peers;

/* In the master. NULL: no memory. */
struct peers *peers_new(unsigned workers) NODISCARD;
void peers_free(struct peers *p);

/* In the worker that owns the slot: what a predecessor had open is no longer so. */
void peers_reset(struct peers *p, unsigned worker);
void peers_add(struct peers *p, unsigned worker, const struct sock_addr *a);
void peers_remove(struct peers *p, unsigned worker, const struct sock_addr *a);

/* Connections that this address has now. */
unsigned peers_count(const struct peers *p, const struct sock_addr *a);

#endif
