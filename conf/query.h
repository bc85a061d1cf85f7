/* A query's parameters. Pure. */
#ifndef BRIM_CONF_QUERY_H
#define BRIM_CONF_QUERY_H

#include "conf/conf.h"

/* query: with its "?", or empty. What conf_query_next goes through. */
struct view conf_query_begin(struct view query);
/* The next parameter, which may be empty; *rest is moved. False: none left. */
bool conf_query_next(struct view *rest, struct view *out_parameter);
/* What stands before its first "=". */
struct view conf_query_name(struct view parameter);

#endif
