/* The command line of brim. */
#include "edge/cli.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static char fault[CLI_FAULT_BYTES];

#define PARSE(cli, ...) parse(cli, (char *[]){ "brim", ##__VA_ARGS__, NULL })

static int parse(struct cli *cli, char **argv)
{
	int argc = 0;

	while (argv[argc] != NULL)
		argc++;
	fault[0] = '\0';
	*cli = (struct cli){ 0 };
	return cli_parse(argc, argv, cli, fault);
}

static void a_file_or_the_default(void **state)
{
	struct cli cli;

	(void)state;
	assert_int_equal(PARSE(&cli), 0);
	assert_int_equal(cli.action, CLI_RUN);
	assert_string_equal(cli.options.file, "/etc/brim/brim.json");
	assert_int_equal(PARSE(&cli, "-c", "a.json"), 0);
	assert_string_equal(cli.options.file, "a.json");
	assert_int_equal(PARSE(&cli, "-t", "-c", "a.json"), 0);
	assert_int_equal(cli.action, CLI_CHECK);
	assert_string_equal(cli.options.file, "a.json");
}

static void quick_options(void **state)
{
	struct cli cli;

	(void)state;
	assert_int_equal(
		PARSE(&cli, "--origin", "http://a", "--listen=127.0.0.1:1", "--size", "1GiB"), 0);
	assert_null(cli.options.file);
	assert_string_equal(cli.options.quick.origin, "http://a");
	assert_string_equal(cli.options.quick.listen, "127.0.0.1:1");
	assert_string_equal(cli.options.quick.size, "1GiB");
	assert_null(cli.options.quick.store);
}

static void other_actions(void **state)
{
	struct cli cli;

	(void)state;
	assert_int_equal(PARSE(&cli, "-V"), 0);
	assert_int_equal(cli.action, CLI_VERSION);
	assert_int_equal(PARSE(&cli, "--help"), 0);
	assert_int_equal(cli.action, CLI_HELP);
	assert_int_equal(PARSE(&cli, "--dump-schema"), 0);
	assert_int_equal(cli.action, CLI_SCHEMA);
	assert_int_equal(PARSE(&cli, "-V", "-h"), 0);
	assert_int_equal(cli.action, CLI_HELP);
}

static void bad_usage(void **state)
{
	struct cli cli;

	(void)state;
	assert_int_equal(PARSE(&cli, "-x"), -EINVAL);
	assert_string_equal(fault, "unknown option -x");
	assert_int_equal(PARSE(&cli, "--orig", "http://a"), -EINVAL); /* no abbreviations */
	assert_int_equal(PARSE(&cli, "file.json"), -EINVAL);
	assert_string_equal(fault, "unexpected file.json");
	assert_int_equal(PARSE(&cli, "-c"), -EINVAL);
	assert_string_equal(fault, "-c needs a value");
	assert_int_equal(PARSE(&cli, "-c", "a", "-c", "b"), -EINVAL);
	assert_int_equal(PARSE(&cli, "-c", "a", "--origin", "http://a"), -EINVAL);
	assert_int_equal(PARSE(&cli, "--listen", "127.0.0.1:1"), -EINVAL);
	assert_int_equal(PARSE(&cli, "--help=yes"), -EINVAL);
	assert_int_equal(PARSE(&cli, ""), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_or_the_default),
		cmocka_unit_test(quick_options),
		cmocka_unit_test(other_actions),
		cmocka_unit_test(bad_usage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
