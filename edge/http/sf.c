/*
 * Structured fields, by the algorithms of RFC 9651 §4.2, one function for each. They take what they
 * read from the front of a view and say whether it was right; where it wasn't, the rest is of no
 * use to anybody.
 *
 * A field is parsed twice, to check it and to walk it. The alternative is to keep what was found,
 * for which there is no bound but the size of a head.
 */
#include "edge/http/sf.h"
#include "edge/http/chars.h"
#include "edge/http/utf8.h"

#include <errno.h>

/* --- characters */

static bool next_is(const struct view *v, char c)
{
	return v->n > 0 && v->p[0] == c;
}

static bool take_char(struct view *v, char c)
{
	if (!next_is(v, c))
		return false;
	*v = view_skip(*v, 1);
	return true;
}

static void skip_spaces(struct view *v)
{
	while (take_char(v, ' '))
		;
}

/* OWS of RFC 9110 §5.6.3, which is allowed around commas alone. */
static void skip_blanks(struct view *v)
{
	while (v->n > 0 && char_blank(v->p[0]))
		*v = view_skip(*v, 1);
}

static bool lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool alpha(char c)
{
	return lower(char_lower(c));
}

/* VCHAR or SP. */
static bool printable(char c)
{
	return c >= 0x20 && c < 0x7f;
}

static struct view take_bytes(struct view *v, size_t n)
{
	struct view taken = view_of(v->p, n);

	*v = view_skip(*v, n);
	return taken;
}

/* --- bare items (§4.2.3.1) */

static size_t digits_at(struct view v, size_t from)
{
	size_t n = 0;

	while (from + n < v.n && char_is(v.p[from + n], CHAR_DIGIT))
		n++;
	return n;
}

static int64_t digits_value(struct view v)
{
	int64_t value = 0;

	for (size_t i = 0; i < v.n; i++)
		value = value * 10 + (v.p[i] - '0');
	return value;
}

/* §4.2.4: 15 digits, or 12 and up to three behind the point. */
static bool number(struct view *v, struct sf_item *out)
{
	static const int64_t scales[] = { 1000, 100, 10, 1 };
	int64_t sign = take_char(v, '-') ? -1 : 1;
	size_t whole = digits_at(*v, 0);

	if (whole < 1 || whole > 15)
		return false;
	out->type = SF_INTEGER;
	out->number = sign * digits_value(take_bytes(v, whole));
	if (!take_char(v, '.'))
		return true;
	size_t fraction = digits_at(*v, 0);
	if (whole > 12 || fraction < 1 || fraction > 3)
		return false;
	out->type = SF_DECIMAL;
	out->number = out->number * 1000 +
		      sign * digits_value(take_bytes(v, fraction)) * scales[fraction];
	return true;
}

/* §4.2.5: only the quote and the backslash are escaped. */
static bool string(struct view *v, struct sf_item *out)
{
	size_t n = 1;

	for (; n < v->n && v->p[n] != '"'; n++) {
		if (!printable(v->p[n]))
			return false;
		if (v->p[n] == '\\' && (++n == v->n || (v->p[n] != '"' && v->p[n] != '\\')))
			return false;
	}
	if (n >= v->n)
		return false;
	out->type = SF_STRING;
	out->text = view_of(v->p + 1, n - 1);
	*v = view_skip(*v, n + 1);
	return true;
}

/* §4.2.6; the caller has seen that it begins with a letter or "*". */
static bool token(struct view *v, struct sf_item *out)
{
	size_t n = 0;

	while (n < v->n && (char_is(v->p[n], CHAR_TOKEN) || v->p[n] == ':' || v->p[n] == '/'))
		n++;
	out->type = SF_TOKEN;
	out->text = take_bytes(v, n);
	return true;
}

/* RFC 4648 §4; padding may be missing, but is right where it is there. */
static bool base64(struct view v)
{
	size_t n = v.n, padding = 0;

	while (n > 0 && padding < 2 && v.p[n - 1] == '=') {
		padding++;
		n--;
	}
	for (size_t i = 0; i < n; i++) {
		if (!alpha(v.p[i]) && !char_is(v.p[i], CHAR_DIGIT) && v.p[i] != '+' && v.p[i] != '/')
			return false;
	}
	return n % 4 != 1 && (padding == 0 || v.n % 4 == 0);
}

