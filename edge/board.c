/*
 * The reload's outcome is a sequence lock: an odd version says that the fields are being written. A
 * reader gives up after a while and takes what it has, so that a master that died in the middle of a
 * write cannot hang the status page.
 */
#include "edge/board.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "edge/base/clock.h"

enum { READ_ATTEMPTS = 1000 };

struct process_board *board_new(void)
{
	void *p = mmap(NULL, sizeof(struct process_board), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	return p;
}

void board_free(struct process_board *b)
{
	if (b != NULL)
		munmap(b, sizeof(*b));
}

static void write_begins(struct process_board *b)
{
	atomic_fetch_add_explicit(&b->version, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

static void write_ends(struct process_board *b)
{
	atomic_fetch_add_explicit(&b->version, 1, memory_order_release);
}

void board_started(struct process_board *b, uint32_t generation)
{
	write_begins(b);
	b->generation = generation;
	b->started_ms = clock_wall().ms;
	write_ends(b);
	atomic_store(&b->master_pid, getpid());
}

void board_reloaded(struct process_board *b, uint32_t generation, int result, const char *fault)
{
	write_begins(b);
	b->generation = generation;
	b->reloaded_ms = clock_wall().ms;
	b->reload_result = result;
	b->reloads_done += result == 0;
	b->reloads_failed += result != 0;
	(void)snprintf(b->reload_fault, sizeof(b->reload_fault), "%s", fault);
	write_ends(b);
}

void board_child(struct process_entry *e, int pid, unsigned restarts)
{
	atomic_store(&e->pid, pid);
	atomic_store(&e->restarts, restarts);
	if (pid != 0)
		atomic_store(&e->started_ms, clock_wall().ms);
}

void board_read_reload(const struct process_board *b, struct board_reload *out)
{
	for (unsigned i = 0; i < READ_ATTEMPTS; i++) {
		uint32_t version = atomic_load_explicit(&b->version, memory_order_acquire);

		*out = (struct board_reload){
			.generation = b->generation,
			.reloaded_ms = b->reloaded_ms,
			.result = b->reload_result,
			.done = b->reloads_done,
			.failed = b->reloads_failed,
		};
		memcpy(out->fault, b->reload_fault, sizeof(out->fault));
		out->fault[sizeof(out->fault) - 1] = '\0';
		atomic_thread_fence(memory_order_acquire);
		if (version % 2 == 0 &&
		    version == atomic_load_explicit(&b->version, memory_order_relaxed))
			return;
	}
}
