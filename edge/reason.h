/* Status lines and their reason phrases (RFC 9110 §15), for people who read the wire. */
#ifndef BRIM_EDGE_REASON_H
#define BRIM_EDGE_REASON_H

#include <stdint.h>

#include "edge/base/view.h"

/* "HTTP/1.1 200 OK" and CRLF; empty for a status that has no registered phrase. */
struct view reason_status_line(uint16_t status);
/* "OK" for 200, "" for one that has none. */
struct view reason_phrase(uint16_t status);

#endif
