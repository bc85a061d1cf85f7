/*
 * Cache deception: an attacker sends a victim to /account/x.css. The origin, lenient about paths, answers
 * with the account; the cache, believing the extension, keeps it for the attacker. What gives it
 * away is the content type: no stylesheet is text/html.
 *
 * A table of extensions that people give long lifetimes by rule, and of the types that are theirs. An
 * extension that isn't listed promises nothing; a type that isn't listed breaks the promise, whatever it
 * is (a bank statement is text/csv). An answer without Content-Type can't contradict; one of mere
 * bytes is what servers say of files that they don't know.
 */
#include "cache/verdict_guard.h"

#include "edge/http/chars.h"
#include "edge/http/field.h"

enum { EXTENSION_MAX = 8 };

/* Words separated by one space; a type matches where it begins with one of them. */
static const struct {
	struct view extensions, types;
} kinds[] = {
	{ VIEW("css"), VIEW("text/css") },
	{ VIEW("js mjs cjs"),
	  VIEW("text/javascript text/ecmascript text/x-javascript application/javascript "
	       "application/ecmascript application/x-javascript") },
	{ VIEW("apng avif bmp cur gif heic ico jpeg jpg jxl png svg svgz tif tiff webp"),
	  VIEW("image/") },
	{ VIEW("eot otf ttc ttf woff woff2"),
	  VIEW("font/ application/font- application/x-font- application/vnd.ms-fontobject") },
	{ VIEW("aac avi flac m4a m4v mid mkv mov mp3 mp4 mpeg mpg oga ogg ogv opus wav weba webm "
	       "wma wmv"),
	  VIEW("audio/ video/ application/ogg application/mp4") },
	{ VIEW("pdf"), VIEW("application/pdf") },
	{ VIEW("wasm"), VIEW("application/wasm") },
	{ VIEW("7z apk bin bz2 deb dmg ear exe gz iso jar msi rar rpm tar tgz war xz zip zst"), VIEW("application/gzip application/java-archive application/vnd.android.package-archive "
												     "application/vnd.debian.binary-package application/vnd.rar application/x- application/zip "
												     "application/zstd") },
	{ VIEW("doc docx ppt pptx xls xlsx odt ods odp"),
	  VIEW("application/msword application/vnd.ms- application/vnd.openxmlformats- "
	       "application/vnd.oasis.") },
};

/* The next word of a list. False: there is none. */
static bool word_next(struct view *rest, struct view *out)
{
	const char *space = memchr(rest->p, ' ', rest->n);
	size_t n = space != NULL ? (size_t)(space - rest->p) : rest->n;

	*out = view_of(rest->p, n);
	*rest = view_skip(*rest, space != NULL ? n + 1 : n);
	return n > 0;
}

/* The next character of a path, whether it is encoded or not. */
static char path_char(struct view *rest)
{
	char c = rest->p[0];

	if (c == '%' && rest->n >= 3 && char_is(rest->p[1], CHAR_HEX) && char_is(rest->p[2], CHAR_HEX)) {
		c = (char)(char_hex(rest->p[1]) * 16 + char_hex(rest->p[2]));
		*rest = view_skip(*rest, 3);
	} else {
		*rest = view_skip(*rest, 1);
	}
	return char_lower(c);
}

/* What stands behind the last point of the last segment, in lower case; empty: none, or nothing that we know. */
static struct view extension(struct view path, char out[EXTENSION_MAX])
{
	const char *query = memchr(path.p, '?', path.n);
	size_t n = 0;
	bool inside = false;

	if (query != NULL)
		path.n = (size_t)(query - path.p);
	while (path.n > 0) {
		char c = path_char(&path);
		if (c == '.' || c == '/') {
			inside = c == '.';
			n = 0;
		} else if (inside && n < EXTENSION_MAX) {
			out[n++] = c;
		} else {
			inside = false;
		}
	}
	return view_of(out, inside ? n : 0);
}

static bool has_word(struct view words, struct view word)
{
	struct view at;

	while (word_next(&words, &at))
		if (view_eq(at, word))
			return true;
	return false;
}

static bool begins_with_one(struct view types, struct view type)
{
	struct view at;

	while (word_next(&types, &at))
		if (type.n >= at.n && view_eq_nocase(view_of(type.p, at.n), at))
			return true;
	return false;
}

bool verdict_guard_contradicts(struct view path, const struct http_fields *response)
{
	const struct http_field *type = http_fields_first(response, FIELD_CONTENT_TYPE);
	char text[EXTENSION_MAX];

	if (type == NULL || path.n == 0)
		return false;
	struct view word = extension(path, text);
	for (size_t i = 0; word.n > 0 && i < ARRAY_LEN(kinds); i++) {
		if (has_word(kinds[i].extensions, word))
			return !begins_with_one(kinds[i].types, type->value) &&
			       !begins_with_one(
				       VIEW("application/octet-stream binary/octet-stream"),
				       type->value);
	}
	return false;
}
