/*
 * What a reload can't change: sockets, processes and stores are made once, by the master.
 * Everything else is in the snapshot and changes with it.
 */
#include <errno.h>

#include "conf/fault.h"

static void tell(struct conf_faults *faults, const char *pointer)
{
	conf_fault(faults, pointer, "a reload can't change it: restart the node");
}

static bool same_listeners(const struct conf *a, const struct conf *b)
{
	if (a->listener_count != b->listener_count)
		return false;
	for (size_t i = 0; i < a->listener_count; i++) {
		if (!view_eq(a->listeners[i].text, b->listeners[i].text))
			return false;
	}
	return true;
}

static bool same_stores(const struct conf *a, const struct conf *b)
{
	if (a->store_count != b->store_count)
		return false;
	for (size_t i = 0; i < a->store_count; i++) {
		const struct conf_store *x = &a->stores[i], *y = &b->stores[i];

		if (!view_eq(x->name, y->name) || !view_eq(x->path, y->path) ||
		    x->size_bytes != y->size_bytes)
			return false;
	}
	return true;
}

static bool same_strings(const struct conf_list *a, const struct conf_list *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		if (!view_eq(a->at[i], b->at[i]))
			return false;
	}
	return true;
}

int conf_reloadable(const struct conf *before, const struct conf *after, struct conf_faults *faults)
{
	unsigned count = faults->count;

	if (!same_listeners(before, after))
		tell(faults, "/listeners");
	if (before->workers != after->workers)
		tell(faults, "/workers");
	if (!view_eq(before->user, after->user))
		tell(faults, "/user");
	if (!same_stores(before, after))
		tell(faults, "/stores");
	if (!same_strings(&before->admin_listen, &after->admin_listen))
		tell(faults, "/admin/listen");
	if (!same_strings(&before->metrics_listen, &after->metrics_listen))
		tell(faults, "/admin/metrics_listen");
	if (before->admin_socket_mode != after->admin_socket_mode)
		tell(faults, "/admin/socket_mode");
	return faults->count == count ? 0 : -EINVAL;
}
