/*
 * Assertions for our own bugs, never for bytes from a peer, a disk or a file.
 * They stay on in release builds: a worker that would go on with a broken
 * object is worse than a worker that is replaced in under a second.
 */
#ifndef BRIM_BASE_CHECK_H
#define BRIM_BASE_CHECK_H

#include <stdint.h>

_Noreturn void check_failed(const char *file, int line, const char *what);

#define CHECK(condition)                                              \
	do {                                                          \
		if (__builtin_expect(!(condition), 0))                \
			check_failed(__FILE__, __LINE__, #condition); \
	} while (0)

/* A long-lived struct begins with «uint32_t magic»; it is checked where it crosses a callback. */
#define CHECK_MAGIC(pointer, value) CHECK((pointer) != NULL && (pointer)->magic == (value))

#define NODISCARD __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#endif
