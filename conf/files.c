/*
 * Certificates, keys, tokens: files that the configuration names and children never open. The master reads each
 * once, when the key that names it is read (so that a fault has that key's place), and keeps the contents in the
 * merged text:
 *
 *   "x-files": { "public":    { PATH: base64, … },    certificates, OCSP responses, CAs
 *                "secret":    { PATH: base64, … },    private keys, ticket keys
 *                "tokens":    { PATH: base64, … },    SHA-256 of each
 *                "directory": [ { "certificate": PATH, "key": PATH, "ocsp": PATH }, … ] }
 *
 * A child finds them there by the same paths. What isn't there was left out (the keeper gets no site's key) or never
 * read (a candidate that was sent to the admin API), and is empty. Contents are base64, not strings: a file is
 * what it is, and JSON has no bytes.
 */
#include "conf/files.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "edge/base/base64.h"
#include "edge/base/hash.h"

enum { TOKEN_BYTES_MIN = 16, TOKEN_BYTES_MAX = 1024, SHA256_BYTES = 32 };

static const char *const groups[] = { [CONF_FILE_PUBLIC] = "public", [CONF_FILE_SECRET] = "secret" };
static const char tokens[] = "tokens", directory[] = "directory";

/* --- the tree */

/* A member of the tree, made where it is missing; NULL: no memory. */
static cJSON *group_of(struct conf_reader *r, const char *name, cJSON *(*make)(void))
{
	cJSON *group = cJSON_GetObjectItemCaseSensitive(r->files->tree, name);

	if (group != NULL || !r->files->read)
		return group;
	group = make();
	if (group == NULL || !cJSON_AddItemToObject(r->files->tree, name, group)) {
		cJSON_Delete(group);
		r->exhausted = true;
		return NULL;
	}
	return group;
}

static bool keep(struct conf_reader *r, const char *group, struct view path, struct view contents)
{
	cJSON *files = group_of(r, group, cJSON_CreateObject), *added = NULL;
	size_t bytes = BASE64_BYTES(contents.n) + 1;
	char *text = malloc(bytes);

	if (text != NULL && files != NULL) {
		base64_encode(contents, text);
		added = cJSON_AddStringToObject(files, path.p, text);
		explicit_bzero(text, bytes);
	}
	free(text);
	r->exhausted |= added == NULL;
	return added != NULL;
}

/* NULL: it isn't there. */
static const char *kept(const struct conf_reader *r, const char *group, struct view path)
{
	const cJSON *files = r->files == NULL
				     ? NULL
				     : cJSON_GetObjectItemCaseSensitive(r->files->tree, group);
	const cJSON *file = cJSON_GetObjectItemCaseSensitive(files, path.p);

	return cJSON_GetStringValue(file);
}

static bool decode(struct conf_reader *r, const char *text, struct view *out)
{
	struct view v = view_str(text);
	char *bytes = conf_reader_alloc(r, v.n / 4 * 3 + 1);
	size_t n;

	if (bytes == NULL)
		return false;
	if (base64_decode(v, bytes, &n) < 0) {
		conf_reader_fault(r, "its file's contents are damaged");
		return false;
	}
	*out = view_of(bytes, n);
	return true;
}

/* --- the disk */

/* What is wrong with an open file, as the end of a sentence; NULL: nothing. */
static const char *file_fault(int fd, enum conf_file_kind kind)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return strerror(errno);
	if (!S_ISREG(status.st_mode))
		return "is not a file";
	if (status.st_size == 0)
		return "is empty";
	if (status.st_size > CONF_FILE_BYTES_MAX)
		return "is larger than 1 MiB";
	if (kind == CONF_FILE_SECRET && (status.st_mode & S_IRWXO) != 0)
		return "is open to all users of this machine: chmod 600, or 640";
	return NULL;
}

