/* Faults of keys, values and of what doesn't fit together: one text, all that is told of it. */
#include "tests/unit/conf/testing.h"

static const struct {
	const char *text, *told;
} cases[] = {
	/* keys */
	{ WITH_ROOT("'orgins': 1"), "/orgins: unknown key, did you mean \"origins\"?\n" },
	{ WITH_ROOT("'zzz': 1"), "/zzz: unknown key\n" },
	{ WITH_ROOT("'log': {'acess': {}}"),
	  "/log/acess: unknown key, did you mean \"access\"?\n" },
	{ WITH_ROOT("'log.error.level': 'info'"), "/log.error.level: unknown key\n" },
	{ WITH_ROOT("'log': {'error': 'stderr'}"), "/log/error: must be an object: {…}\n" },
	{ WITH_SITE("'default_ttl': 1"),
	  "/sites/0/default_ttl: unknown key here, it belongs at \"cache.default_ttl\"\n" },
	{ WITH_RULE("'ttl': 1, 'cache': {'max_ttl': 1}"),
	  "/sites/0/rules/0/ttl: unknown key here, it belongs at \"cache.ttl\"\n" },
	{ WITH_CACHE("'ttl': 1, 'bypass': true"),
	  "/sites/0/cache/ttl: only a rule's \"cache\" may set it\n"
	  "/sites/0/cache/bypass: only a rule's \"cache\" may set it\n" },
	{ WITH_ROOT("'include': []"), "/include: only files can include files\n" },
	{ "[]", "configuration: must be an object: {…}\n" },
	{ "{}", "/listeners: is missing: where clients connect\n"
		"/stores: is missing: where objects are kept\n" },
	/* keys of later versions */
	{ WITH_ROOT("'fleet': {}"), "/fleet: not supported by this version yet\n" },
	{ WITH_ORIGIN("'health': {}"),
	  "/origins/shop/health: not supported by this version yet\n" },
	/* TLS, protocols, the admin API over TCP */
	{ "{'listeners': [{'address': '*:80', 'tls': true, 'protocols': []}, {'address': '*:81', "
	  "'protocols': "
	  "'h3', 'proxy_protocol': {'from': ['x']}}], " STORES "}",
	  "/listeners/0/protocols: must not be empty\n"
	  "/listeners/1/protocols: must be \"h2\" or \"http/1.1\"\n"
	  "/listeners/1/proxy_protocol/from/0: must be an address or a network like \"10.0.0.0/8\" "
	  "or "
	  "\"::1\", without bits beyond its mask\n" },
	{ "{'listeners': [{'address': '*:80'}, {'address': '*:443', 'tls': true}], " STORES "}",
	  "/listeners/1/tls: there is no certificate: give a site one (\"tls\"), or "
	  "\"tls.directory\"\n" },
	{ WITH_SITE("'tls': {'certificate': ['/a', 'b'], 'key': '/c', 'client': {'verify': 'yes', "
		    "'ca': ''}}"),
	  "/sites/0/tls/certificate/1: must be an absolute path: it begins with /\n"
	  "/sites/0/tls/client/verify: must be one of \"none\", \"request\", \"require\"\n"
	  "/sites/0/tls/client/ca: must not be empty\n" },
	{ WITH_SITE("'tls': {'certificate': '/a'}"),
	  "/sites/0/tls/key: must name one file for each certificate, in their order: 1 in all\n" },
	{ WITH_SITE("'tls': {'default': true, 'client': {'verify': 'require'}}"),
	  "/sites/0/tls: the default needs a certificate of the site's own\n"
	  "/sites/0/tls: clients' certificates can't be verified: name who signs them in "
	  "\"client.ca\"\n" },
	{ "{" BASE ", " ORIGINS
	  ", 'defaults': {'site': {'origin': 'shop', 'tls': {'certificate': '/c', 'key': '/k',"
	  " 'default': true}}}, 'sites': [{'hosts': 'a'}, {'hosts': 'b'}]}",
	  "/sites/1/tls: the site \"a\" is the default already: there can be one\n" },
	{ WITH_SITE("'hsts': {}, 'https_redirect': 1, 'upgrade': ['h2c']"),
	  "/sites/0/https_redirect: must be true or false\n"
	  "/sites/0/hsts/max_age: is missing: how long browsers remember to use `https://` alone\n"
	  "/sites/0/upgrade/0: must be \"websocket\": no other protocol is relayed\n" },
	{ WITH_SITE("'hsts': {'max_age': '364d', 'include_subdomains': true, 'preload': true}"),
	  "/sites/0/hsts: to be preloaded it needs \"include_subdomains\" and a \"max_age\" of "
	  "365d\n" },
	{ WITH_ORIGIN("'tls': {'key': '/k', 'server_name': 'A:1', 'ca': 5}"),
	  "/origins/shop/tls/ca: must be a string\n"
	  "/origins/shop/tls/server_name: is not a host name (lower case, without port)\n"
	  "/origins/shop/tls/key: is of no use without \"certificate\" beside it\n" },
	{ WITH_ROOT(
		  "'admin': {'listen': ['unix:a', '1.2.3.4:0', '80'], 'tokens': [{'name': 'a b'}],"
		  " 'hosts': ['a:1'], 'tls': {}}"),
	  "/admin/listen/0: must be an absolute path: unix:/…\n"
	  "/admin/listen/1: needs a port other than 0\n"
	  "/admin/listen/2: must be \"unix:/path\", or an address and a port like "
	  "\"127.0.0.1:9090\"\n"
	  "/admin/tokens/0/name: must be printable ASCII without spaces, quotes or backslashes\n"
	  "/admin/tokens/0/file: is missing: holds the token: one line of 16 to 1024 characters\n"
	  "/admin/tokens/0/role: is missing: what it may: look; purge, too; all\n"
	  "/admin/hosts/0: is not a host name (lower case, without port)\n"
	  "/admin/tls: needs \"certificate\" and \"key\"\n" },
	{ WITH_ROOT("'tls': {'directory': 'x', 'tickets': {'rotate': '1s', 'files': ['y']}}"),
	  "/tls/directory: must be an absolute path: it begins with /\n"
	  "/tls/tickets/rotate: must be at least 1m\n"
	  "/tls/tickets/files/0: must be an absolute path: it begins with /\n" },
	{ WITH_ROOT("'limits': {'h2': {'streams': 0, 'resets_per_minute': 0, "
		    "'controls_per_minute': 0}, "
		    "'tunnel_timeout': 0}"),
	  "/limits/tunnel_timeout: must be at least 1ms\n"
	  "/limits/h2/streams: must be at least 1\n"
	  "/limits/h2/resets_per_minute: must be at least 1\n"
	  "/limits/h2/controls_per_minute: must be at least 1\n" },
	/* values */
	{ WITH_ROOT("'workers': 65"), "/workers: must be \"auto\" or a number from 1 to 64\n" },
	{ WITH_ROOT("'workers': 1.5"), "/workers: must be \"auto\" or a number from 1 to 64\n" },
	{ WITH_ROOT("'name': 'my node'"),
	  "/name: must be a letter, then letters, digits or !#$%&'*+-.^_`|~, 64 in all at most\n" },
	{ WITH_ROOT("'name': 5"), "/name: must be a string\n" },
	{ WITH_ROOT("'name': null"), "/name: must be a string\n" },
	{ WITH_ROOT("'shutdown_timeout': '10'"), "/shutdown_timeout: must be a duration like "
						 "\"250ms\", \"10s\", \"5m\", \"1h\", \"30d\", or "
						 "seconds\n" },
	{ WITH_ROOT("'shutdown_timeout': -1"), "/shutdown_timeout: must be a duration like "
					       "\"250ms\", \"10s\", \"5m\", \"1h\", \"30d\", or "
					       "seconds\n" },
	{ WITH_ROOT("'shutdown_timeout': '2d'"), "/shutdown_timeout: must be at most 1d\n" },
	{ WITH_ROOT("'limits': {'idle_timeout': 0}"),
	  "/limits/idle_timeout: must be at least 1ms\n" },
	{ WITH_ROOT("'limits': {'header_bytes': 1000.5}"),
	  "/limits/header_bytes: must be a size like \"64KiB\", \"10GiB\", \"1GB\", or bytes\n" },
	{ WITH_ROOT("'limits': {'header_bytes': '2MiB'}"),
	  "/limits/header_bytes: must be at most 1MiB\n" },
	{ WITH_ROOT("'limits': {'header_bytes': '99999999999TiB'}"),
	  "/limits/header_bytes: is too large a number\n" },
	{ WITH_ROOT("'limits': {'headers': '100'}"), "/limits/headers: must be a whole number\n" },
	{ WITH_ROOT("'limits': {'connections': 1e300}"),
	  "/limits/connections: must be a whole number\n" },
	{ WITH_ROOT("'trusted_proxies': ['10.0.0.0/8', '10.0.0.1/8', 'x']"),
	  "/trusted_proxies/1: must be an address or a network like \"10.0.0.0/8\" or \"::1\", "
	  "without "
	  "bits beyond its mask\n"
	  "/trusted_proxies/2: must be an address or a network like \"10.0.0.0/8\" or \"::1\", "
	  "without "
	  "bits beyond its mask\n" },
	{ WITH_ROOT("'trusted_proxies': {}"), "/trusted_proxies: must be a list: […]\n" },
	{ WITH_ROOT("'admin': {'listen': ['127.0.0.1:9'], 'socket_mode': 660}"),
	  "/admin/socket_mode: must be an octal mode as a string, like \"0660\"\n"
	  "/admin/listen/0: anybody could call it: TCP needs a token in \"admin.tokens\"\n" },
	{ WITH_ROOT("'admin': {'listen': ['unix:/a', 'unix:/a']}"),
	  "/admin/listen/1: \"unix:/a\" is there twice\n" },
	{ WITH_ROOT("'log': {'access': {'path': 'x.log'}, 'error': {'level': 'all'}}"),
	  "/log/access/path: must be an absolute path: it begins with /\n"
	  "/log/error/level: must be one of \"error\", \"warn\", \"info\", \"debug\"\n" },
	{ WITH_ORIGIN("'balance': 'least'"), "/origins/shop/balance: must be \"round_robin\"\n" },
	{ WITH_CACHE("'heuristic': 1"),
	  "/sites/0/cache/heuristic: must be true, false or \"all\"\n" },
	{ WITH_CACHE("'statuses': {'40': 1, '404': 'x'}"),
	  "/sites/0/cache/statuses/40: must be a status like \"404\" or a class like \"5xx\"\n"
	  "/sites/0/cache/statuses/404: must be a duration like \"250ms\", \"10s\", \"5m\", "
	  "\"1h\", "
	  "\"30d\", or seconds\n" },
	{ WITH_CACHE("'ignore_headers': ['expires', 'age']"),
	  "/sites/0/cache/ignore_headers/1: must be one of \"cache-control\", \"expires\", "
	  "\"set-cookie\"\n" },
	{ WITH_CACHE("'max_object_size': '0%'"),
	  "/sites/0/cache/max_object_size: must be from \"1%\" to \"100%\", or a size\n" },
	{ WITH_CACHE("'key': {'headers': ['a b']}"),
	  "/sites/0/cache/key/headers/0: is not a field name\n" },
	{ WITH_SITE("'purge_from': ['unix']"),
	  "/sites/0/purge_from/0: must be an address or a network like \"10.0.0.0/8\" or \"::1\", "
	  "without bits beyond its mask\n" },
	{ WITH_RULE("'match': {'path': 'a', 'method': ['get'], 'cookie': []}, 'cache': {'ttl': 1}"),
	  "/sites/0/rules/0/match/path: must begin with / or *\n"
	  "/sites/0/rules/0/match/method/0: must be in upper case, as methods are\n"
	  "/sites/0/rules/0/match/cookie: must not be empty\n" },
	/* keys of the cache, and rules */
	{ WITH_CACHE("'key': {'query': {'keep': [], 'excpet': 'a', 'sort': 1}}"),
	  "/sites/0/cache/key/query/keep: unknown key\n"
	  "/sites/0/cache/key/query/excpet: unknown key, did you mean \"except\"?\n"
	  "/sites/0/cache/key/query/sort: must be true or false\n" },
	{ WITH_CACHE("'key': {'query': {'only': ['a', 'b=', ''], 'except': 'c'}}"),
	  "/sites/0/cache/key/query/only/1: must be a parameter's name, without &, = and ?; * "
	  "stands for any characters\n"
	  "/sites/0/cache/key/query/only/2: must not be empty\n"
	  "/sites/0/cache/key/query: takes \"only\" or \"except\", not both\n" },
	{ WITH_CACHE("'key': {'query': 'some'}, 'client_ttl': 'x', 'heuristic': 'some'"),
	  "/sites/0/cache/heuristic: must be true, false or \"all\"\n"
	  "/sites/0/cache/key/query: must be \"all\", \"none\" or an object like {\"except\": "
	  "[\"utm_*\"]}\n"
	  "/sites/0/cache/client_ttl: must be a duration like \"250ms\", \"10s\", \"5m\", \"1h\", "
	  "\"30d\", or seconds\n" },
	{ WITH_CACHE("'targeted': ['Expires', 'a b'], 'pass_headers': ['X-Orignal-URL', 'x:', "
		     "'X-Forwarded-Host', 'X-Forwarded-Port'], 'default_ttl': null"),
	  "/sites/0/cache/default_ttl: must be a duration like \"250ms\", \"10s\", \"5m\", \"1h\", "
	  "\"30d\", or seconds\n"
	  "/sites/0/cache/targeted/0: is not a targeted field: it is read where none of those is "
	  "valid\n"
	  "/sites/0/cache/targeted/1: is not a field name\n"
	  "/sites/0/cache/pass_headers/0: is not held back: no need to list it, or is the name "
	  "wrong?\n"
	  "/sites/0/cache/pass_headers/1: is not a field name\n"
	  "/sites/0/cache/pass_headers/2: is not held back: no need to list it, or is the name "
	  "wrong?\n" },
	{ WITH_CACHE("'normalise': {'accept_language': ['en', 'de_DE', '', 'x-', 'abcdefghi'], "
		     "'accept_encoding': 'yes'}"),
	  "/sites/0/cache/normalise/accept_encoding: must be true or false\n"
	  "/sites/0/cache/normalise/accept_language/1: is not a language tag like \"en\" or "
	  "\"pt-BR\"\n"
	  "/sites/0/cache/normalise/accept_language/2: must not be empty\n"
	  "/sites/0/cache/normalise/accept_language/3: is not a language tag like \"en\" or "
	  "\"pt-BR\"\n"
	  "/sites/0/cache/normalise/accept_language/4: is not a language tag like \"en\" or "
	  "\"pt-BR\"\n" },
	{ WITH_RULE("'cache': {'ttl': 1}, 'match': {'host': 'a/b', 'query': 'a&b', 'header': ':x', "
		    "'client': ['10.0.0.1/8'], 'status': ['4x', 199, 404.5, '499-400', true], "
		    "'content_type': ['html', 'text/html;q']}"),
	  "/sites/0/rules/0/match/host: is not a host name with * for any characters\n"
	  "/sites/0/rules/0/match/query: must be a parameter's name, without &, = and ?; * stands "
	  "for any characters\n"
	  "/sites/0/rules/0/match/header: is not a field name with * for any characters\n"
	  "/sites/0/rules/0/match/client/0: must be an address or a network like \"10.0.0.0/8\" or "
	  "\"::1\", without bits beyond its mask\n"
	  "/sites/0/rules/0/match/status/0: must be a status like 404, a class like \"5xx\" or a "
	  "range like \"400-499\", from 200 on\n"
	  "/sites/0/rules/0/match/status/1: must be a status like 404, a class like \"5xx\" or a "
	  "range like \"400-499\", from 200 on\n"
	  "/sites/0/rules/0/match/status/2: must be a status like 404, a class like \"5xx\" or a "
	  "range like \"400-499\", from 200 on\n"
	  "/sites/0/rules/0/match/status/3: must be a status like 404, a class like \"5xx\" or a "
	  "range like \"400-499\", from 200 on\n"
	  "/sites/0/rules/0/match/status/4: must be a status like 404, a class like \"5xx\" or a "
	  "range like \"400-499\", from 200 on\n"
	  "/sites/0/rules/0/match/content_type/0: must be a media type like \"text/html\" or "
	  "\"image/*\"\n"
	  "/sites/0/rules/0/match/content_type/1: must be a media type without parameters; * "
	  "stands for any characters\n" },
	{ WITH_RULE("'cache': {'ttl': 1}, 'match': {'status': [], 'not': {'path': 'x', 'not': {}, "
		    "'stauts': 1}}"),
	  "/sites/0/rules/0/match/status: must have 1 to 64 elements\n"
	  "/sites/0/rules/0/match/not/not: unknown key\n"
	  "/sites/0/rules/0/match/not/stauts: unknown key, did you mean \"status\"?\n"
	  "/sites/0/rules/0/match/not/path: must begin with / or *\n" },
	{ WITH_RULE("'cache': {'ttl': 1}, 'match': {'not': {}}"),
	  "/sites/0/rules/0/match/not: must not be empty: nothing would match\n" },
	{ WITH_RULE("'request_headers': {'remove': ['Via', 'Host', 'Range', 'X-Forwarded-For'], "
		    "'set': {'CDN-Loop': 'x', 'te': 'x', 'X-A': ''}, 'add': {'a b': 'x', 'X-B': "
		    "['a', ' b'], 'x-b': 'c'}}"),
	  "/sites/0/rules/0/request_headers/remove/0: tells where a message has been: no rule may "
	  "edit it\n"
	  "/sites/0/rules/0/request_headers/remove/1: is set by the origin's \"host\"\n"
	  "/sites/0/rules/0/request_headers/remove/2: is written by the node itself: no rule may "
	  "edit it\n"
	  "/sites/0/rules/0/request_headers/remove/3: is written by the node itself: no rule may "
	  "edit it\n"
	  "/sites/0/rules/0/request_headers/set/CDN-Loop: tells where a message has been: no rule "
	  "may edit it\n"
	  "/sites/0/rules/0/request_headers/set/te: belongs to the connection or frames the "
	  "message: no rule may edit it\n"
	  "/sites/0/rules/0/request_headers/set/X-A: must not be empty\n"
	  "/sites/0/rules/0/request_headers/add/a b: is not a field name\n"
	  "/sites/0/rules/0/request_headers/add/X-B/1: must not begin or end with a blank\n"
	  "/sites/0/rules/0/request_headers/add/x-b: is there twice\n" },
	{ WITH_RULE("'response_headers': {'remove': 'Transfer-Encoding', 'set': {'Content-Length': "
		    "'1', 'via': 'x', 'Age': '1', 'X-A': 'a\\nb'}, 'add': 'x', 'put': {}}"),
	  "/sites/0/rules/0/response_headers/put: unknown key\n"
	  "/sites/0/rules/0/response_headers/remove: belongs to the connection or frames the "
	  "message: no rule may edit it\n"
	  "/sites/0/rules/0/response_headers/set/Content-Length: belongs to the connection or "
	  "frames the message: no rule may edit it\n"
	  "/sites/0/rules/0/response_headers/set/via: tells where a message has been: no rule may "
	  "edit it\n"
	  "/sites/0/rules/0/response_headers/set/Age: is written by the node itself: no rule may "
	  "edit it\n"
	  "/sites/0/rules/0/response_headers/set/X-A: must not hold control characters\n"
	  "/sites/0/rules/0/response_headers/add: must be an object like {\"X-Frame-Options\": "
	  "\"DENY\"}\n"
	  "/sites/0/rules/0: changes nothing: give it \"cache\", \"origin\", \"request_headers\", "
	  "\"response_headers\", \"respond\" or \"redirect\"\n" },
	{ WITH_RULE("'respond': {'status': 100, 'headers': {'Connection': 'close'}, 'text': 'x'}, "
		    "'redirect': '/x'"),
	  "/sites/0/rules/0/respond/text: unknown key\n"
	  "/sites/0/rules/0/respond/status: must be at least 200\n"
	  "/sites/0/rules/0/respond/headers/Connection: belongs to the connection or frames the "
	  "message: no rule may edit it\n"
	  "/sites/0/rules/0/redirect: has no place beside \"respond\": a rule has one answer\n" },
	{ WITH_RULE("'respond': {'status': 204, 'body': 'x'}"),
	  "/sites/0/rules/0/respond: an answer with status 204 has no body\n" },
	{ WITH_RULE("'redirect': {'status': 304}"),
	  "/sites/0/rules/0/redirect/status: must be 301, 302, 303, 307 or 308\n"
	  "/sites/0/rules/0/redirect/location: is missing: a URL or a path, with `${host}` "
	  "(without port), `${path}`, `${query}` (with its `?`, if there is one)\n" },
	{ WITH_RULE("'redirect': '//x'"),
	  "/sites/0/rules/0/redirect: must begin with http:// or https:// and a host, with "
	  "${path}, or with / and no second one\n" },
	{ WITH_RULE("'redirect': '/${path}'"),
	  "/sites/0/rules/0/redirect: must begin with http:// or https:// and a host, with "
	  "${path}, or with / and no second one\n" },
	{ WITH_RULE("'redirect': 'x'"),
	  "/sites/0/rules/0/redirect: must begin with http:// or https:// and a host, with "
	  "${path}, or with / and no second one\n" },
	{ WITH_RULE("'redirect': 'https://'"),
	  "/sites/0/rules/0/redirect: must begin with http:// or https:// and a host, with "
	  "${path}, or with / and no second one\n" },
	{ WITH_RULE("'redirect': 'https://${path}'"),
	  "/sites/0/rules/0/redirect: must begin with http:// or https:// and a host, with "
	  "${path}, or with / and no second one\n" },
	{ WITH_RULE("'redirect': 'https:///x'"),
	  "/sites/0/rules/0/redirect: must begin with http:// or https:// and a host, with "
	  "${path}, or with / and no second one\n" },
	{ WITH_RULE("'redirect': 'ftp://x'"),
	  "/sites/0/rules/0/redirect: must begin with http:// or https:// and a host, with "
	  "${path}, or with / and no second one\n" },
	{ WITH_RULE("'redirect': '${query}'"),
	  "/sites/0/rules/0/redirect: must begin with http:// or https:// and a host, with "
	  "${path}, or with / and no second one\n" },
	{ WITH_RULE("'redirect': '${host}/'"),
	  "/sites/0/rules/0/redirect: must begin with http:// or https:// and a host, with "
	  "${path}, or with / and no second one\n" },
	{ WITH_RULE("'redirect': 'https://a/${url}'"),
	  "/sites/0/rules/0/redirect: knows ${host}, ${path} and ${query} only\n" },
	{ WITH_RULE("'redirect': '/a b'"),
	  "/sites/0/rules/0/redirect: must be a URL in printable ASCII, the rest as %XX\n" },
	{ WITH_RULE("'redirect': '/${path'"),
	  "/sites/0/rules/0/redirect: knows ${host}, ${path} and ${query} only\n" },
	{ WITH_RULE("'redirect': 5"), "/sites/0/rules/0/redirect: must be a location like "
				      "\"https://shop.example${path}${query}\", or an object\n" },
	{ WITH_RULE("'match': {'status': 404}, 'origin': 'shop', 'cache': {'ttl': 1, 'key': "
		    "{'query': 'none', 'headers': ['a']}, 'request_directives': 'honour'}, "
		    "'request_headers': {'remove': 'a'}, 'respond': {}"),
	  "/sites/0/rules/0/cache/request_directives: is decided before there is an answer: not by "
	  "a rule with \"status\" or \"content_type\"\n"
	  "/sites/0/rules/0/cache/key/query: is decided before there is an answer: not by a rule "
	  "with \"status\" or \"content_type\"\n"
	  "/sites/0/rules/0/cache/key/headers: is decided before there is an answer: not by a rule "
	  "with \"status\" or \"content_type\"\n"
	  "/sites/0/rules/0/origin: is decided before there is an answer: not by a rule with "
	  "\"status\" or \"content_type\"\n"
	  "/sites/0/rules/0/request_headers: is decided before there is an answer: not by a rule "
	  "with \"status\" or \"content_type\"\n"
	  "/sites/0/rules/0/respond: is decided before there is an answer: not by a rule with "
	  "\"status\" or \"content_type\"\n" },
	{ WITH_RULE("'match': {'not': {'content_type': 'text/*'}}, 'redirect': '/x'"),
	  "/sites/0/rules/0/redirect: is decided before there is an answer: not by a rule with "
	  "\"status\" or \"content_type\"\n" },
	/* origins and servers */
	{ "{" BASE ", 'origins': {'a b': {'servers': []}, 'c': {}, 'd': 1}}",
	  "/origins/a b: the name must be printable ASCII without spaces, quotes or backslashes\n"
	  "/origins/a b/servers: must not be empty\n"
	  "/origins/c/servers: is missing: where requests go\n"
	  "/origins/d: must be an object: {…}\n" },
	{ "{" BASE ", 'origins': {'a': {'servers': [{'url': 'https://'}, {'url': 'ftp://a'},"
	  " {'url': 'http://a/x'}, {'url': 'http://u@a'}, {'url': 'a'}, {'url': 'http://a b'}, "
	  "{}]}}}",
	  "/origins/a/servers/0/url: must be a URL like \"http://10.0.0.5:8080\"\n"
	  "/origins/a/servers/1/url: must be a URL like \"http://10.0.0.5:8080\"\n"
	  "/origins/a/servers/2/url: must end after the host and port: a path has no place here\n"
	  "/origins/a/servers/3/url: must be a URL like \"http://10.0.0.5:8080\"\n"
	  "/origins/a/servers/4/url: must be a URL like \"http://10.0.0.5:8080\"\n"
	  "/origins/a/servers/5/url: must be a URL like \"http://10.0.0.5:8080\"\n"
	  "/origins/a/servers/6/url: is missing: `\"http://host:port\"` or `\"https://…\"`, "
	  "without a path; names are resolved\n" },
	{ "{" BASE ", 'origins': {'a': {'servers': [{'url': 'http://a'}, {'url': 'http://A:80/'}]},"
	  " 'b': {'servers': [{'url': 'http://a', 'backup': true}]}}}",
	  "/origins/a/servers/1/url: is the same server as servers/0\n"
	  "/origins/b/servers: has only backups: one server at least must not be one\n" },
	/* sites */
	{ "{" BASE ", " ORIGINS
	  ", 'sites': [{'hosts': ['a', 'A', '*.*', 'x:80', 'b.', '*', '[::1]', '[::2'],"
	  " 'origin': 'shpo'}, {'hosts': ['*', '*.x', '[::1]'], 'name': 'a', 'origin': 'zzzzzz'}, "
	  "{}]}",
	  "/sites/0/hosts/2: may have a * only as the whole first label (\"*.shop.example\") or "
	  "alone\n"
	  "/sites/0/hosts/3: must be without a port: a site is the same on all of them\n"
	  "/sites/0/hosts/4: is not a host name (letters, digits, hyphens; no dot at the end)\n"
	  "/sites/0/hosts/7: is not a host name\n"
	  "/sites/0/origin: there is no origin \"shpo\", did you mean \"shop\"?\n"
	  "/sites/1/origin: there is no origin \"zzzzzz\" in \"origins\"\n"
	  "/sites/2/hosts: is missing: `\"shop.example\"`, `\"*.shop.example\"` (any name below "
	  "it), "
	  "`\"*\"` (all others), without ports\n"
	  "/sites/2/origin: is missing: a name in `origins`\n"
	  "/sites/1/name: \"a\" is already the name of another site: give each its own\n"
	  "/sites/0/hosts/1: \"a\" is already a host of the site \"a\"\n"
	  "/sites/1/hosts/0: \"*\" is already a host of the site \"a\"\n"
	  "/sites/1/hosts/2: \"[::1]\" is already a host of the site \"a\"\n" },
	{ WITH_CACHE("'min_ttl': '1h', 'max_ttl': '1m'"),
	  "/sites/0/cache/min_ttl: is longer than max_ttl\n" },
	{ WITH_RULE("'cache': {'min_ttl': '366d'}"),
	  "/sites/0/rules/0: min_ttl is longer than max_ttl where this rule applies\n" },
	{ WITH_RULE("'match': {}"),
	  "/sites/0/rules/0: changes nothing: give it \"cache\", \"origin\", \"request_headers\", "
	  "\"response_headers\", \"respond\" or \"redirect\"\n" },
	{ "{" BASE ", 'defaults': {'site': {'name': 'x', 'cache': {'ttl': 1, 'heuristic': 0}},"
	  " 'origin': {'servers': []}, 'sites': {}}, " ORIGINS ", " SITES "}",
	  "/defaults/sites: unknown key, did you mean \"site\"?\n"
	  "/defaults/origin/servers: has no place in \"defaults\": it says which one it is\n"
	  "/defaults/site/name: has no place in \"defaults\": it says which one it is\n"
	  "/defaults/site/cache/ttl: only a rule's \"cache\" may set it\n"
	  "/defaults/site/cache/heuristic: must be true, false or \"all\"\n" },
	/* listeners and stores */
	{ "{'listeners': [{'address': '127.0.0.1:80'}, {'address': '127.0.0.1:80'}, {'address': "
	  "'80'},"
	  " {'address': '127.0.0.1:0'}, {'address': 'unix:/a'}], 'admin': {'listen': "
	  "['unix:/a']}, " STORES "}",
	  "/listeners/2/address: must be an address and a port like \"0.0.0.0:80\", \"[::]:80\", "
	  "\"*:80\", or \"unix:/path\"\n"
	  "/listeners/3/address: needs a port other than 0\n"
	  "/listeners/1/address: 127.0.0.1:80 is already /listeners/0\n"
	  "/admin/listen/0: is already /listeners/4: choose another address\n" },
	{ "{" LISTENERS
	  ", 'stores': [{'path': '/a/b', 'size': '63MiB'}, {'path': 'a', 'size': '1GiB'},"
	  " {'path': '/a//./b/', 'size': '64MiB'}, {'path': '/a/b/c', 'size': '64MiB'},"
	  " {'path': '/a/bc', 'size': '1PiB', 'name': '/a/b'}]}",
	  "/stores/0/size: must be at least 64MiB\n"
	  "/stores/1/path: must be an absolute path: it begins with /\n"
	  "/stores/4/size: must be a size like \"64KiB\", \"10GiB\", \"1GB\", or bytes\n"
	  "/stores/2/path: overlaps /stores/0 (/a/b): each store needs a directory of its own\n"
	  "/stores/3/path: overlaps /stores/0 (/a/b): each store needs a directory of its own\n"
	  "/stores/3/path: overlaps /stores/2 (/a//./b/): each store needs a directory of its own\n"
	  "/stores/4/name: is already the name of /stores/0\n" },
};

