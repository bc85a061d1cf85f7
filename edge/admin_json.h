/*
 * JSON as the admin API reads it: strict. Duplicate and unknown keys, text behind the value and broken
 * UTF-8 are faults, so that a purge which names nothing by a misspelt key is never answered with 200.
 */
#ifndef BRIM_EDGE_ADMIN_JSON_H
#define BRIM_EDGE_ADMIN_JSON_H

#include "edge/base/arena.h"
#include "edge/base/check.h"
#include "edge/base/view.h"

struct cJSON;

enum { ADMIN_POINTER_MAX = 256 };

struct admin_fault {
	char pointer[ADMIN_POINTER_MAX];
	char message[256];
};

/* An object (cJSON_Delete). -EINVAL and *out_fault; -ENOMEM. */
int admin_json_parse(struct view text, struct cJSON **out, struct admin_fault *out_fault) NODISCARD;
/* Every key of the object is one of «known» (ends with NULL). */
int admin_json_only(const struct cJSON *object, const char *const *known,
		    struct admin_fault *out_fault) NODISCARD;
/* Lists of strings; absent: NULL and 0. */
int admin_json_strings(const struct cJSON *object, const char *key, const struct cJSON **out,
		       struct admin_fault *out_fault) NODISCARD;
/* true or false; absent: false. */
int admin_json_bool(const struct cJSON *object, const char *key, bool *out,
		    struct admin_fault *out_fault) NODISCARD;

/* Bytes that may be anything (a stored field) as a string for JSON: UTF-8 as it is, else read as Latin-1,
 * which any byte is. NUL bytes end it. NULL: no memory. */
const char *admin_json_text(struct view bytes, struct arena *a) NODISCARD;

/* For «brim -V»: the version of cJSON. */
const char *admin_json_library(void);

#endif
