/*
 * Where a redirect leads: a template with ${host}, ${path} and ${query}. What is put in comes from
 * the client, so that the template alone must say which host it leads to: a browser takes a
 * Location that begins with "//" (or "/\") for another host's, and a path may begin so.
 */
#include "conf/special.h"
#include "edge/http/chars.h"

/* What stands between "${" and "}" at the beginning of v; p NULL: it begins with something else. */
static struct view placeholder(struct view v)
{
	const char *end = view_starts(v, VIEW("${")) ? memchr(v.p, '}', v.n) : NULL;

	return end == NULL ? (struct view){ NULL, 0 } : view_of(v.p + 2, (size_t)(end - v.p) - 2);
}

static bool known(struct view name)
{
	return view_eq(name, VIEW("host")) || view_eq(name, VIEW("path")) ||
	       view_eq(name, VIEW("query"));
}

static const char *beginning_fault(struct view v)
{
	struct view rest = view_starts(v, VIEW("https://"))  ? view_skip(v, 8)
			   : view_starts(v, VIEW("http://")) ? view_skip(v, 7)
							     : (struct view){ NULL, 0 };

	if (rest.p != NULL && rest.n > 0 &&
	    (char_is(rest.p[0], CHAR_UNRESERVED) || rest.p[0] == '[' ||
	     view_starts(rest, VIEW("${host}"))))
		return NULL;
	if (rest.p == NULL && view_starts(v, VIEW("${path}")))
		return NULL;
	if (rest.p == NULL && v.p[0] == '/' && !view_starts(v, VIEW("//")) &&
	    !view_starts(v, VIEW("/${path}")))
		return NULL;
	return "must begin with http:// or https:// and a host, with ${path}, or with / and no "
	       "second one";
}

const char *conf_valid_location(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		struct view rest = view_skip(v, i);

		if (!char_is(v.p[i], CHAR_TARGET) && v.p[i] != '#')
			return "must be a URL in printable ASCII, the rest as %XX";
		if (v.p[i] == '\\')
			return "must not hold a backslash";
		if (view_starts(rest, VIEW("${")) && !known(placeholder(rest)))
			return "knows ${host}, ${path} and ${query} only";
	}
	return beginning_fault(v);
}

static struct view value_of(struct view name, const struct conf_request *r)
{
	return view_eq(name, VIEW("host"))   ? r->host
	       : view_eq(name, VIEW("path")) ? r->path
					     : r->query;
}

/* The next piece of the result; *rest of the template is moved. */
static struct view next_piece(struct view *rest, const struct conf_request *r)
{
	struct view name = placeholder(*rest);
	size_t n = 1;

	if (name.p != NULL) {
		*rest = view_skip(*rest, name.n + 3);
		return value_of(name, r);
	}
	while (n < rest->n && placeholder(view_skip(*rest, n)).p == NULL)
		n++;
	struct view text = view_of(rest->p, n);

	*rest = view_skip(*rest, n);
	return text;
}

/* "/." before it keeps "//other.example/" a path (RFC 3986 §4.2). */
static bool leads_elsewhere(struct view location, const struct conf_request *r)
{
	return view_starts(location, VIEW("${path}")) && r->path.n > 1 &&
	       (r->path.p[1] == '/' || r->path.p[1] == '\\');
}

struct view conf_redirect_location(const struct conf_respond *redirect,
				   const struct conf_request *r, struct arena *a)
{
	struct view rest = redirect->location, prefix = VIEW("");
	size_t n = 0;
	char *text;

	if (leads_elsewhere(rest, r))
		prefix = VIEW("/.");
	while (rest.n > 0)
		n += next_piece(&rest, r).n;
	text = arena_alloc(a, prefix.n + n + 1);
	if (text == NULL)
		return (struct view){ NULL, 0 };
	memcpy(text, prefix.p, prefix.n);
	n = prefix.n;
	for (rest = redirect->location; rest.n > 0;) {
		struct view piece = next_piece(&rest, r);

		if (piece.n > 0)
			memcpy(text + n, piece.p, piece.n);
		n += piece.n;
	}
	return view_of(text, n);
}
