/* Fills inside the cache: the timer's side of waiting for room. */
#ifndef BRIM_CACHE_FILL_H
#define BRIM_CACHE_FILL_H

#include "cache/process.h"

/* Wakes all fills that wait for room. */
void fill_wake_slow(struct cache *c);

#endif
