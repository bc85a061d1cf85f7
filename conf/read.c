/*
 * Files to one merged text. The first file and what it includes are merged into one tree:
 * "sites" are put one behind the other, "origins" beside each other, and any other key may be in
 * one file only. Places remember which part came from where, so that every fault names the
 * file that must be mended.
 *
 * A file that can't be read or parsed ends the work before the cross-checks: they would tell
 * of origins that are missing because their file is.
 */
#include "conf/read.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/build.h"
#include "conf/files.h"
#include "conf/parse.h"

enum { FILES_MAX = 1024, INCLUDE_DEPTH_MAX = 8 };

struct merge {
	struct conf_faults *faults;
	struct conf_places places;
	cJSON *tree; /* merged so far */
	size_t site_count, file_count;
	struct {
		dev_t device;
		ino_t inode;
	} files[FILES_MAX];
	bool broken; /* a file could not be read or parsed */
	int err;     /* of the first file, or -ENOMEM */
};

/* --- one file */

static int read_descriptor(int fd, char **out_text, size_t *out_bytes)
{
	size_t capacity = 64 << 10, n = 0;
	char *text = NULL;

	for (;;) {
		char *larger = text == NULL || n == capacity ? realloc(text, capacity *= 2) : text;

		if (larger == NULL)
			goto failed;
		text = larger;
		ssize_t got = read(fd, text + n, capacity - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			goto failed;
		n += (size_t)got;
		if (got == 0 || n > CONF_TEXT_BYTES_MAX)
			break;
	}
	*out_text = text;
	*out_bytes = n;
	return 0;
failed:;
	int err = -errno;

	free(text);
	return err;
}

/* Two includes of the same file would give everything twice. */
static bool seen_before(struct merge *m, int fd)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return false;
	for (size_t i = 0; i < m->file_count; i++) {
		if (m->files[i].device == status.st_dev && m->files[i].inode == status.st_ino)
			return true;
	}
	if (m->file_count < FILES_MAX) {
		m->files[m->file_count].device = status.st_dev;
		m->files[m->file_count].inode = status.st_ino;
	}
	m->file_count++;
	return false;
}

static int parse_descriptor(struct merge *m, const char *file, int fd, cJSON **out_tree)
{
	char *text = NULL;
	size_t bytes = 0;
	int err = read_descriptor(fd, &text, &bytes);

	if (err < 0) {
		conf_fault(m->faults, file, "%s", strerror(-err));
		return err;
	}
	if (bytes > CONF_TEXT_BYTES_MAX) {
		conf_fault(m->faults, file, "is larger than 16 MiB");
		err = -EINVAL;
	} else {
		err = conf_parse(view_of(text, bytes), file, m->faults, out_tree);
	}
	free(text);
	return err;
}

/* A negative errno: the fault is told. */
static int parse_file(struct merge *m, const char *file, cJSON **out_tree)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC), err = -EINVAL;

	if (fd < 0) {
		err = -errno;
		conf_fault(m->faults, file, "%s", strerror(-err));
		return err;
	}
	if (seen_before(m, fd))
		conf_fault(m->faults, file, "is included twice");
	else if (m->file_count > FILES_MAX)
		conf_fault(m->faults, file, "more than %d files are included", FILES_MAX);
	else
		err = parse_descriptor(m, file, fd, out_tree);
	close(fd);
	if (err == 0 && !cJSON_IsObject(*out_tree)) {
		conf_fault(m->faults, file, "must be an object: {…}");
		cJSON_Delete(*out_tree);
		err = -EINVAL;
	}
	return err;
}

/* --- merging */

static void remember(struct merge *m, const char *merged, const char *file, const char *pointer)
{
	if (conf_places_add(&m->places, merged, file, pointer) < 0)
		m->err = -ENOMEM;
}

/* Takes item. */
static void add_member(struct merge *m, cJSON *object, const char *name, cJSON *item)
{
	if (!cJSON_AddItemToObject(object, name, item)) {
		cJSON_Delete(item);
		m->err = -ENOMEM;
	}
}

static void merge_site(struct merge *m, const char *file, size_t index, cJSON *site)
{
	char merged[32], pointer[32];

	snprintf(merged, sizeof(merged), "/sites/%zu", m->site_count++);
	snprintf(pointer, sizeof(pointer), "/sites/%zu", index);
	remember(m, merged, file, pointer);
	cJSON *sites = cJSON_GetObjectItemCaseSensitive(m->tree, "sites");

	if (!cJSON_AddItemToArray(sites, site)) {
		cJSON_Delete(site);
		m->err = -ENOMEM;
	}
}

