/* Reaching an origin: servers that refuse, names, and max_connections over workers. */
#include "tests/unit/origin/testing.h"

#include "origin/pool.h"

static struct script origin;
static struct world world;
static struct owner owners[3];

static void begin(const char *format, ...) PRINTF_LIKE(1, 2);
static void begin(const char *format, ...)
{
	char members[1024];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(members, sizeof(members), format, args);
	va_end(args);
	memset(owners, 0, sizeof(owners));
	world_begin(&world, members);
}

static void listen_and_run(struct script *s, void (*run)(struct script *s))
{
	script_listen(s);
	script_start(s, run);
}

/* A port that nobody listens on. */
static uint16_t refusing_port(void)
{
	struct script s;

	script_listen(&s);
	script_join(&s);
	return s.port;
}

static void finish(void)
{
	for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
		if (owners[i].w != NULL)
			owner_end(&owners[i]);
	}
	world_end(&world);
}

static void get(struct owner *o)
{
	owner_begin(o, &world, &(struct fetch_request){ .method = METHOD_GET });
}

static void assert_failed(const struct owner *o, enum fetch_error e)
{
	assert_int_equal(o->state, FETCH_FAILED);
	assert_string_equal(fetch_error_type(o->error), fetch_error_type(e));
}

static void one_answer(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	hears_end(fd);
	close(fd);
}

/* --- servers that can't be reached ------------------------------------------------------------ */

static void refusal_goes_to_the_next_server(void **state)
{
	uint16_t refusing = refusing_port();

	(void)state;
	listen_and_run(&origin, one_answer);
	begin("'servers': [{'url': 'http://127.0.0.1:%u', 'weight': 9},"
	      " {'url': 'http://127.0.0.1:%u'}], 'retries': 1",
	      refusing, origin.port);
	get(&owners[0]);
	owner_run(&owners[0]);
	assert_body(&owners[0], "ok");
	assert_int_equal(fetch_server(owners[0].fetch)->port, origin.port);
	owner_end(&owners[0]);
	/* The first is set aside: it isn't asked again (it would win by its weight). */
	const struct pool_server *s = pool_server(world.pool, &world.conf->origins[0].servers[0]);
	assert_int_equal(s->choose.failures, 1);
	assert_true(s->choose.aside_until.ms > loop_now(world.loop).ms);
	finish();
	script_join(&origin);
}

static void retries_are_counted(void **state)
{
	uint16_t refusing = refusing_port();

	(void)state;
	begin("'servers': [{'url': 'http://127.0.0.1:%u'}, {'url': 'http://127.0.0.2:%u'}],"
	      " 'retries': 0",
	      refusing, refusing);
	get(&owners[0]);
	owner_run(&owners[0]);
	assert_failed(&owners[0], FETCH_CONNECTION_REFUSED);
	unsigned failures = 0;
	for (int i = 0; i < 2; i++)
		failures += pool_server(world.pool, &world.conf->origins[0].servers[i])->choose.failures;
	assert_int_equal(failures, 1);
	finish();
}

static void the_only_server_is_always_tried(void **state)
{
	(void)state;
	script_listen(&origin);
	uint16_t port = origin.port;
	script_join(&origin);
	begin("'servers': [{'url': 'http://127.0.0.1:%u'}]", port);
	for (int i = 0; i < 2; i++) {
		get(&owners[0]);
		owner_run(&owners[0]);
		assert_failed(&owners[0], FETCH_CONNECTION_REFUSED);
		assert_int_equal(fetch_error_status(owners[0].error), 502);
		owner_end(&owners[0]);
	}
	finish();
}

