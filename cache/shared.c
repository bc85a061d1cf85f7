/*
 * Making the shared memory, and the small operations on it that both sides use: hints, the ring of
 * finished claims, segment slots.
 *
 * The block is 86 MiB of address space; pages that nobody touches cost nothing
 * (MAP_NORESERVE, zero is the initial state of nearly everything).
 */
#include "cache/shared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "cache/claim.h"

static int make_eventfds(struct cache_shared *s);
static void init_store(struct shared_store *st, const struct cache_store_conf *conf);

struct cache_shared *cache_shared_new(const struct cache_conf *conf)
{
	struct cache_shared *s;

	CHECK(conf->workers >= 1 && conf->workers <= SHARED_WORKERS);
	CHECK(conf->store_count <= SHARED_STORES);
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s == MAP_FAILED)
		return NULL;
	s->magic = SHARED_MAGIC;
	s->format = SHARED_FORMAT;
	s->bytes = sizeof(*s);
	s->worker_count = conf->workers;
	s->store_count = conf->store_count;
	s->keeper_eventfd = -1;
	memset(s->worker_eventfds, -1, sizeof(s->worker_eventfds));
	for (unsigned i = 0; i < conf->store_count; i++)
		init_store(&s->stores[i], &conf->stores[i]);
	if (getrandom(s->secret, sizeof(s->secret), 0) != sizeof(s->secret) ||
	    make_eventfds(s) < 0 || claim_table_init(s) < 0) {
		cache_shared_free(s);
		return NULL;
	}
	return s;
}

void cache_shared_free(struct cache_shared *s)
{
	if (s == NULL)
		return;
	if (s->keeper_eventfd >= 0)
		close(s->keeper_eventfd);
	for (unsigned i = 0; i < SHARED_WORKERS; i++) {
		if (s->worker_eventfds[i] >= 0)
			close(s->worker_eventfds[i]);
	}
	munmap(s, sizeof(*s));
}

static int make_eventfds(struct cache_shared *s)
{
	s->keeper_eventfd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (s->keeper_eventfd < 0)
		return -errno;
	for (unsigned i = 0; i < s->worker_count; i++) {
		s->worker_eventfds[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (s->worker_eventfds[i] < 0)
			return -errno;
	}
	return 0;
}

static uint32_t power_of_two_below(uint64_t n)
{
	uint32_t p = 1;

	while ((uint64_t)p * 2 <= n && p < 1u << 31)
		p *= 2;
	return p;
}

/* A quarter of the store, and no more than the kernel lets a node have dirty before it writes by itself, and then makes who
 * writes wait (vm.dirty_background_ratio, dirty_ratio: 10 and 20 %). */
static uint64_t unsynced_limit(uint64_t size_bytes, uint64_t mib)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t limit = size_bytes / 4;

	if (limit > memory / 16)
		limit = memory / 16;
	return limit < 2048 * mib ? limit : 2048 * mib;
}

static void init_store(struct shared_store *st, const struct cache_store_conf *conf)
{
	const uint64_t mib = 1 << 20;
	uint64_t segment = conf->size_bytes / 256;
	size_t n = conf->name.n < SHARED_STORE_NAME - 1 ? conf->name.n : SHARED_STORE_NAME - 1;

	memcpy(st->name, conf->name.p, n);
	st->size_bytes = conf->size_bytes;
	segment = segment < 4 * mib ? 4 * mib : segment > 256 * mib ? 256 * mib : segment;
	st->segment_bytes = power_of_two_below(segment);
	st->chunk_bytes = st->segment_bytes / 4 < 8 * mib ? st->segment_bytes / 4 : 8 * mib;
	st->small_bytes = st->chunk_bytes < mib ? st->chunk_bytes : mib;
	st->unsynced_limit_bytes = unsynced_limit(conf->size_bytes, mib);
}

/* --- hints ------------------------------------------------------------------------------------- */

/*
 * hinted is set before the write and cleared by the receiver before it looks. Sequentially consistent on both
 * sides: a sender that finds it set published its state before, so the receiver, which clears and then
 * looks, sees that state.
 */
