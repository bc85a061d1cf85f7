/*
 * The key table: one declaration per key of the configuration. Reading (apply.c), faults with
 * suggestions, the JSON schema (schema.c) and the reference in docs/ are all made from it.
 *
 * A scope is a kind of object, read into one struct. Keys of plain objects inside it are
 * written with dots ("log.access.path"); lists and maps of objects are scopes of their own.
 */
#ifndef BRIM_CONF_KEYS_H
#define BRIM_CONF_KEYS_H

#include "conf/conf.h"

struct cJSON;
struct conf_reader;
struct conf_scope;

enum {
	CONF_STATUSES_MAX = 64,
	CONF_TOKENS_MAX = 64,
	CONF_SITE_CERTIFICATES_MAX = 4,
	CONF_LIST_MAX = 1000, /* of any list that has no other limit */
};
#define CONF_TTL_MAX_MS (36500LL * 86400 * 1000)

enum conf_type {
	CONF_STRING,  /* struct view */
	CONF_STRINGS, /* struct conf_list; one string stands for a list of one */
	CONF_NETS,    /* struct conf_nets; the same */
	CONF_BOOL,
	CONF_COUNT,    /* whole number in [min, max] */
	CONF_SIZE,     /* bytes */
	CONF_DURATION, /* milliseconds */
	CONF_CHOICE,   /* the index of a word in «words» */
	CONF_OBJECT,   /* one object of «scope» */
	CONF_ARRAY,    /* pointer and count: a list of objects of «scope» */
	CONF_MAP,      /* pointer and count: an object whose members' names are the elements' */
	CONF_SPECIAL,  /* by «read» */
	CONF_LATER,    /* of the interface, but not in this version */
};

enum {
	CONF_REQUIRED = 1, /* a fault where it is neither given nor in "defaults" */
	CONF_OWN = 2,	   /* says who the element is: not in "defaults" */
	CONF_NULL = 4,	   /* null is the empty value; -1 of a duration */
	CONF_RULE_ONLY = 8,
	CONF_BEFORE = 16, /* in a rule: of use only before the answer's head is there */
};

struct conf_key {
	const char *path;
	enum conf_type type;
	uint8_t flags;
	uint16_t offset, bytes; /* of the member, or of all neighbouring members that it sets */
	int64_t min, max; /* of the value, or of how many elements; max 0: no limit but the type's */
	const char *preset; /* the default: JSON, or a bare string; NULL: none */
	const char *const *words;
	const struct conf_scope *scope;
	const char *(*valid)(struct view); /* of each string: what is wrong, or NULL */
	void (*read)(struct conf_reader *r, const struct cJSON *value, void *member);
	const char *form;   /* for people: what it takes, where the type doesn't say it */
	const char *schema; /* for editors: a JSON schema, where the type doesn't say it */
	const char *doc;
};

struct conf_scope {
	const char *name; /* in the reference */
	const struct conf_key *keys;
	size_t count;
	size_t bytes; /* of its struct */
	void (*init)(void *target);
};

/* A number as people would write it for this key: "64MiB", "10s", "100". Returns out. */
enum { CONF_NUMBER_TEXT = 32 };
const char *conf_key_number(const struct conf_key *key, int64_t number, char out[CONF_NUMBER_TEXT]);

extern const struct conf_scope conf_scope_root, conf_scope_listener, conf_scope_store,
	conf_scope_origin, conf_scope_server, conf_scope_site, conf_scope_cache, conf_scope_rule,
	conf_scope_match, conf_scope_not, conf_scope_request_edits, conf_scope_response_edits,
	conf_scope_respond, conf_scope_redirect, conf_scope_query, conf_scope_site_tls,
	conf_scope_hsts, conf_scope_origin_tls, conf_scope_admin_tls, conf_scope_token;

#endif
