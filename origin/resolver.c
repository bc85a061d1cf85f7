/*
 * The keeper's side of names: each server's name is looked up by getaddrinfo in a thread, again and
 * again, and the addresses go to shared memory, where workers find them. getaddrinfo blocks for as long
 * as it likes, so at most two lookups run at a time: the threads are also the store's.
 *
 * A name that stops resolving keeps its last addresses: an outage of DNS is not one of the origin.
 * Failures are retried after 1 s, then twice as long each time, up to the interval.
 *
 * Lifetime of a name: resolver_use → idle (timer set) ⇄ queued → looking up → idle …; let go by the
 * next resolver_use, or, if a thread is looking it up, when that is done.
 */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>

#include "edge/base/list.h"
#include "edge/base/loop.h"
#include "origin/fetch.h"
#include "origin/shared.h"

enum { NAME_MAGIC = 0x6e616d65, LOOKUPS_MAX = 2, RETRY_FIRST_MS = 1000, HOST_MAX = 255 };

struct resolver {
	struct origin_shared *shared;
	struct loop *loop;
	struct conf *conf;
	struct list names, queue;
	unsigned lookups; /* in threads, also for names let go since; they keep this struct alive */
	bool closed;
};

struct name {
	uint32_t magic;
	struct resolver *resolver;
	struct list link, queue_link;
	struct timer timer;
	struct work work;
	bool looking_up, let_go;
	bool known; /* it resolved before */
	unsigned server_slot;
	uint64_t identity, interval_ms, retry_ms;
	char host[HOST_MAX + 1];
	uint16_t port;
	int result; /* of getaddrinfo; written by the thread */
	struct shared_addresses found;
};

static void add_name(struct resolver *r, const struct conf_origin *o, const struct conf_server *server);
static void drop_names(struct resolver *r);
static void free_name(struct name *n);
static void on_due(struct timer *t);
static void look_up_more(struct resolver *r);
static void look_up(struct work *w);
static void looked_up(struct work *w);
static void publish(struct name *n);
static void take_addresses(struct name *n, const struct addrinfo *list);

int resolver_new(struct origin_shared *s, struct loop *l, struct resolver **out)
{
	struct resolver *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return -ENOMEM;
	r->shared = s;
	r->loop = l;
	list_init(&r->names);
	list_init(&r->queue);
	*out = r;
	return 0;
}

void resolver_use(struct resolver *r, struct conf *conf)
{
	struct conf *before = r->conf;

	drop_names(r);
	r->conf = conf_ref(conf);
	if (before != NULL)
		conf_unref(before);
	for (size_t i = 0; i < conf->origin_count; i++) {
		const struct conf_origin *o = &conf->origins[i];
		for (size_t j = 0; j < o->server_count; j++) {
			if (!o->servers[j].literal)
				add_name(r, o, &o->servers[j]);
		}
	}
	look_up_more(r);
}

void resolver_free(struct resolver *r)
{
	if (r == NULL)
		return;
	drop_names(r);
	if (r->conf != NULL)
		conf_unref(r->conf);
	r->closed = true;
	if (r->lookups == 0)
		free(r);
}

/* A name for which there is no memory stays as it is in shared memory until the next reload. */
static void add_name(struct resolver *r, const struct conf_origin *o, const struct conf_server *server)
{
	struct name *n = calloc(1, sizeof(*n));
	struct shared_addresses now;

	if (n == NULL || server->host.n > HOST_MAX || timer_open(&n->timer, r->loop, on_due) != 0) {
		free(n);
		return;
	}
	shared_lookup(r->shared, server, &now);
	n->magic = NAME_MAGIC;
	n->resolver = r;
	n->server_slot = server->slot;
	n->identity = shared_identity(server);
	n->interval_ms = o->resolve_interval_ms;
	n->retry_ms = RETRY_FIRST_MS;
	n->known = now.state == SHARED_RESOLVED;
	memcpy(n->host, server->host.p, server->host.n);
	n->port = server->port;
	list_append(&r->names, &n->link);
	list_append(&r->queue, &n->queue_link);
}

static void drop_names(struct resolver *r)
{
	LIST_EACH (&r->names, at, following) {
		struct name *n = LIST_ENTRY(at, struct name, link);
		list_remove(&n->link);
		list_remove(&n->queue_link);
		timer_close(&n->timer);
		n->let_go = true;
		if (!n->looking_up)
			free_name(n);
	}
}

static void free_name(struct name *n)
{
	n->magic = 0;
	free(n);
}

static void on_due(struct timer *t)
{
	struct name *n = CONTAINER_OF(t, struct name, timer);

	CHECK_MAGIC(n, NAME_MAGIC);
	list_append(&n->resolver->queue, &n->queue_link);
	look_up_more(n->resolver);
}

static void look_up_more(struct resolver *r)
{
	while (r->lookups < LOOKUPS_MAX && !list_empty(&r->queue)) {
		struct name *n = LIST_ENTRY(r->queue.next, struct name, queue_link);
		list_remove(&n->queue_link);
		if (work_submit(&n->work, r->loop, look_up, looked_up) != 0) {
			timer_set(&n->timer, RETRY_FIRST_MS);
			continue;
		}
		n->looking_up = true;
		r->lookups++;
	}
}

/* In a thread: touches the name's own host, result and found alone. */
static void look_up(struct work *w)
{
	struct name *n = CONTAINER_OF(w, struct name, work);
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;

	n->result = getaddrinfo(n->host, NULL, &hints, &list);
	if (n->result != 0)
		return;
	take_addresses(n, list);
	freeaddrinfo(list);
	if (n->found.count == 0)
		n->result = EAI_NONAME;
}

static void looked_up(struct work *w)
{
	struct name *n = CONTAINER_OF(w, struct name, work);
	struct resolver *r = n->resolver;

	CHECK_MAGIC(n, NAME_MAGIC);
	n->looking_up = false;
	r->lookups--;
	if (n->let_go)
		free_name(n);
	else
		publish(n);
	if (!r->closed)
		look_up_more(r);
	else if (r->lookups == 0)
		free(r);
}

static void publish(struct name *n)
{
	uint64_t again_ms = n->interval_ms;

	if (n->result == 0) {
		n->known = true;
		n->retry_ms = RETRY_FIRST_MS;
		n->found.state = SHARED_RESOLVED;
	} else {
		again_ms = n->retry_ms < n->interval_ms ? n->retry_ms : n->interval_ms;
		n->retry_ms *= 2;
		n->found.count = 0;
		n->found.state = n->result == EAI_AGAIN ? SHARED_NO_ANSWER : SHARED_NO_SUCH_NAME;
	}
	n->found.identity = n->identity;
	if (n->result == 0 || !n->known)
		shared_publish(n->resolver->shared, n->server_slot, &n->found);
	timer_set(&n->timer, again_ms);
}

static void take_addresses(struct name *n, const struct addrinfo *list)
{
	n->found = (struct shared_addresses){ 0 };
	for (; list != NULL && n->found.count < SHARED_ADDRESSES_MAX; list = list->ai_next) {
		struct sock_addr *a = &n->found.at[n->found.count];
		if (list->ai_family != AF_INET && list->ai_family != AF_INET6)
			continue;
		memcpy(&a->any, list->ai_addr, list->ai_addrlen);
		a->len = list->ai_addrlen;
		if (list->ai_family == AF_INET)
			a->v4.sin_port = htons(n->port);
		else
			a->v6.sin6_port = htons(n->port);
		n->found.count++;
	}
}
