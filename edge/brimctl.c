/*
 * brimctl: the admin client. Each command becomes a call or a few; their answers are shown to people, or as they are
 * with --json.
 *
 * The table below is all there is to say about commands: help is made of it, and a test holds the shell completions and
 * the manual against it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "edge/brimctl_command.h"

#define ADDRESS_DEFAULT "unix:/run/brim/admin.sock"

static const struct command {
	const char *name, *arguments, *does;
	ctl_command_fn *run;
} commands[] = {
	{ "purge", "[--soft] [--dry-run] URL...",
	  "forget these URLs (--soft: make them stale; --dry-run: count)", ctl_purge },
	{ "purge", "--prefix PREFIX...", "or all URLs that begin so", NULL },
	{ "purge", "[--of SITE] --tag TAG...", "or what has one of these tags, of a site or of any",
	  NULL },
	{ "purge", "--host NAME... | --site NAME...", "or all of these hosts, or sites", NULL },
	{ "purge", "--all", "or everything; \"-\" for a name: one a line from standard input", NULL },
	{ "inspect", "URL", "why this URL hits or misses", ctl_inspect },
	{ "objects", "[--site NAME] [--prefix PREFIX] [--limit N]", "what is stored", ctl_objects },
	{ "status", "", "processes, stores, the last reload", ctl_status },
	{ "store", "", "more about the stores", ctl_store },
	{ "top", "[--interval SECONDS] [--count N]", "what goes on now, site by site", ctl_top },
	{ "config", "show", "the running configuration", ctl_config },
	{ "config", "check [FILE]", "would a reload take this file?", NULL },
	{ "config", "diff [FILE]", "what the file says otherwise than the node does", NULL },
	{ "reload", "[--dry-run]", "read the configuration again (--dry-run: only try)", ctl_reload },
	{ "drain", "", "take no connections", ctl_drain },
	{ "resume", "", "take them again", ctl_resume },
};

static const char head[] =
	"brimctl: the admin client of brim\n"
	"\n"
	"  brimctl [-s ADDRESS] [--token-file FILE] [--ca-file FILE] [--json] COMMAND\n"
	"\n";
static const char foot[] =
	"\n"
	"ADDRESS: unix:/PATH, HOST:PORT or https://HOST:PORT; without it $BRIM_ADMIN, "
	"then\n" ADDRESS_DEFAULT ".\n"
	"--token-file FILE   who asks, over TCP; without it $BRIM_TOKEN_FILE\n"
	"--ca-file FILE      whom to trust, with https; without it the system's authorities\n"
	"--json              the node's answers as they are\n"
	"Exit status: 0 done, 1 it failed (or config diff found a difference), 2 bad usage.\n";

static int help(void)
{
	(void)fputs(head, stdout);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		(void)printf("  %s%s%s\n      %s\n", commands[i].name,
			     *commands[i].arguments != '\0' ? " " : "", commands[i].arguments,
			     commands[i].does);
	(void)fputs(foot, stdout);
	return ctl_flush(CTL_DONE);
}

static int run(struct ctl *c)
{
	const char *name;

	if (c->count == 0)
		return ctl_bad_usage("no command", "");
	name = c->words[0];
	c->words++;
	c->count--;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (commands[i].run != NULL && strcmp(commands[i].name, name) == 0)
			return commands[i].run(c);
	}
	return ctl_bad_usage("unknown command ", name);
}

static const char *from_environment(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && *value != '\0' ? value : NULL;
}

/* Our own options, wherever they stand. False: told. */
static bool take_options(struct ctl *c, const char **out_token_file)
{
	const char *address;

	c->json = ctl_flag(c, "--json");
	if (!ctl_value(c, "-s", &address) || !ctl_value(c, "--token-file", out_token_file) ||
	    !ctl_value(c, "--ca-file", &c->target.ca_file))
		return false;
	if (address == NULL)
		address = from_environment("BRIM_ADMIN");
	c->target.address = address != NULL ? address : ADDRESS_DEFAULT;
	if (*out_token_file == NULL)
		*out_token_file = from_environment("BRIM_TOKEN_FILE");
	return true;
}

int main(int argc, char **argv)
{
	struct ctl c = { .words = argv + 1, .count = argc - 1 };
	static char token[CLIENT_TOKEN_MAX + 1];
	char fault[CLIENT_FAULT_BYTES];
	const char *token_file;

	if (ctl_flag(&c, "-h") || ctl_flag(&c, "--help"))
		return help();
	if (!take_options(&c, &token_file))
		return CTL_USAGE;
	if (token_file != NULL) {
		if (client_read_token(token_file, token, fault) != 0) {
			(void)fprintf(stderr, "brimctl: %s\n", fault);
			return CTL_FAILED;
		}
		c.target.token = token;
	}
	return run(&c);
}
