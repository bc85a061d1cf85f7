/* Among the files of TLS streams (tls.c: contexts and handshakes; tls_stream.c: payload; tls_gather.c: records on their
 * way to the socket; tls_fault.c: what went wrong). */
#ifndef BRIM_BASE_TLS_PARTS_H
#define BRIM_BASE_TLS_PARTS_H

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "edge/base/tls.h"
#include "edge/base/tls_seal.h"

enum {
	TLS_MAGIC = 0x746c7373,
	TLS_EARLY_BYTES = 16 << 10,
	TLS_BATCH_BYTES = 128 << 10,			 /* of payload, in one write */
	TLS_KEEP_BYTES = 4 << 10,			 /* no more waits for what follows it */
	TLS_GATHER_BYTES = TLS_BATCH_BYTES + (24 << 10), /* with what records add, small ones too */
};

struct tls {
	struct io io;
	uint32_t magic;
	SSL *ssl;
	bool kernel_sends, kernel_receives, shaken; /* shaken: the handshake is done */
	bool starved; /* OpenSSL has no whole record: an event of the socket will tell of more */
	bool drained; /* the socket had less than was asked for: within this call it isn't asked again */
	bool at_end;		  /* the peer's FIN was seen */
	bool deaf, broken, ended; /* nothing more is received; nothing more is sent; our end was told */
	/* TLS 1.3 early data: it is expected, or on its way; what the handshake came upon is kept for the first read. */
	bool reads_early;
	char *early;
	size_t early_from, early_until;
	const char *fault;
	/* Our own sealing, once OpenSSL has handed out the keys; then also its next record's type, 0 for payload. */
	struct tls_seal seal;
	uint8_t record_type;
	/* Sealed records that the socket did not take (io.holds), or that were kept for what follows (io.corked). */
	char *held;
	size_t held_from, held_until;
	/* How payload is cut into records and writes. */
	size_t batch_bytes, small_left;
	int64_t sent_ms; /* when something last was */
};

struct tls *tls_of(const struct io *io);

/* tls_stream.c */
extern const struct io_ops tls_user_ops, tls_kernel_ops;

/* tls_gather.c: a place behind the records that are gathered (NULL: it has less room), and so many more that lie there. */
unsigned char *tls_gather_room(size_t n);
void tls_gather_add(size_t n);
bool tls_gather_any(void);
void tls_gather_drop(void);
/* A BIO that gathers records, takes OpenSSL's keys for sending, and receives from the socket. NULL: no memory. */
BIO *tls_bio_new(struct tls *t);
/* What was gathered leaves; what the socket doesn't take is held. 0 all is out; -EAGAIN some is held; else broken. */
int tls_push(struct tls *t, bool more) NODISCARD;
/* Before payload is gathered: what was kept joins it; what is held leaves. As tls_push. */
int tls_gather_begin(struct tls *t) NODISCARD;
/* As tls_push for what is held alone. */
int tls_push_held(struct tls *t) NODISCARD;

static inline int tls_broken(struct tls *t, int error)
{
	t->broken = true;
	return error;
}

/* Before a call whose failure is to be explained. Clearing is dear, and there is hardly ever one left. */
static inline void tls_forget_errors(void)
{
	if (ERR_peek_error() != 0)
		ERR_clear_error();
}

/* tls_fault.c: after a call that failed, from OpenSSL's queue of errors. */
const char *tls_fault_name(const SSL *ssl);

#endif
