/* Files that a configuration names: read once, by the master, and who gets their contents. */
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "edge/base/hash.h"
#include "tests/unit/conf/testing.h"

static char directory[64];

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

static void write_file(const char *name, struct view contents)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(contents.p, 1, contents.n, f), contents.n);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0640), 0);
}

/* What the files hold says which file it is. */
static int make_directory(void **state)
{
	static const char *const names[] = { "site.pem",   "site.key",	 "site.ocsp", "ca.pem",
					     "client.pem", "client.key", "admin.pem", "admin.key",
					     "pair.crt",   "pair.key" };

	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/brim-files-test-XXXXXX");
	if (mkdtemp(directory) == NULL)
		return 1;
	char path[128];

	snprintf(path, sizeof(path), "%s/pairs", directory);
	assert_int_equal(mkdir(path, 0700), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		bool pair = strncmp(names[i], "pair.", 5) == 0;

		snprintf(path, sizeof(path), "%s%s", pair ? "pairs/" : "", names[i]);
		write_file(path, view_str(names[i]));
	}
	write_file("pairs/.hidden.pem", VIEW("x"));
	write_file("pairs/README", VIEW("x"));
	char keys[80];

	memset(keys, 7, sizeof(keys));
	write_file("tickets", view_of(keys, sizeof(keys)));
	write_file("token", VIEW("0123456789abcdef\n"));
	return 0;
}

/* DIR in it stands for the directory. */
#define WHOLE                                                                                     \
	"{'listeners': [{'address': '127.0.0.1:8080', 'tls': true}], " STORES ", 'user': '',"     \
	" 'origins': {'shop': {'servers': [{'url': 'https://10.0.0.5'}],"                         \
	"  'tls': {'ca': 'DIR/ca.pem', 'certificate': 'DIR/client.pem', 'key': "                  \
	"'DIR/client.key'}}},"                                                                    \
	" 'defaults': {'site': {'tls': {'certificate': 'DIR/site.pem', 'key': 'DIR/site.key'}}}," \
	" 'sites': [{'hosts': ['a'], 'origin': 'shop', 'tls': {'certificate': ['DIR/site.pem'],"  \
	"   'key': ['DIR/site.key'], 'ocsp': 'DIR/site.ocsp', 'client': {'ca': 'DIR/ca.pem'}}},"  \
	"  {'hosts': ['b'], 'origin': 'shop', 'tls': {'early_data': true}}],"                     \
	" 'tls': {'directory': 'DIR/pairs', 'tickets': {'files': ['DIR/tickets']}},"              \
	" 'admin': {'listen': '127.0.0.1:1', 'tls': {'certificate': 'DIR/admin.pem', 'key': "     \
	"'DIR/admin.key'},"                                                                       \
	"  'tokens': [{'name': 'x', 'file': 'DIR/token', 'role': 'purge', 'sites': ['b']}]}}"

static void write_configuration(const char *text)
{
	char *json = quoted(text), *full = NULL, *at = json;
	size_t bytes = 0;
	FILE *f = open_memstream(&full, &bytes);

	for (char *mark; (mark = strstr(at, "DIR")) != NULL; at = mark + 3)
		fprintf(f, "%.*s%s", (int)(mark - at), at, directory);
	fputs(at, f);
	fclose(f);
	write_file("main.json", view_of(full, bytes));
	free(full);
	free(json);
}

static const char *main_file(void)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/main.json", directory);
	return path;
}

static char *read_whole(void)
{
	char *text = NULL, *slotted = NULL;
	struct told t;

	write_configuration(WHOLE);
	told_begin(&t);
	assert_int_equal(conf_read_all(main_file(), NULL, &t.faults, &text), 0);
	assert_int_equal(conf_assign_slots(view_str(text), NULL, &t.faults, &slotted), 0);
	assert_string_equal(told_text(&t), "");
	told_end(&t);
	conf_text_free(text);
	return slotted;
}

static struct conf *build_text(const char *text)
{
	struct conf_faults faults = { 0 };
	struct conf *c = NULL;

	assert_int_equal(conf_build(view_str(text), 1, &faults, &c), 0);
	return c;
}

