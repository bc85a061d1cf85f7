/* The error log's lines about the admin API: who changed what, and who was refused. */
#ifndef BRIM_EDGE_ADMIN_AUDIT_H
#define BRIM_EDGE_ADMIN_AUDIT_H

#include "edge/admin_call.h"

/* A call that changes something has its answer, or lost its client (whatever it began goes on). */
void admin_audit_change(const struct admin_call *c);
void admin_audit_left(const struct admin_call *c);
/* 401, 403, 421. At most a line a second: anybody who reaches the port can cause them. */
void admin_audit_refused(struct admin_call *c);

#endif
