/*
 * Offers are built before they are answered, so that READY means «nothing can go wrong any more»: the commit only
 * exchanges pointers. Whoever began with the old snapshot (a request) holds a reference of its own.
 */
#include "edge/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "edge/base/log.h"
#include "edge/message.h"
#include "edge/privileges.h"
#include "edge/sealed.h"

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int build(int fd, uint32_t generation, struct conf_faults *faults, struct conf **out)
{
	char *text;
	size_t bytes;
	int r = sealed_read(fd, &text, &bytes);

	if (r != 0)
		return r;
	r = conf_build(view_of(text, bytes), generation, faults, out);
	conf_text_free(text);
	if (r == 0 && conf_has_keys(*out))
		privileges_hide();
	return r;
}

int snapshot_open(struct snapshot *s, const struct process *p)
{
	struct conf_faults faults = { 0 };
	struct conf *conf;
	int r = build(p->conf_fd, p->generation, &faults, &conf);

	if (r != 0) {
		log_error("configuration_refused", "error=%d fault=\"%s\"", -r, faults.first);
		return r;
	}
	*s = (struct snapshot){ .ipc_fd = p->ipc_fd,
				.conf = conf,
				.conf_fd = p->conf_fd,
				.offered_fd = -1,
				.offered_logs = LOGS_NONE,
				.logs = LOGS_NONE };
	return 0;
}

static void forget_offer(struct snapshot *s)
{
	if (s->offered != NULL)
		conf_unref(s->offered);
	s->offered = NULL;
	close_fd(&s->offered_fd);
	logs_close(&s->offered_logs);
}

void snapshot_close(struct snapshot *s)
{
	forget_offer(s);
	logs_close(&s->logs);
	if (s->conf != NULL)
		conf_unref(s->conf);
	s->conf = NULL;
	close_fd(&s->conf_fd);
}

/* The next descriptor of the message, or -1. */
static int take_fd(struct ipc_message *m, int *at)
{
	int fd = -1;

	if (*at < m->fd_count) {
		fd = m->fds[*at];
		m->fds[*at] = -1;
		++*at;
	}
	return fd;
}

static void take_logs(struct ipc_message *m, int at, struct logs *out)
{
	struct message_logs body = { 0 };

	if (m->body_bytes == sizeof(body))
		memcpy(&body, m->body, sizeof(body));
	logs_close(out);
	if (body.access)
		out->access_fd = take_fd(m, &at);
	if (body.error)
		out->error_fd = take_fd(m, &at);
}

static void close_left(struct ipc_message *m)
{
	for (int i = 0; i < m->fd_count; i++)
		close_fd(&m->fds[i]);
	m->fd_count = 0;
}

static uint32_t generation_of(const struct ipc_message *m)
{
	struct message_generation g = { 0 };

	if (m->body_bytes >= sizeof(g))
		memcpy(&g, m->body, sizeof(g));
	return g.generation;
}

static void answer(struct snapshot *s, uint32_t type, uint32_t generation, int result, const char *fault)
{
	struct message_outcome o = { .generation = generation, .result = result };

	(void)snprintf(o.fault, sizeof(o.fault), "%s", fault);
	if (ipc_send(s->ipc_fd, type, &o, sizeof(o), NULL, 0) != 0)
		log_warn("answer_lost", "generation=%u", generation);
}

static void refuse(struct snapshot *s, uint32_t generation, int result, const char *fault)
{
	forget_offer(s);
	answer(s, MESSAGE_REFUSED, generation, result, fault);
}

void snapshot_built(struct snapshot *s, int result)
{
	uint32_t generation = s->offered->generation;

	if (result == 0)
		answer(s, MESSAGE_READY, generation, 0, "");
	else
		refuse(s, generation, result, strerror(-result));
}

static void take_offer(struct snapshot *s, const struct snapshot_user *user, struct ipc_message *m)
{
	struct conf_faults faults = { 0 };
	uint32_t generation = generation_of(m);
	int at = 0, r;

	user->offer_dropped(s);
	forget_offer(s);
	s->offered_fd = take_fd(m, &at);
	take_logs(m, at, &s->offered_logs);
	r = s->offered_fd < 0 ? -EBADF : build(s->offered_fd, generation, &faults, &s->offered);
	if (r != 0) {
		refuse(s, generation, r, faults.count > 0 ? faults.first : strerror(-r));
		return;
	}
	r = user->offer_came(s);
	if (r != -EAGAIN)
		snapshot_built(s, r);
}

static bool commit(struct snapshot *s, uint32_t generation)
{
	if (s->offered == NULL || s->offered->generation != generation)
		return false;
	conf_unref(s->conf);
	s->conf = s->offered;
	s->offered = NULL;
	close_fd(&s->conf_fd);
	s->conf_fd = s->offered_fd;
	s->offered_fd = -1;
	logs_close(&s->logs);
	s->logs = s->offered_logs;
	s->offered_logs = LOGS_NONE;
	return true;
}

static void handle(struct snapshot *s, const struct snapshot_user *user, struct ipc_message *m)
{
	switch (m->type) {
	case MESSAGE_OFFER:
		take_offer(s, user, m);
		return;
	case MESSAGE_COMMIT:
		if (commit(s, generation_of(m))) {
			user->conf_changed(s);
			user->logs_changed(s);
		}
		return;
	case MESSAGE_DROP:
		user->offer_dropped(s);
		forget_offer(s);
		return;
	case MESSAGE_LOGS:
		take_logs(m, 0, &s->logs);
		user->logs_changed(s);
		return;
	default:
		user->order(s, m);
	}
}

int snapshot_receive(struct snapshot *s, const struct snapshot_user *user)
{
	struct ipc_message m;
	int r;

	while ((r = ipc_receive(s->ipc_fd, &m)) == 1) {
		handle(s, user, &m);
		close_left(&m);
	}
	if (r == -EAGAIN)
		return 0;
	return r == 0 ? -ECONNRESET : r;
}

void snapshot_use_error_log(struct snapshot *s, int *error_fd)
{
	int old = *error_fd;

	if (s->logs.error_fd >= 0) {
		*error_fd = s->logs.error_fd;
		s->logs.error_fd = -1;
		log_to(*error_fd, s->conf->error_level);
		close_fd(&old);
		return;
	}
	log_level_set(s->conf->error_level);
}
