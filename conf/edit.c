/*
 * Head edits of several rules. Rules are applied in order, each on what the one before left; the
 * list that comes of it is short, so that whoever writes a head needs no order: hide the names,
 * then put the values.
 */
#include "conf/conf.h"

/* A SET or REMOVE takes what earlier edits did to its name. */
static size_t add_edit(const struct conf_edit **edits, size_t count, const struct conf_edit *edit)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (edit->kind == CONF_EDIT_ADD || !view_eq_nocase(edits[i]->name, edit->name))
			edits[kept++] = edits[i];
	}
	CHECK(kept < CONF_EDITS_MAX);
	edits[kept++] = edit;
	return kept;
}

static size_t add_edits(const struct conf_edit **out, size_t count, const struct conf_edits *edits)
{
	for (size_t i = 0; i < edits->count; i++)
		count = add_edit(out, count, &edits->at[i]);
	return count;
}

size_t conf_request_edits(const struct conf_site *s, const struct conf_ruling *ruling,
			  const struct conf_edit *out[CONF_EDITS_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < s->rule_count; i++) {
		if ((ruling->asked[i / 64] >> i % 64 & 1) != 0)
			count = add_edits(out, count, &s->rules[i].request_edits);
	}
	return count;
}

size_t conf_response_edits(const struct conf_site *s, const struct conf_ruling *ruling,
			   const struct conf_edit *out[CONF_EDITS_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < s->rule_count; i++) {
		if ((ruling->answered[i / 64] >> i % 64 & 1) != 0)
			count = add_edits(out, count, &s->rules[i].response_edits);
	}
	return count;
}

bool conf_edits_hide(const struct conf_edit *const *edits, size_t count, struct view name)
{
	for (size_t i = 0; i < count; i++) {
		if (edits[i]->kind != CONF_EDIT_ADD && view_eq_nocase(edits[i]->name, name))
			return true;
	}
	return false;
}
