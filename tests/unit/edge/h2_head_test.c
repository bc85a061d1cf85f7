/* Heads of HTTP/2 are read as HTTP/1's are, and what HTTP/2 forbids is malformed. */
#include "edge/h2_head.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct h2_head head;
static struct h2_block block;
static struct http_request rq;
static enum http_fault fault;

/* "name=value" each, NULL behind the last. The first error, or that of the end. */
static int read_head(const struct http_limits *limits, bool ended, const char *const *fields)
{
	h2_head_begin(&head, limits);
	for (; *fields != NULL; fields++) {
		const char *equals = strchr(*fields, '=');
		int r = h2_head_add(&head, view_of(*fields, (size_t)(equals - *fields)),
				    view_str(equals + 1));

		if (r != 0)
			return r;
	}
	memset(&rq, 0, sizeof(rq));
	return h2_head_end(&head, ended, &block, &rq, &fault);
}

static const struct http_limits usual = { .head_bytes = 4096, .fields = 20 };

#define READ(ended, ...) read_head(&usual, ended, (const char *const[]){ __VA_ARGS__, NULL })
#define GET ":method=GET", ":scheme=http", ":authority=a.test", ":path=/a?b"
#define POST ":method=POST", ":scheme=https", ":authority=a.test", ":path=/"

static struct view value(enum http_field_id id)
{
	const struct http_field *f = http_fields_first(&rq.fields, id);

	return f != NULL ? f->value : (struct view){ 0 };
}

#define assert_view(v, text) assert_true(view_eq(v, VIEW(text)))

static void reads_a_request(void **state)
{
	(void)state;
	assert_int_equal(READ(true, GET, "accept-encoding=gzip", "x=y"), 0);
	assert_int_equal(fault, HTTP_OK);
	assert_int_equal(rq.method, METHOD_GET);
	assert_view(rq.path, "/a?b");
	assert_view(rq.authority, "a.test");
	assert_view(value(FIELD_HOST), "a.test");
	assert_view(value(FIELD_ACCEPT_ENCODING), "gzip");
	assert_int_equal(rq.fields.count, 3);
	assert_int_equal(rq.framing, FRAMING_NONE);
	assert_int_equal(rq.minor, 1);
	assert_true(rq.keep_alive);
}

static void finds_the_framing(void **state)
{
	(void)state;
	assert_int_equal(READ(false, POST), 0);
	assert_int_equal(rq.framing, FRAMING_CHUNKED);
	assert_int_equal(READ(false, POST, "content-length=7"), 0);
	assert_int_equal(rq.framing, FRAMING_LENGTH);
	assert_int_equal(rq.length, 7);
	assert_int_equal(READ(true, POST, "content-length=0"), 0);
	assert_int_equal(fault, HTTP_OK);
	assert_int_equal(READ(true, POST, "content-length=7"), -EPROTO);
	assert_int_equal(READ(false, POST, "content-length=7", "content-length=7"), 0);
	assert_int_equal(fault, HTTP_BAD_LENGTH);
	assert_int_equal(READ(false, POST, "expect=100-continue"), 0);
	assert_true(rq.expect_continue);
}

static void joins_cookies(void **state)
{
	(void)state;
	assert_int_equal(READ(true, GET, "cookie=a=1", "x=y", "cookie=b=2", "cookie=c"), 0);
	assert_view(value(FIELD_COOKIE), "a=1; b=2; c");
	assert_int_equal(rq.fields.count, 3);
}

static void hosts_agree(void **state)
{
	(void)state;
	assert_int_equal(READ(true, GET, "cookie=a", "host=A.TEST:80"), 0);
	assert_int_equal(fault, HTTP_OK);
	assert_view(rq.authority, "a.test");
	assert_int_equal(READ(true, GET, "host=b.test"), 0);
	assert_int_equal(fault, HTTP_BAD_HOST);
	assert_int_equal(READ(true, POST, "host=a.test:80"), 0);
	assert_int_equal(fault, HTTP_BAD_HOST);
	assert_int_equal(READ(true, GET, "host=a.test", "host=a.test"), 0);
	assert_int_equal(fault, HTTP_BAD_HOST);
	assert_int_equal(READ(true, ":method=GET", ":scheme=http", ":path=/", "host=a.test"), 0);
	assert_view(rq.authority, "a.test");
	assert_int_equal(READ(true, ":method=GET", ":scheme=http", ":path=/"), 0);
	assert_int_equal(fault, HTTP_BAD_HOST);
	assert_int_equal(READ(true, ":method=GET", ":scheme=http", ":authority=a.test/x", ":path=/"), 0);
	assert_int_equal(fault, HTTP_BAD_HOST);
}

