/* Fetches against scripted origins: framings, reuse, retry, early answers, what breaks and how. */
#include "tests/unit/origin/testing.h"

static struct script origin;
static struct world world;
static struct owner owner;

static void begin_with(void (*run)(struct script *s), const char *more)
{
	char members[512];

	owner = (struct owner){ 0 };
	script_listen(&origin);
	script_start(&origin, run);
	(void)snprintf(members, sizeof(members), "'servers': [{'url': 'http://127.0.0.1:%u'}]%s",
		       origin.port, more);
	world_begin(&world, members);
}

static void begin(void (*run)(struct script *s))
{
	begin_with(run, "");
}

static void end(void)
{
	owner_end(&owner);
	world_end(&world);
	script_join(&origin);
}

static unsigned idle_connections(void)
{
	unsigned idle, busy;

	origin_pool_counts(world.pool, &idle, &busy);
	assert_int_equal(busy, 0);
	return idle;
}

static void assert_failed(enum fetch_error e)
{
	assert_int_equal(owner.state, FETCH_FAILED);
	assert_string_equal(fetch_error_type(owner.error), fetch_error_type(e));
	assert_int_equal(idle_connections(), 0);
}

/* --- plain answers ----------------------------------------------------------------------------- */

static void two_on_one_connection(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nfirst");
	hears_head(s, fd);
	says(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\nsecond");
	hears_end(fd);
	close(fd);
}

static void a_connection_is_used_again(void **state)
{
	(void)state;
	begin(two_on_one_connection);
	owner_begin(&owner, &world,
		    &(struct fetch_request){ .method = METHOD_GET,
					     .start = VIEW("GET /x HTTP/1.1\r\n"),
					     .fields = VIEW("Via: 1.1 brim\r\n"),
					     .host = VIEW("shop.example") });
	owner_run(&owner);
	assert_body(&owner, "first");
	assert_int_equal(owner.status, 200);
	assert_string_equal(origin.heard,
			    "GET /x HTTP/1.1\r\nHost: shop.example\r\nVia: 1.1 brim\r\n\r\n");
	const struct http_response *r = fetch_response(owner.fetch);
	assert_memory_equal(r->fields.at[1].value.p, "b", 1);
	assert_true(fetch_sent_at(owner.fetch).ms > 0 && fetch_received_at(owner.fetch).ms > 0);
	assert_int_equal(idle_connections(), 1);
	owner_end(&owner);
	owner_get(&owner, &world);
	assert_body(&owner, "second");
	char expected[128];
	(void)snprintf(expected, sizeof(expected), "GET / HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n",
		       origin.port);
	assert_string_equal(origin.heard, expected); /* no host given: the server's */
	end();
}

static void closes_after_the_answer(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
	hears_end(fd);
	close(fd);
}

static void close_is_honoured(void **state)
{
	(void)state;
	begin(closes_after_the_answer);
	owner_get(&owner, &world);
	assert_body(&owner, "ok");
	assert_int_equal(idle_connections(), 0);
	end();
}

static void delimited_by_close(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.0 200 OK\r\n\r\nup to ");
	sem_wait(&s->gate);
	says(fd, "the end");
	close(fd);
}

static void close_ends_a_body(void **state)
{
	(void)state;
	begin(delimited_by_close);
	sem_post(&origin.gate);
	owner_get(&owner, &world);
	assert_body(&owner, "up to the end");
	end();
}

static void reset_in_place_of_close(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.0 200 OK\r\n\r\nup to ");
	sem_wait(&s->gate);
	resets(fd);
}

static void a_reset_proves_nothing(void **state)
{
	(void)state;
	begin(reset_in_place_of_close);
	owner.head_only = true;
	owner_get(&owner, &world);
	sem_post(&origin.gate);
	owner.head_only = false;
	ready_post(&owner.wake);
	owner_run(&owner);
	assert_failed(FETCH_RESPONSE_INCOMPLETE);
	end();
}

static void no_body_at_all(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
	hears_head(s, fd);
	says(fd, "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n");
	hears_end(fd);
	close(fd);
}

static void head_and_304_have_no_body(void **state)
{
	(void)state;
	begin(no_body_at_all);
	owner_begin(&owner, &world, &(struct fetch_request){ .method = METHOD_HEAD });
	owner_run(&owner);
	assert_body(&owner, "");
	owner_end(&owner);
	owner_get(&owner, &world);
	assert_body(&owner, "");
	assert_int_equal(owner.status, 304);
	assert_int_equal(idle_connections(), 1);
	end();
}

/* --- large bodies ------------------------------------------------------------------------------- */

enum { LARGE = 3 << 20 };
static char large[LARGE];

static void fill_large(void)
{
	for (size_t i = 0; i < LARGE; i++)
		large[i] = (char)(i * 2654435761u >> 13);
}

static void large_by_length(struct script *s)
{
	char head[128];
	int fd = hears_client(s);

	hears_head(s, fd);
	(void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", LARGE);
	says(fd, head);
	says_bytes(fd, large, LARGE);
	hears_end(fd);
	close(fd);
}

static void assert_large(void)
{
	assert_int_equal(owner.state, FETCH_ENDED);
	assert_int_equal(owner.body_bytes, LARGE);
	assert_memory_equal(owner.body, large, LARGE);
	assert_int_equal(idle_connections(), 1);
}

static void a_large_body_is_spliced(void **state)
{
	(void)state;
	begin(large_by_length);
	owner_get(&owner, &world);
	assert_large();
	assert_true(owner.spliced_bytes > LARGE - 64 * 1024);
	end();
}

static void a_large_body_is_read(void **state)
{
	(void)state;
	begin(large_by_length);
	owner.by_read = true;
	owner_get(&owner, &world);
	assert_large();
	end();
}

static void says_chunks(int fd, size_t chunk_bytes)
{
	char line[32];

	for (size_t at = 0; at < LARGE; at += chunk_bytes) {
		size_t n = LARGE - at < chunk_bytes ? LARGE - at : chunk_bytes;
		(void)snprintf(line, sizeof(line), "%zx\r\n", n);
		says(fd, line);
		says_bytes(fd, large + at, n);
		says(fd, "\r\n");
	}
}

static void large_chunks(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	says_chunks(fd, 100000);
	says(fd, "0\r\nX-Sum: 1");
	says(fd, "7\r\nX-End: y\r\n\r\n");
	hears_end(fd);
	close(fd);
}

static void large_chunks_are_spliced(void **state)
{
	(void)state;
	begin(large_chunks);
	owner_get(&owner, &world);
	assert_large();
	assert_true(owner.spliced_bytes > LARGE * 9 / 10);
	struct view trailers = fetch_trailers(owner.fetch);
	assert_true(view_eq(trailers, VIEW("X-Sum: 17\r\nX-End: y\r\n")));
	end();
}

static void small_chunks(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	says_chunks(fd, 1000);
	says(fd, "0\r\n\r\n");
	hears_end(fd);
	close(fd);
}

static void small_chunks_are_read(void **state)
{
	(void)state;
	begin(small_chunks);
	owner_get(&owner, &world);
	assert_large();
	assert_int_equal(owner.spliced_bytes, 0);
	assert_int_equal(fetch_trailers(owner.fetch).n, 0);
	end();
}

/* The pipe is full, not the socket empty: the owner must know which. */
static void a_full_pipe_is_told(void **state)
{
	int64_t n;

	(void)state;
	begin(large_by_length);
	owner.head_only = true;
	owner_get(&owner, &world);
	struct view v;
	while (fetch_body_next(owner.fetch, &v) == FETCH_BODY_MEMORY)
		fetch_body_took(owner.fetch, v.n);
	owner.pipe = pipe_take(&world.pipes);
	struct pollfd p = { .fd = owner.pipe->write_fd, .events = POLLOUT };
	while (poll(&p, 1, 0) == 1 && write(p.fd, large, 4096) > 0)
		continue;
	while ((n = fetch_body_splice(owner.fetch, owner.pipe->write_fd, LARGE)) == 0)
		continue;
	assert_int_equal(n, -EXFULL);
	owner.pipe->held_bytes = owner.pipe->capacity_bytes;
	end();
}

/* --- what breaks -------------------------------------------------------------------------------- */

static const char *answer;
static void answers_and_closes(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, answer);
	close(fd);
}

static void bodies_cut_short_fail(void **state)
{
	static const char *const cut[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n0\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50000\r\nshort",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cut); i++) {
		answer = cut[i];
		begin(answers_and_closes);
		owner_get(&owner, &world);
		assert_failed(FETCH_RESPONSE_INCOMPLETE);
		end();
	}
}

static void bytes_too_many_fail(void **state)
{
	static const char *const extra[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nx",
		"HTTP/1.1 204 No Content\r\n\r\nbody",
		"HTTP/1.1 304 Not Modified\r\n\r\nbody",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(extra); i++) {
		answer = extra[i];
		begin(answers_and_closes);
		owner_get(&owner, &world);
		assert_failed(FETCH_PROTOCOL_ERROR);
		end();
	}
}

static void bad_heads_fail(void **state)
{
	static const struct {
		const char *answer;
		enum fetch_error error;
	} bad[] = {
		{ "nonsense\r\n\r\n", FETCH_PROTOCOL_ERROR },
		{ "HTTP/1.1 101 Switching\r\n\r\n", FETCH_PROTOCOL_ERROR },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		  FETCH_PROTOCOL_ERROR },
		{ "HTTP/1.1 200 OK\r\nX: y", FETCH_RESPONSE_INCOMPLETE },
		{ "", FETCH_CONNECTION_TERMINATED },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		answer = bad[i].answer;
		begin(answers_and_closes);
		owner_get(&owner, &world);
		assert_failed(bad[i].error);
		end();
	}
}

