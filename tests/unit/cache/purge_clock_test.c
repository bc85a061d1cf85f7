/* The purge clock: what is older than a purge that names it, and the letters that ask for one. */
#include "tests/unit/cache/world.h"

#include <sys/wait.h>

enum { FORMS = 1 };

static void purge(struct world *w, struct cache_scope scope, bool soft)
{
	uint64_t number = purge_clock_now(w->shared) + 1;

	purge_clock_raise(w->shared, &scope, soft, number);
	purge_clock_publish(w->shared, number);
}

/* An object in memory, as if it had been opened. */
static struct cache_object object_of(struct world *w, const char *path, const uint64_t *tags,
				     uint16_t tag_count)
{
	static uint64_t next_id = 1;

	return (struct cache_object){
		.cache = w->cache,
		.key = world_key(path),
		.record = { .object_id = next_id++ },
		.meta = { .birth = purge_clock_now(w->shared),
			  .site_hash = SITE,
			  .host_hash = world_host().hash,
			  .url = VIEW("https://shop.example/a/b?c=d"),
			  .tags = tags,
			  .tag_count = tag_count },
	};
}

static void test_each_scope_names_what_it_should(void **state)
{
	const uint64_t tags[] = { 11, 12, cache_scope_tag(SITE, VIEW("red")).hash };
	struct cache_key a = world_key("/a");
	const struct cache_scope hits[] = {
		cache_scope_url(a.primary),
		world_host(),
		cache_scope_site(SITE),
		cache_scope_all(),
		{ .hash = 12, .kind = CACHE_SCOPE_TAG },
		{ .hash = 12, .site_hash = SITE, .kind = CACHE_SCOPE_TAG },
		cache_scope_tag(SITE, VIEW("red")),
		cache_scope_tag(0, VIEW("red")),
		cache_scope_prefix(SITE, VIEW("shop.example"), VIEW("/")),
		cache_scope_prefix(SITE, VIEW("shop.example"), VIEW("/a/")),
		cache_scope_prefix(SITE, VIEW("shop.example"), VIEW("/a/b?c")),
		cache_scope_prefix(SITE, VIEW("shop.example"), VIEW("/a/b?c=d")),
	};
	const struct cache_scope misses[] = {
		cache_scope_url(world_key("/b").primary),
		cache_scope_host(SITE, VIEW("other.example")),
		cache_scope_site(SITE + 1),
		{ .hash = 13, .kind = CACHE_SCOPE_TAG },
		cache_scope_tag(SITE + 1, VIEW("red")),
		cache_scope_tag(SITE, VIEW("blue")),
		cache_scope_tag(0, VIEW("blue")),
		cache_scope_prefix(SITE, VIEW("shop.example"), VIEW("/b")),
		cache_scope_prefix(SITE, VIEW("shop.example"), VIEW("/a/b?c=d&")),
		cache_scope_prefix(SITE, VIEW("shop.example:81"), VIEW("/a/")),
		cache_scope_prefix(SITE, (struct view){ 0 }, VIEW("/a/")),
		cache_scope_prefix(SITE + 1, VIEW("shop.example"), VIEW("/a/")),
	};
	struct world w;

	(void)state;
	world_open(&w);
	for (unsigned soft = 0; soft < 2; soft++) {
		for (unsigned i = 0; i < ARRAY_LEN(hits); i++) {
			struct cache_object o = object_of(&w, "/a", tags, ARRAY_LEN(tags));

			assert_int_equal(cache_object_purged(&o, FORMS), CACHE_NOT_PURGED);
			purge(&w, hits[i], soft);
			assert_int_equal(cache_object_purged(&o, FORMS),
					 soft ? CACHE_SOFT_PURGED : CACHE_HARD_PURGED);
			assert_int_equal(cache_object_purged(&o, FORMS),
					 soft ? CACHE_SOFT_PURGED : CACHE_HARD_PURGED);
		}
	}
	for (unsigned i = 0; i < ARRAY_LEN(misses); i++) {
		struct cache_object o = object_of(&w, "/a", tags, ARRAY_LEN(tags));

		purge(&w, misses[i], false);
		assert_int_equal(cache_object_purged(&o, FORMS), CACHE_NOT_PURGED);
	}
	world_close(&w);
}

static struct cache_scope path_under(uint32_t forms)
{
	return cache_scope_path(SITE, VIEW("/a/b"), forms);
}

