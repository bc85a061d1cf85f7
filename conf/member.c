/*
 * Plain members: numbers, words, strings and lists of them. Each is stored with the width that
 * the table took from the struct, so that a member's type and its key cannot drift apart.
 */
#include "conf/member.h"

#include <cjson/cJSON.h>
#include <errno.h>

#include "conf/value.h"

static bool in_range(struct conf_reader *r, const struct conf_key *key, uint64_t number)
{
	char text[CONF_NUMBER_TEXT];

	if (number < (uint64_t)key->min) {
		conf_reader_fault(r, "must be at least %s", conf_key_number(key, key->min, text));
		return false;
	}
	if (key->max > 0 && number > (uint64_t)key->max) {
		conf_reader_fault(r, "must be at most %s", conf_key_number(key, key->max, text));
		return false;
	}
	return true;
}

/* The table says which member; its width is the member's. */
static void store_number(void *member, uint16_t bytes, uint64_t number)
{
	uint8_t n8 = (uint8_t)number;
	uint16_t n16 = (uint16_t)number;
	uint32_t n32 = (uint32_t)number;

	CHECK(bytes == 8 || number >> (8 * bytes) == 0);
	memcpy(member,
	       bytes == 1   ? (void *)&n8
	       : bytes == 2 ? (void *)&n16
	       : bytes == 4 ? (void *)&n32
			    : (void *)&number,
	       bytes);
}

static bool whole_number(const cJSON *value, double most)
{
	return value->valuedouble >= 0 && value->valuedouble <= most &&
	       value->valuedouble == (double)(uint64_t)value->valuedouble;
}

static void apply_count(struct conf_reader *r, const struct conf_key *key, const cJSON *value,
			void *member)
{
	if (!cJSON_IsNumber(value) || !whole_number(value, 0x1p53)) {
		conf_reader_fault(r, "must be a whole number");
		return;
	}
	if (in_range(r, key, (uint64_t)value->valuedouble))
		store_number(member, key->bytes, (uint64_t)value->valuedouble);
}

static void apply_size(struct conf_reader *r, const struct conf_key *key, const cJSON *value, void *member)
{
	uint64_t bytes = 0;
	int err = -EINVAL;

	if (cJSON_IsString(value))
		err = conf_value_size(view_str(value->valuestring), &bytes);
	if (cJSON_IsNumber(value) && whole_number(value, 0x1p53)) {
		bytes = (uint64_t)value->valuedouble;
		err = 0;
	}
	if (err == -ERANGE)
		conf_reader_fault(r, "is too large a number");
	else if (err < 0)
		conf_reader_fault(r, "must be a size like \"64KiB\", \"10GiB\", \"1GB\", or bytes");
	else if (in_range(r, key, bytes))
		store_number(member, key->bytes, bytes);
}

static void apply_duration(struct conf_reader *r, const struct conf_key *key, const cJSON *value,
			   void *member)
{
	int64_t ms = 0;
	int err = -EINVAL;

	if (cJSON_IsNull(value) && (key->flags & CONF_NULL) != 0) {
		store_number(member, key->bytes, UINT64_MAX);
		return;
	}
	if (cJSON_IsString(value))
		err = conf_value_duration(view_str(value->valuestring), &ms);
	if (cJSON_IsNumber(value) && value->valuedouble >= 0 && value->valuedouble <= 0x1p40) {
		ms = (int64_t)(value->valuedouble * 1000 + 0.5);
		err = 0;
	}
	if (err == -ERANGE)
		conf_reader_fault(r, "is too large a number");
	else if (err < 0)
		conf_reader_fault(r, "must be a duration like \"250ms\", \"10s\", \"5m\", \"1h\", "
				     "\"30d\", or seconds");
	else if (in_range(r, key, (uint64_t)ms))
		store_number(member, key->bytes, (uint64_t)ms);
}

static void apply_bool(struct conf_reader *r, const cJSON *value, bool *member)
{
	if (!cJSON_IsBool(value)) {
		conf_reader_fault(r, "must be true or false");
		return;
	}
	*member = cJSON_IsTrue(value);
}

static void apply_choice(struct conf_reader *r, const struct conf_key *key, const cJSON *value,
			 void *member)
{
	char list[128] = "";
	size_t n = 0;

	for (unsigned i = 0; key->words[i] != NULL; i++) {
		if (cJSON_IsString(value) && strcmp(value->valuestring, key->words[i]) == 0) {
			if (key->bytes > 0)
				store_number(member, key->bytes, i);
			return;
		}
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s\"%s\"", i == 0 ? "" : ", ",
				      key->words[i]);
	}
	conf_reader_fault(r, key->words[1] == NULL ? "must be %s" : "must be one of %s", list);
}

