/*
 * Lines are put together by hand: at some hundred thousand a second, printf would cost more than a
 * hit's system calls. Each piece of a line has a bound of its own, and the bounds add up to less than
 * a line's, so that nothing in here checks for room twice.
 *
 * write(2) goes to the page cache and returns at once unless the disk is far behind. A thread or a
 * ring would keep even that out of the loop; neither has been worth its shutdown path so far. What can't
 * be written (disk full) is lost and counted, never kept: requests don't wait for their log.
 */
#include "edge/access_log.h"

#include "edge/base/json.h"
#include "edge/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ACCESS_BUFFER_BYTES = 64 * 1024, ACCESS_LOG_MAGIC = 0x61636c67 };

/* Bounds of pieces, in bytes as written. */
enum {
	REQUEST_ID_MAX = 256,
	CLIENT_MAX = 128,
	SITE_MAX = 256,
	METHOD_MAX = 64,
	HOST_MAX = 512,
	PATH_MAX_BYTES = 4096,
	PROTOCOL_MAX = 32,
	CACHE_MAX = 64,
	ORIGIN_MAX = 512,
	TLS_MAX = 64,
	ERROR_MAX = 256,
	AGENT_MAX = 1400, /* also of the referer */
	REST_MAX = 512,	  /* keys, quotes, numbers, times */
};
_Static_assert(REQUEST_ID_MAX + CLIENT_MAX + SITE_MAX + METHOD_MAX + HOST_MAX + PATH_MAX_BYTES +
			       PROTOCOL_MAX + CACHE_MAX + ORIGIN_MAX + TLS_MAX + ERROR_MAX + REST_MAX <=
		       ACCESS_LINE_MAX,
	       "a JSON line fits");
_Static_assert(CLIENT_MAX + METHOD_MAX + PATH_MAX_BYTES + PROTOCOL_MAX + 2 * AGENT_MAX + REST_MAX <=
		       ACCESS_LINE_MAX,
	       "a combined line fits");

struct access_log {
	uint32_t magic;
	int fd;
	bool combined;
	bool failing; /* the last write went wrong */
	bool torn;    /* and left half a line in the file */
	uint64_t lost_bytes;
	int64_t second; /* that time_text is for */
	char time_text[40];
	size_t time_bytes;
	size_t n; /* in buffer: whole lines */
	char buffer[ACCESS_BUFFER_BYTES];
};

/* A line in the making. */
struct line {
	char *p;
	size_t n;
};

static void write_json(struct access_log *l, const struct access_entry *e, struct line *line);
static void write_combined(struct access_log *l, const struct access_entry *e, struct line *line);
static void write_out(struct access_log *l);

struct access_log *access_log_new(int fd, bool combined)
{
	struct access_log *l = malloc(sizeof(*l)); /* its buffer's pages come when they are written */

	if (l == NULL)
		return NULL;
	memset(l, 0, offsetof(struct access_log, buffer));
	l->magic = ACCESS_LOG_MAGIC;
	l->fd = fd;
	l->combined = combined;
	l->second = INT64_MIN;
	return l;
}

void access_log_free(struct access_log *l)
{
	if (l == NULL)
		return;
	access_log_use_fd(l, -1);
	l->magic = 0;
	free(l);
}

bool access_log_wanted(const struct access_log *l)
{
	return l->fd >= 0;
}

void access_log_write(struct access_log *l, const struct access_entry *e)
{
	CHECK_MAGIC(l, ACCESS_LOG_MAGIC);
	if (l->fd < 0)
		return;
	if (sizeof(l->buffer) - l->n < ACCESS_LINE_MAX)
		access_log_flush(l);
	struct line line = { l->buffer + l->n, 0 };
	if (l->combined)
		write_combined(l, e, &line);
	else
		write_json(l, e, &line);
	CHECK(line.n <= ACCESS_LINE_MAX);
	l->n += line.n;
}

void access_log_flush(struct access_log *l)
{
	CHECK_MAGIC(l, ACCESS_LOG_MAGIC);
	if (l->n > 0)
		write_out(l);
	l->n = 0;
}