/* §4.2.7. */
static bool bytes(struct view *v, struct sf_item *out)
{
	const char *close = memchr(v->p + 1, ':', v->n - 1);

	if (close == NULL)
		return false;
	out->type = SF_BYTES;
	out->text = view_of(v->p + 1, (size_t)(close - v->p - 1));
	*v = view_skip(*v, out->text.n + 2);
	return base64(out->text);
}

/* §4.2.8. */
static bool boolean(struct view *v, struct sf_item *out)
{
	*v = view_skip(*v, 1);
	out->type = SF_BOOLEAN;
	out->number = next_is(v, '1');
	return take_char(v, '1') || take_char(v, '0');
}

/* §4.2.9. */
static bool date(struct view *v, struct sf_item *out)
{
	*v = view_skip(*v, 1);
	if (!number(v, out) || out->type != SF_INTEGER)
		return false;
	out->type = SF_DATE;
	return true;
}

static bool lower_hex(char c)
{
	return char_is(c, CHAR_DIGIT) || (c >= 'a' && c <= 'f');
}

/* One byte of a Display String: itself, or a triplet in lower case. */
static bool display_byte(struct view *v, uint8_t *out)
{
	char c = v->p[0];

	*out = (uint8_t)c;
	if (c == '%') {
		if (v->n < 3 || !lower_hex(v->p[1]) || !lower_hex(v->p[2]))
			return false;
		*out = (uint8_t)(char_hex(v->p[1]) * 16 + char_hex(v->p[2]));
	}
	*v = view_skip(*v, c == '%' ? 3 : 1);
	return printable(c);
}

/* §4.2.10. */
static bool display_string(struct view *v, struct sf_item *out)
{
	struct utf8 text = { .left = 0 };
	uint8_t byte;

	*v = view_skip(*v, 1);
	if (!take_char(v, '"'))
		return false;
	const char *begin = v->p;
	while (v->n > 0 && v->p[0] != '"') {
		if (!display_byte(v, &byte) || !utf8_byte(&text, byte))
			return false;
	}
	out->type = SF_DISPLAY_STRING;
	out->text = view_of(begin, (size_t)(v->p - begin));
	return take_char(v, '"') && text.left == 0;
}

static bool bare_item(struct view *v, struct sf_item *out)
{
	*out = (struct sf_item){ .type = SF_INTEGER };
	if (v->n == 0)
		return false;
	switch (v->p[0]) {
	case '"':
		return string(v, out);
	case ':':
		return bytes(v, out);
	case '?':
		return boolean(v, out);
	case '@':
		return date(v, out);
	case '%':
		return display_string(v, out);
	default:
		return alpha(v->p[0]) || v->p[0] == '*' ? token(v, out) : number(v, out);
	}
}

/* --- members */

/* §4.2.3.3. */
static bool key(struct view *v, struct view *out)
{
	size_t n = 0;

	if (v->n == 0 || (!lower(v->p[0]) && v->p[0] != '*'))
		return false;
	while (n < v->n && (lower(v->p[n]) || char_is(v->p[n], CHAR_DIGIT) || v->p[n] == '_' ||
			    v->p[n] == '-' || v->p[n] == '.' || v->p[n] == '*'))
		n++;
	*out = take_bytes(v, n);
	return true;
}

static const struct sf_item boolean_true = { .type = SF_BOOLEAN, .number = 1 };

/* One of §4.2.3.2, which begins with ";". */
static bool parameter(struct view *v, struct sf_member *out)
{
	*v = view_skip(*v, 1);
	skip_spaces(v);
	out->value = boolean_true;
	if (!key(v, &out->key))
		return false;
	return !take_char(v, '=') || bare_item(v, &out->value);
}

static bool parameters(struct view *v, struct view *out)
{
	const char *begin = v->p;
	struct sf_member ignored;

	while (next_is(v, ';')) {
		if (!parameter(v, &ignored))
			return false;
	}
	*out = view_of(begin, (size_t)(v->p - begin));
	return true;
}

