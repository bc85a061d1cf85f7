/* Cache groups. A list that holds anything but Strings is refused as a whole, before any group is
 * told. */
#include "edge/http/cache_groups.h"

#include <errno.h>

int http_groups(const struct http_fields *f, enum http_field_id id, struct sf_cursor *out)
{
	const struct http_field *first = http_fields_first(f, id);
	struct sf_cursor begin, c;
	struct sf_member m;

	if (first == NULL)
		return -ENOENT;
	int rc = sf_list(f, first->name, &begin);
	if (rc < 0)
		return rc;
	c = begin;
	while (sf_next(&c, &m)) {
		if (m.value.type != SF_STRING)
			return -EINVAL;
	}
	*out = begin;
	return 0;
}

bool http_groups_next(struct sf_cursor *c, struct view *out_group)
{
	struct sf_member m;

	if (!sf_next(c, &m))
		return false;
	*out_group = m.value.text;
	return true;
}
