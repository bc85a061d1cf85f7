/* Faults under a map are caught, again and again, and only within the call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/guard.h"

static int read_byte(void *arg)
{
	volatile const char *at = arg;

	return *at;
}

static void test_what_the_call_returns_comes_back(void **state)
{
	char byte = 7;

	(void)state;
	guard_install(); /* cmocka puts handlers of its own around each test */
	assert_int_equal(guard_call(read_byte, &byte), 7);
}

static void test_a_page_behind_the_end_of_its_file(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	void *page;

	(void)state;
	guard_install();
	assert_int_equal(ftruncate(fd, 4096), 0);
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	assert_int_equal(guard_call(read_byte, page), 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(guard_call(read_byte, page), -EFAULT);
	munmap(page, 4096);
	close(fd);
}

static void test_an_address_that_is_nobodys(void **state)
{
	void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	guard_install();
	assert_ptr_not_equal(page, MAP_FAILED);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(guard_call(read_byte, page), -EFAULT);
	munmap(page, 4096);
}

static void test_outside_a_call_it_is_a_fault(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0) {
		void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		guard_install();
		close(2); /* a sanitizer's report would be noise */
		(void)read_byte(page);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_the_call_returns_comes_back),
		cmocka_unit_test(test_a_page_behind_the_end_of_its_file),
		cmocka_unit_test(test_an_address_that_is_nobodys),
		cmocka_unit_test(test_outside_a_call_it_is_a_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