/* A purge under other keys than those of who asks names the path; under the same it doesn't, unless there were others since. */
static void test_a_url_that_was_purged_under_other_keys(void **state)
{
	enum { OTHER = FORMS + 2 };
	struct cache_scope elsewhere = cache_scope_path(SITE, VIEW("/x"), OTHER);
	struct cache_object o, after;
	struct world w;

	(void)state;
	world_open(&w);
	o = object_of(&w, "/a", NULL, 0);
	purge(&w, path_under(FORMS), false);
	assert_int_equal(cache_object_purged(&o, FORMS), CACHE_NOT_PURGED);
	assert_int_equal(cache_object_purged(&o, OTHER), CACHE_HARD_PURGED);
	purge(&w, elsewhere, false);
	assert_int_equal(cache_object_purged(&o, FORMS), CACHE_NOT_PURGED);
	purge(&w, path_under(OTHER), true);
	assert_int_equal(cache_object_purged(&o, FORMS), CACHE_SOFT_PURGED);
	after = object_of(&w, "/a", NULL, 0);
	purge(&w, path_under(FORMS), false);
	assert_int_equal(cache_object_purged(&after, FORMS), CACHE_HARD_PURGED);
	after = object_of(&w, "/a", NULL, 0);
	purge(&w, path_under(FORMS), false);
	assert_int_equal(cache_object_purged(&after, FORMS), CACHE_NOT_PURGED);
	world_close(&w);
}

/* As after a reload: another snapshot asks, though the clock stands still. */
static void test_what_was_passed_was_passed_for_those_keys(void **state)
{
	struct cache_object o;
	struct world w;

	(void)state;
	world_open(&w);
	o = object_of(&w, "/a", NULL, 0);
	purge(&w, path_under(FORMS), false);
	assert_int_equal(cache_object_purged(&o, FORMS), CACHE_NOT_PURGED);
	assert_int_equal(cache_object_purged(&o, FORMS + 2), CACHE_HARD_PURGED);
	world_close(&w);
}

/* A journal is replayed into a clock that knows more already, oldest or newest first. */
static void test_forms_are_the_same_in_any_order(void **state)
{
	static const struct {
		uint64_t number;
		uint32_t forms;
	} purges[] = { { 3, FORMS }, { 5, FORMS + 2 }, { 8, FORMS } };

	(void)state;
	for (unsigned order = 0; order < 6; order++) {
		const unsigned first = order / 2, second = (first + 1 + order % 2) % 3;
		const unsigned at[] = { first, second, 3 - first - second };
		struct cache_object o = { 0 };
		struct world w;

		world_open(&w);
		o = object_of(&w, "/a", NULL, 0);
		for (unsigned i = 0; i < ARRAY_LEN(at); i++) {
			struct cache_scope scope = path_under(purges[at[i]].forms);

			purge_clock_raise(w.shared, &scope, false, purges[at[i]].number);
		}
		purge_clock_publish(w.shared, 8);
		for (uint64_t birth = 0; birth < 8; birth++) {
			o.meta.birth = birth;
			o.record.object_id += 100;
			assert_int_equal(cache_object_purged(&o, FORMS + 2), CACHE_HARD_PURGED);
			if (birth < 5)
				assert_int_equal(cache_object_purged(&o, FORMS), CACHE_HARD_PURGED);
		}
		world_close(&w);
	}
}

static void test_what_was_passed_is_asked_again_after_a_purge(void **state)
{
	struct world w;
	struct cache_object o;

	(void)state;
	world_open(&w);
	o = object_of(&w, "/a", NULL, 0);
	for (unsigned i = 0; i < 3; i++) {
		purge(&w, cache_scope_site(SITE + 1), false);
		assert_int_equal(cache_object_purged(&o, FORMS), CACHE_NOT_PURGED);
	}
	purge(&w, cache_scope_url(o.key.primary), false);
	assert_int_equal(cache_object_purged(&o, FORMS), CACHE_HARD_PURGED);
	world_close(&w);
}

/* Of stores that were used without each other. */
static void test_what_was_passed_is_of_one_store(void **state)
{
	struct world w;
	struct cache_object o, other;

	(void)state;
	world_open(&w);
	o = object_of(&w, "/a", NULL, 0);
	other = object_of(&w, "/b", NULL, 0);
	other.record.object_id = o.record.object_id;
	other.record.store = o.record.store + 1;
	purge(&w, cache_scope_url(other.key.primary), false);
	assert_int_equal(cache_object_purged(&o, FORMS), CACHE_NOT_PURGED);
	assert_int_equal(cache_object_purged(&other, FORMS), CACHE_HARD_PURGED);
	world_close(&w);
}

static void test_born_after_the_purge_is_served(void **state)
{
	struct world w;
	struct cache_object o;

	(void)state;
	world_open(&w);
	purge(&w, cache_scope_all(), false);
	o = object_of(&w, "/a", NULL, 0);
	assert_int_equal(cache_object_purged(&o, FORMS), CACHE_NOT_PURGED);
	purge(&w, cache_scope_site(SITE + 1), false);
	assert_int_equal(cache_object_purged(&o, FORMS), CACHE_NOT_PURGED);
	world_close(&w);
}