/* A connect that nobody answers: the listener's queue is full. */
static void a_connect_that_hangs_times_out(void **state)
{
	int filling[8];
	struct sock_addr a;

	(void)state;
	script_listen(&origin);
	assert_int_equal(listen(origin.listener, 0), 0);
	assert_int_equal(sock_addr_literal(VIEW("127.0.0.1"), origin.port, &a), 0);
	for (size_t i = 0; i < ARRAY_LEN(filling); i++)
		filling[i] = sock_dial(&a);
	begin("'servers': [{'url': 'http://127.0.0.1:%u'}], 'timeouts': {'connect': '50ms'}",
	      origin.port);
	get(&owners[0]);
	owner_run(&owners[0]);
	assert_failed(&owners[0], FETCH_CONNECTION_TIMEOUT);
	finish();
	for (size_t i = 0; i < ARRAY_LEN(filling); i++)
		close(filling[i]);
	script_join(&origin);
}

/* --- names ---------------------------------------------------------------------------------- */

static void publish(enum shared_state state, const char *first, const char *second)
{
	const struct conf_server *server = &world.conf->origins[0].servers[0];
	struct shared_addresses a = { .identity = shared_identity(server), .state = state };
	const char *const addresses[] = { first, second };

	for (size_t i = 0; i < 2 && addresses[i] != NULL; i++)
		assert_int_equal(
			sock_addr_literal(view_str(addresses[i]), server->port, &a.at[a.count++]), 0);
	shared_publish(world.shared, server->slot, &a);
}

static void publish_later(struct timer *t)
{
	(void)t;
	publish(SHARED_RESOLVED, "127.0.0.2", "127.0.0.1"); /* nobody listens on the first */
}

static void a_name_is_waited_for(void **state)
{
	struct timer t;

	(void)state;
	listen_and_run(&origin, one_answer);
	begin("'servers': [{'url': 'http://name.test:%u'}]", origin.port);
	get(&owners[0]);
	assert_int_equal(timer_open(&t, world.loop, publish_later), 0);
	timer_set(&t, 20);
	owner_run(&owners[0]);
	assert_body(&owners[0], "ok");
	timer_close(&t);
	/* The address that answered comes first from now on. */
	assert_int_equal(pool_server(world.pool, &world.conf->origins[0].servers[0])->good_address, 1);
	finish();
	script_join(&origin);
}

static void a_name_without_address_fails(void **state)
{
	(void)state;
	begin("'servers': [{'url': 'http://name.test:1'}], 'timeouts': {'connect': '30ms'}");
	get(&owners[0]);
	owner_run(&owners[0]);
	assert_failed(&owners[0], FETCH_DNS_TIMEOUT);
	publish(SHARED_NO_SUCH_NAME, NULL, NULL);
	get(&owners[1]);
	owner_run(&owners[1]);
	assert_failed(&owners[1], FETCH_DNS_ERROR);
	finish();
}

/* A slot that came to another server doesn't pass its old addresses on. */
static void addresses_belong_to_their_server(void **state)
{
	struct shared_addresses a;
	struct conf_server other;

	(void)state;
	begin("'servers': [{'url': 'http://name.test:1'}]");
	publish(SHARED_RESOLVED, "127.0.0.1", NULL);
	other = world.conf->origins[0].servers[0];
	shared_lookup(world.shared, &other, &a);
	assert_int_equal(a.state, SHARED_RESOLVED);
	other.url = VIEW("http://else.test:1");
	shared_lookup(world.shared, &other, &a);
	assert_int_equal(a.state, SHARED_PENDING);
	finish();
}

static void the_resolver_resolves(void **state)
{
	struct resolver *r;

	(void)state;
	listen_and_run(&origin, one_answer);
	begin("'servers': [{'url': 'http://localhost:%u'}]", origin.port);
	assert_int_equal(resolver_new(world.shared, world.loop, &r), 0);
	resolver_use(r, world.conf);
	resolver_use(r, world.conf); /* while the first lookup runs */
	get(&owners[0]);
	owner_run(&owners[0]);
	assert_body(&owners[0], "ok");
	resolver_use(r, world.conf);
	resolver_free(r);
	finish();
	script_join(&origin);
}

/* --- max_connections --------------------------------------------------------------------------- */

