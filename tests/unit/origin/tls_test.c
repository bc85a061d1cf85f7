/*
 * Fetches over TLS against scripted origins: what may come on an idle connection, and how records become pieces of a
 * body. (Who is believed, and sessions over connections: tests/e2e/test_origin_tls.py.)
 */
#include "tests/unit/origin/testing.h"

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "origin/parts.h"

static struct script origin;
static struct world world;
static struct owner owner;
static SSL_CTX *context; /* the origin's */
static sem_t said;	 /* it has said what the test waits for */

static SSL_CTX *context_with_certificate(void)
{
	SSL_CTX *c = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();

	assert_true(c != NULL && key != NULL && x != NULL);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), -3600);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_set_pubkey(x, key);
	assert_true(X509_sign(x, key, EVP_sha256()) > 0);
	assert_int_equal(SSL_CTX_use_certificate(c, x), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(c, key), 1);
	SSL_CTX_set_num_tickets(c, 0); /* a script sends them when it likes */
	X509_free(x);
	EVP_PKEY_free(key);
	return c;
}

static void begin(void (*run)(struct script *s))
{
	char members[256];

	owner = (struct owner){ 0 };
	signal(SIGPIPE, SIG_IGN); /* OpenSSL's socket BIO knows no MSG_NOSIGNAL */
	context = context_with_certificate();
	sem_init(&said, 0, 0);
	script_listen(&origin);
	script_start(&origin, run);
	(void)snprintf(members, sizeof(members),
		       "'servers': [{'url': 'https://127.0.0.1:%u'}], 'tls': {'verify': false}",
		       origin.port);
	world_begin(&world, members);
}

static void end(void)
{
	owner_end(&owner);
	world_end(&world);
	script_join(&origin);
	SSL_CTX_free(context);
	sem_destroy(&said);
}

static struct pool_server *the_server(void)
{
	return pool_server(world.pool, &world.conf->origins[0].servers[0]);
}

/* --- the origin's side ------------------------------------------------------------------------------ */

static SSL *hears_tls_client(struct script *s)
{
	SSL *ssl = SSL_new(context);

	assert_non_null(ssl);
	assert_int_equal(SSL_set_fd(ssl, hears_client(s)), 1);
	assert_int_equal(SSL_accept(ssl), 1);
	return ssl;
}

static void hears_request(struct script *s, SSL *ssl)
{
	size_t heard = 0;

	do {
		int n = SSL_read(ssl, s->heard + heard, (int)(sizeof(s->heard) - 1 - heard));
		if (n <= 0)
			return;
		heard += (size_t)n;
		s->heard[heard] = '\0';
	} while (strstr(s->heard, "\r\n\r\n") == NULL);
}

static void says_record(SSL *ssl, const char *text)
{
	assert_int_equal(SSL_write(ssl, text, (int)strlen(text)), (int)strlen(text));
}

static void hangs_up(SSL *ssl)
{
	close(SSL_get_fd(ssl));
	SSL_free(ssl);
}

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

static void answers(struct script *s, SSL *ssl)
{
	hears_request(s, ssl);
	says_record(ssl, ok);
}

/* --- on an idle connection ---------------------------------------------------------------------------- */

static void sends_a_ticket_late(struct script *s)
{
	SSL *ssl = hears_tls_client(s);

	answers(s, ssl);
	sem_wait(&s->gate);
	assert_int_equal(SSL_new_session_ticket(ssl), 1);
	assert_int_equal(SSL_do_handshake(ssl), 1);
	answers(s, ssl);
	hears_end(SSL_get_fd(ssl));
	hangs_up(ssl);
}

static void a_late_ticket_is_kept_and_disturbs_nobody(void **state)
{
	(void)state;
	begin(sends_a_ticket_late);
	owner_get(&owner, &world);
	assert_body(&owner, "ok");
	owner_end(&owner);
	assert_null(the_server()->session);
	sem_post(&origin.gate);
	while (the_server()->session == NULL)
		run_for_ms(&world, 1);
	run_until_idle(&world, 1);
	owner_get(&owner, &world);
	assert_body(&owner, "ok");
	end();
}

