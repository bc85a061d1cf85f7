/* The command line of brim. Pure: nothing is opened, nothing printed. */
#ifndef BRIM_EDGE_CLI_H
#define BRIM_EDGE_CLI_H

#include "edge/node.h"

#define CLI_FILE_DEFAULT "/etc/brim/brim.json"

enum cli_action { CLI_RUN, CLI_CHECK, CLI_SCHEMA, CLI_VERSION, CLI_HELP };

struct cli {
	enum cli_action action;
	struct node_options options; /* strings are argv's */
};

enum { CLI_FAULT_BYTES = 256 };

/* 0; -EINVAL: out_fault says what is wrong with the usage. */
int cli_parse(int argc, char *const *argv, struct cli *out, char out_fault[CLI_FAULT_BYTES]) NODISCARD;

#endif
