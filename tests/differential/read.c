/*
 * The program's readings, one a line, for differential.py to compare with its own. A line of
 * input is «KIND HEX …», where each HEX is one argument's bytes; a line of output says what was
 * read, or "-".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "edge/http/accept.h"
#include "edge/http/chars.h"
#include "edge/http/field.h"
#include "edge/http/no_vary_search.h"
#include "edge/http/range.h"
#include "edge/http/sf.h"

enum { ARGUMENTS_MAX = 16, FIELDS_MAX = 8 };

static struct view arguments[ARGUMENTS_MAX];
static size_t argument_count;
static struct http_field at[FIELDS_MAX];
static struct http_fields fields = { .at = at, .capacity = FIELDS_MAX };

/* --- input */

static void arguments_read(char *line)
{
	argument_count = 0;
	for (char *word; (word = strsep(&line, " \n")) != NULL;) {
		size_t n = strlen(word) / 2;
		if (*word == '\0')
			continue;
		CHECK(argument_count < ARGUMENTS_MAX);
		arguments[argument_count++] = view_of(word, n);
		for (size_t i = 0; i < n; i++)
			word[i] = (char)(char_hex(word[2 * i]) * 16 + char_hex(word[2 * i + 1]));
	}
}

/* Fields named «name» with the arguments from the first one on. False: not even fields. */
static bool fields_read(const char *name, size_t first)
{
	static char text[1 << 20];
	size_t n = 0;

	for (size_t i = first; i < argument_count; i++) {
		int written = snprintf(text + n, sizeof(text) - n, "%s: ", name);
		CHECK(written > 0 && sizeof(text) - n - (size_t)written > arguments[i].n + 2);
		n += (size_t)written;
		memcpy(text + n, arguments[i].p, arguments[i].n);
		memcpy(text + n + arguments[i].n, "\r\n", 2);
		n += arguments[i].n + 2;
	}
	return http_fields_parse(&fields, text, n) == 0;
}

/* --- structured fields */

static void hex_print(struct view v, bool string, bool display)
{
	for (size_t i = 0; i < v.n; i++) {
		unsigned byte = (uint8_t)v.p[i];
		if (string && byte == '\\')
			byte = (uint8_t)v.p[++i];
		if (display && byte == '%') {
			byte = char_hex(v.p[i + 1]) * 16 + char_hex(v.p[i + 2]);
			i += 2;
		}
		printf("%02x", byte);
	}
}

static void bare_print(const struct sf_item *item)
{
	static const char marks[] = "idstb?@%(";

	putchar(marks[item->type]);
	switch (item->type) {
	case SF_INTEGER:
	case SF_DECIMAL:
	case SF_BOOLEAN:
	case SF_DATE:
		printf("%" PRId64, item->number);
		break;
	default:
		hex_print(item->text, item->type == SF_STRING, item->type == SF_DISPLAY_STRING);
	}
}

static void parameters_print(const struct sf_item *item)
{
	struct view rest = item->parameters;
	struct sf_member p;

	while (sf_parameter_next(&rest, &p)) {
		printf(";%.*s=", VIEW_ARG(p.key));
		bare_print(&p.value);
	}
}

static void value_print(const struct sf_item *value)
{
	struct view rest = value->text;
	struct sf_item inner;

	if (value->type != SF_INNER_LIST) {
		bare_print(value);
		parameters_print(value);
		return;
	}
	putchar('(');
	while (sf_inner_next(&rest, &inner)) {
		bare_print(&inner);
		parameters_print(&inner);
		putchar(' ');
	}
	putchar(')');
	parameters_print(value);
}

static void container(bool keyed)
{
	struct sf_cursor c;
	struct sf_member m;

	if (!fields_read("F", 1) ||
	    (keyed ? sf_dictionary(&fields, VIEW("F"), &c) : sf_list(&fields, VIEW("F"), &c)) < 0) {
		putchar('-');
		return;
	}
	while (sf_next(&c, &m)) {
		printf(",%.*s=", VIEW_ARG(m.key));
		value_print(&m.value);
	}
}

static void list(void)
{
	container(false);
}

static void dictionary(void)
{
	container(true);
}

static void item(void)
{
	struct sf_item v;

	if (!fields_read("F", 1) || sf_item(&fields, VIEW("F"), &v) < 0)
		putchar('-');
	else
		value_print(&v);
}

/* --- cache control */

static void control_print(const struct http_cache_control *c)
{
	printf("%u %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, c->flags,
	       c->max_age_ms, c->s_maxage_ms, c->stale_while_revalidate_ms, c->stale_if_error_ms,
	       c->max_stale_ms, c->min_fresh_ms);
}

static void names_print(struct http_names n)
{
	struct view name;

	putchar(' ');
	while (http_names_next(&n, &name))
		printf("%.*s,", VIEW_ARG(name));
}

