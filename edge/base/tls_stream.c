/*
 * Payload over TLS, once the handshake is done.
 *
 * By the kernel: sends go to the socket itself, since its keys are there; the alert that ends the stream is a record of
 * another type, told by a control message. OpenSSL is asked to read only (a TLS 1.3 peer's tickets and key updates).
 *
 * In user space: payload is read to where it will lie in records, in the process's buffer, sealed there, and leaves for the
 * socket by one call for up to TLS_BATCH_BYTES of it (tls_gather.c). What the socket didn't take is held in memory, and until that
 * is sent nothing more is sealed, so a slow reader costs one batch, and that of a single record once it has been slow.
 * Where OpenSSL kept the keys for itself its SSL_write does the sealing, a record at a time.
 * After a pause records are small for a while: one of 16 KiB can only be read when its last segment is there, and at
 * first the network takes ten segments per round trip.
 */
#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edge/base/clock.h"
#include "edge/base/loop.h"
#include "edge/base/tls_parts.h"

enum {
	CALL_BYTES = 256 << 10,	      /* of payload, in one call of ours */
	FIRST_BATCH_BYTES = 64 << 10, /* a socket takes as much at once; more when it has done so */
	SMALL_RECORD_BYTES = 1300,    /* fits into a segment */
	SMALL_BYTES = 16 << 10,	      /* so much leaves in small records after a pause */
	WHOLE_BYTES = 4096,	      /* what is no longer than this needs no cutting */
	PAUSE_MS = 1000,
	RECORDS_MAX = SMALL_BYTES / SMALL_RECORD_BYTES + TLS_BATCH_BYTES / TLS_RECORD_BYTES + 2, /* in a batch */
};
_Static_assert(TLS_KEEP_BYTES + TLS_BATCH_BYTES + RECORDS_MAX * TLS_RECORD_EXTRA <= TLS_GATHER_BYTES,
	       "a batch has room");

/* --- reading --------------------------------------------------------------------------------------- */

