/* SHA-256 against a known answer; parts can't be confused; threads don't disturb each other. */
#include "edge/base/hash.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void known_answer(void **state)
{
	/* printf '\3\0\0\0abc' | sha256sum */
	static const uint8_t expected[16] = { 0x3d, 0xa9, 0x86, 0x5b, 0x43, 0xfa, 0x2e, 0xc4,
					      0x90, 0xf7, 0x8d, 0xa9, 0xdb, 0x16, 0xac, 0xd5 };
	struct view part = VIEW("abc");
	uint8_t out[16];
	uint64_t first;

	(void)state;
	hash_sha256_128(&part, 1, out);
	assert_memory_equal(out, expected, 16);
	memcpy(&first, expected, sizeof(first));
	assert_true(hash_sha256_64(&part, 1) == first);
}

static void parts_do_not_run_together(void **state)
{
	struct view a[] = { VIEW("ab"), VIEW("c") }, b[] = { VIEW("a"), VIEW("bc") };
	struct view c[] = { VIEW("abc"), VIEW("") };

	(void)state;
	assert_true(hash_sha256_64(a, 2) != hash_sha256_64(b, 2));
	assert_true(hash_sha256_64(c, 1) != hash_sha256_64(c, 2));
}

/* However parts fall into the gathering buffer, the digest is that of the whole input. */
static void long_parts(void **state)
{
	static char big[3000];
	uint64_t seen[3];

	(void)state;
	memset(big, 'x', sizeof(big));
	const size_t sizes[] = { 511, 2000, 3000 };
	for (size_t i = 0; i < 3; i++) {
		struct view parts[] = { VIEW("head"), view_of(big, sizes[i]), VIEW("tail") };
		seen[i] = hash_sha256_64(parts, 3);
		assert_true(seen[i] == hash_sha256_64(parts, 3));
		big[sizes[i] - 1] = 'y';
		assert_true(seen[i] != hash_sha256_64(parts, 3));
		big[sizes[i] - 1] = 'x';
	}
	assert_true(seen[0] != seen[1] && seen[1] != seen[2]);
}

/* SHA-256("abc"), FIPS 180-2. */
static void of_one_text(void **state)
{
	static const uint8_t known[32] = { 0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
					   0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
					   0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
					   0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad };
	uint8_t hash[32];

	(void)state;
	hash_sha256(VIEW("abc"), hash);
	assert_true(hash_same(hash, known, sizeof(hash)));
	hash_sha256(VIEW("abd"), hash);
	assert_false(hash_same(hash, known, sizeof(hash)));
}

static void *hash_in_thread(void *out)
{
	struct view part = VIEW("abc");

	*(uint64_t *)out = hash_sha256_64(&part, 1);
	return NULL;
}

static void threads_agree(void **state)
{
	struct view part = VIEW("abc");
	pthread_t threads[4];
	uint64_t got[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hash_in_thread, &got[i]), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_true(got[i] == hash_sha256_64(&part, 1));
	}
}

static void xxh3(void **state)
{
	(void)state;
	assert_true(hash_xxh3("", 0) == 0x2d06800538d394c2ull); /* from the specification */
	assert_true(hash_xxh3("abc", 3) == hash_xxh3_seed("abc", 3, 0));
	assert_true(hash_xxh3("abc", 3) != hash_xxh3_seed("abc", 3, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answer), cmocka_unit_test(parts_do_not_run_together),
		cmocka_unit_test(long_parts),	cmocka_unit_test(threads_agree),
		cmocka_unit_test(xxh3),		cmocka_unit_test(of_one_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
