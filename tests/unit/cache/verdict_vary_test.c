/* Vary, as tables: rules of responses, values of requests. */
#include "tests/unit/cache/verdict_table.h"

/* --- Vary ------------------------------------------------------------------------------------------ */

static const struct {
	const char *rfc, *what, *response, *want;
	int result;
} rules[] = {
	{ "9111 §4.1", "none", NULL, "", 0 },
	{ "9111 §4.1", "empty", "Vary:\n", "", 0 },
	{ "9111 §4.1", "one", "Vary: Accept-Encoding\n", "accept-encoding", 0 },
	{ "9111 §4.1", "sorted", "Vary: b, a, C\n", "a,b,c", 0 },
	{ "9111 §4.1", "from several lines", "Vary: b\nX: y\nVary: a,, \n", "a,b", 0 },
	{ "9111 §4.1", "each once, whatever its case", "Vary: A, b, a, B\nVary: a\n", "a,b", 0 },
	{ "9111 §4.1", "a shorter name is before a longer", "Vary: ab, a, abc\n", "a,ab,abc", 0 },
	{ "9111 §4.1", "everything", "Vary: *\n", NULL, -ENOENT },
	{ "9111 §4.1", "everything, among others", "Vary: a, *\n", NULL, -ENOENT },
	{ "choice", "no name", "Vary: \"a\"\n", NULL, -ENOENT },
	{ "choice", "too long", "Vary: aaaaaaaaaa, bbbbbbbbbbbb, cccccccccc\n", NULL, -E2BIG },
};

static void test_vary_rules(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		struct lines l;
		struct http_response rs = response_of(&l, 200, rules[i].response);
		char out[32];
		size_t n = 0;
		int got = verdict_vary_rule(&rs, out, sizeof(out), &n);
		if (got != rules[i].result)
			fault(rules[i].rfc, rules[i].what, "%d", got);
		else if (got == 0 && !view_eq(view_of(out, n), view_str(rules[i].want)))
			fault(rules[i].rfc, rules[i].what, "%.*s", (int)n, out);
	}
	table_ends();
}

static struct view vary_value(const char *text, const char *name, char out[VERDICT_VARY_VALUE_MIN])
{
	struct lines l;
	struct http_request rq = request_of(&l, METHOD_GET, text);

	return view_of(out, verdict_vary_value(&rq, view_str(name), out, VERDICT_VARY_VALUE_MIN));
}

#define EIGHTY "01234567890123456789012345678901234567890123456789012345678901234567890123456789"

