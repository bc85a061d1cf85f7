/* Slots in the shared pages: read from the merged text, or in order where it has none. */
#ifndef BRIM_CONF_SLOTS_H
#define BRIM_CONF_SLOTS_H

#include "conf/apply.h"

#define CONF_SLOTS_MEMBER "x-slots"

/* slots: the text's member, or NULL. The reader stands at the root. */
void conf_slots_read(struct conf_reader *r, const struct cJSON *slots);

#endif