static void endless_head(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\n");
	for (int i = 0; i < 5000; i++) {
		if (send(fd, "X-Filler: 0123456789012345678901234567890123456789\r\n", 52,
			 MSG_NOSIGNAL) < 0)
			break;
	}
	close(fd);
}

static void an_endless_head_fails(void **state)
{
	(void)state;
	begin(endless_head);
	owner_get(&owner, &world);
	assert_failed(FETCH_HEAD_TOO_LARGE);
	end();
}

static void large_head(struct script *s)
{
	static char value[50000];
	int fd = hears_client(s);

	memset(value, 'v', sizeof(value) - 1);
	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Large: ");
	says(fd, value);
	says(fd, "\r\n\r\nok");
	hears_end(fd);
	close(fd);
}

static void a_large_head_is_taken(void **state)
{
	(void)state;
	begin(large_head);
	owner_get(&owner, &world);
	assert_body(&owner, "ok");
	assert_int_equal(fetch_response(owner.fetch)->fields.at[1].value.n, 49999);
	end();
}

/* --- idle connections that die ----------------------------------------------------------------- */

static void dies_while_kept(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
	hears_head(s, fd); /* the next request: died before the answer */
	resets(fd);
	fd = hears_client(s);
	if (fd < 0)
		return;
	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
	hears_end(fd);
	close(fd);
}

