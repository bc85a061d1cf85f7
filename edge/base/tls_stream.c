/*
 * Payload over TLS, once the handshake is done.
 *
 * By the kernel: sends go to the socket itself, since its keys are there; the alert that ends the stream is a record of
 * another type, told by a control message. OpenSSL is asked to read only (a TLS 1.3 peer's tickets and key updates).
 *
 * In user space: payload is sealed by OpenSSL into records that gather in a buffer of the process, and leave for the
 * socket by one call for up to BATCH_BYTES of them. Between calls the buffer is empty: what the socket didn't
 * take is copied to memory of the stream's own, and until that is sent nothing more is sealed, so a
 * slow reader costs one batch, and that of a single record once it has been slow.
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
	RECORD_BYTES = 16 << 10,
	BATCH_BYTES = 64 << 10,			 /* of payload, in one write */
	CALL_BYTES = 256 << 10,			 /* of payload, in one call of ours */
	GATHER_BYTES = BATCH_BYTES + (24 << 10), /* with what records add, small ones too */
	HELD_MAX = 2 * GATHER_BYTES, /* a batch, and our alerts to a peer that provokes them and reads none */
	SMALL_RECORD_BYTES = 1300, /* fits into a segment */
	SMALL_BYTES = 16 << 10,	   /* so much leaves in small records after a pause */
	WHOLE_BYTES = 4096,	   /* what is no longer than this needs no cutting */
	PAUSE_MS = 1000,
};

/* The process's one buffer: empty but while one of these functions runs. */
static struct {
	size_t gathered;
	char records[GATHER_BYTES];
	char payload[BATCH_BYTES];
} shared;

/* --- our BIO ------------------------------------------------------------------------------------ */

static int bio_write(BIO *bio, const char *p, size_t n, size_t *out_n)
{
	BIO_clear_retry_flags(bio);
	if (n > sizeof(shared.records) - shared.gathered) {
		BIO_set_retry_write(bio);
		return 0;
	}
	memcpy(shared.records + shared.gathered, p, n);
	shared.gathered += n;
	*out_n = n;
	return 1;
}

static int bio_read(BIO *bio, char *p, size_t n, size_t *out_n)
{
	struct tls *t = BIO_get_data(bio);
	ssize_t got = recv(t->io.fd, p, n, MSG_DONTWAIT);

	BIO_clear_retry_flags(bio);
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
	const struct tls *t = BIO_get_data(bio);

	(void)number;
	(void)p;
	if (command == BIO_CTRL_EOF)
		return t->at_end;
	return command == BIO_CTRL_FLUSH;
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

static int broken(struct tls *t, int error)
{
	t->broken = true;
	return error;
}

/* Bytes sent; what the socket doesn't take is no error. */
static int64_t send_some(struct tls *t, const char *p, size_t n, bool more)
{
	ssize_t sent = send(t->io.fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0));

	if (sent >= 0)
		return sent;
	return errno == EAGAIN || errno == EINTR ? 0 : broken(t, -errno);
}

static int wait_for_room(struct tls *t)
{
	t->io.holds = true;
	t->io.wait = WATCH_WRITE;
	t->batch_bytes = RECORD_BYTES;
	return -EAGAIN;
}

/* A copy behind what is held already. */
static int hold(struct tls *t, const char *p, size_t n)
{
	size_t before = t->held_until - t->held_from;
	char *held = before + n <= HELD_MAX ? malloc(before + n) : NULL;

	if (held == NULL)
		return broken(t, -ENOBUFS);
	if (before > 0)
		memcpy(held, t->held + t->held_from, before);
	memcpy(held + before, p, n);
	free(t->held);
	t->held = held;
	t->held_from = 0;
	t->held_until = before + n;
	return wait_for_room(t);
}

static int push_held(struct tls *t)
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
	free(t->held);
	t->held = NULL;
	t->held_from = t->held_until = 0;
	t->io.holds = false;
	return 0;
}

