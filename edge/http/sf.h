/*
 * Structured fields (RFC 9651): Lists, Dictionaries and Items. Nothing is allocated: a field is
 * checked as a whole when it is opened, since one fault anywhere makes all of it void (§4.2), and
 * then walked; walking can't fail. Views point into the field lines.
 *
 * Several lines with one name are one value (§4.2). A member that is spread over two lines is a
 * fault; a String could be joined, but «with unpredictable results».
 */
#ifndef BRIM_HTTP_SF_H
#define BRIM_HTTP_SF_H

#include "edge/http/head.h"

enum sf_type {
	SF_INTEGER,
	SF_DECIMAL,
	SF_STRING,
	SF_TOKEN,
	SF_BYTES,
	SF_BOOLEAN,
	SF_DATE,
	SF_DISPLAY_STRING,
	SF_INNER_LIST,
};

struct sf_item {
	enum sf_type type;
	/* INTEGER; DECIMAL in thousandths; BOOLEAN 0 or 1; DATE in seconds since 1970. */
	int64_t number;
	/* All others, as written, without what stands around them: STRING with its backslashes,
	 * BYTES in base64, DISPLAY_STRING with its triplets. A String has one spelling only, so
	 * that two are equal where their texts are. */
	struct view text;
	struct view parameters; /* ";a=1;b" as written, for sf_parameter_next; or empty */
};

struct sf_member {
	struct view key; /* of a Dictionary or of a parameter; empty in a List */
	struct sf_item value;
};

struct sf_cursor {
	const struct http_fields *fields;
	struct view name, rest; /* rest of the line that is being read */
	uint16_t at;
	bool keyed;
};

/* Opens the field with this name. -ENOENT: there is none; -EINVAL: it isn't valid, and is to be
 * ignored. An empty one is valid and has no members. */
int sf_list(const struct http_fields *f, struct view name, struct sf_cursor *out) NODISCARD;
int sf_dictionary(const struct http_fields *f, struct view name, struct sf_cursor *out) NODISCARD;
/* The next member, which is an Item or an INNER_LIST. A key may come again: the last one counts
 * (§4.2.2). */
bool sf_next(struct sf_cursor *c, struct sf_member *out);

/* A field that is one Item. */
int sf_item(const struct http_fields *f, struct view name, struct sf_item *out) NODISCARD;

/* The Items of an INNER_LIST: *rest begins as its text and is moved. */
bool sf_inner_next(struct view *rest, struct sf_item *out);
/* The parameters of an item, in order: *rest begins as its «parameters» and is moved. */
bool sf_parameter_next(struct view *rest, struct sf_member *out);

#endif
