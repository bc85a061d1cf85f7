/*
 * Field lines: taking them apart, finding them again, and what Connection makes of them.
 *
 * A line is touched by two tight loops, one over its name and one over its value. Both stop at the line's CRLF, which the caller guarantees for the last line.
 * Fields are never moved or copied: those that must not travel further are marked.
 */
#include "edge/http/chars.h"
#include "edge/http/field.h"
#include "edge/http/parts.h"

#include <errno.h>

enum { CONNECTION_OPTIONS_MAX = 32 }; /* each may cost a walk over all fields */

#define BIT(id) (UINT64_C(1) << (id))
/* RFC 9110 §7.6.1, and what was invented for one hop since. */
static const uint64_t hop_by_hop = BIT(FIELD_CONNECTION) | BIT(FIELD_HTTP2_SETTINGS) |
				   BIT(FIELD_KEEP_ALIVE) | BIT(FIELD_PROXY_AUTHENTICATE) |
				   BIT(FIELD_PROXY_AUTHENTICATION_INFO) |
				   BIT(FIELD_PROXY_AUTHORIZATION) | BIT(FIELD_PROXY_CONNECTION) |
				   BIT(FIELD_TE) | BIT(FIELD_TRAILER) |
				   BIT(FIELD_TRANSFER_ENCODING) | BIT(FIELD_UPGRADE);

/* Dropping these would change what a message means or where it ends, or hide a loop: a request
 * that asks for it is refused, a response's wish is ignored. */
static const uint64_t never_named = BIT(FIELD_AUTHORIZATION) | BIT(FIELD_CACHE_CONTROL) |
				    BIT(FIELD_CDN_LOOP) | BIT(FIELD_CONTENT_LENGTH) |
				    BIT(FIELD_COOKIE) | BIT(FIELD_HOST) |
				    BIT(FIELD_TRANSFER_ENCODING) | BIT(FIELD_VIA);

/* --- finding */

static const struct http_field *next_kept(const struct http_fields *f, uint16_t i, enum http_field_id id)
{
	for (; i < f->count; i++) {
		if (f->at[i].id == id && !f->at[i].dropped)
			return &f->at[i];
	}
	return NULL;
}

const struct http_field *http_fields_first(const struct http_fields *f, enum http_field_id id)
{
	return http_fields_has(f, id) ? next_kept(f, 0, id) : NULL;
}

const struct http_field *http_fields_next(const struct http_fields *f, const struct http_field *after)
{
	return next_kept(f, (uint16_t)(after - f->at + 1), (enum http_field_id)after->id);
}

const struct http_field *http_fields_find(const struct http_fields *f, struct view name, uint16_t *at)
{
	for (uint16_t i = *at; i < f->count; i++) {
		if (f->at[i].dropped || !view_eq_nocase(f->at[i].name, name))
			continue;
		*at = i + 1;
		return &f->at[i];
	}
	*at = f->count;
	return NULL;
}

/* --- lines */

struct lines {
	const char *p, *end;
	const char *base; /* where «writable» begins, as the reader sees it */
	char *writable;
	bool scanned; /* there is no control character but HTAB, and no CR or LF but in a CRLF */
};

static const char *skip_blanks(const char *p)
{
	while (char_blank(*p))
		p++;
	return p;
}

/* The end of [p, end) without blanks. */
static const char *trim_end(const char *p, const char *end)
{
	while (end > p && char_blank(end[-1]))
		end--;
	return end;
}

/* The colon behind a name that ends at p, or NULL. */
static const char *colon(const struct lines *l, const char *p, enum http_fault *out_fault)
{
	const char *c = skip_blanks(p);

	if (*c != ':') {
		*out_fault = HTTP_BAD_FIELD;
		return NULL;
	}
	if (c != p && l->writable == NULL) {
		*out_fault = HTTP_SPACE_BEFORE_COLON;
		return NULL;
	}
	return c;
}

/* The CR of the line that p is in, or NULL. */
static const char *line_end(const struct lines *l, const char *p, enum http_fault *out_fault)
{
	const char *cr;

	if (l->scanned)
		return memchr(p, '\r', (size_t)(l->end - p));
	cr = char_next_control(p, l->end);

	if (cr < l->end && cr[0] == '\r' && cr[1] == '\n')
		return cr;
	*out_fault = cr < l->end && *cr != '\r' && *cr != '\n' ? HTTP_BAD_FIELD : HTTP_BARE_CR_LF;
	return NULL;
}

/* While the next line continues this one (obs-fold): make spaces of what lies between. */
static const char *unfold(const struct lines *l, const char *cr, enum http_fault *out_fault)
{
	while (cr != NULL && cr + 2 < l->end && char_blank(cr[2])) {
		const char *text = skip_blanks(cr + 2);
		memset(l->writable + (cr - l->base), ' ', (size_t)(text - cr));
		cr = line_end(l, text, out_fault);
	}
	return cr;
}

