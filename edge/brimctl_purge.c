/*
 * brimctl purge: names come as arguments, or from standard input, one a line. A call takes 10,000 of them, so more go in
 * several calls: each is a purge of its own, and what was purged before one failed stays purged, which is told.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "edge/brimctl_command.h"

enum { BATCH_ITEMS = 10000, BATCH_BYTES = 3 << 20 };

/* What kinds of names there are: the option before them, and the list of the body. */
static const struct kind {
	const char *option, *list, *one, *many;
} kinds[] = {
	{ "--url", "urls", "URL", "URLs" },	{ "--prefix", "prefixes", "prefix", "prefixes" },
	{ "--tag", "tags", "tag", "tags" },	{ "--host", "hosts", "host", "hosts" },
	{ "--site", "sites", "site", "sites" },
};

struct purge {
	const struct ctl *ctl;
	const char *of_site; /* whose tags; NULL: not told */
	bool soft, dry_run, all;
	cJSON *body; /* of the next call; NULL: none is begun */
	unsigned items, total, calls;
	size_t bytes;
	double first, last; /* numbers of the purges */
	double objects, bytes_named;
};

/* --- calls ------------------------------------------------------------------------------------------- */

static bool begin(struct purge *p)
{
	p->body = cJSON_CreateObject();
	if (p->body == NULL)
		return false;
	return (!p->soft || cJSON_AddTrueToObject(p->body, "soft") != NULL) &&
	       (!p->dry_run || cJSON_AddTrueToObject(p->body, "dry_run") != NULL) &&
	       (p->of_site == NULL || cJSON_AddStringToObject(p->body, "site", p->of_site) != NULL);
}

static double number(const cJSON *answer, const char *name)
{
	const cJSON *value = cJSON_GetObjectItemCaseSensitive(answer, name);

	return cJSON_IsNumber(value) ? value->valuedouble : 0;
}

static void take_answer(struct purge *p, const cJSON *answer)
{
	p->calls++;
	p->total += p->items;
	p->last = number(answer, "purge");
	if (p->calls == 1)
		p->first = p->last;
	p->objects += number(answer, "objects");
	p->bytes_named += number(answer, "bytes");
}

static int send(struct purge *p)
{
	char *text = cJSON_PrintUnformatted(p->body);
	cJSON *answer;
	int r = CTL_DONE;

	cJSON_Delete(p->body);
	p->body = NULL;
	if (text == NULL)
		return ctl_no_memory();
	if (p->ctl->json) {
		r = ctl_call(p->ctl, "POST", "/v1/purge", view_str(text), NULL);
		p->calls++;
		p->total += p->items;
	} else {
		answer = ctl_ask(p->ctl, "POST", "/v1/purge", view_str(text));
		r = answer != NULL ? CTL_DONE : CTL_FAILED;
		if (answer != NULL)
			take_answer(p, answer);
		cJSON_Delete(answer);
	}
	cJSON_free(text);
	p->items = 0;
	p->bytes = 0;
	return r;
}

static int add(struct purge *p, const struct kind *kind, const char *name)
{
	cJSON *list, *item = cJSON_CreateString(name);

	if (item == NULL || (p->body == NULL && !begin(p))) {
		cJSON_Delete(item);
		return ctl_no_memory();
	}
	list = cJSON_GetObjectItemCaseSensitive(p->body, kind->list);
	if (list == NULL)
		list = cJSON_AddArrayToObject(p->body, kind->list);
	if (!cJSON_AddItemToArray(list, item)) {
		cJSON_Delete(item);
		return ctl_no_memory();
	}
	p->items++;
	p->bytes += strlen(name) + 3;
	return p->items == BATCH_ITEMS || p->bytes >= BATCH_BYTES ? send(p) : CTL_DONE;
}

static int add_lines(struct purge *p, const struct kind *kind)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int r = CTL_DONE;

	while (r == CTL_DONE && (n = getline(&line, &room, stdin)) >= 0) {
		while (n > 0 && strchr(" \t\r\n", line[n - 1]) != NULL)
			line[--n] = '\0';
		if (n > 0)
			r = add(p, kind, line + strspn(line, " \t"));
	}
	if (r == CTL_DONE && ferror(stdin)) {
		perror("brimctl: standard input");
		r = CTL_FAILED;
	}
	free(line);
	return r;
}