void access_log_use_fd(struct access_log *l, int fd)
{
	access_log_flush(l);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = fd;
	l->failing = l->torn = false;
	l->lost_bytes = 0;
}

void access_log_use_format(struct access_log *l, bool combined)
{
	l->combined = combined;
	l->second = INT64_MIN;
}

/* --- the file ------------------------------------------------------------------------------ */

/* All of it, or a negative errno; *out_written in either case. */
static int write_all(int fd, const char *p, size_t n, size_t *out_written)
{
	size_t done = 0;
	int r = 0;

	while (done < n && r == 0) {
		ssize_t wrote = write(fd, p + done, n - done);
		if (wrote > 0)
			done += (size_t)wrote;
		else if (wrote == 0)
			r = -EIO;
		else if (errno != EINTR)
			r = -errno;
	}
	*out_written = done;
	return r;
}

static void failed(struct access_log *l, int error)
{
	char quoted[128];
	const char *text = strerror(-error);

	if (!l->failing)
		log_error("access_log_failed", "error=%s",
			  log_quote(text, strlen(text), quoted, sizeof(quoted)));
	l->failing = true;
}

static void write_out(struct access_log *l)
{
	size_t written = 0;
	int r = 0;

	/* Half a line ends here, so that it spoils no other. */
	if (l->torn)
		r = write_all(l->fd, "\n", 1, &written);
	if (r == 0) {
		r = write_all(l->fd, l->buffer, l->n, &written);
		l->torn = written > 0 && l->buffer[written - 1] != '\n';
	}
	if (r < 0) {
		l->lost_bytes += l->n - written;
		failed(l, r);
		return;
	}
	if (l->failing)
		log_warn("access_log_resumed", "lost_bytes=%llu", (unsigned long long)l->lost_bytes);
	l->failing = false;
	l->lost_bytes = 0;
}

/* --- pieces --------------------------------------------------------------------------------- */

static void put(struct line *line, struct view v)
{
	memcpy(line->p + line->n, v.p, v.n);
	line->n += v.n;
}

static void put_number(struct line *line, uint64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	put(line, view_of(digits + at, sizeof(digits) - at));
}

/* A number of exactly three digits. */
static void put_thousandths(struct line *line, unsigned number)
{
	char digits[] = { (char)('0' + number / 100), (char)('0' + number / 10 % 10),
			  (char)('0' + number % 10) };

	put(line, view_of(digits, sizeof(digits)));
}

static void put_ms(struct line *line, int64_t us)
{
	if (us < 0) {
		put(line, VIEW("null"));
		return;
	}
	put_number(line, (uint64_t)us / 1000);
	put(line, VIEW("."));
	put_thousandths(line, (unsigned)(us % 1000));
}

/* json_escape or combined_escape. */
typedef size_t escape_fn(struct view v, char *out, size_t capacity, size_t *out_taken);

/* At most «most» bytes; what is cut ends in dots. */
static void put_escaped(struct line *line, struct view v, size_t most, escape_fn *escape)
{
	size_t taken, n = escape(v, line->p + line->n, most, &taken);

	if (taken < v.n) {
		n = escape(v, line->p + line->n, most - 3, &taken);
		memcpy(line->p + line->n + n, "...", 3);
		n += 3;
	}
	line->n += n;
}

/* Up to the second: the same for thousands of lines. */
static void put_time(struct access_log *l, struct line *line, int64_t second)
{
	if (second != l->second) {
		struct tm parts = { 0 };
		time_t time = (time_t)second;
		gmtime_r(&time, &parts);
		l->time_bytes = strftime(l->time_text, sizeof(l->time_text),
					 l->combined ? "%d/%b/%Y:%H:%M:%S" : "%Y-%m-%dT%H:%M:%S",
					 &parts);
		l->second = second;
	}
	put(line, view_of(l->time_text, l->time_bytes));
}

/* --- JSON ----------------------------------------------------------------------------------- */

/* key: with quotes, colon and what goes before it. */
static void put_member(struct line *line, struct view key, struct view value, size_t most)
{
	put(line, key);
	put(line, VIEW("\""));
	put_escaped(line, value, most, json_escape);
	put(line, VIEW("\""));
}

