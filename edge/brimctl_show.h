/* The admin API's answers as text for people. */
#ifndef BRIM_EDGE_BRIMCTL_SHOW_H
#define BRIM_EDGE_BRIMCTL_SHOW_H

#include <stdio.h>

struct cJSON;

typedef void show_fn(const struct cJSON *answer, FILE *to);
show_fn show_status, show_stores, show_object, show_listed, show_config, show_check, show_reload,
	show_drain;

/* "1.5 MiB" */
void show_size(double bytes, FILE *to);

/* Strings from elsewhere, with what would move a terminal's cursor replaced. */
void show_text(const char *text, FILE *to);
/* The same, cut or filled to so many columns. */
void show_padded(const char *text, int columns, FILE *to);

#endif
