/*
 * What brimctl's commands share: the command line, calls, errors.
 *
 *   brimctl.c           the table of commands, help, our own options
 *   brimctl_command.c   what is here
 *   brimctl_purge.c …   the commands
 *   brimctl_client.c    one call over the wire
 *   brimctl_show.c      answers for people
 *
 * Commands return the program's exit code: 0 done, 1 the work failed, 2 bad usage.
 */
#ifndef BRIM_EDGE_BRIMCTL_COMMAND_H
#define BRIM_EDGE_BRIMCTL_COMMAND_H

#include <stdbool.h>

#include "edge/brimctl_client.h"
#include "edge/brimctl_show.h"

struct ctl {
	struct client_target target;
	bool json;
	char **words; /* what is left of the command line: the command's own */
	int count;
};

enum { CTL_DONE, CTL_FAILED, CTL_USAGE };

int ctl_bad_usage(const char *what, const char *word);
int ctl_no_memory(void);

/* Takes an option out of the words, wherever it stands. */
bool ctl_flag(struct ctl *c, const char *name);
/* The same with the word behind it. NULL: it isn't there. False: nothing is behind it, which was told. */
bool ctl_value(struct ctl *c, const char *name, const char **out);
/* "--limit 10": a number from 1 to most. *out stays where the option isn't there. */
bool ctl_number(struct ctl *c, const char *name, unsigned most, unsigned *out);
/* Exactly so many words are left, and none that looks like an option; else it was told what is wanted. */
bool ctl_words(const struct ctl *c, int count, const char *wanted);

/* A call whose answer is shown. */
int ctl_call(const struct ctl *c, const char *method, const char *path, struct view body,
	     show_fn *shown_by);
/* A call whose answer is wanted: the tree of a 200 (cJSON_Delete). NULL: it was told why. */
struct cJSON *ctl_ask(const struct ctl *c, const char *method, const char *path, struct view body);
/* "PATH?NAME=VALUE" with the value encoded. NULL: no memory. (malloc'd.) */
char *ctl_path(const char *path, const char *name, const char *value);
/* Everything was written to standard output? Else told. */
int ctl_flush(int code);

/* --- commands -------------------------------------------------------------------------------------- */

typedef int ctl_command_fn(struct ctl *c);
ctl_command_fn ctl_purge, ctl_inspect, ctl_objects, ctl_status, ctl_store, ctl_top, ctl_config,
	ctl_reload, ctl_drain, ctl_resume;

#endif
