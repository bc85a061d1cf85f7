/* The admin API's answers as text for people. */
#ifndef BRIM_EDGE_BRIMCTL_SHOW_H
#define BRIM_EDGE_BRIMCTL_SHOW_H

#include <stdio.h>

struct cJSON;

typedef void show_fn(const struct cJSON *answer, FILE *to);
show_fn show_purge, show_status, show_object, show_config, show_check, show_reload;

/* Strings from elsewhere, with what would move a terminal's cursor replaced. */
void show_text(const char *text, FILE *to);

#endif
