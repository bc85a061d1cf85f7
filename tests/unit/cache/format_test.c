/* On-disk bytes: what is encoded is decoded, and what is damaged anywhere is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cache/format.h"

static const uint64_t tags[] = { 3, 5, 9 };

static struct format_texts sample_texts(void)
{
	return (struct format_texts){
		.tags = tags,
		.tag_count = 3,
		.url = VIEW("http://shop.example/a?b=1"),
		.vary = VIEW("accept-encoding"),
		.etag = VIEW("\"v1\""),
		.last_modified = VIEW("Mon, 30 Nov 2026 16:00:00 GMT"),
		.head = VIEW("Content-Type: text/plain\r\n"),
	};
}

static struct format_object sample_object(void)
{
	return (struct format_object){
		.primary = { 1, 2, 3 },
		.secondary = 7,
		.object_id = (uint64_t)3 << FORMAT_EPOCH_SHIFT | 12,
		.body_id = 11,
		.birth = 4,
		.received_ms = 1796054400000,
		.lifetime_ms = 60000,
		.body_bytes = 99,
		.head_segment = 2,
		.head_offset = 64,
		.status = 200,
	};
}

static void assert_texts(const struct format_texts *t, bool with_head)
{
	struct format_texts expected = sample_texts();

	assert_int_equal(t->tag_count, 3);
	assert_memory_equal(t->tags, tags, sizeof(tags));
	assert_true(view_eq(t->url, expected.url));
	assert_true(view_eq(t->vary, expected.vary));
	assert_true(view_eq(t->etag, expected.etag));
	assert_true(view_eq(t->last_modified, expected.last_modified));
	assert_true(view_eq(t->head, with_head ? expected.head : view_of(NULL, 0)));
}

static void entry_comes_back(void **state)
{
	struct format_object o = sample_object();
	struct format_texts t = sample_texts(), back;
	const struct format_object *object;
	uint32_t bytes = format_entry_bytes(&t);
	void *p = malloc(bytes);

	(void)state;
	format_entry_encode(&o, &t, p);
	assert_int_equal(format_entry_decode(p, bytes, &object, &back), 0);
	assert_int_equal(object->object_id, o.object_id);
	assert_int_equal(object->head_bytes, bytes);
	assert_int_equal(object->status, 200);
	assert_texts(&back, true);
	free(p);
}

static void damaged_entry_is_refused(void **state)
{
	struct format_object o = sample_object();
	struct format_texts t = sample_texts(), back;
	const struct format_object *object;
	uint32_t bytes = format_entry_bytes(&t);
	char *p = malloc(bytes);

	(void)state;
	format_entry_encode(&o, &t, p);
	for (uint32_t i = 0; i < bytes; i++) {
		p[i] ^= 0x10;
		assert_int_not_equal(format_entry_decode(p, bytes, &object, &back), 0);
		p[i] ^= 0x10;
	}
	for (uint32_t n = 0; n < bytes; n++)
		assert_int_not_equal(format_entry_decode(p, n, &object, &back), 0);
	free(p);
}

static void texts_that_are_too_long_are_refused(void **state)
{
	struct format_texts t = sample_texts();
	char *long_text = calloc(1, FORMAT_HEAD_MAX);

	(void)state;
	t.url = view_of(long_text, UINT16_MAX + 1);
	assert_int_equal(format_entry_bytes(&t), 0);
	t.url = VIEW("u");
	t.head = view_of(long_text, FORMAT_HEAD_MAX);
	assert_int_equal(format_entry_bytes(&t), 0);
	free(long_text);
}

static void large_bodies_begin_on_a_page(void **state)
{
	(void)state;
	assert_int_equal(format_body_offset(64, 500, FORMAT_PAGE_BODY), 564);
	assert_int_equal(format_body_offset(64, 500, FORMAT_PAGE_BODY + 1), FORMAT_PAGE);
	assert_int_equal(format_body_offset(FORMAT_PAGE - 500, 500, 1 << 20), FORMAT_PAGE);
}

static void log_record_comes_back(void **state)
{
	struct format_object o = sample_object();
	struct format_texts t = sample_texts();
	struct format_log_view v;
	uint32_t bytes = format_log_object_bytes(&t);
	char *p = malloc(bytes);

	(void)state;
	format_log_object_encode(FORMAT_LOG_REFRESH, &o, &t, 40, p);
	assert_int_equal(format_log_decode(p, bytes, 40, &v), 0);
	assert_int_equal(v.type, FORMAT_LOG_REFRESH);
	assert_int_equal(v.bytes, bytes);
	assert_int_equal(v.object->body_id, 11);
	assert_texts(&v.texts, false);
	/* A record that lies elsewhere than it was written is no record. */
	assert_int_not_equal(format_log_decode(p, bytes, 48, &v), 0);
	for (uint32_t i = 0; i < bytes; i++) {
		p[i] ^= 1;
		assert_int_not_equal(format_log_decode(p, bytes, 40, &v), 0);
		p[i] ^= 1;
	}
	for (uint32_t n = 0; n < bytes; n++)
		assert_int_not_equal(format_log_decode(p, n, 40, &v), 0);
	free(p);
}

