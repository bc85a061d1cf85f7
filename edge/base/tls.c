/*
 * Contexts and handshakes. (Payload: tls_stream.c.)
 *
 * A stream begins on one of two BIOs. Where the kernel can do TLS it is OpenSSL's own socket BIO, since only that one
 * hands keys to the kernel; if it then didn't (a suite that the kernel lacks), ours takes its place for writing.
 * Elsewhere it is ours from the start: a whole flight leaves in one system call, and keys are handed to us (tls_gather.c).
 */
#include "edge/base/tls.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edge/base/loop.h"
#include "edge/base/sock.h"
#include "edge/base/tls_parts.h"

/* --- what this machine can do -------------------------------------------------------------------- */

static bool kernel_has_tls; /* a fact about the machine: found once, then the same for every context */

bool tls_probe(void)
{
	char name[16] = "";
	socklen_t len = sizeof(name);
	int fds[2];

	if (kernel_has_tls || sock_pair(fds) != 0)
		return kernel_has_tls;
	kernel_has_tls = setsockopt(fds[0], IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) == 0 &&
			 getsockopt(fds[0], IPPROTO_TCP, TCP_ULP, name, &len) == 0 &&
			 strncmp(name, "tls", 3) == 0;
	close(fds[0]);
	close(fds[1]);
	return kernel_has_tls;
}

#if defined(__x86_64__)
static bool cpu_has_aes(void)
{
	return __builtin_cpu_supports("aes");
}
#elif defined(__aarch64__)
static bool cpu_has_aes(void)
{
	return (getauxval(AT_HWCAP) & HWCAP_AES) != 0;
}
#else
static bool cpu_has_aes(void)
{
	return false;
}
#endif

/* --- contexts --------------------------------------------------------------------------------- */

/* Forward secrecy and AEAD alone. What is first is chosen, but for clients that put ChaCha first: they lack AES. */
static const char *const suites_aes =
	"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
static const char *const suites_chacha =
	"TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";
static const char *const ciphers_aes =
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
	"ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
static const char *const ciphers_chacha =
	"ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256:"
	"ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384";

static bool choose_suites(SSL_CTX *c)
{
	bool aes = cpu_has_aes();

	return SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) == 1 &&
	       SSL_CTX_set_ciphersuites(c, aes ? suites_aes : suites_chacha) == 1 &&
	       SSL_CTX_set_cipher_list(c, aes ? ciphers_aes : ciphers_chacha) == 1 &&
	       SSL_CTX_set1_groups_list(c, "X25519:P-256:P-384") == 1;
}

struct ssl_ctx_st *tls_context(bool server)
{
	SSL_CTX *c = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
	uint64_t options = SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_ENABLE_KTLS;

	if (c == NULL)
		return NULL;
	if (server)
		options |= SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA;
	SSL_CTX_set_options(c, options);
	SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				    SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(c, 1);
	SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	if (!choose_suites(c)) {
		SSL_CTX_free(c);
		return NULL;
	}
	return c;
}

/* --- streams ---------------------------------------------------------------------------------- */

struct tls *tls_of(const struct io *io)
{
	struct tls *t = CONTAINER_OF((struct io *)io, struct tls, io);

	CHECK_MAGIC(t, TLS_MAGIC);
	return t;
}

static int attach(struct tls *t)
{
	BIO *bio = kernel_has_tls ? BIO_new_socket(t->io.fd, BIO_NOCLOSE) : tls_bio_new(t);

	if (bio == NULL)
		return -ENOMEM;
	SSL_set_bio(t->ssl, bio, bio);
	if (SSL_is_server(t->ssl))
		SSL_set_accept_state(t->ssl);
	else
		SSL_set_connect_state(t->ssl);
	return 0;
}

int tls_new(struct ssl_ctx_st *context, int fd, struct io **out)
{
	struct tls *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return -ENOMEM;
	t->magic = TLS_MAGIC;
	t->io = (struct io){ .ops = &tls_user_ops, .fd = fd };
	t->ssl = SSL_new(context);
	if (t->ssl == NULL || attach(t) != 0) {
		t->io.ops->free(&t->io);
		return -ENOMEM;
	}
	*out = &t->io;
	return 0;
}

struct ssl_st *tls_ssl(struct io *io)
{
	return tls_of(io)->ssl;
}

/* --- the handshake --------------------------------------------------------------------------------- */

/* A peer that asks for new keys gets records that it can't read from the next SSL_write: the kernel, or our own sealing, goes
 * on with the old ones. So there is none from here on: what is being sent leaves past OpenSSL, then the stream ends. */
