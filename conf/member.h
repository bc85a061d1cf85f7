/* Plain members of a struct: one value of the tree into one place. */
#ifndef BRIM_CONF_MEMBER_H
#define BRIM_CONF_MEMBER_H

#include "conf/apply.h"

/* The key's type is one of those that hold no further keys. A wrong value is told and not stored. */
void conf_member_apply(struct conf_reader *r, const struct conf_key *key, const struct cJSON *value,
		       void *member);

#endif