/* A replay of old journals must not lower anything. */
static void test_cells_and_clock_only_rise(void **state)
{
	struct world w;
	struct cache_scope all = cache_scope_all();
	struct cache_key key = world_key("/a");
	struct cache_names names = world_names(&key);
	uint64_t number;

	(void)state;
	world_open(&w);
	purge_clock_raise(w.shared, &all, false, 100);
	purge_clock_publish(w.shared, 100);
	purge_clock_raise(w.shared, &all, false, 7);
	purge_clock_publish(w.shared, 7);
	assert_int_equal(purge_clock_now(w.shared), 100);
	assert_int_equal(purge_clock_names(w.shared, &names, 99, &number), CACHE_HARD_PURGED);
	assert_int_equal(number, 100);
	assert_int_equal(purge_clock_names(w.shared, &names, 100, &number), CACHE_NOT_PURGED);
	world_close(&w);
}

/* 100,000 purged scopes: false purges are rare (the design says one in 75,000 probes). */
static void test_few_false_purges(void **state)
{
	struct world w;
	struct cache_key key = world_key("/a");
	struct cache_names names = world_names(&key);
	unsigned wrong = 0;

	(void)state;
	world_open(&w);
	for (uint64_t i = 0; i < 100000; i++) {
		struct cache_scope scope = { .hash = i * 0x9e3779b97f4a7c15, .kind = CACHE_SCOPE_TAG };

		purge_clock_raise(w.shared, &scope, false, 1);
	}
	names.tag_count = 1;
	for (uint64_t i = 1; i <= 40000; i++) {
		const uint64_t tag = i * 0x7f4a7c159e3779b9;

		names.tags = &tag;
		wrong += purge_clock_names(w.shared, &names, 0, NULL) != CACHE_NOT_PURGED;
	}
	assert_true(wrong < 200); /* of five scopes each */
	world_close(&w);
}

/* --- letters ------------------------------------------------------------------------------------ */

static void test_a_letter_is_answered(void **state)
{
	struct world w;
	struct cache_scope scope = cache_scope_all();
	struct cache_purge_ask ask = { 0 };
	struct shared_mailbox *m;
	uint64_t sequence = 0;
	uint32_t cursor = 0;

	(void)state;
	world_open(&w);
	assert_int_equal(cache_purge_ask(w.cache, &ask, &scope, 1, true, &w.wake, &sequence),
			 -EINPROGRESS);
	assert_int_equal(cache_purge_ask(w.cache, &ask, &scope, 1, true, &w.wake, &sequence),
			 -EINPROGRESS);
	m = purge_mailbox_take(w.shared, &cursor, false);
	assert_non_null(m);
	assert_int_equal(m->count, 1);
	assert_int_equal(m->soft, 1);
	assert_int_equal(m->scopes[0].kind, CACHE_SCOPE_ALL);
	assert_null(purge_mailbox_take(w.shared, &cursor, false));
	purge_mailbox_answer(w.shared, m, 0, 42);
	world_wait(&w, 0);
	assert_int_equal(cache_purge_ask(w.cache, &ask, &scope, 1, true, &w.wake, &sequence), 0);
	assert_int_equal(sequence, 42);
	assert_int_equal(ask.slot, 0);
	world_close(&w);
}

static void test_a_failed_journal_is_told(void **state)
{
	struct world w;
	struct cache_scope scope = cache_scope_all();
	struct cache_purge_ask ask = { 0 };
	uint64_t sequence;
	uint32_t cursor = 0;

	(void)state;
	world_open(&w);
	assert_int_equal(cache_purge_ask(w.cache, &ask, &scope, 1, false, &w.wake, &sequence),
			 -EINPROGRESS);
	purge_mailbox_answer(w.shared, purge_mailbox_take(w.shared, &cursor, false), -EIO, 0);
	assert_int_equal(cache_purge_ask(w.cache, &ask, &scope, 1, false, &w.wake, &sequence), -EIO);
	world_close(&w);
}

static void test_a_cancelled_letter_is_freed_by_its_answer(void **state)
{
	struct world w;
	struct cache_scope scope = cache_scope_all();
	struct cache_purge_ask asks[SHARED_MAILBOXES] = { { 0 } }, more = { 0 };
	struct shared_mailbox *m;
	uint64_t sequence;
	uint32_t cursor = 0;

	(void)state;
	world_open(&w);
	for (unsigned i = 0; i < SHARED_MAILBOXES; i++)
		assert_int_equal(cache_purge_ask(w.cache, &asks[i], &scope, 1, false, &w.wake, &sequence),
				 -EINPROGRESS);
	assert_int_equal(cache_purge_ask(w.cache, &more, &scope, 1, false, &w.wake, &sequence), -EAGAIN);
	m = purge_mailbox_take(w.shared, &cursor, false);
	cache_purge_ask_cancel(w.cache, &asks[0]);
	cache_purge_ask_cancel(w.cache, &asks[0]);
	/* Taken: the keeper still writes into it. */
	assert_int_equal(cache_purge_ask(w.cache, &more, &scope, 1, false, &w.wake, &sequence), -EAGAIN);
	purge_mailbox_answer(w.shared, m, 0, 1);
	assert_int_equal(cache_purge_ask(w.cache, &more, &scope, 1, false, &w.wake, &sequence),
			 -EINPROGRESS);
	/* Not taken: free at once. */
	cache_purge_ask_cancel(w.cache, &asks[1]);
	assert_int_equal(cache_purge_ask(w.cache, &asks[1], &scope, 1, false, &w.wake, &sequence),
			 -EINPROGRESS);
	world_close(&w);
}