static void merge_origin(struct merge *m, const char *file, cJSON *origin)
{
	cJSON *origins = cJSON_GetObjectItemCaseSensitive(m->tree, "origins");
	char pointer[CONF_POINTER_BYTES] = "/origins";
	char *name = strdup(origin->string);

	if (name == NULL) {
		cJSON_Delete(origin);
		m->err = -ENOMEM;
		return;
	}
	conf_pointer_add(pointer, name);
	if (cJSON_GetObjectItemCaseSensitive(origins, name) != NULL) {
		conf_fault(m->faults, file, "%s: is in %s already: keep one of them", pointer,
			   conf_places_find(&m->places, pointer)->source);
		cJSON_Delete(origin);
	} else {
		remember(m, pointer, file, pointer);
		add_member(m, origins, name, origin);
	}
	free(name);
}

/* "sites" and "origins" element by element; takes list. */
static void merge_elements(struct merge *m, const char *file, cJSON *list)
{
	const char *name = list->string;
	size_t index = 0;
	char pointer[16];

	snprintf(pointer, sizeof(pointer), "/%s", name);
	if (cJSON_GetObjectItemCaseSensitive(m->tree, name) == NULL) {
		remember(m, pointer, file, pointer);
		add_member(m, m->tree, name,
			   cJSON_IsArray(list) ? cJSON_CreateArray() : cJSON_CreateObject());
	}
	while (list->child != NULL && m->err != -ENOMEM) {
		cJSON *child = cJSON_DetachItemViaPointer(list, list->child);

		if (cJSON_IsArray(list))
			merge_site(m, file, index++, child);
		else
			merge_origin(m, file, child);
	}
	cJSON_Delete(list);
}

/* Takes member. */
static void merge_member(struct merge *m, const char *file, cJSON *member)
{
	char pointer[CONF_POINTER_BYTES] = "", *name = strdup(member->string);
	bool sites = strcmp(member->string, "sites") == 0;
	bool origins = strcmp(member->string, "origins") == 0;

	conf_pointer_add(pointer, member->string);
	if (name == NULL) {
		m->err = -ENOMEM;
		cJSON_Delete(member);
	} else if ((sites && !cJSON_IsArray(member)) || (origins && !cJSON_IsObject(member))) {
		conf_fault(m->faults, file, "%s: must be %s", pointer,
			   sites ? "a list of objects: [{…}]" : "an object: {…}");
		cJSON_Delete(member);
	} else if (sites || origins) {
		merge_elements(m, file, member);
	} else if (cJSON_GetObjectItemCaseSensitive(m->tree, name) != NULL) {
		conf_fault(m->faults, file, "%s: is in %s already: keep one of them", pointer,
			   conf_places_find(&m->places, pointer)->source);
		cJSON_Delete(member);
	} else {
		remember(m, pointer, file, pointer);
		add_member(m, m->tree, name, member);
	}
	free(name);
}

static void merge_file(struct merge *m, const char *file, unsigned depth);

static bool has_wildcard(const char *pattern)
{
	return strpbrk(pattern, "*?[") != NULL;
}

/* A pattern that nothing matches is well (an empty sites.d); a plain name must be there. */
static void include_pattern(struct merge *m, const char *file, const char *pattern,
			    const char *pointer, unsigned depth)
{
	char full[PATH_MAX], *copy = strdup(file);
	glob_t found = { 0 };

	if (copy == NULL) {
		m->err = -ENOMEM;
		return;
	}
	int n = pattern[0] == '/' ? snprintf(full, sizeof(full), "%s", pattern)
				  : snprintf(full, sizeof(full), "%s/%s", dirname(copy), pattern);

	free(copy);
	int err = n < 0 || (size_t)n >= sizeof(full) ? GLOB_NOMATCH : glob(full, 0, NULL, &found);

	if (err != 0 && (err != GLOB_NOMATCH || !has_wildcard(pattern))) {
		conf_fault(m->faults, file, "%s: there is no file %s", pointer, full);
		m->broken = true;
	}
	for (size_t i = 0; err == 0 && i < found.gl_pathc; i++)
		merge_file(m, found.gl_pathv[i], depth + 1);
	globfree(&found);
}

static void include_all(struct merge *m, const char *file, const cJSON *patterns, unsigned depth)
{
	const cJSON *pattern;
	unsigned index = 0;

	if (cJSON_IsString(patterns))
		include_pattern(m, file, patterns->valuestring, "/include", depth);
	else if (!cJSON_IsArray(patterns))
		conf_fault(m->faults, file, "/include: must be a list of file names: […]");
	cJSON_ArrayForEach(pattern, patterns)
	{
		char pointer[32];

		snprintf(pointer, sizeof(pointer), "/include/%u", index++);
		if (cJSON_IsString(pattern))
			include_pattern(m, file, pattern->valuestring, pointer, depth);
		else
			conf_fault(m->faults, file, "%s: must be a string", pointer);
	}
}

