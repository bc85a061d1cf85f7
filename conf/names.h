/* The table of hosts: built once per snapshot, looked up for every request (conf_site_for). */
#ifndef BRIM_CONF_NAMES_H
#define BRIM_CONF_NAMES_H

#include "conf/apply.h"

/* Sets conf->names; a host that two sites have is a fault. */
void conf_names_build(struct conf_reader *r);

#endif
