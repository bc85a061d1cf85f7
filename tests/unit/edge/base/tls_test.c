/*
 * TLS streams over a pair of sockets, both ends ours: what is sent arrives, in order and whole, however little the socket takes;
 * how it is cut into records; how a stream ends, and how it is seen when it doesn't.
 */
#include "edge/base/tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edge/base/loop.h"
#include "edge/base/sock.h"
#include "edge/base/tls_parts.h"

enum { BODY_BYTES = 1 << 20 };

struct world {
	SSL_CTX *server_context, *client_context;
	int fds[2];
	struct io *server, *client;
	char *body, *got;
};

/* --- a certificate and two ends --------------------------------------------------------------------- */

static void certify(SSL_CTX *c)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();

	assert_non_null(key);
	X509_gmtime_adj(X509_getm_notBefore(x), -60);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	assert_int_equal(X509_set_pubkey(x, key), 1);
	assert_true(X509_sign(x, key, EVP_sha256()) > 0);
	assert_int_equal(SSL_CTX_use_cert_and_key(c, x, key, NULL, 1), 1);
	X509_free(x);
	EVP_PKEY_free(key);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->server_context = tls_context(true);
	w->client_context = tls_context(false);
	certify(w->server_context);
	assert_int_equal(sock_pair(w->fds), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fcntl(w->fds[i], F_SETFL, O_NONBLOCK), 0);
		sock_tune(w->fds[i]);
	}
	assert_int_equal(tls_new(w->server_context, w->fds[0], &w->server), 0);
	assert_int_equal(tls_new(w->client_context, w->fds[1], &w->client), 0);
	w->body = malloc(BODY_BYTES);
	w->got = malloc(BODY_BYTES);
	for (size_t i = 0; i < BODY_BYTES; i++)
		w->body[i] = (char)(i * 2654435761u >> 13);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	if (w->server != NULL)
		w->server->ops->free(w->server);
	if (w->client != NULL)
		w->client->ops->free(w->client);
	for (int i = 0; i < 2; i++)
		if (w->fds[i] >= 0)
			close(w->fds[i]);
	SSL_CTX_free(w->server_context);
	SSL_CTX_free(w->client_context);
	free(w->body);
	free(w->got);
	free(w);
	return 0;
}

static void shake_hands(struct world *w)
{
	int server = -EAGAIN, client = -EAGAIN;

	for (int i = 0; i < 100000 && (server != 0 || client != 0); i++) {
		if (client != 0)
			client = tls_handshake(w->client);
		if (server != 0)
			server = tls_handshake(w->server);
		assert_true(client == 0 || client == -EAGAIN);
		assert_true(server == 0 || server == -EAGAIN);
	}
	assert_int_equal(server, 0);
	assert_int_equal(client, 0);
}

