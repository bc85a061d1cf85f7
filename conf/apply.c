/*
 * A tree into structs, by the key table. Every object is read in the table's order, not the
 * file's: what refers to something comes after it there (sites after origins).
 *
 * An element of "sites" or "origins" is written in layers, each key by key over the one before:
 * the table's defaults, then "defaults", then its own keys. Merging trees first would be the
 * other way; layers need no copy, and a fault in "defaults" is told once, where it stands.
 *
 * A value that is wrong leaves its member alone and reading goes on, so that all faults are
 * told in one run.
 */
#include "conf/apply.h"

#include <cjson/cJSON.h>
#include <stdarg.h>

#include "conf/member.h"

enum { PATH_BYTES = 96 };

/* What ARRAY and MAP members look like. */
struct slice {
	void *at;
	size_t count;
};
_Static_assert(offsetof(struct conf, site_count) ==
		       offsetof(struct conf, sites) + offsetof(struct slice, count),
	       "a count follows its pointer");

static void *member_of(void *target, const struct conf_key *key)
{
	return (char *)target + key->offset;
}

static const struct conf_key *find_key(const struct conf_scope *scope, const char *path)
{
	for (size_t i = 0; i < scope->count; i++) {
		if (strcmp(scope->keys[i].path, path) == 0)
			return &scope->keys[i];
	}
	return NULL;
}

/* Is it a plain object on the way to keys: "log", "log.access"? */
static bool is_group(const struct conf_scope *scope, const char *path)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < scope->count; i++) {
		if (strncmp(scope->keys[i].path, path, n) == 0 && scope->keys[i].path[n] == '.')
			return true;
	}
	return false;
}

/* The segment of a key's path that stands at this depth, if the key is below prefix. */
static struct view segment_below(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);

	if (strncmp(path, prefix, n) != 0 || (n > 0 && path[n] != '.'))
		return (struct view){ NULL, 0 };
	const char *from = path + n + (n > 0);

	return view_of(from, strcspn(from, "."));
}

static struct view nearest_key(const struct conf_scope *scope, const char *prefix, struct view name)
{
	unsigned most = name.n <= 3 ? 1 : name.n <= 6 ? 2 : 3;
	struct view best = { NULL, 0 };

	for (size_t i = 0; i < scope->count; i++) {
		struct view known = segment_below(scope->keys[i].path, prefix);
		unsigned distance = known.p == NULL ? most + 1 : conf_distance(name, known, most);

		if (distance <= most) {
			best = known;
			most = distance - (distance > 0);
		}
	}
	return best;
}

/* The last segment of a key's path. */
static const char *last_segment(const struct conf_key *key)
{
	const char *dot = strrchr(key->path, '.');

	return dot == NULL ? key->path : dot + 1;
}

/* A key of this name inside one of the scope's own objects; NULL: none. */
static const struct conf_key *find_within(const struct conf_key *object, const char *name)
{
	bool rule = object->scope == &conf_scope_cache && object->type == CONF_SPECIAL;

	if (object->type != CONF_OBJECT && !rule)
		return NULL;
	for (size_t i = 0; i < object->scope->count; i++) {
		const struct conf_key *key = &object->scope->keys[i];
		bool hidden = key->type == CONF_LATER || ((key->flags & CONF_RULE_ONLY) != 0 && !rule);

		if (!hidden && strcmp(last_segment(key), name) == 0)
			return key;
	}
	return NULL;
}

/* The same name deeper in this object: "default_ttl" that should be in "cache". */
static bool misplaced_key(const struct conf_scope *scope, const char *name, char out[PATH_BYTES])
{
	for (size_t i = 0; i < scope->count; i++) {
		const struct conf_key *key = &scope->keys[i], *within = find_within(key, name);

		if (within != NULL)
			snprintf(out, PATH_BYTES, "%s.%s", key->path, within->path);
		else if (key->type != CONF_LATER && strcmp(last_segment(key), name) == 0)
			snprintf(out, PATH_BYTES, "%s", key->path);
		else
			continue;
		return true;
	}
	return false;
}

static void tell_unknown(struct conf_reader *r, const struct conf_scope *scope, const char *prefix,
			 const char *name)
{
	bool told = !r->quiet && r->faults->count < CONF_FAULTS_TOLD;
	struct view near = told ? nearest_key(scope, prefix, view_str(name)) : (struct view){ 0 };
	char elsewhere[PATH_BYTES];

	if (near.p != NULL)
		conf_reader_fault(r, "unknown key, did you mean \"%.*s\"?", VIEW_ARG(near));
	else if (told && misplaced_key(scope, name, elsewhere))
		conf_reader_fault(r, "unknown key here, it belongs at \"%s\"", elsewhere);
	else
		conf_reader_fault(r, "unknown key");
}