static void assert_public_part(const struct conf *c)
{
	uint8_t digest[32];

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(c->sites[i].tls.certificate_count, 1);
		assert_view(c->sites[i].tls.certificates[0].certificate, "site.pem");
	}
	assert_view(c->sites[0].tls.certificates[0].ocsp, "site.ocsp");
	assert_view(c->sites[1].tls.certificates[0].ocsp, "");
	assert_view(c->sites[0].tls.client_ca, "ca.pem");
	assert_true(c->sites[1].tls.early_data && !c->sites[0].tls.early_data);
	assert_view(c->origins[0].tls.ca, "ca.pem");
	assert_view(c->origins[0].tls.client.certificate, "client.pem");
	assert_int_equal(c->tls_directory_count, 1);
	assert_view(c->tls_directory[0].certificate, "pair.crt");
	assert_view(c->admin_tls.certificate, "admin.pem");
	assert_view(c->admin_tls.key, "admin.key");
	hash_sha256(VIEW("0123456789abcdef"), digest);
	assert_memory_equal(c->tokens[0].sha256, digest, sizeof(digest));
}

static void workers_get_all(void **state)
{
	char *text = read_whole();
	struct conf *c = build_text(text);

	(void)state;
	assert_public_part(c);
	assert_view(c->sites[0].tls.certificates[0].key, "site.key");
	assert_view(c->sites[1].tls.certificates[0].key, "site.key");
	assert_view(c->origins[0].tls.client.key, "client.key");
	assert_view(c->tls_directory[0].key, "pair.key");
	assert_int_equal(c->ticket_keys.count, 1);
	assert_int_equal(c->ticket_keys.at[0].n, 80);
	assert_true(conf_has_keys(c));
	assert_null(strstr(text, "0123456789abcdef"));
	conf_unref(c);
	conf_text_free(text);
}

static void the_keeper_gets_the_admins_key_alone(void **state)
{
	char *text = read_whole(), *without = conf_without_keys(view_str(text));
	struct conf *whole = build_text(text), *c = build_text(without);

	(void)state;
	assert_public_part(c);
	assert_view(c->sites[0].tls.certificates[0].key, "");
	assert_view(c->origins[0].tls.client.key, "");
	assert_view(c->tls_directory[0].key, "");
	assert_int_equal(c->ticket_keys.count, 0);
	assert_true(conf_has_keys(c));
	assert_int_equal(c->sites[1].slot, whole->sites[1].slot);
	conf_unref(c);
	conf_unref(whole);
	conf_text_free(text);
	conf_text_free(without);
}

/* A candidate that is sent to the admin API, and brimctl's reading of a file. */
static void without_the_files_it_is_a_configuration_all_the_same(void **state)
{
	char *text = NULL;
	struct conf_faults faults = { 0 };

	(void)state;
	write_configuration(WHOLE);
	assert_int_equal(conf_read(main_file(), &faults, &text), 0);
	struct conf *c = build_text(text);

	assert_int_equal(c->sites[0].tls.certificate_count, 1);
	assert_view(c->sites[0].tls.certificates[0].certificate, "");
	assert_false(conf_has_keys(c));
	assert_null(strstr(text, "x-files"));
	conf_unref(c);
	free(text);
}

static void origins_that_differ_in_tls_are_told_apart(void **state)
{
	static const char *const parts[] = { "'verify': true", "'verify': false", "'server_name': 'x'" };
	uint64_t seen[ARRAY_LEN(parts)];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		char text[512];

		snprintf(text, sizeof(text),
			 "{" BASE
			 ", 'origins': {'shop': {'servers': [{'url': 'https://a'}], 'tls': {%s}}}}",
			 parts[i]);
		struct conf *c = build(text);

		seen[i] = c->origins[0].tls_identity;
		assert_true(i == 0 || seen[i] != seen[i - 1]);
		assert_true(c->origins[0].servers[0].tls);
		assert_int_equal(c->origins[0].servers[0].port, 443);
		assert_view(c->origins[0].servers[0].authority, "a");
		conf_unref(c);
	}
	assert_true(seen[0] != seen[2]);
}

static void damaged_contents_are_a_fault(void **state)
{
	struct told t;

	(void)state;
	told_begin(&t);
	assert_null(build_told("{" BASE ", " ORIGINS ", 'sites': [{'hosts': 'a', 'origin': 'shop',"
			       " 'tls': {'certificate': '/c', 'key': '/k'}}],"
			       " 'x-files': {'public': {'/c': 'x'}, 'secret': {'/k': 'eA=='}}}",
			       &t));
	assert_string_equal(told_text(&t),
			    "/sites/0/tls/certificate: its file's contents are damaged\n");
	told_end(&t);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)
	const struct CMUnitTest tests[] = {
		TEST(workers_get_all),
		TEST(the_keeper_gets_the_admins_key_alone),
		TEST(without_the_files_it_is_a_configuration_all_the_same),
		cmocka_unit_test(origins_that_differ_in_tls_are_told_apart),
		cmocka_unit_test(damaged_contents_are_a_fault),
	};

	conf_wipe_freed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
