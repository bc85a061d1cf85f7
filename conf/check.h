/* What no single key can tell: how the parts fit together. */
#ifndef BRIM_CONF_CHECK_H
#define BRIM_CONF_CHECK_H

#include "conf/apply.h"

/* Tells faults; the reader stands at the root. Hosts are checked while their table is built. */
void conf_check(struct conf_reader *r);

#endif