static void three_answers_on_one_connection(struct script *s)
{
	int fd = hears_client(s);

	for (int i = 0; i < 3; i++) {
		hears_head(s, fd);
		says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	}
	hears_end(fd);
	close(fd);
}

static void fetches_stand_in_line(void **state)
{
	(void)state;
	listen_and_run(&origin, three_answers_on_one_connection);
	begin("'servers': [{'url': 'http://127.0.0.1:%u', 'max_connections': 1}]", origin.port);
	for (int i = 0; i < 3; i++)
		get(&owners[i]);
	for (int i = 0; i < 3; i++)
		owner_run(&owners[i]);
	for (int i = 0; i < 3; i++)
		assert_body(&owners[i], "ok");
	assert_int_equal(shared_open_count(world.shared, 0, 0), 1);
	finish();
	script_join(&origin);
}

static void never_answers(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	hears_end(fd);
	close(fd);
}

static void waiting_has_a_limit_in_time(void **state)
{
	(void)state;
	listen_and_run(&origin, never_answers);
	begin("'servers': [{'url': 'http://127.0.0.1:%u', 'max_connections': 1}],"
	      " 'timeouts': {'connect': '30ms'}",
	      origin.port);
	get(&owners[0]);
	get(&owners[1]);
	owner_run(&owners[1]);
	assert_failed(&owners[1], FETCH_CONNECTION_LIMIT_REACHED);
	assert_int_equal(fetch_error_status(owners[1].error), 503);
	assert_int_equal(owners[0].state, FETCH_STARTING);
	finish();
	script_join(&origin);
}

static void the_line_has_a_limit(void **state)
{
	enum { MANY = 1100 };
	static struct fetch *fetches[MANY];
	struct fetch_request r = { .method = METHOD_GET, .start = VIEW("GET / HTTP/1.1\r\n") };
	struct ready wake;
	unsigned failed = 0;

	(void)state;
	listen_and_run(&origin, never_answers);
	begin("'servers': [{'url': 'http://127.0.0.1:%u', 'max_connections': 1}]", origin.port);
	r.conf = world.conf;
	r.origin = &world.conf->origins[0];
	ready_init(&wake, world.loop, ready_cancel); /* told, but not interested */
	for (int i = 0; i < MANY; i++)
		assert_int_equal(fetch_new(world.pool, &r, &wake, &fetches[i]), 0);
	run_for_ms(&world, 1);
	for (int i = 0; i < MANY; i++)
		failed += fetch_state(fetches[i]) == FETCH_FAILED;
	assert_int_equal(failed, MANY - 1 - 1024);
	for (int i = 0; i < MANY; i++)
		fetch_free(&fetches[i]);
	ready_cancel(&wake);
	finish();
	script_join(&origin);
}

/* --- two workers ------------------------------------------------------------------------------ */

static void two_connections(struct script *s)
{
	for (int i = 0; i < 2; i++) {
		int fd = hears_client(s);
		hears_head(s, fd);
		says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
		hears_end(fd);
		close(fd);
	}
}

/* Both pools live in this process and loop; they know of each other through shared memory alone. */
static void an_idle_connection_is_given_up_for_another_worker(void **state)
{
	struct world second;

	(void)state;
	listen_and_run(&origin, two_connections);
	begin("'servers': [{'url': 'http://127.0.0.1:%u', 'max_connections': 1}]", origin.port);
	world_join(&second, &world, 1);
	get(&owners[0]);
	owner_run(&owners[0]);
	assert_int_equal(shared_open_count(world.shared, 0, 0), 1);
	owner_begin(&owners[1], &second, &(struct fetch_request){ .method = METHOD_GET });
	owner_run(&owners[1]);
	assert_body(&owners[1], "ok");
	assert_int_equal(shared_open_count(world.shared, 0, 0), 0);
	assert_int_equal(shared_open_count(world.shared, 0, 1), 1);
	owner_end(&owners[1]);
	world_leave(&second);
	finish();
	script_join(&origin);
}

