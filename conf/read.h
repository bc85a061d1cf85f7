/* The last steps from a merged tree to the text that children build from. */
#ifndef BRIM_CONF_READ_H
#define BRIM_CONF_READ_H

#include "conf/fault.h"

struct cJSON;

/* Checks everything (the user too, where the process is root), resolves what depends on this machine
 * (workers), and prints. all: with the files that are named, after a look at them. -EINVAL: faults told; -ENOMEM. */
struct conf_finish {
	bool all;
	conf_look look; /* NULL: nobody */
};
int conf_read_finish(struct cJSON *tree, const struct conf_finish *how, const struct conf_places *places,
		     struct conf_faults *faults, char **out_text) NODISCARD;

#endif
