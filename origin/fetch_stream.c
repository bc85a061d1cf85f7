/*
 * After a 101 the connection is a stream of bytes for the owner, who reads and writes it by itself; the fetch keeps what
 * it is made of, passes on its events, and closes it in the end. It never goes back to the pool.
 */
#include "edge/http/field.h"
#include "origin/parts.h"

/* It names one protocol, and one that was offered (RFC 9110 §7.8). */
bool fetch_stream_agreed(const struct fetch *f)
{
	const struct http_fields *fields = &f->response.fields;
	const struct http_field *answer = NULL;
	struct view rest = f->upgrade, offered;

	for (uint16_t i = 0; i < fields->count; i++) {
		if (fields->at[i].id != FIELD_UPGRADE)
			continue;
		if (answer != NULL)
			return false;
		answer = &fields->at[i];
	}
	while (answer != NULL && http_list_next(&rest, &offered)) {
		if (view_eq_nocase(answer->value, offered))
			return true;
	}
	return false;
}

enum step_result fetch_step_stream(struct machine *m)
{
	ready_post(fetch_of(m)->wake);
	return STEP_PARK;
}

struct io *fetch_stream(struct fetch *f, struct view *out_early)
{
	CHECK(f->state == FETCH_SWITCHED);
	*out_early = f->in == NULL ? (struct view){ 0 }
				   : view_of(f->in->bytes + f->in->begin, buffered(f->in));
	return fetch_io(f);
}

void fetch_stream_took(struct fetch *f, size_t n)
{
	fetch_input_took(f, n);
}

void fetch_stream_want(struct fetch *f, unsigned events)
{
	CHECK(f->state == FETCH_SWITCHED);
	watch_want(&f->machine.watch, events);
}
