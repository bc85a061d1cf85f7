/* A configuration that is being checked for a call of the admin API; see admin_check.c. */
#ifndef BRIM_EDGE_ADMIN_CHECK_H
#define BRIM_EDGE_ADMIN_CHECK_H

struct admin;

/* The admin API ends; what is under way goes on by itself, and ends with the loop. */
void admin_check_forget(struct admin *a);

#endif
