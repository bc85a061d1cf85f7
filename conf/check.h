/* What no single key can tell: how the parts fit together. */
#ifndef BRIM_CONF_CHECK_H
#define BRIM_CONF_CHECK_H

#include "conf/apply.h"

/* Tells faults; the reader stands at the root. Hosts are checked while their table is built. */
void conf_check(struct conf_reader *r);
/* Who serves TLS with which certificate; who may call the admin API, and where. */
void conf_check_tls(struct conf_reader *r);
void conf_check_admin(struct conf_reader *r);
/* Of one site, where the reader stands; fills what is derived from its rules. */
void conf_check_rules(struct conf_reader *r, struct conf_site *site);

#endif
