/* Heads of answers: all fields, a length where there is one, nothing of HTTP/1's. */
#include "edge/h2.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct h2_answer out;

static const char *value(const char *name)
{
	static char text[64];

	for (size_t i = 0; i < out.count; i++) {
		const nghttp2_nv *nv = &out.at[i];

		if (nv->namelen == strlen(name) &&
		    strncasecmp((const char *)nv->name, name, nv->namelen) == 0) {
			assert_true(nv->valuelen < sizeof(text));
			memcpy(text, nv->value, nv->valuelen);
			text[nv->valuelen] = '\0';
			return text;
		}
	}
	return NULL;
}

static void has_what_the_answer_has(void **state)
{
	const struct answer a = {
		.status = 200,
		.fields = VIEW("Content-Type: text/html\r\nX-Empty: \r\nConnection: x\r\n"
			       "Transfer-Encoding: chunked\r\nUpgrade: h3\r\n"),
		.own = VIEW("Via: 1.1 brim\r\nContent-Length: 7\r\n"),
		.length = 42
	};

	(void)state;
	assert_int_equal(h2_answer_head(&a, &out), 0);
	assert_int_equal(out.count, 5);
	assert_string_equal(value(":status"), "200");
	assert_string_equal((const char *)out.at[0].name, ":status");
	assert_string_equal(value("content-type"), "text/html");
	assert_string_equal(value("x-empty"), "");
	assert_string_equal(value("via"), "1.1 brim");
	assert_string_equal(value("content-length"), "42");
}

static void has_a_length_only_where_one_may_be(void **state)
{
	struct answer a = { .status = 200, .length = -1 };

	(void)state;
	assert_int_equal(h2_answer_head(&a, &out), 0);
	assert_null(value("content-length"));
	a = (struct answer){ .status = 204, .length = 0 };
	assert_int_equal(h2_answer_head(&a, &out), 0);
	assert_null(value("content-length"));
	a = (struct answer){ .status = 304, .length = 5, .no_body = true };
	assert_int_equal(h2_answer_head(&a, &out), 0);
	assert_string_equal(value("content-length"), "5");
}

static void too_many_fields_are_too_many(void **state)
{
	static char lines[6 * (H2_ANSWER_FIELDS + 1)];
	struct answer a = { .status = 200, .length = -1 };

	(void)state;
	for (size_t i = 0; i < sizeof(lines); i += 6)
		memcpy(lines + i, "X: y\r\n", 6);
	a.fields = view_of(lines, sizeof(lines));
	assert_int_equal(h2_answer_head(&a, &out), -E2BIG);
}

static void trailers_hold_no_framing(void **state)
{
	(void)state;
	assert_int_equal(
		h2_answer_trailers(VIEW("X-Sum: 1\r\nContent-Length: 3\r\nTrailer: a\r\n"), &out), 0);
	assert_int_equal(out.count, 1);
	assert_string_equal(value("x-sum"), "1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(has_what_the_answer_has),
		cmocka_unit_test(has_a_length_only_where_one_may_be),
		cmocka_unit_test(too_many_fields_are_too_many),
		cmocka_unit_test(trailers_hold_no_framing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
