/* Rows of objects and Vary rules, from records and back; see index_row.h. */
#include "cache/index_row.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "edge/base/check.h"

void index_row_key(const struct cache_key *key, uint8_t out[INDEX_ROW_KEY_BYTES])
{
	uint64_t secondary = __builtin_bswap64(key->secondary);

	memcpy(out, key->primary, 16);
	memcpy(out + 16, &secondary, 8);
}

void index_row_key_decode(const uint8_t p[INDEX_ROW_KEY_BYTES], struct cache_key *out)
{
	uint64_t secondary;

	*out = (struct cache_key){ 0 };
	memcpy(out->primary, p, 16);
	memcpy(&secondary, p + 16, 8);
	out->secondary = __builtin_bswap64(secondary);
}

void index_row_encode(const struct cache_record *r, struct index_row *out)
{
	if (r->kind == CACHE_RECORD_VARY) {
		CHECK(r->vary_bytes <= CACHE_VARY_MAX);
		out->vary = (struct index_vary){
			.kind = CACHE_RECORD_VARY,
			.vary_bytes = r->vary_bytes,
			.head_segment = r->head_segment,
			.object_id = r->object_id,
			.birth = r->birth,
		};
		memcpy(out->bytes + sizeof(out->vary), r->vary, r->vary_bytes);
		out->n = sizeof(out->vary) + r->vary_bytes;
		return;
	}
	out->object = (struct index_object){
		.kind = CACHE_RECORD_OBJECT,
		.status = r->status,
		.flags = r->flags,
		.object_id = r->object_id,
		.body_id = r->body_id,
		.birth = r->birth,
		.body_bytes = r->body_bytes,
		.received_ms = r->received.ms,
		.initial_age_ms = r->initial_age_ms,
		.lifetime_ms = r->lifetime_ms,
		.head_segment = r->head_segment,
		.head_offset = r->head_offset,
		.head_bytes = r->head_bytes,
		.body_segment = r->body_segment,
		.body_offset = r->body_offset,
		.stale_while_revalidate_s = r->stale_while_revalidate_s,
		.stale_if_error_s = r->stale_if_error_s,
	};
	out->n = sizeof(out->object);
}

static int decode_object(struct view value, struct cache_record *out)
{
	struct index_object o;

	if (value.n != sizeof(o))
		return -EIO;
	memcpy(&o, value.p, sizeof(o));
	out->kind = CACHE_RECORD_OBJECT;
	out->store = 0;
	out->status = o.status;
	out->flags = o.flags;
	out->object_id = o.object_id;
	out->body_id = o.body_id;
	out->birth = o.birth;
	out->body_bytes = o.body_bytes;
	out->received.ms = o.received_ms;
	out->initial_age_ms = o.initial_age_ms;
	out->lifetime_ms = o.lifetime_ms;
	out->head_segment = o.head_segment;
	out->head_offset = o.head_offset;
	out->head_bytes = o.head_bytes;
	out->body_segment = o.body_segment;
	out->body_offset = o.body_offset;
	out->stale_while_revalidate_s = o.stale_while_revalidate_s;
	out->stale_if_error_s = o.stale_if_error_s;
	out->vary_bytes = 0;
	return 0;
}

static int decode_vary(struct view value, struct cache_record *out)
{
	struct index_vary v;

	if (value.n < sizeof(v))
		return -EIO;
	memcpy(&v, value.p, sizeof(v));
	if (v.vary_bytes > CACHE_VARY_MAX || value.n != sizeof(v) + v.vary_bytes)
		return -EIO;
	memset(out, 0, offsetof(struct cache_record, vary));
	out->kind = CACHE_RECORD_VARY;
	out->head_segment = v.head_segment;
	out->object_id = v.object_id;
	out->birth = v.birth;
	out->vary_bytes = v.vary_bytes;
	memcpy(out->vary, value.p + sizeof(v), v.vary_bytes);
	return 0;
}

int index_row_decode(struct view value, struct cache_record *out)
{
	if (value.n == 0)
		return -EIO;
	switch ((uint8_t)value.p[0]) {
	case CACHE_RECORD_OBJECT:
		return decode_object(value, out);
	case CACHE_RECORD_VARY:
		return decode_vary(value, out);
	}
	return -EIO;
}
