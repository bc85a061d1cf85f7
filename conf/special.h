/* Readers of single keys whose values are more than a number or a word; named in the key table. */
#ifndef BRIM_CONF_SPECIAL_H
#define BRIM_CONF_SPECIAL_H

#include "conf/files.h"
#include "conf/keys.h"

/* What is wrong with a string, as the end of a sentence about it; NULL: nothing. */
const char *conf_valid_name(struct view v);   /* of an origin, a site, a store */
const char *conf_valid_node(struct view v);   /* goes into Via, CDN-Loop and Cache-Status */
const char *conf_valid_field(struct view v);  /* a field name */
const char *conf_valid_cookie(struct view v); /* a cookie's name */
const char *conf_valid_cookie_glob(struct view v);
const char *conf_valid_field_glob(struct view v);
const char *conf_valid_field_value(struct view v);
const char *conf_valid_host_glob(struct view v);
const char *conf_valid_query_glob(struct view v); /* of a parameter's name */
const char *conf_valid_media_glob(struct view v);
const char *conf_valid_language(struct view v);
const char *conf_valid_targeted(struct view v);
const char *conf_valid_pass_header(struct view v);
const char *conf_valid_request_edit(struct view v); /* a field that rules may change */
const char *conf_valid_response_edit(struct view v);
const char *conf_valid_body(struct view v);
const char *conf_valid_location(struct view v); /* of a redirect; see redirect.c */
const char *conf_valid_path_glob(struct view v);
const char *conf_valid_url_path(struct view v);
const char *conf_valid_file(struct view v);
const char *conf_valid_error_file(struct view v);
const char *conf_valid_admin(struct view v);
const char *conf_valid_domain(struct view v);
const char *conf_valid_upgrade(struct view v);

void conf_read_workers(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_include(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_mode(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_address(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_url(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_origin_host(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_origin_defaults(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_site_defaults(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_hosts(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_origin(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_purge_from(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_statuses(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_ignore_headers(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_object_size(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_query(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_heuristic(struct conf_reader *r, const struct cJSON *value, void *member);

/* special_rule.c */
void conf_read_rule_cache(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_methods(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_match_statuses(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_not(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_request_edits(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_request_set(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_request_add(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_response_edits(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_response_set(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_response_add(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_respond(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_redirect(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_redirect_status(struct conf_reader *r, const struct cJSON *value, void *member);

/* special_tls.c */
void conf_read_protocols(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_site_tls(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_client_ca(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_origin_tls(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_origin_ca(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_admin_tls(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_directory(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_tickets(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_token(struct conf_reader *r, const struct cJSON *value, void *member);
void conf_read_hsts(struct conf_reader *r, const struct cJSON *value, void *member);

/* A string that names a file, and what the file holds. A fault is told; the outputs are then left alone. */
void conf_read_file(struct conf_reader *r, const struct cJSON *value, enum conf_file_kind kind,
		    struct view *out_path, struct view *out);
/* A list of strings through the common reader. What is wrong is told; *out has what is good. */
void conf_read_list(struct conf_reader *r, const struct cJSON *value, int64_t min,
		    const char *(*valid)(struct view), struct conf_list *out);

/* What is read before it is joined into one member. */
struct conf_query_parts {
	struct conf_list only, except;
	bool sort;
};
struct conf_pair_parts {
	struct conf_list certificate, key, ocsp; /* paths */
};
struct conf_site_tls_parts {
	struct conf_pair_parts pair;
	struct conf_site_tls tls;
};
struct conf_origin_tls_parts {
	struct view certificate, key;
	struct conf_origin_tls tls;
};
struct conf_admin_tls_parts {
	struct view certificate, key;
};
struct conf_edit_parts {
	struct conf_list remove;
	struct conf_edits set, add;
};

#endif
