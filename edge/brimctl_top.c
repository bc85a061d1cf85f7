/*
 * brimctl top: what goes on now, site by site, from the difference of two readings of the counters. On a terminal the
 * picture is drawn anew in its place; elsewhere pictures follow each other, so that it can be piped.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "edge/base/clock.h"
#include "edge/brimctl_command.h"

enum { NAME_COLUMNS = 24 };

struct sample {
	cJSON *stats;
	struct mono at;
};

static const cJSON *member(const cJSON *object, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(object, name);
}

static double number(const cJSON *object, const char *name)
{
	const cJSON *value = member(object, name);

	return cJSON_IsNumber(value) ? value->valuedouble : 0;
}

static double sum(const cJSON *counters)
{
	const cJSON *each;
	double total = 0;

	cJSON_ArrayForEach(each, counters)
	{
		total += each->valuedouble;
	}
	return total;
}

/* --- one site, between two samples --------------------------------------------------------------------- */

struct rates {
	double requests, hits, errors, sent, origin; /* a second, but hits: a share */
};

static void read_rates(const cJSON *now, const cJSON *before, double seconds, struct rates *out)
{
	const cJSON *results = member(now, "requests"), *earlier = member(before, "requests");
	double requests = sum(results) - sum(earlier);
	double hits = number(results, "hit") - number(earlier, "hit") + number(results, "stale") -
		      number(earlier, "stale");

	*out = (struct rates){
		.requests = requests / seconds,
		.hits = requests > 0 ? hits / requests : 0,
		.errors = (number(member(now, "responses"), "5xx") -
			   number(member(before, "responses"), "5xx")) /
			  seconds,
		.sent = (number(now, "sent_bytes") - number(before, "sent_bytes")) / seconds,
		.origin = (number(now, "origin_requests") - number(before, "origin_requests")) / seconds,
	};
}

static void show_row(const char *name, const struct rates *r)
{
	show_padded(name, NAME_COLUMNS, stdout);
	(void)printf(" %10.1f %6.1f%% %9.1f %9.1f  ", r->requests, 100 * r->hits, r->errors, r->origin);
	show_size(r->sent, stdout);
	(void)puts("/s");
}

static void show_json(const char *name, const struct rates *r, cJSON *sites)
{
	cJSON *to = cJSON_AddObjectToObject(sites, name);

	(void)cJSON_AddNumberToObject(to, "requests_per_second", r->requests);
	(void)cJSON_AddNumberToObject(to, "hit_ratio", r->hits);
	(void)cJSON_AddNumberToObject(to, "errors_per_second", r->errors);
	(void)cJSON_AddNumberToObject(to, "sent_bytes_per_second", r->sent);
	(void)cJSON_AddNumberToObject(to, "origin_requests_per_second", r->origin);
}

/* --- the picture ------------------------------------------------------------------------------------------ */

static double of_workers(const cJSON *stats, const char *name)
{
	const cJSON *each;
	double total = 0;

	cJSON_ArrayForEach(each, member(stats, "workers"))
	{
		total += number(each, name);
	}
	return total;
}

static void show_head(const struct sample *now)
{
	const cJSON *store;

	(void)printf("%.0f connections, %.0f requests and %.0f fills under way",
		     of_workers(now->stats, "connections"), of_workers(now->stats, "requests"),
		     of_workers(now->stats, "fills"));
	cJSON_ArrayForEach(store, member(now->stats, "stores"))
	{
		(void)fputs("; ", stdout);
		show_text(cJSON_GetStringValue(member(store, "name")) != NULL
				  ? cJSON_GetStringValue(member(store, "name"))
				  : "store",
			  stdout);
		(void)fputs(" ", stdout);
		show_size(number(store, "used_bytes"), stdout);
		(void)fputs(" of ", stdout);
		show_size(number(store, "size_bytes"), stdout);
	}
	(void)printf("\n\n%-*s %10s %7s %9s %9s  %s\n", NAME_COLUMNS, "site", "requests/s", "hits",
		     "5xx/s", "origin/s", "sent");
}

static void show_picture(const struct ctl *c, const struct sample *before, const struct sample *now)
{
	double seconds = (double)(now->at.ms - before->at.ms) / 1000;
	cJSON *tree = c->json ? cJSON_CreateObject() : NULL, *sites = NULL;
	const cJSON *each;
	struct rates r;
	char *text;

	if (c->json)
		sites = cJSON_AddObjectToObject(tree, "sites");
	else
		show_head(now);
	cJSON_ArrayForEach(each, member(now->stats, "sites"))
	{
		read_rates(each, member(member(before->stats, "sites"), each->string), seconds, &r);
		if (c->json)
			show_json(each->string, &r, sites);
		else
			show_row(each->string, &r);
	}
	if (!c->json)
		return;
	text = cJSON_PrintUnformatted(tree);
	(void)printf("%s\n", text != NULL ? text : "");
	cJSON_free(text);
	cJSON_Delete(tree);
}

/* --- the command ------------------------------------------------------------------------------------------ */

static bool take_sample(const struct ctl *c, struct sample *out)
{
	out->stats = ctl_ask(c, "GET", "/v1/stats", (struct view){ 0 });
	out->at = clock_mono();
	return out->stats != NULL;
}

static int watch(const struct ctl *c, unsigned seconds, unsigned count)
{
	struct sample before, now;
	const struct timespec pause = { .tv_sec = seconds };

	if (!take_sample(c, &before))
		return CTL_FAILED;
	for (unsigned i = 0; count == 0 || i < count; i++) {
		(void)nanosleep(&pause, NULL);
		if (!take_sample(c, &now)) {
			cJSON_Delete(before.stats);
			return CTL_FAILED;
		}
		if (!c->json && isatty(STDOUT_FILENO))
			(void)fputs("\033[H\033[2J", stdout);
		show_picture(c, &before, &now);
		cJSON_Delete(before.stats);
		before = now;
		if (ctl_flush(CTL_DONE) != CTL_DONE)
			break;
	}
	cJSON_Delete(before.stats);
	return CTL_DONE;
}

int ctl_top(struct ctl *c)
{
	unsigned seconds = 1, count = 0;

	if (!ctl_number(c, "--interval", 3600, &seconds) || !ctl_number(c, "--count", 1000000, &count) ||
	    !ctl_words(c, 0, "top takes options only: --interval, --count"))
		return CTL_USAGE;
	return watch(c, seconds, count);
}
