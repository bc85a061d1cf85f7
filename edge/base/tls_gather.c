/*
 * From records to the socket: they gather in the process's one buffer, and leave by one call. Between calls of a stream's
 * functions the buffer is empty: what the socket didn't take is copied to memory of the stream's own, and so is what is
 * so little that it waits for what was promised to follow, as a socket would keep it: then nobody waits for the socket, and
 * the next records join it.
 *
 * OpenSSL's way to it is a BIO that passes for a socket of a kernel which does TLS. Before the first record under the final
 * keys OpenSSL offers it the key to send with, and once that is taken hands over what it has to say (tickets, alerts) in
 * the clear, having set the record's type. We seal those, and payload goes past OpenSSL (tls_stream.c, tls_seal.c).
 * The key to receive with is declined. If none was offered (the client wants shorter records, OpenSSL was built without
 * kTLS), what comes is sealed already.
 */
#include <errno.h>
#include <openssl/bio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "edge/base/loop.h"
#include "edge/base/tls_parts.h"

/* What <openssl/bio.h> has in a comment only. */
enum { SET_KEYS = 72, SET_RECORD_TYPE = 74, CLEAR_RECORD_TYPE = 75 };

/* A batch, and our alerts to a peer that provokes them and reads none. */
enum { HELD_MAX = 2 * TLS_GATHER_BYTES };

static struct {
	size_t n;
	unsigned char records[TLS_GATHER_BYTES];
} gathered;

unsigned char *tls_gather_room(size_t n)
{
	return n <= sizeof(gathered.records) - gathered.n ? gathered.records + gathered.n : NULL;
}

void tls_gather_add(size_t n)
{
	CHECK(n <= sizeof(gathered.records) - gathered.n);
	gathered.n += n;
}

bool tls_gather_any(void)
{
	return gathered.n > 0;
}

void tls_gather_drop(void)
{
	gathered.n = 0;
}

/* --- our BIO ------------------------------------------------------------------------------------ */

/* A record of this type, or bytes of records that OpenSSL has sealed. Negative: it can't be sealed. */
static int place(struct tls *t, const char *p, size_t n, unsigned char *to)
{
	uint8_t type = t->record_type != 0 ? t->record_type : SSL3_RT_APPLICATION_DATA;

	if (!tls_seal_ready(&t->seal)) {
		memcpy(to, p, n);
		return 0;
	}
	memcpy(to + tls_seal_front(&t->seal), p, n);
	t->record_type = 0;
	return tls_seal_record(&t->seal, type, to, n);
}

/* OpenSSL's answer to a peer that asked for new keys (it comes when the peer asks again): our key stays, so it isn't said. */
static bool is_new_key(const struct tls *t)
{
	return tls_seal_ready(&t->seal) && t->io.closing && t->record_type == SSL3_RT_HANDSHAKE;
}

static int bio_write(BIO *bio, const char *p, size_t n, size_t *out_n)
{
	struct tls *t = BIO_get_data(bio);
	bool ready = tls_seal_ready(&t->seal);
	size_t all = ready ? tls_seal_bytes(&t->seal, n) : n;
	unsigned char *to = tls_gather_room(all);

	BIO_clear_retry_flags(bio);
	if (is_new_key(t)) {
		t->record_type = 0;
		*out_n = n;
		return 1;
	}
	if (ready && n > TLS_RECORD_BYTES)
		return 0; /* no record is so long */
	if (to == NULL) {
		BIO_set_retry_write(bio);
		return 0;
	}
	if (place(t, p, n, to) != 0)
		return 0;
	tls_gather_add(all);
	*out_n = n;
	return 1;
}

static int bio_read(BIO *bio, char *p, size_t n, size_t *out_n)
{
	struct tls *t = BIO_get_data(bio);
	ssize_t got;

	BIO_clear_retry_flags(bio);
	if (t->drained) {
		BIO_set_retry_read(bio);
		return 0;
	}
	got = recv(t->io.fd, p, n, MSG_DONTWAIT);
	t->drained = got > 0 && (size_t)got < n;
	if (got > 0) {
		*out_n = (size_t)got;
		return 1;
	}
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	t->at_end = got == 0;
	return 0;
}

