/*
 * On-disk bytes as pure functions on memory: see format.h. Two rules keep them safe to show anything:
 * a length is compared with what is there before it is used, and the checksum is proved before any other
 * number is believed. What is checked after that guards against our own bugs, since a checksum proves
 * only that these bytes were written, not that they make sense.
 */
#include "cache/format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "edge/base/hash.h"

/* --- names -------------------------------------------------------------------------------- */

void format_segment_path(uint32_t segment, char out[FORMAT_PATH_MAX])
{
	snprintf(out, FORMAT_PATH_MAX, FORMAT_SEGMENTS_DIR "/%08x.seg", segment);
}

void format_log_path(uint32_t segment, char out[FORMAT_PATH_MAX])
{
	snprintf(out, FORMAT_PATH_MAX, FORMAT_SEGMENTS_DIR "/%08x.log", segment);
}

void format_chunk_path(uint64_t body_id, uint32_t chunk, char out[FORMAT_PATH_MAX])
{
	snprintf(out, FORMAT_PATH_MAX, FORMAT_CHUNKS_DIR "/%02x/%016llx.%04x",
		 (unsigned)(body_id & 0xff), (unsigned long long)body_id, chunk);
}

/* Exactly «digits» lower-case hexadecimal digits. */
static bool parse_hex(const char *p, unsigned digits, uint64_t *out)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < digits; i++) {
		char c = p[i];

		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	*out = value;
	return true;
}

bool format_segment_name(const char *name, uint32_t *out_segment, bool *out_is_log)
{
	uint64_t segment;

	if (strlen(name) != 12 || !parse_hex(name, 8, &segment) || segment == 0)
		return false;
	if (strcmp(name + 8, ".seg") != 0 && strcmp(name + 8, ".log") != 0)
		return false;
	*out_segment = (uint32_t)segment;
	*out_is_log = name[9] == 'l';
	return true;
}

bool format_chunk_name(const char *name, uint64_t *out_body_id, uint32_t *out_chunk)
{
	uint64_t body_id, chunk;
	size_t n = strlen(name);

	if (n < 21 || n > 25 || name[16] != '.' || !parse_hex(name, 16, &body_id) ||
	    !parse_hex(name + 17, (unsigned)n - 17, &chunk))
		return false;
	*out_body_id = body_id;
	*out_chunk = (uint32_t)chunk;
	return true;
}

/* --- texts --------------------------------------------------------------------------------- */

/* Bytes of all texts; 0: one is too long for its length's type. */
static uint64_t texts_bytes(const struct format_texts *t, bool with_head)
{
	const struct view *views[] = { &t->url, &t->vary, &t->etag, &t->last_modified };
	uint64_t total = (uint64_t)t->tag_count * sizeof(uint64_t);

	for (size_t i = 0; i < ARRAY_LEN(views); i++) {
		if (views[i]->n > UINT16_MAX)
			return UINT64_MAX;
		total += views[i]->n;
	}
	if (with_head && t->head.n > FORMAT_HEAD_MAX)
		return UINT64_MAX;
	return total + (with_head ? t->head.n : 0);
}

static char *put(char *at, const void *p, size_t n)
{
	if (n != 0)
		memcpy(at, p, n);
	return at + n;
}

/* Writes the object with the lengths of t, then the texts. Returns the end. */
static char *put_object(char *at, const struct format_object *o, const struct format_texts *t,
			bool with_head)
{
	struct format_object copy = *o;

	copy.tag_count = t->tag_count;
	copy.url_bytes = (uint16_t)t->url.n;
	copy.vary_bytes = (uint16_t)t->vary.n;
	copy.etag_bytes = (uint16_t)t->etag.n;
	copy.last_modified_bytes = (uint16_t)t->last_modified.n;
	copy.stored_head_bytes = (uint32_t)t->head.n;
	at = put(at, &copy, sizeof(copy));
	at = put(at, t->tags, t->tag_count * sizeof(uint64_t));
	at = put(at, t->url.p, t->url.n);
	at = put(at, t->vary.p, t->vary.n);
	at = put(at, t->etag.p, t->etag.n);
	at = put(at, t->last_modified.p, t->last_modified.n);
	return with_head ? put(at, t->head.p, t->head.n) : at;
}