/* --- the count at the end ------------------------------------------------------------------------------ */

static void show_numbers(const struct purge *p)
{
	if (p->calls == 0) /* nothing was on standard input */
		(void)putchar('\n');
	else if (p->calls == 1)
		(void)printf(" (number %.0f)\n", p->first);
	else
		(void)printf(" in %u calls (numbers %.0f to %.0f)\n", p->calls, p->first, p->last);
}

static int tell(const struct purge *p, const char *one, const char *many, int r)
{
	if (p->ctl->json)
		return r;
	if (r != CTL_DONE) {
		if (p->total > 0)
			(void)fprintf(stderr, "brimctl: before that, %u were purged\n", p->total);
		return r;
	}
	if (p->dry_run) {
		(void)printf("would name %.0f stored objects, ", p->objects);
		show_size(p->bytes_named, stdout);
		(void)putchar('\n');
		return ctl_flush(r);
	}
	if (p->all)
		(void)printf("purged everything");
	else
		(void)printf("purged %u %s", p->total, p->total == 1 ? one : many);
	if (p->soft)
		(void)printf(", softly");
	show_numbers(p);
	return ctl_flush(r);
}

/* --- the command line ---------------------------------------------------------------------------------- */

static const struct kind *kind_of(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strcmp(kinds[i].option, word) == 0)
			return &kinds[i];
	}
	return NULL;
}

/* Anything wrong in the line is told before anything is purged. *out: the kind of all names; NULL: several. */
static int check(const struct ctl *c, bool all, const struct kind **out)
{
	const struct kind *kind = &kinds[0], *seen = NULL;
	unsigned names = 0, inputs = 0;
	bool several = false;

	for (int i = 0; i < c->count; i++) {
		const char *word = c->words[i];

		if (kind_of(word) != NULL) {
			kind = kind_of(word);
			continue;
		}
		if (word[0] == '-' && word[1] != '\0')
			return ctl_bad_usage("unknown option ", word);
		several |= seen != NULL && seen != kind;
		seen = kind;
		names++;
		inputs += word[0] == '-';
	}
	if (names == 0 && !all)
		return ctl_bad_usage("purge what? URLs, --prefix, --tag, --host, --site, --all, or "
				     "- for names on standard input",
				     "");
	if (inputs > 1)
		return ctl_bad_usage("standard input can be read once", "");
	*out = several ? NULL : seen;
	return CTL_DONE;
}

static int add_words(struct purge *p)
{
	const struct kind *kind = &kinds[0];
	int r = CTL_DONE;

	for (int i = 0; r == CTL_DONE && i < p->ctl->count; i++) {
		const char *word = p->ctl->words[i];

		if (kind_of(word) != NULL)
			kind = kind_of(word);
		else
			r = strcmp(word, "-") == 0 ? add_lines(p, kind) : add(p, kind, word);
	}
	return r;
}

static int add_all(struct purge *p)
{
	if (p->body == NULL && !begin(p))
		return ctl_no_memory();
	return cJSON_AddTrueToObject(p->body, "all") != NULL ? CTL_DONE : ctl_no_memory();
}

int ctl_purge(struct ctl *c)
{
	struct purge p = { .ctl = c };
	const struct kind *kind = NULL;
	int r;

	p.soft = ctl_flag(c, "--soft");
	p.dry_run = ctl_flag(c, "--dry-run");
	p.all = ctl_flag(c, "--all");
	if (!ctl_value(c, "--of", &p.of_site))
		return CTL_USAGE;
	r = check(c, p.all, &kind);
	if (r != CTL_DONE)
		return r;
	r = add_words(&p);
	if (r == CTL_DONE && p.all)
		r = add_all(&p);
	if (r == CTL_DONE && p.body != NULL)
		r = send(&p);
	cJSON_Delete(p.body);
	return tell(&p, kind != NULL ? kind->one : "name", kind != NULL ? kind->many : "names", r);
}
