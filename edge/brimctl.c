/*
 * brimctl: the admin client. Each command becomes one call; its answer is shown to people, or as it is
 * with --json.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "edge/brimctl_client.h"
#include "edge/brimctl_show.h"

#define ADDRESS_DEFAULT "unix:/run/brim/admin.sock"

static const char help[] =
	"brimctl: the admin client of brim\n"
	"\n"
	"  brimctl [-s ADDRESS] [--json] COMMAND\n"
	"\n"
	"  purge [--soft] URL...          forget these URLs (--soft: make them stale)\n"
	"  purge [--soft] --host NAME...  or all of these hosts\n"
	"  purge [--soft] --site NAME...  or all of these sites\n"
	"  purge [--soft] --all           or everything\n"
	"  inspect URL                    why this URL hits or misses\n"
	"  status                         processes, stores, the last reload\n"
	"  config show                    the running configuration\n"
	"  config check FILE              would a reload take this file?\n"
	"  reload                         read the configuration again\n"
	"\n"
	"ADDRESS: unix:/PATH; without it $BRIM_ADMIN, then " ADDRESS_DEFAULT ".\n"
	"--json prints the node's answer as it is.\n";

struct ctl {
	const char *address;
	bool json;
	char **words; /* what is left of the command line */
	int count;
};

static int bad_usage(const char *what, const char *word)
{
	(void)fprintf(stderr, "brimctl: %s%s (brimctl -h shows all commands)\n", what, word);
	return 2;
}

/* --- answers ------------------------------------------------------------------------------------ */

static void show_error(const cJSON *answer)
{
	const cJSON *error = cJSON_GetObjectItemCaseSensitive(answer, "error");
	const char *pointer = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(error, "pointer"));
	const char *message = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(error, "message"));

	(void)fputs("brimctl: ", stderr);
	if (pointer != NULL && *pointer != '\0') {
		show_text(pointer, stderr);
		(void)fputs(": ", stderr);
	}
	show_text(message != NULL ? message : "the node refused", stderr);
	(void)fputc('\n', stderr);
}

static int show(const struct ctl *c, const struct client_answer *a, show_fn *shown_by)
{
	cJSON *tree = cJSON_ParseWithLength(a->body, a->body_bytes);

	if (c->json)
		(void)fwrite(a->body, 1, a->body_bytes, stdout);
	else if (a->status != 200)
		show_error(tree);
	else
		shown_by(tree, stdout);
	cJSON_Delete(tree);
	if (fflush(stdout) != 0) {
		perror("brimctl: standard output");
		return 1;
	}
	return a->status == 200 ? 0 : 1;
}

static int call(const struct ctl *c, const char *method, const char *path, struct view body,
		show_fn *shown_by)
{
	char fault[CLIENT_FAULT_BYTES];
	struct client_answer answer;
	int r;

	if (client_call(c->address, method, path, body, &answer, fault) != 0) {
		(void)fprintf(stderr, "brimctl: %s\n", fault);
		return 1;
	}
	r = show(c, &answer, shown_by);
	free(answer.body);
	return r;
}

/* --- commands ------------------------------------------------------------------------------------- */

static int send_purge(const struct ctl *c, cJSON *body)
{
	char *text = cJSON_PrintUnformatted(body);
	int r;

	if (text == NULL) {
		(void)fputs("brimctl: no memory\n", stderr);
		return 1;
	}
	r = call(c, "POST", "/v1/purge", view_str(text), show_purge);
	cJSON_free(text);
	return r;
}

static int purge(const struct ctl *c)
{
	cJSON *body = cJSON_CreateObject();
	const char *list = "urls";
	int named = 0, r = -1;

	for (int i = 0; i < c->count && r < 0; i++) {
		const char *word = c->words[i];

		if (strcmp(word, "--soft") == 0) {
			cJSON_DeleteItemFromObjectCaseSensitive(body, "soft");
			(void)cJSON_AddTrueToObject(body, "soft");
		} else if (strcmp(word, "--all") == 0) {
			cJSON_DeleteItemFromObjectCaseSensitive(body, "all");
			(void)cJSON_AddTrueToObject(body, "all");
			named++;
		} else if (strcmp(word, "--site") == 0 || strcmp(word, "--host") == 0) {
			list = word[2] == 's' ? "sites" : "hosts";
		} else if (word[0] == '-') {
			r = bad_usage("unknown option ", word);
		} else {
			cJSON *words = cJSON_GetObjectItemCaseSensitive(body, list);

			if (words == NULL)
				words = cJSON_AddArrayToObject(body, list);
			(void)cJSON_AddItemToArray(words, cJSON_CreateString(word));
			named++;
		}
	}
	if (r < 0)
		r = named > 0 ? send_purge(c, body)
			      : bad_usage("purge what? URLs, --host, --site or --all", "");
	cJSON_Delete(body);
	return r;
}

