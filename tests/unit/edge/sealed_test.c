/* Sealed texts. */
#include "edge/sealed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static void what_was_written_is_read(void **state)
{
	int fd = sealed_write("test", VIEW("a text"));
	char *text;
	size_t bytes;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(sealed_read(fd, &text, &bytes), 0);
	assert_int_equal(bytes, 6);
	assert_string_equal(text, "a text");
	free(text);
	assert_int_equal(sealed_read(fd, &text, &bytes), 0); /* the offset is nobody's */
	free(text);
	close(fd);
}

static void nobody_can_change_it(void **state)
{
	int fd = sealed_write("test", VIEW("a text"));

	(void)state;
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_ptr_equal(mmap(NULL, 6, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	close(fd);
}

static void what_is_not_sealed_is_refused(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *text;
	size_t bytes;

	(void)state;
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(sealed_read(fd, &text, &bytes), -EPERM);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(nobody_can_change_it),
		cmocka_unit_test(what_is_not_sealed_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
