/* Counting connections by address; see peers.h. Cells are written by one worker and read by all. */
#include "edge/peers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "edge/base/hash.h"

enum { PEERS_MAGIC = 0x70656572, ROWS = 2, CELLS = 1 << 16 };

struct row {
	_Atomic uint16_t cells[CELLS];
};

struct peers {
	uint32_t magic;
	unsigned workers;
	uint64_t secret; /* so that nobody can choose addresses that share a victim's cells */
	struct row rows[][ROWS];
};

struct place {
	unsigned cell[ROWS];
};

static size_t size_for(unsigned workers)
{
	return sizeof(struct peers) + workers * sizeof(((struct peers *)NULL)->rows[0]);
}

/* Memory that nobody touches costs nothing: a row takes a page for each address that is really there. */
struct peers *peers_new(unsigned workers)
{
	struct peers *p = mmap(NULL, size_for(workers), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	p->magic = PEERS_MAGIC;
	p->workers = workers;
	if (getrandom(&p->secret, sizeof(p->secret), 0) != (ssize_t)sizeof(p->secret)) {
		munmap(p, size_for(workers));
		return NULL;
	}
	return p;
}

void peers_free(struct peers *p)
{
	if (p != NULL)
		munmap(p, size_for(p->workers));
}

void peers_reset(struct peers *p, unsigned worker)
{
	CHECK_MAGIC(p, PEERS_MAGIC);
	CHECK(worker < p->workers);
	for (unsigned r = 0; r < ROWS; r++) {
		for (unsigned c = 0; c < CELLS; c++) {
			_Atomic uint16_t *cell = &p->rows[worker][r].cells[c];

			if (atomic_load_explicit(cell, memory_order_relaxed) != 0)
				atomic_store_explicit(cell, 0, memory_order_relaxed);
		}
	}
}

/* False: not an address that can be counted (a Unix socket). */
static bool place_of(const struct peers *p, const struct sock_addr *a, struct place *out)
{
	const uint8_t *bytes;
	size_t n;
	uint64_t hash;

	if (a->any.sa_family == AF_INET) {
		bytes = (const uint8_t *)&a->v4.sin_addr;
		n = 4;
	} else if (a->any.sa_family == AF_INET6) {
		bool mapped = IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr);

		bytes = a->v6.sin6_addr.s6_addr + (mapped ? 12 : 0);
		n = mapped ? 4 : 8;
	} else {
		return false;
	}
	hash = hash_xxh3_seed(bytes, n, p->secret);
	out->cell[0] = (unsigned)(hash % CELLS);
	out->cell[1] = (unsigned)((hash >> 32) % CELLS);
	return true;
}

static void change(struct peers *p, unsigned worker, const struct sock_addr *a, int by)
{
	struct place place;

	CHECK_MAGIC(p, PEERS_MAGIC);
	CHECK(worker < p->workers);
	if (!place_of(p, a, &place))
		return;
	for (unsigned r = 0; r < ROWS; r++) {
		_Atomic uint16_t *cell = &p->rows[worker][r].cells[place.cell[r]];
		int value = atomic_load_explicit(cell, memory_order_relaxed) + by;

		if (value >= 0 && value <= UINT16_MAX)
			atomic_store_explicit(cell, (uint16_t)value, memory_order_relaxed);
	}
}

void peers_add(struct peers *p, unsigned worker, const struct sock_addr *a)
{
	change(p, worker, a, 1);
}

void peers_remove(struct peers *p, unsigned worker, const struct sock_addr *a)
{
	change(p, worker, a, -1);
}

unsigned peers_count(const struct peers *p, const struct sock_addr *a)
{
	unsigned least = UINT32_MAX;
	struct place place;

	CHECK_MAGIC(p, PEERS_MAGIC);
	if (!place_of(p, a, &place))
		return 0;
	for (unsigned r = 0; r < ROWS; r++) {
		unsigned sum = 0;

		for (unsigned w = 0; w < p->workers; w++)
			sum += atomic_load_explicit(&p->rows[w][r].cells[place.cell[r]],
						    memory_order_relaxed);
		least = sum < least ? sum : least;
	}
	return least;
}