static const struct {
	const char *rfc, *what, *name, *a, *b;
	bool same;
} values[] = {
	{ "9111 §4.1", "the same", "foo", "Foo: a\n", "Foo: a\n", true },
	{ "9111 §4.1", "another", "foo", "Foo: a\n", "Foo: b\n", false },
	{ "9111 §4.1", "the name's case", "foo", "Foo: a\n", "FOO: a\n", true },
	{ "9111 §4.1", "both lack it", "foo", NULL, "Bar: a\n", true },
	{ "9111 §4.1", "one lacks it", "foo", NULL, "Foo: a\n", false },
	{ "9111 §4.1", "one lacks it, one is empty", "foo", NULL, "Foo:\n", false },
	{ "9111 §4.1", "both are empty", "foo", "Foo:\n", "Foo:  \n", true },
	{ "9111 §4.1", "on two lines", "foo", "Foo: a, b\n", "Foo: a\nFoo: b\n", true },
	{ "9111 §4.1", "on two lines, in another order", "foo", "Foo: a, b\n", "Foo: b\nFoo: a\n", false },
	{ "9111 §4.1", "other lines between", "foo", "Foo: a, b\n", "Foo: a\nX: y\nFoo: b\n", true },
	{ "9111 §4.1", "blanks around it", "foo", "Foo: a\n", "Foo:   a \t\n", true },
	{ "9111 §4.1", "blanks beside commas", "foo", "Foo: a,b\n", "Foo: a ,\t b\n", true },
	{ "choice", "within a member they count", "foo", "Foo: a b\n", "Foo: a  b\n", false },
	{ "choice", "beside semicolons, too", "foo", "Foo: a;b\n", "Foo: a; b\n", false },
	{ "choice", "empty members count", "foo", "Foo: a,b\n", "Foo: a,,b\n", false },
	{ "9110 §5.6.4", "in quotes nothing is touched", "foo", "Foo: \"a,b\"\n", "Foo: \"a, b\"\n",
	  false },
	{ "9110 §5.6.4", "behind them it is", "foo", "Foo: \"a, b\",c\n", "Foo: \"a, b\" , c\n", true },
	{ "9110 §5.6.4", "an escaped quote closes nothing", "foo", "Foo: \"a\\\",b\"\n",
	  "Foo: \"a\\\", b\"\n", false },
	{ "choice", "a quote that isn't closed is an ordinary character", "foo", "Foo: \"a,b\n",
	  "Foo: \"a , b\n", true },
	{ "choice", "case counts", "foo", "Foo: a\n", "Foo: A\n", false },
	{ "choice", "a cookie is no list", "cookie", "Cookie: a=1,2\n", "Cookie: a=1, 2\n", false },
	{ "choice", "nor are credentials", "authorization", "Authorization: Digest a=b,c=d\n",
	  "Authorization: Digest a=b, c=d\n", false },
	{ "choice", "nor is User-Agent", "user-agent", "User-Agent: A (B, C)\n",
	  "User-Agent: A (B,C)\n", false },
	{ "choice", "nor a date", "if-modified-since", "If-Modified-Since: " NOW "\n",
	  "If-Modified-Since: Mon,01 Jan 2024 00:00:00 GMT\n", false },
	{ "4647 §2.1", "languages ignore case", "accept-language", "Accept-Language: en-GB, de\n",
	  "Accept-Language: EN-gb,DE\n", true },
	{ "9110 §12.4.2", "blanks beside weights", "accept-language", "Accept-Language: en;q=0.5\n",
	  "Accept-Language: en ; q=0.5\n", true },
	{ "9110 §12.5.4", "weights count", "accept-language", "Accept-Language: en;q=0.5\n",
	  "Accept-Language: en;q=0.6\n", false },
	{ "9110 §12.5.4", "so does the order, of which origins make something", "accept-language",
	  "Accept-Language: en, de\n", "Accept-Language: de, en\n", false },
	{ "9110 §8.4.1", "codings ignore case", "accept-encoding", "Accept-Encoding: GZIP\n",
	  "Accept-Encoding: gzip\n", true },
	{ "9110 §12.5.1", "parameters of media types don't", "accept", "Accept: text/html;a=B\n",
	  "Accept: text/html;a=b\n", false },
	{ "9110 §12.5.1", "but blanks beside them", "accept", "Accept: text/html; q=0.5 , */*\n",
	  "Accept: text/html;q=0.5,*/*\n", true },
};

static void test_vary_values(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		char a[VERDICT_VARY_VALUE_MIN], b[VERDICT_VARY_VALUE_MIN];
		struct view first = vary_value(values[i].a, values[i].name, a);
		struct view second = vary_value(values[i].b, values[i].name, b);
		if (view_eq(first, second) != values[i].same)
			fault(values[i].rfc, values[i].what, "«%.*s» and «%.*s»", VIEW_ARG(first),
			      VIEW_ARG(second));
	}
	table_ends();
}