static void a_dead_kept_connection_is_retried(void **state)
{
	(void)state;
	begin(dies_while_kept);
	owner_get(&owner, &world);
	assert_body(&owner, "1");
	owner_end(&owner);
	owner_get(&owner, &world);
	assert_body(&owner, "2");
	end();
}

static void dies_while_kept_for_good(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
	hears_head(s, fd);
	resets(fd);
}

static void a_post_is_not_retried(void **state)
{
	(void)state;
	begin(dies_while_kept_for_good);
	owner_get(&owner, &world);
	owner_end(&owner);
	owner.upload = "x";
	owner.upload_bytes = 1;
	owner_begin(&owner, &world,
		    &(struct fetch_request){ .method = METHOD_POST,
					     .start = VIEW("POST / HTTP/1.1\r\n"),
					     .body = FRAMING_LENGTH,
					     .body_bytes = 1 });
	owner_run(&owner);
	assert_failed(FETCH_CONNECTION_TERMINATED);
	end();
}

static void speaks_unasked(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
	sem_wait(&s->gate);
	says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
	hears_end(fd);
	close(fd);
	fd = hears_client(s);
	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
	hears_end(fd);
	close(fd);
}

static void bytes_on_an_idle_connection_close_it(void **state)
{
	(void)state;
	begin(speaks_unasked);
	owner_get(&owner, &world);
	assert_int_equal(idle_connections(), 1);
	owner_end(&owner);
	sem_post(&origin.gate);
	run_until_idle(&world, 0);
	owner_get(&owner, &world);
	assert_body(&owner, "good");
	end();
}