static struct view take(const char **at, size_t n)
{
	struct view v = { *at, n };

	*at += n;
	return v;
}

/* Views into the texts that follow o, which has «room» bytes behind it. -EINVAL: they don't fit. */
static int get_texts(const struct format_object *o, size_t room, bool with_head, struct format_texts *out)
{
	const char *at = (const char *)(o + 1);
	uint64_t total = (uint64_t)o->tag_count * sizeof(uint64_t) + o->url_bytes + o->vary_bytes +
			 o->etag_bytes + o->last_modified_bytes;

	if (with_head)
		total += o->stored_head_bytes;
	if (total > room)
		return -EINVAL;
	out->tag_count = o->tag_count;
	out->tags = (const uint64_t *)(const void *)take(&at, o->tag_count * sizeof(uint64_t)).p;
	out->url = take(&at, o->url_bytes);
	out->vary = take(&at, o->vary_bytes);
	out->etag = take(&at, o->etag_bytes);
	out->last_modified = take(&at, o->last_modified_bytes);
	out->head = take(&at, with_head ? o->stored_head_bytes : 0);
	return 0;
}

/* --- entries -------------------------------------------------------------------------------- */

uint32_t format_entry_bytes(const struct format_texts *t)
{
	uint64_t texts = texts_bytes(t, true);

	if (texts > FORMAT_HEAD_MAX - sizeof(struct format_entry))
		return 0;
	return (uint32_t)(sizeof(struct format_entry) + texts);
}

uint32_t format_body_offset(uint32_t entry_offset, uint32_t head_bytes, uint64_t body_bytes)
{
	uint32_t behind = entry_offset + head_bytes;

	if (body_bytes <= FORMAT_PAGE_BODY)
		return behind;
	return (behind + FORMAT_PAGE - 1) / FORMAT_PAGE * FORMAT_PAGE;
}

enum { ENTRY_CHECKED = offsetof(struct format_entry, magic) };

void format_entry_encode(const struct format_object *o, const struct format_texts *t, void *out)
{
	struct format_entry *e = out;
	struct format_object object = *o;

	object.head_bytes = format_entry_bytes(t);
	CHECK(object.head_bytes != 0);
	e->magic = FORMAT_ENTRY_MAGIC;
	e->format = FORMAT_ENTRY;
	put_object((char *)&e->object, &object, t, true);
	e->checksum = hash_xxh3((char *)out + ENTRY_CHECKED, object.head_bytes - ENTRY_CHECKED);
}

int format_entry_decode(const void *p, size_t n, const struct format_object **out_object,
			struct format_texts *out_texts)
{
	const struct format_entry *e = p;
	struct format_texts texts;
	uint32_t bytes;

	if (n < sizeof(*e) || e->magic != FORMAT_ENTRY_MAGIC || e->format != FORMAT_ENTRY)
		return -EINVAL;
	bytes = e->object.head_bytes;
	if (bytes < sizeof(*e) || bytes > n || bytes > FORMAT_HEAD_MAX)
		return -EINVAL;
	if (e->checksum != hash_xxh3((const char *)p + ENTRY_CHECKED, bytes - ENTRY_CHECKED))
		return -EINVAL;
	if (get_texts(&e->object, bytes - sizeof(*e), true, &texts) != 0 ||
	    format_entry_bytes(&texts) != bytes)
		return -EINVAL;
	*out_object = &e->object;
	*out_texts = texts;
	return 0;
}

/* --- logs ------------------------------------------------------------------------------------ */

enum { RECORD_CHECKED = offsetof(struct format_log_record, bytes) };

static uint32_t rounded(uint64_t bytes)
{
	return (uint32_t)((bytes + 7) & ~(uint64_t)7);
}