static bool good_string(struct conf_reader *r, const struct conf_key *key, const cJSON *value)
{
	const char *wrong = NULL;

	if (!cJSON_IsString(value))
		wrong = "must be a string";
	else if (value->valuestring[0] == '\0')
		wrong = (key->flags & CONF_NULL) == 0 ? "must not be empty" : NULL;
	else if (key->valid != NULL)
		wrong = key->valid(view_str(value->valuestring));
	if (wrong != NULL)
		conf_reader_fault(r, "%s", wrong);
	return wrong == NULL;
}

static void apply_string(struct conf_reader *r, const struct conf_key *key, const cJSON *value,
			 struct view *member)
{
	if (cJSON_IsNull(value) && (key->flags & CONF_NULL) != 0)
		*member = VIEW("");
	else if (good_string(r, key, value))
		*member = conf_reader_copy(r, view_str(value->valuestring));
}

/* Calls one() for each element of a list, or for a single string, with the pointer there. */
static size_t each_string(struct conf_reader *r, const struct conf_key *key, const cJSON *value,
			  void *to,
			  bool (*one)(struct conf_reader *r, const struct conf_key *key,
				      const cJSON *element, void *to, size_t at))
{
	size_t count = 0, index = 0;
	const cJSON *element;

	if (cJSON_IsString(value))
		return one(r, key, value, to, 0) ? 1 : 0;
	cJSON_ArrayForEach(element, value)
	{
		size_t mark = conf_reader_enter_index(r, index++);

		count += one(r, key, element, to, count) ? 1 : 0;
		conf_reader_leave(r, mark);
	}
	return count;
}

static bool good_list(struct conf_reader *r, const struct conf_key *key, const cJSON *value)
{
	int count = cJSON_IsString(value) ? 1 : cJSON_GetArraySize(value);
	int most = key->max > 0 ? (int)key->max : CONF_LIST_MAX;

	if (!cJSON_IsArray(value) && !cJSON_IsString(value))
		conf_reader_fault(r, "must be a list: […]");
	else if (count < key->min)
		conf_reader_fault(r, "must not be empty");
	else if (count > most)
		conf_reader_fault(r, "has %d elements, at most %d are allowed", count, most);
	else
		return true;
	return false;
}

static bool string_element(struct conf_reader *r, const struct conf_key *key, const cJSON *element,
			   void *to, size_t at)
{
	struct view *strings = to;

	if (!good_string(r, key, element))
		return false;
	strings[at] = conf_reader_copy(r, view_str(element->valuestring));
	for (size_t i = 0; i < at; i++) {
		if (view_eq(strings[i], strings[at])) {
			conf_reader_fault(r, "\"%s\" is there twice", element->valuestring);
			return false;
		}
	}
	return true;
}

static void apply_strings(struct conf_reader *r, const struct conf_key *key, const cJSON *value,
			  struct conf_list *member)
{
	if (!good_list(r, key, value))
		return;
	size_t room = cJSON_IsString(value) ? 1 : (size_t)cJSON_GetArraySize(value);
	struct view *at = conf_reader_alloc(r, room * sizeof(*at));

	if (at != NULL)
		*member = (struct conf_list){ at, each_string(r, key, value, at, string_element) };
}

static bool net_element(struct conf_reader *r, const struct conf_key *key, const cJSON *element,
			void *to, size_t at)
{
	struct sock_net *nets = to;

	if (!good_string(r, key, element))
		return false;
	if (sock_net_parse(view_str(element->valuestring), &nets[at]) == 0)
		return true;
	conf_reader_fault(r, "must be an address or a network like \"10.0.0.0/8\" or \"::1\", "
			     "without bits beyond its mask");
	return false;
}

static void apply_nets(struct conf_reader *r, const struct conf_key *key, const cJSON *value,
		       struct conf_nets *member)
{
	if (!good_list(r, key, value))
		return;
	size_t room = cJSON_IsString(value) ? 1 : (size_t)cJSON_GetArraySize(value);
	struct sock_net *at = conf_reader_alloc(r, room * sizeof(*at));

	if (at != NULL)
		*member = (struct conf_nets){ at, each_string(r, key, value, at, net_element) };
}

void conf_member_apply(struct conf_reader *r, const struct conf_key *key, const cJSON *value, void *member)
{
	switch (key->type) {
	case CONF_STRING:
		apply_string(r, key, value, member);
		break;
	case CONF_STRINGS:
		apply_strings(r, key, value, member);
		break;
	case CONF_NETS:
		apply_nets(r, key, value, member);
		break;
	case CONF_BOOL:
		apply_bool(r, value, member);
		break;
	case CONF_COUNT:
		apply_count(r, key, value, member);
		break;
	case CONF_SIZE:
		apply_size(r, key, value, member);
		break;
	case CONF_DURATION:
		apply_duration(r, key, value, member);
		break;
	case CONF_CHOICE:
		apply_choice(r, key, value, member);
		break;
	default:
		CHECK(!"a type that holds no plain value");
	}
}
