/*
 * A strict reading of JSON with comments, before cJSON, which is lenient where we are not and
 * says little about places. The scan blanks comments in place (so that every offset still
 * counts in the user's file), holds text to RFC 8259 and bounds the nesting; what it lets
 * through, cJSON can only refuse for lack of memory.
 *
 * A NUL in a string ("\u0000") is refused, since cJSON's strings would silently end there.
 */
#include "conf/scan.h"

#include <string.h>

/* What may come next. */
enum expect {
	EXPECT_VALUE,	    /* at the beginning, after a colon */
	EXPECT_FIRST_VALUE, /* after [ */
	EXPECT_NEXT_VALUE,  /* after a comma in a list */
	EXPECT_FIRST_KEY,   /* after { */
	EXPECT_NEXT_KEY,    /* after a comma in an object */
	EXPECT_COLON,
	EXPECT_COMMA, /* or the end of what we are in */
	EXPECT_END,
};

static bool scan_comment(struct conf_scan *s)
{
	char *from = s->text + s->at, *to;

	if (from[1] == '/') {
		to = strchrnul(from, '\n');
	} else if (from[1] == '*') {
		to = strstr(from + 2, "*/");
		if (to == NULL) {
			s->fault = "this comment has no end (*/)";
			return false;
		}
		to += 2;
	} else {
		s->fault = "a comment begins with // or /*";
		return false;
	}
	for (char *c = from; c < to; c++) {
		if (*c != '\n')
			*c = ' ';
	}
	s->at += (size_t)(to - from);
	return true;
}

static size_t hex_digits(const char *p)
{
	size_t n = 0;

	while (n < 4 && strchr("0123456789abcdefABCDEF", p[n]) != NULL && p[n] != '\0')
		n++;
	return n;
}

/* By the first two of four digits. */
static bool digits_between(const char *digits, const char *from, const char *below)
{
	return strncasecmp(digits, from, 2) >= 0 && strncasecmp(digits, below, 2) < 0;
}

/* At the backslash of a good "\uXXXX". Two of them are one character beyond U+FFFF (RFC 8259 §7). */
static bool scan_surrogates(struct conf_scan *s)
{
	const char *p = s->text + s->at;
	bool high = digits_between(p + 2, "d8", "dc"), low = digits_between(p + 2, "dc", "e0");

	if (high && p[6] == '\\' && p[7] == 'u' && hex_digits(p + 8) == 4 &&
	    digits_between(p + 8, "dc", "e0")) {
		s->at += 12;
		return true;
	}
	if (high || low) {
		s->fault = "this is half of a character: \\uD800 to \\uDFFF come in pairs";
		return false;
	}
	s->at += 6;
	return true;
}

static bool scan_escape(struct conf_scan *s)
{
	const char *p = s->text + s->at + 1;

	if (*p != '\0' && strchr("\"\\/bfnrt", *p) != NULL) {
		s->at += 2;
		return true;
	}
	if (*p != 'u' || hex_digits(p + 1) != 4) {
		s->fault = "this is not an escape of JSON";
		return false;
	}
	if (strncmp(p + 1, "0000", 4) == 0) {
		s->fault = "a string can't hold a NUL";
		return false;
	}
	return scan_surrogates(s);
}

/* The length of the UTF-8 sequence at p (RFC 3629: no surrogates, no overlong forms), 0: none. */
static size_t utf8_sequence(const unsigned char *p)
{
	size_t more = p[0] >= 0xf0 ? 3 : p[0] >= 0xe0 ? 2 : 1;
	unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
	unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;

	if (p[0] < 0xc2 || p[0] > 0xf4 || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i <= more; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	return more + 1;
}

static bool scan_string_char(struct conf_scan *s)
{
	unsigned char c = (unsigned char)s->text[s->at];

	if (c == '\\')
		return scan_escape(s);
	if (c < ' ') {
		s->fault = c == '\0' && s->at == s->bytes ? "this string has no end (\")"
			   : c == '\n' ? "a string ends in its line: a \" is missing"
				       : "a control character in a string must be escaped";
		return false;
	}
	size_t n = c < 0x80 ? 1 : utf8_sequence((unsigned char *)s->text + s->at);

	if (n == 0)
		s->fault = "this is not UTF-8";
	s->at += n;
	return n > 0;
}

static bool scan_string(struct conf_scan *s)
{
	s->at++;
	while (s->text[s->at] != '"') {
		if (!scan_string_char(s))
			return false;
	}
	s->at++;
	return true;
}

static size_t digits(const char *p)
{
	return strspn(p, "0123456789");
}

/* RFC 8259 §6; cJSON would take "01" and "1." too. */
static bool scan_number(struct conf_scan *s)
{
	const char *p = s->text + s->at;
	size_t whole;

	if (*p == '-')
		p++;
	whole = digits(p);
	if (whole == 0 || (whole > 1 && *p == '0'))
		goto bad;
	p += whole;
	if (*p == '.') {
		if (digits(p + 1) == 0)
			goto bad;
		p += 1 + digits(p + 1);
	}
	if (*p == 'e' || *p == 'E') {
		p += p[1] == '+' || p[1] == '-' ? 2 : 1;
		if (digits(p) == 0)
			goto bad;
		p += digits(p);
	}
	if (p - (s->text + s->at) > 60)
		goto bad;
	s->at = (size_t)(p - s->text);
	return true;
bad:
	s->fault = "this is not a number of JSON (a value with a unit is a string: \"10s\")";
	return false;
}

/* The word of a literal; anything else is named where it begins. */
static bool scan_word(struct conf_scan *s)
{
	static const char *const words[] = { "true", "false", "null" };
	const char *p = s->text + s->at;
	size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (n == strlen(words[i]) && strncmp(p, words[i], n) == 0) {
			s->at += n;
			return true;
		}
	}
	s->fault = n > 0	? "strings and keys stand in double quotes"
		   : *p == '\'' ? "strings stand in double quotes, not single ones"
				: "this is not a part of JSON";
	return false;
}

