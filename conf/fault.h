/*
 * Telling faults. The checks see one merged configuration; people wrote several files (or a
 * command line). Places lead back: each says which part of the merged text came from where.
 */
#ifndef BRIM_CONF_FAULT_H
#define BRIM_CONF_FAULT_H

#include <stdarg.h>
#include <stddef.h>

#include "conf/conf.h"

struct conf_place {
	char *merged;  /* JSON pointer in the merged configuration: "/sites/7" */
	char *source;  /* a file, or an option */
	char *pointer; /* the same thing there: "/sites/0"; NULL: the source alone says it */
};

struct conf_places {
	struct conf_place *at;
	size_t count, capacity;
};

int conf_places_add(struct conf_places *p, const char *merged, const char *source,
		    const char *pointer) NODISCARD;
/* The innermost place that holds this pointer; NULL: none. */
const struct conf_place *conf_places_find(const struct conf_places *p, const char *pointer);
void conf_places_fini(struct conf_places *p);

/* One line «SOURCE: what», with what can't be printed replaced. */
void conf_fault(struct conf_faults *f, const char *source, const char *format, ...) PRINTF_LIKE(3, 4);
/* The same for a place of the merged configuration. places may be NULL. */
void conf_fault_at(struct conf_faults *f, const struct conf_places *places, const char *pointer,
		   const char *format, ...) PRINTF_LIKE(4, 5);
void conf_vfault_at(struct conf_faults *f, const struct conf_places *places, const char *pointer,
		    const char *format, va_list args) PRINTF_LIKE(4, 0);

/* What may be wrong, but hinders nothing; it isn't counted. */
void conf_warning_at(struct conf_faults *f, const struct conf_places *places, const char *pointer,
		     const char *format, ...) PRINTF_LIKE(4, 5);

/* Adds "/segment", escaped as RFC 6901 says; what doesn't fit is left out. */
enum { CONF_POINTER_BYTES = 512 };
void conf_pointer_add(char pointer[CONF_POINTER_BYTES], const char *segment);

/* How many single edits lead from one to the other; counts up to «most», then gives most + 1. */
unsigned conf_distance(struct view a, struct view b, unsigned most);

#endif
