/* What a table of keys is written with; for the files that hold one (keys*.c). */
#ifndef BRIM_CONF_KEYS_TABLE_H
#define BRIM_CONF_KEYS_TABLE_H

#include "conf/keys.h"

#define MEMBER(type, member) \
	.offset = offsetof(struct type, member), .bytes = sizeof(((struct type *)0)->member)
/* Neighbours that one key sets: from the first to the end of the last. */
#define MEMBERS(type, first, last)                                                          \
	.offset = offsetof(struct type, first), .bytes = offsetof(struct type, last) +      \
							 sizeof(((struct type *)0)->last) - \
							 offsetof(struct type, first)
#define LATER(name)                                                                          \
	{                                                                                    \
		.path = name, .type = CONF_LATER, .doc = "not supported by this version yet" \
	}
#define SCOPE(keys_, type) .keys = keys_, .count = ARRAY_LEN(keys_), .bytes = sizeof(struct type)

#define DAY_MS (86400LL * 1000)
#define MIB (1LL << 20)

#endif
