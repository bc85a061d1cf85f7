/*
 * The configuration as the program sees it: an immutable snapshot, built whole from one text or
 * not at all. Requests keep the snapshot that they began with (reference-counted, per process).
 *
 * The master reads and merges files (conf_read), checks them, and hands every child one text in a
 * sealed memfd; children build from it (conf_build) and open no configuration file.
 *
 * All strings are NUL-terminated views into the snapshot. Durations are milliseconds.
 */
#ifndef BRIM_CONF_CONF_H
#define BRIM_CONF_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "edge/base/arena.h"
#include "edge/base/log.h"
#include "edge/base/sock.h"
#include "edge/base/view.h"
#include "edge/http/head.h"

enum {
	CONF_WORKERS_MAX = 64,
	CONF_STORES_MAX = 8,
	CONF_LISTENERS_MAX = 32,
	CONF_SITES_MAX = 1000,
	CONF_SERVERS_MAX = 256, /* of all origins together */
	CONF_RULES_MAX = 256,	/* of one site */
	CONF_KEY_FORMS_MAX = 8, /* of one site: what its rules can make of a URL's key */
	CONF_EDITS_MAX = 128,	/* of one site's rules, of requests and of answers each */
};

struct conf_list { /* of strings */
	struct view *at;
	size_t count;
};

struct conf_nets {
	struct sock_net *at;
	size_t count;
};

struct conf_listener {
	struct sock_addr address;
	struct view text;	 /* as configured */
	struct view health_path; /* empty: none */
	bool tls;
	bool http1, http2;	     /* "protocols". Without TLS, h2 is by prior knowledge */
	struct conf_nets proxy_from; /* peers that send a PROXY header, v1 or v2, and must; none: nobody */
};

/* A certificate with its chain, and its key: the texts of the files. Only a process that serves TLS has the key. */
struct conf_certificate {
	struct view certificate_path, key_path, ocsp_path; /* for messages; no ocsp_path: no stapling */
	struct view certificate, key;			   /* PEM; key empty: not in this process */
	struct view ocsp;				   /* DER */
};

struct conf_site_tls {
	struct conf_certificate *certificates; /* one a kind of key (RSA, ECDSA) */
	size_t certificate_count;
	bool fallback; /* "default": also for connections without a name, or with one that nobody has */
	bool early_data; /* of TLS 1.3, safe methods alone */
	enum { CONF_CLIENT_NONE, CONF_CLIENT_REQUEST, CONF_CLIENT_REQUIRE } client_verify;
	struct view client_ca_path, client_ca; /* PEM */
};

/* "hsts" */
struct conf_hsts {
	int64_t max_age_ms; /* -1: no field */
	bool subdomains, preload;
	struct view value; /* the field's; empty: none */
};

struct conf_store {
	struct view name, path;
	uint64_t size_bytes;
};

struct conf_server {
	struct view url; /* "http://10.0.0.5:8080", as given: with the origin's name, its identity */
	struct view host; /* name or address literal, without port and brackets */
	uint16_t port;
	bool literal; /* host is an address: «address» is set and nothing is resolved */
	struct sock_addr address;
	struct view authority;		  /* for the Host field: "host" or "host:port" */
	uint32_t weight, max_connections; /* 0 connections: no limit */
	bool backup;
	uint16_t slot; /* in the shared table of servers; given by the master, stable across reloads */
	bool tls;      /* https:// */
};

/* Of the connections to servers with https:// */
struct conf_origin_tls {
	bool verify;
	struct view ca_path, ca;	/* PEM; empty: the system's */
	struct view server_name;	/* for SNI and the check; empty: the server's host */
	struct conf_certificate client; /* certificate empty: none */
};

struct conf_origin {
	struct view name;
	struct conf_server *servers;
	size_t server_count;
	bool host_client; /* "host": "client": the client's Host goes on */
	struct view host; /* else this, or with "server" … empty: the server's authority */
	uint64_t resolve_interval_ms, connect_ms, first_byte_ms, between_bytes_ms, idle_ms;
	uint32_t max_idle, retries;
	struct conf_origin_tls tls;
	uint64_t tls_identity; /* a hash of all that «tls» says: connections and sessions of another are not reused */
};

