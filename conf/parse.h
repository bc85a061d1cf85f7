/* One file's text to a tree. Only conf's own .c files see what a tree is (cJSON). */
#ifndef BRIM_CONF_PARSE_H
#define BRIM_CONF_PARSE_H

#include "conf/conf.h"

struct cJSON;

enum {
	CONF_TEXT_BYTES_MAX = 16 << 20, /* of a file */
	CONF_MERGED_BYTES_MAX = 128 << 20, /* of all of them, with what the files hold that they name */
};

/*
 * JSON with comments, strictly. -EINVAL: a fault is told, «SOURCE:LINE:COLUMN: …»; -ENOMEM.
 * The tree is the caller's (cJSON_Delete).
 */
int conf_parse(struct view text, const char *source, struct conf_faults *faults,
	       struct cJSON **out_tree) NODISCARD;

#endif
