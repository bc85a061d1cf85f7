/*
 * Are the certificates, keys, OCSP responses and CAs of a configuration fit to be served? Asked by the master of every
 * configuration that it reads (-t, start, reload), before any process has it.
 */
#ifndef BRIM_EDGE_TLS_CHECK_H
#define BRIM_EDGE_TLS_CHECK_H

#include "conf/fault.h"

/* Tells faults, and warns of what will be one soon. The contents may be anything. */
void tls_check(const struct conf *c, const struct conf_places *places, struct conf_faults *faults);

#endif
