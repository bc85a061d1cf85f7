/*
 * Faults: one line each, told as they are found, so that one run of «brim -t» names all of them.
 *
 * A line holds what somebody wrote into a file (keys, values), and goes to a terminal or a log:
 * control characters become "?". The first line is kept for the admin's status page.
 */
#include "conf/fault.h"

#include <errno.h>
#include <stdlib.h>

enum { FAULT_LINE = 512, LINE_BYTES = 4 * FAULT_LINE, DISTANCE_WORD = 48 };

static void make_printable(char *line)
{
	for (char *c = line; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
}

static void fault_tell(struct conf_faults *f, char *line)
{
	make_printable(line);
	if (f->count++ == 0)
		snprintf(f->first, sizeof(f->first), "%s", line);
	if (f->to != NULL && f->count <= CONF_FAULTS_TOLD)
		fprintf(f->to, "%s\n", line);
}

void conf_fault(struct conf_faults *f, const char *source, const char *format, ...)
{
	char what[FAULT_LINE], line[2 * FAULT_LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	snprintf(line, sizeof(line), "%s: %s", source, what);
	fault_tell(f, line);
}

void conf_fault_at(struct conf_faults *f, const struct conf_places *places, const char *pointer,
		   const char *format, ...)
{
	va_list args;

	va_start(args, format);
	conf_vfault_at(f, places, pointer, format, args);
	va_end(args);
}

/* «SOURCE: /pointer: what» */
static void write_line(const struct conf_places *places, const char *pointer, const char *what,
		       char line[LINE_BYTES])
{
	const struct conf_place *place = places == NULL ? NULL : conf_places_find(places, pointer);

	if (place == NULL && *pointer == '\0') {
		snprintf(line, LINE_BYTES, "configuration: %s", what);
	} else if (place == NULL) {
		snprintf(line, LINE_BYTES, "%s: %s", pointer, what);
	} else if (place->pointer == NULL || (*place->pointer == '\0' && *pointer == '\0')) {
		snprintf(line, LINE_BYTES, "%s: %s", place->source, what);
	} else {
		const char *rest = pointer + strlen(place->merged);

		snprintf(line, LINE_BYTES, "%s: %s%s: %s", place->source, place->pointer, rest, what);
	}
}

void conf_vfault_at(struct conf_faults *f, const struct conf_places *places, const char *pointer,
		    const char *format, va_list args)
{
	char what[FAULT_LINE], line[LINE_BYTES];

	vsnprintf(what, sizeof(what), format, args);
	write_line(places, pointer, what, line);
	fault_tell(f, line);
}

void conf_warning_at(struct conf_faults *f, const struct conf_places *places, const char *pointer,
		     const char *format, ...)
{
	char what[FAULT_LINE] = "warning: ", line[LINE_BYTES];
	size_t n = strlen(what);
	va_list args;

	va_start(args, format);
	vsnprintf(what + n, sizeof(what) - n, format, args);
	va_end(args);
	write_line(places, pointer, what, line);
	make_printable(line);
	if (f->warn != NULL)
		f->warn(line);
	else if (f->to != NULL)
		fprintf(f->to, "%s\n", line);
}

int conf_places_add(struct conf_places *p, const char *merged, const char *source, const char *pointer)
{
	if (p->count == p->capacity) {
		size_t capacity = p->capacity == 0 ? 16 : 2 * p->capacity;
		struct conf_place *at = reallocarray(p->at, capacity, sizeof(*at));

		if (at == NULL)
			return -ENOMEM;
		p->at = at;
		p->capacity = capacity;
	}
	struct conf_place *place = &p->at[p->count++];

	place->merged = strdup(merged);
	place->source = strdup(source);
	place->pointer = pointer == NULL ? NULL : strdup(pointer);
	if (place->merged == NULL || place->source == NULL ||
	    (pointer != NULL && place->pointer == NULL))
		return -ENOMEM;
	return 0;
}

static bool place_holds(const struct conf_place *place, const char *pointer)
{
	size_t n = strlen(place->merged);

	return strncmp(place->merged, pointer, n) == 0 && (pointer[n] == '\0' || pointer[n] == '/');
}

const struct conf_place *conf_places_find(const struct conf_places *p, const char *pointer)
{
	const struct conf_place *best = NULL;

	for (size_t i = 0; i < p->count; i++) {
		const struct conf_place *place = &p->at[i];

		if (place_holds(place, pointer) &&
		    (best == NULL || strlen(place->merged) >= strlen(best->merged)))
			best = place;
	}
	return best;
}

void conf_places_fini(struct conf_places *p)
{
	for (size_t i = 0; i < p->count; i++) {
		free(p->at[i].merged);
		free(p->at[i].source);
		free(p->at[i].pointer);
	}
	free(p->at);
	*p = (struct conf_places){ 0 };
}

void conf_pointer_add(char pointer[CONF_POINTER_BYTES], const char *segment)
{
	size_t at = strlen(pointer);

	if (at + 3 < CONF_POINTER_BYTES)
		pointer[at++] = '/';
	for (const char *c = segment; *c != '\0' && at + 3 < CONF_POINTER_BYTES; c++) {
		if (*c != '~' && *c != '/') {
			pointer[at++] = *c;
			continue;
		}
		pointer[at++] = '~';
		pointer[at++] = *c == '~' ? '0' : '1';
	}
	pointer[at] = '\0';
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Optimal string alignment: insert, delete, replace, swap neighbours. Three rows are enough. */
unsigned conf_distance(struct view a, struct view b, unsigned most)
{
	unsigned rows[3][DISTANCE_WORD + 1];

	if (a.n > DISTANCE_WORD || b.n > DISTANCE_WORD)
		return most + 1;
	for (unsigned j = 0; j <= b.n; j++)
		rows[0][j] = j;
	for (unsigned i = 1; i <= a.n; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *higher = rows[(i + 1) % 3];

		row[0] = i;
		for (unsigned j = 1; j <= b.n; j++) {
			unsigned replaced = above[j - 1] + (a.p[i - 1] != b.p[j - 1]);

			row[j] = least(replaced, least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1])
				row[j] = least(row[j], higher[j - 2] + 1);
		}
	}
	return least(rows[a.n % 3][b.n], most + 1);
}
