/* What the tests of conf share: texts with ' for ", and all faults as one string. */
#ifndef BRIM_TESTS_CONF_TESTING_H
#define BRIM_TESTS_CONF_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>

#include "conf/conf.h"

/* Parts of a configuration that is well; tests add or replace others. */
#define LISTENERS "'listeners': [{'address': '127.0.0.1:8080'}]"
#define STORES "'stores': [{'path': '/srv/cache', 'size': '1GiB'}]"
#define ORIGINS "'origins': {'shop': {'servers': [{'url': 'http://10.0.0.5:8080'}]}}"
#define SITES "'sites': [{'hosts': ['shop.example'], 'origin': 'shop'}]"
#define BASE LISTENERS ", " STORES ", 'user': ''"
#define WITH_SITE(members) \
	"{" BASE ", " ORIGINS ", 'sites': [{'hosts': ['shop.example'], 'origin': 'shop', " members "}]}"
#define WITH_CACHE(members) WITH_SITE("'cache': {" members "}")
#define WITH_RULE(members) WITH_SITE("'rules': [{" members "}]")
#define WITH_ORIGIN(members)                                                                \
	"{" BASE ", 'origins': {'shop': {'servers': [{'url': 'http://10.0.0.5'}], " members \
	"}}, " SITES "}"
#define WITH_ROOT(members) "{" BASE ", " ORIGINS ", " SITES ", " members "}"

struct told {
	struct conf_faults faults;
	char *text;
	size_t bytes;
};

static inline void told_begin(struct told *t)
{
	*t = (struct told){ 0 };
	t->faults.to = open_memstream(&t->text, &t->bytes);
	assert_non_null(t->faults.to);
}

/* What was told so far. */
static inline const char *told_text(struct told *t)
{
	fflush(t->faults.to);
	return t->text;
}

static inline void told_end(struct told *t)
{
	fclose(t->faults.to);
	free(t->text);
}

static inline char *quoted(const char *text)
{
	char *copy = strdup(text);

	assert_non_null(copy);
	for (char *c = copy; *c != '\0'; c++) {
		if (*c == '\'')
			*c = '"';
	}
	return copy;
}

/* NULL: faults. */
static inline struct conf *build_told(const char *text, struct told *t)
{
	char *json = quoted(text);
	struct conf *c = NULL;
	int err = conf_build(view_str(json), 1, &t->faults, &c);

	free(json);
	assert_int_equal(err, t->faults.count == 0 ? 0 : -EINVAL);
	return c;
}

static inline struct conf *build(const char *text)
{
	struct told t;
	struct conf *c;

	told_begin(&t);
	c = build_told(text, &t);
	assert_string_equal(told_text(&t), "");
	assert_non_null(c);
	told_end(&t);
	return c;
}

static inline void assert_view(struct view v, const char *text)
{
	assert_int_equal(v.n, strlen(text));
	assert_memory_equal(v.p, text, v.n);
}

#endif