/* A socket that takes little. */
static void narrow(struct world *w)
{
	int bytes = 4096;

	assert_int_equal(setsockopt(w->fds[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
}

/* Reads what there is. */
static size_t drain(struct world *w, size_t at)
{
	for (;;) {
		int64_t n = w->client->ops->read(w->client, w->got + at, BODY_BYTES - at);

		if (n <= 0) {
			assert_true(n == -EAGAIN || at == BODY_BYTES);
			return at;
		}
		at += (size_t)n;
		if (at == BODY_BYTES)
			return at;
	}
}

/* Until the client can read or the server write. */
static void wait_for_either(struct world *w)
{
	struct pollfd fds[] = { { .fd = w->fds[0], .events = POLLOUT },
				{ .fd = w->fds[1], .events = POLLIN } };

	assert_true(poll(fds, 2, 30000) > 0);
}

/* --- payload ----------------------------------------------------------------------------------------- */

typedef int64_t send_fn(struct world *w, size_t at, void *arg);

/* Sends the body by this call until all of it has come. */
static void passes(struct world *w, send_fn *send, void *arg)
{
	size_t sent = 0, got = 0;

	for (int i = 0; i < 1000000 && got < BODY_BYTES; i++) {
		if (sent < BODY_BYTES) {
			int64_t n = send(w, sent, arg);

			assert_true(n > 0 || n == -EAGAIN);
			if (n == -EAGAIN)
				assert_int_equal(w->server->wait, WATCH_WRITE);
			sent += n > 0 ? (size_t)n : 0;
		} else {
			int r = w->server->ops->flush(w->server);

			assert_true(r == 0 || r == -EAGAIN);
			assert_int_equal(r == -EAGAIN, w->server->holds);
		}
		assert_true(w->server->ops->untaken(w->server) >= 0);
		wait_for_either(w);
		got = drain(w, got);
	}
	assert_int_equal(got, BODY_BYTES);
	assert_memory_equal(w->got, w->body, BODY_BYTES);
	assert_int_equal(w->server->ops->flush(w->server), 0);
	assert_false(w->server->holds);
}

static int64_t by_write(struct world *w, size_t at, void *arg)
{
	size_t left = BODY_BYTES - at, first = left < 100 ? left : 100;
	struct iovec v[] = { { w->body + at, first },
			     { w->body + at, 0 },
			     { w->body + at + first, left - first } };

	(void)arg;
	return w->server->ops->write(w->server, v, 3, false);
}

static int64_t by_file(struct world *w, size_t at, void *arg)
{
	return w->server->ops->send_file(w->server, *(int *)arg, at, BODY_BYTES - at, false);
}

static int64_t by_pipe(struct world *w, size_t at, void *arg)
{
	const int *fds = arg;
	int held = 0;

	assert_int_equal(ioctl(fds[0], FIONREAD, &held), 0);
	if (held == 0) {
		size_t left = BODY_BYTES - at;
		ssize_t n = write(fds[1], w->body + at, left < 30000 ? left : 30000);

		assert_true(n > 0);
		held = (int)n;
	}
	return w->server->ops->send_pipe(w->server, fds[0], (size_t)held, false);
}

static void memory_passes(void **state)
{
	shake_hands(*state);
	passes(*state, by_write, NULL);
}

static void memory_passes_a_narrow_socket(void **state)
{
	narrow(*state);
	shake_hands(*state);
	passes(*state, by_write, NULL);
}

static void file_passes(struct world *w)
{
	int fd = memfd_create("body", MFD_CLOEXEC);

	assert_int_equal(write(fd, w->body, BODY_BYTES), BODY_BYTES);
	shake_hands(w);
	passes(w, by_file, &fd);
	assert_int_equal(w->server->ops->send_file(w->server, fd, BODY_BYTES, 1, false), -EIO);
	close(fd);
}

static void a_file_passes(void **state)
{
	file_passes(*state);
}

static void a_file_passes_a_narrow_socket(void **state)
{
	narrow(*state);
	file_passes(*state);
}

static void a_pipe_passes(void **state)
{
	struct world *w = *state;
	int fds[2];

	narrow(w);
	assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
	shake_hands(w);
	passes(w, by_pipe, fds);
	assert_int_equal(w->server->ops->send_pipe(w->server, fds[0], 1, false), -EAGAIN);
	close(fds[0]);
	close(fds[1]);
}

/* --- records ---------------------------------------------------------------------------------------------- */

/* A read gives what is left of one record. */
static size_t next_record(struct world *w)
{
	for (int i = 0; i < 100000; i++) {
		int64_t n = w->client->ops->read(w->client, w->got, BODY_BYTES);

		if (n != -EAGAIN)
			return (size_t)n;
	}
	return 0;
}

static void records_are_small_at_first(void **state)
{
	struct world *w = *state;
	struct iovec v = { w->body, 200000 };
	size_t got = 0, n;

	shake_hands(w);
	if (tls_sends_in_kernel(w->server))
		skip(); /* by the kernel: no buffer of ours that could hold or mix records */
	assert_int_equal(w->server->ops->write(w->server, &v, 1, false), 200000);
	for (int i = 0; i < 12; i++) {
		n = next_record(w);
		assert_in_range(n, 1000, 1400);
		got += n;
	}
	while (got < 200000) {
		n = next_record(w);
		assert_in_range(n, 1, 16384);
		got += n;
	}
	assert_int_equal(w->server->ops->write(w->server, &v, 1, false), 200000);
	assert_int_equal(next_record(w), 16384);
}

static void what_is_short_is_one_record(void **state)
{
	struct world *w = *state;
	struct iovec v[] = { { w->body, 300 }, { w->body, 1024 }, { w->body, 100 } };

	shake_hands(w);
	assert_int_equal(w->server->ops->write(w->server, v, 3, false), 1424);
	assert_int_equal(next_record(w), 1424);
}

static void what_lies_in_memory_is_told(void **state)
{
	struct world *w = *state;
	struct iovec v = { w->body, 5000 };
	char part[1000];

	shake_hands(w);
	assert_int_equal(w->client->ops->read(w->client, part, sizeof(part)), -EAGAIN);
	assert_false(w->client->ops->buffered(w->client));
	assert_int_equal(w->server->ops->write(w->server, &v, 1, false), 5000);
	for (int i = 0; w->client->ops->read(w->client, part, sizeof(part)) == -EAGAIN; i++)
		assert_true(i < 100000);
	assert_true(w->client->ops->buffered(w->client));
}

/* --- suites, and who seals ---------------------------------------------------------------------------------- */

static const struct suite {
	int version;
	const char *name;
} suites[] = {
	{ TLS1_2_VERSION, "ECDHE-ECDSA-AES128-GCM-SHA256" },
	{ TLS1_2_VERSION, "ECDHE-ECDSA-AES256-GCM-SHA384" },
	{ TLS1_2_VERSION, "ECDHE-ECDSA-CHACHA20-POLY1305" },
	{ TLS1_3_VERSION, "TLS_AES_128_GCM_SHA256" },
	{ TLS1_3_VERSION, "TLS_AES_256_GCM_SHA384" },
	{ TLS1_3_VERSION, "TLS_CHACHA20_POLY1305_SHA256" },
};

static void choose(struct world *w, const struct suite *s)
{
	SSL *client = tls_ssl(w->client);

	assert_int_equal(SSL_set_min_proto_version(client, s->version), 1);
	assert_int_equal(SSL_set_max_proto_version(client, s->version), 1);
	if (s->version == TLS1_2_VERSION)
		assert_int_equal(SSL_set_cipher_list(client, s->name), 1);
	else
		assert_int_equal(SSL_set_ciphersuites(client, s->name), 1);
}

/* n bytes of the body from one to the other, in pieces. */
static void says(struct world *w, struct io *from, struct io *to, size_t n)
{
	size_t sent = 0, got = 0;

	for (int i = 0; got < n; i++) {
		size_t left = n - sent, third = left / 3;
		struct iovec v[] = { { w->body + sent, third },
				     { w->body + sent + third, third },
				     { w->body + sent + 2 * third, left - 2 * third } };
		int64_t r = left > 0 ? from->ops->write(from, v, 3, false) : from->ops->flush(from);

		assert_true(i < 1000000);
		assert_true(r >= 0 || r == -EAGAIN);
		sent += r > 0 && left > 0 ? (size_t)r : 0;
		while ((r = to->ops->read(to, w->got + got, BODY_BYTES - got)) > 0)
			got += (size_t)r;
		assert_true(r == -EAGAIN);
	}
	assert_int_equal(got, n);
	assert_memory_equal(w->got, w->body, n);
}

static bool seals_itself(struct io *io)
{
	return tls_seal_ready(&tls_of(io)->seal);
}

static void every_length(struct world *w)
{
	static const size_t lengths[] = { 1,	 2,	15,    16,     1299,  1300,  1301,
					  4095,	 4096,	4097,  16383,  16384, 16385, 32767,
					  65535, 65536, 65537, 100000, 131072 };

	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		says(w, w->server, w->client, lengths[i]);
		says(w, w->client, w->server, lengths[i] / 7 + 1);
		if (i % 5 == 0)
			tls_of(w->server)->sent_ms = 0; /* as after a pause: small records */
	}
}

static void every_suite(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(suites); i++) {
		struct world *w;

		assert_int_equal(set_up((void **)&w), 0);
		choose(w, &suites[i]);
		shake_hands(w);
		assert_string_equal(SSL_get_cipher_name(tls_ssl(w->server)), suites[i].name);
		assert_true(tls_sends_in_kernel(w->server) != seals_itself(w->server));
		assert_true(tls_sends_in_kernel(w->client) != seals_itself(w->client));
		every_length(w);
		w->server->ops->end(w->server);
		assert_int_equal(next_record(w), 0);
		tear_down((void **)&w);
	}
}

/* OpenSSL keeps the keys of a stream whose client wants records of 512 bytes at most. */
static void records_that_the_client_limits(void **state)
{
	struct world *w = *state;

	assert_int_equal(SSL_set_tlsext_max_fragment_length(tls_ssl(w->client),
							    TLSEXT_max_fragment_length_512),
			 1);
	shake_hands(w);
	assert_false(seals_itself(w->server));
	every_length(w);
	says(w, w->server, w->client, BODY_BYTES / 2);
	w->server->ops->end(w->server);
	assert_int_equal(next_record(w), 0);
}

static void limited_records_pass_a_narrow_socket(void **state)
{
	struct world *w = *state;

	narrow(w);
	assert_int_equal(SSL_set_tlsext_max_fragment_length(tls_ssl(w->client),
							    TLSEXT_max_fragment_length_1024),
			 1);
	shake_hands(w);
	passes(w, by_write, NULL);
}

/* What OpenSSL has to say goes between the payload, under the same keys. */
static void tickets_come_between(void **state)
{
	struct world *w = *state;

	shake_hands(w);
	if (tls_sends_in_kernel(w->server))
		skip(); /* by the kernel: no buffer of ours that could hold or mix records */
	for (int i = 0; i < 5; i++) {
		says(w, w->server, w->client, 20000);
		assert_int_equal(SSL_new_session_ticket(tls_ssl(w->server)), 1);
		assert_int_equal(SSL_do_handshake(tls_ssl(w->server)), 1);
	}
	says(w, w->server, w->client, 20000);
}

static int lies_in(int fd)
{
	int n = -1;

	assert_int_equal(ioctl(fd, FIONREAD, &n), 0);
	return n;
}

/* The handshake ends for the server when the request is there, too. */
static void ask_at_once(struct world *w)
{
	struct iovec request = { w->body, 100 };
	struct pollfd client = { .fd = w->fds[1], .events = POLLIN };

	assert_int_equal(tls_handshake(w->client), -EAGAIN);
	while (tls_handshake(w->client) != 0) {
		assert_int_equal(tls_handshake(w->server), -EAGAIN);
		assert_true(poll(&client, 1, 30000) == 1);
	}
	assert_int_equal(w->client->ops->write(w->client, &request, 1, false), 100);
	for (int i = 0; i < 3000 && lies_in(w->fds[0]) < 180; i++)
		(void)poll(NULL, 0, 10);
	assert_int_equal(tls_handshake(w->server), 0);
	assert_int_equal(w->server->ops->read(w->server, w->got, BODY_BYTES), 100);
	assert_memory_equal(w->got, w->body, 100);
}

static bool has_ticket(struct world *w)
{
	return SSL_SESSION_has_ticket(SSL_get0_session(tls_ssl(w->client))) == 1;
}

static void tickets_leave_with_the_answer(void **state)
{
	struct world *w = *state;
	struct iovec answer = { w->body, 200 };
	size_t got = 0;

	ask_at_once(w);
	if (tls_sends_in_kernel(w->server))
		skip(); /* OpenSSL sends them itself */
	assert_int_equal(lies_in(w->fds[1]), 0);
	assert_int_equal(w->server->ops->write(w->server, &answer, 1, false), 200);
	while (got < 200) {
		wait_for_either(w);
		got = drain(w, got);
	}
	assert_memory_equal(w->got, w->body, 200);
	assert_true(has_ticket(w));
}

static void tickets_leave_for_who_is_waited_for(void **state)
{
	struct world *w = *state;
	struct pollfd client = { .fd = w->fds[1], .events = POLLIN };

	ask_at_once(w);
	assert_int_equal(w->server->ops->read(w->server, w->got, BODY_BYTES), -EAGAIN);
	assert_int_equal(w->server->wait, WATCH_READ);
	for (int i = 0; i < 10 && !has_ticket(w); i++) {
		assert_int_equal(poll(&client, 1, 30000), 1);
		assert_int_equal(drain(w, 0), 0);
	}
	assert_true(has_ticket(w));
}

static void an_alert_of_ours_arrives(void **state)
{
	struct world *w = *state;
	static const char garbage[] = "\x17\x03\x03\x00\x20 thirty-two bytes of no record...";
	int64_t n;

	shake_hands(w);
	says(w, w->server, w->client, 1000);
	assert_int_equal(write(w->fds[1], garbage, 5 + 32), 5 + 32);
	while ((n = w->server->ops->read(w->server, w->got, 100)) == -EAGAIN)
		;
	assert_int_equal(n, -EPIPE);
	while ((n = w->client->ops->read(w->client, w->got, 100)) == -EAGAIN)
		;
	assert_int_equal(n, -EPIPE);
	if (!tls_sends_in_kernel(w->server))
		assert_string_equal(tls_fault(w->client), "alert_other");
}

/* A peer that asks for new keys: what is under way goes on under the old ones, then the stream ends. */
static void a_peer_asks_for_new_keys(void **state)
{
	struct world *w = *state;

	SSL_clear_options(tls_ssl(w->client), SSL_OP_ENABLE_KTLS); /* it is to keep its own */
	shake_hands(w);
	says(w, w->client, w->server, 1000);
	assert_false(tls_must_close(w->server));
	assert_int_equal(SSL_key_update(tls_ssl(w->client), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
	says(w, w->client, w->server, 1000);
	assert_false(tls_must_close(w->server));
	assert_int_equal(SSL_key_update(tls_ssl(w->client), SSL_KEY_UPDATE_REQUESTED), 1);
	says(w, w->client, w->server, 1000);
	assert_true(tls_must_close(w->server));
	says(w, w->server, w->client, 100000);
	w->server->ops->end(w->server);
	assert_int_equal(next_record(w), 0);
}

/* OpenSSL would answer the first when it sees the second. */
static void a_peer_asks_for_new_keys_twice(void **state)
{
	struct world *w = *state;

	SSL_clear_options(tls_ssl(w->client), SSL_OP_ENABLE_KTLS);
	shake_hands(w);
	if (tls_sends_in_kernel(w->server))
		skip(); /* the answer is out before we know of it */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(SSL_key_update(tls_ssl(w->client), SSL_KEY_UPDATE_REQUESTED), 1);
		says(w, w->client, w->server, 1000);
		assert_true(tls_must_close(w->server));
		says(w, w->server, w->client, 100000);
	}
	w->server->ops->end(w->server);
	assert_int_equal(next_record(w), 0);
}

static void a_worn_key_ends_the_stream(void **state)
{
	struct world *w = *state;
	struct iovec v = { w->body, 100 };

	shake_hands(w);
	if (tls_sends_in_kernel(w->server))
		skip(); /* OpenSSL answers on its own BIO, where we cannot drop it */
	says(w, w->server, w->client, 100);
	assert_false(tls_must_close(w->server));
	tls_of(w->server)->seal.sequence = TLS_SEAL_WARNING;
	assert_int_equal(w->server->ops->write(w->server, &v, 1, false), 100);
	assert_true(tls_must_close(w->server));
	tls_of(w->server)->seal.sequence = TLS_SEAL_RECORDS;
	assert_int_equal(w->server->ops->write(w->server, &v, 1, false), -EPIPE);
	assert_int_equal(w->server->ops->write(w->server, &v, 1, false), -EPIPE);
}

static size_t has_come(struct world *w, size_t at)
{
	int64_t n;

	while ((n = w->client->ops->read(w->client, w->got + at, BODY_BYTES - at)) > 0)
		at += (size_t)n;
	assert_true(n == -EAGAIN || n == 0);
	return at;
}

/* A head waits for its body; not for ever, if none comes. */
static void little_waits_for_more(void **state)
{
	struct world *w = *state;
	struct iovec head = { w->body, 300 }, more = { w->body + 300, 700 },
		     rest = { w->body + 1000, 9000 };
	size_t got = 0;
	int fds[2];

	shake_hands(w);
	assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
	assert_int_equal(w->server->ops->write(w->server, &head, 1, true), 300);
	assert_true(w->server->corked);
	assert_false(w->server->holds);
	assert_int_equal(w->server->ops->send_pipe(w->server, fds[0], 100, false), -EAGAIN);
	assert_true(w->server->corked);
	assert_int_equal(w->server->ops->write(w->server, &more, 1, true), 700);
	assert_int_equal(has_come(w, 0), 0);
	assert_int_equal(w->server->ops->write(w->server, &rest, 1, false), 9000);
	assert_false(w->server->corked);
	while (got < 10000)
		got = has_come(w, got);
	for (int i = 0; i < 2; i++) {
		head.iov_base = w->body + got;
		assert_int_equal(w->server->ops->write(w->server, &head, 1, true), 300);
		if (i == 0)
			assert_int_equal(w->server->ops->flush(w->server), 0);
		else
			w->server->ops->end(w->server);
		while (got < 10300 + 300 * (size_t)i)
			got = has_come(w, got);
	}
	assert_memory_equal(w->got, w->body, 10600);
	assert_int_equal(next_record(w), 0);
	close(fds[0]);
	close(fds[1]);
}

/* Another stream's records are not among ours. */
static void what_waits_is_its_own_stream_s(void **state)
{
	struct world *w = *state, *other;
	struct iovec head = { w->body, 300 };

	assert_int_equal(set_up((void **)&other), 0);
	shake_hands(w);
	shake_hands(other);
	assert_int_equal(w->server->ops->write(w->server, &head, 1, true), 300);
	assert_int_equal(w->server->ops->write(w->server, &head, 0, false), 0);
	assert_int_equal(w->server->ops->send_file(w->server, -1, 0, 100, false), -EIO);
	says(other, other->server, other->client, 50000);
	assert_int_equal(w->server->ops->flush(w->server), 0);
	assert_int_equal(next_record(w), 300);
	assert_int_equal(w->server->ops->write(w->server, &head, 1, true), 300); /* freed with it */
	tear_down((void **)&other);
}

static void a_socket_that_breaks(void **state)
{
	struct world *w = *state;
	struct iovec v = { w->body, 100000 };
	int64_t n = 1;

	shake_hands(w);
	close(w->fds[1]);
	w->fds[1] = -1;
	for (int i = 0; i < 1000 && n > 0; i++)
		n = w->server->ops->write(w->server, &v, 1, false);
	assert_true(n < 0 && n != -EAGAIN);
	w->server->ops->end(w->server);
}

/* --- ends -------------------------------------------------------------------------------------------------- */

static void an_end_is_no_cut(void **state)
{
	struct world *w = *state;
	struct iovec v = { w->body, 10 };

	shake_hands(w);
	assert_int_equal(w->server->ops->write(w->server, &v, 1, false), 10);
	w->server->ops->end(w->server);
	assert_int_equal(next_record(w), 10);
	assert_int_equal(w->client->ops->read(w->client, w->got, 10), 0);
}

static void a_cut_is_no_end(void **state)
{
	struct world *w = *state;
	int64_t n;

	shake_hands(w);
	w->server->ops->free(w->server);
	w->server = NULL;
	close(w->fds[0]);
	w->fds[0] = -1;
	do
		n = w->client->ops->read(w->client, w->got, 10);
	while (n == -EAGAIN);
	assert_int_equal(n, -EPIPE);
	assert_int_equal(w->client->ops->read(w->client, w->got, 10), -EPIPE);
}

/* --- handshakes that fail -------------------------------------------------------------------------------------- */

static const char *refusal(struct world *w, struct io *whose)
{
	for (int i = 0; i < 100000; i++) {
		int client = tls_handshake(w->client), server = tls_handshake(w->server);

		if ((whose == w->client ? client : server) == -EPROTO)
			return tls_fault(whose);
	}
	return "none";
}

static void an_old_version(void **state)
{
	struct world *w = *state;

	SSL_set_min_proto_version(tls_ssl(w->client), TLS1_1_VERSION);
	SSL_set_max_proto_version(tls_ssl(w->client), TLS1_1_VERSION);
	SSL_set_security_level(tls_ssl(w->client), 0);
	SSL_set_cipher_list(tls_ssl(w->client), "ALL:@SECLEVEL=0");
	assert_string_equal(refusal(w, w->server), "version");
}

static void no_common_suite(void **state)
{
	struct world *w = *state;

	SSL_set_max_proto_version(tls_ssl(w->client), TLS1_2_VERSION);
	assert_int_equal(SSL_set_cipher_list(tls_ssl(w->client), "ECDHE-ECDSA-AES128-SHA256"), 1);
	assert_string_equal(refusal(w, w->server), "no_shared_cipher");
}

static void a_certificate_of_nobody(void **state)
{
	struct world *w = *state;

	SSL_set_verify(tls_ssl(w->client), SSL_VERIFY_PEER, NULL);
	assert_string_equal(refusal(w, w->client), "unknown_ca");
}

static void the_other_side_says_why(void **state)
{
	struct world *w = *state;

	SSL_set_verify(tls_ssl(w->client), SSL_VERIFY_PEER, NULL);
	SSL_set_max_proto_version(tls_ssl(w->client), TLS1_2_VERSION);
	assert_string_equal(refusal(w, w->server), "alert_unknown_ca");
}

static void not_tls_at_all(void **state)
{
	struct world *w = *state;
	int r;

	assert_int_equal(write(w->fds[1], "GET / HTTP/1.1\r\n\r\n", 18), 18);
	do
		r = tls_handshake(w->server);
	while (r == -EAGAIN);
	assert_int_equal(r, -EPROTO);
	assert_string_equal(tls_fault(w->server), "not_tls");
}

static void gone_before_it_began(void **state)
{
	struct world *w = *state;
	int r;

	close(w->fds[1]);
	w->fds[1] = -1;
	do
		r = tls_handshake(w->server);
	while (r == -EAGAIN);
	assert_int_equal(r, -EPROTO);
	assert_string_equal(tls_fault(w->server), "closed");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(memory_passes),
		TEST(memory_passes_a_narrow_socket),
		TEST(a_file_passes),
		TEST(a_file_passes_a_narrow_socket),
		TEST(a_pipe_passes),
		TEST(records_are_small_at_first),
		TEST(what_is_short_is_one_record),
		TEST(what_lies_in_memory_is_told),
		cmocka_unit_test(every_suite),
		TEST(records_that_the_client_limits),
		TEST(limited_records_pass_a_narrow_socket),
		TEST(tickets_come_between),
		TEST(tickets_leave_with_the_answer),
		TEST(tickets_leave_for_who_is_waited_for),
		TEST(an_alert_of_ours_arrives),
		TEST(a_peer_asks_for_new_keys),
		TEST(a_peer_asks_for_new_keys_twice),
		TEST(a_worn_key_ends_the_stream),
		TEST(little_waits_for_more),
		TEST(what_waits_is_its_own_stream_s),
		TEST(a_socket_that_breaks),
		TEST(an_end_is_no_cut),
		TEST(a_cut_is_no_end),
		TEST(an_old_version),
		TEST(no_common_suite),
		TEST(a_certificate_of_nobody),
		TEST(the_other_side_says_why),
		TEST(not_tls_at_all),
		TEST(gone_before_it_began),
	};

	(void)tls_probe();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