static long bio_control(BIO *bio, int command, long number, void *p)
{
	struct tls *t = BIO_get_data(bio);

	switch (command) {
	case BIO_CTRL_EOF:
		return t->at_end;
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_GET_KTLS_SEND:
		return tls_seal_ready(&t->seal);
	case SET_KEYS: /* number: to send with; for one key only */
		return number != 0 && !tls_seal_ready(&t->seal) && tls_seal_init(&t->seal, p);
	case SET_RECORD_TYPE:
		t->record_type = (uint8_t)number;
		return 0;
	case CLEAR_RECORD_TYPE:
		t->record_type = 0;
		return 0;
	default:
		return 0;
	}
}

static BIO_METHOD *make_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "brim");

	if (m != NULL) {
		BIO_meth_set_write_ex(m, bio_write);
		BIO_meth_set_read_ex(m, bio_read);
		BIO_meth_set_ctrl(m, bio_control);
	}
	return m;
}

BIO *tls_bio_new(struct tls *t)
{
	static BIO_METHOD *method; /* made once, never changed */
	BIO *bio;

	if (method == NULL)
		method = make_method();
	bio = method != NULL ? BIO_new(method) : NULL;
	if (bio == NULL)
		return NULL;
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	return bio;
}

/* --- records on their way to the socket ----------------------------------------------------------- */

/* Bytes sent; what the socket doesn't take is no error. */
static int64_t send_some(struct tls *t, const char *p, size_t n, bool more)
{
	ssize_t sent = send(t->io.fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));

	if (sent >= 0)
		return sent;
	return errno == EAGAIN || errno == EINTR ? 0 : tls_broken(t, -errno);
}

static int wait_for_room(struct tls *t)
{
	t->io.holds = true;
	t->io.wait = WATCH_WRITE;
	t->batch_bytes = TLS_RECORD_BYTES;
	return -EAGAIN;
}

/* A copy behind what is held already. */
static int hold(struct tls *t, const char *p, size_t n)
{
	size_t before = t->held_until - t->held_from;
	char *held = before + n <= HELD_MAX ? malloc(before + n) : NULL;

	if (held == NULL)
		return tls_broken(t, -ENOBUFS);
	if (before > 0)
		memcpy(held, t->held + t->held_from, before);
	memcpy(held + before, p, n);
	free(t->held);
	t->held = held;
	t->held_from = 0;
	t->held_until = before + n;
	return 0;
}

static void release_held(struct tls *t)
{
	free(t->held);
	t->held = NULL;
	t->held_from = t->held_until = 0;
}

int tls_push_held(struct tls *t)
{
	int64_t sent;

	if (t->held == NULL)
		return 0;
	sent = send_some(t, t->held + t->held_from, t->held_until - t->held_from, false);
	if (sent < 0)
		return (int)sent;
	t->held_from += (size_t)sent;
	if (t->held_from < t->held_until)
		return wait_for_room(t);
	release_held(t);
	t->io.holds = t->io.corked = false;
	return 0;
}

/* (What was gathered since is OpenSSL's, and comes behind.) */
int tls_gather_begin(struct tls *t)
{
	size_t n = t->held_until - t->held_from;

	if (t->held == NULL || t->io.holds || gathered.n > 0)
		return tls_push_held(t);
	memcpy(gathered.records, t->held + t->held_from, n);
	gathered.n = n;
	release_held(t);
	return 0;
}

/* Little that is to be followed by more, as a head by its body: they leave together. */
static int keep(struct tls *t, size_t n)
{
	t->io.corked = true;
	return hold(t, (char *)gathered.records, n);
}

int tls_push(struct tls *t, bool more)
{
	size_t n = gathered.n;
	int64_t sent;
	int r = tls_push_held(t);

	gathered.n = 0;
	if (r != 0 && r != -EAGAIN)
		return r;
	if (n == 0)
		return r;
	if (more && r == 0 && n <= TLS_KEEP_BYTES)
		return keep(t, n);
	sent = r == 0 ? send_some(t, (char *)gathered.records, n, more) : 0;
	if (sent < 0)
		return (int)sent;
	t->io.corked = more;
	if ((size_t)sent == n)
		return 0;
	r = hold(t, (char *)gathered.records + sent, n - (size_t)sent);
	return r != 0 ? r : wait_for_room(t);
}
