/* Reason phrases (RFC 9110 §15), for people who read the wire. */
#ifndef BRIM_EDGE_REASON_H
#define BRIM_EDGE_REASON_H

#include <stdint.h>

/* "OK" for 200; "" for one that has no registered phrase. */
const char *reason_phrase(uint16_t status);

#endif