static void idle_connections_time_out(void **state)
{
	(void)state;
	begin_with(two_on_one_connection, ", 'keepalive': {'idle_timeout': '20ms'}");
	owner_get(&owner, &world);
	assert_int_equal(idle_connections(), 1);
	run_until_idle(&world, 0);
	end();
}

/* --- 1xx, bodies of requests, early answers ------------------------------------------------------ */

static void hints_first(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
		 "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	hears_end(fd);
	close(fd);
}

static void interim_heads_are_skipped_or_handed_over(void **state)
{
	(void)state;
	for (int wants = 0; wants < 2; wants++) {
		begin(hints_first);
		owner_begin(&owner, &world,
			    &(struct fetch_request){ .method = METHOD_GET, .wants_interim = wants });
		owner_run(&owner);
		assert_body(&owner, "ok");
		assert_int_equal(owner.interims, wants ? 2 : 0);
		assert_string_equal(owner.interim_field, wants ? "103 </a>" : "");
		assert_int_equal(idle_connections(), 1);
		end();
	}
}

static void hints_for_ever(struct script *s)
{
	static const char hint[] = "HTTP/1.1 103 Early Hints\r\n\r\n";
	int fd = hears_client(s);

	hears_head(s, fd);
	while (send(fd, hint, sizeof(hint) - 1, MSG_NOSIGNAL) > 0)
		continue;
	close(fd);
}

static void endless_interim_heads_fail(void **state)
{
	(void)state;
	begin(hints_for_ever);
	owner_get(&owner, &world);
	assert_failed(FETCH_PROTOCOL_ERROR);
	end();
}