static void asks_for_new_keys(struct script *s)
{
	SSL *ssl = hears_tls_client(s);

	answers(s, ssl);
	assert_int_equal(SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED), 1);
	assert_int_equal(SSL_do_handshake(ssl), 1);
	sem_post(&said);
	hears_end(SSL_get_fd(ssl));
	hangs_up(ssl);
	ssl = hears_tls_client(s);
	answers(s, ssl);
	hears_end(SSL_get_fd(ssl));
	hangs_up(ssl);
}

/* We have none to give: what we send with is the kernel's, or sealed past OpenSSL. */
static void who_asks_for_new_keys_gets_a_new_connection(void **state)
{
	(void)state;
	begin(asks_for_new_keys);
	owner_get(&owner, &world);
	owner_end(&owner);
	sem_wait(&said);
	owner_get(&owner, &world);
	assert_body(&owner, "ok");
	run_until_idle(&world, 1);
	end();
}

static void says_goodbye(struct script *s)
{
	SSL *ssl = hears_tls_client(s);

	answers(s, ssl);
	sem_wait(&s->gate);
	SSL_shutdown(ssl); /* close_notify; the socket stays open */
	hears_end(SSL_get_fd(ssl));
	hangs_up(ssl);
}

static void says_what_nobody_asked(struct script *s)
{
	SSL *ssl = hears_tls_client(s);

	answers(s, ssl);
	sem_wait(&s->gate);
	says_record(ssl, ok);
	hears_end(SSL_get_fd(ssl));
	hangs_up(ssl);
}

static void the_connection_is_closed_after(void (*script)(struct script *s))
{
	begin(script);
	owner_get(&owner, &world);
	assert_body(&owner, "ok");
	run_until_idle(&world, 1);
	sem_post(&origin.gate);
	run_until_idle(&world, 0);
	end();
}

static void close_notify_ends_an_idle_connection(void **state)
{
	(void)state;
	the_connection_is_closed_after(says_goodbye);
}

static void bytes_end_an_idle_connection(void **state)
{
	(void)state;
	the_connection_is_closed_after(says_what_nobody_asked);
}

/* --- bodies --------------------------------------------------------------------------------------------- */

enum { RECORDS = 30, RECORD = 1000 };

static void says_many_small_records(struct script *s)
{
	SSL *ssl = hears_tls_client(s);
	char record[RECORD];

	hears_request(s, ssl);
	says_record(ssl, "HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n");
	sem_wait(&s->gate);
	for (int i = 0; i < RECORDS; i++) {
		memset(record, 'a' + i % 26, sizeof(record));
		assert_int_equal(SSL_write(ssl, record, sizeof(record)), sizeof(record));
	}
	hears_end(SSL_get_fd(ssl));
	hangs_up(ssl);
}

static int bytes_in(int fd)
{
	int n = 0;

	assert_int_equal(ioctl(fd, FIONREAD, &n), 0);
	return n;
}

static void records_that_are_there_make_one_piece(void **state)
{
	struct view v;

	(void)state;
	begin(says_many_small_records);
	owner.head_only = true;
	owner_get(&owner, &world);
	sem_post(&origin.gate);
	while (bytes_in(owner.fetch->connection->fd) < RECORDS * RECORD)
		run_for_ms(&world, 1);
	while (fetch_body_next(owner.fetch, &v) == FETCH_BODY_AGAIN)
		run_for_ms(&world, 1);
	assert_int_equal(v.n, RECORDS * RECORD);
	fetch_body_took(owner.fetch, v.n);
	assert_int_equal(fetch_body_next(owner.fetch, &v), FETCH_BODY_END);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_late_ticket_is_kept_and_disturbs_nobody),
		cmocka_unit_test(who_asks_for_new_keys_gets_a_new_connection),
		cmocka_unit_test(close_notify_ends_an_idle_connection),
		cmocka_unit_test(bytes_end_an_idle_connection),
		cmocka_unit_test(records_that_are_there_make_one_piece),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