/* The time that many quotes take must not grow with the square of their number. */
static void test_quotes_that_never_close(void **state)
{
	static char text[60000], out[60000];
	struct http_field field = { .name = VIEW("Foo"), .value = { text, sizeof(text) } };
	struct http_request rq = { .fields = { .at = &field, .count = 1, .capacity = 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(text); i += 2)
		memcpy(text + i, "\"\\", 2);
	for (int i = 0; i < 100; i++)
		assert_int_equal(verdict_vary_value(&rq, VIEW("foo"), out, sizeof(out)), sizeof(text));
}

static void test_a_long_vary_value_is_hashed(void **state)
{
	char a[VERDICT_VARY_VALUE_MIN], b[VERDICT_VARY_VALUE_MIN];
	struct view hashed = vary_value("X: " EIGHTY "\n", "x", a);

	(void)state;
	assert_true(view_eq(hashed, vary_value("X: " EIGHTY "\n", "x", b)));
	assert_false(view_eq(hashed, vary_value("X: " EIGHTY "0\n", "x", b)));
	assert_false(view_eq(hashed, vary_value("X: " EIGHTY "\nX: a\n", "x", b)));
	/* No value can be made to equal a hash: values don't begin with a space. */
	assert_int_equal(hashed.p[0], ' ');
}

/* --- what the origin is told ------------------------------------------------------------------- */

static const struct {
	const char *rfc, *what, *name, *request;
	unsigned site;
	enum verdict_reduction want;
	const char *value;
} reductions[] = {
	{ "interface", "codings by default", "Accept-Encoding",
	  "Accept-Encoding: deflate, gzip;q=0.5, br\n", 0, REDUCED, "br, gzip" },
	{ "9110 §12.5.3", "none of those that matter", "accept-encoding",
	  "Accept-Encoding: deflate\n", 0, REDUCED, "identity" },
	{ "9110 §12.5.3", "an empty one", "accept-encoding", "Accept-Encoding:\n", 0, REDUCED,
	  "identity" },
	{ "9110 §12.5.3", "its absence is something else", "accept-encoding", NULL, 0, REDUCED_NOT, NULL },
	{ "interface", "switched off", "accept-encoding", "Accept-Encoding: br\n", AS_SENT,
	  REDUCED_NOT, NULL },
	{ "interface", "languages only by choice", "accept-language", "Accept-Language: en\n", 0,
	  REDUCED_NOT, NULL },
	{ "9110 §12.5.4", "the best of the site's", "accept-language",
	  "Accept-Language: fr, de;q=0.5, en;q=0.8\n", LANGUAGES, REDUCED, "en" },
	{ "4647 §3.4", "by lookup", "accept-language", "Accept-Language: en-GB\n", LANGUAGES,
	  REDUCED, "en" },
	{ "choice", "none of them", "accept-language", "Accept-Language: fr\n", LANGUAGES,
	  REDUCED_AWAY, NULL },
	{ "choice", "nor asked for", "accept-language", NULL, LANGUAGES, REDUCED_AWAY, NULL },
	{ "interface", "other fields never", "accept", "Accept: text/html\n", LANGUAGES,
	  REDUCED_NOT, NULL },
};

static void test_reductions(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(reductions); i++) {
		struct lines l;
		struct http_request rq = request_of(&l, METHOD_GET, reductions[i].request);
		struct conf_cache site = site_of(reductions[i].site);
		char out[VERDICT_VARY_VALUE_MIN];
		size_t n = 0;
		enum verdict_reduction got = verdict_reduce(&rq, view_str(reductions[i].name),
							    &site, out, sizeof(out), &n);
		if (got != reductions[i].want ||
		    (got == REDUCED && !view_eq(view_of(out, n), view_str(reductions[i].value))))
			fault(reductions[i].rfc, reductions[i].what, "%d, %.*s", got, (int)n, out);
	}
	table_ends();
}

static void test_reduced_values_are_keyed(void **state)
{
	struct lines l;
	struct http_request rq = request_of(
		&l, METHOD_GET, "Accept-Encoding: gzip, br\nAccept-Language: fr\nFoo: a , b\n");
	struct conf_cache site = site_of(LANGUAGES);
	char out[VERDICT_VARY_VALUE_MIN];

	(void)state;
	size_t n = verdict_reduced_value(&rq, VIEW("accept-encoding"), &site, out, sizeof(out));
	assert_true(view_eq(view_of(out, n), VIEW("br, gzip")));
	assert_int_equal(verdict_reduced_value(&rq, VIEW("accept-language"), &site, out, sizeof(out)),
			 0);
	n = verdict_reduced_value(&rq, VIEW("foo"), &site, out, sizeof(out));
	assert_true(view_eq(view_of(out, n), VIEW("a,b")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vary_rules),
		cmocka_unit_test(test_vary_values),
		cmocka_unit_test(test_quotes_that_never_close),
		cmocka_unit_test(test_a_long_vary_value_is_hashed),
		cmocka_unit_test(test_reductions),
		cmocka_unit_test(test_reduced_values_are_keyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
