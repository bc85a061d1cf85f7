/* Reading a tree into the snapshot's structs by the key table. */
#ifndef BRIM_CONF_APPLY_H
#define BRIM_CONF_APPLY_H

#include "conf/fault.h"
#include "conf/keys.h"

struct cJSON;

struct conf_files;

struct conf_reader {
	struct conf *conf;
	struct conf_faults *faults;
	struct conf_files *files; /* what the files hold that are named; NULL: not known here */
	const struct conf_places *places; /* NULL: pointers are told as they are */
	const struct cJSON *site_defaults, *origin_defaults; /* "defaults", once it is read */
	bool quiet;	/* the same text is applied again: its faults are told already */
	bool in_rule;	/* within a rule's "cache" */
	bool exhausted; /* memory ran out: the snapshot is of no use */
	char at[CONF_POINTER_BYTES]; /* the JSON pointer of what is being read */
};

/* Gives the keys of «object» to target, told faults aside. *seen gets a bit per key of the scope. */
void conf_apply(struct conf_reader *r, const struct conf_scope *scope, const struct cJSON *object,
		void *target, uint64_t *seen);
/* The same for a whole element: presets, then "defaults", then its keys; required ones must be there. */
void conf_apply_element(struct conf_reader *r, const struct conf_scope *scope,
			const struct cJSON *value, void *target);

/* For readers of special values. */
void conf_apply_key(struct conf_reader *r, const struct conf_key *key, const struct cJSON *value,
		    void *target);
void conf_reader_fault(struct conf_reader *r, const char *format, ...) PRINTF_LIKE(2, 3);
/* Deeper into the pointer, and back to where enter's answer says. */
size_t conf_reader_enter(struct conf_reader *r, const char *segment);
size_t conf_reader_enter_index(struct conf_reader *r, size_t index);
void conf_reader_leave(struct conf_reader *r, size_t mark);
/* Zeroed, from the snapshot's arena; NULL sets «exhausted». */
void *conf_reader_alloc(struct conf_reader *r, size_t bytes);
struct view conf_reader_copy(struct conf_reader *r, struct view v);

#endif