static void write_json(struct access_log *l, const struct access_entry *e, struct line *line)
{
	int64_t ms = e->time.ms > 0 ? e->time.ms : 0;

	put(line, VIEW("{\"time\":\""));
	put_time(l, line, ms / 1000);
	put(line, VIEW("."));
	put_thousandths(line, (unsigned)(ms % 1000));
	put(line, VIEW("Z\""));
	put_member(line, VIEW(",\"request_id\":"), e->request_id, REQUEST_ID_MAX);
	put_member(line, VIEW(",\"client\":"), e->client, CLIENT_MAX);
	put_member(line, VIEW(",\"site\":"), e->site, SITE_MAX);
	put_member(line, VIEW(",\"method\":"), e->method, METHOD_MAX);
	put_member(line, VIEW(",\"host\":"), e->host, HOST_MAX);
	put_member(line, VIEW(",\"path\":"), e->path, PATH_MAX_BYTES);
	put_member(line, VIEW(",\"protocol\":"), e->protocol, PROTOCOL_MAX);
	put(line, VIEW(",\"status\":"));
	put_number(line, e->status);
	put(line, VIEW(",\"bytes\":"));
	put_number(line, e->bytes);
	put_member(line, VIEW(",\"cache\":"), e->cache, CACHE_MAX);
	put(line, VIEW(",\"ttfb_ms\":"));
	put_ms(line, e->ttfb_us);
	put(line, VIEW(",\"duration_ms\":"));
	put_ms(line, e->duration_us);
	put_member(line, VIEW(",\"origin\":"), e->origin, ORIGIN_MAX);
	put(line, VIEW(",\"origin_ms\":"));
	put_ms(line, e->origin_us);
	put_member(line, VIEW(",\"tls\":"), e->tls, TLS_MAX);
	put_member(line, VIEW(",\"error\":"), e->error, ERROR_MAX);
	put(line, VIEW("}\n"));
}

/* --- Apache's combined format ------------------------------------------------------------------ */

/* As Apache does: a backslash before quotes and backslashes, \xHH for all that isn't printable ASCII. */
static size_t combined_escape(struct view v, char *out, size_t capacity, size_t *out_taken)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = 0, i = 0;

	for (; i < v.n; i++) {
		uint8_t c = (uint8_t)v.p[i];
		bool printable = c >= 0x20 && c < 0x7f, quoted = c == '"' || c == '\\';
		size_t bytes = !printable ? 4 : quoted ? 2 : 1;
		if (bytes > capacity - n)
			break;
		if (bytes > 1)
			out[n++] = '\\';
		if (printable) {
			out[n++] = (char)c;
			continue;
		}
		out[n++] = 'x';
		out[n++] = digits[c >> 4];
		out[n++] = digits[c & 15];
	}
	*out_taken = i;
	return n;
}

static void put_or_dash(struct line *line, struct view v, size_t most)
{
	put_escaped(line, v.n > 0 ? v : VIEW("-"), most, combined_escape);
}

static void write_combined(struct access_log *l, const struct access_entry *e, struct line *line)
{
	put_or_dash(line, e->client, CLIENT_MAX);
	put(line, VIEW(" - - ["));
	put_time(l, line, e->time.ms / 1000);
	put(line, VIEW(" +0000] \""));
	put_escaped(line, e->method, METHOD_MAX, combined_escape);
	put(line, VIEW(" "));
	put_escaped(line, e->path, PATH_MAX_BYTES, combined_escape);
	put(line, VIEW(" "));
	put_escaped(line, e->protocol, PROTOCOL_MAX, combined_escape);
	put(line, VIEW("\" "));
	put_number(line, e->status);
	put(line, VIEW(" "));
	put_number(line, e->bytes);
	put(line, VIEW(" \""));
	put_or_dash(line, e->referer, AGENT_MAX);
	put(line, VIEW("\" \""));
	put_or_dash(line, e->user_agent, AGENT_MAX);
	put(line, VIEW("\"\n"));
}
