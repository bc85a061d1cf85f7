/*
 * Claims, as the keeper meets them: by the ring; those that the ring lost are found by looking at all of them once a second. What a
 * dead worker held is swept; where a stopped process holds a stripe's mutex, later.
 */
#include "cache/keeper_store.h"

#include <errno.h>

static bool is_handled(const struct keeper *k, uint32_t slot)
{
	return k->handled[slot / 64] >> slot % 64 & 1;
}

static void set_handled(struct keeper *k, uint32_t slot, bool handled)
{
	uint64_t bit = (uint64_t)1 << slot % 64;

	k->handled[slot / 64] = handled ? k->handled[slot / 64] | bit : k->handled[slot / 64] & ~bit;
}

void keeper_claim_ended(struct keeper *k, uint32_t slot)
{
	struct claim_view v;

	set_handled(k, slot, false);
	if (claim_view(k->shared, slot, &v) != 0 || v.state == CLAIM_DONE)
		return;
	/* -EBUSY: somebody still reads through it; it is looked at again in a second. */
	(void)!claim_free(k->shared, slot);
}

static void claim_done_found(struct keeper_store *ks, uint32_t slot)
{
	set_handled(ks->keeper, slot, true);
	commit_claim(ks, slot);
	if (!ks->usable)
		commit_refuse_all(ks);
}

static void consider(struct keeper *k, uint32_t slot)
{
	struct claim_view v;

	if (is_handled(k, slot) || claim_view(k->shared, slot, &v) != 0)
		return;
	CHECK(v.store < k->store_count || v.state == CLAIM_FAILED);
	switch (v.state) {
	case CLAIM_DONE:
		claim_done_found(&k->stores[v.store], slot);
		return;
	case CLAIM_FAILED:
		if (v.chunks_begun != 0 && v.kind == CLAIM_FILL && v.store < k->store_count) {
			set_handled(k, slot, true);
			evict_failed_claim(&k->stores[v.store], slot, v.object_id, v.chunks_begun);
			return;
		}
		(void)!claim_free(k->shared, slot);
		return;
	case CLAIM_COMMITTED:
		(void)!claim_free(k->shared, slot);
		return;
	case CLAIM_FREE:
	case CLAIM_FILLING:
		return;
	}
}

void keeper_scan_claims(struct keeper *k)
{
	for (int slot = claim_next(k->shared, 0); slot >= 0;
	     slot = claim_next(k->shared, (uint32_t)slot + 1))
		consider(k, (uint32_t)slot);
}

void keeper_sweep(struct keeper *k, unsigned slot)
{
	uint64_t bit = (uint64_t)1 << slot;

	k->unswept = claim_sweep_worker(k->shared, slot) ? k->unswept & ~bit : k->unswept | bit;
}

void keeper_sweep_again(struct keeper *k)
{
	for (uint64_t left = k->unswept; left != 0; left &= left - 1)
		keeper_sweep(k, (unsigned)__builtin_ctzll(left));
}

void keeper_drain_ring(struct keeper *k)
{
	bool scan = false;
	int r;

	while ((r = shared_ring_take(k->shared, &k->ring_cursor)) != -EAGAIN) {
		if (r >= 0)
			consider(k, (uint32_t)r);
		else
			scan = true;
	}
	if (scan)
		keeper_scan_claims(k);
}