static void the_share_of_a_dead_worker_is_freed(void **state)
{
	const struct conf_server *server;
	struct world successor;

	(void)state;
	listen_and_run(&origin, one_answer);
	begin("'servers': [{'url': 'http://127.0.0.1:%u', 'max_connections': 1}]", origin.port);
	server = &world.conf->origins[0].servers[0];
	assert_true(shared_open(world.shared, server, 5)); /* worker 5 dies with this */
	get(&owners[0]);
	run_for_ms(&world, 1);
	assert_int_equal(owners[0].state, FETCH_STARTING);
	world_join(&successor, &world, 5);
	owner_run(&owners[0]);
	assert_body(&owners[0], "ok");
	world_leave(&successor);
	finish();
	script_join(&origin);
}

/* Answers whatever comes until told to stop; «heard_bytes» is the most connections at once. What
 * ended is looked at before what is new: a client may close one and then open the next. */
static void serves_all(struct script *s)
{
	struct pollfd fds[16] = { { .fd = s->listener, .events = POLLIN } };
	nfds_t n = 1;
	char bytes[4096];

	while (sem_trywait(&s->gate) != 0) {
		if (poll(fds, n, 10) <= 0)
			continue;
		for (nfds_t i = n; i-- > 1;) {
			if (fds[i].revents == 0)
				continue;
			if (read(fds[i].fd, bytes, sizeof(bytes)) > 0) {
				says(fds[i].fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
				continue;
			}
			close(fds[i].fd);
			fds[i] = fds[--n];
		}
		if (fds[0].revents & POLLIN && n < ARRAY_LEN(fds))
			fds[n++] = (struct pollfd){ .fd = hears_client(s), .events = POLLIN };
		if (n - 1 > s->heard_bytes)
			s->heard_bytes = n - 1;
	}
	while (n > 1)
		close(fds[--n].fd);
}

enum { EACH = 40, TIMES = 5 };

/* A busy worker that has all connections lets the other have its share. */
static void workers_share_what_there_is(void **state)
{
	static struct owner busy[2][EACH];
	struct world second, *const both[2] = { &world, &second };

	(void)state;
	listen_and_run(&origin, serves_all);
	begin("'servers': [{'url': 'http://127.0.0.1:%u', 'max_connections': 4}]", origin.port);
	world_join(&second, &world, 1);
	for (int round = 0; round < TIMES; round++) {
		for (int i = 0; i < 2 * EACH; i++) /* worker 0 first, all of them */
			owner_begin(&busy[i / EACH][i % EACH], both[i / EACH],
				    &(struct fetch_request){ .method = METHOD_GET });
		for (int i = 0; i < 2 * EACH; i++)
			owner_run(&busy[i / EACH][i % EACH]);
		for (int i = 0; i < 2 * EACH; i++) {
			assert_body(&busy[i / EACH][i % EACH], "ok");
			owner_end(&busy[i / EACH][i % EACH]);
		}
	}
	sem_post(&origin.gate);
	world_leave(&second);
	finish();
	script_join(&origin);
	assert_true(origin.heard_bytes <= 4); /* the most that were open at once */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusal_goes_to_the_next_server),
		cmocka_unit_test(retries_are_counted),
		cmocka_unit_test(the_only_server_is_always_tried),
		cmocka_unit_test(a_connect_that_hangs_times_out),
		cmocka_unit_test(a_name_is_waited_for),
		cmocka_unit_test(a_name_without_address_fails),
		cmocka_unit_test(addresses_belong_to_their_server),
		cmocka_unit_test(the_resolver_resolves),
		cmocka_unit_test(fetches_stand_in_line),
		cmocka_unit_test(waiting_has_a_limit_in_time),
		cmocka_unit_test(the_line_has_a_limit),
		cmocka_unit_test(an_idle_connection_is_given_up_for_another_worker),
		cmocka_unit_test(the_share_of_a_dead_worker_is_freed),
		cmocka_unit_test(workers_share_what_there_is),
	};

	alarm(100); /* a script and a fetch that wait for each other */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
