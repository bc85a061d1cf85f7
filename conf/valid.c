/* What strings may hold. Each answer ends the sentence that the reader's fault begins. */
#include "conf/passing.h"
#include "conf/special.h"
#include "conf/value.h"
#include "edge/http/chars.h"
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

const char *conf_valid_field_glob(struct view v)
{
	return http_token(v) ? NULL : "is not a field name with * for any characters";
}

/* RFC 9110 §5.5. */
const char *conf_valid_field_value(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		if (((unsigned char)v.p[i] < ' ' && v.p[i] != '\t') || v.p[i] == 0x7f)
			return "must not hold control characters";
	}
	return http_trim(v).n == v.n ? NULL : "must not begin or end with a blank";
}

const char *conf_valid_host_glob(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		if (!char_is(v.p[i], CHAR_UNRESERVED) && strchr("*[]:", v.p[i]) == NULL)
			return "is not a host name with * for any characters";
	}
	return NULL;
}

const char *conf_valid_query_glob(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		if (v.p[i] == '&' || v.p[i] == '=' || v.p[i] == '?')
			return "must be a parameter's name, without &, = and ?; * stands for any "
			       "characters";
	}
	return printable(v) ? NULL
			    : "must be in the form that is sent: printable ASCII, the rest as %XX";
}

const char *conf_valid_media_glob(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		if (!char_is(v.p[i], CHAR_TOKEN) && v.p[i] != '/')
			return "must be a media type without parameters; * stands for any "
			       "characters";
	}
	return memchr(v.p, '/', v.n) != NULL || memchr(v.p, '*', v.n) != NULL
		       ? NULL
		       : "must be a media type like \"text/html\" or \"image/*\"";
}

/* RFC 5646, as far as RFC 4647 needs it: subtags of 1 to 8 letters or digits. */
const char *conf_valid_language(struct view v)
{
	size_t subtag = 0;

	for (size_t i = 0; i < v.n; i++) {
		bool letter = char_is(v.p[i], CHAR_UNRESERVED) && strchr("-._~", v.p[i]) == NULL;

		if (v.p[i] == '-' && subtag > 0)
			subtag = 0;
		else if (!letter || ++subtag > 8)
			return "is not a language tag like \"en\" or \"pt-BR\"";
	}
	return subtag > 0 ? NULL : "is not a language tag like \"en\" or \"pt-BR\"";
}

const char *conf_valid_targeted(struct view v)
{
	switch (http_field_id(v)) {
	case FIELD_CACHE_CONTROL:
	case FIELD_EXPIRES:
	case FIELD_PRAGMA:
		return "is not a targeted field: it is read where none of those is valid";
	default:
		return conf_valid_field(v);
	}
}

const char *conf_valid_pass_header(struct view v)
{
	if (!http_token(v))
		return "is not a field name";
	return conf_held_back(v) ? NULL : "is not held back: no need to list it, or is the name wrong?";
}

/* What belongs to the connection, or says where a message has been. */
static const char *edit_fault(struct view v)
{
	const char *wrong = conf_valid_field(v);

	if (wrong != NULL)
		return wrong;
	switch (http_field_id(v)) {
	case FIELD_VIA:
	case FIELD_CDN_LOOP:
		return "tells where a message has been: no rule may edit it";
	case FIELD_CONNECTION:
	case FIELD_CONTENT_LENGTH:
	case FIELD_HTTP2_SETTINGS:
	case FIELD_KEEP_ALIVE:
	case FIELD_PROXY_AUTHENTICATE:
	case FIELD_PROXY_AUTHENTICATION_INFO:
	case FIELD_PROXY_AUTHORIZATION:
	case FIELD_PROXY_CONNECTION:
	case FIELD_TE:
	case FIELD_TRAILER:
	case FIELD_TRANSFER_ENCODING:
	case FIELD_UPGRADE:
		return "belongs to the connection or frames the message: no rule may edit it";
	default:
		return NULL;
	}
}

/* What the node decides itself: where the request goes, from whom it comes, which part is asked for. */
const char *conf_valid_request_edit(struct view v)
{
	const char *wrong = edit_fault(v);

	if (wrong != NULL)
		return wrong;
	switch (http_field_id(v)) {
	case FIELD_HOST:
		return "is set by the origin's \"host\"";
	case FIELD_EXPECT:
	case FIELD_FORWARDED:
	case FIELD_IF_MATCH:
	case FIELD_IF_MODIFIED_SINCE:
	case FIELD_IF_NONE_MATCH:
	case FIELD_IF_RANGE:
	case FIELD_IF_UNMODIFIED_SINCE:
	case FIELD_RANGE:
	case FIELD_X_FORWARDED_FOR:
	case FIELD_X_FORWARDED_HOST:
	case FIELD_X_FORWARDED_PROTO:
	case FIELD_X_REAL_IP:
		return "is written by the node itself: no rule may edit it";
	default:
		return NULL;
	}
}

const char *conf_valid_response_edit(struct view v)
{
	const char *wrong = edit_fault(v);

	if (wrong != NULL)
		return wrong;
	switch (http_field_id(v)) {
	case FIELD_AGE:
	case FIELD_CACHE_STATUS:
	case FIELD_CONTENT_RANGE:
	case FIELD_DATE:
	case FIELD_PROXY_STATUS:
		return "is written by the node itself: no rule may edit it";
	default:
		return NULL;
	}
}

const char *conf_valid_body(struct view v)
{
	return v.n <= 64 << 10 ? NULL : "is longer than 64 KiB: let an origin answer";
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

	if (view_starts(v, VIEW("unix:")) && (v.n < 6 || v.p[5] != '/'))
		return "must be an absolute path: unix:/…";
	if (sock_addr_parse(v, &address) == 0)
		return address.any.sa_family != AF_UNIX && address.v4.sin_port == 0
			       ? "needs a port other than 0"
			       : NULL;
	if (view_starts(v, VIEW("unix:")))
		return "is too long for a socket's path (107 bytes): choose a shorter one";
	return "must be \"unix:/path\", or an address and a port like \"127.0.0.1:9090\"";
}

const char *conf_valid_domain(struct view v)
{
	return conf_value_domain(v) ? NULL : "is not a host name (lower case, without port)";
}

const char *conf_valid_upgrade(struct view v)
{
	return view_eq(v, VIEW("websocket")) ? NULL : "must be \"websocket\": no other protocol is relayed";
}
