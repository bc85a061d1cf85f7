/*
 * Purges on the keeper's side: journal in every store, synced → cells → clock → answer.
 *
 * Those that come while a sync is under way wait and share the next one. Each has its own number; scopes of one
 * purge share it.
 *
 * A store whose journal can't be written goes out of service; the purge holds as long as one journal has it, since
 * at the next start every store learns from all journals (see «runs» in journal.h). If none has it, the purge failed and nothing is raised; and where
 * that was for want of room on the disk, the stores stay, since none of them says less than was answered.
 */
#include "cache/keeper_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/purge_clock.h"
#include "edge/base/log.h"

enum { PURGE_REMEMBERED = 1 << 16 };

struct ask {
	struct list link;
	keeper_purge_fn *done; /* NULL: a mailbox's */
	void *arg;
	struct shared_mailbox *mailbox;
	bool soft;
	uint64_t sequence;
	unsigned count;
	struct cache_scope scopes[];
};

struct append {
	struct job job;
	struct purges *purges;
	struct keeper_store *ks;
	int error;
	uint64_t journal_bytes;
};

/* What came of a purge. */
struct remembered {
	uint64_t sequence, objects, bytes;
	bool soft;
};

struct purges {
	struct keeper *keeper;
	struct list waiting, group;
	uint64_t last_number; /* given out */
	uint64_t newest_hard;
	struct remembered *remembered; /* by their number, modulo PURGE_REMEMBERED */
	uint32_t mailbox_cursor;
	struct format_purge *records; /* of the group under way */
	unsigned record_count;
	struct append appends[SHARED_STORES];
	unsigned pending, written;
	uint64_t run; /* that begins */
};

static void start_group(struct purges *p);
static void begin_run(struct purges *p);
static void end_run(struct purges *p);

/* --- asking ------------------------------------------------------------------------------------------- */

static int enqueue(struct purges *p, const struct cache_scope *scopes, unsigned count,
		   const struct ask *proto)
{
	struct ask *a = malloc(sizeof(*a) + count * sizeof(*scopes));

	if (a == NULL)
		return -ENOMEM;
	*a = *proto;
	a->count = count;
	memcpy(a->scopes, scopes, count * sizeof(*scopes));
	list_append(&p->waiting, &a->link);
	return 0;
}

int keeper_purge(struct keeper *k, const struct cache_scope *scopes, unsigned count, bool soft,
		 keeper_purge_fn *done, void *arg)
{
	const struct ask proto = { .done = done, .arg = arg, .soft = soft };
	int r;

	CHECK_MAGIC(k, KEEPER_MAGIC);
	if (count == 0 || count > KEEPER_PURGE_SCOPES)
		return -EINVAL;
	if (keeper_usable_stores(k) == 0)
		return -EIO;
	r = enqueue(k->purges, scopes, count, &proto);
	if (r == 0)
		start_group(k->purges);
	return r;
}

void purges_pump(struct keeper *k, bool restart)
{
	struct purges *p = k->purges;
	struct shared_mailbox *m;

	while ((m = purge_mailbox_take(k->shared, &p->mailbox_cursor, restart)) != NULL) {
		unsigned count = m->count <= SHARED_SCOPES ? m->count : SHARED_SCOPES;

		const struct ask proto = { .mailbox = m, .soft = m->soft != 0 };

		if (enqueue(p, m->scopes, count, &proto) != 0)
			purge_mailbox_answer(k->shared, m, -ENOMEM, 0);
	}
	start_group(p);
}

/* --- a group ------------------------------------------------------------------------------------------- */

static void answer(struct purges *p, struct ask *a, int result)
{
	list_remove(&a->link);
	if (a->mailbox != NULL)
		purge_mailbox_answer(p->keeper->shared, a->mailbox, result, a->sequence);
	else
		a->done(a->arg, result, a->sequence);
	free(a);
}

static void remember(struct purges *p, const struct ask *a)
{
	p->remembered[a->sequence % PURGE_REMEMBERED] = (struct remembered){ .sequence = a->sequence,
									     .soft = a->soft };
	if (!a->soft)
		p->newest_hard = a->sequence;
}

/* The note is in the journals of all stores that there are. */
static void raise_scope(struct purges *p, const struct cache_scope *scope, bool soft, uint64_t number)
{
	struct cache_shared *s = p->keeper->shared;

	purge_clock_raise(s, scope, soft, number);
	if (scope->kind == CACHE_SCOPE_UNSAFE)
		atomic_store_explicit(&s->unsafe_noted, keeper_usable_stores(p->keeper),
				      memory_order_release);
}

