/* Files: includes, merging, and faults that name the file to mend. */
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/conf/testing.h"

static char directory[64];

static int make_directory(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/brim-conf-test-XXXXXX");
	return mkdtemp(directory) == NULL;
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *ftw)
{
	(void)status;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int remove_directory(void **state)
{
	(void)state;
	return nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static void write_file(const char *name, const char *text)
{
	char *json = quoted(text);
	FILE *f = fopen(path_of(name), "w");

	assert_non_null(f);
	assert_true(fputs(json, f) >= 0);
	assert_int_equal(fclose(f), 0);
	free(json);
}

/* Reads main.json: the error, and what was told with the directory left out. */
static int read_main(char told[4096], char **out_text)
{
	struct told t;
	int err;
	size_t n = 0;

	told_begin(&t);
	err = conf_read(path_of("main.json"), &t.faults, out_text);
	for (const char *c = told_text(&t); *c != '\0' && n < 4095;) {
		size_t skip = strncmp(c, directory, strlen(directory)) == 0 ? strlen(directory) + 1 : 0;

		if (skip == 0)
			told[n++] = *c++;
		c += skip;
	}
	told[n] = '\0';
	told_end(&t);
	return err;
}

static void assert_told(int err, const char *expected)
{
	char told[4096], *text = NULL;

	assert_int_equal(read_main(told, &text), err);
	assert_string_equal(told, expected);
	assert_null(text);
}

static void merges_what_is_included(void **state)
{
	char told[4096], *text = NULL;
	struct conf *c;
	struct told t;

	(void)state;
	assert_int_equal(mkdir(path_of("sites.d"), 0700), 0);
	write_file("main.json",
		   "{ // the node\n" BASE ", 'include': ['sites.d/*.json', 'none*.json'],"
		   "'workers': 'auto', 'sites': [{'hosts': 'm', 'origin': 'b'}]}");
	write_file("sites.d/b.json",
		   "{'origins': {'b': {'servers': [{'url': 'http://b'}]}},"
		   " 'sites': [{'hosts': 'b', 'origin': 'b'}], 'include': 'deep'}");
	write_file("sites.d/a.json", "{'sites': [{'hosts': 'a', 'origin': 'b'}]}");
	write_file("sites.d/deep", "{'log': {'error': {'level': 'warn'}}, 'sites': []}");
	assert_int_equal(read_main(told, &text), 0);
	assert_string_equal(told, "");
	assert_null(strstr(text, "auto"));
	assert_null(strstr(text, "include"));
	told_begin(&t);
	assert_int_equal(conf_build(view_str(text), 1, &t.faults, &c), 0);
	assert_int_equal(c->site_count, 3);
	assert_view(c->sites[0].name, "m");
	assert_view(c->sites[1].name, "a");
	assert_view(c->sites[2].name, "b");
	assert_int_equal(c->error_level, LOG_LEVEL_WARN);
	conf_unref(c);
	free(text);
	told_end(&t);
}

static void names_the_file_to_mend(void **state)
{
	(void)state;
	assert_int_equal(mkdir(path_of("sites.d"), 0700), 0);
	write_file("main.json",
		   "{" BASE ", " ORIGINS ", " SITES ", 'include': ['sites.d/*'], 'x': 1}");
	write_file("sites.d/a",
		   "{'origins': {'shop': {}, 'b': {'servers': [{'url': 'b'}]}}, 'name': 'n'}");
	write_file("sites.d/b", "{'name': 'm', 'sites': [{'hosts': 'z', 'origin': 'shop'},"
				" {'hosts': 'shop.example', 'origin': 'shpo', 'name': 'other'}]}");
	assert_told(
		-EINVAL,
		"sites.d/a: /origins/shop: is in main.json already: keep one of them\n"
		"sites.d/b: /name: is in sites.d/a already: keep one of them\n"
		"main.json: /x: unknown key\n"
		"sites.d/a: /origins/b/servers/0/url: must be a URL like \"http://10.0.0.5:8080\"\n"
		"sites.d/b: /sites/1/origin: there is no origin \"shpo\", did you mean \"shop\"?\n"
		"sites.d/b: /sites/1/hosts/0: \"shop.example\" is already a host of the site "
		"\"shop.example\"\n");
}

static void a_duplicate_alone_is_a_fault(void **state)
{
	(void)state;
	write_file("main.json", "{" BASE ", " ORIGINS ", 'include': 'a'}");
	write_file("a", "{" ORIGINS "}");
	assert_told(-EINVAL, "a: /origins/shop: is in main.json already: keep one of them\n");
}

static void syntax_faults_end_it_before_the_cross_checks(void **state)
{
	(void)state;
	write_file("main.json",
		   "{" BASE ", " SITES ", 'include': ['a', 'b', 'c', 'main.json', 'a']}");
	write_file("a", "{'origins':\n  oops}");
	write_file("b", "[]");
	assert_told(-EINVAL, "a:2:3: strings and keys stand in double quotes\n"
			     "b: must be an object: {…}\n"
			     "main.json: /include/2: there is no file c\n"
			     "main.json: is included twice\n"
			     "a: is included twice\n");
}

static void tells_of_wrong_shapes(void **state)
{
	(void)state;
	write_file("main.json", "{" BASE ", 'include': [1], 'sites': {}, 'origins': []}");
	assert_told(-EINVAL, "main.json: /sites: must be a list of objects: [{…}]\n"
			     "main.json: /origins: must be an object: {…}\n"
			     "main.json: /include/0: must be a string\n");
}

static void a_file_that_is_not_there(void **state)
{
	(void)state;
	assert_told(-ENOENT, "main.json: No such file or directory\n");
}

static void a_file_that_is_too_large(void **state)
{
	(void)state;
	write_file("main.json", "{}");
	assert_int_equal(truncate(path_of("main.json"), (16 << 20) + 1), 0);
	assert_told(-EINVAL, "main.json: is larger than 16 MiB\n");
}

static void the_user_must_exist_where_it_counts(void **state)
{
	char told[4096], *text = NULL;

	(void)state;
	write_file("main.json", "{" LISTENERS ", " STORES ", 'user': 'nobody-of-this-name'}");
	int err = read_main(told, &text);

	assert_int_equal(err, geteuid() == 0 ? -EINVAL : 0);
	assert_int_equal(strstr(told, "main.json: /user: there is no user") != NULL, geteuid() == 0);
	free(text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)
	const struct CMUnitTest tests[] = {
		TEST(merges_what_is_included),
		TEST(names_the_file_to_mend),
		TEST(a_duplicate_alone_is_a_fault),
		TEST(syntax_faults_end_it_before_the_cross_checks),
		TEST(tells_of_wrong_shapes),
		TEST(a_file_that_is_not_there),
		TEST(a_file_that_is_too_large),
		TEST(the_user_must_exist_where_it_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
