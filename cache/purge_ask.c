/*
 * A worker's letters to the keeper, in mailboxes in shared memory, both sides. States and who makes
 * which step: cache/shared.h. (Rejected: a socket between them. It would have to survive either's death; a
 * mailbox does so by itself, and a new keeper finds what its predecessor was asked.)
 *
 * cache_purge_ask is called again and again with the same «ask» until it has an answer; it never blocks.
 */
#include <errno.h>

#include "cache/process.h"
#include "cache/purge_clock.h"

static int put_letter(struct cache *c, struct cache_purge_ask *ask, const struct cache_scope *scopes,
		      unsigned count, bool soft, struct ready *wake);
static int take_answer(const struct cache_purge_ask *ask, struct shared_mailbox *m,
		       uint64_t *out_sequence);
static bool withdraw(struct cache *c, struct cache_purge_ask *ask);

static struct shared_mailbox *mailbox(struct cache *c, const struct cache_purge_ask *ask)
{
	CHECK(ask->slot >= 1 && ask->slot <= SHARED_MAILBOXES);
	return &c->shared->workers[c->slot].mailboxes[ask->slot - 1];
}

int cache_purge_ask(struct cache *c, struct cache_purge_ask *ask, const struct cache_scope *scopes,
		    unsigned count, bool soft, struct ready *wake, uint64_t *out_sequence)
{
	int r;

	CHECK(c->slot >= 0 && count >= 1 && count <= SHARED_SCOPES);
	if (ask->slot == 0)
		return put_letter(c, ask, scopes, count, soft, wake);
	r = take_answer(ask, mailbox(c, ask), out_sequence);
	if (r == -EINPROGRESS && shared_keeper_here(c->shared)) {
		c->asks[ask->slot - 1] = wake;
		return r;
	}
	if (r == -EINPROGRESS)
		return withdraw(c, ask) ? -EAGAIN : -EOWNERDEAD;
	c->asks[ask->slot - 1] = NULL;
	ask->slot = 0;
	return r;
}

static int put_letter(struct cache *c, struct cache_purge_ask *ask, const struct cache_scope *scopes,
		      unsigned count, bool soft, struct ready *wake)
{
	struct shared_mailbox *boxes = c->shared->workers[c->slot].mailboxes;

	if (!shared_keeper_here(c->shared))
		return -EAGAIN;
	for (uint32_t i = 0; i < SHARED_MAILBOXES; i++) {
		struct shared_mailbox *m = &boxes[i];

		/* Acquire: the keeper is through with a cancelled one when it says FREE. */
		if (atomic_load_explicit(&m->state, memory_order_acquire) != MAILBOX_FREE)
			continue;
		m->ticket = ++c->ask_ticket;
		m->count = count;
		m->soft = soft;
		memcpy(m->scopes, scopes, count * sizeof(*scopes));
		/* Release: the letter is whole. */
		atomic_store_explicit(&m->state, MAILBOX_ASKED, memory_order_release);
		*ask = (struct cache_purge_ask){ .slot = i + 1, .ticket = m->ticket };
		c->asks[i] = wake;
		shared_hint_keeper(c->shared);
		return -EINPROGRESS;
	}
	return -EAGAIN;
}

static int take_answer(const struct cache_purge_ask *ask, struct shared_mailbox *m, uint64_t *out_sequence)
{
	/* Acquire: the answer was written before. */
	uint32_t state = atomic_load_explicit(&m->state, memory_order_acquire);
	int error;

	CHECK(m->ticket == ask->ticket);

	if (state == MAILBOX_DONE) {
		*out_sequence = m->sequence;
		atomic_store_explicit(&m->state, MAILBOX_FREE, memory_order_release);
		return 0;
	}
	if (state != MAILBOX_FAILED)
		return -EINPROGRESS;
	error = m->error;
	atomic_store_explicit(&m->state, MAILBOX_FREE, memory_order_release);
	return error == -EAGAIN ? -EAGAIN : -EIO;
}