enum conf_set_cookie { CONF_SET_COOKIE_PASS, CONF_SET_COOKIE_STRIP, CONF_SET_COOKIE_STORE };

/* A "statuses" entry: 404, or 5xx as 500..599. */
struct conf_status_ttl {
	uint16_t from, to;
	int64_t ttl_ms;
};

/* "key.query": what of the query is in the key. The origin gets all of it. */
struct conf_query {
	enum conf_query_kind {
		CONF_QUERY_ALL,
		CONF_QUERY_NONE,
		CONF_QUERY_ONLY,   /* parameters whose names a glob of «names» fits */
		CONF_QUERY_EXCEPT, /* all but those */
	} kind;
	bool sort;    /* parameters in the order of their names */
	uint8_t form; /* which of the site's queries (struct conf_site) it equals */
	struct conf_list names;
};

/* What "cache" says, after site defaults; a rule gives a changed copy (conf_request_rules). */
struct conf_cache {
	int64_t default_ttl_ms, min_ttl_ms, max_ttl_ms;
	int64_t rule_ttl_ms; /* a rule's "ttl"; -1: none */
	bool bypass; /* by a rule only: not looked up, not stored; by one with a status: not stored */
	bool heuristic, heuristic_all; /* all: of every status that RFC 9110 §15.1 allows */
	struct conf_status_ttl *statuses;
	size_t status_count;
	int64_t stale_while_revalidate_ms, stale_if_error_ms;
	int64_t client_ttl_ms; /* what clients are told instead of the origin's fields; -1: those */
	struct conf_list targeted; /* fields that are read before Cache-Control, first one first */
	enum conf_set_cookie set_cookie;
	bool honour_request_directives;
	bool ignore_cache_control, ignore_expires, ignore_set_cookie; /* "ignore_headers" */
	uint64_t max_object_bytes; /* 0: by percent of the store */
	uint8_t max_object_percent;
	uint32_t max_variants;
	bool key_host, key_scheme;
	bool key_show; /* in Cache-Status */
	struct conf_query key_query;
	struct conf_list key_headers, key_cookies;
	bool normalise_accept_encoding;
	struct conf_list accept_languages; /* what Accept-Language is reduced to; empty: it is left alone */
	struct conf_list pass_headers; /* see conf_passes */
	bool deception_guard;
	bool no_vary_search; /* honoured */
	struct conf_list tag_headers;
	uint64_t collapse_wait_ms;
	bool collapse_share;
	enum { CONF_ABORT_AUTO, CONF_ABORT_ALWAYS, CONF_ABORT_NEVER } fill_after_abort;
};

struct conf_status_range {
	uint16_t from, to;
};

/* "match": absent lists match everything; lists are or-ed, keys and-ed. Globs, if nothing else is said. */
struct conf_match {
	struct conf_list path, host;
	struct conf_list query, header, cookie; /* of names */
	struct conf_nets client;
	uint32_t methods;	       /* a bit per enum http_method; 0: any */
	struct conf_list method_names; /* for METHOD_OTHER */
	struct conf_status_range *statuses;
	size_t status_count;
	struct conf_list content_type;
	struct conf_match *except; /* "not": what fits all of it does not match; NULL: none */
};

/* One change of a head. A name is there once or more often; values are whole field lines. */
struct conf_edit {
	enum conf_edit_kind { CONF_EDIT_REMOVE, CONF_EDIT_SET, CONF_EDIT_ADD } kind;
	struct view name, value; /* no value with REMOVE */
};

struct conf_edits {
	struct conf_edit *at;
	size_t count;
};

/* A rule's own answer: "respond", or "redirect" where location is set. */
struct conf_respond {
	uint16_t status;
	struct conf_edits headers; /* all ADD */
	struct view body;	   /* of respond */
	struct view location;	   /* of redirect: a template, see conf_redirect_location */
};

