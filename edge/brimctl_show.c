/*
 * Answers for people: one fact a line, sizes and times in units. Absent members print as nothing, so that
 * an older brimctl can show a newer node.
 */
#include "edge/brimctl_show.h"

#include <cjson/cJSON.h>
#include <string.h>
#include <time.h>

#include "edge/base/check.h"

static const cJSON *member(const cJSON *object, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(object, name);
}

static double number(const cJSON *object, const char *name)
{
	const cJSON *value = member(object, name);

	return cJSON_IsNumber(value) ? value->valuedouble : 0;
}

static const char *string(const cJSON *object, const char *name)
{
	const cJSON *value = member(object, name);

	return cJSON_IsString(value) ? value->valuestring : "";
}

void show_text(const char *text, FILE *to)
{
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		(void)fputc(c < ' ' || c == 0x7f ? '?' : c, to);
	}
}

void show_padded(const char *text, int columns, FILE *to)
{
	char cut[128];

	(void)snprintf(cut, sizeof(cut), "%-*.*s", columns, columns, text);
	show_text(cut, to);
}

void show_size(double bytes, FILE *to)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned unit = 0;

	while (bytes >= 1024 && unit + 1 < ARRAY_LEN(units)) {
		bytes /= 1024;
		unit++;
	}
	(void)fprintf(to, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

static void show_seconds(double seconds, FILE *to)
{
	if (seconds >= 2 * 86400 || seconds <= -2 * 86400)
		(void)fprintf(to, "%.1f days", seconds / 86400);
	else if (seconds >= 2 * 3600 || seconds <= -2 * 3600)
		(void)fprintf(to, "%.1f h", seconds / 3600);
	else if (seconds >= 120 || seconds <= -120)
		(void)fprintf(to, "%.1f min", seconds / 60);
	else
		(void)fprintf(to, "%.0f s", seconds);
}

void show_reload(const cJSON *answer, FILE *to)
{
	if (cJSON_IsTrue(member(answer, "dry_run")))
		(void)fputs("ok: a reload would take it\n", to);
	else
		(void)fprintf(to, "reloaded: generation %.0f\n", number(answer, "generation"));
}

void show_drain(const cJSON *answer, FILE *to)
{
	if (cJSON_IsTrue(member(answer, "draining")))
		(void)fprintf(to, "takes no connections; %.0f are still open\n",
			      number(answer, "connections"));
	else
		(void)fputs("takes connections\n", to);
}

void show_check(const cJSON *answer, FILE *to)
{
	(void)answer;
	(void)fputs("ok: the node would take it by a reload\n", to);
}

void show_config(const cJSON *answer, FILE *to)
{
	char *text = cJSON_Print(answer);

	(void)fprintf(to, "%s\n", text != NULL ? text : "");
	cJSON_free(text);
}

/* --- status --------------------------------------------------------------------------------------- */

static void show_reload_outcome(const cJSON *reload, FILE *to)
{
	time_t when = (time_t)number(reload, "time");
	char date[32] = "";
	struct tm tm;

	if (!cJSON_IsObject(reload))
		return;
	if (gmtime_r(&when, &tm) != NULL)
		(void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &tm);
	(void)fprintf(to, "last reload %s: %s", date,
		      cJSON_IsTrue(member(reload, "ok")) ? "ok" : "failed: ");
	show_text(string(reload, "fault"), to);
	(void)fputc('\n', to);
}

static void show_process(const cJSON *p, FILE *to)
{
	const cJSON *slot = member(p, "slot");

	(void)fprintf(to, "%s", string(p, "role"));
	if (slot != NULL)
		(void)fprintf(to, " %.0f", slot->valuedouble);
	if (number(p, "pid") == 0)
		(void)fputs(": not running", to);
	else
		(void)fprintf(to, ": pid %.0f", number(p, "pid"));
	(void)fputs(", up ", to);
	show_seconds(number(p, "uptime"), to);
	if (number(p, "restarts") > 0)
		(void)fprintf(to, ", restarted %.0f times", number(p, "restarts"));
	(void)fputc('\n', to);
}

static void show_store(const cJSON *s, FILE *to)
{
	(void)fputs("store ", to);
	show_text(string(s, "name"), to);
	(void)fputs(": ", to);
	show_text(string(s, "state"), to);
	(void)fputs(", ", to);
	show_size(number(s, "used_bytes"), to);
	(void)fputs(" of ", to);
	show_size(number(s, "size_bytes"), to);
	(void)fprintf(to, ", %.0f objects, index ", number(s, "objects"));
	show_size(number(s, "index_bytes"), to);
	(void)fputc('\n', to);
}

static void show_size_line(const char *label, const cJSON *s, const char *name, FILE *to)
{
	(void)fprintf(to, "  %s: ", label);
	show_size(number(s, name), to);
	(void)fputc('\n', to);
}

static void show_store_whole(const cJSON *s, FILE *to)
{
	show_store(s, to);
	show_size_line("removed, but still read", s, "dead_open_bytes", to);
	show_size_line("not yet synced", s, "unsynced_bytes", to);
	(void)fprintf(to, "  segments: %.0f, evicted %.0f\n", number(s, "segments"),
		      number(s, "evicted_segments"));
	(void)fprintf(to, "  objects: committed %.0f, evicted %.0f, beyond max_variants %.0f\n",
		      number(s, "commits"), number(s, "evicted_objects"),
		      number(s, "evicted_variants"));
	(void)fprintf(to, "  fills that found no room: %.0f\n", number(s, "fills_refused"));
}

void show_stores(const cJSON *stores, FILE *to)
{
	const cJSON *each;

	cJSON_ArrayForEach(each, stores)
	{
		show_store_whole(each, to);
	}
	if (!cJSON_IsArray(stores) || cJSON_GetArraySize(stores) == 0)
		(void)fputs("no store is configured\n", to);
}

static void show_sealed(const cJSON *counts, FILE *to)
{
	(void)fprintf(to, ": %.0f connections sealed by the kernel, %.0f by the program\n",
		      number(counts, "kernel"), number(counts, "program"));
}

/* Since the start; nothing where there were none. */
static void show_tls(const cJSON *tls, FILE *to)
{
	const cJSON *each, *ciphers = member(tls, "ciphers");

	if (cJSON_GetArraySize(ciphers) == 0)
		return;
	(void)fprintf(to, "TLS%s", cJSON_IsTrue(member(tls, "ktls")) ? "" : " (no kTLS here)");
	show_sealed(member(tls, "connections"), to);
	cJSON_ArrayForEach(each, ciphers)
	{
		(void)fputs("  ", to);
		show_text(each->string, to);
		show_sealed(each, to);
	}
}

void show_status(const cJSON *answer, FILE *to)
{
	const cJSON *each;

	show_text(string(answer, "name"), to);
	(void)fprintf(to, ": brim %s, up ", string(answer, "version"));
	show_seconds(number(answer, "uptime"), to);
	(void)fprintf(to, ", generation %.0f%s\n", number(answer, "generation"),
		      cJSON_IsTrue(member(answer, "draining")) ? ", draining" : "");
	show_reload_outcome(member(answer, "reload"), to);
	cJSON_ArrayForEach(each, member(answer, "processes"))
	{
		show_process(each, to);
	}
	cJSON_ArrayForEach(each, member(answer, "stores"))
	{
		show_store(each, to);
	}
	show_tls(member(answer, "tls"), to);
}

/* --- inspect ---------------------------------------------------------------------------------------- */

static void show_place(const cJSON *v, FILE *to)
{
	const cJSON *head = member(v, "head"), *body = member(v, "body");

	(void)fputs("  in store ", to);
	show_text(string(v, "store"), to);
	(void)fprintf(to, ": head in segment %.0f at %.0f", number(head, "segment"),
		      number(head, "offset"));
	if (member(body, "segment") != NULL)
		(void)fprintf(to, ", body in segment %.0f at %.0f", number(body, "segment"),
			      number(body, "offset"));
	else if (member(body, "chunks") != NULL)
		(void)fputs(", body in chunk files", to);
	(void)fputc('\n', to);
}

static void show_fields(const cJSON *v, FILE *to)
{
	const cJSON *pair;

	cJSON_ArrayForEach(pair, member(v, "fields"))
	{
		const cJSON *name = cJSON_GetArrayItem(pair, 0), *value = cJSON_GetArrayItem(pair, 1);

		if (!cJSON_IsString(name) || !cJSON_IsString(value))
			continue;
		(void)fputs("  ", to);
		show_text(name->valuestring, to);
		(void)fputs(": ", to);
		show_text(value->valuestring, to);
		(void)fputc('\n', to);
	}
}

static void show_variant(const cJSON *v, FILE *to)
{
	(void)fprintf(to, "\nvariant %s: status %.0f, ", string(v, "secondary"), number(v, "status"));
	show_size(number(member(v, "body"), "bytes"), to);
	(void)fputs(", received ", to);
	show_text(string(v, "received"), to);
	(void)fputs("\n  age ", to);
	show_seconds(number(v, "age"), to);
	(void)fputs(", lifetime ", to);
	show_seconds(number(v, "lifetime"), to);
	if (*string(v, "lifetime_by") != '\0')
		(void)fprintf(to, " (%s)", string(v, "lifetime_by"));
	(void)fputs(", fresh for ", to);
	show_seconds(number(v, "ttl"), to);
	(void)fprintf(to, "\n  purged: %s; next request: %s (%s)\n", string(v, "purged"),
		      string(v, "next"), string(v, "reason"));
	show_place(v, to);
	show_fields(v, to);
}

void show_object(const cJSON *answer, FILE *to)
{
	const cJSON *each;

	show_text(string(answer, "url"), to);
	(void)fputs("\nsite ", to);
	show_text(string(answer, "site"), to);
	(void)fprintf(to, ", key %s\n", string(answer, "key"));
	if (member(answer, "rule") != NULL)
		(void)fprintf(to, "rule %.0f decides its lifetime\n", number(answer, "rule"));
	(void)fprintf(to, "next request: %s (%s)\n", string(answer, "next"), string(answer, "reason"));
	if (member(answer, "vary") != NULL) {
		(void)fputs("varies by:", to);
		cJSON_ArrayForEach(each, member(answer, "vary"))
		{
			(void)fputc(' ', to);
			show_text(cJSON_IsString(each) ? each->valuestring : "", to);
		}
		(void)fputc('\n', to);
	}
	cJSON_ArrayForEach(each, member(answer, "variants"))
	{
		show_variant(each, to);
	}
}

/* --- objects ---------------------------------------------------------------------------------------- */

void show_listed(const cJSON *o, FILE *to)
{
	double ttl = number(o, "ttl");

	(void)fprintf(to, "%.0f  ", number(o, "status"));
	show_size(number(o, "bytes"), to);
	if (strcmp(string(o, "purged"), "no") != 0) {
		(void)fputs("  purged ", to);
		show_text(string(o, "purged"), to);
	} else {
		(void)fputs(ttl >= 0 ? "  fresh for " : "  stale for ", to);
		show_seconds(ttl >= 0 ? ttl : -ttl, to);
	}
	(void)fputs("  ", to);
	show_text(string(o, "url"), to);
	(void)fputc('\n', to);
}
