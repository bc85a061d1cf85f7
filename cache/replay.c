/*
 * Reading logs into the index: one log in slices (for a rebuild, too), and all of them from where the index says
 * that they are applied.
 */
#include "cache/keeper_store.h"

#include <errno.h>

int replay_begin(struct replay *p, struct keeper_store *ks, struct keeper_segment *seg, uint64_t from)
{
	*p = (struct replay){ .ks = ks, .seg = seg };
	return log_reader_open(ks->dir_fd, ks->super.id, seg->id, from, &p->reader);
}

static void replay_record(struct replay *p, const struct format_log_view *v)
{
	switch (v->type) {
	case FORMAT_LOG_COMMIT:
	case FORMAT_LOG_REFRESH:
		(void)apply_object(p->ks, v->type, v->object, &v->texts, false, &p->doomed);
		return;
	case FORMAT_LOG_REMOVE:
		apply_removal(p->ks, v->removal, &p->doomed);
		return;
	case FORMAT_LOG_DEAD:
		p->dead = true;
		return;
	case FORMAT_LOG_SYNCED:
		return;
	}
}

int replay_slice(struct replay *p, bool *out_more)
{
	int64_t begin = clock_mono_us();
	struct format_log_view v;
	bool more = true;
	int r;

	index_begin(p->ks->index);
	while (more && !p->dead && clock_mono_us() - begin < KEEPER_BATCH_US) {
		more = log_read(p->reader, &v) == 0;
		if (more)
			replay_record(p, &v);
	}
	index_set_applied(p->ks->index, p->seg->id, log_reader_offset(p->reader));
	r = index_commit(p->ks->index);
	*out_more = more && !p->dead;
	return r;
}

void replay_end(struct replay *p, bool at_end)
{
	uint64_t end = log_reader_offset(p->reader);

	if (at_end && !p->dead && end < p->seg->log.bytes) {
		p->ks->log_bytes -= p->seg->log.bytes - end;
		p->seg->log.bytes = p->seg->log_seen = end;
	}
	if (p->dead)
		segment_set_dead(p->ks, p->seg->id);
	log_reader_close(&p->reader);
}

static int replay_log(struct keeper_store *ks, struct keeper_segment *seg, struct chunk_list *doomed)
{
	struct replay p;
	uint64_t applied;
	bool more = true;
	int r;

	index_begin(ks->index);
	applied = index_applied(ks->index, seg->id);
	r = index_commit(ks->index);
	if (r != 0 || applied == seg->log.bytes)
		return r;
	/* The log is shorter than what the index saw of it: they aren't of one piece. */
	if (applied > seg->log.bytes)
		return -EBADMSG;
	if (replay_begin(&p, ks, seg, applied) != 0) {
		segment_set_dead(ks, seg->id);
		return 0;
	}
	p.doomed = *doomed;
	while (r == 0 && more)
		r = replay_slice(&p, &more);
	replay_end(&p, r == 0);
	*doomed = p.doomed;
	return r;
}

int replay_all(struct keeper_store *ks)
{
	struct chunk_list doomed = { 0 };
	int r = 0;

	for (uint32_t id = ks->lowest_id; id < ks->next_id && r == 0; id++) {
		struct keeper_segment *seg = segment_find(ks, id);

		if (seg != NULL && segment_state(ks, id) != SEGMENT_DEAD)
			r = replay_log(ks, seg, &doomed);
	}
	if (r == 0) {
		ks->accounts[ACCOUNT_LEAVING] += doomed.bytes;
		evict_unlink(ks, &doomed);
	}
	chunk_list_fini(&doomed);
	return r;
}
