/* Request heads of HTTP/2; see h2_head.h. */
#include "edge/h2_head.h"

#include <errno.h>
#include <stdlib.h>

#include "edge/http/chars.h"
#include "edge/http/field.h"
#include "edge/http/sf.h"
#include "edge/http/uri.h"

enum {
	BYTES_FIRST = 512,
	FIELD_OVERHEAD = 32, /* RFC 9113 §6.5.2 */
	ADDED_FIELDS = 2,    /* Host and the joined Cookie */
};

/* --- bytes that grow --------------------------------------------------------------------------- */

/* By a quarter: memory that isn't used counts, too. */
static int make_room(struct h2_bytes *b, size_t n)
{
	size_t capacity = b->capacity + b->capacity / 4;
	char *grown;

	if (n <= b->capacity - b->n)
		return 0;
	if (capacity < b->n + n)
		capacity = b->n + n;
	if (capacity < BYTES_FIRST)
		capacity = BYTES_FIRST;
	grown = realloc(b->p, capacity);
	if (grown == NULL)
		return -ENOMEM;
	b->p = grown;
	b->capacity = capacity;
	return 0;
}

static void put(struct h2_bytes *b, struct view v)
{
	if (v.n > 0)
		memcpy(b->p + b->n, v.p, v.n);
	b->n += v.n;
}

int h2_bytes_add(struct h2_bytes *b, const void *p, size_t n)
{
	if (make_room(b, n) != 0)
		return -ENOMEM;
	put(b, view_of(p, n));
	return 0;
}

void h2_bytes_free(struct h2_bytes *b)
{
	free(b->p);
	*b = (struct h2_bytes){ 0 };
}

static int add_view(struct h2_bytes *b, struct view v)
{
	return h2_bytes_add(b, v.p, v.n);
}

enum { LINE_VIEWS = 4 };
static int add_views(struct h2_bytes *b, const struct view v[LINE_VIEWS])
{
	if (make_room(b, v[0].n + v[1].n + v[2].n + v[3].n) != 0)
		return -ENOMEM;
	for (unsigned i = 0; i < LINE_VIEWS; i++)
		put(b, v[i]);
	return 0;
}

/* --- beginning and end --------------------------------------------------------------------------- */

void h2_head_begin(struct h2_head *h, const struct http_limits *limits)
{
	struct h2_head kept = {
		.limits = *limits, .text = h->text, .aside = h->aside, .cookies = h->cookies
	};

	kept.text.n = kept.aside.n = kept.cookies.n = 0;
	*h = kept;
}

void h2_head_free(struct h2_head *h)
{
	h2_bytes_free(&h->text);
	h2_bytes_free(&h->aside);
	h2_bytes_free(&h->cookies);
}

void h2_block_free(struct h2_block *b)
{
	free(b->p);
	*b = (struct h2_block){ 0 };
}

size_t h2_head_bytes(const struct h2_head *h)
{
	return h->text.capacity + h->aside.capacity + h->cookies.capacity;
}

/* --- fields, one by one ----------------------------------------------------------------------------- */

/* Nothing may have been put aside yet. */
static struct view aside(const struct h2_head *h, uint32_t at, uint32_t n)
{
	return n > 0 ? view_of(h->aside.p + at, n) : (struct view){ 0 };
}

static struct view pseudo_value(const struct h2_head *h, enum h2_pseudo which)
{
	return aside(h, h->pseudo[which].at, h->pseudo[which].n);
}

/* No control character, and no blank at an end: nothing that could be read as more than one value (RFC 9113 §8.2.1). */
static bool value_valid(struct view v)
{
	if (v.n == 0)
		return true;
	return char_next_control(v.p, v.p + v.n) == v.p + v.n && !char_blank(v.p[0]) &&
	       !char_blank(v.p[v.n - 1]);
}

static bool name_valid(struct view name)
{
	for (size_t i = 0; i < name.n; i++)
		if (!char_is(name.p[i], CHAR_TOKEN) || char_lower(name.p[i]) != name.p[i])
			return false;
	return name.n > 0;
}

/* RFC 9113 §8.2.2. */
static bool connection_specific(enum http_field_id id, struct view value)
{
	switch (id) {
	case FIELD_CONNECTION:
	case FIELD_KEEP_ALIVE:
	case FIELD_PROXY_CONNECTION:
	case FIELD_TRANSFER_ENCODING:
	case FIELD_UPGRADE:
		return true;
	case FIELD_TE:
		return !view_eq_nocase(value, VIEW("trailers"));
	default:
		return false;
	}
}

