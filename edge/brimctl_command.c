/* See brimctl_command.h. */
#include "edge/brimctl_command.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

int ctl_bad_usage(const char *what, const char *word)
{
	(void)fprintf(stderr, "brimctl: %s%s (brimctl -h shows all commands)\n", what, word);
	return CTL_USAGE;
}

int ctl_no_memory(void)
{
	(void)fputs("brimctl: no memory\n", stderr);
	return CTL_FAILED;
}

/* --- the command line -------------------------------------------------------------------------------- */

static void take_words(struct ctl *c, int at, int count)
{
	memmove(c->words + at, c->words + at + count,
		(size_t)(c->count - at - count) * sizeof(*c->words));
	c->count -= count;
}

bool ctl_flag(struct ctl *c, const char *name)
{
	bool found = false;

	for (int i = 0; i < c->count;) {
		if (strcmp(c->words[i], name) != 0) {
			i++;
			continue;
		}
		found = true;
		take_words(c, i, 1);
	}
	return found;
}

bool ctl_value(struct ctl *c, const char *name, const char **out)
{
	*out = NULL;
	for (int i = 0; i < c->count; i++) {
		if (strcmp(c->words[i], name) != 0)
			continue;
		if (i + 1 == c->count) {
			(void)ctl_bad_usage(name, " wants a value");
			return false;
		}
		*out = c->words[i + 1];
		take_words(c, i, 2);
		return true;
	}
	return true;
}

bool ctl_number(struct ctl *c, const char *name, unsigned most, unsigned *out)
{
	const char *text;
	char *end;
	unsigned long n;

	if (!ctl_value(c, name, &text))
		return false;
	if (text == NULL)
		return true;
	n = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != '\0' || n == 0 || n > most) {
		(void)fprintf(stderr, "brimctl: %s wants a number from 1 to %u, not \"%s\"\n", name,
			      most, text);
		return false;
	}
	*out = (unsigned)n;
	return true;
}

bool ctl_words(const struct ctl *c, int count, const char *wanted)
{
	for (int i = 0; i < c->count; i++) {
		if (c->words[i][0] == '-') {
			(void)ctl_bad_usage("unknown option ", c->words[i]);
			return false;
		}
	}
	if (c->count == count)
		return true;
	(void)ctl_bad_usage(wanted, "");
	return false;
}

/* --- calls --------------------------------------------------------------------------------------------- */

static const char *text_of(const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

	return text != NULL ? text : "";
}

static const char *what_to_do(const struct client_target *t, uint16_t status)
{
	if (status == 401 && t->token != NULL)
		return "\nbrimctl: the node doesn't know this token (it is read again by a reload)";
	if (status == 401)
		return "\nbrimctl: name a file that holds a token: --token-file FILE, or "
		       "$BRIM_TOKEN_FILE";
	if (status == 421)
		return "\nbrimctl: add the name to admin.hosts, or use the node's address";
	return "";
}

static void show_error(const struct ctl *c, const struct client_answer *a, const cJSON *tree)
{
	const cJSON *error = cJSON_GetObjectItemCaseSensitive(tree, "error");
	const char *pointer = text_of(error, "pointer"), *message = text_of(error, "message");

	(void)fputs("brimctl: ", stderr);
	if (*pointer != '\0') {
		show_text(pointer, stderr);
		(void)fputs(": ", stderr);
	}
	if (*message != '\0')
		show_text(message, stderr);
	else
		(void)fprintf(stderr, "the node answered %u", a->status);
	(void)fprintf(stderr, "%s\n", what_to_do(&c->target, a->status));
}

int ctl_flush(int code)
{
	if (fflush(stdout) == 0)
		return code;
	perror("brimctl: standard output");
	return CTL_FAILED;
}

static bool call(const struct ctl *c, const char *method, const char *path, struct view body,
		 struct client_answer *out)
{
	char fault[CLIENT_FAULT_BYTES];

	if (client_call(&c->target, method, path, body, out, fault) == 0)
		return true;
	(void)fprintf(stderr, "brimctl: %s\n", fault);
	return false;
}

int ctl_call(const struct ctl *c, const char *method, const char *path, struct view body,
	     show_fn *shown_by)
{
	struct client_answer a;
	cJSON *tree;

	if (!call(c, method, path, body, &a))
		return CTL_FAILED;
	tree = cJSON_ParseWithLength(a.body, a.body_bytes);
	if (c->json)
		(void)fwrite(a.body, 1, a.body_bytes, stdout);
	else if (a.status != 200)
		show_error(c, &a, tree);
	else
		shown_by(tree, stdout);
	cJSON_Delete(tree);
	free(a.body);
	return ctl_flush(a.status == 200 ? CTL_DONE : CTL_FAILED);
}

struct cJSON *ctl_ask(const struct ctl *c, const char *method, const char *path, struct view body)
{
	struct client_answer a;
	cJSON *tree;

	if (!call(c, method, path, body, &a))
		return NULL;
	tree = cJSON_ParseWithLength(a.body, a.body_bytes);
	free(a.body);
	if (a.status == 200 && tree != NULL)
		return tree;
	show_error(c, &a, tree);
	cJSON_Delete(tree);
	return NULL;
}

/* What is not unreserved (RFC 3986) is encoded: the text is a value in our query. */
char *ctl_path(const char *path, const char *name, const char *value)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:";
	size_t head = strlen(path) + strlen(name) + 3;
	char *text = malloc(head + 3 * strlen(value) + 1), *to = text;

	if (text == NULL)
		return NULL;
	to += snprintf(to, head + 1, "%s%c%s=", path, strchr(path, '?') != NULL ? '&' : '?', name);
	for (; *value != '\0'; value++) {
		if (strchr(plain, *value) != NULL)
			*to++ = *value;
		else
			to += snprintf(to, 4, "%%%02X", (unsigned char)*value);
	}
	*to = '\0';
	return text;
}
