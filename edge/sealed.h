/*
 * A text in a sealed memfd: what the master hands to children. Once sealed nobody, not even the master,
 * can change or shorten it, so a child may trust its length while it reads.
 */
#ifndef BRIM_EDGE_SEALED_H
#define BRIM_EDGE_SEALED_H

#include "edge/base/check.h"
#include "edge/base/view.h"

/* A descriptor (close-on-exec) or a negative errno. */
int sealed_write(const char *name, struct view text) NODISCARD;
/* malloc'd, with a NUL behind it. Refuses what is not sealed (-EPERM). 0 or a negative errno. */
int sealed_read(int fd, char **out_text, size_t *out_bytes) NODISCARD;

#endif
