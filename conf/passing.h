/* Request fields that are held back (conf_passes). */
#ifndef BRIM_CONF_PASSING_H
#define BRIM_CONF_PASSING_H

#include "conf/conf.h"

/* Would it be, were it listed nowhere? */
bool conf_held_back(struct view name);

#endif
