/* The log files: opened by the master, handed to the children as descriptors. */
#ifndef BRIM_EDGE_LOGS_H
#define BRIM_EDGE_LOGS_H

#include "conf/conf.h"

struct logs {
	int access_fd; /* -1: no access log */
	int error_fd;
};
#define LOGS_NONE ((struct logs){ -1, -1 })

/* Both as the configuration says; "stderr" and "stdout" are copies of ours. -errno: the fault is told. */
int logs_open(const struct conf *c, struct conf_faults *faults, struct logs *out) NODISCARD;
void logs_close(struct logs *l);
/* From now on this process's error log is that one. */
void logs_use(const struct logs *l, const struct conf *c);

#endif