/* What a rule's "cache" may set, in the order of the key table (conf/keys.c). */
enum conf_rule_key {
	CONF_RULE_TTL,
	CONF_RULE_BYPASS,
	CONF_RULE_DEFAULT_TTL,
	CONF_RULE_MIN_TTL,
	CONF_RULE_MAX_TTL,
	CONF_RULE_HEURISTIC,
	CONF_RULE_STATUSES,
	CONF_RULE_STALE_WHILE_REVALIDATE,
	CONF_RULE_STALE_IF_ERROR,
	CONF_RULE_SET_COOKIE,
	CONF_RULE_REQUEST_DIRECTIVES,
	CONF_RULE_IGNORE_HEADERS,
	CONF_RULE_MAX_OBJECT_SIZE,
	CONF_RULE_MAX_VARIANTS,
	CONF_RULE_KEY_HOST,
	CONF_RULE_KEY_SCHEME,
	CONF_RULE_KEY_QUERY,
	CONF_RULE_KEY_HEADERS,
	CONF_RULE_KEY_COOKIES,
	CONF_RULE_TAG_HEADERS,
	CONF_RULE_COLLAPSE_WAIT,
	CONF_RULE_COLLAPSE_ON_FAILURE,
	CONF_RULE_FILL_AFTER_ABORT,
	CONF_RULE_CLIENT_TTL,
	CONF_RULE_TARGETED,
	CONF_RULE_KEY_SHOW,
	CONF_RULE_NORMALISE_ACCEPT_ENCODING,
	CONF_RULE_NORMALISE_ACCEPT_LANGUAGE,
	CONF_RULE_PASS_HEADERS,
	CONF_RULE_DECEPTION_GUARD,
	CONF_RULE_NO_VARY_SEARCH,
	CONF_RULE_COUNT,
};

struct conf_rule {
	struct conf_match match;
	uint32_t index; /* in the site, for messages */
	uint32_t set;	/* which members of «cache» it sets: 1u << CONF_RULE_… each */
	struct conf_cache cache;
	struct conf_origin *origin; /* NULL: the site's */
	struct conf_edits request_edits, response_edits;
	struct conf_respond *respond; /* NULL: none */
};

struct conf_site {
	struct view name;
	struct conf_list hosts; /* lower case: "shop.example", "*.shop.example", "*" */
	struct conf_origin *origin;
	struct conf_cache cache;
	struct conf_rule *rules;
	size_t rule_count;
	bool rules_on_answer; /* some rule asks for status or content type, or edits answers */
	struct conf_query queries[CONF_KEY_FORMS_MAX]; /* the different ones of the site and its rules; the site's first */
	uint8_t query_count;
	uint32_t key_forms; /* a hash of what keys are made of, and where: see struct cache_names; not 0 */
	uint64_t max_request_body;
	struct conf_site_tls tls;
	bool https_redirect;
	struct conf_hsts hsts;
	struct conf_list upgrade; /* protocols that a client may change to, if the origin does: "websocket" */
	struct conf_nets purge_from;
	bool purge_allowed; /* purge_from was given (else PURGE is 405) */
	uint16_t slot; /* in the shared statistics; given by the master, stable across reloads */
	uint64_t name_hash; /* for keys and purge scopes */
};

struct conf_limits {
	uint32_t header_bytes;
	uint16_t headers;
	uint64_t header_timeout_ms, body_timeout_ms, send_timeout_ms, idle_timeout_ms;
	uint32_t connections, connections_per_client; /* per node; 0: none */
	uint64_t tunnel_timeout_ms;		      /* of silence in an upgraded connection */
	struct conf_h2_limits {
		uint32_t streams;	      /* open at once, of a connection */
		uint32_t resets_per_minute;   /* streams reset by the client, of a connection */
		uint32_t controls_per_minute; /* SETTINGS, PING, PRIORITY_UPDATE and empty frames */
	} h2;
};

enum conf_role { CONF_ROLE_READ, CONF_ROLE_PURGE, CONF_ROLE_ADMIN };

struct conf_token {
	struct view name;
	struct view path; /* of its file */
	uint8_t sha256[32]; /* of the token: itself it is in no process but the master while it reads */
	enum conf_role role;
	struct conf_list sites; /* names; empty: all */
};

struct conf;
struct conf_names; /* host name → site */

