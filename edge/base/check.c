/*
 * Where a broken assertion ends: one line in the error log, then abort(), so that the master sees
 * a signal and a core file can be had. Nothing is cleaned up: what is broken must not be touched.
 */
#include "edge/base/check.h"

#include <stdlib.h>

#include "edge/base/log.h"

_Noreturn void check_failed(const char *file, int line, const char *what)
{
	char quoted[256];

	log_error("check_failed", "at=%s:%d what=%s", file, line,
		  log_quote(what, __builtin_strlen(what), quoted, sizeof(quoted)));
	abort();
}
