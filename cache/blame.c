/*
 * A damaged page of an index can kill the keeper, since LMDB reads pages as they are. Whose index a thread works on is
 * therefore noted before it does, and a fault (SIGSEGV, SIGBUS, SIGABRT) in between is written into the shared
 * memory before the process dies of it: the next keeper makes that index anew instead of dying again.
 */
#include "cache/keeper_store.h"

#include <signal.h>

static _Thread_local struct shared_store *blamed;
static struct sigaction before[NSIG];

static void on_fault(int signal_number)
{
	if (blamed != NULL) {
		atomic_store(&blamed->reason, REASON_INDEX);
		atomic_store(&blamed->state, STORE_FAILED);
	}
	/* The instruction is run again (abort() goes on) and meets who was there before. */
	sigaction(signal_number, &before[signal_number], NULL);
}

void blame_catch_faults(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGABRT };
	static bool caught;
	struct sigaction action = { .sa_handler = on_fault };

	for (size_t i = 0; i < ARRAY_LEN(signals) && !caught; i++)
		CHECK(sigaction(signals[i], &action, &before[signals[i]]) == 0);
	caught = true;
}

void blame_index(struct keeper_store *ks)
{
	blamed = ks == NULL ? NULL : ks->st;
}