/* A letter that nobody took is simply gone; a taken one is freed by its answer; an answer is thrown away. Had nobody taken it? */
static bool cancel(struct shared_mailbox *m)
{
	uint32_t state = atomic_load_explicit(&m->state, memory_order_acquire);
	uint32_t next;

	do {
		if (state == MAILBOX_FREE || state == MAILBOX_CANCELLED)
			return true;
		next = state == MAILBOX_TAKEN ? MAILBOX_CANCELLED : MAILBOX_FREE;
	} while (!atomic_compare_exchange_weak_explicit(&m->state, &state, next,
							memory_order_acq_rel, memory_order_acquire));
	return state == MAILBOX_ASKED;
}

static bool withdraw(struct cache *c, struct cache_purge_ask *ask)
{
	bool untaken = cancel(mailbox(c, ask));

	c->asks[ask->slot - 1] = NULL;
	ask->slot = 0;
	shared_hint_keeper(c->shared);
	return untaken;
}

void cache_purge_ask_cancel(struct cache *c, struct cache_purge_ask *ask)
{
	if (ask->slot != 0)
		(void)withdraw(c, ask);
}

void purge_ask_wake(struct cache *c, bool all)
{
	struct shared_mailbox *boxes = c->shared->workers[c->slot].mailboxes;

	for (unsigned i = 0; i < SHARED_MAILBOXES; i++) {
		uint32_t state;

		if (c->asks[i] == NULL)
			continue;
		state = atomic_load_explicit(&boxes[i].state, memory_order_relaxed);
		if (all || state == MAILBOX_DONE || state == MAILBOX_FAILED)
			ready_post(c->asks[i]);
	}
}

/* --- the keeper's side -------------------------------------------------------------------------- */

/* Marks it TAKEN if it is to be. */
static bool take(struct shared_mailbox *m, bool restart)
{
	uint32_t state = atomic_load_explicit(&m->state, memory_order_acquire);

	if (state == MAILBOX_CANCELLED && restart)
		atomic_store_explicit(&m->state, MAILBOX_FREE, memory_order_release);
	if (state == MAILBOX_TAKEN)
		return restart;
	/* Acquire: the letter. It may have been cancelled just now. */
	return state == MAILBOX_ASKED &&
	       atomic_compare_exchange_strong_explicit(&m->state, &state, MAILBOX_TAKEN,
						       memory_order_acq_rel, memory_order_relaxed);
}

struct shared_mailbox *purge_mailbox_take(struct cache_shared *s, uint32_t *cursor, bool restart)
{
	const uint32_t total = s->worker_count * SHARED_MAILBOXES;

	while (*cursor < total) {
		uint32_t at = (*cursor)++;
		struct shared_mailbox *m =
			&s->workers[at / SHARED_MAILBOXES].mailboxes[at % SHARED_MAILBOXES];

		if (take(m, restart))
			return m;
	}
	*cursor = 0;
	return NULL;
}

void purge_mailbox_answer(struct cache_shared *s, struct shared_mailbox *m, int result, uint64_t sequence)
{
	uint32_t state = MAILBOX_TAKEN;
	size_t at = (size_t)((char *)m - (char *)s->workers) / sizeof(s->workers[0]);

	m->sequence = sequence;
	m->error = result;
	/* Release: the answer is whole. */
	if (!atomic_compare_exchange_strong_explicit(&m->state, &state,
						     result < 0 ? MAILBOX_FAILED : MAILBOX_DONE,
						     memory_order_release, memory_order_relaxed)) {
		CHECK(state == MAILBOX_CANCELLED);
		atomic_store_explicit(&m->state, MAILBOX_FREE, memory_order_release);
		return;
	}
	shared_wake_worker(s, (unsigned)at);
}

void purge_mailbox_sweep(struct cache_shared *s, unsigned worker)
{
	for (unsigned i = 0; i < SHARED_MAILBOXES; i++)
		cancel(&s->workers[worker].mailboxes[i]);
}