struct conf {
	uint32_t magic;
	uint32_t refs;
	uint32_t generation;
	struct arena arena;
	struct view name; /* "brim" */
	uint32_t workers; /* resolved: "auto" is the number of usable CPUs */
	struct view user; /* as configured (default "brim"); only a root master has a use for it; empty: stay root */
	uint64_t shutdown_timeout_ms;
	struct conf_nets trusted_proxies, downstream;
	struct conf_listener *listeners;
	size_t listener_count;
	struct conf_store *stores;
	size_t store_count;
	struct conf_origin *origins;
	size_t origin_count;
	struct conf_site *sites;
	size_t site_count;
	struct conf_names *names;
	struct conf_list admin_listen;	 /* "unix:/…" or address and port */
	struct conf_list metrics_listen; /* the same */
	uint32_t admin_socket_mode;
	struct conf_list admin_hosts; /* names that Host may have, beside addresses and localhost */
	struct conf_certificate admin_tls; /* of TCP listeners that are not loopback; certificate empty: none */
	struct conf_token *tokens;
	size_t token_count;
	struct view tls_directory_path; /* empty: none */
	struct conf_certificate *tls_directory; /* "tls.directory": pairs NAME.pem (or .crt) and NAME.key, taken by the names in them */
	size_t tls_directory_count;
	uint64_t ticket_rotate_ms;
	struct conf_list ticket_keys; /* contents of "tls.tickets.files": 80 bytes each, the first one encrypts; none: our own, rotating */
	struct view access_path;      /* empty: no access log */
	bool access_combined;
	struct view error_path; /* "stderr" or a file */
	enum log_level error_level;
	struct view request_id_header; /* empty: none */
	struct conf_limits limits;
	uint16_t next_site_slot, next_server_slot; /* where conf_assign_slots looks first */
};

/* A list of faults, each a line «FILE: /json/pointer: what is wrong». Those beyond CONF_FAULTS_TOLD are only counted. */
enum { CONF_FAULTS_TOLD = 1000 };
struct conf_faults {
	FILE *to; /* NULL: only counted and the first one kept */
	unsigned count;
	char first[512];
	/* Gets the lines of warnings, «FILE: /json/pointer: warning: what may be wrong»; NULL: they go to «to». */
	void (*warn)(const char *line);
};

/*
 * Reads FILE and what it includes, merges, checks everything, and gives the merged text (canonical JSON, malloc'd):
 * without "include", and with "workers" as a number, since a child may be bound to one CPU. Where the process is root, the user must exist.
 * -EINVAL: faults told. Other negative errno: FILE can't be read (told too).
 */
int conf_read(const char *file, struct conf_faults *faults, char **out_text) NODISCARD;
/*
 * The same with all files that it names (certificates, keys, tokens): their contents are in the text, so it is to be
 * freed by conf_text_free. «look» (NULL: nobody) may tell further faults of what is in them.
 */
struct conf_places;
typedef void (*conf_look)(const struct conf *c, const struct conf_places *places,
			  struct conf_faults *faults);
int conf_read_all(const char *file, conf_look look, struct conf_faults *faults, char **out_text)
	NODISCARD;
/* The text of «brim --origin URL …»: one catch-all site. Same faults, with the option's name as place. */
struct conf_quick {
	const char *origin, *listen, *store, *size, *workers, *admin; /* NULL: default */
};
int conf_quick_text(const struct conf_quick *q, struct conf_faults *faults, char **out_text) NODISCARD;

/* Builds a snapshot from a merged text. Slots are taken from its "x-slots" member where it is there. */
int conf_build(struct view text, uint32_t generation, struct conf_faults *faults, struct conf **out)
	NODISCARD;
struct conf *conf_ref(struct conf *c);
void conf_unref(struct conf *c);

/*
 * Gives every site and server its slot, keeping those of «before» (NULL: none) by identity; slots of those that
 * went away are reused only when nothing else is free. -EINVAL with faults told, -ENOMEM.
 * out_text (malloc'd) is «text» with them in it: what children build from.
 */
int conf_assign_slots(struct view text, const struct conf *before, struct conf_faults *faults,
		      char **out_text) NODISCARD;

/* A merged text without private keys of sites and origins, for the keeper. (malloc'd; NULL: no memory.) */
char *conf_without_keys(struct view text) NODISCARD;
/* Does it serve TLS or speak it with a certificate of its own: is a process that has it not to be dumped? */
bool conf_has_keys(const struct conf *c);
/* Wipes a text that may hold keys, and frees it. NULL is well. */
void conf_text_free(char *text);
/* Once, before anything is read: what reading frees is overwritten, too. */
void conf_wipe_freed(void);

