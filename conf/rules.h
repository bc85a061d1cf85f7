/* Rules: changing a copy of the site's cache settings. The lookup is in conf.h (conf_cache_for). */
#ifndef BRIM_CONF_RULES_H
#define BRIM_CONF_RULES_H

#include "conf/conf.h"

/* Gives cache what the rule sets. */
void conf_rule_apply(const struct conf_rule *rule, struct conf_cache *cache);

#endif
