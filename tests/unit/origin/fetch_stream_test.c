/* Changes of protocol: which 101 is an agreement, and the stream that follows. */
#include "tests/unit/origin/testing.h"

#include "edge/base/io.h"

static struct script origin;
static struct world world;
static struct owner owner;
static const char *answer;

static void answers(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, answer);
	sem_wait(&s->gate);
	close(fd);
}

static void ask(const char *upgrade, const char *with)
{
	char members[128];

	owner = (struct owner){ .head_only = true };
	answer = with;
	script_listen(&origin);
	script_start(&origin, answers);
	(void)snprintf(members, sizeof(members), "'servers': [{'url': 'http://127.0.0.1:%u'}]",
		       origin.port);
	world_begin(&world, members);
	owner_begin(&owner, &world,
		    &(struct fetch_request){
			    .method = METHOD_GET, .host = VIEW("a"), .upgrade = view_str(upgrade) });
	while (owner.state == FETCH_STARTING)
		loop_run(world.loop);
}

static void end(void)
{
	sem_post(&origin.gate);
	owner_end(&owner);
	world_end(&world);
	script_join(&origin);
}

static void assert_refused(const char *upgrade, const char *with)
{
	ask(upgrade, with);
	assert_int_equal(owner.state, FETCH_FAILED);
	assert_int_equal(owner.error, FETCH_PROTOCOL_ERROR);
	end();
}

#define SWITCH "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"

static void a_101_that_was_not_asked_for_is_refused(void **state)
{
	(void)state;
	assert_refused("", SWITCH "Upgrade: websocket\r\n\r\n");
	assert_refused("websocket", SWITCH "Upgrade: tls\r\n\r\n");
	assert_refused("websocket", SWITCH "\r\n");
	assert_refused("websocket", SWITCH "Upgrade: websocket, tls\r\n\r\n");
	assert_refused("websocket", SWITCH "Upgrade: websocket\r\nUpgrade: tls\r\n\r\n");
}

static void the_stream_begins_with_what_came_along(void **state)
{
	struct view early;
	char bytes[16];

	(void)state;
	ask("chat, websocket", SWITCH "Upgrade: WebSocket\r\n\r\nearly");
	assert_int_equal(owner.state, FETCH_SWITCHED);
	assert_string_equal(origin.heard, "GET / HTTP/1.1\r\nHost: a\r\nConnection: "
					  "upgrade\r\nUpgrade: chat, websocket\r\n\r\n");
	struct io *io = fetch_stream(owner.fetch, &early);
	assert_int_equal(early.n, 5);
	assert_memory_equal(early.p, "early", 5);
	fetch_stream_took(owner.fetch, 2);
	assert_ptr_equal(fetch_stream(owner.fetch, &early), io);
	assert_memory_equal(early.p, "rly", 3);
	fetch_stream_took(owner.fetch, 3);
	assert_int_equal(io->ops->read(io, bytes, sizeof(bytes)), -EAGAIN);
	fetch_stream_want(owner.fetch, WATCH_READ);
	sem_post(&origin.gate);
	loop_run(world.loop); /* the origin's end wakes the owner */
	assert_int_equal(io->ops->read(io, bytes, sizeof(bytes)), 0);
	end();
}

static void another_answer_is_one_like_others(void **state)
{
	(void)state;
	ask("websocket", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno");
	assert_int_equal(owner.state, FETCH_HEAD);
	owner.head_only = false;
	ready_post(&owner.wake);
	owner_run(&owner);
	assert_body(&owner, "no");
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_101_that_was_not_asked_for_is_refused),
		cmocka_unit_test(the_stream_begins_with_what_came_along),
		cmocka_unit_test(another_answer_is_one_like_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
