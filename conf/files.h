/* What the files hold that a configuration names: read by the master alone, handed on within the merged text. */
#ifndef BRIM_CONF_FILES_H
#define BRIM_CONF_FILES_H

#include "conf/apply.h"

#define CONF_FILES_MEMBER "x-files" /* of the merged text */

enum {
	CONF_FILE_BYTES_MAX = 1 << 20,
	CONF_FILES_BYTES_MAX = 48 << 20, /* of all together */
	CONF_DIRECTORY_MAX = 1000,	 /* pairs */
};

struct conf_files {
	bool read;	    /* from the disk, into tree; else only from there */
	struct cJSON *tree; /* as the member has it; NULL: a text that nobody has read files for */
	size_t bytes;	    /* read so far */
};

/* SECRET: others may not read it, and processes that need no keys don't get it. */
enum conf_file_kind { CONF_FILE_PUBLIC, CONF_FILE_SECRET };

/* The contents of a file, in the snapshot's arena; empty: not in this process. False: a fault is told. */
bool conf_file_read(struct conf_reader *r, enum conf_file_kind kind, struct view path,
		    struct view *out) NODISCARD;
/* The SHA-256 of the token that a file holds; zeros: not in this process. */
bool conf_file_token(struct conf_reader *r, struct view path, uint8_t out[32]) NODISCARD;
/* All pairs of a directory, in the order of their names. */
bool conf_file_directory(struct conf_reader *r, struct view path, struct conf_certificate **out,
			 size_t *out_count) NODISCARD;

#endif
