/*
 * nghttp2's callbacks: what the client's frames mean. Streams begin and end here; a request begins when its head is whole.
 *
 * A callback only notes and wakes: no request runs and nothing is sent from within the session. A limit that is exceeded is
 * noted, too, and the machine says goodbye when the session has returned.
 */
#include <errno.h>
#include <stdlib.h>

#include "edge/base/log.h"
#include "edge/h2.h"
#include "edge/request.h"

enum {
	OUTBOUND_ACKS = 100,
	ANSWER_HEAD_BYTES = 4 << 20, /* more than an origin's may have */
	OUTBOUND_FRAMES = 512,	     /* that wait for the socket; each costs some 200 bytes */
	HEADER_LIST_TIMES = 4,	     /* so many times what is allowed: no honest client's */
	SMALL_UPDATE = 256,	     /* a WINDOW_UPDATE of less is work and nothing else */
	KEPT_STREAMS = 256,
	KEPT_HEAD_BYTES = 16 << 10,
	KEPT_BLOCK_BYTES = 2 << 10,
};

struct h2_stream *h2_stream_of(nghttp2_session *session, int32_t id)
{
	struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id);

	if (s != NULL)
		CHECK_MAGIC(s, H2_STREAM_MAGIC);
	return s;
}

static void exceed(struct h2 *h, enum h2_limit limit)
{
	if (!h->exceeded)
		h->limit = limit;
	h->exceeded = true;
}

static void count(struct h2 *h, struct h2_meter *m, enum h2_limit limit)
{
	if (!h2_meter_count(m, loop_now(h->w->loop)))
		exceed(h, limit);
}

/* --- a stream's memory ---------------------------------------------------------------------------- */

static struct h2_stream *take_stream(struct worker *w)
{
	struct h2_stream *s = w->free_streams;
	struct h2_block kept;

	if (s == NULL)
		return calloc(1, sizeof(*s));
	w->free_streams = s->next_free;
	w->free_stream_count--;
	kept = s->block;
	*s = (struct h2_stream){ .block = kept };
	return s;
}

static void give_stream(struct worker *w, struct h2_stream *s)
{
	s->magic = 0;
	if (w->free_stream_count == KEPT_STREAMS || s->block.capacity > KEPT_BLOCK_BYTES) {
		h2_block_free(&s->block);
		free(s);
		return;
	}
	s->next_free = w->free_streams;
	w->free_streams = s;
	w->free_stream_count++;
}

static void free_head(struct h2_head *head)
{
	if (head == NULL)
		return;
	h2_head_free(head);
	free(head);
}

/* Most heads are whole when they come: one for all connections is enough for those. */
static int head_begin(struct h2 *h)
{
	if (h->head == NULL) {
		h->head = h->w->free_head;
		h->w->free_head = NULL;
	}
	if (h->head == NULL)
		h->head = calloc(1, sizeof(*h->head));
	if (h->head == NULL)
		return -ENOMEM;
	h2_head_begin(h->head, &h->limits);
	return 0;
}

void h2_session_head_over(struct h2 *h)
{
	struct h2_head *head = h->head;

	h->head = NULL;
	if (head == NULL)
		return;
	if (h->w->free_head != NULL || h2_head_bytes(head) > KEPT_HEAD_BYTES)
		free_head(head);
	else
		h->w->free_head = head;
}

void h2_free_kept(struct worker *w)
{
	while (w->free_streams != NULL) {
		struct h2_stream *s = w->free_streams;

		w->free_streams = s->next_free;
		h2_block_free(&s->block);
		free(s);
	}
	w->free_stream_count = 0;
	free_head(w->free_head);
	w->free_head = NULL;
}

static struct h2_stream *stream_new(struct h2 *h, int32_t id)
{
	struct h2_stream *s = take_stream(h->w);

	if (s == NULL)
		return NULL;
	s->magic = H2_STREAM_MAGIC;
	s->id = id;
	s->h = h;
	s->over = true;
	s->priority.urgency = H2_URGENCY_DEFAULT;
	list_append(&h->streams, &s->link);
	h->stream_count++;
	stats_add(&h->w->stats->gauges.h2_streams, 1);
	return s;
}

void h2_stream_release(struct h2_stream *s)
{
	struct h2 *h = s->h;

	if (!s->closed || !s->over)
		return;
	h2_send_forget(s);
	h2_bytes_free(&s->body);
	h2_memory_forget(s);
	list_remove(&s->link);
	h->stream_count--;
	h->lingering -= s->lingers;
	give_stream(h->w, s);
}