static void check_names(struct conf_reader *r, const struct conf_scope *scope, const cJSON *object,
			const char *prefix)
{
	const cJSON *child;

	cJSON_ArrayForEach(child, object)
	{
		size_t mark = conf_reader_enter(r, child->string);
		char path[PATH_BYTES];
		int n = snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix == '\0' ? "" : ".",
				 child->string);
		bool plain = n > 0 && (size_t)n < sizeof(path) && strchr(child->string, '.') == NULL;

		if (!plain || (find_key(scope, path) == NULL && !is_group(scope, path)))
			tell_unknown(r, scope, prefix, child->string);
		else if (find_key(scope, path) != NULL)
			; /* known */
		else if (cJSON_IsObject(child))
			check_names(r, scope, child, path);
		else
			conf_reader_fault(r, "must be an object: {…}");
		conf_reader_leave(r, mark);
	}
}

/* Walks a dotted path down; the pointer goes along. NULL: not there. */
static const cJSON *look_up(struct conf_reader *r, const cJSON *object, const char *path)
{
	while (cJSON_IsObject(object)) {
		char name[PATH_BYTES];
		size_t n = strcspn(path, ".");

		snprintf(name, sizeof(name), "%.*s", (int)n, path);
		conf_reader_enter(r, name);
		object = cJSON_GetObjectItemCaseSensitive(object, name);
		if (path[n] == '\0')
			return object;
		path += n + 1;
	}
	return NULL;
}

void conf_apply(struct conf_reader *r, const struct conf_scope *scope, const cJSON *object,
		void *target, uint64_t *seen)
{
	if (!cJSON_IsObject(object)) {
		conf_reader_fault(r, "must be an object: {…}");
		return;
	}
	check_names(r, scope, object, "");
	for (size_t i = 0; i < scope->count && !r->exhausted; i++) {
		size_t mark = strlen(r->at);
		const cJSON *value = look_up(r, object, scope->keys[i].path);

		if (value != NULL) {
			*seen |= 1ULL << i;
			conf_apply_key(r, &scope->keys[i], value, target);
		}
		conf_reader_leave(r, mark);
	}
}

/* --- elements */

static void apply_preset(struct conf_reader *r, const struct conf_key *key, void *target)
{
	cJSON *value = cJSON_ParseWithOpts(key->preset, NULL, true);

	if (value == NULL)
		value = cJSON_CreateString(key->preset);
	if (value == NULL) {
		r->exhausted = true;
		return;
	}
	conf_apply_key(r, key, value, target);
	cJSON_Delete(value);
}

static void apply_presets(struct conf_reader *r, const struct conf_scope *scope, void *target)
{
	if (scope->init != NULL)
		scope->init(target);
	for (size_t i = 0; i < scope->count; i++) {
		const struct conf_key *key = &scope->keys[i];

		if (key->type == CONF_OBJECT)
			apply_presets(r, key->scope, member_of(target, key));
		else if (key->preset != NULL)
			apply_preset(r, key, target);
	}
}

static void tell_missing(struct conf_reader *r, const struct conf_scope *scope, uint64_t seen)
{
	for (size_t i = 0; i < scope->count; i++) {
		const struct conf_key *key = &scope->keys[i];

		if ((key->flags & CONF_REQUIRED) == 0 || (seen >> i & 1) != 0)
			continue;
		size_t mark = conf_reader_enter(r, key->path);

		conf_reader_fault(r, "is missing: %s", key->doc);
		conf_reader_leave(r, mark);
	}
}

static const cJSON *defaults_of(const struct conf_reader *r, const struct conf_scope *scope)
{
	return scope == &conf_scope_site     ? r->site_defaults
	       : scope == &conf_scope_origin ? r->origin_defaults
					     : NULL;
}

void conf_apply_element(struct conf_reader *r, const struct conf_scope *scope, const cJSON *value,
			void *target)
{
	const cJSON *defaults = defaults_of(r, scope);
	bool quiet = r->quiet;
	uint64_t seen = 0;

	apply_presets(r, scope, target);
	if (defaults != NULL) {
		r->quiet = true;
		conf_apply(r, scope, defaults, target, &seen);
		r->quiet = quiet;
	}
	conf_apply(r, scope, value, target, &seen);
	if (cJSON_IsObject(value))
		tell_missing(r, scope, seen);
}

