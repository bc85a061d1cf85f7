/*
 * One text to a tree: the scan holds it to the letter (scan.c), cJSON builds, and keys that an
 * object has twice are told, since a tree's reader would see only one of them.
 */
#include "conf/parse.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>

#include "conf/fault.h"
#include "conf/scan.h"

static void tell_syntax(struct conf_faults *faults, const char *source, const struct conf_scan *s)
{
	char place[CONF_POINTER_BYTES];
	unsigned line, column;

	conf_scan_place(s, &line, &column);
	snprintf(place, sizeof(place), "%s:%u:%u", source, line, column);
	conf_fault(faults, place, "%s", s->fault);
}

static int by_name(const void *a, const void *b)
{
	const cJSON *const *x = a, *const *y = b;

	return strcmp((*x)->string, (*y)->string);
}

/* Duplicate keys of one object, found by sorting: files may be large. */
static int tell_duplicates(const cJSON *object, const char *source, const char *pointer,
			   struct conf_faults *faults)
{
	size_t count = (size_t)cJSON_GetArraySize(object), i = 0;
	const cJSON **names = calloc(count + 1, sizeof(*names));
	const cJSON *child;

	if (names == NULL)
		return -ENOMEM;
	cJSON_ArrayForEach(child, object) names[i++] = child;
	qsort(names, count, sizeof(*names), by_name);
	for (i = 1; i < count; i++) {
		bool again = i > 1 && by_name(&names[i - 2], &names[i - 1]) == 0;
		char deeper[CONF_POINTER_BYTES];

		if (by_name(&names[i - 1], &names[i]) != 0 || again)
			continue;
		snprintf(deeper, sizeof(deeper), "%s", pointer);
		conf_pointer_add(deeper, names[i]->string);
		conf_fault(faults, source, "%s: is there twice: keep one of them", deeper);
	}
	free(names);
	return 0;
}

/* Recurses: the scan has bounded the depth. */
static int check_duplicates(const cJSON *value, const char *source, const char *pointer,
			    struct conf_faults *faults)
{
	unsigned index = 0;
	const cJSON *child;
	int err;

	if (cJSON_IsObject(value)) {
		err = tell_duplicates(value, source, pointer, faults);
		if (err < 0)
			return err;
	}
	cJSON_ArrayForEach(child, value)
	{
		char deeper[CONF_POINTER_BYTES], number[16];

		snprintf(number, sizeof(number), "%u", index++);
		if (child->child == NULL)
			continue;
		snprintf(deeper, sizeof(deeper), "%s", pointer);
		conf_pointer_add(deeper, child->string != NULL ? child->string : number);
		err = check_duplicates(child, source, deeper, faults);
		if (err < 0)
			return err;
	}
	return 0;
}

static int parse_text(struct conf_scan *s, const char *source, struct conf_faults *faults,
		      cJSON **out_tree)
{
	unsigned before = faults->count;
	cJSON *tree;

	if (!conf_scan(s)) {
		tell_syntax(faults, source, s);
		return -EINVAL;
	}
	tree = cJSON_ParseWithOpts(s->text, NULL, true);
	if (tree == NULL)
		return -ENOMEM;
	int err = check_duplicates(tree, source, "", faults);

	if (err == 0 && faults->count != before)
		err = -EINVAL;
	if (err < 0) {
		cJSON_Delete(tree);
		return err;
	}
	*out_tree = tree;
	return 0;
}

int conf_parse(struct view text, const char *source, struct conf_faults *faults, cJSON **out_tree)
{
	struct conf_scan s = { .bytes = text.n };

	if (text.n > CONF_MERGED_BYTES_MAX) {
		conf_fault(faults, source, "is larger than 128 MiB");
		return -EINVAL;
	}
	s.text = malloc(text.n + 1);
	if (s.text == NULL)
		return -ENOMEM;
	if (text.n > 0)
		memcpy(s.text, text.p, text.n);
	s.text[text.n] = '\0';
	int err = parse_text(&s, source, faults, out_tree);

	explicit_bzero(s.text, text.n); /* it may hold keys */
	free(s.text);
	return err;
}