static int add_pseudo(struct h2_head *h, struct view name, struct view value)
{
	static const struct view names[H2_PSEUDOS] = {
		[H2_METHOD] = VIEW(":method"), [H2_SCHEME] = VIEW(":scheme"), [H2_AUTHORITY] = VIEW(":authority"), [H2_PATH] = VIEW(":path")
	};
	unsigned which = 0;

	while (which < H2_PSEUDOS && !view_eq(name, names[which]))
		which++;
	if (which == H2_PSEUDOS || h->pseudo[which].given || h->began)
		return -EPROTO;
	h->pseudo[which].given = true;
	h->pseudo[which].at = (uint32_t)h->aside.n;
	h->pseudo[which].n = (uint32_t)value.n;
	return add_view(&h->aside, value);
}

static bool connects(const struct h2_head *h)
{
	return view_eq(pseudo_value(h, H2_METHOD), VIEW("CONNECT"));
}

/* In origin-form, or «*»: no absolute form, which would name another host. */
static bool path_valid(struct view path)
{
	return view_eq(path, VIEW("*")) || (path.n > 0 && path.p[0] == '/');
}

/* RFC 9113 §8.3.1, §8.5. */
static bool pseudo_complete(const struct h2_head *h)
{
	bool connect;

	if (!h->pseudo[H2_METHOD].given || !http_token(pseudo_value(h, H2_METHOD)))
		return false;
	connect = connects(h);
	if (h->pseudo[H2_SCHEME].given == connect || h->pseudo[H2_PATH].given == connect)
		return false;
	return connect ? h->pseudo[H2_AUTHORITY].given : path_valid(pseudo_value(h, H2_PATH));
}

/* Pseudo fields come first: they are all there now. */
static int begin_lines(struct h2_head *h)
{
	struct view target;

	h->began = true;
	if (!pseudo_complete(h))
		return -EPROTO;
	target = pseudo_value(h, connects(h) ? H2_AUTHORITY : H2_PATH);
	return add_views(&h->text, (const struct view[]){ pseudo_value(h, H2_METHOD), VIEW(" "),
							  target, VIEW(" HTTP/1.1\r\n") });
}

static int add_line(struct h2_head *h, struct view name, struct view value)
{
	return add_views(&h->text, (const struct view[]){ name, VIEW(": "), value, VIEW("\r\n") });
}

/* RFC 9113 §8.2.3: one line is made of them, at the end. */
static int add_cookie(struct h2_head *h, struct view value)
{
	if (h->has_cookie && add_view(&h->cookies, VIEW("; ")) != 0)
		return -ENOMEM;
	h->has_cookie = true;
	return add_view(&h->cookies, value);
}

/* Which host counts is seen at the end. One that comes again gets a line of its own, and is a fault there. */
static int add_host(struct h2_head *h, struct view value)
{
	if (h->host.given)
		return add_line(h, VIEW("host"), value);
	h->host.given = true;
	h->host.at = (uint32_t)h->aside.n;
	h->host.n = (uint32_t)value.n;
	return add_view(&h->aside, value);
}

static int add_regular(struct h2_head *h, struct view name, struct view value)
{
	enum http_field_id id = http_field_id(name);
	int r = 0;

	if (!name_valid(name) || connection_specific(id, value))
		return -EPROTO;
	if (!h->began)
		r = begin_lines(h);
	if (r != 0)
		return r;
	h->count++;
	if (id == FIELD_COOKIE)
		return add_cookie(h, value);
	if (id == FIELD_HOST)
		return add_host(h, value);
	return add_line(h, name, value);
}

int h2_head_add(struct h2_head *h, struct view name, struct view value)
{
	h->list_bytes += name.n + value.n + FIELD_OVERHEAD;
	if (h->list_bytes > h->limits.head_bytes || h->count >= h->limits.fields)
		h->too_large = true;
	if (h->too_large)
		return 0;
	if (!value_valid(value))
		return -EPROTO;
	if (name.n > 0 && name.p[0] == ':')
		return add_pseudo(h, name, value);
	return add_regular(h, name, value);
}

/* --- all are there ---------------------------------------------------------------------------------- */

static bool same_authority(struct view a, struct view b, struct view scheme)
{
	char name_a[URI_HOST_MAX + 1], name_b[URI_HOST_MAX + 1];
	size_t n_a, n_b;
	uint16_t port_a, port_b, usual = view_eq(scheme, VIEW("https")) ? 443 : 80;

	if (uri_authority(a, name_a, &n_a, &port_a) != 0 || uri_authority(b, name_b, &n_b, &port_b) != 0)
		return false;
	return view_eq(view_of(name_a, n_a), view_of(name_b, n_b)) &&
	       (port_a == 0 ? usual : port_a) == (port_b == 0 ? usual : port_b);
}