static void raise_all(struct purges *p)
{
	struct cache_shared *s = p->keeper->shared;
	uint64_t newest = 0;

	LIST_EACH (&p->group, at, following) {
		struct ask *a = LIST_ENTRY(at, struct ask, link);

		for (unsigned i = 0; i < a->count; i++)
			raise_scope(p, &a->scopes[i], a->soft, a->sequence);
		newest = a->sequence;
		remember(p, a);
	}
	purge_clock_publish(s, newest);
}

static void judge_stores(struct purges *p)
{
	for (unsigned i = 0; i < p->keeper->store_count; i++) {
		struct append *a = &p->appends[i];

		if (a->error == 0 || (keeper_is_full(a->ks, a->error) && p->written == 0))
			continue;
		keeper_store_failed(a->ks, REASON_JOURNAL, a->error);
	}
}

static void finish_group(struct purges *p)
{
	int result = p->written != 0 ? 0 : -EIO;

	if (result == 0)
		raise_all(p);
	free(p->records);
	p->records = NULL;
	while (!list_empty(&p->group))
		answer(p, LIST_ENTRY(p->group.next, struct ask, link), result);
	start_group(p);
}

/* A store that drops out knows nothing of what comes: before anything of it is answered, the others begin a new run. */
static void end_group(struct purges *p)
{
	judge_stores(p);
	if (p->written != 0 && keeper_usable_stores(p->keeper) != p->keeper->journalled)
		begin_run(p);
	else
		finish_group(p);
}

static void run_append(struct job *j)
{
	struct append *a = CONTAINER_OF(j, struct append, job);
	struct keeper_store *ks = a->ks;

	a->error = journal_append(&ks->journal, a->purges->records, a->purges->record_count);
	if (a->error == 0 && ks->journal.bytes > JOURNAL_BYTES_MAX)
		a->error = journal_compact(&ks->journal, ks->dir_fd, ks->super.id, 0);
	a->journal_bytes = ks->journal.bytes;
}

static void appended(struct job *j)
{
	struct append *a = CONTAINER_OF(j, struct append, job);
	struct purges *p = a->purges;

	if (a->error == 0)
		account_set(a->ks, ACCOUNT_JOURNAL, a->journal_bytes);
	p->written += a->error == 0;
	if (--p->pending == 0)
		end_group(p);
}

static void add_records(struct purges *p, struct ask *a)
{
	a->sequence = ++p->last_number;
	for (unsigned i = 0; i < a->count; i++)
		p->records[p->record_count++] = (struct format_purge){
			.sequence = a->sequence,
			.hash = a->scopes[i].hash,
			.site_hash = a->scopes[i].site_hash,
			.wall_ms = clock_wall().ms,
			.kind = a->scopes[i].kind,
			.bytes = a->scopes[i].bytes,
			.forms = a->scopes[i].forms,
			.soft = a->soft,
		};
}

/* From waiting to the group, as many as fit. */
static unsigned choose_group(struct purges *p)
{
	unsigned records = 0;

	LIST_EACH (&p->waiting, at, following) {
		struct ask *a = LIST_ENTRY(at, struct ask, link);

		if (records != 0 && records + a->count > KEEPER_PURGE_SCOPES)
			break;
		records += a->count;
		list_remove(&a->link);
		list_append(&p->group, &a->link);
	}
	return records;
}

static void fail_waiting(struct purges *p, int error)
{
	while (!list_empty(&p->waiting))
		answer(p, LIST_ENTRY(p->waiting.next, struct ask, link), error);
}

static void append_everywhere(struct purges *p)
{
	p->written = 0;
	p->pending = 1;
	for (unsigned i = 0; i < p->keeper->store_count; i++) {
		struct append *a = &p->appends[i];

		a->purges = p;
		a->ks = &p->keeper->stores[i];
		a->error = 0;
		if (!a->ks->usable)
			continue;
		p->pending++;
		lane_submit(a->ks->journal_lane, &a->job, run_append, appended);
	}
	if (--p->pending == 0)
		end_group(p);
}

/* --- a new run ------------------------------------------------------------------------------------------- */

