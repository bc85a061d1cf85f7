/* brim: what the command line asks for. The node itself begins in master.c. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "cache/index.h"
#include "edge/admin_json.h"
#include "edge/arrival.h"
#include "edge/base/hash.h"
#include "edge/base/loop.h"
#include "edge/cli.h"
#include "edge/features.h"
#include "edge/master.h"

static const char help[] =
	"brim: an HTTP edge cache\n"
	"\n"
	"  brim [-c FILE]         run the node in the foreground (FILE: " CLI_FILE_DEFAULT ")\n"
	"  brim --origin URL      run it without a file: one site, any host, cached before URL\n"
	"      --listen ADDRESS   where it listens (127.0.0.1:8080)\n"
	"      --store DIRECTORY  where it stores (./brim-cache)\n"
	"      --size SIZE        how much it may store (1GiB)\n"
	"      --workers N        worker processes (one for each core)\n"
	"      --admin ADDRESS    the admin API's socket (unix:DIRECTORY/admin.sock)\n"
	"  brim -t [-c FILE]      check the configuration\n"
	"  brim --dump-schema     its JSON Schema, for editors\n"
	"  brim -V, brim -h       version, libraries and kernel features; this help\n"
	"\n"
	"Signals: HUP reload, TERM drain and stop, INT stop now, USR1 reopen log files.\n";

/* The output may be a pipe that was closed, or a full disk. */
static int written(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	perror("brim: standard output");
	return 1;
}

static int check(const struct node_options *o)
{
	struct conf_faults faults = { .to = stderr };
	struct node_conf conf = { .fd = -1 };

	if (node_conf_read(o, NULL, 1, &faults, &conf) != 0)
		return 1;
	node_conf_close(&conf);
	(void)printf("%s: ok\n", o->file != NULL ? o->file : "--origin");
	return written();
}

static int version(void)
{
	struct feature features[FEATURES_MAX];
	size_t count = features_find(features);
	struct utsname system;

	(void)printf("brim %s\n", BRIM_VERSION);
	(void)printf("%s\n%s\nlibuv %s\ncJSON %s\nnghttp2 %s\n", hash_library(), index_library(),
		     loop_library(), admin_json_library(), h2_library());
	if (uname(&system) == 0)
		(void)printf("%s %s %s\n", system.sysname, system.release, system.machine);
	for (size_t i = 0; i < count; i++) {
		const struct feature *f = &features[i];

		(void)printf("  %-14s %s%s\n", f->name,
			     f->found ? "yes" : "no: ", f->found ? "" : f->without);
	}
	return written();
}

static int act(const struct cli *cli)
{
	switch (cli->action) {
	case CLI_RUN:
		return master_run(&cli->options);
	case CLI_CHECK:
		return check(&cli->options);
	case CLI_SCHEMA:
		conf_dump_schema(stdout);
		return written();
	case CLI_VERSION:
		return version();
	case CLI_HELP:
		(void)fputs(help, stdout);
		return written();
	}
	return 2;
}

int main(int argc, char **argv)
{
	char fault[CLI_FAULT_BYTES];
	struct cli cli;

	if (cli_parse(argc, argv, &cli, fault) != 0) {
		(void)fprintf(stderr, "brim: %s (brim -h shows all options)\n", fault);
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	conf_wipe_freed();
	return act(&cli);
}