static void test_a_new_keeper_does_what_the_old_one_had_taken(void **state)
{
	struct world w;
	struct cache_scope scope = cache_scope_all();
	struct cache_purge_ask kept = { 0 }, cancelled = { 0 };
	struct shared_mailbox *first, *second;
	uint64_t sequence;
	uint32_t cursor = 0;

	(void)state;
	world_open(&w);
	assert_int_equal(cache_purge_ask(w.cache, &kept, &scope, 1, false, &w.wake, &sequence),
			 -EINPROGRESS);
	assert_int_equal(cache_purge_ask(w.cache, &cancelled, &scope, 1, false, &w.wake, &sequence),
			 -EINPROGRESS);
	first = purge_mailbox_take(w.shared, &cursor, false);
	second = purge_mailbox_take(w.shared, &cursor, false);
	assert_true(first != NULL && second != NULL && first != second);
	cache_purge_ask_cancel(w.cache, &cancelled);
	assert_null(purge_mailbox_take(w.shared, &cursor, false));
	assert_ptr_equal(purge_mailbox_take(w.shared, &cursor, true), first);
	assert_null(purge_mailbox_take(w.shared, &cursor, true));
	assert_int_equal(atomic_load(&second->state), MAILBOX_FREE);
	world_close(&w);
}

static void test_no_letters_while_the_keeper_is_away(void **state)
{
	struct world w;
	struct cache_scope scope = cache_scope_all();
	struct cache_purge_ask ask = { 0 };
	uint64_t sequence;

	(void)state;
	world_open(&w);
	assert_int_equal(cache_purge_ask(w.cache, &ask, &scope, 1, false, &w.wake, &sequence),
			 -EINPROGRESS);
	shared_keeper_gone(w.shared);
	world_wait(&w, 0); /* the tick wakes who asked */
	assert_int_equal(cache_purge_ask(w.cache, &ask, &scope, 1, false, &w.wake, &sequence), -EAGAIN);
	assert_int_equal(cache_purge_ask(w.cache, &ask, &scope, 1, false, &w.wake, &sequence), -EAGAIN);
	world_close(&w);
}

/* Whether it was taken decides what may be said of it. */
static void test_a_keeper_that_goes_away_with_a_letter(void **state)
{
	struct world w;
	struct cache_scope scope = cache_scope_all();
	struct cache_purge_ask ask = { 0 };
	uint64_t sequence;
	uint32_t cursor = 0;

	(void)state;
	world_open(&w);
	assert_int_equal(cache_purge_ask(w.cache, &ask, &scope, 1, false, &w.wake, &sequence),
			 -EINPROGRESS);
	assert_non_null(purge_mailbox_take(w.shared, &cursor, false));
	shared_keeper_gone(w.shared);
	world_wait(&w, 0);
	assert_int_equal(cache_purge_ask(w.cache, &ask, &scope, 1, false, &w.wake, &sequence),
			 -EOWNERDEAD);
	assert_int_equal(ask.slot, 0);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_scope_names_what_it_should),
		cmocka_unit_test(test_what_was_passed_is_asked_again_after_a_purge),
		cmocka_unit_test(test_what_was_passed_is_of_one_store),
		cmocka_unit_test(test_a_url_that_was_purged_under_other_keys),
		cmocka_unit_test(test_what_was_passed_was_passed_for_those_keys),
		cmocka_unit_test(test_forms_are_the_same_in_any_order),
		cmocka_unit_test(test_born_after_the_purge_is_served),
		cmocka_unit_test(test_cells_and_clock_only_rise),
		cmocka_unit_test(test_few_false_purges),
		cmocka_unit_test(test_a_letter_is_answered),
		cmocka_unit_test(test_a_failed_journal_is_told),
		cmocka_unit_test(test_a_cancelled_letter_is_freed_by_its_answer),
		cmocka_unit_test(test_a_new_keeper_does_what_the_old_one_had_taken),
		cmocka_unit_test(test_no_letters_while_the_keeper_is_away),
		cmocka_unit_test(test_a_keeper_that_goes_away_with_a_letter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
