/* Strict reading on top of cJSON, which itself keeps duplicates and looks at no UTF-8. See admin_json.h. */
#include "edge/admin_json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>

enum { VALUES_MAX = 1 << 16 };

static int fault(struct admin_fault *f, const char *pointer, const char *message)
{
	(void)snprintf(f->pointer, sizeof(f->pointer), "%s", pointer);
	(void)snprintf(f->message, sizeof(f->message), "%s", message);
	return -EINVAL;
}

static int fault_at(struct admin_fault *f, const char *key, const char *message)
{
	char pointer[ADMIN_POINTER_MAX];
	size_t n = 0;

	pointer[n++] = '/';
	for (const char *p = key; *p != '\0' && n < sizeof(pointer) - 3; p++) { /* RFC 6901 */
		if (*p == '~' || *p == '/') {
			pointer[n++] = '~';
			pointer[n++] = *p == '~' ? '0' : '1';
		} else {
			pointer[n++] = *p;
		}
	}
	pointer[n] = '\0';
	return fault(f, pointer, message);
}

/* How many bytes the character at p has; 0: broken (overlong forms and surrogates too). */
static size_t utf8_length(const unsigned char *p, size_t left)
{
	size_t n = p[0] < 0x80	 ? 1
		   : p[0] < 0xc2 ? 0
		   : p[0] < 0xe0 ? 2
		   : p[0] < 0xf0 ? 3
		   : p[0] < 0xf5 ? 4
				 : 0;

	if (n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static bool utf8_valid(struct view v)
{
	for (size_t i = 0; i < v.n;) {
		size_t n = utf8_length((const unsigned char *)v.p + i, v.n - i);

		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

const char *admin_json_text(struct view bytes, struct arena *a)
{
	char *text;
	size_t n = 0;

	if (utf8_valid(bytes))
		return arena_copy(a, bytes).p;
	text = arena_alloc(a, 2 * bytes.n + 1);
	for (size_t i = 0; text != NULL && i < bytes.n; i++) {
		unsigned char c = (unsigned char)bytes.p[i];

		if (c >= 0x80)
			text[n++] = (char)(0xc0 | c >> 6);
		text[n++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
	}
	if (text != NULL)
		text[n] = '\0';
	return text;
}

/* Quadratic, for objects that have a handful of keys or are refused as unknown anyway. */
static const cJSON *duplicate(const cJSON *object)
{
	enum { KEYS_MAX = 64 };
	unsigned count = 0;
	const cJSON *member;

	cJSON_ArrayForEach(member, object)
	{
		if (count++ == KEYS_MAX)
			return member;
		for (const cJSON *before = object->child; before != member; before = before->next) {
			if (strcmp(before->string, member->string) == 0)
				return member;
		}
	}
	return NULL;
}

static int check_object(const cJSON *tree, struct admin_fault *out_fault)
{
	const cJSON *twice;

	if (!cJSON_IsObject(tree))
		return fault(out_fault, "", "must be an object");
	twice = duplicate(tree);
	return twice != NULL ? fault_at(out_fault, twice->string, "is given twice") : 0;
}

/* In a tree a value takes many times the two bytes that it may take in a text. Each but the first stands behind one of these. */
static bool has_too_many(struct view text)
{
	size_t count = 0;
	bool quoted = false;

	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];

		if (quoted && c == '\\')
			i++;
		else if (c == '"')
			quoted = !quoted;
		else if (!quoted && (c == ',' || c == '[' || c == '{'))
			count++;
	}
	return count > VALUES_MAX;
}

int admin_json_parse(struct view text, struct cJSON **out, struct admin_fault *out_fault)
{
	const char *end = NULL;
	cJSON *tree;
	int r;

	if (!utf8_valid(text))
		return fault(out_fault, "", "not UTF-8");
	if (has_too_many(text))
		return fault(out_fault, "", "has more than 65536 values");
	tree = cJSON_ParseWithLengthOpts(text.p, text.n, &end, false);
	if (tree == NULL)
		return fault(out_fault, "", "not JSON");
	for (; end < text.p + text.n; end++) {
		if (memchr(" \t\r\n", *end, 4) == NULL) {
			cJSON_Delete(tree);
			return fault(out_fault, "", "more than one value");
		}
	}
	r = check_object(tree, out_fault);
	if (r != 0) {
		cJSON_Delete(tree);
		return r;
	}
	*out = tree;
	return 0;
}

int admin_json_only(const struct cJSON *object, const char *const *known, struct admin_fault *out_fault)
{
	const cJSON *member;

	cJSON_ArrayForEach(member, object)
	{
		const char *const *k = known;

		while (*k != NULL && strcmp(*k, member->string) != 0)
			k++;
		if (*k == NULL)
			return fault_at(out_fault, member->string, "unknown key");
	}
	return 0;
}

int admin_json_strings(const struct cJSON *object, const char *key, const struct cJSON **out,
		       struct admin_fault *out_fault)
{
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, key), *element;
	char pointer[ADMIN_POINTER_MAX];
	unsigned index = 0;

	if (list != NULL && !cJSON_IsArray(list))
		return fault_at(out_fault, key, "must be a list of strings");
	cJSON_ArrayForEach(element, list)
	{
		if (!cJSON_IsString(element)) {
			(void)snprintf(pointer, sizeof(pointer), "/%s/%u", key, index);
			return fault(out_fault, pointer, "must be a string");
		}
		index++;
	}
	*out = list;
	return 0;
}

int admin_json_bool(const struct cJSON *object, const char *key, bool *out, struct admin_fault *out_fault)
{
	const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);

	if (value != NULL && !cJSON_IsBool(value))
		return fault_at(out_fault, key, "must be true or false");
	*out = cJSON_IsTrue(value);
	return 0;
}

const char *admin_json_library(void)
{
	return cJSON_Version();
}