/* The whole file, or -errno. One byte more than allowed is asked for, since it may grow. */
static ssize_t read_whole(int fd, char buffer[CONF_FILE_BYTES_MAX + 1])
{
	size_t n = 0;

	while (n <= CONF_FILE_BYTES_MAX) {
		ssize_t got = read(fd, buffer + n, CONF_FILE_BYTES_MAX + 1 - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	return n <= CONF_FILE_BYTES_MAX ? (ssize_t)n : -EFBIG;
}

/* Whoever finds the certificate in a dump of the keeper would find the key with it. */
static bool holds_key(struct view contents)
{
	static const char mark[] = "PRIVATE KEY-----";

	return memmem(contents.p, contents.n, mark, sizeof(mark) - 1) != NULL;
}

static bool take_contents(struct conf_reader *r, enum conf_file_kind kind, struct view path,
			  struct view contents)
{
	r->files->bytes += contents.n;
	if (r->files->bytes > CONF_FILES_BYTES_MAX)
		conf_reader_fault(r, "%s: all files together have more than 48 MiB", path.p);
	else if (kind == CONF_FILE_PUBLIC && holds_key(contents))
		conf_reader_fault(r, "%s holds a private key, too: put it into a file of its own",
				  path.p);
	else
		return keep(r, groups[kind], path, contents);
	return false;
}

static bool take_token(struct conf_reader *r, enum conf_file_kind kind, struct view path,
		       struct view contents)
{
	uint8_t digest[SHA256_BYTES];

	(void)kind;
	while (contents.n > 0 &&
	       (contents.p[contents.n - 1] == '\n' || contents.p[contents.n - 1] == '\r'))
		contents.n--;
	for (size_t i = 0; i < contents.n; i++) {
		if (contents.p[i] <= ' ' || contents.p[i] >= 0x7f) {
			conf_reader_fault(r, "%s must hold one line of printable ASCII without spaces",
					  path.p);
			return false;
		}
	}
	if (contents.n < TOKEN_BYTES_MIN || contents.n > TOKEN_BYTES_MAX) {
		conf_reader_fault(r, "%s must hold a token of %d to %d characters (openssl rand -hex 32)",
				  path.p, TOKEN_BYTES_MIN, TOKEN_BYTES_MAX);
		return false;
	}
	hash_sha256(contents, digest);
	return keep(r, tokens, path, view_of((const char *)digest, sizeof(digest)));
}

typedef bool (*taker)(struct conf_reader *r, enum conf_file_kind kind, struct view path,
		      struct view contents);

static bool read_open_file(struct conf_reader *r, enum conf_file_kind kind, struct view path,
			   int fd, taker take)
{
	const char *wrong = file_fault(fd, kind);
	char *buffer = wrong == NULL ? malloc(CONF_FILE_BYTES_MAX + 1) : NULL;
	ssize_t n = buffer == NULL ? -ENOMEM : read_whole(fd, buffer);
	bool taken = false;

	if (wrong != NULL)
		conf_reader_fault(r, "%s %s", path.p, wrong);
	else if (n < 0)
		conf_reader_fault(r, "can't read %s: %s", path.p, strerror((int)-n));
	else
		taken = take(r, kind, path, view_of(buffer, (size_t)n));
	if (buffer != NULL && n > 0)
		explicit_bzero(buffer, (size_t)n);
	free(buffer);
	return taken;
}

/* O_NONBLOCK: a pipe must not hold the master up. */
static bool read_file(struct conf_reader *r, enum conf_file_kind kind, struct view path, taker take)
{
	int fd = open(path.p, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0) {
		conf_reader_fault(r, "can't read %s: %s", path.p, strerror(errno));
		return false;
	}
	bool taken = read_open_file(r, kind, path, fd, take);

	close(fd);
	return taken;
}

bool conf_file_read(struct conf_reader *r, enum conf_file_kind kind, struct view path, struct view *out)
{
	const char *text = kept(r, groups[kind], path);

	if (text == NULL && r->files != NULL && r->files->read) {
		if (!read_file(r, kind, path, take_contents))
			return false;
		text = kept(r, groups[kind], path);
	}
	if (text == NULL) {
		*out = VIEW("");
		return true;
	}
	return decode(r, text, out);
}

bool conf_file_token(struct conf_reader *r, struct view path, uint8_t out[SHA256_BYTES])
{
	const char *text = kept(r, tokens, path);
	struct view digest;

	if (text == NULL && r->files != NULL && r->files->read) {
		if (!read_file(r, CONF_FILE_SECRET, path, take_token))
			return false;
		text = kept(r, tokens, path);
	}
	memset(out, 0, SHA256_BYTES);
	if (text == NULL)
		return true;
	if (!decode(r, text, &digest))
		return false;
	if (digest.n != SHA256_BYTES) {
		conf_reader_fault(r, "its file's contents are damaged");
		return false;
	}
	memcpy(out, digest.p, SHA256_BYTES);
	return true;
}

/* --- a directory */

/* "NAME.pem" → the length of NAME; 0: another kind of file. */
static size_t stem_of(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return name[0] != '.' && n > m && strcmp(name + n - m, suffix) == 0 ? n - m : 0;
}

static int is_certificate(const struct dirent *entry)
{
	return stem_of(entry->d_name, ".pem") > 0 || stem_of(entry->d_name, ".crt") > 0;
}

static bool add_path(struct conf_reader *r, cJSON *pair, const char *name, const char *path)
{
	bool added = cJSON_AddStringToObject(pair, name, path) != NULL;

	r->exhausted |= !added;
	return added;
}

/* The pair of a certificate's file: its key must be there, an OCSP response may. */
static bool list_pair(struct conf_reader *r, cJSON *list, const char *folder, const char *name)
{
	size_t stem = stem_of(name, ".pem") > 0 ? stem_of(name, ".pem") : stem_of(name, ".crt");
	char path[PATH_MAX], beside[PATH_MAX];
	cJSON *pair = cJSON_CreateObject();

	if (pair == NULL || !cJSON_AddItemToArray(list, pair)) {
		cJSON_Delete(pair);
		r->exhausted = true;
		return false;
	}
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path)) {
		conf_reader_fault(r, "%s/%s is too long a name", folder, name);
		return false;
	}
	(void)snprintf(beside, sizeof(beside), "%s/%.*s.key", folder, (int)stem, name);
	if (access(beside, F_OK) != 0) {
		conf_reader_fault(r, "%s has no key: there is no %s", path, beside);
		return false;
	}
	if (!add_path(r, pair, "certificate", path) || !add_path(r, pair, "key", beside))
		return false;
	(void)snprintf(beside, sizeof(beside), "%s/%.*s.ocsp", folder, (int)stem, name);
	return access(beside, F_OK) != 0 || add_path(r, pair, "ocsp", beside);
}