/* What is not unreserved (RFC 3986) is encoded: the URL is a value in ours. */
static char *object_path(const char *url)
{
	static const char prefix[] = "/v1/object?url=";
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:";
	char *path = malloc(sizeof(prefix) + 3 * strlen(url)), *to = path;

	if (path == NULL)
		return NULL;
	memcpy(to, prefix, sizeof(prefix) - 1);
	to += sizeof(prefix) - 1;
	for (; *url != '\0'; url++) {
		if (strchr(plain, *url) != NULL)
			*to++ = *url;
		else
			to += snprintf(to, 4, "%%%02X", (unsigned char)*url);
	}
	*to = '\0';
	return path;
}

static int inspect(const struct ctl *c)
{
	char *path;
	int r;

	if (c->count != 1)
		return bad_usage("inspect wants one URL", "");
	path = object_path(c->words[0]);
	if (path == NULL) {
		(void)fputs("brimctl: no memory\n", stderr);
		return 1;
	}
	r = call(c, "GET", path, (struct view){ 0 }, show_object);
	free(path);
	return r;
}

static int status(const struct ctl *c)
{
	if (c->count != 0)
		return bad_usage("status takes no argument: ", c->words[0]);
	return call(c, "GET", "/v1/status", (struct view){ 0 }, show_status);
}

static int reload(const struct ctl *c)
{
	if (c->count != 0)
		return bad_usage("reload takes no argument: ", c->words[0]);
	return call(c, "POST", "/v1/reload", (struct view){ 0 }, show_reload);
}

/* The file is read and merged here, where its includes are; the node compares it with what it runs. */
static int check(const struct ctl *c, const char *file)
{
	struct conf_faults faults = { .to = stderr };
	char *text;
	int r;

	if (conf_read(file, &faults, &text) != 0)
		return 1;
	r = call(c, "POST", "/v1/config/check", view_str(text), show_check);
	free(text);
	return r;
}

static int config(const struct ctl *c)
{
	if (c->count == 1 && strcmp(c->words[0], "show") == 0)
		return call(c, "GET", "/v1/config", (struct view){ 0 }, show_config);
	if (c->count == 2 && strcmp(c->words[0], "check") == 0)
		return check(c, c->words[1]);
	return bad_usage("config wants show, or check FILE", "");
}

static const struct command {
	const char *name;
	int (*run)(const struct ctl *c);
} commands[] = {
	{ "purge", purge },   { "inspect", inspect }, { "status", status },
	{ "config", config }, { "reload", reload },
};

static int run(struct ctl *c)
{
	const char *name;

	if (c->count == 0)
		return bad_usage("no command", "");
	name = c->words[0];
	c->words++;
	c->count--;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return commands[i].run(c);
	}
	return bad_usage("unknown command ", name);
}

/* Takes our own options out of the command line, wherever they stand. 0, or what is left to say with out_exit. */
static bool take_options(struct ctl *c, int argc, char **argv, int *out_exit)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			c->json = true;
		} else if (strcmp(argv[i], "-s") == 0) {
			if (++i == argc) {
				*out_exit = bad_usage("-s wants an address", "");
				return false;
			}
			c->address = argv[i];
		} else if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
			(void)fputs(help, stdout);
			*out_exit = 0;
			return false;
		} else {
			c->words[c->count++] = argv[i];
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	struct ctl c = { .address = getenv("BRIM_ADMIN"), .words = argv };
	int code = 0;

	if (c.address == NULL || *c.address == '\0')
		c.address = ADDRESS_DEFAULT;
	return take_options(&c, argc, argv, &code) ? run(&c) : code;
}
