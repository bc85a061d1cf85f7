/*
 * The error log: one event a line, «time level process event key=value …».
 * Lower layers return errors; edge and the keeper's loop log once, with the cause.
 * A line never holds credentials, cookies or query strings.
 */
#ifndef BRIM_BASE_LOG_H
#define BRIM_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "edge/base/check.h"
#include "edge/base/clock.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* The name that stands in each line: "master", "worker/3", "keeper". Copied. */
void log_name(const char *process);
void log_to(int fd, enum log_level level);
void log_level_set(enum log_level level);

/* «event» is a lower-case word or two with underscores; format gives «key=value key=value».
 * Values with spaces or quotes go through log_quote. */
void log_write(enum log_level level, const char *event, const char *format, ...) PRINTF_LIKE(3, 4);
#define log_error(event, ...) log_write(LOG_LEVEL_ERROR, event, __VA_ARGS__)
#define log_warn(event, ...) log_write(LOG_LEVEL_WARN, event, __VA_ARGS__)
#define log_info(event, ...) log_write(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_debug(event, ...) log_write(LOG_LEVEL_DEBUG, event, __VA_ARGS__)

/* For what peers can make happen as often as they like: true at most once a minute, when it notes the time in *told (zero at
 * first). */
bool log_due(struct mono *told);

/* v in double quotes, control characters escaped, cut to fit. Returns out. */
const char *log_quote(const char *bytes, size_t n, char *out, size_t out_bytes);

#endif
