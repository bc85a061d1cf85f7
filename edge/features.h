/* What this kernel can do for us, asked by trying. For «brim -V»; the program itself falls back where it must. */
#ifndef BRIM_EDGE_FEATURES_H
#define BRIM_EDGE_FEATURES_H

#include <stdbool.h>
#include <stddef.h>

#include "edge/base/check.h"

struct feature {
	const char *name;
	bool found;
	const char *without; /* what is done where it is missing */
};

enum { FEATURES_MAX = 16 };
/* Returns how many. */
size_t features_find(struct feature out[FEATURES_MAX]);

#endif
