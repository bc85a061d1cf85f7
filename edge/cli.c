/*
 * Options as one table. Not getopt: it keeps its state in globals, takes abbreviations that later versions
 * would have to honour, and prints by itself.
 */
#include "edge/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

struct option {
	const char *name;
	enum cli_action action; /* where it takes no value */
	size_t value;		/* where in struct node_options its string goes; NO_VALUE: none */
	bool quick;		/* belongs to --origin */
};

#define NO_VALUE SIZE_MAX
#define QUICK(member) offsetof(struct node_options, quick.member), true

static const struct option options[] = {
	{ "-c", CLI_RUN, offsetof(struct node_options, file), false },
	{ "-t", CLI_CHECK, NO_VALUE, false },
	{ "-V", CLI_VERSION, NO_VALUE, false },
	{ "--version", CLI_VERSION, NO_VALUE, false },
	{ "-h", CLI_HELP, NO_VALUE, false },
	{ "--help", CLI_HELP, NO_VALUE, false },
	{ "--dump-schema", CLI_SCHEMA, NO_VALUE, false },
	{ "--origin", CLI_RUN, QUICK(origin) },
	{ "--listen", CLI_RUN, QUICK(listen) },
	{ "--store", CLI_RUN, QUICK(store) },
	{ "--size", CLI_RUN, QUICK(size) },
	{ "--workers", CLI_RUN, QUICK(workers) },
	{ "--admin", CLI_RUN, QUICK(admin) },
};

static int fault(char *out, const char *format, ...) PRINTF_LIKE(2, 3);

static int fault(char *out, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(out, CLI_FAULT_BYTES, format, args);
	va_end(args);
	return -EINVAL;
}

/* "--name" or "--name=value" (then *out_value is behind the sign). */
static const struct option *find(const char *word, const char **out_value)
{
	const char *equals = word[0] == '-' && word[1] == '-' ? strchr(word, '=') : NULL;
	size_t n = equals != NULL ? (size_t)(equals - word) : strlen(word);

	*out_value = equals != NULL ? equals + 1 : NULL;
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		if (strlen(options[i].name) == n && memcmp(options[i].name, word, n) == 0)
			return &options[i];
	}
	return NULL;
}

static int take(struct cli *cli, const struct option *o, const char *value, char *out_fault)
{
	const char **member = (const char **)(void *)((char *)&cli->options + o->value);

	if (value == NULL)
		return fault(out_fault, "%s needs a value", o->name);
	if (*member != NULL)
		return fault(out_fault, "%s is given twice", o->name);
	*member = value;
	return 0;
}

static int check(const struct cli *cli, bool quick, char *out_fault)
{
	if (quick && cli->options.quick.origin == NULL)
		return fault(out_fault,
			     "--listen, --store, --size, --workers and --admin need --origin");
	if (quick && cli->options.file != NULL)
		return fault(out_fault, "-c and --origin exclude each other");
	return 0;
}

int cli_parse(int argc, char *const *argv, struct cli *out, char out_fault[CLI_FAULT_BYTES])
{
	struct cli cli = { .action = CLI_RUN };
	bool quick = false;
	int r;

	for (int i = 1; i < argc; i++) {
		const char *value;
		const struct option *o = find(argv[i], &value);

		if (o == NULL)
			return fault(out_fault, "%s %s",
				     argv[i][0] == '-' ? "unknown option" : "unexpected", argv[i]);
		quick = quick || o->quick;
		if (o->value == NO_VALUE) {
			if (value != NULL)
				return fault(out_fault, "%s takes no value", o->name);
			cli.action = o->action > cli.action ? o->action : cli.action;
			continue;
		}
		if (value == NULL && i + 1 < argc)
			value = argv[++i];
		r = take(&cli, o, value, out_fault);
		if (r != 0)
			return r;
	}
	r = check(&cli, quick, out_fault);
	if (r != 0)
		return r;
	if (!quick && cli.options.file == NULL)
		cli.options.file = CLI_FILE_DEFAULT;
	*out = cli;
	return 0;
}
