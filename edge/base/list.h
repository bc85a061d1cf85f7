/* A doubly linked ring; the head is a link like any other. Embedded in what it links. */
#ifndef BRIM_BASE_LIST_H
#define BRIM_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "edge/base/check.h"

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *head)
{
	head->next = head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

static inline bool list_linked(const struct list *link)
{
	return link->next != NULL && link->next != link;
}

static inline void list_append(struct list *head, struct list *link)
{
	link->prev = head->prev;
	link->next = head;
	head->prev->next = link;
	head->prev = link;
}

static inline void list_prepend(struct list *head, struct list *link)
{
	list_append(head->next, link);
}

/* Safe on a link that is in no list, if it was initialised or zeroed. */
static inline void list_remove(struct list *link)
{
	if (link->next != NULL) {
		link->prev->next = link->next;
		link->next->prev = link->prev;
	}
	list_init(link);
}

#define LIST_ENTRY(link, type, member) CONTAINER_OF(link, type, member)
/* The body may remove the current entry. */
#define LIST_EACH(head, at, following)                                            \
	for (struct list *at = (head)->next, *following = at->next; at != (head); \
	     at = following, following = at->next)

#endif