static void cache_control(void)
{
	struct http_cache_control c;
	struct http_names n;

	if (!fields_read("Cache-Control", 1)) {
		putchar('-');
		return;
	}
	http_cache_control(&fields, FIELD_CACHE_CONTROL, &c);
	control_print(&c);
	http_cache_control_names(&fields, FIELD_CACHE_CONTROL, CC_NO_CACHE_FIELDS, &n);
	names_print(n);
	http_cache_control_names(&fields, FIELD_CACHE_CONTROL, CC_PRIVATE_FIELDS, &n);
	names_print(n);
}

static void targeted(void)
{
	struct http_cache_control c;
	struct http_names n;

	if (!fields_read("T", 1) || http_targeted_cache_control(&fields, VIEW("T"), &c) < 0) {
		putchar('-');
		return;
	}
	control_print(&c);
	http_targeted_names(&fields, VIEW("T"), CC_NO_CACHE_FIELDS, &n);
	names_print(n);
	http_targeted_names(&fields, VIEW("T"), CC_PRIVATE_FIELDS, &n);
	names_print(n);
}

/* --- all else */

static void date(void)
{
	struct wall t;

	if (http_date_parse(arguments[1], &t) < 0)
		putchar('-');
	else
		printf("%" PRId64, t.ms / 1000);
}

static void range(void)
{
	struct http_ranges asked;
	struct http_parts parts;
	uint64_t length;

	CHECK(http_decimal(arguments[1], &length) == 0);
	if (!fields_read("Range", 2) || http_ranges_parse(&fields, &asked) < 0) {
		putchar('-');
		return;
	}
	switch (http_ranges_resolve(&asked, length, &parts)) {
	case RANGE_WHOLE:
		printf("whole");
		break;
	case RANGE_UNSATISFIABLE:
		printf("416");
		break;
	case RANGE_PARTIAL:
		for (uint16_t i = 0; i < parts.count; i++)
			printf("%" PRIu64 "-%" PRIu64 ",", parts.at[i].first, parts.at[i].last);
	}
}

static void content_range(void)
{
	struct http_content_range c;
	char out[HTTP_CONTENT_RANGE_MAX];

	if (http_content_range_parse(arguments[1], &c) < 0)
		putchar('-');
	else
		printf("%.*s", (int)http_content_range_format(&c, out), out);
}

/* A tag, then lines of a list: named weakly, strongly. */
static void etag(void)
{
	struct http_etag tag;

	if (!fields_read("If-Match", 2) || http_etag_parse(arguments[1], &tag) < 0)
		putchar('-');
	else
		printf("%d %d", http_etag_listed(&fields, FIELD_IF_MATCH, &tag, true),
		       http_etag_listed(&fields, FIELD_IF_MATCH, &tag, false));
}

static void encoding(void)
{
	char out[HTTP_ACCEPT_ENCODING_MAX];
	unsigned codings;

	if (!fields_read("Accept-Encoding", 1) || http_accept_encoding(&fields, &codings) < 0)
		putchar('-');
	else
		printf("%.*s", (int)http_accept_encoding_format(codings, out), out);
}

/* Two queries, then the field: equal by it? "-": it says nothing. */
static void no_vary_search(void)
{
	struct http_no_vary_search s;

	if (!fields_read("No-Vary-Search", 3) || http_no_vary_search(&fields, &s) < 0) {
		putchar('-');
		return;
	}
	char *a = malloc(3 * arguments[1].n + 1), *b = malloc(3 * arguments[2].n + 1);
	size_t n = http_no_vary_normalise(&s, arguments[1], a);
	size_t m = http_no_vary_normalise(&s, arguments[2], b);
	printf("%d", view_eq(view_of(a, n), view_of(b, m)));
	free(a);
	free(b);
}

static const struct {
	struct view kind;
	void (*read)(void);
} readings[] = {
	{ VIEW("list"), list },
	{ VIEW("dictionary"), dictionary },
	{ VIEW("item"), item },
	{ VIEW("cache_control"), cache_control },
	{ VIEW("targeted"), targeted },
	{ VIEW("date"), date },
	{ VIEW("range"), range },
	{ VIEW("content_range"), content_range },
	{ VIEW("etag"), etag },
	{ VIEW("encoding"), encoding },
	{ VIEW("no_vary_search"), no_vary_search },
};

int main(void)
{
	static char line[1 << 20];

	while (fgets(line, sizeof(line), stdin) != NULL) {
		arguments_read(line);
		CHECK(argument_count > 0);
		for (size_t i = 0; i < ARRAY_LEN(readings); i++) {
			if (view_eq(readings[i].kind, arguments[0]))
				readings[i].read();
		}
		putchar('\n');
	}
	return 0;
}