static void small_log_records_come_back(void **state)
{
	struct format_removal removal = { .primary = { 9 }, .secondary = 1, .object_id = 77 };
	struct format_synced synced = { .offset = 4711 };
	_Alignas(8) char p[64];
	struct format_log_view v;
	uint32_t n;

	(void)state;
	n = format_log_small_encode(FORMAT_LOG_REMOVE, &removal, sizeof(removal), 0, p);
	assert_int_equal(format_log_decode(p, n, 0, &v), 0);
	assert_int_equal(v.removal->object_id, 77);
	n = format_log_small_encode(FORMAT_LOG_SYNCED, &synced, sizeof(synced), 0, p);
	assert_int_equal(format_log_decode(p, n, 0, &v), 0);
	assert_int_equal(v.synced, 4711);
	n = format_log_small_encode(FORMAT_LOG_DEAD, NULL, 0, 0, p);
	assert_int_equal(format_log_decode(p, n, 0, &v), 0);
	assert_int_equal(v.type, FORMAT_LOG_DEAD);
	/* A type of the future, or a payload that is too short for its type. */
	n = format_log_small_encode((enum format_log_type)99, NULL, 0, 0, p);
	assert_int_not_equal(format_log_decode(p, n, 0, &v), 0);
	n = format_log_small_encode(FORMAT_LOG_REMOVE, &synced, sizeof(synced), 0, p);
	assert_int_not_equal(format_log_decode(p, n, 0, &v), 0);
}

static void names_come_back(void **state)
{
	char path[FORMAT_PATH_MAX];
	uint64_t body_id;
	uint32_t n;
	bool is_log;

	(void)state;
	format_segment_path(0x1234, path);
	assert_true(format_segment_name(path + strlen(FORMAT_SEGMENTS_DIR "/"), &n, &is_log));
	assert_int_equal(n, 0x1234);
	assert_false(is_log);
	format_log_path(7, path);
	assert_true(format_segment_name(path + strlen(FORMAT_SEGMENTS_DIR "/"), &n, &is_log));
	assert_true(is_log);
	format_chunk_path(0x10000000abc, 3, path);
	assert_memory_equal(path, "chunks/bc/", 10);
	assert_true(format_chunk_name(path + 10, &body_id, &n));
	assert_int_equal(body_id, 0x10000000abc);
	assert_int_equal(n, 3);
	format_chunk_path(5, 0x12345, path);
	assert_true(format_chunk_name(path + 10, &body_id, &n));
	assert_int_equal(n, 0x12345);
	assert_false(format_segment_name("00000000.seg", &n, &is_log));
	assert_false(format_segment_name("0000000g.seg", &n, &is_log));
	assert_false(format_segment_name("00000001.tmp", &n, &is_log));
	assert_false(format_chunk_name("0000010000000abc-0003", &body_id, &n));
	assert_false(format_chunk_name("..", &body_id, &n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entry_comes_back),
		cmocka_unit_test(damaged_entry_is_refused),
		cmocka_unit_test(texts_that_are_too_long_are_refused),
		cmocka_unit_test(large_bodies_begin_on_a_page),
		cmocka_unit_test(log_record_comes_back),
		cmocka_unit_test(small_log_records_come_back),
		cmocka_unit_test(names_come_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
