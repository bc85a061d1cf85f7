/*
 * Rows are found by name: a handshake costs some hundred microseconds, a comparison of names a fraction of one. Each
 * name has a place of its own for ever, since workers of several versions may write the same page.
 */
#include "edge/stats_tls.h"

#include <string.h>

#include "edge/stats.h"

static const char *const ciphers[STATS_TLS_CIPHERS] = {
	"TLS_AES_128_GCM_SHA256",	"TLS_AES_256_GCM_SHA384",
	"TLS_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256",
	"ECDHE-RSA-AES128-GCM-SHA256",	"ECDHE-ECDSA-AES256-GCM-SHA384",
	"ECDHE-RSA-AES256-GCM-SHA384",	"ECDHE-ECDSA-CHACHA20-POLY1305",
	"ECDHE-RSA-CHACHA20-POLY1305",	"other",
};

static const char *const faults[] = {
	"closed",
	"timeout",
	"memory",
	"protocol",
	"not_tls",
	"version",
	"no_shared_cipher",
	"no_shared_group",
	"no_application_protocol",
	"unrecognized_name",
	"no_client_certificate",
	"certificate",
	"certificate_expired",
	"certificate_not_yet_valid",
	"certificate_revoked",
	"unknown_ca",
	"alert_unknown_ca",
	"alert_protocol_version",
	"alert_internal_error",
	"alert_user_canceled",
	"alert_access_denied",
	"alert_decode_error",
	"alert_decrypt_error",
	"alert_no_application_protocol",
	"alert_unrecognized_name",
	"alert_certificate_required",
	"alert_handshake_failure",
	"alert_bad_certificate",
	"alert_certificate_expired",
	"alert_certificate_unknown",
	"alert_certificate_revoked",
	"alert_unsupported_certificate",
	"alert_unexpected_message",
	"alert_illegal_parameter",
	"alert_other",
	"other",
};
_Static_assert(ARRAY_LEN(faults) <= STATS_TLS_FAULTS, "a place for each");

static const char *const versions[2] = { "1.2", "1.3" };
static const char *const kinds[2] = { "full", "resumed" };
static const char *const places[2] = { "program", "kernel" };

static size_t find(const char *const *names, size_t count, const char *name)
{
	size_t i = 0;

	while (i < count - 1 && strcmp(names[i], name) != 0)
		i++;
	return i;
}

void stats_tls_done(struct stats_tls *s, bool is_1_3, bool resumed, const char *cipher, bool in_kernel)
{
	stats_add(&s->handshakes[is_1_3][resumed], 1);
	stats_add(&s->connections[find(ciphers, STATS_TLS_CIPHERS, cipher)][in_kernel], 1);
}

void stats_tls_failed(struct stats_tls *s, const char *fault)
{
	stats_add(&s->failures[find(faults, ARRAY_LEN(faults), fault)], 1);
}

const char *stats_tls_cipher(unsigned row)
{
	return ciphers[row < STATS_TLS_CIPHERS ? row : STATS_TLS_CIPHERS - 1];
}

uint64_t stats_tls_connections(const struct stats_tls *total, bool in_kernel)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < STATS_TLS_CIPHERS; i++)
		sum += total->connections[i][in_kernel];
	return sum;
}

/* --- one table for both forms --------------------------------------------------------------------- */

typedef void sample_fn(FILE *to, bool first, const char *a, const char *b, uint64_t value);

static void each_handshake(const struct stats_tls *t, FILE *to, sample_fn *write)
{
	for (unsigned v = 0; v < 2; v++)
		for (unsigned k = 0; k < 2; k++)
			write(to, v == 0 && k == 0, versions[v], kinds[k], t->handshakes[v][k]);
}

static void each_connection(const struct stats_tls *t, FILE *to, sample_fn *write)
{
	bool first = true;

	for (unsigned c = 0; c < STATS_TLS_CIPHERS; c++)
		for (unsigned k = 0; k < 2; k++) {
			if (t->connections[c][k] == 0)
				continue;
			write(to, first, ciphers[c], places[k], t->connections[c][k]);
			first = false;
		}
}

static void each_failure(const struct stats_tls *t, FILE *to, sample_fn *write)
{
	bool first = true;

	for (unsigned f = 0; f < ARRAY_LEN(faults); f++) {
		if (t->failures[f] == 0)
			continue;
		write(to, first, faults[f], NULL, t->failures[f]);
		first = false;
	}
}

/* --- JSON ------------------------------------------------------------------------------------------ */

static void json_handshakes(FILE *to, bool first, const char *version, const char *kind, uint64_t value)
{
	fprintf(to, "%s{\"version\":\"%s\",\"kind\":\"%s\",\"count\":%llu}", first ? "" : ",",
		version, kind, (unsigned long long)value);
}

static void json_connections(FILE *to, bool first, const char *cipher, const char *by, uint64_t value)
{
	fprintf(to, "%s{\"cipher\":\"%s\",\"by\":\"%s\",\"count\":%llu}", first ? "" : ",", cipher,
		by, (unsigned long long)value);
}

static void json_failures(FILE *to, bool first, const char *reason, const char *none, uint64_t value)
{
	(void)none;
	fprintf(to, "%s\"%s\":%llu", first ? "" : ",", reason, (unsigned long long)value);
}

void stats_tls_json(const struct stats_tls *total, FILE *to)
{
	fputs("\"handshakes\":[", to);
	each_handshake(total, to, json_handshakes);
	fputs("],\"connections\":[", to);
	each_connection(total, to, json_connections);
	fputs("],\"failures\":{", to);
	each_failure(total, to, json_failures);
	putc('}', to);
}

/* --- metrics ------------------------------------------------------------------------------------- */

static void metric_handshakes(FILE *to, bool first, const char *version, const char *kind, uint64_t value)
{
	(void)first;
	fprintf(to, "brim_tls_handshakes_total{version=\"%s\",kind=\"%s\"} %llu\n", version, kind,
		(unsigned long long)value);
}

static void metric_connections(FILE *to, bool first, const char *cipher, const char *by, uint64_t value)
{
	(void)first;
	fprintf(to, "brim_tls_connections_total{cipher=\"%s\",by=\"%s\"} %llu\n", cipher, by,
		(unsigned long long)value);
}

static void metric_failures(FILE *to, bool first, const char *reason, const char *none, uint64_t value)
{
	(void)first;
	(void)none;
	fprintf(to, "brim_tls_handshake_failures_total{reason=\"%s\"} %llu\n", reason,
		(unsigned long long)value);
}

void stats_tls_metrics(const struct stats_tls *total, const struct metrics *m)
{
	metrics_family(m, "tls_handshakes", "counter", NULL, "TLS handshakes done with clients.");
	each_handshake(total, m->to, metric_handshakes);
	metrics_family(m, "tls_connections", "counter", NULL,
		       "TLS connections of clients, by who seals what is sent.");
	each_connection(total, m->to, metric_connections);
	metrics_family(m, "tls_handshake_failures", "counter", NULL,
		       "TLS handshakes with clients that failed.");
	each_failure(total, m->to, metric_failures);
}
