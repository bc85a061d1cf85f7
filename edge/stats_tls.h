/* Counters of TLS towards clients: a part of a worker's block in the statistics page (stats.h). */
#ifndef BRIM_EDGE_STATS_TLS_H
#define BRIM_EDGE_STATS_TLS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "edge/metrics.h"

enum { STATS_TLS_CIPHERS = 10, STATS_TLS_FAULTS = 40 };

struct stats_tls {
	uint64_t handshakes[2][2];		    /* TLS 1.2, 1.3; full, resumed */
	uint64_t connections[STATS_TLS_CIPHERS][2]; /* sealed by us, by the kernel; the last cipher: any other */
	uint64_t failures[STATS_TLS_FAULTS]; /* the last: any other */
};

void stats_tls_done(struct stats_tls *s, bool is_1_3, bool resumed, const char *cipher, bool in_kernel);
/* fault: one of tls_fault's words. */
void stats_tls_failed(struct stats_tls *s, const char *fault);

/* The name of a row of connections. */
const char *stats_tls_cipher(unsigned row);
/* Connections of all ciphers. */
uint64_t stats_tls_connections(const struct stats_tls *total, bool in_kernel);
/* A total: members of a JSON object, and families of metrics. What never happened is left out of the labels. */
void stats_tls_json(const struct stats_tls *total, FILE *to);
void stats_tls_metrics(const struct stats_tls *total, const struct metrics *m);

#endif
