/*
 * A line is put together on the stack and leaves by one write(2): lines of several processes and
 * threads that share the file (opened with O_APPEND) don't mix, and nothing is lost in a buffer
 * when the process is killed. What is too long is cut. A log that can't be written is not an error
 * that anyone could be told of.
 */
#include "edge/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 2048, QUIET_MS = 60000 };

static struct {
	int fd;
	enum log_level level;
	char process[32];
} the_log = { .fd = STDERR_FILENO, .level = LOG_LEVEL_INFO, .process = "brim" };

static const char *const level_names[] = { "error", "warn", "info", "debug" };

static size_t put_prefix(char *line, enum log_level level, const char *event);

void log_name(const char *process)
{
	(void)snprintf(the_log.process, sizeof(the_log.process), "%s", process);
}

void log_to(int fd, enum log_level level)
{
	the_log.fd = fd;
	the_log.level = level;
}

void log_level_set(enum log_level level)
{
	the_log.level = level;
}

void log_write(enum log_level level, const char *event, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list args;

	if (level > the_log.level)
		return;
	size_t used = put_prefix(line, level, event);
	va_start(args, format);
	int n = vsnprintf(line + used, sizeof(line) - used, format, args);
	va_end(args);
	if (n > 0)
		used += (size_t)n;
	if (used > sizeof(line) - 1)
		used = sizeof(line) - 1;
	line[used++] = '\n';
	if (write(the_log.fd, line, used) < 0)
		return;
}

bool log_due(struct mono *told)
{
	struct mono now = clock_mono();

	if (told->ms != 0 && now.ms - told->ms < QUIET_MS)
		return false;
	*told = now;
	return true;
}

const char *log_quote(const char *bytes, size_t n, char *out, size_t out_bytes)
{
	char *at = out, *end = out + out_bytes - 2; /* room for the last quote and NUL */

	CHECK(out_bytes >= 3);
	*at++ = '"';
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)bytes[i];
		if (c < 0x20 || c == 0x7f) {
			if (end - at < 4)
				break;
			at += snprintf(at, 5, "\\x%02x", c);
			continue;
		}
		bool escaped = c == '"' || c == '\\';
		if (end - at < (escaped ? 2 : 1))
			break;
		if (escaped)
			*at++ = '\\';
		*at++ = (char)c;
	}
	*at++ = '"';
	*at = '\0';
	return out;
}

/* «2026-01-31T12:00:00.123Z warn worker/3 event »; always shorter than a line. */
static size_t put_prefix(char *line, enum log_level level, const char *event)
{
	struct wall now = clock_wall();
	time_t seconds = (time_t)(now.ms / 1000);
	struct tm tm;
	char date[32];

	(void)gmtime_r(&seconds, &tm);
	(void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	int n = snprintf(line, LINE_BYTES / 2, "%s.%03dZ %s %s %.64s ", date, (int)(now.ms % 1000),
			 level_names[level], the_log.process, event);
	return n > 0 ? (size_t)n : 0;
}