/* The file's own members first, then its includes: they stand behind it in the merged list. */
static void merge_file(struct merge *m, const char *file, unsigned depth)
{
	cJSON *tree, *include;
	int err;

	if (depth > INCLUDE_DEPTH_MAX) {
		conf_fault(m->faults, file, "is included by too long a chain of files");
		return;
	}
	err = parse_file(m, file, &tree);
	if (err < 0) {
		m->broken = true;
		m->err = depth == 0 || err == -ENOMEM ? err : m->err;
		return;
	}
	include = cJSON_DetachItemFromObjectCaseSensitive(tree, "include");
	while (tree->child != NULL && m->err != -ENOMEM)
		merge_member(m, file, cJSON_DetachItemViaPointer(tree, tree->child));
	cJSON_Delete(tree);
	if (include != NULL)
		include_all(m, file, include, depth);
	cJSON_Delete(include);
}

static int read_and_finish(const char *file, const struct conf_finish *how,
			   struct conf_faults *faults, char **out_text)
{
	struct merge *m = calloc(1, sizeof(*m));
	unsigned before = faults->count;
	int err = 0;

	if (m == NULL)
		return -ENOMEM;
	m->faults = faults;
	m->tree = cJSON_CreateObject();
	if (m->tree == NULL || conf_places_add(&m->places, "", file, "") < 0)
		m->err = -ENOMEM;
	else
		merge_file(m, file, 0);
	if (m->err != 0 || m->broken)
		err = m->err != 0 ? m->err : -EINVAL;
	if (err == 0)
		err = conf_read_finish(m->tree, how, &m->places, faults, out_text);
	if (err == 0 && faults->count != before) {
		conf_text_free(*out_text);
		*out_text = NULL;
		err = -EINVAL;
	}
	cJSON_Delete(m->tree);
	conf_places_fini(&m->places);
	free(m);
	return err;
}

int conf_read(const char *file, struct conf_faults *faults, char **out_text)
{
	return read_and_finish(file, &(struct conf_finish){ 0 }, faults, out_text);
}

int conf_read_all(const char *file, conf_look look, struct conf_faults *faults, char **out_text)
{
	return read_and_finish(file, &(struct conf_finish){ .all = true, .look = look }, faults,
			       out_text);
}

/* --- finishing */

/* Only root can become somebody else. */
static void check_user(const struct conf *c, const struct conf_places *places, struct conf_faults *faults)
{
	/* The master has one thread. */
	// cppcheck-suppress getpwnamCalled
	if (geteuid() != 0 || c->user.n == 0 || getpwnam(c->user.p) != NULL)
		return;
	conf_fault_at(faults, places, "/user",
		      "there is no user \"%.*s\": make one (useradd --system), name another, or "
		      "\"\" to stay root",
		      VIEW_ARG(c->user));
}

/* "auto" counts the processors that the master may use; a child may be bound to one of them. */
static int resolve_workers(cJSON *tree, uint32_t workers)
{
	cJSON *number = cJSON_CreateNumber(workers);

	if (number == NULL)
		return -ENOMEM;
	if (cJSON_GetObjectItemCaseSensitive(tree, "workers") != NULL
		    ? !cJSON_ReplaceItemInObjectCaseSensitive(tree, "workers", number)
		    : !cJSON_AddItemToObject(tree, "workers", number)) {
		cJSON_Delete(number);
		return -ENOMEM;
	}
	return 0;
}

/* Builds it once, to hear of all faults. A look is taken only at what is well so far. */
static int check_all(cJSON *tree, const struct conf_finish *how, struct conf_files *files,
		     const struct conf_places *places, struct conf_faults *faults)
{
	unsigned before = faults->count;
	struct conf *c;
	int err = conf_build_tree(tree, NULL, files, places, 0, faults, &c);

	if (err < 0)
		return err;
	check_user(c, places, faults);
	if (how->look != NULL)
		how->look(c, places, faults);
	err = resolve_workers(tree, c->workers);
	conf_unref(c);
	return err == 0 && faults->count != before ? -EINVAL : err;
}

static int print_all(cJSON *tree, cJSON *files, char **out_text)
{
	char *text;

	if (files->child != NULL && !cJSON_AddItemReferenceToObject(tree, CONF_FILES_MEMBER, files))
		return -ENOMEM;
	text = cJSON_PrintUnformatted(tree);
	if (text == NULL)
		return -ENOMEM;
	*out_text = text;
	return 0;
}

int conf_read_finish(cJSON *tree, const struct conf_finish *how, const struct conf_places *places,
		     struct conf_faults *faults, char **out_text)
{
	struct conf_files files = { .read = how->all, .tree = cJSON_CreateObject() };
	int err = files.tree == NULL ? -ENOMEM : check_all(tree, how, &files, places, faults);

	if (err == 0)
		err = print_all(tree, files.tree, out_text);
	cJSON_Delete(files.tree);
	return err;
}
