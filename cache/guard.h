/*
 * Faults under a map, caught: a disk that fails or a file that somebody cuts off turns reading a mapped page into
 * SIGBUS; a damaged page of LMDB's sends it to any address (SIGSEGV).
 *
 * What the call held at that moment (locks, memory, half-changed state) is lost: its objects must never be touched or
 * closed again. So only for what can be thrown away as a whole, as the index can.
 */
#ifndef BRIM_CACHE_GUARD_H
#define BRIM_CACHE_GUARD_H

#include "edge/base/check.h"

/* Once in a process, before the first call. Faults outside a call go to whoever handled them before. */
void guard_install(void);
/* What fn returns, or -EFAULT. Not nested; other threads are not concerned. */
typedef int guard_fn(void *arg);
int guard_call(guard_fn *fn, void *arg) NODISCARD;

#endif
