/*
 * The certificates of the snapshot before, by their text: what a reload didn't change is not read again. Sorted by key text
 * (random from its first line on) and certificate, and gone when the new tls_server is complete.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "edge/tls_server_parts.h"

static int compare_text(struct view a, struct view b)
{
	int r = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);

	return r != 0 ? r : (a.n > b.n) - (a.n < b.n);
}

static int compare_source(const struct conf_certificate *a, const struct conf_certificate *b)
{
	int r = compare_text(a->key, b->key);

	return r != 0 ? r : compare_text(a->certificate, b->certificate);
}

static int compare(const void *a, const void *b)
{
	const struct tls_certificate *const *x = a, *const *y = b;

	return compare_source((*x)->source, (*y)->source);
}

static int compare_wanted(const void *wanted, const void *at)
{
	const struct tls_certificate *const *known = at;

	return compare_source(wanted, (*known)->source);
}

static size_t count_all(const struct tls_server *s)
{
	size_t count = 0;

	for (size_t i = 0; i < s->conf->site_count; i++)
		count += s->policies[i].served.count;
	for (size_t i = 0; i < s->directory_count; i++)
		count += s->directory[i].count;
	return count;
}

static void add(struct tls_known *k, const struct tls_served *served)
{
	for (size_t i = 0; i < served->count; i++)
		k->at[k->count++] = &served->certificates[i];
}

int tls_known_init(struct tls_known *k, const struct tls_server *s)
{
	*k = (struct tls_known){ .at = calloc(count_all(s) + 1, sizeof(*k->at)) };
	if (k->at == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < s->conf->site_count; i++)
		add(k, &s->policies[i].served);
	for (size_t i = 0; i < s->directory_count; i++)
		add(k, &s->directory[i]);
	qsort(k->at, k->count, sizeof(*k->at), compare);
	return 0;
}

const struct tls_certificate *tls_known_find(const struct tls_known *k, const struct conf_certificate *c)
{
	const struct tls_certificate **found =
		k->count == 0 ? NULL : bsearch(c, k->at, k->count, sizeof(*k->at), compare_wanted);

	return found != NULL ? *found : NULL;
}

void tls_known_fini(struct tls_known *k)
{
	free(k->at);
	*k = (struct tls_known){ 0 };
}