int tls_push(struct tls *t, bool more)
{
	size_t n = shared.gathered;
	int64_t sent;
	int r = push_held(t);

	shared.gathered = 0;
	if (r != 0 && r != -EAGAIN)
		return r;
	if (n == 0)
		return r;
	sent = r == 0 ? send_some(t, shared.records, n, more) : 0;
	if (sent < 0)
		return (int)sent;
	t->io.corked = more;
	if ((size_t)sent < n)
		return hold(t, shared.records + sent, n - (size_t)sent);
	return 0;
}

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
		return broken(t, -EPIPE);
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
	r = t->reads_early ? read_early(t, p, n, &got) : SSL_read_ex(t->ssl, p, n, &got);
	t->starved = false;
	r = r == 1 ? (int64_t)got : read_failed(t, (int)r);
	if (io->early)
		io->early = !SSL_is_init_finished(t->ssl);
	if (shared.gathered > 0) { /* an alert of ours, or the tickets at the end of the handshake */
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

/* --- writing in user space --------------------------------------------------------------------------- */

static void note_pause(struct tls *t)
{
	int64_t now = clock_mono().ms;

	if (t->batch_bytes == 0)
		t->batch_bytes = BATCH_BYTES;
	if (t->sent_ms == 0 || now - t->sent_ms > PAUSE_MS)
		t->small_left = SMALL_BYTES;
	t->sent_ms = now;
}

/* How much of n bytes goes to OpenSSL at once: it cuts what is longer than a record by itself. */
static size_t next_cut(struct tls *t, size_t n, bool whole)
{
	size_t cut = t->small_left > 0 && !whole && n > SMALL_RECORD_BYTES ? SMALL_RECORD_BYTES : n;

	t->small_left -= cut < t->small_left ? cut : t->small_left;
	return cut;
}

/* Before the client has ended its handshake an ordinary write would wait for that. */
static int write_record(struct tls *t, const char *p, size_t n, size_t *out_n)
{
	return t->io.early && !SSL_is_init_finished(t->ssl) ? SSL_write_early_data(t->ssl, p, n, out_n)
							    : SSL_write_ex(t->ssl, p, n, out_n);
}

/* The gathering buffer has room for all of it. */
static int seal(struct tls *t, const char *p, size_t n)
{
	bool whole = n <= WHOLE_BYTES;

	while (n > 0) {
		size_t cut = next_cut(t, n, whole), written;

		tls_forget_errors();
		if (write_record(t, p, cut, &written) != 1) {
			shared.gathered = 0;
			t->fault = tls_fault_name(t->ssl);
			return broken(t, -EPIPE);
		}
		p += written;
		n -= written;
	}
	return 0;
}

/* Seals and sends n bytes. 0: the socket took all; -EAGAIN: some is held, and all n are taken all the same. */
static int send_batch(struct tls *t, const char *p, size_t n, bool more)
{
	int r = seal(t, p, n);

	if (r == 0)
		r = tls_push(t, more);
	if (r == 0 && t->batch_bytes < BATCH_BYTES)
		t->batch_bytes *= 2;
	return r;
}

struct source {
	const struct iovec *v; /* NULL: a file or a pipe */
	int left;	       /* pieces of v */
	size_t offset;	       /* in the first piece; in the file */
	int fd;
	bool pipe;
};

/* Up to n bytes of the pieces. One that is large enough is not copied. */
static struct view next_pieces(struct source *s, size_t n)
{
	struct view out = { shared.payload, 0 };

	while (s->left > 0 && out.n < n) {
		size_t rest = s->v->iov_len - s->offset, take = rest < n - out.n ? rest : n - out.n;
		const char *p = (const char *)s->v->iov_base + s->offset;

		if (out.n == 0 && (take == n || s->left == 1))
			out.p = p;
		else if (out.p == shared.payload)
			memcpy(shared.payload + out.n, p, take);
		else
			break;
		out.n += take;
		s->offset += take;
		if (s->offset < s->v->iov_len)
			break;
		s->v++;
		s->left--;
		s->offset = 0;
	}
	return out;
}

/* n 0: none are left. p NULL: none now, or an error in errno. */
static struct view next_bytes(struct source *s, size_t n)
{
	ssize_t got;

	if (s->v != NULL)
		return next_pieces(s, n);
	got = s->pipe ? read(s->fd, shared.payload, n)
		      : pread(s->fd, shared.payload, n, (off_t)s->offset);
	if (got < 0)
		return (struct view){ 0 };
	s->offset += (size_t)got;
	return view_of(shared.payload, (size_t)got);
}

/* Why nothing could be sent. */
static int64_t source_failed(struct tls *t, const struct source *s, struct view piece)
{
	if (piece.p != NULL)
		return s->v != NULL ? 0 : -EIO; /* a file that ends early */
	if (errno != EAGAIN && errno != EINTR)
		return -EIO;
	t->io.wait = WATCH_WRITE;
	return -EAGAIN;
}

static int64_t send_from(struct tls *t, struct source *s, size_t n, bool more)
{
	size_t sent = 0, limit = n < CALL_BYTES ? n : CALL_BYTES;
	int r = t->broken ? -EPIPE : push_held(t);

	if (r != 0)
		return r;
	note_pause(t);
	while (sent < limit && r == 0) {
		size_t want = limit - sent < t->batch_bytes ? limit - sent : t->batch_bytes;
		struct view piece = next_bytes(s, want);

		if (piece.n == 0)
			return sent > 0 ? (int64_t)sent : source_failed(t, s, piece);
		r = send_batch(t, piece.p, piece.n, more || sent + piece.n < n);
		if (r != 0 && r != -EAGAIN)
			return sent > 0 ? (int64_t)sent : r; /* the next call says so */
		sent += piece.n;
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
	int r = t->broken ? -EPIPE : push_held(t);

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
	if (t->shaken && !t->broken && push_held(t) == 0) {
		(void)SSL_shutdown(t->ssl);
		t->broken = tls_push(t, false) != 0;
	}
	tls_forget_errors();
	(void)shutdown(io->fd, SHUT_WR);
}

static void tls_free(struct io *io)
{
	struct tls *t = tls_of(io);

	/* Else OpenSSL holds a session for bad whose stream was not ended with all ceremony, and never resumes it. */
	if (t->shaken)
		SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(t->ssl);
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