/* §4.2.3. */
static bool item(struct view *v, struct sf_item *out)
{
	return bare_item(v, out) && parameters(v, &out->parameters);
}

/* §4.2.1.2. */
static bool inner_list(struct view *v, struct sf_item *out)
{
	struct sf_item ignored;

	*v = view_skip(*v, 1);
	const char *begin = v->p;
	for (skip_spaces(v); !next_is(v, ')'); skip_spaces(v)) {
		if (!item(v, &ignored) || (!next_is(v, ' ') && !next_is(v, ')')))
			return false;
	}
	*out = (struct sf_item){ .type = SF_INNER_LIST, .text = view_of(begin, (size_t)(v->p - begin)) };
	*v = view_skip(*v, 1);
	return parameters(v, &out->parameters);
}

/* §4.2.1.1. */
static bool item_or_inner_list(struct view *v, struct sf_item *out)
{
	return next_is(v, '(') ? inner_list(v, out) : item(v, out);
}

static bool member(struct view *v, bool keyed, struct sf_member *out)
{
	out->key = VIEW("");
	if (!keyed)
		return item_or_inner_list(v, &out->value);
	if (!key(v, &out->key))
		return false;
	if (take_char(v, '='))
		return item_or_inner_list(v, &out->value);
	out->value = boolean_true;
	return parameters(v, &out->value.parameters);
}

/* Behind a member: the end of the line, or a comma and something behind it. */
static bool separator(struct view *v)
{
	skip_blanks(v);
	if (v->n == 0)
		return true;
	if (!take_char(v, ','))
		return false;
	skip_blanks(v);
	return v->n > 0;
}

/* --- fields */

/* 1: a member; 0: there are no more. */
static int advance(struct sf_cursor *c, struct sf_member *out)
{
	while (c->rest.n == 0) {
		const struct http_field *line = http_fields_find(c->fields, c->name, &c->at);
		if (line == NULL)
			return 0;
		c->rest = line->value;
	}
	return member(&c->rest, c->keyed, out) && separator(&c->rest) ? 1 : -EINVAL;
}

/* An empty line is an empty field where it is alone; among others it is a comma too many. */
static int lines_check(const struct http_fields *f, struct view name)
{
	const struct http_field *line;
	unsigned lines = 0, empty = 0;

	for (uint16_t at = 0; (line = http_fields_find(f, name, &at)) != NULL; lines++)
		empty += line->value.n == 0;
	if (lines == 0)
		return -ENOENT;
	return lines > 1 && empty > 0 ? -EINVAL : 0;
}

static int container_open(const struct http_fields *f, struct view name, bool keyed,
			  struct sf_cursor *out)
{
	const struct sf_cursor begin = { .fields = f, .name = name, .rest = VIEW(""), .keyed = keyed };
	struct sf_cursor c = begin;
	struct sf_member ignored;
	int rc = lines_check(f, name);

	if (rc < 0)
		return rc;
	do
		rc = advance(&c, &ignored);
	while (rc > 0);
	if (rc == 0)
		*out = begin;
	return rc;
}

int sf_list(const struct http_fields *f, struct view name, struct sf_cursor *out)
{
	return container_open(f, name, false, out);
}

int sf_dictionary(const struct http_fields *f, struct view name, struct sf_cursor *out)
{
	return container_open(f, name, true, out);
}

bool sf_next(struct sf_cursor *c, struct sf_member *out)
{
	return advance(c, out) > 0;
}

int sf_item(const struct http_fields *f, struct view name, struct sf_item *out)
{
	uint16_t at = 0;
	const struct http_field *line = http_fields_find(f, name, &at);
	struct sf_item found;

	if (line == NULL)
		return -ENOENT;
	struct view v = line->value;
	if (http_fields_find(f, name, &at) != NULL || !item(&v, &found) || v.n > 0)
		return -EINVAL;
	*out = found;
	return 0;
}

/* --- inside of members, which are known to be right */

bool sf_inner_next(struct view *rest, struct sf_item *out)
{
	skip_spaces(rest);
	return rest->n > 0 && item(rest, out);
}

bool sf_parameter_next(struct view *rest, struct sf_member *out)
{
	return rest->n > 0 && parameter(rest, out);
}