static void hint(_Atomic uint32_t *hinted, int fd)
{
	const uint64_t one = 1;

	if (atomic_exchange_explicit(hinted, 1, memory_order_seq_cst) != 0)
		return;
	/* Fails only when the counter is full: then it is readable, which is all that matters. */
	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

static void hint_taken(_Atomic uint32_t *hinted, int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		count = 0; /* nothing was written: a wake-up for nothing */
	atomic_store_explicit(hinted, 0, memory_order_seq_cst);
}

void shared_hint_keeper(struct cache_shared *s)
{
	hint(&s->keeper_hinted, s->keeper_eventfd);
}

void shared_wake_worker(struct cache_shared *s, unsigned slot)
{
	if (slot < s->worker_count)
		hint(&s->workers[slot].hinted, s->worker_eventfds[slot]);
}

void shared_wake_workers(struct cache_shared *s, uint64_t mask)
{
	while (mask != 0) {
		unsigned slot = (unsigned)__builtin_ctzll(mask);

		mask &= mask - 1;
		shared_wake_worker(s, slot);
	}
}

void shared_keeper_woken(struct cache_shared *s)
{
	hint_taken(&s->keeper_hinted, s->keeper_eventfd);
}

void shared_worker_woken(struct cache_shared *s, unsigned slot)
{
	hint_taken(&s->workers[slot].hinted, s->worker_eventfds[slot]);
}

/* Relaxed: a beat says nothing of other fields. */
bool shared_keeper_here(const struct cache_shared *s)
{
	int64_t beat = atomic_load_explicit(&s->keeper_beat_ms, memory_order_relaxed);

	return beat != 0 && clock_mono().ms - beat < SHARED_KEEPER_AWAY_MS;
}

void shared_keeper_beat(struct cache_shared *s)
{
	atomic_store_explicit(&s->keeper_pid, (int32_t)getpid(), memory_order_relaxed);
	atomic_store_explicit(&s->keeper_beat_ms, clock_mono().ms, memory_order_relaxed);
}

void shared_keeper_gone(struct cache_shared *s)
{
	atomic_store_explicit(&s->keeper_beat_ms, 0, memory_order_relaxed);
	atomic_store_explicit(&s->keeper_pid, 0, memory_order_relaxed);
}

/* The cell is stored after the head moved: a taker that comes in between finds 0 and looks at all claims instead. */
void shared_ring_put(struct cache_shared *s, uint32_t claim)
{
	uint64_t at = atomic_fetch_add_explicit(&s->ring_head, 1, memory_order_relaxed);

	/* Release: the claim's state, stored before, is seen by who takes the number. */
	atomic_store_explicit(&s->ring[at % SHARED_RING], claim + 1, memory_order_release);
}

int shared_ring_take(struct cache_shared *s, uint64_t *cursor)
{
	uint64_t head = atomic_load_explicit(&s->ring_head, memory_order_acquire);
	uint32_t number;

	if (head - *cursor > SHARED_RING) {
		*cursor = head - SHARED_RING;
		return -EOVERFLOW;
	}
	if (head == *cursor)
		return -EAGAIN;
	number = atomic_exchange_explicit(&s->ring[*cursor % SHARED_RING], 0, memory_order_acquire);
	*cursor += 1;
	/* 0: its writer is between the two stores, or died there; the claim's state was stored before. */
	if (number == 0 || number > SHARED_CLAIMS)
		return -EOVERFLOW;
	return (int)(number - 1);
}

void shared_worker_gone(struct cache_shared *s, unsigned slot, int pid)
{
	int32_t expected = pid;

	/* A successor may have come already: then its pid stays. */
	atomic_compare_exchange_strong_explicit(&s->workers[slot].pid, &expected, 0,
						memory_order_acq_rel, memory_order_relaxed);
}

/* --- stores and segments ------------------------------------------------------------------------- */

bool shared_store_in_service(const struct cache_shared *s, unsigned store)
{
	/* Acquire: what the keeper prepared before it put the store in service. */
	uint32_t state = atomic_load_explicit(&s->stores[store].state, memory_order_acquire);

	return state == STORE_OPEN || state == STORE_REBUILDING;
}

void shared_store_fail(struct cache_shared *s, unsigned store, enum shared_reason reason, int error)
{
	struct shared_store *st = &s->stores[store];
	uint32_t state = atomic_load_explicit(&st->state, memory_order_relaxed);

	if (state == STORE_FAILED)
		return;
	atomic_store_explicit(&st->reason, reason, memory_order_relaxed);
	atomic_store_explicit(&st->error, error, memory_order_relaxed);
	/* Release: who sees FAILED sees why. */
	atomic_store_explicit(&st->state, STORE_FAILED, memory_order_release);
	shared_hint_keeper(s);
}

void shared_store_full(struct cache_shared *s, unsigned store)
{
	/* Relaxed: it says all there is. */
	atomic_store_explicit(&s->stores[store].disk_full, 1, memory_order_relaxed);
	shared_hint_keeper(s);
}

const char *shared_store_state_text(const struct shared_store *st)
{
	static const char *const reasons[] = {
		[REASON_NONE] = "failed",
		[REASON_OPEN] = "failed: can't be opened",
		[REASON_FORMAT] = "failed: another format",
		[REASON_INDEX] = "failed: index damaged",
		[REASON_JOURNAL] = "failed: purge journal can't be written",
		[REASON_LOG] = "failed: log can't be written",
		[REASON_WRITE] = "failed: can't be written",
		[REASON_SYNC] = "failed: can't be synced",
		[REASON_FULL] = "failed: file system full",
	};
	uint32_t reason;

	switch (atomic_load_explicit(&st->state, memory_order_acquire)) {
	case STORE_OUT:
		return "out of service";
	case STORE_REBUILDING:
		return "rebuilding";
	case STORE_OPEN:
		return "open";
	default:
		reason = atomic_load_explicit(&st->reason, memory_order_relaxed);
		return reason < ARRAY_LEN(reasons) ? reasons[reason] : reasons[REASON_NONE];
	}
}

struct shared_segment *shared_segment(struct shared_store *st, uint32_t id)
{
	struct shared_segment *sg = &st->segments[id % SHARED_SEGMENTS];
	uint32_t state;

	/* Acquire: the id belongs to the state that is read after it. */
	if (id == 0 || atomic_load_explicit(&sg->id, memory_order_acquire) != id)
		return NULL;
	state = atomic_load_explicit(&sg->state, memory_order_acquire);
	return state == SEGMENT_FREE || state == SEGMENT_DEAD ? NULL : sg;
}

static int take_slot(struct shared_store *st, uint32_t id, uint32_t tail, uint32_t state)
{
	struct shared_segment *sg = &st->segments[id % SHARED_SEGMENTS];

	CHECK(id != 0);
	if (atomic_load_explicit(&sg->state, memory_order_acquire) != SEGMENT_FREE)
		return -EBUSY;
	atomic_store_explicit(&sg->tail, (uint64_t)id << 32 | tail, memory_order_relaxed);
	atomic_store_explicit(&sg->id, id, memory_order_relaxed);
	/* Release: id and tail are there when the state says so. */
	atomic_store_explicit(&sg->state, state, memory_order_release);
	return 0;
}

int shared_segment_open(struct shared_store *st, uint32_t id)
{
	return take_slot(st, id, 0, SEGMENT_OPEN);
}

int shared_segment_known(struct shared_store *st, uint32_t id)
{
	return take_slot(st, id, SEGMENT_CLOSED, SEGMENT_SEALED);
}

uint32_t shared_segment_close(struct shared_segment *sg)
{
	uint64_t closed = (uint64_t)atomic_load_explicit(&sg->id, memory_order_relaxed) << 32 |
			  SEGMENT_CLOSED;
	/* Sequentially consistent, as is the reservation: the claims that are looked at afterwards name
	 * every segment in which a reservation succeeded. */
	uint64_t before = atomic_exchange_explicit(&sg->tail, closed, memory_order_seq_cst);

	atomic_store_explicit(&sg->state, SEGMENT_FULL, memory_order_release);
	return (uint32_t)before;
}

int shared_segment_reserve(struct shared_store *st, uint32_t id, uint32_t n, uint32_t align,
			   uint32_t skew, uint32_t *out_offset)
{
	struct shared_segment *sg = &st->segments[id % SHARED_SEGMENTS];
	uint64_t tail = atomic_load_explicit(&sg->tail, memory_order_relaxed);
	uint64_t begin;

	do {
		if (tail >> 32 != id || (uint32_t)tail == SEGMENT_CLOSED)
			return -ESTALE;
		begin = (((uint64_t)(uint32_t)tail + skew + align - 1) & ~(uint64_t)(align - 1)) - skew;
		if (begin + n > st->segment_bytes)
			return -ENOSPC;
		/* Sequentially consistent against shared_segment_close: see there. */
	} while (!atomic_compare_exchange_weak_explicit(&sg->tail, &tail,
							(uint64_t)id << 32 | (begin + n),
							memory_order_seq_cst, memory_order_relaxed));
	*out_offset = (uint32_t)begin;
	return 0;
}