static bool expects_value(const struct conf_scan *s)
{
	return s->expect == EXPECT_VALUE || s->expect == EXPECT_FIRST_VALUE ||
	       s->expect == EXPECT_NEXT_VALUE;
}

static bool expects_key(const struct conf_scan *s)
{
	return s->expect == EXPECT_FIRST_KEY || s->expect == EXPECT_NEXT_KEY;
}

static bool unexpected(struct conf_scan *s)
{
	static const char *const wanted[] = {
		[EXPECT_VALUE] = "a value is missing here",
		[EXPECT_FIRST_VALUE] = "a value or ] is missing here",
		[EXPECT_NEXT_VALUE] = "a value is missing here",
		[EXPECT_FIRST_KEY] = "a key in double quotes or } is missing here",
		[EXPECT_NEXT_KEY] = "a key in double quotes is missing here",
		[EXPECT_COLON] = "a colon is missing here",
		[EXPECT_COMMA] = "a comma is missing here",
		[EXPECT_END] = "the text goes on after its end",
	};
	char c = s->text[s->at];

	if (s->expect == EXPECT_NEXT_KEY && c == '}')
		s->fault = "take away the comma before this }";
	else if (s->expect == EXPECT_NEXT_VALUE && c == ']')
		s->fault = "take away the comma before this ]";
	else if (s->expect == EXPECT_COMMA && (c == '}' || c == ']'))
		s->fault = c == '}' ? "this } ends a list: ] is missing"
				    : "this ] ends an object: } is missing";
	else if (s->expect == EXPECT_COMMA && c == '\0')
		s->fault = "the text ends too early: a } or ] is missing";
	else
		s->fault = wanted[s->expect];
	return false;
}

static bool scan_open(struct conf_scan *s)
{
	bool object = s->text[s->at] == '{';

	if (s->depth == CONF_NESTING_MAX) {
		s->fault = "nested too deep";
		return false;
	}
	s->in_object[s->depth++] = object;
	s->expect = object ? EXPECT_FIRST_KEY : EXPECT_FIRST_VALUE;
	s->at++;
	return true;
}

static bool scan_close(struct conf_scan *s)
{
	bool object = s->text[s->at] == '}';
	bool here = s->expect == EXPECT_COMMA ||
		    s->expect == (object ? EXPECT_FIRST_KEY : EXPECT_FIRST_VALUE);

	if (!here || s->in_object[s->depth - 1] != object)
		return unexpected(s);
	s->depth--;
	s->expect = s->depth == 0 ? EXPECT_END : EXPECT_COMMA;
	s->at++;
	return true;
}

static bool scan_comma(struct conf_scan *s)
{
	if (s->expect != EXPECT_COMMA)
		return unexpected(s);
	s->expect = s->in_object[s->depth - 1] ? EXPECT_NEXT_KEY : EXPECT_NEXT_VALUE;
	s->at++;
	return true;
}

static bool scan_colon(struct conf_scan *s)
{
	if (s->expect != EXPECT_COLON)
		return unexpected(s);
	s->expect = EXPECT_VALUE;
	s->at++;
	return true;
}

static bool scan_value(struct conf_scan *s)
{
	char c = s->text[s->at];

	if (c == '{' || c == '[')
		return scan_open(s);
	s->expect = s->depth == 0 ? EXPECT_END : EXPECT_COMMA;
	if (c == '"')
		return scan_string(s);
	if (c == '-' || (c >= '0' && c <= '9'))
		return scan_number(s);
	return scan_word(s);
}

static bool scan_key(struct conf_scan *s)
{
	s->expect = EXPECT_COLON;
	return s->text[s->at] == '"' ? scan_string(s) : scan_word(s);
}

static bool scan_next(struct conf_scan *s)
{
	char c = s->text[s->at];

	if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
		s->at++;
		return true;
	}
	switch (c) {
	case '/':
		return scan_comment(s);
	case '}':
	case ']':
		return scan_close(s);
	case ',':
		return scan_comma(s);
	case ':':
		return scan_colon(s);
	default:
		break;
	}
	if (expects_value(s))
		return scan_value(s);
	if (expects_key(s) && c != '{' && c != '[' && c != '-' && (c < '0' || c > '9'))
		return scan_key(s);
	return unexpected(s);
}

bool conf_scan(struct conf_scan *s)
{
	while (s->at < s->bytes) {
		if (!scan_next(s))
			return false;
	}
	return s->expect == EXPECT_END || unexpected(s);
}

void conf_scan_place(const struct conf_scan *s, unsigned *out_line, unsigned *out_column)
{
	unsigned line = 1, column = 1;

	for (size_t i = 0; i < s->at; i++) {
		bool continuation = ((unsigned char)s->text[i] & 0xc0) == 0x80;

		if (s->text[i] == '\n') {
			line++;
			column = 1;
		} else if (!continuation) {
			column++;
		}
	}
	*out_line = line;
	*out_column = column;
}