static int64_t read_failed(struct tls *t, int r)
{
	switch (SSL_get_error(t->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		t->starved = true;
		t->io.wait = WATCH_READ;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		t->io.wait = WATCH_WRITE;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		t->fault = tls_fault_name(t->ssl);
		t->deaf = true;
		return tls_broken(t, -EPIPE);
	}
}

/* What the handshake came upon, then what follows until the client says that it is all. 1, or as SSL_read_ex. */
static int read_early(struct tls *t, void *p, size_t n, size_t *out_n)
{
	if (t->early_from < t->early_until) {
		size_t left = t->early_until - t->early_from;

		*out_n = n < left ? n : left;
		memcpy(p, t->early + t->early_from, *out_n);
		t->early_from += *out_n;
		return 1;
	}
	switch (SSL_read_early_data(t->ssl, p, n, out_n)) {
	case SSL_READ_EARLY_DATA_SUCCESS:
		return 1;
	case SSL_READ_EARLY_DATA_FINISH:
		t->reads_early = false;
		free(t->early);
		t->early = NULL;
		return SSL_read_ex(t->ssl, p, n, out_n);
	default:
		return 0;
	}
}

/* Where sending has failed, what the peer said before may still be there. */
static int64_t tls_read(struct io *io, void *p, size_t n)
{
	struct tls *t = tls_of(io);
	size_t got = 0;
	int64_t r;

	if (t->deaf)
		return -EPIPE;
	tls_forget_errors();
	t->drained = false;
	r = t->reads_early ? read_early(t, p, n, &got) : SSL_read_ex(t->ssl, p, n, &got);
	t->starved = false;
	r = r == 1 ? (int64_t)got : read_failed(t, (int)r);
	if (io->early)
		io->early = !SSL_is_init_finished(t->ssl);
	if (t->at_end && t->deaf)
		tls_gather_drop(); /* who has gone without a word needs no alert */
	/* An alert of ours, or the tickets at the end of the handshake; and what was kept doesn't wait for a peer that does. */
	if (tls_gather_any() || (r == -EAGAIN && t->held != NULL && !io->holds)) {
		int e = tls_push(t, false);

		if (e != 0 && e != -EAGAIN)
			return e;
	}
	return r;
}

static bool tls_buffered(const struct io *io)
{
	const struct tls *t = tls_of(io);

	return t->early_from < t->early_until || (!t->starved && SSL_has_pending(t->ssl) == 1);
}

/* --- where payload comes from --------------------------------------------------------------------------- */

struct source {
	const struct iovec *v; /* NULL: a file or a pipe */
	int left;	       /* pieces of v */
	size_t offset;	       /* in the first piece; in the file */
	int fd;
	bool pipe;
};

/* Up to n bytes of the pieces. */
static size_t copy_pieces(struct source *s, char *to, size_t n)
{
	size_t copied = 0;

	while (s->left > 0 && copied < n) {
		size_t rest = s->v->iov_len - s->offset, take = rest < n - copied ? rest : n - copied;

		if (take > 0)
			memcpy(to + copied, (const char *)s->v->iov_base + s->offset, take);
		copied += take;
		s->offset += take;
		if (s->offset < s->v->iov_len)
			break;
		s->v++;
		s->left--;
		s->offset = 0;
	}
	return copied;
}

/* Payload to these places, in their order. Bytes; 0: there are none in memory; negative: none now, or broken. */
static int64_t fill(struct tls *t, struct source *s, const struct iovec *to, int count)
{
	int64_t got = 0;

	for (int i = 0; s->v != NULL && i < count; i++)
		got += (int64_t)copy_pieces(s, to[i].iov_base, to[i].iov_len);
	if (s->v != NULL)
		return got;
	got = s->pipe ? readv(s->fd, to, count) : preadv(s->fd, to, count, (off_t)s->offset);
	if (got > 0) {
		s->offset += (size_t)got;
		return got;
	}
	if (got == 0 || (errno != EAGAIN && errno != EINTR))
		return -EIO; /* a file that ends early, too */
	t->io.wait = WATCH_WRITE;
	return -EAGAIN;
}

/* --- writing in user space --------------------------------------------------------------------------- */

static void note_pause(struct tls *t)
{
	int64_t now = clock_mono().ms;

	if (t->batch_bytes == 0)
		t->batch_bytes = FIRST_BATCH_BYTES;
	if (t->sent_ms == 0 || now - t->sent_ms > PAUSE_MS)
		t->small_left = SMALL_BYTES;
	t->sent_ms = now;
}

/* How much of n bytes goes into the next record. */
static size_t next_cut(struct tls *t, size_t n, bool whole)
{
	size_t cut = n < TLS_RECORD_BYTES ? n : TLS_RECORD_BYTES;

	if (t->small_left > 0 && !whole && cut > SMALL_RECORD_BYTES)
		cut = SMALL_RECORD_BYTES;
	t->small_left -= cut < t->small_left ? cut : t->small_left;
	return cut;
}

/* Places for n bytes of payload, so that the sealed records will lie side by side. Their count. */
static int lay_out(struct tls *t, size_t n, struct iovec out[RECORDS_MAX])
{
	unsigned char *record = tls_gather_room(n + RECORDS_MAX * TLS_RECORD_EXTRA);
	bool whole = n <= WHOLE_BYTES;
	int count = 0;

	CHECK(record != NULL);
	while (n > 0 && count < RECORDS_MAX) {
		size_t cut = next_cut(t, n, whole);

		out[count++] = (struct iovec){ record + tls_seal_front(&t->seal), cut };
		record += tls_seal_bytes(&t->seal, cut);
		n -= cut;
	}
	return count;
}

/* Reads and seals up to n bytes. As fill. */
static int64_t gather(struct tls *t, struct source *s, size_t n)
{
	struct iovec places[RECORDS_MAX];
	int count = lay_out(t, n, places);
	int64_t got = fill(t, s, places, count), left = got;

	for (int i = 0; i < count && left > 0; i++) {
		size_t cut = (size_t)left < places[i].iov_len ? (size_t)left : places[i].iov_len;
		unsigned char *record = (unsigned char *)places[i].iov_base - tls_seal_front(&t->seal);

		if (tls_seal_record(&t->seal, SSL3_RT_APPLICATION_DATA, record, cut) != 0) {
			tls_gather_drop();
			return tls_broken(t, -EPIPE);
		}
		tls_gather_add(tls_seal_bytes(&t->seal, cut));
		left -= (int64_t)cut;
	}
	t->io.closing |= tls_seal_worn(&t->seal);
	return got;
}

/* Before the client has ended its handshake an ordinary write would wait for that. */
static int write_record(struct tls *t, const char *p, size_t n, size_t *out_n)
{
	return t->io.early && !SSL_is_init_finished(t->ssl) ? SSL_write_early_data(t->ssl, p, n, out_n)
							    : SSL_write_ex(t->ssl, p, n, out_n);
}

/* The same where OpenSSL has the keys: its records come to the gathering buffer by our BIO. */
static int64_t gather_sealed(struct tls *t, struct source *s, size_t n)
{
	static char payload[TLS_RECORD_BYTES];
	struct iovec place = { payload, next_cut(t, n, n <= WHOLE_BYTES) };
	int64_t got = fill(t, s, &place, 1);
	size_t written = 0;

	for (int64_t at = 0; at < got; at += (int64_t)written) {
		tls_forget_errors();
		if (write_record(t, payload + at, (size_t)(got - at), &written) != 1) {
			tls_gather_drop();
			t->fault = tls_fault_name(t->ssl);
			return tls_broken(t, -EPIPE);
		}
	}
	return got;
}

/* After a batch that left: 0: the socket took all; -EAGAIN: some is held. */
static int send_gathered(struct tls *t, bool more)
{
	int r = tls_push(t, more);

	if (r == 0 && t->batch_bytes < TLS_BATCH_BYTES)
		t->batch_bytes *= 2;
	return r;
}

static int64_t send_from(struct tls *t, struct source *s, size_t n, bool more)
{
	size_t sent = 0, limit = n < CALL_BYTES ? n : CALL_BYTES;
	int r;

	if (t->broken || n == 0)
		return t->broken ? -EPIPE : 0;
	r = tls_gather_begin(t);
	if (r != 0)
		return r;
	note_pause(t);
	while (sent < limit && r == 0) {
		size_t want = limit - sent < t->batch_bytes ? limit - sent : t->batch_bytes;
		int64_t got = tls_seal_ready(&t->seal) ? gather(t, s, want) : gather_sealed(t, s, want);

		if (got <= 0) {
			r = tls_push(t, true); /* what was kept goes on waiting */
			return sent > 0 ? (int64_t)sent : r != 0 ? r : got;
		}
		r = send_gathered(t, more || sent + (size_t)got < n);
		if (r != 0 && r != -EAGAIN)
			return sent > 0 ? (int64_t)sent : r; /* the next call says so */
		sent += (size_t)got;
	}
	return (int64_t)sent;
}

static int64_t user_write(struct io *io, const struct iovec *v, int count, bool more)
{
	struct source s = { .v = v, .left = count };
	size_t all = 0;

	for (int i = 0; i < count; i++)
		all += v[i].iov_len;
	return send_from(tls_of(io), &s, all, more);
}

static int64_t user_send_file(struct io *io, int fd, uint64_t offset, size_t n, bool more)
{
	struct source s = { .fd = fd, .offset = offset };

	return send_from(tls_of(io), &s, n, more);
}

static int64_t user_send_pipe(struct io *io, int pipe_fd, size_t n, bool more)
{
	struct source s = { .fd = pipe_fd, .pipe = true };

	return send_from(tls_of(io), &s, n, more);
}

static int user_flush(struct io *io)
{
	struct tls *t = tls_of(io);
	int r = t->broken ? -EPIPE : tls_push_held(t);

	return r == 0 ? io_socket_flush(io) : r;
}

static int64_t user_untaken(const struct io *io)
{
	const struct tls *t = tls_of(io);
	int64_t in_socket = io_socket_untaken(io);

	return in_socket < 0 ? in_socket : in_socket + (int64_t)(t->held_until - t->held_from);
}

static void user_end(struct io *io)
{
	struct tls *t = tls_of(io);

	if (t->ended)
		return;
	t->ended = true;
	if (t->shaken && !t->broken && tls_push_held(t) == 0) {
		(void)SSL_shutdown(t->ssl);
		t->broken = tls_push(t, false) != 0;
	}
	tls_forget_errors();
	if (!t->at_end) /* else closing is all that is left to do */
		(void)shutdown(io->fd, SHUT_WR);
}

static void tls_free(struct io *io)
{
	struct tls *t = tls_of(io);

	/* Else OpenSSL holds a session for bad whose stream was not ended with all ceremony, and never resumes it. */
	if (t->shaken)
		SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(t->ssl);
	tls_seal_fini(&t->seal);
	free(t->held);
	free(t->early);
	t->magic = 0;
	free(t);
}

const struct io_ops tls_user_ops = {
	.read = tls_read,
	.write = user_write,
	.send_file = user_send_file,
	.send_pipe = user_send_pipe,
	.buffered = tls_buffered,
	.flush = user_flush,
	.untaken = user_untaken,
	.end = user_end,
	.free = tls_free,
};

/* --- by the kernel -------------------------------------------------------------------------------- */

/* A record of this type, past the payload; of none at all it is enough to close the record that is being filled. */
static int send_typed(struct io *io, unsigned char type, void *p, size_t n)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(1)];
	} control = { 0 };
	struct iovec v = { p, n };
	struct msghdr message = { .msg_iov = &v,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	c->cmsg_level = SOL_TLS;
	c->cmsg_type = TLS_SET_RECORD_TYPE;
	c->cmsg_len = CMSG_LEN(1);
	*CMSG_DATA(c) = type;
	return sendmsg(io->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* More was promised: the kernel keeps a record open until it is full, whatever TCP does. */
static int kernel_flush(struct io *io)
{
	int r;

	if (!io->corked)
		return 0;
	r = send_typed(io, SSL3_RT_APPLICATION_DATA, NULL, 0);
	if (r == -EAGAIN) {
		io->wait = WATCH_WRITE;
		return r;
	}
	return r != 0 ? r : io_socket_flush(io);
}

static void kernel_end(struct io *io)
{
	static char close_notify[2] = { SSL3_AL_WARNING, SSL3_AD_CLOSE_NOTIFY };
	struct tls *t = tls_of(io);

	if (t->ended)
		return;
	t->ended = true;
	(void)send_typed(io, SSL3_RT_ALERT, close_notify, sizeof(close_notify));
	(void)shutdown(io->fd, SHUT_WR);
}

const struct io_ops tls_kernel_ops = {
	.read = tls_read,
	.write = io_socket_write,
	.send_file = io_socket_send_file,
	.send_pipe = io_socket_send_pipe,
	.buffered = tls_buffered,
	.flush = kernel_flush,
	.untaken = io_socket_untaken,
	.end = kernel_end,
	.free = tls_free,
};