static bool list_directory(struct conf_reader *r, struct view folder)
{
	cJSON *list = group_of(r, directory, cJSON_CreateArray);
	struct dirent **entries;
	int count = scandir(folder.p, &entries, is_certificate, alphasort);
	bool good = list != NULL;

	if (count < 0) {
		conf_reader_fault(r, "can't read %s: %s", folder.p, strerror(errno));
		return false;
	}
	if (count == 0 || count > CONF_DIRECTORY_MAX) {
		conf_reader_fault(r, "%s holds %s certificates (NAME.pem or NAME.crt, with NAME.key)",
				  folder.p, count == 0 ? "no" : "more than 1000");
		good = false;
	}
	for (int i = 0; i < count; i++) {
		good = good && list_pair(r, list, folder.p, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return good;
}

static bool read_pair(struct conf_reader *r, const cJSON *pair, struct conf_certificate *out)
{
	struct {
		const char *name;
		enum conf_file_kind kind;
		struct view *path, *contents;
	} parts[] = {
		{ "certificate", CONF_FILE_PUBLIC, &out->certificate_path, &out->certificate },
		{ "key", CONF_FILE_SECRET, &out->key_path, &out->key },
		{ "ocsp", CONF_FILE_PUBLIC, &out->ocsp_path, &out->ocsp },
	};

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		const char *path = cJSON_GetStringValue(
			cJSON_GetObjectItemCaseSensitive(pair, parts[i].name));

		if (path == NULL)
			continue;
		*parts[i].path = conf_reader_copy(r, view_str(path));
		if (!conf_file_read(r, parts[i].kind, *parts[i].path, parts[i].contents))
			return false;
	}
	return true;
}

bool conf_file_directory(struct conf_reader *r, struct view path, struct conf_certificate **out,
			 size_t *out_count)
{
	const cJSON *list, *pair;
	size_t count = 0;

	if (r->files != NULL && r->files->read && !list_directory(r, path))
		return false;
	list = r->files == NULL ? NULL : cJSON_GetObjectItemCaseSensitive(r->files->tree, directory);
	struct conf_certificate *pairs = conf_reader_alloc(r, (size_t)cJSON_GetArraySize(list) *
								      sizeof(*pairs));

	if (pairs == NULL)
		return false;
	cJSON_ArrayForEach(pair, list)
	{
		if (!read_pair(r, pair, &pairs[count++]))
			return false;
	}
	*out = pairs;
	*out_count = count;
	return true;
}