static void on_message(int sent, int version, int type, const void *p, size_t n, SSL *ssl, void *arg)
{
	const unsigned char *message = p;
	struct tls *t = arg;

	(void)version;
	(void)ssl;
	if (!sent && type == SSL3_RT_HANDSHAKE && n == SSL3_HM_HEADER_LENGTH + 1 &&
	    message[0] == SSL3_MT_KEY_UPDATE &&
	    message[SSL3_HM_HEADER_LENGTH] == SSL_KEY_UPDATE_REQUESTED)
		t->io.closing = true;
}

static void watch_keys(struct tls *t)
{
	SSL_set_msg_callback(t->ssl, on_message);
	SSL_set_msg_callback_arg(t->ssl, t);
}

static int use_kernel(struct tls *t)
{
	BIO *ours;

	t->kernel_sends = BIO_get_ktls_send(SSL_get_wbio(t->ssl)) != 0;
	t->kernel_receives = BIO_get_ktls_recv(SSL_get_rbio(t->ssl)) != 0;
	t->io.splices_in = t->kernel_receives;
	if (t->kernel_sends) {
		t->io.splices_out = true;
		t->io.ops = &tls_kernel_ops;
		watch_keys(t);
		return 0;
	}
	ours = tls_bio_new(t);
	if (ours == NULL)
		return -ENOMEM;
	SSL_set0_wbio(t->ssl, ours);
	return 0;
}

static int use_keys(struct tls *t)
{
	t->shaken = true;
	t->io.early = t->early != NULL;
	if (kernel_has_tls)
		return use_kernel(t);
	if (tls_seal_ready(&t->seal))
		watch_keys(t);
	return 0;
}

static int handshake_failed(struct tls *t)
{
	t->broken = true;
	t->fault = tls_fault_name(t->ssl);
	return -EPROTO;
}

void tls_expect_early_data(struct io *io)
{
	struct tls *t = tls_of(io);

	t->reads_early = true;
	/* Repetitions are told from each other by nobody: tickets are not remembered. They are harmless (safe methods). */
	SSL_set_options(t->ssl, SSL_OP_NO_ANTI_REPLAY);
}

/* As SSL_do_handshake, but also done when there is early data: then our answers may leave. */
static int step_early(struct tls *t)
{
	size_t n = 0;

	if (t->early == NULL)
		t->early = malloc(TLS_EARLY_BYTES);
	if (t->early == NULL)
		return -1;
	switch (SSL_read_early_data(t->ssl, t->early, TLS_EARLY_BYTES, &n)) {
	case SSL_READ_EARLY_DATA_SUCCESS:
		t->early_until = n;
		return 1;
	case SSL_READ_EARLY_DATA_FINISH:
		free(t->early);
		t->early = NULL;
		t->reads_early = false;
		return SSL_do_handshake(t->ssl);
	default:
		return -1;
	}
}

/* Tickets, and the client's request is here: they leave with its answer, or when the client is waited for. */
static bool may_wait(const struct tls *t)
{
	return SSL_is_init_finished(t->ssl) && SSL_is_server(t->ssl) &&
	       SSL_version(t->ssl) == TLS1_3_VERSION && SSL_has_pending(t->ssl) == 1;
}

int tls_handshake(struct io *io)
{
	struct tls *t = tls_of(io);
	int r = tls_push(t, false), done, why;

	if (r != 0)
		return r;
	t->drained = false;
	do {
		ERR_clear_error();
		done = t->reads_early ? step_early(t) : SSL_do_handshake(t->ssl);
		why = SSL_get_error(t->ssl, done);
		if (why == SSL_ERROR_SSL || why == SSL_ERROR_SYSCALL)
			handshake_failed(t); /* asked before another call clears the errors */
		r = tls_push(t, done == 1 && may_wait(t));
		/* Our BIO asks for another call when the buffer was full; it has been emptied. */
	} while (why == SSL_ERROR_WANT_WRITE && r == 0 && !kernel_has_tls);
	if (t->broken)
		return -EPROTO;
	if (done == 1 && (r == 0 || r == -EAGAIN))
		return use_keys(t);
	if (r != 0)
		return r;
	if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
		return handshake_failed(t);
	io->wait = why == SSL_ERROR_WANT_READ ? WATCH_READ : WATCH_WRITE;
	return -EAGAIN;
}

const char *tls_fault(const struct io *io)
{
	const struct tls *t = tls_of(io);

	return t->fault != NULL ? t->fault : "closed";
}

bool tls_sends_in_kernel(const struct io *io)
{
	return tls_of(io)->kernel_sends;
}

bool tls_receives_in_kernel(const struct io *io)
{
	return tls_of(io)->kernel_receives;
}

bool tls_must_close(const struct io *io)
{
	return io->closing;
}