static void refuses_what_is_malformed(void **state)
{
	static const char *const bad[] = {
		"X=upper",
		"connection=close",
		"keep-alive=1",
		"proxy-connection=x",
		"transfer-encoding=chunked",
		"upgrade=x",
		"te=gzip",
		"x y=1",
		"x:y=1",
		"x= a",
		"x=a ",
		"x=a\nb",
		"x=a\rb",
		":path=/",
		":status=200",
		":protocol=x",
		"=empty",
		"x\x80=1",
		"x=\x7f",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(READ(true, GET, bad[i]), -EPROTO);
	assert_int_equal(READ(true, GET, "x=a", ":extra=b"), -EPROTO);
	assert_int_equal(READ(true, GET, "te=trailers"), 0);
	assert_int_equal(fault, HTTP_OK);
	assert_false(http_fields_has(&rq.fields, FIELD_TE));
}

static void wants_all_pseudo_fields(void **state)
{
	(void)state;
	assert_int_equal(READ(true, ":scheme=http", ":authority=a.test", ":path=/"), -EPROTO);
	assert_int_equal(READ(true, ":method=GET", ":authority=a.test", ":path=/"), -EPROTO);
	assert_int_equal(READ(true, ":method=GET", ":scheme=http", ":authority=a.test"), -EPROTO);
	assert_int_equal(READ(true, ":method=GET", ":scheme=http", ":authority=a.test", ":path="),
			 -EPROTO);
	assert_int_equal(READ(true, ":method=GET /", ":scheme=http", ":authority=a.test", ":path=/"),
			 -EPROTO);
	assert_int_equal(READ(true, ":method=GET", ":scheme=http", ":authority=a", ":path=http://b/"),
			 -EPROTO);
	assert_int_equal(READ(true, ":method=CONNECT", ":authority=a.test:443"), 0);
	assert_int_equal(fault, HTTP_OK);
	assert_int_equal(rq.method, METHOD_CONNECT);
	assert_int_equal(READ(true, ":method=CONNECT", ":authority=a.test:443", ":path=/"), -EPROTO);
	assert_int_equal(
		READ(true, ":method=OPTIONS", ":scheme=http", ":authority=a.test", ":path=*"), 0);
	assert_view(rq.path, "*");
}

/* What HTTP/1 refuses with a status is refused with that here, too. */
static void faults_are_those_of_http_1(void **state)
{
	(void)state;
	assert_int_equal(READ(true, ":method=GET", ":scheme=http", ":authority=a.test", ":path=/a b"),
			 0);
	assert_int_not_equal(fault, HTTP_OK);
	assert_int_equal(READ(true, ":method=GET", ":scheme=http", ":authority=a.test", ":path=/a#b"),
			 0);
	assert_int_not_equal(fault, HTTP_OK);
	assert_int_equal(
		READ(true, ":method=GET", ":scheme=http", ":authority=a.test", ":path=/ HTTP/1.1"), 0);
	assert_int_not_equal(fault, HTTP_OK);
	assert_int_equal(READ(true, ":method=GET", ":scheme=ftp", ":authority=a.test", ":path=/"), 0);
	assert_int_equal(fault, HTTP_BAD_TARGET);
	assert_int_equal(READ(true, GET, "expect=tea"), 0);
	assert_int_equal(fault, HTTP_BAD_EXPECT);
}

static void too_large_a_head_is_an_answer(void **state)
{
	static const struct http_limits small = { .head_bytes = 300, .fields = 3 };
	static const char *const many[] = { GET, "a=1", "b=2", "c=3", "d=4", NULL };
	static char large[400] = "x=";
	const char *const one[] = { GET, large, NULL };

	(void)state;
	assert_int_equal(read_head(&small, true, many), 0);
	assert_int_equal(fault, HTTP_HEAD_TOO_LARGE);
	memset(large + 2, 'y', sizeof(large) - 3);
	assert_int_equal(read_head(&small, true, one), 0);
	assert_int_equal(fault, HTTP_HEAD_TOO_LARGE);
	assert_true(head.list_bytes > 300);
	assert_true(h2_head_bytes(&head) < 4096);
}

static void reads_priorities(void **state)
{
	struct h2_priority p = { .urgency = H2_URGENCY_DEFAULT };

	(void)state;
	h2_priority_read(VIEW("u=1, i"), &p);
	assert_int_equal(p.urgency, 1);
	assert_true(p.incremental);
	h2_priority_read(VIEW("i=?0"), &p);
	assert_int_equal(p.urgency, 1);
	assert_false(p.incremental);
	h2_priority_read(VIEW("u=9, i=2, x=\"y\""), &p);
	h2_priority_read(VIEW("u=-1"), &p);
	h2_priority_read(VIEW("u=2;a"), &p);
	assert_int_equal(p.urgency, 2);
	h2_priority_read(VIEW("u=0 nonsense"), &p);
	assert_int_equal(p.urgency, 2);
	assert_false(p.incremental);
}

static int forget(void **state)
{
	(void)state;
	h2_head_free(&head);
	h2_block_free(&block);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_a_request),
		cmocka_unit_test(finds_the_framing),
		cmocka_unit_test(joins_cookies),
		cmocka_unit_test(hosts_agree),
		cmocka_unit_test(refuses_what_is_malformed),
		cmocka_unit_test(wants_all_pseudo_fields),
		cmocka_unit_test(faults_are_those_of_http_1),
		cmocka_unit_test(too_large_a_head_is_an_answer),
		cmocka_unit_test(reads_priorities),
	};

	return cmocka_run_group_tests(tests, NULL, forget);
}