static void apply_elements(struct conf_reader *r, const struct conf_key *key, const cJSON *value,
			   void *member)
{
	const struct conf_scope *scope = key->scope;
	struct slice slice = { 0 };
	size_t count = (size_t)cJSON_GetArraySize(value);
	const cJSON *child;

	slice.at = conf_reader_alloc(r, count * scope->bytes);
	cJSON_ArrayForEach(child, value)
	{
		if (r->exhausted)
			return;
		char *target = (char *)slice.at + slice.count * scope->bytes;
		size_t mark = key->type == CONF_MAP ? conf_reader_enter(r, child->string)
						    : conf_reader_enter_index(r, slice.count);

		if (key->type == CONF_MAP) {
			struct view name = conf_reader_copy(r, view_str(child->string));
			const char *wrong = key->valid(name);

			memcpy(target, &name, sizeof(name));
			if (wrong != NULL)
				conf_reader_fault(r, "the name %s", wrong);
		}
		conf_apply_element(r, scope, child, target);
		slice.count++;
		conf_reader_leave(r, mark);
	}
	memcpy(member, &slice, sizeof(slice));
}

static void apply_collection(struct conf_reader *r, const struct conf_key *key, const cJSON *value,
			     void *member)
{
	int count = cJSON_GetArraySize(value);

	if (key->type == CONF_MAP ? !cJSON_IsObject(value) : !cJSON_IsArray(value))
		conf_reader_fault(r, key->type == CONF_MAP ? "must be an object: {…}"
							   : "must be a list of objects: [{…}]");
	else if (count < key->min)
		conf_reader_fault(r, "must not be empty");
	else if (count > key->max)
		conf_reader_fault(r, "has %d elements, at most %d are allowed", count, (int)key->max);
	else
		apply_elements(r, key, value, member);
}

static bool allowed_here(struct conf_reader *r, const struct conf_key *key)
{
	bool in_defaults = strncmp(r->at, "/defaults/", 10) == 0;

	if (key->type == CONF_LATER)
		conf_reader_fault(r, "not supported by this version yet");
	else if ((key->flags & CONF_OWN) != 0 && in_defaults)
		conf_reader_fault(r, "has no place in \"defaults\": it says which one it is");
	else if ((key->flags & CONF_RULE_ONLY) != 0 && !r->in_rule)
		conf_reader_fault(r, "only a rule's \"cache\" may set it");
	else
		return true;
	return false;
}

void conf_apply_key(struct conf_reader *r, const struct conf_key *key, const cJSON *value, void *target)
{
	void *member = member_of(target, key);
	uint64_t seen = 0;

	if (!allowed_here(r, key))
		return;
	switch (key->type) {
	case CONF_OBJECT:
		conf_apply(r, key->scope, value, member, &seen);
		break;
	case CONF_ARRAY:
	case CONF_MAP:
		apply_collection(r, key, value, member);
		break;
	case CONF_SPECIAL:
		key->read(r, value, member);
		break;
	default:
		conf_member_apply(r, key, value, member);
	}
}

/* --- the reader */

void conf_reader_fault(struct conf_reader *r, const char *format, ...)
{
	va_list args;

	if (r->quiet)
		return;
	va_start(args, format);
	conf_vfault_at(r->faults, r->places, r->at, format, args);
	va_end(args);
}

size_t conf_reader_enter(struct conf_reader *r, const char *segment)
{
	size_t mark = strlen(r->at);

	conf_pointer_add(r->at, segment);
	return mark;
}

size_t conf_reader_enter_index(struct conf_reader *r, size_t index)
{
	char number[24];

	snprintf(number, sizeof(number), "%zu", index);
	return conf_reader_enter(r, number);
}

void conf_reader_leave(struct conf_reader *r, size_t mark)
{
	r->at[mark] = '\0';
}

void *conf_reader_alloc(struct conf_reader *r, size_t bytes)
{
	void *p = arena_zalloc(&r->conf->arena, bytes == 0 ? 1 : bytes);

	r->exhausted |= p == NULL;
	return p;
}

struct view conf_reader_copy(struct conf_reader *r, struct view v)
{
	struct view copy = arena_copy(&r->conf->arena, v);

	if (copy.p == NULL) {
		r->exhausted = true;
		return VIEW("");
	}
	return copy;
}
