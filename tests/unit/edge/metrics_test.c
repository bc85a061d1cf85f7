/* Heads of families and labels, in both forms. */
#include "edge/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static char *text;
static size_t text_bytes;

static struct metrics begin(enum metrics_form form)
{
	struct metrics m = { .to = open_memstream(&text, &text_bytes), .form = form };

	assert_non_null(m.to);
	return m;
}

static void assert_wrote(const struct metrics *m, const char *wanted)
{
	assert_int_equal(fclose(m->to), 0);
	assert_string_equal(text, wanted);
	free(text);
}

static void test_which_form(void **state)
{
	(void)state;
	assert_int_equal(metrics_form_for(VIEW("")), METRICS_OPEN);
	assert_int_equal(metrics_form_for(VIEW("*/*")), METRICS_TEXT);
	assert_int_equal(metrics_form_for(VIEW("text/plain;version=0.0.4;q=0.3,*/*;q=0.1")),
			 METRICS_TEXT);
	assert_int_equal(metrics_form_for(VIEW("Application/OpenMetrics-Text")), METRICS_OPEN);
	assert_int_equal(metrics_form_for(VIEW(
				 "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")),
			 METRICS_OPEN);
}

static void test_families(void **state)
{
	struct metrics m = begin(METRICS_OPEN);

	(void)state;
	metrics_family(&m, "x_bytes", "counter", "bytes", "Help.");
	metrics_family(&m, "build", "info", NULL, "Help.");
	assert_wrote(&m, "# TYPE brim_x_bytes counter\n# UNIT brim_x_bytes bytes\n# HELP "
			 "brim_x_bytes Help.\n"
			 "# TYPE brim_build info\n# HELP brim_build Help.\n");
	m = begin(METRICS_TEXT);
	metrics_family(&m, "x_bytes", "counter", "bytes", "Help.");
	metrics_family(&m, "build", "info", NULL, "Help.");
	assert_wrote(&m, "# TYPE brim_x_bytes_total counter\n# HELP brim_x_bytes_total Help.\n"
			 "# TYPE brim_build_info gauge\n# HELP brim_build_info Help.\n");
}

static void test_values(void **state)
{
	struct metrics m = begin(METRICS_OPEN);

	(void)state;
	metrics_label(&m, "site", VIEW("a\"b\\c\nd"));
	metrics_seconds(&m, 12000345);
	metrics_end(&m);
	assert_wrote(&m, "site=\"a\\\"b\\\\c\\nd\"12.000345# EOF\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which_form),
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
