/* What of a configuration is shown: by the admin API, and by brimctl, which compares with it. */
#ifndef BRIM_EDGE_ADMIN_SECRETS_H
#define BRIM_EDGE_ADMIN_SECRETS_H

struct cJSON;

#define ADMIN_HIDDEN "(hidden)"

/* The master's notes ("x-…"): slots, contents of files. */
void admin_drop_notes(struct cJSON *configuration);
/* Values of fields that carry credentials, and passwords in URLs, are replaced by ADMIN_HIDDEN. */
void admin_hide_secrets(struct cJSON *configuration);

#endif
