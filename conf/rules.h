/* Rules: what is derived from them when a snapshot is made. Requests use conf.h (conf_request_rules). */
#ifndef BRIM_CONF_RULES_H
#define BRIM_CONF_RULES_H

#include "conf/conf.h"

/* Gives cache what the rule sets. */
void conf_rule_apply(const struct conf_rule *rule, struct conf_cache *cache);
/* Does it, or its "not", ask for status or content type? */
bool conf_rule_asks_answer(const struct conf_rule *rule);

/* Gathers what requests would otherwise look for. -E2BIG: the rules can give a URL more than CONF_KEY_FORMS_MAX keys. */
int conf_rules_prepare(struct conf_site *s) NODISCARD;

#endif