uint32_t format_log_object_bytes(const struct format_texts *t)
{
	return rounded(sizeof(struct format_log_record) + sizeof(struct format_object) +
		       texts_bytes(t, false));
}

/* Everything behind the record's own struct is there, up to «end»: pad, and seal. */
static void seal_record(void *out, enum format_log_type type, uint32_t bytes, char *end, uint64_t offset)
{
	struct format_log_record *r = out;

	memset(end, 0, (size_t)((char *)out + bytes - end));
	r->bytes = bytes;
	r->type = type;
	r->checksum = hash_xxh3_seed((char *)out + RECORD_CHECKED, bytes - RECORD_CHECKED, offset);
}

void format_log_object_encode(enum format_log_type type, const struct format_object *o,
			      const struct format_texts *t, uint64_t offset, void *out)
{
	char *end = put_object((char *)out + sizeof(struct format_log_record), o, t, false);

	seal_record(out, type, format_log_object_bytes(t), end, offset);
}

uint32_t format_log_small_encode(enum format_log_type type, const void *payload, size_t n,
				 uint64_t offset, void *out)
{
	uint32_t bytes = rounded(sizeof(struct format_log_record) + n);
	char *end = put((char *)out + sizeof(struct format_log_record), payload, n);

	seal_record(out, type, bytes, end, offset);
	return bytes;
}

enum { LOG_CHECKED = offsetof(struct format_log, magic) };

void format_log_head_encode(const uint64_t store_id[2], uint32_t segment, struct format_log *out)
{
	*out = (struct format_log){
		.magic = FORMAT_LOG_MAGIC,
		.format = FORMAT_LOG,
		.store_id = { store_id[0], store_id[1] },
		.segment = segment,
	};
	out->checksum = hash_xxh3((char *)out + LOG_CHECKED, sizeof(*out) - LOG_CHECKED);
}

int format_log_head_check(const void *p, size_t n, const uint64_t store_id[2], uint32_t segment)
{
	struct format_log expected;

	format_log_head_encode(store_id, segment, &expected);
	return n >= sizeof(expected) && memcmp(p, &expected, sizeof(expected)) == 0 ? 0 : -EINVAL;
}

static int decode_object(const void *payload, size_t n, struct format_log_view *out)
{
	const struct format_object *o = payload;

	if (n < sizeof(*o) || get_texts(o, n - sizeof(*o), false, &out->texts) != 0)
		return -ENODATA;
	out->object = o;
	return 0;
}

static int decode_payload(const void *payload, size_t n, struct format_log_view *out)
{
	switch (out->type) {
	case FORMAT_LOG_COMMIT:
	case FORMAT_LOG_REFRESH:
		return decode_object(payload, n, out);
	case FORMAT_LOG_REMOVE:
		out->removal = payload;
		return n >= sizeof(struct format_removal) ? 0 : -ENODATA;
	case FORMAT_LOG_SYNCED:
		if (n < sizeof(struct format_synced))
			return -ENODATA;
		out->synced = ((const struct format_synced *)payload)->offset;
		return 0;
	case FORMAT_LOG_DEAD:
		return 0;
	}
	return -ENODATA;
}

int format_log_decode(const void *p, size_t n, uint64_t offset, struct format_log_view *out)
{
	const struct format_log_record *r = p;
	struct format_log_view view = { .type = 0 };

	if (n < sizeof(*r) || r->bytes < sizeof(*r) || r->bytes > FORMAT_LOG_RECORD_MAX ||
	    r->bytes % 8 != 0 || r->bytes > n)
		return -ENODATA;
	if (r->checksum !=
	    hash_xxh3_seed((const char *)p + RECORD_CHECKED, r->bytes - RECORD_CHECKED, offset))
		return -ENODATA;
	view.type = (enum format_log_type)r->type;
	view.bytes = r->bytes;
	if (decode_payload(r + 1, r->bytes - sizeof(*r), &view) != 0)
		return -ENODATA;
	*out = view;
	return 0;
}