static void run_begin(struct job *j)
{
	struct append *a = CONTAINER_OF(j, struct append, job);
	struct keeper_store *ks = a->ks;

	a->error = journal_compact(&ks->journal, ks->dir_fd, ks->super.id, a->purges->run);
	a->journal_bytes = ks->journal.bytes;
}

static void run_begun(struct job *j)
{
	struct append *a = CONTAINER_OF(j, struct append, job);
	struct purges *p = a->purges;

	if (a->error == 0)
		account_set(a->ks, ACCOUNT_JOURNAL, a->journal_bytes);
	else
		keeper_store_failed(a->ks, REASON_JOURNAL, a->error);
	if (--p->pending == 0)
		end_run(p);
}

static void begin_run(struct purges *p)
{
	p->run = purges_new_run();
	p->keeper->journalled = keeper_usable_stores(p->keeper);
	p->pending = 1;
	for (unsigned i = 0; i < p->keeper->store_count; i++) {
		struct append *a = &p->appends[i];

		a->error = 0;
		if (!a->ks->usable)
			continue;
		p->pending++;
		lane_submit(a->ks->journal_lane, &a->job, run_begin, run_begun);
	}
	if (--p->pending == 0)
		end_run(p);
}

/* Others may have dropped out meanwhile; with the last of them the purge. */
static void end_run(struct purges *p)
{
	unsigned left = keeper_usable_stores(p->keeper);

	if (left == 0)
		p->written = 0;
	if (left != 0 && left != p->keeper->journalled)
		begin_run(p);
	else
		finish_group(p);
}

static void start_group(struct purges *p)
{
	unsigned records;

	if (p->pending != 0 || list_empty(&p->waiting))
		return;
	records = choose_group(p);
	p->records = malloc(records * sizeof(*p->records));
	p->record_count = 0;
	if (p->records == NULL) {
		fail_waiting(p, -ENOMEM);
		while (!list_empty(&p->group))
			answer(p, LIST_ENTRY(p->group.next, struct ask, link), -ENOMEM);
		return;
	}
	LIST_EACH (&p->group, at, following)
		add_records(p, LIST_ENTRY(at, struct ask, link));
	journal_seal(p->records, p->record_count);
	append_everywhere(p);
}

/* --- start and end -------------------------------------------------------------------------------------- */

int purges_open(struct keeper *k)
{
	struct purges *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return -ENOMEM;
	p->remembered = calloc(PURGE_REMEMBERED, sizeof(*p->remembered));
	if (p->remembered == NULL) {
		free(p);
		return -ENOMEM;
	}
	p->keeper = k;
	list_init(&p->waiting);
	list_init(&p->group);
	p->last_number = p->newest_hard = purge_clock_now(k->shared);
	k->purges = p;
	return 0;
}

/* --- what came of them ----------------------------------------------------------------------------------- */

uint64_t purges_newest_hard(const struct keeper *k)
{
	return k->purges->newest_hard;
}

static struct remembered *find(const struct keeper *k, uint64_t sequence)
{
	struct remembered *r = &k->purges->remembered[sequence % PURGE_REMEMBERED];

	return sequence != 0 && r->sequence == sequence ? r : NULL;
}

void purges_reclaimed(struct keeper *k, uint64_t number, uint64_t objects, uint64_t bytes)
{
	struct remembered *r = find(k, number);

	if (r == NULL)
		return;
	r->objects += objects;
	r->bytes += bytes;
}

int keeper_purge_reclaimed(const struct keeper *k, uint64_t sequence, struct keeper_reclaimed *out)
{
	const struct remembered *r = find(k, sequence);

	if (r == NULL)
		return -ENOENT;
	*out = (struct keeper_reclaimed){
		.objects = r->objects, .bytes = r->bytes, .soft = r->soft, .complete = true
	};
	for (unsigned i = 0; i < k->store_count && !r->soft; i++)
		out->complete &= !k->stores[i].usable || k->stores[i].reclaimed_to >= sequence;
	return 0;
}

bool purges_busy(const struct keeper *k)
{
	return k->purges->pending != 0;
}

void purges_close(struct keeper *k)
{
	if (k->purges == NULL)
		return;
	/* A group under way was finished with its lanes. */
	CHECK(k->purges->pending == 0);
	fail_waiting(k->purges, -EAGAIN);
	free(k->purges->remembered);
	free(k->purges);
	k->purges = NULL;
}