/* What a reload can't change (listeners, workers, user, stores, admin.listen): a fault for each that differs. 0 or -EINVAL. */
int conf_reloadable(const struct conf *before, const struct conf *after, struct conf_faults *faults)
	NODISCARD;

/* The site of a host (lower case, no port), exact before wildcard (longest) before "*". NULL: none (421). */
struct conf_site *conf_site_for(const struct conf *c, struct view host);
struct conf_site *conf_site_named(const struct conf *c, struct view name);

/* --- rules ------------------------------------------------------------------------------------- */

/* What a request is to rules. */
struct conf_request {
	struct view path;  /* normalised, without query */
	struct view query; /* normalised, with its "?"; empty: none */
	struct view host;  /* lower case, without port */
	bool odd_path;	   /* gets no "ttl" from a rule */
	enum http_method method;
	struct view method_text;
	const struct http_fields *fields;
	const struct sock_addr *client; /* NULL: unknown, in no network */
};

/* What a site's rules make of one request; kept with it. */
struct conf_ruling {
	struct conf_origin *origin;
	const struct conf_respond *respond; /* the answer, instead of cache and origin; NULL: none. The last one that matches */
	int rule; /* the last one that set ttl or bypass; -1: none */
	bool odd_path;
	/* A bit per rule: the request fits; it also fits "not", whose status or content type must decide;
	 * the answer fits too. */
	uint64_t asked[CONF_RULES_MAX / 64], barred[CONF_RULES_MAX / 64], answered[CONF_RULES_MAX / 64];
};

/* Once a request is there: rules that ask for neither status nor content type. No allocation. */
void conf_request_rules(const struct conf_site *s, const struct conf_request *r,
			struct conf_cache *out_cache, struct conf_ruling *out);
/*
 * Once the head of an answer is there, from the origin, the cache or a rule: all rules that match, in their order. *cache
 * and ruling->rule are brought up to date; what was decided before the head (key, origin, …) stays. May be called
 * again with another answer. content_type: the field's value, parameters too; empty: none.
 */
void conf_response_rules(const struct conf_site *s, uint16_t status, struct view content_type,
			 struct conf_cache *cache, struct conf_ruling *ruling);

/* Does a rule apply to requests of a URL (path, query and host of r)? MAYBE: it asks for more than the URL. */
enum conf_likely { CONF_NO, CONF_MAYBE, CONF_YES };
enum conf_likely conf_rule_for_url(const struct conf_rule *rule, const struct conf_request *r);

/*
 * The head edits of all rules that match, reduced to this: a field whose name is that of a SET or REMOVE does not
 * go on (conf_edits_hide); then the values of SET and ADD follow, in order. Returns how many. Those of responses
 * as of the last conf_response_rules.
 */
size_t conf_request_edits(const struct conf_site *s, const struct conf_ruling *ruling,
			  const struct conf_edit *out[CONF_EDITS_MAX]);
size_t conf_response_edits(const struct conf_site *s, const struct conf_ruling *ruling,
			   const struct conf_edit *out[CONF_EDITS_MAX]);
bool conf_edits_hide(const struct conf_edit *const *edits, size_t count, struct view name);

/* A redirect's Location for this request. p NULL: no memory. */
struct view conf_redirect_location(const struct conf_respond *redirect,
				   const struct conf_request *r, struct arena *a) NODISCARD;

/* The query as the key has it. query: normalised, with its "?", or empty; out holds query.n bytes. Returns how many
 * of them are written. Pure. */
size_t conf_key_query(const struct conf_query *q, struct view query, char *out);
/* Is the key's query another than the request's? */
static inline bool conf_query_changes(const struct conf_query *q)
{
	return q->sort || q->kind != CONF_QUERY_ALL;
}

/* Does a client's request field go on to the origin? Not one that makes many origins answer for another URL, host or
 * method ("X-Original-URL", …) and is not in the key, unless "pass_headers" names it. */
bool conf_passes(const struct conf_cache *cache, struct view name);

/* JSON Schema of the configuration (brim --dump-schema). */
void conf_dump_schema(FILE *to);

#endif