static void tells_all_faults(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct told t;

		told_begin(&t);
		struct conf *c = build_told(cases[i].text, &t);

		assert_string_equal(told_text(&t), cases[i].told);
		assert_null(c);
		told_end(&t);
	}
}

static void counts_servers_of_all_origins(void **state)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);
	struct told t;

	(void)state;
	fprintf(f, "{" BASE ", 'origins': {");
	for (unsigned o = 0; o < 2; o++) {
		fprintf(f, "%s'o%u': {'servers': [", o == 0 ? "" : ", ", o);
		for (unsigned i = 0; i < 129; i++)
			fprintf(f, "%s{'url': 'http://a:%u'}", i == 0 ? "" : ",", i + 1);
		fprintf(f, "]}");
	}
	fprintf(f, "}}");
	fclose(f);
	told_begin(&t);
	assert_null(build_told(text, &t));
	assert_string_equal(told_text(&t),
			    "/origins: have 258 servers together, at most 256 are allowed\n");
	told_end(&t);
	free(text);
}

/* A URL's possible keys, and edits, are bounded for the whole site. */
static void counts_what_rules_do_together(void **state)
{
	static const struct {
		unsigned queries;
		const char *other, *told;
	} sites[] = {
		{ 7, "", "" },
		{ 3, "{'cache': {'key': {'scheme': true}}},", "" },
		{ 4, "{'cache': {'key': {'scheme': true}}},", "keys" },
		{ 8, "", "keys" },
		{ 1, "{'cache': {'key': {'scheme': true, 'host': false}}},", "" },
		{ 2, "{'cache': {'key': {'scheme': true, 'host': false}}},", "keys" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sites); i++) {
		char *text = NULL;
		size_t bytes;
		FILE *f = open_memstream(&text, &bytes);
		struct told t;

		fprintf(f, "{" BASE ", " ORIGINS ", 'sites': [{'hosts': 'x', 'origin': 'shop', 'rules': [%s",
			sites[i].other);
		for (unsigned j = 0; j < 2 * sites[i].queries; j++)
			fprintf(f, "{'cache': {'key': {'query': {'only': 'q%u'}}}},", j / 2);
		fprintf(f, "{'cache': {'ttl': 1}}]}]}");
		fclose(f);
		told_begin(&t);
		struct conf *c = build_told(text, &t);

		assert_int_equal(c == NULL, *sites[i].told != '\0');
		assert_non_null(strstr(told_text(&t), sites[i].told));
		if (c != NULL)
			conf_unref(c);
		told_end(&t);
		free(text);
	}
}

static void counts_edits_of_a_site(void **state)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);
	struct told t;

	(void)state;
	fprintf(f, "{" BASE ", " ORIGINS ", 'sites': [{'hosts': 'x', 'origin': 'shop', 'rules': [");
	for (unsigned i = 0; i <= CONF_EDITS_MAX; i++)
		fprintf(f, "%s{'response_headers': {'add': {'X-%u': 'x'}}}", i == 0 ? "" : ",", i);
	fprintf(f, "]}]}");
	fclose(f);
	told_begin(&t);
	assert_null(build_told(text, &t));
	assert_string_equal(
		told_text(&t),
		"/sites/0/rules: edit 129 response fields in all, at most 128 are allowed\n");
	told_end(&t);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_all_faults),
		cmocka_unit_test(counts_servers_of_all_origins),
		cmocka_unit_test(counts_what_rules_do_together),
		cmocka_unit_test(counts_edits_of_a_site),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
