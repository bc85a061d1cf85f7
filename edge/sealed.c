/* memfd_create and file seals; see sealed.h. */
#include "edge/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

static int write_all(int fd, struct view text)
{
	while (text.n > 0) {
		ssize_t n = write(fd, text.p, text.n);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			text = view_skip(text, (size_t)n);
	}
	return 0;
}

int sealed_write(const char *name, struct view text)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, text);
	if (r == 0 && fcntl(fd, F_ADD_SEALS, SEALS) != 0)
		r = -errno;
	if (r != 0) {
		close(fd);
		return r;
	}
	return fd;
}

static int read_all(int fd, char *out, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t got = pread(fd, out + have, n - have, (off_t)have);

		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == 0)
			return -EIO;
		if (got > 0)
			have += (size_t)got;
	}
	return 0;
}

int sealed_read(int fd, char **out_text, size_t *out_bytes)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	char *text;
	int r;

	if (seals < 0)
		return -errno;
	if ((seals & SEALS) != SEALS)
		return -EPERM;
	if (fstat(fd, &st) != 0)
		return -errno;
	text = malloc((size_t)st.st_size + 1);
	if (text == NULL)
		return -ENOMEM;
	r = read_all(fd, text, (size_t)st.st_size);
	if (r != 0) {
		free(text);
		return r;
	}
	text[st.st_size] = '\0';
	*out_text = text;
	*out_bytes = (size_t)st.st_size;
	return 0;
}