static enum http_fault line_parse(struct lines *l, struct http_field *out)
{
	enum http_fault fault = HTTP_OK;
	const char *p = l->p;

	while (char_is(*p, CHAR_TOKEN))
		p++;
	if (p == l->p)
		return char_blank(*p) ? HTTP_OBS_FOLD : HTTP_BAD_FIELD;
	struct view name = view_of(l->p, (size_t)(p - l->p));
	if (*p != ':' && (p = colon(l, p, &fault)) == NULL)
		return fault;

	const char *value = skip_blanks(p + 1);
	const char *cr = line_end(l, value, &fault);
	if (l->writable != NULL) {
		cr = unfold(l, cr, &fault);
		value = skip_blanks(value); /* the first line may have had none of it */
	}
	if (cr == NULL)
		return fault;
	l->p = cr + 2;
	*out = (struct http_field){
		.name = name,
		.value = view_of(value, (size_t)(trim_end(value, cr) - value)),
		.id = http_field_id(name),
	};
	return HTTP_OK;
}

enum http_fault http_lines_parse(struct http_fields *f, const char *p, const char *end,
				 char *writable, bool scanned, uint16_t most, uint64_t *out_all)
{
	struct lines l = { .p = p, .end = end, .base = p, .writable = writable, .scanned = scanned };
	uint64_t all = 0;

	f->count = 0;
	if (most > f->capacity)
		most = f->capacity;
	while (l.p < l.end) {
		if (f->count == most)
			return HTTP_HEAD_TOO_LARGE;
		struct http_field *field = &f->at[f->count];
		enum http_fault fault = line_parse(&l, field);
		if (fault != HTTP_OK)
			return fault;
		all |= BIT(field->id);
		field->dropped = (hop_by_hop >> field->id) & 1;
		f->count++;
	}
	f->seen = all & ~hop_by_hop;
	*out_all = all;
	return HTTP_OK;
}

int http_fields_parse(struct http_fields *f, const char *buf, size_t n)
{
	const char *end = buf + n;
	uint64_t all;

	f->count = 0;
	f->seen = 0;
	if (n == 0 || (n >= 2 && memcmp(buf, "\r\n", 2) == 0))
		return 0;
	const char *empty_line = memmem(buf, n, "\r\n\r\n", 4);
	if (empty_line != NULL)
		end = empty_line + 2;
	else if (n < 2 || memcmp(end - 2, "\r\n", 2) != 0)
		return -EINVAL;
	switch (http_lines_parse(f, buf, end, NULL, false, f->capacity, &all)) {
	case HTTP_OK:
		return 0;
	case HTTP_HEAD_TOO_LARGE:
		return -E2BIG;
	default:
		return -EINVAL;
	}
}

/* --- Connection */

static void drop_named(struct http_fields *f, struct view name, enum http_field_id id)
{
	for (uint16_t i = 0; i < f->count; i++) {
		struct http_field *field = &f->at[i];
		if (field->id == id && (id != FIELD_OTHER || view_eq_nocase(field->name, name)))
			field->dropped = true;
	}
	if (id != FIELD_OTHER)
		f->seen &= ~BIT(id);
}

static enum http_fault option_apply(struct http_fields *f, struct view option, enum http_message m,
				    struct http_connection *out)
{
	if (view_eq_nocase(option, VIEW("keep-alive"))) {
		out->keep_alive = true;
		return HTTP_OK;
	}
	if (view_eq_nocase(option, VIEW("close"))) {
		out->close = true;
		return HTTP_OK;
	}
	if (view_eq_nocase(option, VIEW("upgrade")))
		out->upgrade = true;
	enum http_field_id id = http_field_id(option);
	if ((never_named >> id) & 1)
		return m == MESSAGE_REQUEST ? HTTP_BAD_CONNECTION : HTTP_OK;
	if (m == MESSAGE_REQUEST && !http_token(option))
		return HTTP_BAD_CONNECTION;
	drop_named(f, option, id);
	return HTTP_OK;
}

enum http_fault http_connection(struct http_fields *f, enum http_message m, struct http_connection *out)
{
	unsigned options = 0;

	for (uint16_t i = 0; i < f->count; i++) {
		if (f->at[i].id != FIELD_CONNECTION)
			continue;
		struct view rest = f->at[i].value, option;
		while (http_list_next(&rest, &option)) {
			if (++options > CONNECTION_OPTIONS_MAX)
				return HTTP_BAD_CONNECTION;
			enum http_fault fault = option_apply(f, option, m, out);
			if (fault != HTTP_OK)
				return fault;
		}
	}
	return HTTP_OK;
}

bool http_persistent(const struct http_connection *c, uint8_t minor)
{
	return !c->close && (minor > 0 || c->keep_alive);
}