/* RFC 9113 §8.3.1: «:authority» replaces Host, which must say the same. */
static int end_host(struct h2_head *h, enum http_fault *out_fault)
{
	struct view host = aside(h, h->host.at, h->host.n);
	bool named = h->pseudo[H2_AUTHORITY].given;

	if (!named && !h->host.given)
		return 0;
	if (named && h->host.given &&
	    !same_authority(pseudo_value(h, H2_AUTHORITY), host, pseudo_value(h, H2_SCHEME)))
		*out_fault = HTTP_BAD_HOST;
	return add_line(h, VIEW("host"), named ? pseudo_value(h, H2_AUTHORITY) : host);
}

static int end_lines(struct h2_head *h, enum http_fault *out_fault)
{
	int r = h->began ? 0 : begin_lines(h);

	if (r == 0)
		r = end_host(h, out_fault);
	if (r == 0 && h->has_cookie)
		r = add_line(h, VIEW("cookie"), view_of(h->cookies.p, h->cookies.n));
	return r == 0 ? add_view(&h->text, VIEW("\r\n")) : r;
}

/* Room for all fields and the text. */
static int make_block(const struct h2_head *h, struct h2_block *b, uint16_t *out_fields)
{
	uint16_t fields = (uint16_t)(h->count + ADDED_FIELDS);
	size_t bytes = fields * sizeof(struct http_field) + h->text.n;

	if (b->capacity < bytes) {
		h2_block_free(b);
		b->p = malloc(bytes);
		if (b->p == NULL)
			return -ENOMEM;
		b->capacity = bytes;
	}
	*out_fields = fields;
	return 0;
}

static bool scheme_known(const struct h2_head *h)
{
	struct view scheme = pseudo_value(h, H2_SCHEME);

	return connects(h) || view_eq_nocase(scheme, VIEW("http")) ||
	       view_eq_nocase(scheme, VIEW("https"));
}

static enum http_fault parse(const char *text, size_t n, uint16_t fields, struct http_request *out)
{
	struct http_scan scan = { 0 };
	struct http_limits limits = { .head_bytes = UINT32_MAX, .fields = fields };

	/* It is all here: never PARSE_MORE. */
	if (http_request_parse(out, &scan, text, n, &limits) == PARSE_DONE)
		return HTTP_OK;
	CHECK(scan.fault != HTTP_OK);
	return scan.fault;
}

/* The text moves to the block, where it is read. */
static int make_request(struct h2_head *h, struct h2_block *b, struct http_request *out,
			enum http_fault *out_fault)
{
	uint16_t fields;
	char *text;
	int r = make_block(h, b, &fields);

	if (r != 0)
		return r;
	text = b->p + fields * sizeof(struct http_field);
	memcpy(text, h->text.p, h->text.n);
	out->fields = (struct http_fields){ .at = (struct http_field *)(void *)b->p, .capacity = fields };
	*out_fault = parse(text, h->text.n, fields, out);
	if (*out_fault == HTTP_OK && !scheme_known(h))
		*out_fault = HTTP_BAD_TARGET;
	return 0;
}

static int end_request(struct h2_head *h, struct h2_block *b, struct http_request *out,
		       enum http_fault *out_fault)
{
	int r;

	*out_fault = HTTP_OK;
	if (h->too_large)
		*out_fault = HTTP_HEAD_TOO_LARGE;
	r = h->too_large ? 0 : end_lines(h, out_fault);
	return r == 0 && *out_fault == HTTP_OK ? make_request(h, b, out, out_fault) : r;
}

int h2_head_end(struct h2_head *h, bool ended, struct h2_block *block, struct http_request *out,
		enum http_fault *out_fault)
{
	enum http_fault fault;
	int r = end_request(h, block, out, &fault);

	if (r != 0)
		return r;
	if (fault == HTTP_OK && ended && out->framing == FRAMING_LENGTH && out->length > 0)
		return -EPROTO;
	if (fault == HTTP_OK && !ended && out->framing == FRAMING_NONE)
		out->framing = FRAMING_CHUNKED;
	*out_fault = fault;
	return 0;
}

/* --- priority ----------------------------------------------------------------------------------------- */

void h2_priority_read(struct view value, struct h2_priority *p)
{
	struct http_field line = { .name = VIEW("priority"), .value = value };
	struct http_fields one = { .at = &line, .count = 1, .capacity = 1 };
	struct sf_cursor at;
	struct sf_member m;

	if (sf_dictionary(&one, line.name, &at) != 0)
		return;
	while (sf_next(&at, &m)) {
		if (view_eq(m.key, VIEW("u")) && m.value.type == SF_INTEGER &&
		    m.value.number >= 0 && m.value.number < H2_URGENCIES)
			p->urgency = (uint8_t)m.value.number;
		if (view_eq(m.key, VIEW("i")) && m.value.type == SF_BOOLEAN)
			p->incremental = m.value.number != 0;
	}
}
