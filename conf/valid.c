/* What strings may hold. Each answer ends the sentence that the reader's fault begins. */
#include "conf/special.h"
#include "edge/http/field.h"

static bool printable(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] <= ' ' || v.p[i] >= 0x7f || v.p[i] == '"' || v.p[i] == '\\')
			return false;
	}
	return true;
}

/* Names stand in metrics, logs and URLs. */
const char *conf_valid_name(struct view v)
{
	if (v.n == 0 || v.n > 255)
		return "must have 1 to 255 characters";
	return printable(v) ? NULL : "must be printable ASCII without spaces, quotes or backslashes";
}

/* A token for Via and CDN-Loop that begins as an sf-token of RFC 8941 does, for Cache-Status. */
const char *conf_valid_node(struct view v)
{
	bool letter = v.n > 0 && ((v.p[0] >= 'a' && v.p[0] <= 'z') || (v.p[0] >= 'A' && v.p[0] <= 'Z'));

	if (letter && v.n <= 64 && http_token(v))
		return NULL;
	return "must be a letter, then letters, digits or !#$%&'*+-.^_`|~, 64 in all at most";
}

const char *conf_valid_field(struct view v)
{
	return http_token(v) ? NULL : "is not a field name";
}

const char *conf_valid_cookie(struct view v)
{
	return http_token(v) ? NULL : "is not a cookie's name";
}

const char *conf_valid_cookie_glob(struct view v)
{
	return http_token(v) ? NULL : "is not a cookie's name with * for any characters";
}

const char *conf_valid_path_glob(struct view v)
{
	if (v.p[0] != '/' && v.p[0] != '*')
		return "must begin with / or *";
	if (memchr(v.p, '?', v.n) != NULL)
		return "must not hold a ?: the query is not matched, and ? is no wildcard";
	return printable(v) ? NULL
			    : "must be in the form that is sent: printable ASCII, the rest as %XX";
}

const char *conf_valid_url_path(struct view v)
{
	if (v.p[0] != '/' || !printable(v) || memchr(v.p, '?', v.n) != NULL)
		return "must be a URL's path: / and printable ASCII, without query";
	return NULL;
}

const char *conf_valid_file(struct view v)
{
	if (v.n > 4000)
		return "is too long for a path";
	return v.p[0] == '/' ? NULL : "must be an absolute path: it begins with /";
}

const char *conf_valid_error_file(struct view v)
{
	if (view_eq(v, VIEW("stderr")))
		return NULL;
	return v.p[0] == '/' ? conf_valid_file(v) : "must be \"stderr\" or an absolute path";
}

const char *conf_valid_admin(struct view v)
{
	struct sock_addr address;

	if (!view_starts(v, VIEW("unix:")))
		return "only unix:/path addresses are supported by this version yet";
	if (v.n < 6 || v.p[5] != '/')
		return "must be an absolute path: unix:/…";
	if (sock_addr_parse(v, &address) < 0)
		return "is too long for a socket's path (107 bytes): choose a shorter one";
	return NULL;
}
