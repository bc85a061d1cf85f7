/*
 * The board: what the master tells everyone about processes and reloads, in shared memory. The master
 * alone writes; readers that see a version change under them read again.
 */
#ifndef BRIM_EDGE_BOARD_H
#define BRIM_EDGE_BOARD_H

#include "edge/process.h"

struct board_reload {
	uint32_t generation;   /* in use */
	int64_t reloaded_ms;   /* of the last attempt; 0: there was none */
	int result;	       /* of the last attempt */
	uint32_t done, failed; /* attempts */
	char fault[512];
};

struct process_board *board_new(void) NODISCARD; /* NULL: no memory */
void board_free(struct process_board *b);

void board_reloaded(struct process_board *b, uint32_t generation, int result, const char *fault);
/* The generation that the node starts with: no reload has happened. */
void board_started(struct process_board *b, uint32_t generation);
/* pid 0: it is gone. */
void board_child(struct process_entry *e, int pid, unsigned restarts);

void board_read_reload(const struct process_board *b, struct board_reload *out);

#endif