void h2_session_lost(struct h2 *h)
{
	h->lost = true;
	LIST_EACH (&h->streams, at, next) {
		struct h2_stream *s = LIST_ENTRY(at, struct h2_stream, link);

		if (!s->closed)
			(void)nghttp2_session_set_stream_user_data(h->session, s->id, NULL);
		s->closed = true;
		if (!s->over)
			h2_exchange_gone(s);
		h2_stream_release(s);
	}
}

/* --- heads ------------------------------------------------------------------------------------------- */

/* The stream ends with this code, and what more of the frame comes is not looked at. */
static int refuse(struct h2 *h, int32_t id, uint32_t code)
{
	h2_session_head_over(h);
	if (nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, id, code) != 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* Requests outlive streams that the client resets: together they may be twice as many as streams. */
static bool too_many(const struct h2 *h)
{
	uint32_t streams = nghttp2_session_get_local_settings(
		h->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	return h->stream_count / 2 >= streams;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2 *h = h2_of(user);
	struct h2_stream *s;

	if (head_begin(h) != 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	if (too_many(h) || !h2_memory_admits(h))
		return refuse(h, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
	s = stream_new(h, frame->hd.stream_id);
	if (s == NULL || nghttp2_session_set_stream_user_data(session, s->id, s) != 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	return 0;
}

/* Trailers are only counted: as on HTTP/1, nothing is made of them. */
static int add_field(struct h2_stream *s, const nghttp2_frame *frame, struct view name, struct view value)
{
	if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		return h2_head_add(s->h->head, name, value);
	s->h->head->list_bytes += name.n + value.n;
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags,
		     void *user)
{
	struct h2 *h = h2_of(user);
	struct h2_stream *s = h2_stream_of(session, frame->hd.stream_id);
	int r;

	(void)flags;
	if (s == NULL || h->head == NULL)
		return 0;
	r = add_field(s, frame, view_of((const char *)name, name_bytes),
		      view_of((const char *)value, value_bytes));
	if (h->head->list_bytes / HEADER_LIST_TIMES > h->limits.head_bytes)
		exceed(h, H2_LIMIT_HEADER_LIST);
	if (r == 0)
		return 0;
	return refuse(h, s->id, r == -EPROTO ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_INTERNAL_ERROR);
}

static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
			     const uint8_t *name, size_t name_bytes, const uint8_t *value,
			     size_t value_bytes, uint8_t flags, void *user)
{
	(void)name;
	(void)name_bytes;
	(void)value;
	(void)value_bytes;
	(void)flags;
	(void)session;
	return refuse(h2_of(user), frame->hd.stream_id, NGHTTP2_PROTOCOL_ERROR);
}

/* RFC 9218 §7: a frame that came before the stream counts for more than its field. */
static void take_priority(struct h2_stream *s)
{
	uint16_t at = 0;
	struct h2_priority said = s->priority;
	const struct http_field *f = http_fields_find(&s->rq.fields, VIEW("priority"), &at);

	if (f != NULL)
		h2_priority_read(f->value, &said);
	for (unsigned i = 0; i < H2_FORETOLD; i++)
		if (s->h->foretold[i].id == s->id)
			said = s->h->foretold[i].priority;
	h2_send_prioritise(s, said);
}

static int begin_request(struct h2_stream *s)
{
	struct h2 *h = s->h;
	int r;

	s->over = false;
	h->served++;
	r = request_begin(h->w, &s->x, s->fault == HTTP_OK ? &s->rq : NULL, s->fault, h->listener);
	s->over = r != 0;
	if (r == 0)
		h2_memory_begun(s);
	return r;
}

/* Malformed, or no memory. */
static void give_up(struct h2_stream *s, int error)
{
	h2_exchange_reset(s, error == -EPROTO ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_INTERNAL_ERROR);
}

void h2_session_begin_held(struct h2 *h)
{
	struct h2_stream *s;
	int r;

	if (list_empty(&h->waiting))
		return;
	h2_memory_turn(h);
	while ((s = h2_memory_next(h)) != NULL) {
		r = begin_request(s);
		if (r != 0)
			give_up(s, r);
	}
}

static int read_head(struct h2_stream *s, bool ended)
{
	struct h2 *h = s->h;
	int r = h2_head_end(h->head, ended, &s->block, &s->rq, &s->fault);

	if (r != 0)
		return r;
	s->body_ended = ended;
	s->continue_due = s->fault == HTTP_OK && s->rq.expect_continue;
	if (s->fault == HTTP_OK)
		take_priority(s);
	h2_exchange_begin(s);
	return h2_memory_holds(s) ? 0 : begin_request(s);
}

static void head_ended(struct h2 *h, const nghttp2_frame *frame)
{
	struct h2_stream *s = h2_stream_of(h->session, frame->hd.stream_id);
	int r;

	if (s == NULL || s->reset || h->head == NULL || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return;
	r = read_head(s, (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0);
	if (r != 0)
		give_up(s, r);
}

/* --- bodies ------------------------------------------------------------------------------------------- */

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
		   void *user)
{
	struct h2_stream *s = h2_stream_of(session, id);

	(void)flags;
	(void)user;
	if (s != NULL && s->lingers) /* its window stays shut */
		return nghttp2_session_consume_connection(session, n) == 0
			       ? 0
			       : NGHTTP2_ERR_CALLBACK_FAILURE;
	if (s == NULL || (s->over && !list_linked(&s->held)))
		return nghttp2_session_consume(session, id, n) == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
	return h2_exchange_body(s, p, n) == 0 ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static void body_ended(struct h2 *h, const nghttp2_frame *frame)
{
	struct h2_stream *s = h2_stream_of(h->session, frame->hd.stream_id);

	if (s == NULL || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return;
	s->body_ended = true;
	if (s->x.request != NULL)
		machine_wake(s->x.request);
}

/* --- windows and priorities ------------------------------------------------------------------------------- */

static void window_opened(struct h2_stream *s)
{
	if (s == NULL || !s->window_shut)
		return;
	s->window_shut = false;
	if (s->x.request != NULL)
		machine_wake(s->x.request);
}

static void on_window_update(struct h2 *h, const nghttp2_window_update *frame)
{
	if (frame->window_size_increment < SMALL_UPDATE)
		count(h, &h->meters.controls, H2_LIMIT_CONTROLS);
	if (frame->hd.stream_id != 0)
		window_opened(h2_stream_of(h->session, frame->hd.stream_id));
}

/* SETTINGS may have changed all windows. */
static void on_settings(struct h2 *h, uint8_t flags)
{
	if (flags & NGHTTP2_FLAG_ACK)
		return;
	h->began = true;
	LIST_EACH (&h->streams, at, next)
		window_opened(LIST_ENTRY(at, struct h2_stream, link));
}

static void foretell(struct h2 *h, int32_t id, struct h2_priority said)
{
	unsigned at = h->foretold_next;

	for (unsigned i = 0; i < H2_FORETOLD; i++)
		if (h->foretold[i].id == id)
			at = i;
	if (at == h->foretold_next)
		h->foretold_next = (at + 1) % H2_FORETOLD;
	h->foretold[at] = (struct h2_foretold){ .id = id, .priority = said };
}

/* Negative: RFC 9218 §7.1, which the library leaves to us. */
static int on_priority_update(struct h2 *h, const nghttp2_extension *frame)
{
	const nghttp2_ext_priority_update *p = frame->payload;
	struct h2_stream *s = h2_stream_of(h->session, p->stream_id);
	struct h2_priority said = { .urgency = H2_URGENCY_DEFAULT };

	if (p->stream_id == 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	h2_priority_read(view_of((const char *)p->field_value, p->field_value_len), &said);
	if (s != NULL)
		h2_send_prioritise(s, said);
	else if (p->stream_id > nghttp2_session_get_last_proc_stream_id(h->session))
		foretell(h, p->stream_id, said);
	return 0;
}

/* --- frames ------------------------------------------------------------------------------------------------- */

/* Of a stream that is gone: the library throws it away and tells nobody. */
static bool is_late(nghttp2_session *session, const nghttp2_frame_hd *head)
{
	return nghttp2_session_find_stream(session, head->stream_id) == NULL &&
	       head->stream_id <= nghttp2_session_get_last_proc_stream_id(session);
}

/* Frames that no request comes of, and that a client needs few of. */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *user)
{
	struct h2 *h = h2_of(user);

	switch (head->type) {
	case NGHTTP2_HEADERS:
		if (!is_late(session, head))
			return 0;
		break;
	case NGHTTP2_PRIORITY:
		if (head->stream_id == 0) /* RFC 9113 §6.3; the library has forgotten it with the priorities */
			return NGHTTP2_ERR_CALLBACK_FAILURE;
		break;
	case NGHTTP2_DATA: /* see on_frame */
	case NGHTTP2_CONTINUATION:
	case NGHTTP2_RST_STREAM:
	case NGHTTP2_WINDOW_UPDATE:
		return 0;
	case NGHTTP2_SETTINGS:
	case NGHTTP2_PING:
		if (head->flags & NGHTTP2_FLAG_ACK)
			return 0;
		break;
	default:
		break;
	}
	count(h, &h->meters.controls, H2_LIMIT_CONTROLS);
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2 *h = h2_of(user);

	(void)session;
	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		head_ended(h, frame);
		h2_session_head_over(h);
		body_ended(h, frame);
		break;
	case NGHTTP2_DATA:
		if (frame->hd.length == frame->data.padlen &&
		    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
			count(h, &h->meters.controls, H2_LIMIT_CONTROLS);
		body_ended(h, frame);
		break;
	case NGHTTP2_RST_STREAM:
		count(h, &h->meters.resets, H2_LIMIT_RESETS);
		break;
	case NGHTTP2_WINDOW_UPDATE:
		on_window_update(h, &frame->window_update);
		break;
	case NGHTTP2_SETTINGS:
		on_settings(h, frame->hd.flags);
		break;
	case NGHTTP2_PING:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
			h2_drained(h);
		break;
	case NGHTTP2_PRIORITY_UPDATE:
		return on_priority_update(h, &frame->ext);
	}
	return 0;
}

/* A client that makes us reset its streams costs as much as one that does so itself. */
static bool was_provoked(struct h2 *h, uint32_t code)
{
	if (code == NGHTTP2_NO_ERROR || code == NGHTTP2_INTERNAL_ERROR)
		return false;
	if (code != NGHTTP2_REFUSED_STREAM || h->spared == 0)
		return true;
	h->spared--;
	return false;
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2 *h = h2_of(user);
	const struct h2_stream *s;

	if (frame->hd.type != NGHTTP2_RST_STREAM)
		return 0;
	s = h2_stream_of(session, frame->hd.stream_id);
	if (s != NULL && s->lingers) /* a body that was given up for our answer */
		return 0;
	if (was_provoked(h, frame->rst_stream.error_code))
		count(h, &h->meters.resets, H2_LIMIT_RESETS);
	return 0;
}

/* The session has refused a head by itself: on_frame won't hear of its end. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
	(void)session;
	(void)error;
	if (frame->hd.type == NGHTTP2_HEADERS)
		h2_session_head_over(h2_of(user));
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
	struct h2_stream *s = h2_stream_of(session, id);

	(void)code;
	(void)user;
	if (s == NULL)
		return 0;
	s->closed = true;
	if (!s->over && !s->ended)
		h2_exchange_gone(s);
	h2_stream_release(s);
	return 0;
}

int h2_session_feed(struct h2 *h, const void *p, size_t n)
{
	ssize_t r;

	h2_memory_turn(h);
	r = nghttp2_session_mem_recv(h->session, p, n);

	/* A client that reads nothing may still make us reset streams; that is counted when it is sent. */
	if (nghttp2_session_get_outbound_queue_size(h->session) > OUTBOUND_FRAMES)
		exceed(h, H2_LIMIT_RESETS);
	if (r >= 0)
		return 0;
	if (r == NGHTTP2_ERR_FLOODED)
		exceed(h, H2_LIMIT_ACKS);
	else if (r == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS)
		exceed(h, H2_LIMIT_CONTINUATIONS);
	return -EPROTO;
}

/* --- opening ---------------------------------------------------------------------------------------------------- */

static void set_callbacks(nghttp2_session_callbacks *c)
{
	nghttp2_session_callbacks_set_on_begin_frame_callback(c, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(c, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(c, on_invalid_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_invalid_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
	nghttp2_session_callbacks_set_send_data_callback(c, h2_send_data);
}

/* Resets are counted here, with those that the client provokes: the session's own count is put out of the way. */
static void set_options(nghttp2_option *o)
{
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_no_closed_streams(o, 1);
	nghttp2_option_set_max_outbound_ack(o, OUTBOUND_ACKS);
	nghttp2_option_set_max_send_header_block_length(o, ANSWER_HEAD_BYTES); /* else it is never sent */
	nghttp2_option_set_builtin_recv_extension_type(o, NGHTTP2_PRIORITY_UPDATE);
	nghttp2_option_set_stream_reset_rate_limit(o, UINT32_MAX, UINT32_MAX);
}

static int new_session(struct h2 *h)
{
	nghttp2_session_callbacks *callbacks = NULL;
	nghttp2_option *options = NULL;
	int r = -ENOMEM;

	if (nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&options) == 0) {
		set_callbacks(callbacks);
		set_options(options);
		if (nghttp2_session_server_new2(&h->session, callbacks, h, options) == 0)
			r = 0;
	}
	nghttp2_option_del(options);
	nghttp2_session_callbacks_del(callbacks);
	return r;
}

int h2_session_open(struct h2 *h, const struct conf_limits *limits)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits->h2.streams },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits->header_bytes },
		{ NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
	};

	h->limits = (struct http_limits){ .head_bytes = limits->header_bytes, .fields = limits->headers };
	h2_meters_init(&h->meters, &limits->h2, loop_now(h->w->loop));
	if (new_session(h) != 0)
		return -ENOMEM;
	if (nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)) != 0 ||
	    nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0, H2_WINDOW) != 0)
		return -ENOMEM;
	return 0;
}

const char *h2_library(void)
{
	return nghttp2_version(0)->version_str;
}