static void hears_upload(struct script *s)
{
	int fd = hears_client(s);

	hears_until(s, fd, "last byte");
	says(fd, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");
	hears_end(fd);
	close(fd);
}

static void a_body_goes_with_the_head(void **state)
{
	(void)state;
	begin(hears_upload);
	owner.upload = "last byte";
	owner.upload_bytes = 9;
	owner_begin(&owner, &world,
		    &(struct fetch_request){ .method = METHOD_POST,
					     .start = VIEW("POST /u HTTP/1.1\r\n"),
					     .host = VIEW("h"),
					     .body = FRAMING_LENGTH,
					     .body_bytes = 9 });
	owner_run(&owner);
	assert_body(&owner, "ok");
	assert_string_equal(origin.heard,
			    "POST /u HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nlast byte");
	assert_int_equal(idle_connections(), 1);
	end();
}

static void hears_chunks(struct script *s)
{
	int fd = hears_client(s);

	hears_until(s, fd, "0\r\n\r\n");
	says(fd, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");
	hears_end(fd);
	close(fd);
}

static void a_chunked_body_is_framed(void **state)
{
	(void)state;
	begin(hears_chunks);
	owner.upload = "eleven byte";
	owner.upload_bytes = 11;
	owner_begin(&owner, &world,
		    &(struct fetch_request){ .method = METHOD_PUT,
					     .start = VIEW("PUT /u HTTP/1.1\r\n"),
					     .host = VIEW("h"),
					     .body = FRAMING_CHUNKED });
	owner_run(&owner);
	assert_body(&owner, "ok");
	assert_string_equal(origin.heard,
			    "PUT /u HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
			    "b\r\neleven byte\r\n0\r\n\r\n");
	assert_int_equal(idle_connections(), 1);
	end();
}

static void hears_large_upload(struct script *s)
{
	static char bytes[65536];
	size_t all = 0;
	int fd = hears_client(s);

	hears_head(s, fd);
	all = s->heard_bytes - (size_t)(strstr(s->heard, "\r\n\r\n") + 4 - s->heard);
	while (all < LARGE) {
		ssize_t n = read(fd, bytes, sizeof(bytes));
		if (n <= 0 || memcmp(bytes, large + all, (size_t)n) != 0)
			break;
		all += (size_t)n;
	}
	says(fd, all == LARGE ? "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" : "bad");
	hears_end(fd);
	close(fd);
}

static void a_large_body_is_sent(void **state)
{
	(void)state;
	begin(hears_large_upload);
	owner.upload = large;
	owner.upload_bytes = LARGE;
	owner_begin(&owner, &world,
		    &(struct fetch_request){ .method = METHOD_POST,
					     .start = VIEW("POST / HTTP/1.1\r\n"),
					     .body = FRAMING_LENGTH,
					     .body_bytes = LARGE });
	owner_run(&owner);
	assert_body(&owner, "ok");
	end();
}

static void answers_early(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!");
	hears_until(s, fd, "never comes"); /* until the client hangs up */
	close(fd);
}

static void an_early_answer_ends_the_upload(void **state)
{
	(void)state;
	begin(answers_early);
	owner_begin(&owner, &world,
		    &(struct fetch_request){ .method = METHOD_POST,
					     .start = VIEW("POST / HTTP/1.1\r\n"),
					     .body = FRAMING_LENGTH,
					     .body_bytes = 100 });
	owner_run(&owner);
	assert_body(&owner, "no!");
	assert_int_equal(owner.status, 413);
	assert_true(fetch_send(owner.fetch, "x", 1) < 0);
	assert_int_equal(idle_connections(), 0);
	end();
}

static void answers_and_resets(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!");
	resets(fd);
}

/* The origin hung up on the body, but had said why. */
static void an_answer_before_a_reset_is_heard(void **state)
{
	(void)state;
	begin(answers_and_resets);
	owner.upload = large;
	owner.upload_bytes = LARGE;
	owner_begin(&owner, &world,
		    &(struct fetch_request){ .method = METHOD_POST,
					     .start = VIEW("POST / HTTP/1.1\r\n"),
					     .body = FRAMING_LENGTH,
					     .body_bytes = LARGE });
	owner_run(&owner);
	assert_body(&owner, "no!");
	assert_int_equal(idle_connections(), 0);
	end();
}

/* --- timeouts ------------------------------------------------------------------------------------ */

static void says_nothing(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	hears_end(fd);
	close(fd);
}

static void no_answer_times_out(void **state)
{
	(void)state;
	begin_with(says_nothing, ", 'timeouts': {'first_byte': '30ms'}");
	owner_get(&owner, &world);
	assert_failed(FETCH_RESPONSE_TIMEOUT);
	assert_int_equal(fetch_error_status(owner.error), 504);
	end();
}

static void stalls_in_the_body(struct script *s)
{
	int fd = hears_client(s);

	hears_head(s, fd);
	says(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
	hears_end(fd);
	close(fd);
}

static void a_stalled_body_times_out(void **state)
{
	(void)state;
	begin_with(stalls_in_the_body, ", 'timeouts': {'between_bytes': '30ms'}");
	owner_get(&owner, &world);
	assert_failed(FETCH_READ_TIMEOUT);
	assert_int_equal(owner.status, 200);
	end();
}

static void a_pause_stops_the_clock(void **state)
{
	struct view v;

	(void)state;
	begin_with(stalls_in_the_body, ", 'timeouts': {'between_bytes': '10ms'}");
	owner.head_only = true;
	owner_get(&owner, &world);
	assert_int_equal(fetch_body_next(owner.fetch, &v), FETCH_BODY_MEMORY);
	fetch_body_took(owner.fetch, v.n);
	assert_int_equal(fetch_body_left(owner.fetch), 6);
	assert_int_equal(fetch_body_next(owner.fetch, &v), FETCH_BODY_AGAIN);
	fetch_pause(owner.fetch);
	run_for_ms(&world, 40);
	assert_int_equal(fetch_state(owner.fetch), FETCH_HEAD);
	owner.head_only = false;
	owner.state = FETCH_STARTING;
	ready_post(&owner.wake);
	owner_run(&owner);
	assert_failed(FETCH_READ_TIMEOUT);
	end();
}

static void takes_nothing(struct script *s)
{
	int fd = hears_client(s);

	sem_wait(&s->gate);
	close(fd);
}

static void an_origin_that_takes_nothing_times_out(void **state)
{
	char *huge = calloc(1, 64 << 20);

	(void)state;
	begin_with(takes_nothing, ", 'timeouts': {'between_bytes': '30ms'}");
	owner.upload = huge;
	owner.upload_bytes = 64 << 20;
	owner_begin(&owner, &world,
		    &(struct fetch_request){ .method = METHOD_POST,
					     .start = VIEW("POST / HTTP/1.1\r\n"),
					     .body = FRAMING_LENGTH,
					     .body_bytes = 64 << 20 });
	owner_run(&owner);
	assert_failed(FETCH_WRITE_TIMEOUT);
	sem_post(&origin.gate);
	end();
	free(huge);
}

/* --- freed halfway --------------------------------------------------------------------------------- */

static void freed_halfway_closes(void **state)
{
	(void)state;
	begin(large_by_length);
	owner.head_only = true;
	owner_get(&owner, &world);
	owner_end(&owner);
	assert_int_equal(idle_connections(), 0);
	owner_begin(&owner, &world, &(struct fetch_request){ .method = METHOD_GET }); /* never runs */
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_is_used_again),
		cmocka_unit_test(close_is_honoured),
		cmocka_unit_test(close_ends_a_body),
		cmocka_unit_test(a_reset_proves_nothing),
		cmocka_unit_test(head_and_304_have_no_body),
		cmocka_unit_test(a_large_body_is_spliced),
		cmocka_unit_test(a_large_body_is_read),
		cmocka_unit_test(large_chunks_are_spliced),
		cmocka_unit_test(small_chunks_are_read),
		cmocka_unit_test(a_full_pipe_is_told),
		cmocka_unit_test(bodies_cut_short_fail),
		cmocka_unit_test(bytes_too_many_fail),
		cmocka_unit_test(bad_heads_fail),
		cmocka_unit_test(an_endless_head_fails),
		cmocka_unit_test(a_large_head_is_taken),
		cmocka_unit_test(a_dead_kept_connection_is_retried),
		cmocka_unit_test(a_post_is_not_retried),
		cmocka_unit_test(bytes_on_an_idle_connection_close_it),
		cmocka_unit_test(idle_connections_time_out),
		cmocka_unit_test(interim_heads_are_skipped_or_handed_over),
		cmocka_unit_test(endless_interim_heads_fail),
		cmocka_unit_test(a_body_goes_with_the_head),
		cmocka_unit_test(a_chunked_body_is_framed),
		cmocka_unit_test(a_large_body_is_sent),
		cmocka_unit_test(an_early_answer_ends_the_upload),
		cmocka_unit_test(an_answer_before_a_reset_is_heard),
		cmocka_unit_test(no_answer_times_out),
		cmocka_unit_test(a_stalled_body_times_out),
		cmocka_unit_test(a_pause_stops_the_clock),
		cmocka_unit_test(an_origin_that_takes_nothing_times_out),
		cmocka_unit_test(freed_halfway_closes),
	};

	alarm(100); /* a script and a fetch that wait for each other */
	fill_large();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
